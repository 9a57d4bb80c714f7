"""Interfaces to read the states of an operator: the rows that it has emitted, and the states of users' functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from ..data.columns.kernels import Keys
from ..data.delta import Delta
from .spine import Spine, Version


class Readable(Protocol):
    """A state from which all rows that an operator has emitted can be read."""

    spine: Spine

    @property
    def reads(self) -> tuple[Spine, ...]:
        """Return the states from which the contents are made."""
        ...

    @property
    def key_types(self) -> pl.Schema:
        """Return the columns by whose words the entries of its first state are kept."""
        ...

    @property
    def calls_users(self) -> bool:
        """Return whether reading the rows may call a function of a user."""
        ...

    def words(self, frame: pl.DataFrame) -> Keys:
        """Return the words by which the entries of rows with these columns are kept."""
        ...

    def contents(self, at: Sequence[Version] | None = None) -> pl.DataFrame:
        """Return all rows, as of the last commit, or ``at`` versions of the states that it ``reads``."""
        ...

    def emitted(self, at: Sequence[Version] | None = None) -> Delta:
        """Return the sum of all that was emitted, as ``contents``; diffs may be negative if retractions of a source are trusted."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class UserState:
    """A state that a user's functions compute, and which may be kept as pickles.

    ``has_pickles`` returns whether there are any. ``convert`` replaces pickles that have another form, and returns whether
    there were any of these. ``refusal`` makes a complaint a message that names the column.
    """

    spine: Spine
    has_pickles: Callable[[], bool]
    convert: Callable[[], bool]
    refusal: Callable[[str], str]
