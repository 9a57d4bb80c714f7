"""The published deltas of a view by epoch: the newest in memory, older ones from a checkpoint."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Protocol

import polars as pl

from evercurrent.core.data.errors import EpochGoneError, PlanError
from evercurrent.core.data.recent import Limited, Stretch
from evercurrent.core.data.tags import tagged

from .records import EvaluatedEpoch
from .view_deltas import ViewDelta

BEFORE_ALL = -1
"""The epoch before epoch 0, in which a grouping by nothing gets its row."""


@tagged("views.history:Retain")
@dataclass(frozen=True, slots=True)
class Retain:
    """How many deltas a view keeps for readers that come later: the newest, up to both limits.

    ``epochs`` counts epochs that changed the view, ``rows`` the entries of their deltas. A row that
    several changes of an epoch are about may count as often.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> engine = ec.Engine(retain=ec.Retain(epochs=2))
    >>> words = engine.source("words", {"word": pl.String})
    >>> counts = engine.view("counts", words.group_by("word").len())
    >>> _ = [words.push({"word": [word]}) for word in "abc"]
    >>> [delta.rows() for delta in counts.deltas(since=1)]
    [[('b', 1, 2, 1)], [('c', 1, 3, 1)]]
    """

    epochs: int = 1000
    rows: int = 1_000_000

    def __post_init__(self) -> None:
        for name, limit in (("epochs", self.epochs), ("rows", self.rows)):
            if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
                raise PlanError(f"Retain: {name}={limit!r}; give a whole number from 0")


class Older(Protocol):
    """The store of the deltas that are no longer in memory: a checkpoint."""

    def begins(self, view: str) -> int:
        """Return the epoch after which all deltas of a view are retained."""
        ...

    def first(self, view: str) -> int:
        """Return the first epoch of the present definition of a view; 0 if it is the only one."""
        ...

    def deltas(
        self, view: str, since: int, until: int, waiting: Sequence[EvaluatedEpoch]
    ) -> Iterator[pl.DataFrame]:
        """Return the deltas of a view after one epoch and up to another; ``waiting`` are those not yet in files.

        Raises:
            EpochGoneError: they are no longer retained; raised at once, on iteration only if they are dropped before they are read.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Retained:
    """The deltas of one view that are retained at the end of an epoch; later epochs do not change this object.

    ``frames`` are those in memory, of all epochs after ``complete_since``. ``waiting`` are the epochs that were not in files
    at that time; an epoch that has been written since is not returned twice.
    """

    view: str
    frames: Stretch[ViewDelta]
    complete_since: int
    older: Older | None
    born: int = BEFORE_ALL
    """The epoch after which the present definition of the view begins, if it was declared while the engine ran."""
    is_forked: bool = False
    """Whether it was forked after that epoch, and its definition is older."""

    @property
    def begins(self) -> int:
        """The epoch after which all deltas are retained."""
        if self.older is None:
            return self.complete_since
        return min(self.complete_since, self.older.begins(self.view))

    @property
    def first(self) -> int:
        """The first epoch of the present definition."""
        return max(self.born + 1, 0 if self.older is None else self.older.first(self.view))

    def require_present(self, epoch: int) -> None:
        """Check that what a reader has as of this epoch is of the present definition: its deltas take back no rows of another one.

        Raises:
            EpochGoneError: it is not.
        """
        if BEFORE_ALL < epoch < self.first and not self.is_forked:
            raise EpochGoneError(
                f"view {self.view!r}: its present definition begins at epoch {self.first}, so that there are no deltas of it "
                f"after epoch {epoch}; start from view.snapshot()"
            )

    def require(self, epoch: int, waiting: Sequence[EvaluatedEpoch] = ()) -> None:
        """Check that the deltas of all epochs after this one are retained.

        Raises:
            EpochGoneError: they are no longer retained.
        """
        if self._first(epoch) >= self.complete_since:
            return
        if BEFORE_ALL < epoch < self.born and self.is_forked:
            raise EpochGoneError(
                f"view {self.view!r}: a fork of a checkpoint has the deltas of its own epochs, those after {self.born}, and not those "
                f"after epoch {epoch}; read them where the checkpoint is written, or start from view.snapshot()"
            )
        if BEFORE_ALL < epoch < self.born:
            raise EpochGoneError(
                f"view {self.view!r}: its present definition begins at epoch {self.born + 1}, so that there are no deltas of it "
                f"after epoch {epoch}; start from view.snapshot()"
            )
        if self.older is None:
            raise EpochGoneError(
                f"view {self.view!r}: the deltas after epoch {epoch} are no longer retained, those after "
                f"{self.complete_since} are; start from view.snapshot(), or retain more with Engine(retain=Retain(...))"
            )
        self.older.deltas(self.view, self._first_on_disk(epoch), self.complete_since, waiting)

    def since(self, epoch: int, waiting: Sequence[EvaluatedEpoch] = ()) -> Iterator[pl.DataFrame]:
        """Return the deltas of all epochs after this one, in frames that the caller owns.

        Raises:
            EpochGoneError: they are no longer retained.
        """
        self.require(epoch, waiting)
        epoch = self._first(epoch)
        first = bisect_right(range(len(self.frames)), epoch, key=lambda place: self.frames[place].epoch)
        newer = (delta.frame.clone() for delta in self.frames.past(first))
        if epoch < self.complete_since and self.older is not None:
            since = self._first_on_disk(epoch)
            return chain(self.older.deltas(self.view, since, self.complete_since, waiting), newer)
        return newer

    def _first(self, epoch: int) -> int:
        """Return the epoch after which deltas begin, if those after this one are requested."""
        return self.born if epoch == BEFORE_ALL else epoch

    def _first_on_disk(self, epoch: int) -> int:
        """Return the same epoch as files count: the present definition begins after ``BEFORE_ALL``, whichever epoch that was."""
        return BEFORE_ALL if epoch <= self.born else epoch


class History(Limited[ViewDelta]):
    """The newest deltas of one view up to the limits of ``retain``, as frames with ``_epoch`` and ``_diff``, and the way to older ones."""

    def __init__(self, view: str, retain: Retain) -> None:
        super().__init__(retain.epochs, retain.rows, attrgetter("entries"))
        self._view = view
        self._retain = retain
        self._older: Older | None = None
        self._complete_since = self._born = BEFORE_ALL
        self._is_forked = False

    def _dropped(self, item: ViewDelta) -> None:
        self._complete_since = item.epoch

    def go_on(self, after: int, older: Older) -> None:
        """Begin after this epoch; earlier deltas, and those beyond the limits, are read from ``older``."""
        self.clear()
        self._complete_since, self._older = after, older

    def begin(self, after: int, older: Older | None) -> None:
        """Begin after this epoch with another definition of the view, of which there are no earlier deltas."""
        self.clear()
        self._complete_since = self._born = after
        self._older, self._is_forked = older, False

    def begin_fork(self, after: int) -> None:
        """Begin after this epoch with the same definition: earlier deltas are in a checkpoint that others write."""
        self.begin(after, None)
        self._is_forked = True

    def forked(self) -> History:
        """Return a history with the deltas that are in memory, which continues independently."""
        other = History(self._view, self._retain)
        other.go_on_as(self)
        other._complete_since, other._born = self._complete_since, self._born
        other._is_forked = self._is_forked
        return other

    def now(self) -> Retained:
        """Return the deltas that are retained now."""
        return Retained(
            self._view, self.present, self._complete_since, self._older, self._born, self._is_forked
        )
