"""Cutting states into buckets: from what stands in a state follows which bucket each entry is in.

A row is sent to the bucket of its *route word*: the first key word of the columns that it is routed by. Whatever is
kept for that key stands in the same bucket, and tells the route word of its entries: so states can be cut otherwise
later, without the rows that they were made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from ..columns.grouping import group
from ..columns.kernels import ROUTED_BITS, Ints, Keys, Words, key_words
from ..data.clock import START_OF_TIME
from ..data.tags import tagged
from .snapshot import INSTANT, KEY, PAYLOAD, SECOND, SPENT, SUM

MOST_BUCKETS = 1 << ROUTED_BITS
"""So many buckets can be told apart."""

CELL = np.uint64(0x6A09E667F3BCC909)
"""The fraction of the root of two, odd: cells of a key, times this, are spread evenly over the words."""

LAST = "last"
"""Additive column of a cell: its last instant, above ``ZERO``."""

ZERO = START_OF_TIME - 1
"""Instants of cells are kept as their distance from this one: zero in every column says that nothing is there."""

Kind = Literal["words", "prefix", "columns", "cells", "cell timers", "one"]

Columns = tuple[Sequence[pl.DataFrame], Mapping[str, Any]]
"""What is kept of a state: its pieces as columns, and its facts."""


def bucket_of(words: Words, buckets: int) -> Ints:
    """The bucket of each route word: ranges of the words, told by their leading bits, as even as may be.

    >>> bucket_of(np.array([0, 1 << 63, 2**64 - 1], np.uint64), 3).tolist()
    [0, 1, 2]
    """
    assert 0 < buckets <= MOST_BUCKETS, "so many buckets cannot be told apart"
    leading = words >> np.uint64(64 - ROUTED_BITS)
    return ((leading * np.uint64(buckets)) >> np.uint64(ROUTED_BITS)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Route:
    """How the route words of a state's entries follow from its pieces.

    ``words``: the first word of the entry's key is it. ``prefix``: the second word of the key starts with it.
    ``columns``: it is made of these columns of the payload. ``cells``, ``cell timers``: from the word of a cell of a
    session, and where in time it is. ``one``: all is in bucket 0, which the word 0 is in.
    """

    kind: Kind
    columns: tuple[str, ...] = ()
    gap: int = 0
    lateness: int = 0

    def words(self, columns: pl.DataFrame) -> Words:
        """The route word of every entry of a piece, given as columns; only the leading bits count.

        Of ``cells``, entries have to be whole: those of all pieces, added up.
        """
        match self.kind:
            case "words":
                return _column(columns, KEY)
            case "prefix":
                return _column(columns, SECOND)
            case "columns":
                given = [columns.get_column(PAYLOAD + name) for name in self.columns]
                return key_words(given, columns.height).first
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
        """The route as JSON has it."""
        said: dict[str, Any] = {"kind": self.kind}
        if self.columns:
            said["columns"] = list(self.columns)
        if self.gap:
            said |= {"gap": self.gap, "lateness": self.lateness}
        return said

    @staticmethod
    def from_json(said: Mapping[str, Any]) -> Route:
        """The inverse of ``as_json``."""
        columns = tuple(said.get("columns", ()))
        return Route(said["kind"], columns, said.get("gap", 0), said.get("lateness", 0))


WORDS = Route("words")
"""Of states by the key that their rows are routed by."""

ONE = Route("one")
"""Of what is kept once for all rows."""


@tagged("core.routes:KeyColumns")
@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The columns of a key, of which the first ``routed`` tell the bucket of a row; None: all of them do.

    0: none does, so all that is kept by this key is in one bucket.
    """

    names: tuple[str, ...]
    routed: int | None = None

    @staticmethod
    def of(names: Sequence[str], by: Sequence[str] | None = None) -> KeyColumns:
        """These columns, if rows are routed by those in ``by``, which are the first of them; None: by all."""
        names = tuple(names)
        if by is None or tuple(by) == names:
            return KeyColumns(names)
        assert names[: len(by)] == tuple(by), f"rows are routed by the first of {names}, not by {by}"
        return KeyColumns(names, len(by))

    def words(self, frame: pl.DataFrame) -> Keys:
        """The words of the keys of these rows."""
        return key_words([frame.get_column(name) for name in self.names], frame.height, self.routed or 0)

    @property
    def is_plain(self) -> bool:
        """Whether the words are those of ``key_words`` without more."""
        return not self.routed or self.routed >= len(self.names)

    @property
    def route(self) -> Route:
        """How the bucket follows from what is kept by this key."""
        if self.routed == 0:
            return ONE
        return WORDS if self.is_plain else Route("prefix")


def in_buckets(
    route: Route, saved: Sequence[Columns], buckets: int
) -> list[tuple[list[pl.DataFrame], dict[str, Any]]]:
    """What is kept of a state, cut into so many buckets, given what was kept of it in each bucket there was.

    Empty buckets have no pieces. What a state can find out again is left out of the facts. Cost: the state; of
    ``cells``, sorted, as only whole entries tell where they belong.
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
    # Larger runs stand before smaller ones, as their merges would have left them.
    return [(sorted(pieces, key=lambda piece: -piece.height), {}) for pieces in cut]


def _whole(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The entries of all pieces by key, added up; without those that are zero."""
    stacked = pl.concat(frames, how="diagonal", rechunk=True)
    second = (
        _column(stacked.with_columns(pl.col(SECOND).fill_null(0)), SECOND)
        if SECOND in stacked.columns
        else None
    )
    groups = group(Keys(_column(stacked, KEY), second))
    sums = {
        name: groups.sums(stacked.get_column(name).fill_null(0).to_numpy())
        for name in stacked.columns
        if name.startswith(SUM)
    }
    words = {KEY: groups.keys.first} | ({} if second is None else {SECOND: groups.keys.seconds()})
    return pl.DataFrame({**words, **sums}).filter(pl.any_horizontal(pl.col(*sums) != 0))


def _column(columns: pl.DataFrame, name: str) -> Words:
    words: Words = columns.get_column(name).to_numpy()
    return words
