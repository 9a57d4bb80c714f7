"""The findings about windows in an epoch: which of them fire, close or merge into others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import polars as pl

from ...data.columns.directory import Directory, places_of_distinct
from ...data.columns.kernels import Index, Ints, Keys, Mask, expand
from ...data.delta import Delta

EARLY, ON_TIME, LATE = 0, 1, 2
"""Timing of a pane: before the watermark passed the end, when it did, after that."""

MANY_PLACES = 8
"""Where at least one key is looked for among so many, a directory of these costs less than a binary search for each."""

NO_KEYS = Keys(np.zeros(0, np.uint64))


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """Windows that merged into others: the words of each, and of the window in which its rows are now."""

    old: Keys
    new: Keys


class Merging(Protocol):
    """The changes of merging windows in an epoch: which became part of others, and which of their rows are new."""

    @property
    def arrivals(self) -> int:
        """The number of leading rows that came or went in this epoch; the others were there before and have moved."""
        ...

    @property
    def instants(self) -> Ints:
        """The event times of the rows, which are not among their columns, or the numbers of their own windows."""
        ...

    @property
    def may_split(self) -> bool:
        """Whether a window may have been split, so that rows left it that are still there."""
        ...

    @property
    def moves(self) -> Moves | None:
        """The windows that merged into others in this epoch; None if there are none."""
        ...


class MergedEnds(Protocol):
    """The changes of merging windows in an epoch, as far as they concern their ends."""

    def ends(self) -> Delta:
        """Return how far the end of each window moved, as the diffs of its id."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class NothingMerged:
    """The ``Merging`` of an epoch in which no row came or went."""

    arrivals: int = 0
    instants: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    may_split: bool = False
    moves: Moves | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Firing:
    """The windows that fire, close or merge at the end of an epoch.

    ``keys`` are those whose triggers fire, ascending, with the ``timing`` of the pane and whether it ``is_last``, whether
    the window ``holds_rows``, and whether it ``is_over``. ``closed`` are those that the watermark has closed; ``over``
    includes those that have lost all their rows and have emitted that. ``moves`` are those that merged into others.
    ``emptied`` are, where the trigger awaits signals, those that stay open and have lost all their rows, with their ``names``.
    """

    keys: Keys = NO_KEYS
    timing: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    is_last: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    holds_rows: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    is_over: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    closed: Keys = NO_KEYS
    over: Keys = NO_KEYS
    moves: Moves | None = None
    emptied: Keys = NO_KEYS
    names: pl.DataFrame = field(default_factory=pl.DataFrame)


def places_among(keys: Keys, among: Keys) -> Index:
    """Return the position of each key among ascending, distinct ones; -1 if it is not there."""
    if MANY_PLACES * len(keys) > len(among) and not (among.first[1:] == among.first[:-1]).any():
        places, owners = places_of_distinct(keys, among, Directory.of(among.first, is_matched=False))
        place = np.full(len(keys), -1)
        place[owners] = places
        return place
    lower: Index = np.searchsorted(among.first, keys.first)
    upper = np.searchsorted(among.first, keys.first, side="right")
    if among.second is None and keys.second is None:
        return np.where(lower < upper, lower, -1)
    seconds, own = among.seconds(), keys.seconds()
    positions, owners = expand(lower, upper)
    same = seconds[positions] == own[owners]
    place = np.full(len(keys), -1)
    place[owners[same]] = positions[same]
    return place
