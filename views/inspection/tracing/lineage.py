"""The lineage of a row: the rows of sources from which it comes, and the stages between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from evercurrent.core.data.columns.kernels import key_words
from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import DIFF, EPOCH

from ...connectors.nested_times import has_times
from ...connectors.pushed_frames import time_value
from ...plan.nodes import PlanId
from ...plan.plan import Plan
from ..open_windows import literal_of
from ..proving.row_frames import is_among
from .rows import Rows
from .traces import Trace, UntraceableError, traced

if TYPE_CHECKING:
    from .drawing import Box, Drawing

WORD = "_word"
"""A column of the words of rows, by which they are joined."""


class StageRows(NamedTuple):
    """The rows of a stage of a trace, which are sorted and written into a box when the lineage is drawn."""

    name: str
    head: str
    lines: tuple[str, ...]
    rows: pl.DataFrame
    is_end: bool

    def box(self) -> Box:
        """Return the box of the stage; the rows of an end are sorted already."""
        from .drawing import Box, shown_rows  # Imported here, as only drawings need it.

        rows = self.rows if self.is_end else newest_first(self.rows, ())
        return Box(self.name, self.head, (*self.lines, *shown_rows(rows)), self.is_end)


class Lineage(Mapping[str, pl.DataFrame]):
    """The rows from which a row of a view comes, by the names of their sources, the newest first, with ``_diff``.

    Where a source retains no rows, they are those of the nearest view or stage, and ``remarks`` names what would keep them.
    ``text()``, ``mermaid()`` and ``svg()`` draw the stages from the sources to the row.
    """

    def __init__(
        self,
        view: str,
        rows: Mapping[str, pl.DataFrame],
        stages: tuple[StageRows, ...],
        edges: tuple[tuple[str, str], ...],
        remarks: tuple[str, ...] = (),
    ) -> None:
        self.view: str = view
        self.rows: Mapping[str, pl.DataFrame] = rows
        self.stages: tuple[StageRows, ...] = stages
        self.edges: tuple[tuple[str, str], ...] = edges
        self.remarks: tuple[str, ...] = remarks

    def __getitem__(self, source: str) -> pl.DataFrame:
        """Return the rows of a source."""
        return self.rows[source]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the sources."""
        return iter(self.rows)

    def __len__(self) -> int:
        """Return the number of sources."""
        return len(self.rows)

    @property
    def drawing(self) -> Drawing:
        """The stages and their rows as boxes, from the row to the sources."""
        from .drawing import Drawing

        boxes = tuple(stage.box() for stage in self.stages)
        return Drawing(f"lineage of a row of {self.view}", boxes, self.edges)

    def text(self) -> str:
        """Return the stages as an indented text, from the row to the sources."""
        return "\n".join([self.drawing.text(), *self.remarks])

    def mermaid(self) -> str:
        """Return the stages as a Mermaid flowchart."""
        return self.drawing.mermaid()

    def svg(self) -> str:
        """Return the stages as a self-contained SVG."""
        from .pictures import from_top  # Imported here, as only drawings need it.

        return from_top(self.drawing)

    def __repr__(self) -> str:
        """Show the text."""
        return self.text()

    def _repr_html_(self) -> str:
        """Show the drawing in notebooks."""
        return self.svg()


def lineage(
    rows: Rows,
    name: str,
    row: object,
    limit: int,
    order: Mapping[str, Sequence[str]],
    recorded: Callable[[str], pl.DataFrame | None],
) -> Lineage:
    """Return the lineage of the rows of a view that have these values.

    ``order`` has the columns by which rows of sources are new, and ``recorded`` returns the rows of a source with their
    epochs, for those that have none; None if they are not recorded.

    Raises:
        InputError: there is no such row, or it cannot be followed back; names the reason.
    """
    plan = rows.plan
    place = plan.place_of(name)
    lookup_values = row_values(name, plan[place].schema, row)
    if isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 0:
        raise InputError(f"view {name!r}: limit={limit!r}; give a number of rows from 0")
    try:
        chosen = rows.rows(place, lookup_values)
        if not chosen.height:
            raise InputError(f"view {name!r}: it has no row with {row!r}; view.why({row!r}) explains why not")
        trace = traced(rows, place, chosen)
    except UntraceableError as reason:
        raise InputError(f"view {name!r}: where a row comes from is not known: {reason}") from reason
    rows_by_end: dict[str, pl.DataFrame] = {}
    for at, part in trace.ends.items():
        label = end_name(plan, at)
        columns = order.get(label, ())
        with_epochs = recorded(label) if at in plan.inputs and not columns else None
        newest = newest_first(part, columns) if with_epochs is None else _by_epoch(part, with_epochs)
        rows_by_end[label] = newest if label not in rows_by_end else pl.concat([rows_by_end[label], newest])
        if at in plan.inputs and not columns and with_epochs is None and part.height > limit:
            trace.remarks.append(
                f"source {label!r} has not kept when its rows came, so the first {limit} of {part.height:,} need not be the newest; "
                "declare its event_time=, or make the engine with Engine(record=True)"
            )
    cut = {label: part.head(min(int(limit), part.height)) for label, part in rows_by_end.items()}
    edges = tuple((f"n{start}", f"n{end}") for start, end in dict.fromkeys(trace.edges))
    return Lineage(name, cut, _stages_of(plan, trace, rows_by_end), edges, tuple(trace.remarks))


