"""A checkpoint that an engine has opened and locked: its files, and the record of a commit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from evercurrent.core.data.errors import CheckpointError
from evercurrent.core.state.protocol import State
from evercurrent.core.state.snapshot import Saved

from ..checkpoint import Checkpoint, Commit, CommitLog, DeltaRef, Saver, new_writer, versions
from ..checkpoint.memory_limit import Residence
from ..checkpoint.rebucket import TOGETHER
from ..checkpoint.saver import Begun
from ..epochs.records import CommitMetadata, EvaluatedEpoch
from ..store import Store
from ..store.protocol import Abandoned
from ..store.syncing import is_ending
from .input_log import InputLog
from .last_write import FINDS_OUT, UnknownError
from .replaced_columns import ColumnTexts, columns_before, with_replaced
from .time_travel import BORN, Past
from .time_travel_reader import PastReader

NOWHERE: Mapping[int, Saved] = {}


@dataclass(slots=True)
class OpenCheckpoint:
    """A checkpoint whose lock this engine holds."""

    store: Store
    log: CommitLog
    saver: Saver
    residence: Residence
    past: Past
    readers: PastReader
    plan: Mapping[str, Any]
    states: Mapping[str, State]
    versions: Mapping[str, str] = field(default_factory=versions)
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts that other drivers have recorded, which are carried on."""
    replacing: Mapping[str, ColumnTexts] = field(default_factory=dict)
    """The views that are to replace those of the checkpoint, with the columns of these."""
    writer: str | None = None
    """The writer of the last known commit: this engine, or the one that it has gone on from."""
    commits: int = 0
    """The commits since files were last deleted; when it is opened, those that could be dropped, whichever processes made them."""
    committed_at: float = field(default_factory=time.monotonic)
    inputs: InputLog | None = None
    may_log: bool = False
    """Whether there is a record that earlier versions refuse: they would take the log of this one for empty."""
    waits: bool = False
    """Whether the epoch is durable without a commit, as its input is."""
    is_logging: bool = False
    """Whether its input is being written."""
    is_due: bool = False
    """Whether the next epoch is committed in any case."""
    staged: tuple[tuple[EvaluatedEpoch, ...], tuple[Commit, Begun] | None] = field(default=((), None))
    """The epochs that are being written, with their commit and the files that it names, if a commit is due."""

    @property
    def last_epoch(self) -> int:
        """The last epoch, committed or waiting."""
        if self.past.waiting:
            return self.past.waiting[-1].epoch
        return 0 if self.log.last is None else self.log.last.epoch

    def bear(self, views: Iterable[str], epoch: int) -> None:
        """See ``Durability.bear``."""
        born = {**self.past.born, **dict.fromkeys(views, epoch)}
        self.past.born = self.readers.born = born
        self.facts = with_replaced(self.facts, born, self.replacing)
        self.replacing, self.is_due = {}, True

    @property
    def replaced(self) -> dict[str, tuple[int, pl.Schema]]:
        """See ``Durability.replaced``."""
        return columns_before(self.facts, self.past.born)

    def figures(self) -> dict[str, Any]:
        """See ``Durability.figures``."""
        last = self.log.last
        pieces = [] if last is None else [ref for record in last.states.values() for ref in record.pieces]
        return {
            "url": self.store.url,
            "committed_epoch": None if last is None else last.epoch,
            "epochs_since": len(self.past.waiting),
            "files": len({ref.file for ref in pieces}),
            "bytes": sum(ref.size for ref in pieces),
            "resident_bytes": self.residence.held,
            "resident_limit": self.residence.limit,
        }

    def sweep(self, options: Checkpoint) -> None:
        """Delete files that no commit names that is to be kept. A failure is only a warning: they will be deleted later."""
        self.commits = 0
        try:
            self.log.sweep(options.keep, options.grace_seconds)
        except CheckpointError as error:
            warnings.warn(f"files that are no longer needed could not be deleted: {error}", stacklevel=5)
        finally:
            self.readers.look_again()

    def commit_of(
        self,
        waiting: tuple[EvaluatedEpoch, ...],
        metadata: CommitMetadata,
        elsewhere: Mapping[int, Saved] = NOWHERE,
    ) -> tuple[Commit, Begun]:
        """Write the files that the record of these epochs names, except those that are written together with it."""
        saved_states = {
            name: (state, elsewhere.get(id(state)) or state.saved()) for name, state in self.states.items()
        }
        frames = [
            (view, evaluated.epoch, frame)
            for evaluated in waiting
            for view, frame in evaluated.deltas.items()
        ]
        begun = self.saver.write_ahead(saved_states, frames)
        deltas: dict[str, list[DeltaRef]] = {}
        for (view, _, _), ref in zip(frames, begun.deltas, strict=True):
            deltas.setdefault(view, []).append(ref)
        commit = Commit(
            epoch=waiting[-1].epoch,
            buckets=1,
            plan=self.plan,
            states=begun.records,
            deltas={view: tuple(refs) for view, refs in deltas.items()},
            positions=metadata.positions,
            readers=metadata.readers,
            epochs=tuple(
                (evaluated.epoch, evaluated.now.instant, evaluated.watermarks) for evaluated in waiting
            ),
            facts={**self.facts, "rows": metadata.rows, BORN: self.past.born, TOGETHER: True},
            # A new one for each attempt: a late record of an attempt that was given up counts as another writer's.
            writer=new_writer(),
            versions=self.versions,
        )
        return commit, begun

    def has(self, commit: Commit, error: Exception) -> bool:
        """Return whether a record is there although writing it has raised this error.

        Raises:
            UnknownError: that cannot be determined now.
            CheckpointError: another writer has committed since; the engine cannot go on.
        """
        try:
            last = self.log.refresh()
        except CheckpointError as unreadable:
            why = str(unreadable).removeprefix(f"{self.store.url}: ")
            raise UnknownError(
                f"{self.store.url}: it is unknown whether epoch {commit.epoch} was committed: {why}; {FINDS_OUT}"
            ) from error
        if last is None or last.writer == self.writer:
            return False
        if last.writer == commit.writer:
            return True
        raise CheckpointError(
            f"{self.store.url}: another writer has committed epoch {last.epoch} since this engine opened it; make "
            "a new engine, which goes on from there, and run only one writer at a time"
        ) from error


def let_go(lock: ExitStack) -> None:
    """Release a lock, at the end of the process or at any other moment."""
    if is_ending():
        lock.close()
    else:
        lock.__exit__(Abandoned, Abandoned(), None)
