"""A view as its sinks get it: up to the last epoch that no crash takes back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Protocol

import polars as pl

from evercurrent.core.data.errors import EpochGoneError
from evercurrent.core.data.schema import EPOCH

from ..epochs.snapshot import Snapshot
from .view_keeper import ViewKeeper


class KeptView(Protocol):
    """A view of an engine, as far as it is read for its sinks."""

    name: str

    @property
    def _engine(self) -> ViewKeeper:
        """The engine."""
        ...

    @property
    def epoch(self) -> int:
        """The last epoch."""
        ...

    @property
    def first_epoch(self) -> int:
        """The first epoch of its present definition."""
        ...

    def read(self, epoch: int | None = None) -> pl.DataFrame:
        """Return the contents, now or after an epoch."""
        ...

    def snapshot(self) -> Snapshot:
        """Return the contents and their epoch."""
        ...

    def deltas(self, since: int | None = None) -> Iterable[pl.DataFrame]:
        """Return the changes after an epoch."""
        ...


class DurableView:
    """A view without the epochs that are in memory only, as between two commits of ``Checkpoint(every=...)``.

    After a crash other rows may come under the numbers of those epochs, and a sink could not take back what it has written.
    """

    def __init__(self, view: KeptView) -> None:
        self._view = view
        self.name = view.name

    @property
    def epoch(self) -> int:
        """The last epoch that no crash takes back."""
        return self._view._engine.durable_epoch

    @property
    def first_epoch(self) -> int:
        """The first epoch of its present definition."""
        return self._view.first_epoch

    def snapshot(self) -> Snapshot:
        """Return the contents after an epoch that no crash takes back."""
        while True:
            # Read in this order, as another epoch may come in between.
            now = self._view.snapshot()
            epoch = self.epoch
            if now.epoch <= epoch:
                return now
            try:
                return Snapshot(epoch, self._view.read(epoch))
            except EpochGoneError:  # Unless a commit has just taken its place.
                if epoch == self.epoch:
                    raise

    def read(self, epoch: int) -> pl.DataFrame:
        """Return the contents after an epoch."""
        return self._view.read(epoch)

    def deltas(self, since: int | None = None) -> Iterator[pl.DataFrame]:
        """Return the changes after an epoch, up to that epoch."""
        until = self.epoch
        return takewhile(lambda delta: int(delta[EPOCH][0]) <= until, self._view.deltas(since))

    @property
    def _last_epoch(self) -> int:
        return self._view.epoch

    def _make_durable(self) -> int:
        return self._view._engine.make_durable()
