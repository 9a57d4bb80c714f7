"""The merge policy decides when pieces are merged, so that each entry is moved a logarithmic number of times.

The runs of a spine have the same levels, and are merged by ``merger``.
"""

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
