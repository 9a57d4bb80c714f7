"""Queries on the rows of an epoch: where they come from, what changed them, and why they are there or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import polars as pl

from evercurrent.core.data.errors import InputError
from evercurrent.core.data.instants import shown, time_of
from evercurrent.core.data.schema import EPOCH, listed

from ..compiler.builder import Compiled
from ..epochs.records import require_past
from ..epochs.run_log import RunLog
from ..inspection.open_windows import key_values
from ..inspection.questions import WindowQueries
from ..inspection.tracing.collected import Collections
from ..inspection.tracing.indexes import Indexes
from ..inspection.tracing.lineage import Lineage, chosen_rows, lineage, row_values
from ..plan.nodes import PlanId
from ..plan.plan import Plan
from .published import Published

if TYPE_CHECKING:
    from ..inspection.tracing.history import History


class Tracer:
    """Follows rows through a circuit that shares the states of an engine, as of an epoch; nobody changes them meanwhile."""

    def __init__(self, plan: Plan, compiled: Compiled, indexes: Indexes, log: RunLog) -> None:
        self._plan = plan
        self._compiled = compiled
        self._indexes = indexes
        self._log = log

    def lineage(self, view: str, row: object, limit: int) -> Lineage:
        """Return where a row of a view comes from; see ``View.lineage``.

        Raises:
            InputError: there is no such row, or it cannot be followed back.
        """
        collections = Collections(self._plan, self._compiled, self._indexes)
        return lineage(collections, view, row, limit, self._newest(), self._recorded)

    def history(self, view: str, key: object, since: int | None, now: Published) -> History:
        """Return the changes of the rows of a key; see ``View.history``.

        Raises:
            InputError: the key does not go with the columns of the view, or ``since`` is still to come.
            EpochGoneError: the changes after ``since`` are no longer kept.
        """
        # Imported here, so that a first lineage does not wait for them.
        from ..inspection.tracing.changed import KeptChanges
        from ..inspection.tracing.history import RowChanges, history

        require_past(view, since, now.epoch)
        where, place = f"view {view!r}", self._plan.place_of(view)
        schema = self._plan[place].schema
        names = list(self._plan.keys_of(place)) or schema.names()
        lookup_values = row_values(view, schema, _by_name(where, names, key, schema.names()))

        def rows_of_key(frames: Iterable[pl.DataFrame]) -> dict[int, pl.DataFrame]:
            return {
                frame.item(0, EPOCH): part
                for frame in frames
                if (part := chosen_rows(frame, lookup_values)).height
            }

        if since is None:
            begins, rows = now.all_deltas(view, rows_of_key)
        else:
            now.require(view, since)
            begins, rows = 0, rows_of_key(now.deltas(view, since))
        times = dict(now.log.epochs().iter_rows())
        row_changes = RowChanges(
            view, lookup_values.row(0, named=True), {epoch: part.drop(EPOCH) for epoch, part in rows.items()}, times,
            _watermarks(now.log), begins, now.declared_at(view),
            now.log.complete_from if now.log.records_rows else None,
        )  # fmt: skip
        kept_changes = KeptChanges(
            self._plan,
            lambda name: now.all_deltas(name, list),
            lambda name, schema: (
                (now.log.complete_from, now.log.rows(name, schema)) if now.log.records_rows else None
            ),
        )
        return history(self._plan, self._compiled, kept_changes, row_changes)

    def why(
        self, view: str, row: Mapping[str, object], instant: int, *, if_present: bool = False
    ) -> list[str]:
        """Explain line by line why a row of a view is there or not; with ``if_present`` nothing where it is not.

        ``instant`` is the last processing time. See ``View.why``.

        Raises:
            InputError: a value does not go with its column.
        """
        from ..inspection.tracing.reasons import Reasons  # Imported here, for the same reason.

        place = self._plan.place_of(view)
        lookup_values = row_values(view, self._plan[place].schema, row)
        collections = Collections(self._plan, self._compiled, self._indexes)

        def windows(grouping: PlanId, keys: pl.DataFrame) -> list[str]:
            queries = WindowQueries(self._plan, self._compiled, view, grouping)
            return queries.why_waiting(keys.row(0, named=True) if keys.width else {}, instant)

        reasons = Reasons(collections, tuple(self._compiled.ledger.refused), windows)
        return reasons.of(place, lookup_values, if_present=if_present)

    def _recorded(self, source: str) -> pl.DataFrame | None:
        """Return the recorded rows of a source with their epochs; None if rows are not recorded."""
        if not self._log.records_rows:
            return None
        return self._log.rows(source, self._plan.sources[source].schema)

    def _newest(self) -> Mapping[str, list[str]]:
        """Return the columns that order the rows of sources by age: those of event time, or of their sequence."""
        return {
            source.name: [
                *([time.column] if (time := self._plan[place].event_time) is not None else []),
                *source.sequence,
            ]
            for place, source in self._plan.inputs.items()
        }


def _by_name(where: str, names: list[str], key: object, columns: list[str]) -> Mapping[str, object]:
    """Return the values of a key by column: a dictionary may have any columns, other keys are those of the view."""
    if isinstance(key, dict) and key and set(key) <= set(columns):
        return key
    if key is None:
        raise InputError(f"{where}: give the key whose history you want, such as a value of {listed(names)}")
    return key_values(where, names, key)


def _watermarks(log: RunLog) -> dict[int, str]:
    """Return the watermarks by epoch, in words: they may be at the end of time, or before the year 1."""
    marks = log.watermarks().drop_nulls().with_columns(pl.col("watermark").to_physical())
    return {
        part.item(0, EPOCH): ", ".join(
            f"watermark of {name} {time_of(instant) or shown(instant)}"
            for name, instant in part.select("source", "watermark").iter_rows()
        )
        for part in marks.partition_by(EPOCH)
    }
