"""Rows of states are looked up by any of their columns: each immutable part of a state is sorted by them once."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property, partial
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl

from evercurrent.core.data.columns.grouping import group
from evercurrent.core.data.columns.kernels import Index, Ints, Keys, Words, expand, keep, key_words, stack
from evercurrent.core.data.columns.key_hash import in_force
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.instants import instants_in
from evercurrent.core.data.schema import DIFF
from evercurrent.core.state.narrowing import narrowed
from evercurrent.core.state.operator_contract import Operator
from evercurrent.core.state.readable import Readable
from evercurrent.core.state.run import Layout, Run, run_of_distinct_rows
from evercurrent.core.state.spine import Spine
from evercurrent.core.state.version import Parts, Version

from ...concurrency.turns import Guard
from ..proving.row_frames import is_among
from .part_rows import ChosenRows, Part, frame_of_part, with_diffs
from .scans import TURNS, Scan, ScannedPart
from .sorted_ahead import SortedAhead

SCANNED_FROM, FEW_VALUES = 1 << 12, 1 << 12
"""Parts of at least so many rows are scanned where they are not sorted, if they are looked up by at most so many values."""

SCANS = 100
"""A part that was scanned so often by some columns is sorted by them, which takes about as long as these scans, and nobody waits for it."""


@dataclass(frozen=True, slots=True)
class Span:
    """The rows whose instant, a column of event time plus ``shift``, lies in [``low``, ``high``), in microseconds."""

    column: str
    shift: int
    low: int
    high: int


@dataclass(frozen=True, slots=True, eq=False)
class _Sorted:
    """The values of some columns of a part, as numbers in ascending order, and the positions of their rows."""

    values: Words | Ints
    order: Index

    def of(self, values: Words) -> Index:
        """Return the positions of the rows with these values."""
        lower = np.searchsorted(self.values, values)
        upper = np.searchsorted(self.values, values, side="right")
        return self.order[expand(lower, upper)[0]]


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """A state of aggregates by group: its operator, the columns of finished rows, and a name that no other state has."""

    readable: Readable
    schema: pl.Schema
    identity: str


class _LookUp:
    """The values of a look-up: their words by columns, and a scan for them, each made once."""

    def __init__(self, values: pl.DataFrame) -> None:
        self.values: pl.DataFrame = values
        self._words: dict[tuple[str, ...], Words] = {}

    def words(self, names: tuple[str, ...]) -> Words:
        """Return the words of the values of these columns, each once."""
        if names not in self._words:
            self._words[names] = np.unique(_first_words(self.values, names))
        return self._words[names]

    @cached_property
    def scan(self) -> Scan | None:
        """Return a scan for the values; None if no column compares exactly."""
        return Scan.of(self.values)


class Indexes:
    """Sorted columns of the parts of states, each made when it is first needed and kept as long as its part.

    Parts never change, so an epoch makes only its own small part to be sorted, and a merge those that it makes: the cost of a
    look-up is the rows that it returns, and over a run each row takes part in a logarithmic number of sorts. ``indexed`` counts
    the rows that were sorted, ``touched`` those that were read. Memory: 16 bytes for each row and set of columns.

    A state that holds aggregates has no rows: of it a copy of the finished rows is kept, and brought up to date by the groups
    whose entries are in new parts.
    """

    def __init__(self) -> None:
        self.indexed: int = 0
        self.touched: int = 0
        self._sorted: WeakKeyDictionary[Part, dict[tuple[str, ...], _Sorted]] = WeakKeyDictionary()
        self._scanned: WeakKeyDictionary[Part, ScannedPart] = WeakKeyDictionary()
        self._ahead = SortedAhead()
        self._copies: dict[str, _FinishedRows] = {}
        self.guard = Guard()

    def rows(
        self, parts: Parts, lookup_values: pl.DataFrame, span: Span | None = None, by: Operator | None = None
    ) -> pl.DataFrame | None:
        """Return the rows with the values of one of the rows to look up in its columns, with ``_diff``; None if there are none.

        A row may be there several times, with diffs that add up. Without columns: the rows of the span, or all. ``by``: the operator that keeps the runs sorted by its keys.
        """
        names, chosen = lookup_values.columns, list[ChosenRows]()
        is_by_key = by is not None and len(by.key_types) and set(by.key_types) <= set(names)
        keys = by.words(lookup_values) if by is not None and is_by_key else None
        look_up = _LookUp(lookup_values)
        every: tuple[Part, ...] = (*parts[0], *parts[1])
        for part in every:
            if keys is not None and isinstance(part, Run):
                places = np.unique(expand(*part.find(keys))[0])
            elif names:
                places = self._places(part, look_up)
            else:
                places = self._within(part, span)
            if len(places):
                self.touched += len(places)
                chosen.append(ChosenRows(part, places))
        return _only(with_diffs(chosen), lookup_values) if chosen else None

    def rows_of_groups(
        self,
        groups: Groups,
        versions: tuple[Version, ...],
        lookup_values: pl.DataFrame,
        span: Span | None = None,
    ) -> pl.DataFrame | None:
        """Return the rows of groups with the values of one of the rows to look up in its columns, with ``_diff``.

        Without columns: the rows of the span, or all.
        """
        if set(groups.readable.key_types) <= set(lookup_values.columns):
            rows = groups.readable.contents(_of_keys(groups.readable, versions, lookup_values))
            self.touched += rows.height
            return _counted(_only(rows, lookup_values))
        if lookup_values.width and set(lookup_values.columns) <= set(groups.readable.key_types):
            narrow = self._of_partial_keys(groups.readable, versions, lookup_values)
            rows = groups.readable.contents(narrow)
            self.touched += rows.height
            return _counted(_only(rows, lookup_values))
        copy = self._copies.setdefault(f"{groups.identity} {in_force().format}", _FinishedRows(groups.schema))
        self.indexed += copy.catch_up(groups.readable, versions)
        return self.rows(copy.spine.version.parts, lookup_values, span)

    def forget_all_but(self, identities: Set[str]) -> None:
        """Drop the copies of states that are no longer there."""
        with self.guard.lock:
            gone = [name for name in self._copies if name.partition(" ")[0] not in identities]
            for name in gone:
                del self._copies[name]

    def _of_partial_keys(
        self, readable: Readable, versions: tuple[Version, ...], lookup_values: pl.DataFrame
    ) -> tuple[Version, ...]:
        """Return the versions with the groups alone whose keys have these values in some of their columns."""
        look_up = _LookUp(lookup_values)
        runs = readable.reads[0].at(versions[0]).runs
        keys = [run.keys.take(self._places(run, look_up)) for run in runs]
        own = group(Keys.concat(keys)).keys if keys else Keys(np.zeros(0, np.uint64))
        return narrowed(readable.reads[0], versions[0], own), *versions[1:]

    def _places(self, part: Part, look_up: _LookUp) -> Index:
        """Return the positions of the rows of a part that may have one of the values to look up, in order.

        A large part is scanned until it pays to sort it, and a thread has done so.
        """
        chosen = self._columns(part, look_up.values.columns)
        is_large = len(part) >= SCANNED_FROM and look_up.values.height <= FEW_VALUES
        if is_large and chosen not in self._sorted.get(part, ()):
            scan = look_up.scan
            if scan is not None:
                scanned = self._scanned.setdefault(part, ScannedPart(len(self._scanned) % TURNS))
                scanned.look_ups[chosen] += 1
                if scanned.look_ups[chosen] >= SCANS:
                    self._ahead.begin((id(part), chosen), partial(self._order, part, chosen))
                return scanned.places(frame_of_part(part), scan)
        return np.sort(self._order(part, chosen).of(look_up.words(chosen[1:])))

    def _within(self, part: Part, span: Span | None) -> Index:
        """Return the positions of the rows of a span of event time, or of all."""
        if span is None:
            return np.arange(frame_of_part(part).height)
        order = self._order(part, ("time", span.column))
        low, high = np.searchsorted(order.values, [span.low - span.shift, span.high - span.shift])
        return np.sort(order.order[low:high])

    def _columns(self, part: Part, names: Sequence[str]) -> tuple[str, ...]:
        """Return by which of these columns to look up: by those by which the part is sorted already, or by all of them."""
        kind = f"hash {in_force().format}"
        # A thread may add another order meanwhile.
        there = tuple(self._sorted.get(part, ()))
        sorted_by = [by for by in there if by[0] == kind and set(by[1:]) <= set(names)]
        return max(sorted_by, key=len, default=(kind, *sorted(names)))

    def _order(self, part: Part, by: tuple[str, ...]) -> _Sorted:
        orders = self._sorted.setdefault(part, {})
        if by not in orders:
            frame, names = frame_of_part(part), by[1:]
            numbers = (
                instants_in(frame.get_column(names[0]))[0] if by[0] == "time" else _first_words(frame, names)
            )
            order = np.argsort(numbers, kind="stable")
            self.indexed += len(order)
            orders[by] = _Sorted(numbers[order], order)
        return orders[by]


def _first_words(frame: pl.DataFrame, names: Sequence[str]) -> Words:
    return key_words([frame.get_column(name) for name in names], frame.height).first


def _only(rows: pl.DataFrame, lookup_values: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that have the values, as their words are hashes."""
    if not lookup_values.width or not rows.height:
        return rows
    return keep(rows, is_among(rows, lookup_values).to_numpy())


