"""The history of a key of a view: each change, when it came, and the input rows that caused it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl

from evercurrent.core.data.schema import DIFF, EPOCH

from ...compiler.builder import Compiled
from ...plan.nodes import PlanId
from ...plan.plan import Plan
from ...plan.shapes import InTurn
from ..tables import on_one_line
from .changed import Changes, KeptChanges
from .drawing import Box, Drawing, shown_rows
from .lineage import end_name
from .traces import UntraceableError, traced

TIME = "processing_time"
REDEFINED = "the view was declared or replaced in this epoch, and filled"


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """The change of one epoch: the rows that came and went, and the rows of sources or views that caused it, by name.

    ``why`` is what came in place of rows, where none caused it, or why the rows are not known.
    """

    epoch: int
    processing_time: datetime | None
    rows: pl.DataFrame
    causes: Mapping[str, pl.DataFrame]
    why: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class History(Sequence[Change]):
    """The changes of some rows of a view, the oldest first.

    ``frame()`` has all of them in one frame; ``text()``, ``mermaid()`` and ``svg()`` draw each with what caused it.
    ``remarks`` name which changes or causes are no longer kept, and what would keep them.
    """

    view: str
    key: Mapping[str, object]
    changes: tuple[Change, ...]
    schema: pl.Schema = field(repr=False)
    remarks: tuple[str, ...] = ()

    def __getitem__(self, place: int) -> Change:  # type: ignore[override]
        """Return a change by its place."""
        return self.changes[place]

    def __len__(self) -> int:
        """Return how many epochs have changed the rows."""
        return len(self.changes)

    def frame(self) -> pl.DataFrame:
        """Return the changes as one frame: ``_epoch``, ``processing_time``, ``_diff`` and the columns of the view."""
        columns = pl.Schema(
            {EPOCH: pl.UInt64(), TIME: pl.Datetime("us", "UTC"), DIFF: pl.Int64(), **self.schema}
        )
        return pl.concat(
            [
                columns.to_frame(),
                *(
                    change.rows.with_columns(
                        pl.lit(change.epoch, pl.UInt64).alias(EPOCH),
                        pl.lit(change.processing_time, pl.Datetime("us", "UTC")).alias(TIME),
                    ).select(columns.names())
                    for change in self.changes
                ),
            ]
        )

    def text(self) -> str:
        """Return a paragraph for each change."""
        lines = [self._title]
        for change in self.changes:
            lines.append(_head(change))
            lines += [f"  {_signed(line)}" for line in shown_rows(_all_signed(change.rows), most=10)]
            for name, rows in change.causes.items():
                lines += [f"    by {name}: {line}" for line in shown_rows(rows)]
            lines += [f"    {change.why}"] if change.why else []
        return "\n".join([*map(on_one_line, lines), *self.remarks])

    @property
    def _title(self) -> str:
        key = ", ".join(f"{name} {value}" for name, value in self.key.items())
        return f"history of {key} in view {self.view}"

    def mermaid(self) -> str:
        """Return a Mermaid flowchart: the changes one after the other, and what caused each."""
        return self.drawing().mermaid()

    def svg(self) -> str:
        """Return the same as a self-contained SVG."""
        from .pictures import row_by_row  # Imported here, as only drawings need it.

        return row_by_row(self.drawing())

    def drawing(self) -> Drawing:
        """Return a box for each change, with an arrow from the one before and from each of its causes."""
        boxes, edges = [], []
        for number, change in enumerate(self.changes):
            lines = [*shown_rows(_all_signed(change.rows), most=6), *([change.why] if change.why else [])]
            boxes.append(Box(f"c{number}", _head(change), tuple(lines)))
            for at, (name, rows) in enumerate(change.causes.items()):
                boxes.append(Box(f"c{number}s{at}", name, shown_rows(rows), is_end=True))
                edges.append((f"c{number}s{at}", f"c{number}"))
            if number:
                edges.append((f"c{number - 1}", f"c{number}"))
        return Drawing(self._title, tuple(boxes), tuple(edges), "LR")

    def __repr__(self) -> str:
        """Show the text."""
        return self.text()

    def _repr_html_(self) -> str:
        """Show the drawing in notebooks."""
        return self.svg()


def _without_rows(plan: Plan, behind: Sequence[PlanId], epoch: int, watermarks: Mapping[int, str]) -> str:
    """Return what may change the rows of a view in an epoch that brings none: time, or another definition of the view."""
    if not any(at in plan.windowed or isinstance(plan[at].operation.shape, InTurn) for at in behind):
        return REDEFINED
    earlier = max((each for each in watermarks if each < epoch), default=None)
    if epoch in watermarks and (earlier is None or watermarks[earlier] != watermarks[epoch]):
        return f"time has passed, {watermarks[epoch]}"
    return f"processing time has passed, or {REDEFINED}"


def _head(change: Change) -> str:
    at = "" if change.processing_time is None else f", {change.processing_time:%Y-%m-%d %H:%M:%S}"
    return f"epoch {change.epoch}{at}"


def _all_signed(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that go before those that come, for whoever reads them as one change into the other."""
    return rows.sort(DIFF, maintain_order=True)


def _signed(line: str) -> str:
    return line if line[:1] in "+-" else f"+1 {line}"


@dataclass(frozen=True, slots=True, eq=False)
class RowChanges:
    """What a history is made of: the view, the values of its rows, their changes by epoch, and the times of epochs."""

    view: str
    key: Mapping[str, object]
    rows: Mapping[int, pl.DataFrame]
    times: Mapping[int, datetime]
    watermarks: Mapping[int, str]
    begins: int
    """The epoch after which changes are kept."""
    first: int
    """The first epoch of the present definition of the view; 0 if there was no other."""
    recorded_from: int | None
    """The epoch from which on rows of sources are recorded; None if they are not."""


def history(plan: Plan, compiled: Compiled, kept_changes: KeptChanges, row_changes: RowChanges) -> History:
    """Return the history of these rows. Cost: the changes of the stages that are kept."""
    place = plan.views[row_changes.view]
    behind = sorted(plan.behind(place))
    changes, remarks = [], dict[str, None]()
    if 0 < row_changes.begins < row_changes.first:
        remarks[
            f"the view was declared or replaced in epoch {row_changes.first}; it has no changes before"
        ] = None
    elif row_changes.begins > 0:
        remarks[
            f"changes up to epoch {row_changes.begins} are no longer kept; keep more with Engine(retain=Retain(...)); a fork has only those "
            "since it was made"
        ] = None
    for epoch, rows in row_changes.rows.items():
        of_epoch = Changes(
            plan,
            compiled,
            kept_changes.of(epoch, (at for at in behind if at != place or at in plan.inputs)),
            row_changes.recorded_from,
        )
        why, causes = "", {}
        if epoch == 0:
            why = "before any input"
        elif epoch == row_changes.first:
            why = f"no rows of it came: {REDEFINED}"
        else:
            try:
                trace = traced(of_epoch, place, rows)
            except UntraceableError as reason:
                remarks[f"what caused the change of epoch {epoch} is not known: {reason}"] = None
            else:
                causes = {end_name(plan, at): part for at, part in trace.ends.items() if part.height}
                remarks |= dict.fromkeys(trace.remarks)
                if not causes and not trace.remarks:
                    why = f"no rows of it came: {_without_rows(plan, behind, epoch, row_changes.watermarks)}"
        changes.append(Change(epoch, row_changes.times.get(epoch), rows, causes, why))
    return History(row_changes.view, row_changes.key, tuple(changes), plan[place].schema, tuple(remarks))
