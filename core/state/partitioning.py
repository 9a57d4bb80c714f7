"""States are cut into buckets: the bucket of each entry follows from the entry.

A row is sent to the bucket of its *route word*: the first key word of the columns that it is routed by. The state of
that key is in the same bucket, and the route word follows from its entries, so states can later be cut into another
number of buckets without the rows from which they were made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from ..data.clock import START_OF_TIME
from ..data.columns.grouping import group
from ..data.columns.kernels import ROUTED_BITS, Ints, Keys, Words, key_words
from ..data.columns.nulls import nulls_as
from ..data.delta import Delta
from ..data.tags import tagged
from .snapshot import INSTANT, KEY, PAYLOAD, SECOND, SPENT, SUM, Saved

MOST_BUCKETS = 1 << ROUTED_BITS
"""The most buckets that route words can distinguish."""

CELL = np.uint64(0x6A09E667F3BCC909)
"""The fraction of the root of two, odd: cells of a key, times this, are spread evenly over the words."""

LAST = "last"
"""Additive column of a cell: its last instant, above ``ZERO``."""

ZERO = START_OF_TIME - 1
"""Instants of cells are kept as their distance from this one, since zero in every column means no entry."""

Kind = Literal["words", "prefix", "columns", "cells", "cell timers", "one"]

Columns = tuple[Sequence[pl.DataFrame], Mapping[str, Any]]
"""A saved state: its pieces as columns, and its facts."""


def bucket_of(words: Words, buckets: int) -> Ints:
    """Return the bucket of each route word; buckets are ranges of the leading bits, as even as possible.

    >>> bucket_of(np.array([0, 1 << 63, 2**64 - 1], np.uint64), 3).tolist()
    [0, 1, 2]
    """
    assert 0 < buckets <= MOST_BUCKETS, "routes cannot tell so many buckets apart"
    leading = words >> np.uint64(64 - ROUTED_BITS)
    return ((leading * np.uint64(buckets)) >> np.uint64(ROUTED_BITS)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Route:
    """The rule by which the route words of a state's entries follow from its pieces.

    ``words``: it is the first word of the entry's key. ``prefix``: the second word of the key starts with it.
    ``columns``: it is computed from these columns of the payload. ``cells``, ``cell timers``: it is computed from the
    word of a cell of a session and the cell's instant. ``one``: all entries are in bucket 0, that of the word 0.
    """

    kind: Kind
    columns: tuple[str, ...] = ()
    gap: int = 0
    lateness: int = 0

    def words(self, columns: pl.DataFrame) -> Words:
        """Return the route word of every entry of a piece, given as columns; only the leading bits count.

        For ``cells`` the entries have to be whole: those of all pieces, added up.
        """
        match self.kind:
            case "words":
                return _column(columns, KEY)
            case "prefix":
                return _column(columns, SECOND)
            case "columns":
                key_columns = [columns.get_column(PAYLOAD + name) for name in self.columns]
                return key_words(key_columns, columns.height).first
            case "cells":
                return self._of_cells(columns, columns.get_column(SUM + LAST).to_numpy() + ZERO)
            case "cell timers":
                return self._of_cells(
                    columns, columns.get_column(INSTANT).to_numpy() - self.gap - self.lateness
                )
            case "one":
                return np.zeros(columns.height, np.uint64)

    def _of_cells(self, columns: pl.DataFrame, last: Ints) -> Words:
        return _column(columns, KEY) - (last // self.gap).view(np.uint64) * CELL

    def as_json(self) -> dict[str, Any]:
        """Return the route as a JSON object."""
        route: dict[str, Any] = {"kind": self.kind}
        if self.columns:
            route["columns"] = list(self.columns)
        if self.gap:
            route |= {"gap": self.gap, "lateness": self.lateness}
        return route

    @staticmethod
    def from_json(route: Mapping[str, Any]) -> Route:
        """Return the inverse of ``as_json``."""
        columns = tuple(route.get("columns", ()))
        return Route(route["kind"], columns, route.get("gap", 0), route.get("lateness", 0))


WORDS = Route("words")
"""The route of states by the key that their rows are routed by."""

ONE = Route("one")
"""The route of a state that is kept once for all rows."""


@tagged("core.routes:KeyColumns")
@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The columns of a key, of which the first ``routed`` determine the bucket of a row; None: all of them do.

    With 0 no column does, so all state by this key is in one bucket.
    """

    names: tuple[str, ...]
    routed: int | None = None

    @staticmethod
    def of(names: Sequence[str], by: Sequence[str] | None = None) -> KeyColumns:
        """Return these columns, if rows are routed by those in ``by``, which are the first of them; None: by all."""
        names = tuple(names)
        if by is None or tuple(by) == names:
            return KeyColumns(names)
        assert names[: len(by)] == tuple(by), f"rows are routed by the first of {names}, not by {by}"
        return KeyColumns(names, len(by))

    def words(self, frame: pl.DataFrame) -> Keys:
        """Return the words of the keys of these rows."""
        return key_words([frame.get_column(name) for name in self.names], frame.height, self.routed or 0)

    def words_of(self, delta: Delta) -> Keys:
        """Return the words of the keys of a change, which are made once for all that keep it by the same key."""
        return delta.words_by(self.names, self.routed or 0)

    @property
    def is_plain(self) -> bool:
        """Return whether the words are those of ``key_words`` without more."""
        return not self.routed or self.routed >= len(self.names)

    @property
    def route(self) -> Route:
        """Return the route of states kept by this key."""
        if self.routed == 0:
            return ONE
        return WORDS if self.is_plain else Route("prefix")