def _of_keys(
    readable: Readable, versions: tuple[Version, ...], lookup_values: pl.DataFrame
) -> tuple[Version, ...]:
    """Return the versions with the groups of these keys alone; a grouping by nothing has one group."""
    if not readable.key_types:
        return versions
    words = group(readable.words(lookup_values.select(readable.key_types.names()))).keys
    return narrowed(readable.reads[0], versions[0], words), *versions[1:]


class _FinishedRows:
    """The finished rows of groups, as of some versions of their states."""

    def __init__(self, schema: pl.Schema) -> None:
        self.spine = Spine(Layout(schema))
        self._versions: tuple[Version, ...] = ()

    def catch_up(self, readable: Readable, versions: tuple[Version, ...]) -> int:
        """Become the rows of these versions, and return how many were computed. Cost: the groups in parts that are new or gone."""
        if self._versions:
            words = _touched(readable, self._versions, versions)
            if not len(words):
                return 0
            gone, new = (
                readable.contents((narrowed(readable.reads[0], each[0], words), *each[1:]))
                for each in (self._versions, versions)
            )
        else:
            # Each group has one row, so that nothing is to be added up, and these need not be sorted.
            new = readable.contents(versions)
            self.spine.stage_rows(_counted(new))
            self.spine.commit()
            self._versions = versions
            return new.height
        diffs = np.repeat(np.array([-1, 1]), [gone.height, new.height])
        change = Delta.of(stack([gone, new]), diffs).consolidate()
        if len(change):
            self.spine.stage(run_of_distinct_rows(self.spine.layout, change.frame))
            self.spine.commit()
        self._versions = versions
        return gone.height + new.height


def _touched(readable: Readable, before: Sequence[Version], now: Sequence[Version]) -> Keys:
    """Return the keys of the groups that may differ between two versions: those in runs that only one of them has."""
    changed = []
    for spine, was, is_now in zip(readable.reads, before, now, strict=True):
        if was is not is_now:
            runs_before, runs_now = spine.at(was).runs, spine.at(is_now).runs
            if was.whole is not None and any(run is was.whole for run in runs_now):
                runs_before = (
                    was.whole,
                )  # A reader has merged the runs of before since, which changes no group.
            changed += [run.keys for run in _only_in(runs_before, runs_now) + _only_in(runs_now, runs_before)]
    return group(Keys.concat(changed)).keys if changed else Keys(np.zeros(0, np.uint64))


def _only_in(runs: Sequence[Run], others: Sequence[Run]) -> list[Run]:
    """Return the runs that the others do not have."""
    return [run for run in runs if not any(run is other for other in others)]


def _counted(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.hstack([pl.Series(DIFF, np.ones(rows.height, np.int64))])
