"""The options of an engine's checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from os import PathLike
from pathlib import Path

from evercurrent.core.data.durations import microseconds
from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import require_booleans
from evercurrent.core.data.tags import added_later, tagged

from ..store import Store, store_at


@tagged("views.checkpoint.options:Checkpoint")
@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The place of an engine's checkpoint, and its options.

    Args:
        path: a folder, or any url that fsspec can open, such as ``s3://bucket/folder``.
        every: with 1 every epoch survives a crash from the moment ``push`` returns. With n there is a commit after n
            epochs; rows pushed after the last one have to be pushed again, and sinks get these epochs with the commit.
        keep: how many commits stay readable (``view.read(epoch=...)``, ``view.deltas(since=...)``), at the least.
        grace: the age at which files that no commit needs are deleted, as other processes may still be reading them.
        resident_bytes: about how much of the process's own memory (on Linux ``RssAnon``) states and their merges take;
            beyond that, states are mapped from their files. It does not include pages of these files, which the system
            reclaims when memory is short (``RssFile``), the rows of a running epoch, retained deltas (``Retain``), and
            rows that are read. ``engine.explain()`` shows how much is in memory. None: no limit.
        drop: views and sources of the checkpoint that are no longer declared, whose state is dropped.
        allow_pickle: keep states of ``aggregate(...)`` that are neither plain values nor have a serializer as pickles, and
            load such pickles, which runs any code in them. Set it only if everybody who can write there may run code as
            you. Opening a checkpoint with it once converts pickles of earlier versions, if they are plain values or have
            a serializer. See SECURITY.md.

    Raises:
        PlanError: an option is not a path, a number from 1, a length of time, or a Boolean, as it should be.

    >>> Checkpoint("orders.checkpoint", every=10, grace="1h").grace_seconds
    3600.0
    """

    path: str | Path
    every: int = 1
    keep: int = 1000
    grace: str | timedelta = "10m"
    resident_bytes: int | None = None
    drop: tuple[str, ...] = ()
    allow_pickle: bool = field(default=False, metadata=added_later())

    def __post_init__(self) -> None:
        # A store is accepted in place of a path, as by ``store_at``.
        if not isinstance(self.path, str | PathLike) and not hasattr(self.path, "url"):
            raise PlanError(
                f"Checkpoint: path={self.path!r}; give a folder, or a url such as s3://bucket/folder"
            )
        for name, number in (
            ("every", self.every),
            ("keep", self.keep),
            ("resident_bytes", self.resident_bytes),
        ):
            optional = name == "resident_bytes" and number is None
            if not optional and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
                raise PlanError(f"Checkpoint: {name}={number!r}; give a whole number from 1")
        names = None if isinstance(self.drop, str) or not isinstance(self.drop, Iterable) else self.drop
        if names is None or not all(isinstance(name, str) for name in names):
            raise PlanError(f"Checkpoint: drop={self.drop!r}; give a tuple of names")
        require_booleans("Checkpoint", allow_pickle=self.allow_pickle)
        microseconds("Checkpoint: grace", self.grace)

    @property
    def store(self) -> Store:
        """Return the store at the path."""
        return store_at(self.path)

    @property
    def grace_seconds(self) -> float:
        """Return ``grace`` in seconds."""
        return microseconds("Checkpoint: grace", self.grace) / 1_000_000

    @property
    def full_every(self) -> int:
        """Return how often a record is whole; commits are kept from a whole one on, so at most twice ``keep`` of them."""
        return min(64, self.keep)
