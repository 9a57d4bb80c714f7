"""The clocks of an epoch: processing time and the watermark, neither of which is read from the machine's clock."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NewType, Protocol

import polars as pl

from .columns.kernels import Ints

Epoch = NewType("Epoch", int)
"""Number of an atomic step of the engine: 1 for the first, without gaps. 0 is "before any input"."""


_ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Now:
    """The clocks of one epoch, recorded with its input so that a replay sees the same ones.

    ``processing_time`` is when the batch was accepted, in UTC.
    """

    epoch: Epoch
    processing_time: datetime

    @property
    def instant(self) -> int:
        """Return the processing time in microseconds since 1970-01-01 UTC."""
        return (self.processing_time - _ORIGIN) // _MICROSECOND

    @staticmethod
    def at(epoch: Epoch, instant: int) -> Now:
        """Return the clocks of an epoch with a processing time in microseconds; the inverse of ``instant``."""
        return Now(epoch, _ORIGIN + instant * _MICROSECOND)


START_OF_TIME = -(2**62)
"""The watermark as long as it is unknown, in microseconds; far enough from the ends of int64 for additions."""

END_OF_TIME = 2**62
"""The watermark after the last row: no more rows will come."""


class Clock(Protocol):
    """How far event time is complete: no more rows are expected with an event time below the watermark.

    Instants are microseconds since 1970-01-01 UTC.
    """

    @property
    def before(self) -> int:
        """Return the watermark as of the last commit: rows of this epoch are late if they are behind it."""
        ...

    @property
    def now(self) -> int:
        """Return the watermark after the rows of this epoch; valid once the nodes upstream have stepped."""
        ...


class OwnClock:
    """A clock that is not made of others."""

    is_read = False
    """Whether anything reads it, which is set where that is added to the circuit."""

    guard: Callable[[str], None] | None = None
    """Called with ``"before"`` or ``"now"`` when that is read, where tests have set it."""

    def _check(self, moment: str) -> None:
        if self.guard is not None:
            self.guard(moment)


Collect = Callable[[pl.DataFrame, Ints], None]
"""Takes rows with diffs that may move a clock, and their event times."""


class MovedClock(OwnClock, ABC):
    """A clock that an operator moves, by rows of a source or by the windows that hold it back.

    Where rows are cut into buckets it is moved in one process, and pinned in the others.
    """

    is_held = False
    """Whether windows hold it back; else rows move it."""

    _pinned: tuple[int, int] | None = None

    @property
    @abstractmethod
    def before(self) -> int:
        """See ``Clock``."""

    @property
    @abstractmethod
    def now(self) -> int:
        """See ``Clock``."""

    @property
    def form(self) -> tuple[object, ...]:
        """Return what its saved memory depends on, which is recorded beside its identity; empty if that is nothing."""
        return ()

    @property
    def held_at(self) -> int:
        """Return the instant at which windows hold it back; the end of time if none does."""
        return END_OF_TIME

    def stage(self, held_at: int) -> None:
        """Stage that windows hold it back at this instant."""
        raise NotImplementedError

    def pin(self, before: int, now: int) -> None:
        """Use these watermarks in this process until the next call: what moves the clock is in other processes."""
        self._pinned = before, now

    def collect(self, collect: Collect) -> None:
        """Hand rows that would move it to a function from now on, as it is moved elsewhere; nothing if no rows move it."""
        return


class UnknownClock(OwnClock):
    """The clock of a collection whose sources declare no event time: nothing is ever known to be complete."""

    before = START_OF_TIME
    now = START_OF_TIME


class Earliest:
    """The clock of several inputs: the minimum of their watermarks (Dataflow Model, section 2.3)."""

    def __init__(self, clocks: Sequence[Clock]) -> None:
        self.parts: tuple[Clock, ...] = tuple(clocks)

    @property
    def before(self) -> int:
        """Return the least of the watermarks as of the last commit."""
        return min(clock.before for clock in self.parts)

    @property
    def now(self) -> int:
        """Return the least of the watermarks after this epoch's rows."""
        return min(clock.now for clock in self.parts)


class Latest:
    """The clock that is ahead of others: what is complete for one of them is complete."""

    def __init__(self, clocks: Sequence[Clock]) -> None:
        self.parts: tuple[Clock, ...] = tuple(clocks)

    @property
    def before(self) -> int:
        """Return the greatest of the watermarks as of the last commit."""
        return max(clock.before for clock in self.parts)

    @property
    def now(self) -> int:
        """Return the greatest of the watermarks after this epoch's rows."""
        return max(clock.now for clock in self.parts)


def bases(clock: Clock) -> tuple[OwnClock, ...]:
    """Return the clocks that move by themselves, of which a clock is made."""
    if isinstance(clock, Earliest | Latest):
        return tuple(base for part in clock.parts for base in bases(part))
    return (clock,) if isinstance(clock, OwnClock) else ()


def mark_read(clock: Clock) -> tuple[OwnClock, ...]:
    """Note that a clock is read from now on; return the clocks of which it is made."""
    read = bases(clock)
    for base in read:
        base.is_read = True
    return read
