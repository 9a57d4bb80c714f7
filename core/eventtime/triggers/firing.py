"""What was decided of windows in an epoch, for the operators that act on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ...columns.kernels import Index, Ints, Keys, Mask, expand

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