def in_buckets(
    route: Route, saved: Sequence[Columns], buckets: int
) -> list[tuple[list[pl.DataFrame], dict[str, Any]]]:
    """Return a saved state cut into ``buckets`` buckets, given its saved parts in the earlier buckets.

    Empty buckets have no pieces. Facts that a state can compute again are left out. Cost: the state; for
    ``cells``, sorted, as only whole entries have a route word.
    """
    if route.kind == "one":
        first: Columns = saved[0] if saved else ((), {})
        return [(list(first[0]), dict(first[1])), *(([], {}) for _ in range(buckets - 1))]
    frames = [
        frame.slice(spent)
        for pieces, facts in saved
        for frame, spent in zip(pieces, facts.get(SPENT) or [0] * len(pieces), strict=True)
    ]
    if route.kind == "cells" and frames:
        frames = [_whole(frames)]
    cut: list[list[pl.DataFrame]] = [[] for _ in range(buckets)]
    for frame in frames:
        bucket = bucket_of(route.words(frame), buckets)
        for number in np.unique(bucket).tolist():
            cut[number].append(frame.filter(pl.Series(bucket == number)))
    # Larger runs come before smaller ones, as after their merges.
    return [(sorted(pieces, key=lambda piece: -piece.height), {}) for pieces in cut]


def of_buckets(parts: Sequence[Saved]) -> Saved:
    """Return a saved state as one, given what was saved of it in each bucket: the inverse of a cut.

    The pieces are the same objects. Facts add up as the pieces do: numbers are summed, sums of columns modulo 2^64, and
    lists, which have an item for each piece, follow one another. A bucket that nothing has changed since it was cut has no
    facts, and those that it lacks are left out. Cost: the number of pieces.
    """
    there = [part for part in parts if part.pieces]
    if len(there) < 2:
        return there[0] if there else parts[0]
    names = {name for name in there[0].facts if all(name in part.facts for part in there)}
    if any(SPENT in part.facts for part in there):
        names.add(SPENT)
    facts: dict[str, Any] = {}
    for part in there:
        for name in names:
            fact = part.facts.get(name, [0] * len(part.pieces))  # Of a bucket that was cut nothing is spent.
            if isinstance(fact, Mapping):
                before = facts.get(name, {})
                facts[name] = {
                    column: (before.get(column, 0) + fact.get(column, 0)) % 2**64
                    for column in dict.fromkeys((*before, *fact))
                }
            else:
                assert isinstance(fact, int | list), f"the fact {name!r} does not add up"
                facts[name] = facts[name] + fact if name in facts else fact
    return Saved(tuple(piece for part in there for piece in part.pieces), facts)


def _whole(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the entries of all pieces by key, added up; without those that are zero."""
    stacked = pl.concat(frames, how="diagonal", rechunk=True)
    second = (
        _column(stacked.with_columns(pl.col(SECOND).fill_null(0)), SECOND)
        if SECOND in stacked.columns
        else None
    )
    groups = group(Keys(_column(stacked, KEY), second))
    sums = {
        name: groups.sums(nulls_as(0, stacked.get_column(name)).to_numpy())
        for name in stacked.columns
        if name.startswith(SUM)
    }
    words = {KEY: groups.keys.first} | ({} if second is None else {SECOND: groups.keys.seconds()})
    return pl.DataFrame({**words, **sums}).filter(pl.any_horizontal(pl.col(*sums) != 0))


def _column(columns: pl.DataFrame, name: str) -> Words:
    words: Words = columns.get_column(name).to_numpy()
    return words
