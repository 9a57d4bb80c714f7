"""The group operator updates the aggregates of groups by adding and retracting rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from ...data.clock import Now
from ...data.columns.grouping import Groups, group
from ...data.columns.kernels import (
    Ints,
    Keys,
    Mask,
    frame_of,
    is_one_word,
    keep,
    key_words,
    least_and_greatest,
    series_of,
)
from ...data.columns.nulls import nulls_as
from ...data.columns.whole_columns import ones, weight_of
from ...data.delta import Delta, rows_at
from ...data.errors import ArithmeticRefusedError
from ...data.repeated import RepeatedDelta
from ...data.tags import tagged
from ...state.channels import Finding, Lookup
from ...state.operator_contract import Operator
from ...state.partitioning import KeyColumns
from ...state.purge import sums_gone
from ...state.readable import Readable, UserState
from ...state.run import Layout, Run, empty_run, run_of_groups
from ...state.spine import Spine, Version
from .accumulators import LENGTH, additions, contributions, require_few, row_parts, spread
from .aggregate_contract import AggregateState, Sums
from .aggregates import Aggregate
from .group_rows import GroupRows, change_of
from .group_spec import GroupSpec as GroupSpec
from .kept_sums import KeptSums
from .partial_aggregates import ADDED_UP, ENTRIES, SUM, added_up, sums_in
from .stored_states import StoredAggregates
from .user_states import StateUnreadableError
from .window_sums import sums_of_windows

ROOM = 2**62
"""Sums beyond this are refused, as the addition of one more epoch, less than 2^63, could wrap unnoticed."""

TOO_LARGE = "a group has some 2^30 rows, too many for exact sums; group by a finer key"

NO_NAMES = pl.DataFrame()

NO_NUMBERS = np.zeros(0, np.intp)


@tagged("core.operators.group:GroupBy")
class GroupBy(Operator):
    """The group operator emits one row per group: its key and its aggregates.

        group(A) = {(key, aggregates of the rows of A with that key)}, for keys whose diffs do not add up to zero

    The first input is the collection with its aggregates' inputs prepared as columns; every further one is the
    ``Distinct`` of (key, value) pairs whose values are counted, or supplies a number by key. State: the additive columns
    by key; aggregates that cannot be inverted are read from arrangements. For every touched key the row before is
    retracted and the row after added, where they differ. With ``emits_on_request`` it emits nothing, and rows of groups
    are read with the look-up ``groups``. ``discarding``: groups hold the rows that came less those that went, and exist
    while any sum, or the number of rows, is not zero. ``by`` are the first of the keys, if only these determine the bucket
    of a row. Without key columns there is always one row. Keys that are ``expired`` are purged when the epoch is over,
    and nothing is emitted for that. Cost: the delta and the touched groups, plus reads of the arrangements.
    """

    is_rekeyable = True

    def __init__(
        self,
        spec: GroupSpec,
        schema: pl.Schema,
        parts: Sequence[AggregateState],
        *,
        expired: Finding[Keys] | None = None,
        emits_on_request: bool = False,
        discarding: bool = False,
        by: Sequence[str] | None = None,
    ) -> None:
        self.schema = schema
        self._keyed = KeyColumns.of(tuple(spec.keys), by)
        self._discarding = discarding
        self._expired = expired
        self._emits_on_request = emits_on_request
        self._has_first_row = not spec.keys and not emits_on_request
        """Whether an empty input has a row: without keys, unless panes decide what is emitted."""
        self._spec = spec
        self._parts = tuple(parts)
        self._stored = StoredAggregates(spec, zip(parts, spec.aggregates, strict=True))
        counted = [part.column for part in parts if part.counts_input]
        assert len(set(counted)) == len(counted), "equal aggregates are one"
        # A user's column named like a pre-aggregated one must not be mistaken for it, nor stand beside it.
        inputs = {name for aggregate in spec.aggregates for name in aggregate.columns_read}
        are_apart = ADDED_UP not in inputs and not any(key.startswith(SUM) for key in spec.keys)
        self.may_combine = not self._stored.states and are_apart
        self._heads = [head for part in parts if (head := part.first_rows) is not None]
        self._read = inputs.union(*(head.order.needs for head in self._heads))
        additive = [each for one in spec.aggregates if (each := one.additive) is not None]
        self._row_parts = row_parts(additive)
        self._inputs = [name for name, _ in self._row_parts]
        self._kept = KeptSums(additive, self._parts, self._heads)
        self._rows = GroupRows(spec, self._parts, discarding=discarding, has_first_row=self._has_first_row)
        self._modulo = {part.column for part in self._stored.states}.union(
            *(head.order.names for head in self._heads)
        )
        self._one_word = is_one_word(list(spec.keys.values()))
        self._grouped_by = (self._keyed.names, self._keyed.routed or 0, self._one_word)
        self._has_names = not self._one_word and len(spec.keys) > 0
        """Whether key columns are in the state, as they cannot be computed from the key words."""
        self.spine: Spine = Spine(Layout(pl.Schema() if self._one_word else spec.keys), self._keyed.route)
        self.states = (self.spine, *(own.spine for own in self._stored.states))
        self.reads = (
            self.spine,
            *(spine for part in self._parts if (spine := part.reads) is not None),
        )
        """The states from which ``contents`` are made."""
        arranged = [spine for spine in self.reads if spine not in self.states]
        self.looks_at = (*([] if expired is None else [expired]), *arranged)
        self.groups = Lookup("groups", self.rows)
        self.gives = (self.groups,)
        self._nothing = Delta.empty(schema)

    @property
    def readable(self) -> Readable | None:
        """Return itself; None if keys expire, as the state then no longer has all rows that were emitted."""
        return self if self._expired is None else None

    @property
    def key_types(self) -> pl.Schema:
        """Return the key columns of the groups."""
        return self._spec.keys

    def words(self, frame: pl.DataFrame) -> Keys:
        """Return the words of the keys of these rows."""
        return self._keyed.words(frame)

    @property
    def other_roles(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return the names of the states of users' aggregates."""
        return self._stored.roles

    @property
    def user_states(self) -> Sequence[UserState]:
        """Return the states of users' aggregates that are kept."""
        return self._stored.user_states

    @property
    def kept_sums(self) -> tuple[str, ...]:
        """Return the additive columns that its state may have, besides the number of rows."""
        return self._kept.names

    @property
    def read_sums(self) -> tuple[tuple[str, ...], ...]:
        """Return the columns without those of first rows, which an earlier version kept in arrangements."""
        return self._kept.read

    def taken_over(self, other: Operator, sums: Mapping[str, Ints]) -> Mapping[str, Ints] | None:
        """See ``Operator``."""
        return self._kept.taken_over(other._kept, sums) if isinstance(other, GroupBy) else None

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return minus the touched groups' rows before the epoch, plus their rows after it."""
        if not sum([delta.height for delta in deltas]):
            run = empty_run(self.spine.layout)
            self.spine.stage(run, None if self._expired is None else self._gone(run))
            return self._first_row(self._parts) if now.epoch == 0 and self._has_first_row else self._nothing
        if len(deltas) == 1 and isinstance(deltas[0], RepeatedDelta):
            deltas = (sums_of_windows(deltas[0], self._spec.keys, self._read, self.combine),)
        groups, added = self._added(deltas)
        keys, names = groups.keys, NO_NAMES
        if self._has_names:
            names = rows_at(deltas, tuple(self._spec.keys), groups.first_entries)
        results = self._rows.kept_results
        previous = results.before(self.spine.runs, keys) if results.keeps_any else None
        before = self.spine.totals(keys)
        then = self._move_heads(groups, deltas[0], before, added) if self._heads else {}
        after = dict(before)
        for name, column in added.items():
            after[name] = before[name] + column if name in before else column
        run = run_of_groups(groups, names, added)
        self.spine.stage(run, None if self._expired is None else self._gone(run))
        for name in added.keys() - self._modulo:
            least, greatest = least_and_greatest(after[name])
            if greatest >= ROOM or least <= -ROOM:
                raise ArithmeticRefusedError(f"{self._spec.where}: {TOO_LARGE}")
        if self._stored.states:
            self._stage_users_states(groups, deltas[0], after)
        if self._emits_on_request:
            return self._nothing
        return self._rows.difference(
            keys,
            names,
            (before | then, after),
            is_first=now.epoch == 0,
            previous=previous,
            staged=self.spine.staged_run if results.keeps_any else None,
        )

    def _stage_users_states(self, groups: Groups, delta: Delta, after: Sums) -> None:
        """Stage the states of users' aggregates: only rows change them, and other inputs may touch groups without rows."""
        of_rows = delta.groups_by(*self._grouped_by)
        places = groups.numbers[of_rows.first_entries]
        self._stored.stage(of_rows, delta, {name: column[places] for name, column in after.items()})

    def combine(self, delta: Delta) -> Delta | None:
        """Return a part of a change of the first input, pre-aggregated by group; None without ``may_combine``.

        ``step`` accepts such parts, concatenated to one delta, in place of the change, with bitwise the same result.
        Columns that only some of them have may be null in the others.
        """
        if not self.may_combine:
            return None
        if isinstance(delta, RepeatedDelta):
            summed = sums_of_windows(delta, self._spec.keys, self._read, self.combine)
            if summed is not delta:
                return summed
        groups, sums = self._added_up(delta)
        numbers = groups.numbers if self._heads else NO_NUMBERS
        firsts = [head.columns_of(delta.frame, numbers, len(groups)) for head in self._heads]
        return added_up(
            delta.frame, tuple(self._spec.keys), groups, sums, [each for part in firsts for each in part]
        )

    def rows(self, keys: Keys, even: Mask | None = None) -> tuple[Mask, pl.DataFrame]:
        """Return which of these ascending, distinct groups exist after this epoch's changes, and their rows.

        Groups in ``even`` that do not exist have the row of an empty group. Cost: these groups.
        """
        matches = self.spine.matches(keys, self.spine.delta)
        sums = matches.totals()
        exists = self._rows.exist(sums, len(keys))
        exists = exists if even is None else exists | even
        change = change_of(keys, ({}, sums), np.zeros(len(keys), np.bool_), exists)
        names = self._rows.keys(
            keys, change.groups, lambda: matches.payload(self.spine.layout, change.groups)
        )
        rows = self._rows.finished(names, self._rows.aggregates(change), len(change.groups))
        if self._discarding:
            has_any = change.sums.get(LENGTH, np.zeros(len(change.groups), np.int64)) != 0
            for column in map(series_of, rows[len(names) :]):
                has_any |= (nulls_as(0, column) != 0).to_numpy()
            has_any |= False if even is None else even[exists]
            exists[exists] = has_any
            return exists, keep(frame_of(rows), has_any)
        return exists, frame_of(rows)

    def names(self, keys: Keys, at: Version | None = None) -> pl.DataFrame:
        """Return the key columns of these ascending, distinct groups, as of a commit; nulls for those that do not exist."""
        spine = self.spine.at(self.spine.version if at is None else at)
        return frame_of(
            self._rows.keys(keys, None, lambda: spine.matches(keys, spine.delta).payload(spine.layout))
        )

    def are_named(self, keys: Keys) -> Mask:
        """Return which of these ascending, distinct groups have key columns that do not go when runs are merged."""
        if not self._has_names:
            return np.ones(len(keys), np.bool_)
        return self._rows.exist(self.spine.at(self.spine.version).totals(keys), len(keys))

    def contents(self, at: Sequence[Version] | None = None) -> pl.DataFrame:
        """Return all rows from the state, as of the versions ``at`` of the states it ``reads``. Cost: the state."""
        spines = (
            self.reads if at is None else [spine.at(each) for spine, each in zip(self.reads, at, strict=True)]
        )
        run, others = spines[0].merged(), iter(spines[1:])
        # Those of an empty group, too, are read at these versions: the rows that it has by now are of a later commit.
        parts = [part if part.reads is None else part.of(next(others)) for part in self._parts]
        if self._has_first_row and not len(run):
            return self._first_row(parts).rows
        values = [
            self._current(part, aggregate, run)
            for part, aggregate in zip(parts, self._spec.aggregates, strict=True)
        ]
        names = self._rows.keys(run.keys, None, lambda: run.payload)
        rows = frame_of(self._rows.finished(names, values, len(run)))
        return keep(rows, self._rows.exist(run.sums, len(run)))

    @property
    def calls_users(self) -> bool:
        """See ``Readable``: false if its rows are made of keys and additive columns alone."""
        return not self._rows.finished_by_copy or any(each.additive is None for each in self._spec.aggregates)

    def emitted(self, at: Sequence[Version] | None = None) -> Delta:
        """Return all rows from the state, each once, as of the versions ``at``. Cost: the state."""
        rows = self.contents(at)
        # The columns by reference, so that it shows that all diffs are 1.
        return Delta.of_columns(rows.get_columns(), ones(rows.height), is_consolidated=True)

    def _added(self, deltas: Sequence[Delta]) -> tuple[Groups, dict[str, Ints]]:
        """Return the touched groups and the epoch's additions to their additive columns."""
        if len(deltas) == 1:
            return self._added_up(deltas[0])
        rows = [self._contributions(deltas[0])]
        counted = [part.column for part in self._parts if part.counts_input]
        rows += [{column: delta.diffs} for column, delta in zip(counted, deltas[1:], strict=True)]
        sizes = [len(delta) for delta in deltas]
        groups = group(Keys.concat([self._keyed.words_of(delta) for delta in deltas]))
        columns = {name: spread(rows, name, sizes) for part in rows for name in part}
        return groups, groups.sums_of(columns)

    def _added_up(self, delta: Delta) -> tuple[Groups, dict[str, Ints]]:
        """Return the groups of the rows of a change, and the additions of the rows of each to its additive columns."""
        if self._stored.states or self._is_combined(delta):
            groups = delta.groups_by(*self._grouped_by)
            return groups, groups.sums_of(self._contributions(delta))
        columns, diffs = delta.columns(self._inputs), delta.diffs
        groups = delta.groups_by(*self._grouped_by)
        require_few(self._spec.where, weight_of(diffs))
        return groups, additions(groups, self._row_parts, columns, diffs)

    def _is_combined(self, delta: Delta) -> bool:
        return self.may_combine and ADDED_UP in delta.names

    def _contributions(self, delta: Delta) -> dict[str, Ints]:
        """Return the additions of each row to the additive columns of its group."""
        if self._is_combined(delta):
            rows = sums_in(delta.frame)
            require_few(self._spec.where, weight_of(rows.pop(ENTRIES)))
            return rows
        diffs, columns = delta.diffs, delta.columns(self._inputs)
        require_few(self._spec.where, weight_of(diffs))
        rows = contributions(self._row_parts, columns, diffs)
        return rows | self._stored.contributions(delta, diffs) if self._stored.states else rows

    def _move_heads(
        self, groups: Groups, delta: Delta, before: Sums, added: dict[str, Ints]
    ) -> dict[str, Ints]:
        """Put first rows among the additions to groups, and return the columns that have to be others before these."""
        then: dict[str, Ints] = {}
        numbers = groups.numbers[: len(delta)]
        for head in self._heads:
            moved, previous = head.moved(delta.frame, numbers, groups.keys, before)
            added |= moved
            then |= previous
        return then

    def _gone(self, run: Run) -> Run | None:
        """Return the run that purges the keys that are expired with this epoch; None if there are none."""
        expired = None if self._expired is None else self._expired.value
        if expired is None or not len(expired):
            return None
        return sums_gone(self.spine, run, expired)

    def _current(self, part: AggregateState, aggregate: Aggregate, run: Run) -> pl.Series:
        try:
            return part.current(run.keys, run.sums)
        except StateUnreadableError as error:
            raise self._spec.error_of(aggregate, error) from error

    def _first_row(self, parts: Sequence[AggregateState]) -> Delta:
        """Return the row of an empty input, which exists from the start if there are no keys."""
        values = [part.current(key_words([], 1), {}) for part in parts]
        rows = frame_of(self._rows.finished([], values, 1))
        return Delta.of(rows, np.ones(1, np.int64), is_consolidated=True)
