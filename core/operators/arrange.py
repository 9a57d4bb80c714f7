"""An arrangement keeps a collection sorted by a key, once for every operator that reads it by that key."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from ..data.clock import Now
from ..data.columns.kernels import Keys
from ..data.delta import Delta
from ..data.schema import DIFF
from ..data.tags import tagged
from ..state.channels import Finding
from ..state.combined_rows import consolidated_if_fewer
from ..state.first_rows import first_among, first_of_each, first_rows_moved
from ..state.operator_contract import KeyedOperator, Operator
from ..state.partitioning import KeyColumns, Route
from ..state.purge import entries_gone
from ..state.readable import Readable
from ..state.run import Layout, empty_run, make_run, run_of_rows
from ..state.spine import Spine, Version


@tagged("core.operators.arrange:Arrange")
class Arrange(KeyedOperator):
    """The collection by key: it writes the spine that other operators read, and passes its input on.

    ``where`` names a boolean column; only rows where it is true are kept. With ``skip_null_keys`` rows with a null in their
    key are not kept, as they match nothing. Without ``holds_rows`` no row is kept: its readers need none of them, and find
    there what an earlier version has kept. With ``first``, of an input that never retracts, only the first rows of each key
    by the order of the layout are kept, this many; a row that others come before is retracted from the state. Rows of keys
    that are ``expired`` (ascending, distinct) are purged when the epoch is over. ``by`` are the first of the keys, if only
    these determine the bucket of a row.
    """

    role = "rows"

    def __init__(
        self,
        schema: pl.Schema,
        keys: Sequence[str],
        layout: Layout,
        *,
        where: str | None = None,
        skip_null_keys: bool = False,
        expired: Finding[Keys] | None = None,
        by: Sequence[str] | None = None,
        holds_rows: bool = True,
        first: int | None = None,
    ) -> None:
        super().__init__(schema, KeyColumns.of(keys, by))
        self.holds_rows = holds_rows
        self._first = first
        self.spine = Spine(layout, self._keys.route, self._keys)
        self.spine.keeps_first = first == 1 and not any(
            layout.payload[order.column].is_nested() for order in layout.order
        )
        self._expired = expired
        self.looks_at = () if expired is None else (expired,)
        self._where = where
        self._skip_null_keys = skip_null_keys
        self._nothing = Delta.empty(schema)

    may_combine = passes_input = True

    @property
    def kept_sums(self) -> tuple[str, ...]:
        """Return a mark where not all rows are held, so that nobody takes the state for one that has them."""
        if not self.holds_rows:
            return ("no rows",)
        return self._marks_of_first

    @property
    def read_sums(self) -> tuple[tuple[str, ...], ...]:
        """Return that a state with more rows, of an earlier version, is read where not all are held."""
        with_more = dict.fromkeys([(), self._marks_of_first])
        return tuple(marks for marks in with_more if marks != self.kept_sums)

    @property
    def _marks_of_first(self) -> tuple[str, ...]:
        return () if self._first is None else (f"first {self._first} rows",)

    @property
    def lacks_nulls_in(self) -> tuple[str, ...] | None:
        """Return the keys, if rows with nulls in them are left out; None if other rows are left out too."""
        if (
            not self.holds_rows
            or self._first is not None
            or self._where is not None
            or self._expired is not None
        ):
            return None
        return self._keys.names if self._skip_null_keys else ()

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Stage the rows of the change; the change itself goes through."""
        (delta,) = deltas
        if self._first is not None:
            keeps_all = self.holds_rows and self._where is None and not self._skip_null_keys
            kept_rows = delta if keeps_all else Delta(self._kept(delta))
            if kept_rows.height:
                self.spine.stage(first_rows_moved(self.spine, self._keys, kept_rows, self._first))
            return delta
        frame = self._kept(delta)
        expired = None if self._expired is None else self._expired.value
        if expired is None or not len(expired):
            self.spine.stage_rows(frame)
            return delta
        layout = self.spine.layout
        run = run_of_rows(layout, self._keys, frame) if frame.height else empty_run(layout)
        self.spine.stage(run, entries_gone(self.spine, run, expired))
        return delta

    def combine(self, delta: Delta) -> Delta | None:
        """Return rows that leave the same state as those of a change, where nobody needs what it passes on.

        Columns that it does not keep are null.
        """
        frame = self._kept(delta)
        if not frame.height:
            return Delta.empty(self.schema)
        first = first_of_each(self._keys, frame, self.spine.layout) if self._first == 1 else None
        if first is not None:
            frame = first
        elif self._first is not None:
            frame = first_among(self._keys, frame, self.spine.layout.order[0], self._first)
        needed = {*self._keys.names, *self.spine.layout.payload, *([self._where] if self._where else [])}
        unused = [name for name in self.schema if name not in needed]
        if unused:
            frame = frame.with_columns(pl.lit(None, self.schema[name]).alias(name) for name in unused)
        combined = Delta(frame)
        return (None if first is not None else consolidated_if_fewer(combined)) or combined

    def _kept(self, delta: Delta) -> pl.DataFrame:
        """Return the rows that are kept."""
        if not self.holds_rows:
            return self._nothing.frame
        frame = delta.frame
        if frame.height and self._where is not None:
            frame = frame.filter(frame.get_column(self._where))
        return _without_null_keys(frame, self._keys.names) if self._skip_null_keys else frame


