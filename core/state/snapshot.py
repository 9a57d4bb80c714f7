"""The saved form of a state: immutable pieces that are written once, and a few plain facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class Saved:
    """A saved state: immutable pieces, compared by identity, and plain facts (JSON values only).

    A piece that is the same object as one saved before has the same content, so it need not be written again. Pieces
    can be hashed, by identity, and weakly referenced.
    """

    pieces: tuple[Any, ...]
    facts: Mapping[str, Any]


NOTHING = Saved((), {})
"""The saved form of an empty state."""

SPENT = "spent"
"""Fact: how many leading entries of each piece are no longer part of the state; none if it is missing."""

KEY, SECOND, ROW, ROW_SECOND, INSTANT = "key", "second", "row", "row second", "instant"
"""Columns of a piece: the words of the entries' keys and of their rows; the instants of entries kept by time."""

SUM, PAYLOAD = "sum ", "payload "
"""Columns of a piece begin so: an additive column, and a column that goes with the entry."""


def is_plain(value: object) -> bool:
    """Return whether a value comes back from JSON as it was: numbers, texts, None, and lists and dicts of these.

    >>> is_plain({"highest": [1, 2.5, None]}), is_plain((1, 2)), is_plain({1: 2})
    (True, False, False)
    """
    if type(value) is float:
        return value - value == 0  # JSON has no infinities.
    if type(value) is list:
        return all(map(is_plain, value))
    if type(value) is dict:
        return all(type(name) is str and is_plain(item) for name, item in value.items())
    return type(value) in (bool, int, str, type(None))
