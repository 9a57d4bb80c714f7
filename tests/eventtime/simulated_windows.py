"""Into which windows an instant falls, and what is computed of the rows of one: for the simulator, in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from eventtime.simulated_triggers import Row

START_OF_TIME = -(2**62)
END_OF_TIME = 2**62

Bounds = tuple[int, int]

# Where


@dataclass(frozen=True)
class Global:
    """One window over all time."""

    def of(self, instant: int) -> list[Bounds]:
        return [(START_OF_TIME, END_OF_TIME)]


@dataclass(frozen=True)
class Sliding:
    """Windows of one size that start once a period."""

    size: int
    period: int
    offset: int = 0

    def of(self, instant: int) -> list[Bounds]:
        last = instant - (instant - self.offset) % self.period
        starts = range(last, instant - self.size, -self.period)
        return [(start, start + self.size) for start in reversed(starts)]


def fixed(size: int, offset: int = 0) -> Sliding:
    """Windows side by side."""
    return Sliding(size, size, offset)


@dataclass(frozen=True)
class Sessions:
    """Rows of a key that are less than a gap apart; the window of one row alone, before others are looked at."""

    gap: int

    def of(self, instant: int) -> list[Bounds]:
        return [(instant, instant + self.gap)]

    def of_row(self, row: Row, instant: int) -> Bounds:
        """The window of one row alone."""
        return (instant, instant + self.gap)

    def is_apart(self, own: Bounds, session: list[Bounds]) -> bool:
        """Whether a window starts a session of its own, after those of the session before it."""
        return own[0] >= max(end for _, end in session)


@dataclass(frozen=True)
class AtMost(Sessions):
    """Sessions of at most so many different instants."""

    most: int

    def is_apart(self, own: Bounds, session: list[Bounds]) -> bool:
        is_full = len(set(session)) == self.most and own not in session
        return is_full or super().is_apart(own, session)


@dataclass(frozen=True)
class BySize(Sessions):
    """Sessions with a gap that depends on the row: so much for each unit of its size."""

    def of_row(self, row: Row, instant: int) -> Bounds:
        return (instant, instant + self.gap * row["size"])


Window = Global | Sliding | Sessions


# What

Aggregate = Callable[[list[Row]], Any]


def _present(rows: Iterable[Row], column: str) -> list[Any]:
    return [row[column] for row in rows if row[column] is not None]


def length() -> Aggregate:
    """How many rows."""
    return len


def total(column: str) -> Aggregate:
    """Their sum; of none, zero."""
    return lambda rows: sum(_present(rows, column))


def count(column: str) -> Aggregate:
    """How many are not null."""
    return lambda rows: len(_present(rows, column))


def least(column: str) -> Aggregate:
    """The least value that is not null."""
    return lambda rows: min(_present(rows, column), default=None)


def greatest(column: str) -> Aggregate:
    """The greatest value that is not null."""
    return lambda rows: max(_present(rows, column), default=None)


def distinct(column: str) -> Aggregate:
    """How many values, null being one."""
    return lambda rows: len({row[column] for row in rows})


def first(column: str, time: str = "at") -> Aggregate:
    """The least value at the earliest event time; null only if all values there are."""
    return lambda rows: min(_at(rows, column, time, min), default=None)


def last(column: str, time: str = "at") -> Aggregate:
    """The greatest value at the latest event time; null only if all values there are."""
    return lambda rows: max(_at(rows, column, time, max), default=None)


def _at(rows: list[Row], column: str, time: str, extreme: Callable[[list[int]], int]) -> list[Any]:
    if not rows:
        return []
    instant = extreme([row[time] for row in rows])
    return _present([row for row in rows if row[time] == instant], column)


def values(column: str) -> Aggregate:
    """All values, sorted."""
    return lambda rows: tuple(sorted(_present(rows, column)))