def _without_null_keys(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    return frame.drop_nulls(keys) if any(frame.get_column(name).has_nulls() for name in keys) else frame


@tagged("core.operators.arrange:CountKeys")
class KeyCounts(KeyedOperator):
    """The number of rows of each key, as the sum of their diffs. It passes its input on."""

    role = "counts of keys"
    is_rekeyable = False

    def __init__(self, schema: pl.Schema, keys: Sequence[str], *, skip_null_keys: bool) -> None:
        super().__init__(schema, KeyColumns.of(keys))
        self.spine = Spine(Layout())
        self._skip_null_keys = skip_null_keys

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Stage the counts of the change; the change itself goes through."""
        (delta,) = deltas
        frame = delta.frame
        if self._skip_null_keys:
            frame = _without_null_keys(frame, self._keys.names)
        if frame.height:
            words = self.words(frame)
            self.spine.stage(
                make_run(self.spine.layout, words, pl.DataFrame(), {DIFF: frame.get_column(DIFF).to_numpy()})
            )
        return delta


@tagged("core.operators.arrange:Keep")
class Materialize(Operator):
    """The collection itself, by row, as a view reads it. It passes its input on."""

    role = "rows"
    keeps_input = True
    is_rekeyable = True

    def __init__(self, schema: pl.Schema) -> None:
        self.schema = schema
        # The columns by which these rows are bucketed are known only to the reader of the view.
        self.spine = Spine(Layout(schema), route=None)
        self.reads: tuple[Spine, ...] = (self.spine,)
        """The states from which ``contents`` are made."""

    @property
    def lacks_nulls_in(self) -> tuple[str, ...]:
        """Return none: all rows of its input are in its state."""
        return ()

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Stage the rows of the change; the change itself goes through."""
        (delta,) = deltas
        self.spine.stage_rows(delta.frame)
        return delta

    def route_of_states(self, columns: tuple[str, ...] | None) -> Route | None:
        """Return the route by the words of rows, if the output is cut by all columns, else by those columns."""
        return Route("words") if columns == tuple(self.schema) else Route("columns", columns or ())

    @property
    def readable(self) -> Readable:
        """Return itself."""
        return self

    @property
    def calls_users(self) -> bool:
        """See ``Readable``: its rows are kept as they are."""
        return False

    def emitted(self, at: Sequence[Version] | None = None) -> Delta:
        """Return the rows with their diffs, as of the versions ``at`` of its states. Cost: the state."""
        return (self.spine if at is None else self.spine.at(at[0])).summed()

    def contents(self, at: Sequence[Version] | None = None) -> pl.DataFrame:
        """Return all rows, each as often as its diffs add up to, as of the versions ``at`` of its states. Cost: the state."""
        return (self.spine if at is None else self.spine.at(at[0])).present()
