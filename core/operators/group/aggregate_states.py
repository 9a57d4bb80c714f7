"""The states of single aggregates, from which a group operator gets values before and after the epoch."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Self

import numpy as np
import polars as pl

from ...data.columns.grouping import Groups
from ...data.columns.kernels import Index, Ints, Keys, Mask, at, gather, key_words, stack
from ...data.columns.row_values import twice
from ...data.columns.whole_columns import AnyColumn
from ...data.errors import ArithmeticRefusedError
from ...data.schema import DIFF
from ...state.lookup import KeyRows, all_rows, first_rows, rows_change
from ...state.partitioning import WORDS, Route
from ...state.run import Layout, Run, make_run
from ...state.snapshot import Saved
from ...state.spine import Spine
from .aggregate_contract import AggregateState, Change, StoredStates, Sums
from .aggregates import Custom, Distinct, FirstBy, RecomputedAggregate, SuppliedValue
from .user_states import PICKLED, StateForm

OWNER = "__owner"
STATE = "state"


MOST_WRITTEN_OUT = 1 << 26
"""The most rows that an aggregate over single rows takes, if rows have counts above one."""


class ReadAggregateState(AggregateState):
    """An aggregate whose values are read from rows: those of the group, or those of its state."""

    _spine: Spine
    _count: int | None
    """How many rows of a group are needed; None for all."""

    @property
    def reads(self) -> Spine:
        """Return the spine that holds the rows."""
        return self._spine

    def of(self, spine: Spine) -> Self:
        """Return the same state over the rows of this spine, of which only ``current`` may be used."""
        part = copy.copy(self)
        part._spine = spine
        return part

    def current(self, keys: Keys, sums: Sums) -> pl.Series:
        """See ``AggregateState``."""
        if self._count is None:
            return self._values(all_rows(self._spine, keys), len(keys))
        return self._values(first_rows(self._spine, keys, self._count), len(keys))

    def change(self, change: Change) -> AnyColumn:
        """See ``AggregateState``."""
        before, after = rows_change(self._spine, change.keys, self._count)
        height = len(change.keys)
        were = _at(self._values(before, height), change.groups[: change.count_before])
        return were.append(_at(self._values(after, height), change.groups[change.count_before :]))

    @abstractmethod
    def _values(self, rows: KeyRows, height: int) -> pl.Series:
        """Return the aggregate of each of ``height`` groups, from their rows."""


class InputState(AggregateState):
    """A number that adds up over the diffs of an input of its own.

    The number of different values adds up over the output of ``Distinct`` for (group, value) pairs.
    """

    counts_input = True

    def __init__(self, aggregate: Distinct | SuppliedValue) -> None:
        self._aggregate = aggregate

    @property
    def column(self) -> str:
        """Return the additive column that counts the values, or holds the supplied number."""
        return self._aggregate.column

    def current(self, keys: Keys, sums: Sums) -> pl.Series:
        """See ``AggregateState``."""
        return self._values(sums, len(keys))

    def change(self, change: Change) -> pl.Series:
        """See ``AggregateState``."""
        return self._values(change.sums, len(change.groups))

    def _values(self, sums: Sums, height: int) -> pl.Series:
        counts = sums.get(self.column, np.zeros(height, np.int64))
        return pl.Series(self._aggregate.output, counts).cast(self._aggregate.dtype)


class FirstByState(ReadAggregateState):
    """The value in the first row of the group, read from an arrangement by group and order."""

    _count = 1

    def __init__(self, aggregate: FirstBy, arrangement: Spine) -> None:
        self._aggregate = aggregate
        self._spine = arrangement

    def _values(self, rows: KeyRows, height: int) -> pl.Series:
        values = rows.payload.get_column(self._aggregate.input).alias(self._aggregate.output)
        return placed(values, rows.owners, height)


class RecomputedState(ReadAggregateState):
    """An aggregate computed by polars from all rows of each group.

    ``twice``: it computes with values of rows, which polars does differently for a single row (``row_values``). So every
    group is computed together with a copy of itself.
    """

    _count = None

    def __init__(
        self,
        aggregate: RecomputedAggregate,
        arrangement: Spine,
        *,
        keyless: bool,
        twice: bool = True,
    ) -> None:
        self._aggregate = aggregate
        self._twice = twice
        self._spine = arrangement
        self._of_nothing = self._computed_of_nothing() if keyless else None

    def _computed_of_nothing(self) -> pl.Series:
        aggregate, rows = self._aggregate, self._spine.layout.payload.to_frame()
        expr = aggregate.expr.alias(aggregate.output)
        try:
            computed = rows.select(expr)
        except pl.exceptions.PanicException:
            # polars 2.1 cannot compute some aggregates without rows, as quantiles of dates, but can in a group of nulls.
            computed = rows.clear(1).insert_column(0, pl.Series(OWNER, [0])).group_by(OWNER).agg(expr)
        return computed.get_column(aggregate.output).cast(aggregate.dtype)

    def _values(self, rows: KeyRows, height: int) -> pl.Series:
        frame, owners = _repeated_rows(rows)
        if self._twice and len(owners):
            frame, owners = twice(frame), np.concatenate((owners, owners + height))
        frame = frame.clone().insert_column(0, pl.Series(OWNER, owners, pl.Int64))
        aggregated = self._aggregate.expr.alias(self._aggregate.output)
        computed = frame.group_by(OWNER, maintain_order=True).agg(aggregated)
        if self._twice:
            computed = computed.slice(0, computed.height // 2)
        values = computed.get_column(self._aggregate.output).cast(self._aggregate.dtype)
        return placed(values, computed.get_column(OWNER).to_numpy(), height, self._of_nothing)


class RecomputedUserState(ReadAggregateState):
    """A user's aggregate without an inverse: created anew from all rows of each group."""

    _count = None

    def __init__(self, aggregate: Custom, arrangement: Spine, *, keyless: bool) -> None:
        self._aggregate = aggregate
        self._spine = arrangement
        self._of_nothing = _of_nothing(aggregate) if keyless else None

    def _values(self, rows: KeyRows, height: int) -> pl.Series:
        aggregate = self._aggregate
        frame, owners = _repeated_rows(rows)
        column = frame.get_column(aggregate.input)
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        ends = np.append(starts, len(owners))[1:]
        results = [
            aggregate.extract(aggregate.add(aggregate.create(), column.slice(start, end - start)))
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        values = pl.Series(aggregate.output, results, aggregate.dtype)
        return placed(values, owners[starts], height, self._of_nothing)


class RetractableAggregate(ReadAggregateState):
    """A user's aggregate with an inverse: its state is kept, rows are added to it and removed from it.

    States are kept as rows (group, state as bytes); a replaced one is retracted. ``form`` converts states to bytes.
    """

    _count = 1

    def __init__(self, aggregate: Custom, *, keyless: bool, form: StateForm, route: Route = WORDS) -> None:
        self._aggregate = aggregate
        self._form = form
        self._of_nothing = _of_nothing(aggregate) if keyless else None
        self.input = aggregate.input
        self._column = f"values:{aggregate.output}"
        self.spine = self._spine = Spine(Layout(pl.Schema({STATE: pl.Binary()}), by_row=True), route)

    @property
    def column(self) -> str:
        """Return the additive column with the sum of the words of the rows."""
        return self._column

    @property
    def stored_states(self) -> StoredStates:
        """Return itself."""
        return self

    def stage(self, groups: Groups, values: pl.Series, diffs: Ints, empty: Mask) -> None:
        """Stage the states after these rows, and no state for groups that are ``empty``."""
        before = first_rows(self.spine, groups.keys, 1)
        states: list[bytes | None] = [None] * len(groups)
        for owner, stored in zip(
            before.owners.tolist(), before.payload.get_column(STATE).to_list(), strict=True
        ):
            states[owner] = stored
        ends = np.append(groups.starts[1:], len(groups.order))
        for number, (start, end) in enumerate(zip(groups.starts.tolist(), ends.tolist(), strict=True)):
            entries = groups.order[start:end]
            moved = None if empty[number] else self._moved(states[number], values[entries], diffs[entries])
            states[number] = moved
        with_state = np.flatnonzero([state is not None for state in states])
        payload = stack([before.payload, _column([state for state in states if state is not None])])
        keys = groups.keys.take(np.concatenate((before.owners, with_state)))
        signs = np.concatenate((-before.diffs, np.ones(len(with_state), np.int64)))
        self.spine.stage(self._run(keys, payload, signs))

    def has_pickles(self) -> bool:
        """Return whether any state is kept as a pickle. Cost: the states."""
        return any(
            bool(run.payload.get_column(STATE).bin.starts_with(PICKLED).any()) for run in self.spine.runs
        )

    def convert(self) -> bool:
        """Convert kept pickles to another form where they have one, between epochs; return False if none has.

        Cost: the states.
        """
        run = self.spine.merged()
        states = run.payload.get_column(STATE).to_list()
        converted = [self._form.converted(state) for state in states]
        if converted == states:
            return False
        payload = _column(converted)
        self.spine.restore(Saved((self._run(run.keys, payload, run.sums[DIFF]),), {}))
        return True

    def _run(self, keys: Keys, payload: pl.DataFrame, diffs: Ints) -> Run:
        rows = key_words(payload.get_columns(), payload.height)
        return make_run(self.spine.layout, keys, payload, {DIFF: diffs}, rows)

    def _moved(self, stored: bytes | None, values: pl.Series, diffs: Ints) -> bytes:
        aggregate = self._aggregate
        assert aggregate.remove is not None, "a retractable aggregate has an inverse"
        state = aggregate.create() if stored is None else self._form.loads(stored)
        if (diffs > 0).any():
            added = aggregate.add(aggregate.create(), _repeated(values, np.maximum(diffs, 0)))
            state = added if stored is None else aggregate.merge(state, added)
        if (diffs < 0).any():
            state = aggregate.remove(state, _repeated(values, np.maximum(-diffs, 0)))
        return self._form.dumps(state)

    def _values(self, rows: KeyRows, height: int) -> pl.Series:
        aggregate = self._aggregate
        results = [
            aggregate.extract(self._form.loads(state)) for state in rows.payload.get_column(STATE).to_list()
        ]
        values = pl.Series(aggregate.output, results, aggregate.dtype)
        return placed(values, rows.owners, height, self._of_nothing)


def _column(states: list[bytes]) -> pl.DataFrame:
    return pl.DataFrame({STATE: states}, schema={STATE: pl.Binary()})


def _of_nothing(aggregate: Custom) -> pl.Series:
    return pl.Series(aggregate.output, [aggregate.extract(aggregate.create())], aggregate.dtype)


def _repeated_rows(rows: KeyRows) -> tuple[pl.DataFrame, Index]:
    """Return each row as often as its diff, and the number of its group."""
    if (rows.diffs == 1).all():
        return pl.DataFrame(rows.payload.get_columns()), rows.owners
    require_few(rows.diffs)
    every = np.repeat(np.arange(len(rows.owners)), rows.diffs)
    return gather(rows.payload, every), rows.owners[every]


def _at(values: pl.Series, positions: Index) -> pl.Series:
    return values if len(positions) == len(values) else values[positions]


def require_few(times: Ints) -> None:
    """Check that rows with large counts do not make more rows than memory can hold.

    Raises:
        ArithmeticRefusedError: they do.
    """
    rows = float(times.sum(dtype=np.float64))  # A sum of integers could wrap.
    if rows > MOST_WRITTEN_OUT:
        raise ArithmeticRefusedError(
            f"processes each row as many times as its count, here {rows:,.0f} times in all, one row {int(times.max()):,} times; "
            f"the limit is {MOST_WRITTEN_OUT:,}: correct the _diff of the rows, or use an aggregate that works on counts: len, sum, mean, "
            "std, min, max or n_unique"
        )


def _repeated(values: pl.Series, times: Ints) -> pl.Series:
    require_few(times)
    return values[np.repeat(np.arange(len(values)), times)]


def placed(values: pl.Series, owners: Index, height: int, of_nothing: pl.Series | None = None) -> pl.Series:
    """Return the values at the positions of their owners; elsewhere null, or the given value of an empty group."""
    if len(owners) == height:
        return values
    elsewhere = pl.Series(values.name, [None], values.dtype) if of_nothing is None else of_nothing
    place = np.full(height, len(owners))
    place[owners] = np.arange(len(owners))
    return at(values.append(elsewhere), place)
