"""What was decided of windows in an epoch, for the operators that act on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import polars as pl

from ..clock import END_OF_TIME, START_OF_TIME, Clock
from ..kernels import Index, Ints, Keys, Mask, expand
from ..routes import ONE, Route
from ..saved import Saved

EARLY, ON_TIME, LATE = 0, 1, 2
"""Timing of a pane: before the watermark passed the end, when it did, after that."""

NO_KEYS = Keys(np.zeros(0, np.uint64))


class Merges(Protocol):
    """Windows that became part of others in this epoch: the words of the old ones, and of the new one of each."""

    @property
    def old(self) -> Keys:
        """The windows that are no more."""
        ...

    @property
    def new(self) -> Keys:
        """What each of them is part of now."""
        ...


class Merging(Protocol):
    """What the tracker asks of sessions: which became part of others, and which rows are new."""

    instants: Ints
    """The event times of the rows of the output, which are not in it."""

    @property
    def moves(self) -> Merges | None:
        """The sessions that became part of others in this epoch."""
        ...

    @property
    def arrivals(self) -> int:
        """So many leading entries of the output are this epoch's rows; the rest were there and have moved."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Firing:
    """What becomes of windows at the end of an epoch.

    ``keys`` are those that speak, ascending, with their ``timing``, and whether it ``is_last``. ``closed`` are
    those that the watermark has closed, ``over`` also those that have lost all their rows and said so; which of those
    that speak ``holds_rows``, and which ``is_over``. ``expired`` are those whose rows are forgotten: the closed ones and, where panes discard,
    all that speak.
    """

    keys: Keys = NO_KEYS
    timing: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    is_last: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    holds_rows: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    is_over: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    closed: Keys = NO_KEYS
    over: Keys = NO_KEYS
    expired: Keys = NO_KEYS
    moves: Merges | None = None


class Held:
    """The clock behind windows: the watermark, held back by what is behind it and has not been spoken yet.

    Dataflow Model, section 2.3, and Streaming 102: a watermark downstream must not pass a pane that is to come.
    """

    route: Route | None = ONE

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._committed = self._staged = (START_OF_TIME, END_OF_TIME)
        self._is_found = self._was_found = False
        self._pinned: tuple[int, int] | None = None
        self.is_wanted = False

    @property
    def before(self) -> int:
        """The held watermark as of the last commit."""
        return self._committed[0] if self._pinned is None else self._pinned[0]

    @property
    def now(self) -> int:
        """The held watermark after this epoch."""
        return self._staged[0] if self._pinned is None else self._pinned[1]

    @property
    def held_at(self) -> int:
        """The instant at which it was told to hold the watermark last; the end of time if there was nothing to wait for."""
        return self._staged[1]

    @property
    def is_found(self) -> bool:
        """Whether ``held_at`` was found out here. What was restored may be from when other windows were here too."""
        return self._is_found

    def stage(self, held_at: int) -> None:
        """Hold the watermark at this instant; it never moves back."""
        self._staged = max(self._committed[0], min(self._clock.now, held_at)), held_at
        self._is_found = True

    def pin(self, before: int, now: int) -> None:
        """Say these watermarks in this process until pinned anew: what is behind the clock is known elsewhere only."""
        self._pinned = before, now

    def commit(self) -> None:
        """Make what was staged the state."""
        self._committed, self._was_found = self._staged, self._is_found

    def discard(self) -> None:
        """Forget what was staged."""
        self._staged, self._is_found = self._committed, self._was_found

    def saved(self) -> Saved:
        """See ``State``: no pieces."""
        held, held_at = self._staged
        return Saved((), {"committed": held, "held_at": held_at})

    def restore(self, saved: Saved) -> None:
        """See ``State``."""
        facts = saved.facts
        self._committed = facts.get("committed", START_OF_TIME), facts.get("held_at", END_OF_TIME)
        self._was_found = False
        self.discard()

    def columns_of(self, piece: object) -> pl.DataFrame:
        """There are no pieces."""
        raise AssertionError("a held watermark has no pieces")

    def piece_of(self, columns: pl.DataFrame) -> object:
        """There are no pieces."""
        raise AssertionError("a held watermark has no pieces")

    entries = 0
    nbytes = 0


def places_among(wanted: Keys, among: Keys) -> Index:
    """Where each key stands among ascending, distinct ones; -1 where it does not."""
    lower = np.searchsorted(among.first, wanted.first)
    upper = np.searchsorted(among.first, wanted.first, side="right")
    place = np.where(lower < upper, lower, -1)
    if among.second is None and wanted.second is None:
        return place
    seconds, own = among.seconds(), wanted.seconds()
    positions, owners = expand(lower, upper)
    same = seconds[positions] == own[owners]
    place = np.full(len(wanted), -1)
    place[owners[same]] = positions[same]
    return place