def _by_epoch(rows: pl.DataFrame, recorded: pl.DataFrame) -> pl.DataFrame:
    """Return rows sorted by the last epoch in which they were added, the latest first, and last those that were not recorded."""
    names, added = [name for name in rows.columns if name != DIFF], recorded.filter(pl.col(DIFF) > 0)
    words, recorded_words = (
        pl.Series(WORD, key_words([frame.get_column(name) for name in names], frame.height).first)
        for frame in (rows, added)
    )
    epochs = pl.DataFrame([recorded_words, added.get_column(EPOCH)]).group_by(WORD).agg(pl.col(EPOCH).max())
    epoch = pl.DataFrame([words]).join(epochs, on=WORD, how="left", maintain_order="left").get_column(EPOCH)
    return newest_first(rows.with_columns(epoch), [EPOCH]).drop(EPOCH)


def newest_first(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return rows sorted by these columns, the greatest first, and then by all others that have an order."""
    others = [
        name
        for name, dtype in rows.schema.items()
        if name not in by and name != DIFF and not dtype.is_nested()
    ]
    named = [name for name in by if name in rows.columns]
    if not (named or others):
        return rows
    return rows.sort(
        [*named, *others], descending=[True] * len(named) + [False] * len(others), nulls_last=True
    )


def end_name(plan: Plan, place: PlanId) -> str:
    """Return the name of a stage at which a trace ends: that of the source or view, else what it does."""
    if place in plan.inputs:
        return plan.inputs[place].name
    return plan.views_at(place)[0] if plan.views_at(place) else plan[place].label


def row_values(view: str, schema: pl.Schema, row: object) -> pl.DataFrame:
    """Return a row or a part of one, as a dictionary or a tuple, as a frame of one row.

    Raises:
        InputError: it has other columns, or a value that does not go with its column.
    """
    columns = schema.names()
    if isinstance(row, Sequence) and not isinstance(row, str) and len(row) == len(columns):
        row = dict(zip(columns, row, strict=True))
    if not isinstance(row, dict) or not row or not set(row) <= set(columns):
        raise InputError(
            f"view {view!r}: row={row!r}; give a dictionary with columns of the view, which has {columns}, or a whole row as a tuple"
        )
    one_row = []
    for name, value in row.items():
        if has_times(schema[name]):
            one_row.append(time_value(f"view {view!r}", name, value, schema[name]))
            continue
        try:
            column = pl.Series(name, [value], schema[name])
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
            column = literal_of(f"view {view!r}", name, value, schema[name])
        one_row.append(column)
    return pl.DataFrame([column + 0.0 if column.dtype.is_float() else column for column in one_row])


def _stages_of(plan: Plan, trace: Trace, ends: Mapping[str, pl.DataFrame]) -> tuple[StageRows, ...]:
    """Return the stages of a trace with their rows, those at which it ends with their diffs."""
    stages = []
    for place, here in trace.stages.items():
        is_end, label = place in trace.ends, plan[place].label
        is_source = place in plan.inputs
        name = f"source {plan.inputs[place].name}" if is_source else ", ".join(plan.views_at(place))
        lines = (label,) if name and not is_source else ()
        rows = ends[end_name(plan, place)] if is_end else here
        stages.append(StageRows(f"n{place}", name or label, lines, rows, is_end))
    return tuple(stages)


def chosen_rows(rows: pl.DataFrame, lookup_values: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that have these values."""
    return rows.filter(is_among(rows, lookup_values))
