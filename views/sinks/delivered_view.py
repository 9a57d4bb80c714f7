"""What a delivery reads: a view, and where it notes the epoch that a sink begins with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import polars as pl


class Snapshot(Protocol):
    """The contents of a view and their epoch."""

    @property
    def epoch(self) -> int:
        """The epoch."""
        ...

    @property
    def frame(self) -> pl.DataFrame:
        """The rows."""
        ...


class DeliveredView(Protocol):
    """A view, as far as it is delivered: of an engine in this process, or in a checkpoint."""

    name: str

    @property
    def epoch(self) -> int:
        """The last epoch that can be written: no crash takes it back."""
        ...

    @property
    def _last_epoch(self) -> int:
        """The last epoch, which may not be in a commit yet."""
        ...

    def _make_durable(self) -> int:
        """Commit what is not in a commit yet, and return the last epoch.

        Raises:
            CheckpointError: it could not be written.
        """
        ...

    @property
    def first_epoch(self) -> int:
        """The first epoch of its present definition: what a sink has of those before is of another view."""
        ...

    def snapshot(self) -> Snapshot:
        """Return the contents and their epoch."""
        ...

    def read(self, epoch: int) -> pl.DataFrame:
        """Return the contents after an epoch.

        Raises:
            EpochGoneError: they are no longer retained.
        """
        ...

    def deltas(self, since: int | None = None) -> Iterable[pl.DataFrame]:
        """Return the changes after an epoch, a frame for each.

        Raises:
            EpochGoneError: they are no longer retained.
        """
        ...


class Beginning(Protocol):
    """The epoch with whose contents a sink begins that does not remember it, where it outlives the process."""

    def last(self) -> int | None:
        """Return the epoch; None if there is none."""
        ...

    def note(self, epoch: int) -> None:
        """Put an epoch in the place of the one before."""
        ...
