"""What an engine publishes at the end of an epoch: one object that later epochs do not change."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import polars as pl

from evercurrent.core.data.columns.key_hash import hashing_by
from evercurrent.core.data.errors import EpochGoneError, InputError
from evercurrent.core.data.recent import Stretch
from evercurrent.core.state.ledger import Refused
from evercurrent.core.state.narrowing import narrowed
from evercurrent.core.state.readable import Readable
from evercurrent.core.state.spine import Version

from ..checkpoint.beside_writer import TRIES
from ..compiler.builder import Compiled
from ..concurrency.polars_threads import require_polars_threads
from ..concurrency.turns import Guard
from ..epochs.history import BEFORE_ALL, Retained
from ..epochs.records import EvaluatedEpoch
from ..epochs.run_log import RunLog

Read = TypeVar("Read")


class _Rows:
    """The rows of a view, made when they are first read; other readers wait meanwhile."""

    __slots__ = ("_guards", "frame")

    def __init__(self) -> None:
        self.frame: pl.DataFrame | None = None
        self._guards: dict[str, Guard] = {}
        """The lock, made by the first reader: most versions of a view are never read."""

    def of(self, readable: Readable, versions: tuple[Version, ...]) -> pl.DataFrame:
        """The rows of these versions, by reference."""
        if self.frame is None:
            require_polars_threads()
            with self._guards.setdefault("rows", Guard()).lock:
                if self.frame is None:
                    self.frame = readable.contents(versions)
        return self.frame


@dataclass(frozen=True, slots=True, eq=False)
class PublishedView:
    """A view at the end of an epoch: the states that hold its rows, and its deltas up to then."""

    readable: Readable
    versions: tuple[Version, ...]
    history: Retained
    _rows: _Rows = field(default_factory=_Rows)

    @staticmethod
    def of(readable: Readable, history: Retained, before: PublishedView | None = None) -> PublishedView:
        """Return the view as of the last commit; with ``before``, its rows are the same, though maybe in other runs."""
        versions = tuple([spine.version for spine in readable.reads])
        return PublishedView(readable, versions, history, _Rows() if before is None else before._rows)

    @property
    def is_current(self) -> bool:
        """Whether its states have not changed since."""
        return all(
            spine.version is version
            for spine, version in zip(self.readable.reads, self.versions, strict=True)
        )

    def shares_all(self, other: PublishedView) -> bool:
        """Return whether a view of another engine is made of the same runs."""
        ours, theirs = (
            [part for version in view.versions for parts in version.parts for part in parts]
            for view in (self, other)
        )
        return len(ours) == len(theirs) and all(map(operator.is_, ours, theirs))

    def rows_of(self, row: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that have these values, given as a frame of one row. Cost: these rows, if it is the key of the state."""
        readable = self.readable
        if set(row.columns) != set(readable.key_types):
            return with_values(self.rows(), row)
        words = readable.words(row.select(*readable.key_types))
        first = narrowed(readable.reads[0], self.versions[0], words)
        # The words are a hash, and its collisions are other rows.
        return with_values(readable.contents((first, *self.versions[1:])), row)

    def rows(self) -> pl.DataFrame:
        """All rows, in a frame of the caller's own."""
        return self._rows.of(self.readable, self.versions).clone()


def with_values(rows: pl.DataFrame, row: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with the values of a frame of one row, nulls and NaN being equal to themselves."""
    return rows.filter(pl.col(column.name).eq_missing(pl.lit(column)) for column in row.get_columns())


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """The state that readers in any thread see between two epochs: all views as of one epoch.

    ``waiting`` are the epochs that were in no file yet, if there is a checkpoint.
    """

    compiled: Compiled
    epoch: int
    positions: Mapping[str, Any]
    watermarks: Mapping[str, int]
    views: Mapping[str, PublishedView]
    refused: Stretch[Refused]
    log: RunLog
    waiting: tuple[EvaluatedEpoch, ...] = ()

    def rows(self, view: str) -> pl.DataFrame:
        """All rows of a view, in a frame of the caller's own."""
        return self._view(view).rows()

    def rows_of(self, view: str, row: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of a view that have these values, see ``PublishedView.rows_of``."""
        require_polars_threads()
        # A reader's thread, too, has to use the hash of the circuit.
        with hashing_by(self.compiled.circuit.key_hash):
            return self._view(view).rows_of(row)

    def require(self, view: str, since: int) -> None:
        """Check that the deltas of a view after this epoch are retained, and that its present definition had begun.

        Raises:
            EpochGoneError: they are no longer retained, or it had not.
        """
        history = self._view(view).history
        history.require_present(since)
        history.require(since, self.waiting)

    def deltas(self, view: str, since: int) -> Iterator[pl.DataFrame]:
        """The deltas of a view after this epoch, in frames of the caller's own.

        Raises:
            EpochGoneError: they are no longer retained.
        """
        require_polars_threads()
        return self._view(view).history.since(since, self.waiting)

    def all_deltas(self, view: str, read: Callable[[Iterator[pl.DataFrame]], Read]) -> tuple[int, Read]:
        """Return the epoch after which deltas of a view are retained, and what is read of these.

        They go at most back to the beginning of its present definition. Reading begins again where some are dropped meanwhile.

        Raises:
            EpochGoneError: they are dropped faster than they are read.
        """
        gone: EpochGoneError | None = None
        for _ in range(TRIES):
            begins = self.begins(view)
            try:
                return begins, read(self._all_deltas(view, begins))
            except EpochGoneError as error:
                gone = error
        assert gone is not None, "there is a first try"
        raise gone

    def _all_deltas(self, view: str, begins: int) -> Iterator[pl.DataFrame]:
        try:
            return self.deltas(view, BEFORE_ALL)
        except EpochGoneError:
            return self.deltas(view, begins)

    def begins(self, view: str) -> int:
        """Return the epoch after which all deltas of a view are retained."""
        return self._view(view).history.begins

    def earliest(self, view: str) -> int:
        """Return as far back as deltas of a view go: what ``begins`` returns, or -1 if all of its present definition are retained."""
        history = self._view(view).history
        is_whole = history.begins < history.first and not history.is_forked
        return BEFORE_ALL if is_whole else history.begins

    def declared_at(self, view: str) -> int:
        """Return the epoch in which a view was declared, or replaced by another one; 0 if it was there before the first, or in a fork."""
        return 0 if self._view(view).history.is_forked else self.first(view)

    def first(self, view: str) -> int:
        """Return the first epoch of the present definition of a view."""
        return self._view(view).history.first

    def _view(self, name: str) -> PublishedView:
        """Return a view.

        Raises:
            InputError: it is not published yet, or no longer, as it is declared or dropped in another thread.
        """
        if name not in self.views:
            raise InputError(
                f"view {name!r} is not there after epoch {self.epoch}; it is being declared, or was dropped"
            )
        return self.views[name]
