"""What others read of the states of an operator: the rows that it has emitted, and what users' functions keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from ..data.delta import Delta
from .spine import Spine, Version


class Readable(Protocol):
    """A state from which all rows that an operator has emitted can be read."""

    spine: Spine

    @property
    def reads(self) -> tuple[Spine, ...]:
        """Return the states from which the contents are made."""
        ...

    def contents(self, at: Sequence[Version] | None = None) -> pl.DataFrame:
        """Return all rows, as of the last commit, or ``at`` versions of the states that it ``reads``."""
        ...

    def emitted(self) -> Delta:
        """Return all that was emitted so far, added up; diffs are negative where the rows of a source are trusted."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class UserState:
    """A state that a user's functions compute, and which may be kept as pickles.

    ``has_pickles`` looks for them, ``convert`` replaces them by another form and returns whether any had one; ``refusal``
    completes a complaint to a message that names the column.
    """

    spine: Spine
    has_pickles: Callable[[], bool]
    convert: Callable[[], bool]
    refusal: Callable[[str], str]
