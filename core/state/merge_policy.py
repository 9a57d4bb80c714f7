"""The merge policy decides when pieces are merged, so that each entry is moved a logarithmic number of times.

The runs of a spine have the same levels; which of them are due is decided by ``merger``.
"""

from __future__ import annotations

from collections.abc import Sequence

FAN = 4
"""How many pieces of about one size are kept before they are merged."""

FLOOR = 512
"""Pieces up to this size are of one level: merging them costs about as much as visiting one of them."""


def level_bounds(size: int) -> tuple[int, int]:
    """Return the bounds of the level of a size: it exceeds the first one, and the second is the largest of its level.

    Levels end at ``FLOOR`` and at its multiples by powers of ``FAN``.
    """
    below, reached = -1, FLOOR
    while size > reached:
        below, reached = reached, reached * FAN
    return below, reached


def to_merge(sizes: Sequence[int]) -> int | None:
    """Return the place from which all pieces are to be merged into one; None if none are to be merged.

    The last pieces are merged as soon as there are ``FAN`` of their level, or the last exceeds those before it. Call this
    again after a merge.
    """
    if len(sizes) < 2:
        return None
    (below, reached), first = level_bounds(sizes[-1]), len(sizes) - 1
    while first and sizes[first - 1] <= reached:
        first -= 1
    smaller = any(size <= below for size in sizes[first:-1])
    return first if smaller or len(sizes) - first >= FAN else None
