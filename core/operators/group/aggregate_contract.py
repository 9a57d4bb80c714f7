"""The members of an aggregate's state that a group operator uses; each kind of state defines them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import polars as pl

from ...data.columns.grouping import Groups
from ...data.columns.kernels import Index, Ints, Keys, Mask
from ...data.columns.whole_columns import AnyColumn
from ...state.spine import Spine
from .heads import HeadOrder

Sums = Mapping[str, Ints]


@dataclass(frozen=True, eq=False)
class Change:
    """The rows of touched groups before this epoch, followed by the rows after it.

    ``keys`` are the touched groups, ascending. ``groups`` is the group of each row: first the ``count_before`` groups
    that existed, then those that exist now. ``sums`` are the additive columns of the rows.
    """

    keys: Keys
    groups: Index
    count_before: int
    sums: Sums

    @property
    def count_after(self) -> int:
        """Return the number of groups that exist now."""
        return len(self.groups) - self.count_before

    @property
    def after(self) -> Sums:
        """Return the additive columns of the groups that exist now."""
        return {name: column[self.count_before :] for name, column in self.sums.items()}


class StoredStates(Protocol):
    """States of a user's aggregate that are kept, and to which rows are added and from which they are removed."""

    input: str
    spine: Spine

    @property
    def column(self) -> str:
        """Return the additive column with the sum of the words of the rows."""
        ...

    def stage(self, groups: Groups, values: pl.Series, diffs: Ints, empty: Mask) -> None:
        """Stage the states after these rows, and no state for groups that are ``empty``."""
        ...

    def has_pickles(self) -> bool:
        """Return whether any state is kept as a pickle."""
        ...

    def convert(self) -> bool:
        """Convert kept pickles to another form where they have one, between epochs; return False if none has."""
        ...


class FirstRows(Protocol):
    """The first rows of groups, which are kept in additive columns of the groups."""

    order: HeadOrder

    def moved(self, rows: pl.DataFrame, groups: Index, keys: Keys, sums: Sums) -> tuple[Sums, Sums]:
        """Return the additions to the additive columns of groups, and what these should have held before."""
        ...

    def columns_of(self, rows: pl.DataFrame, groups: Index, count: int) -> list[pl.Series]:
        """Return the first rows of groups among these rows as columns, for parts of a change that are combined later."""
        ...


class AggregateState(ABC):
    """One aggregate of a group operator."""

    counts_input: ClassVar[bool] = False
    """Whether it adds up over the diffs of an input of its own."""

    @property
    def column(self) -> str:
        """Return the additive column of the group that it alone has; empty if there is none."""
        return ""

    @property
    def reads(self) -> Spine | None:
        """Return the spine that holds the rows from which it is computed; None if it is computed from additive columns alone."""
        return None

    @property
    def stored_states(self) -> StoredStates | None:
        """Return itself if it keeps states of a user's aggregate."""
        return None

    @property
    def first_rows(self) -> FirstRows | None:
        """Return itself if it keeps first rows in additive columns of the groups."""
        return None

    def of(self, spine: Spine) -> Self:
        """Return the same state over the rows of this spine, of which only ``current`` may be used."""
        return self

    @abstractmethod
    def current(self, keys: Keys, sums: Sums) -> pl.Series:
        """Return the aggregate of each group as of the last commit; ``keys`` ascend, ``sums`` are additive columns."""

    @abstractmethod
    def change(self, change: Change) -> AnyColumn:
        """Return the aggregate of each row of the change."""

    @property
    def is_kept(self) -> bool:
        """Return whether its results are kept for the next epoch, as computing them from additive columns costs more."""
        return False

    def after(self, change: Change) -> pl.Series:
        """Return the aggregate of each group that exists after the change. Only used if it ``is_kept``."""
        raise AssertionError("all results of a change are computed together")
