"""The merge policy decides when pieces are merged, so that each entry is moved a logarithmic number of times."""

from __future__ import annotations

from collections.abc import Sequence

FAN = 4
"""How many pieces of about one size are kept before they are merged."""

FLOOR = 512
"""Pieces up to this size are of one level: merging them costs about as much as visiting one of them."""


def level_of(size: int) -> int:
    """Return the power of ``FAN`` by which a size exceeds ``FLOOR``."""
    level, reached = 0, FLOOR
    while size > reached:
        level, reached = level + 1, reached * FAN
    return level


def to_merge(sizes: Sequence[int]) -> int | None:
    """Return the place from which all pieces are to be merged into one; None if none are to be merged.

    The last pieces are merged as soon as there are ``FAN`` of their level, or the last exceeds those before it. Call this
    again after a merge.
    """
    if len(sizes) < 2:
        return None
    level, first = level_of(sizes[-1]), len(sizes) - 1
    while first and level_of(sizes[first - 1]) <= level:
        first -= 1
    smaller = any(level_of(size) < level for size in sizes[first:-1])
    return first if smaller or len(sizes) - first >= FAN else None


def due_from(sizes: Sequence[int], most: int | None) -> int | None:
    """Return the place from which all runs are to be merged; None if none are. Call this again after a merge.

    The youngest run is merged with those that it exceeds, and all runs of its level as soon as there are ``FAN``. So levels
    descend from the oldest run to the youngest, with fewer than ``FAN`` runs each. No merge is of more entries than ``most``.
    """
    if len(sizes) < 2:
        return None
    level, start = level_of(sizes[-1]), len(sizes) - 1
    while start and level_of(sizes[start - 1]) < level:
        start -= 1
    first = start
    while first and level_of(sizes[first - 1]) == level:
        first -= 1
    if start - first + 1 >= FAN:
        start = first
    if most is not None:
        start = _within_bounds(sizes, start, most)
    return start if start < len(sizes) - 1 else None


def _within_bounds(sizes: Sequence[int], start: int, most: int) -> int:
    """Return the first place, not before ``start``, from which all runs to the last may be merged."""
    place, entries = len(sizes) - 1, sizes[-1]
    while place > start and entries + sizes[place - 1] <= most:
        place, entries = place - 1, entries + sizes[place - 1]
    return place
