"""The durability of epochs: states and deltas are written first, then one record that commits them.

``write`` and ``append`` are two steps in the order of an epoch (``views/epochs/choreography.py``). A failure before the record is
there leaves files that nothing names. Between two commits epochs wait in memory; with ``Checkpoint(every=1)`` a store that has a
log keeps their input meanwhile, for the time after a crash.
"""

from __future__ import annotations

import gc
import os
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from evercurrent.core.data.clock import Now
from evercurrent.core.data.columns.key_hash import hashing_by
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import CheckpointError
from evercurrent.core.state.snapshot import Saved

from ..checkpoint import Checkpoint, CommitLog, Pieces, Saver
from ..checkpoint.marker import is_checkpoint
from ..checkpoint.memory_limit import Residence
from ..checkpoint.pending import pending_inputs
from ..checkpoint.reader_offsets import read_note, write_note
from ..checkpoint.rebucket import rebucket
from ..compiler.builder import Compiled
from ..concurrency.interrupts import interrupts_deferred
from ..epochs.records import CommitMetadata, EpochInput, EvaluatedEpoch, RestorePoint
from ..epochs.run_events import committed
from ..plan.plan import Plan
from ..store import Store
from ..store.refusals import refusing
from .arrow_types import require_arrow_types
from .backfill import fill
from .digest_schemes import EarlierNames
from .grouped_apart import require_together
from .input_log import entered_log, logged
from .last_write import LastWrite, is_left
from .nodes_to_fill import OnRead
from .open_checkpoint import NOWHERE, OpenCheckpoint, let_go
from .pickled_states import without_pickles
from .plan_diff import warn_of_unclaimed
from .plan_match import check_plan, is_same_record, plan_record
from .replaced_columns import ColumnTexts, with_replaced
from .time_travel import BORN, Past, in_bucket_0
from .time_travel_reader import PastReader

SWEEP_EVERY = 64
"""The number of commits after which files that no retained commit names are deleted."""

MOST_WAITING, MOST_SECONDS = 512, 0.5
"""The most epochs, and the longest time, for which only the input is on disk; the next epoch commits all of them."""

PATIENCE = 2
"""So many times as long, and as many bytes, may wait while pieces are written that a commit would wait for."""


class Durability:
    """The checkpoint of one engine: opened with a circuit, written epoch by epoch, closed.

    ``write`` and ``append``, the two halves of a commit, may fail: ``discard`` drops what was begun. Nobody else can write meanwhile.
    """

    def __init__(self, checkpoint: Checkpoint, plan: Plan) -> None:
        self._checkpoint = checkpoint
        self._plan = plan
        self._open: OpenCheckpoint | None = None
        self._lock = ExitStack()
        self.allow_pickle: bool = checkpoint.allow_pickle
        self._closed = False
        self._last_write = LastWrite(checkpoint.store.url)
        self._process = os.getpid()
        weakref.finalize(self, let_go, self._lock)

    def figures(self) -> dict[str, Any]:
        """Return where the checkpoint is, its last commit, the epochs after it, and the memory that states take."""
        opened = self._open
        if opened is None:
            return {"url": self._checkpoint.store.url}
        return opened.figures()

    @property
    def is_open(self) -> bool:
        """Whether the checkpoint has been opened."""
        return self._open is not None

    def require_open(self) -> None:
        """Check that an epoch can be written.

        Raises:
            CheckpointError: the engine was closed, it is unknown whether its last epoch is committed, another writer has
                committed, or this process was forked from the one that opened the checkpoint.
        """
        if not self._is_ours:
            raise CheckpointError(
                f"{self._where}: the engine opened it in process {self._process}, from which this one was forked; "
                "push there, or close it and make a new engine here. The views can be read as of the fork"
            )
        self._last_write.require_known()
        self.require_not_closed()

    def require_not_closed(self) -> None:
        """Check that the engine was not closed."""
        if self._closed:
            raise CheckpointError(f"{self._where}: the engine is closed; make a new one to go on")

    def open(self, compiled: Compiled, on_read: OnRead | None = None) -> RestorePoint | None:
        """Lock the checkpoint, and restore the circuit from its last commit; return None for a new checkpoint.

        ``on_read`` is called while views are filled that are new.

        Raises:
            CheckpointError: another writer has it, or it is not a checkpoint, is of another plan, or is damaged.
        """
        self.require_open()
        require_arrow_types(self._plan, compiled)
        self._process = os.getpid()
        store = self._checkpoint.store
        is_checkpoint(
            store
        )  # Before anything is written, so that no lock file is left in a folder of other data.
        self._take_lock(store)
        try:
            pieces = Pieces.of(store)
            compiled.circuit.key_hash = pieces.key_hash
            with hashing_by(pieces.key_hash):
                return self._opened(store, pieces, compiled, on_read)
        except BaseException:
            self.release()
            raise

    def _take_lock(self, store: Store) -> None:
        try:
            self._lock.enter_context(store.lock())
        except CheckpointError:
            # An engine that is unreachable but not yet collected may still hold the lock.
            gc.collect()
            self._lock.enter_context(store.lock())

    def _opened(
        self, store: Store, pieces: Pieces, compiled: Compiled, on_read: OnRead | None
    ) -> RestorePoint | None:
        log = CommitLog(store, full_every=self._checkpoint.full_every)
        saver, plan = Saver(pieces), plan_record(self._plan, compiled)
        states = in_bucket_0(compiled)
        residence = Residence(states, saver, self._checkpoint.resident_bytes)
        earlier = EarlierNames(self._plan, compiled)
        past = Past(self._plan, plan, log, pieces, allow_pickle=self.allow_pickle, earlier=earlier)
        readers = PastReader(self._plan, plan, store, pieces, earlier, allow_pickle=self.allow_pickle)
        self._open = OpenCheckpoint(store, log, saver, residence, past, readers, plan, states)
        last = log.last
        again = [
            logged(entry)
            for entry in pending_inputs(store, None if last is None else last.epoch, log.last_crc)
        ]
        note = store.acknowledged()
        # With another option a commit at every epoch, or at some, is better.
        if self._checkpoint.every == 1 and self._checkpoint.resident_bytes is None:
            self._open.inputs = entered_log(store, self._lock)
        if last is None:
            return None
        self._open.commits = max(0, len(log.epochs()) - self._checkpoint.keep - self._checkpoint.full_every)
        last = earlier.renewed(last)
        require_together(store.url, last, self._plan, self._checkpoint.drop)
        match = check_plan(last.plan, self._plan, compiled, self._checkpoint.drop)
        if last.buckets > 1:
            last = earlier.renewed(rebucket(store, 1))  # Another driver has split it, and can split it again.
            log.refresh()
        self._open.writer, self._open.facts, self._open.may_log = last.writer, last.facts, log.refuses_earlier
        unchanged = {f"{name}/0" for name in match.unchanged}
        saver.restore(states, {name: record for name, record in last.states.items() if name in unchanged})
        if match.evolution is not None:
            match.evolution.restore(saver, pieces, last.states, store.url)
            again = [entry.conformed(match.evolution.arrived) for entry in again]
        last = without_pickles(compiled, saver, log, earlier.renewed, may_commit=not again) or last
        residence.restored()
        filled = fill(self._plan, compiled, match, compiled.retained, on_read=on_read)
        warn_of_unclaimed(store.url, match)
        self._open.replacing = match.replaced
        born = {name: epoch for name, epoch in last.facts.get(BORN, {}).items() if name in self._plan.views}
        self._open.past.born = self._open.readers.born = born
        delivered = read_note(store, last.epoch)
        return RestorePoint(
            epoch=last.epoch,
            positions=match.positions(last.positions),
            readers=match.readers(
                last.readers if delivered is None else delivered, self._plan.views, last.epoch
            ),
            rows=last.facts.get("rows", {}),
            last=last.epochs[-1] if last.epochs else (0, 0, {}),
            filled=filled,
            logged=again,
            acknowledged=0 if note is None else note.logged,
            is_same_plan=is_same_record(last.plan, plan),
            is_changed=bool(match.lost) or match.evolution is not None or match.drops,
            replaced=self.replaced,
        )

    @contextmanager
    def redeclared(
        self,
        compiled: Compiled,
        record: Mapping[str, Any],
        born: Mapping[str, int],
        before: Mapping[str, ColumnTexts],
    ) -> Iterator[None]:
        """Continue with another circuit of a changed plan, whose epoch is run inside of the block and committed at once.

        Without an epoch in the block the next one is committed: the input of a source that no commit has would be lost.

        ``born`` are the first epochs of the views whose deltas begin anew, ``before`` the columns that those had that are replaced.
        If the block raises, nothing has changed.
        """
        opened = self._now()
        require_arrow_types(self._plan, compiled)
        born = {name: at for name, at in {**opened.past.born, **born}.items() if name in self._plan.views}
        past, states = opened.past.over(record, born), in_bucket_0(compiled)
        self._open = replace(
            opened,
            plan=record,
            states=states,
            residence=opened.residence.over(states),
            past=past,
            facts=with_replaced(opened.facts, born, before),
            is_due=True,
        )
        try:
            yield
        except BaseException:
            self._open = opened
            raise
        self._open.saver.keep_only(states.keys())
        opened.readers.record, opened.readers.born = record, born

    # An epoch

    def log(
        self, now: Now, epoch_input: EpochInput, arrived: Mapping[str, Delta], delivered: Mapping[str, int]
    ) -> None:
        """Begin to write the input of an epoch to disk, if that makes it durable; ``append`` waits for it."""
        opened, patience = self._now(), PATIENCE if self._now().saver.early.is_writing else 1
        with interrupts_deferred():  # An entry that is begun has to be noted, or it could not be taken back.
            opened.is_logging = opened.waits = (
                opened.inputs is not None
                and opened.may_log
                and not opened.is_due
                and len(opened.past.waiting) + 1 < MOST_WAITING
                and time.monotonic() - opened.committed_at < patience * MOST_SECONDS
                and opened.inputs.begin(
                    now, epoch_input, arrived, delivered, opened.log.last_crc, patience=patience
                )
            )

    def logged_before(self) -> None:
        """Note that the next epoch is evaluated again, so that its input is on disk already."""
        self._now().waits = True

    def write(
        self, evaluated: EvaluatedEpoch, metadata: CommitMetadata, elsewhere: Mapping[int, Saved] = NOWHERE
    ) -> None:
        """Write the states as staged, and the deltas, if a commit is due. Nothing is committed before ``append``.

        Files that the store prefers to write together with the record are written then. ``elsewhere`` are states, by their
        ids as objects, of which what this epoch changes is not staged there, but is this.

        Raises:
            CheckpointError: the store refuses it; files that it has accepted are not named by any commit.
        """
        opened = self._now()
        waiting = (*opened.past.waiting, evaluated)
        is_due = opened.is_due or (
            not opened.waits and (evaluated.epoch == 0 or len(waiting) >= self._checkpoint.every)
        )
        opened.staged = waiting, opened.commit_of(waiting, metadata, elsewhere) if is_due else None

    def append(self) -> None:
        """Commit what was written.

        Raises:
            CheckpointError: the commit failed; or it is unknown whether it did, and then nothing is written before it is known.
        """
        opened = self._now()
        waiting, staged = opened.staged
        opened.staged = (), None
        if staged is None:
            self._wait_for_input(opened)
            opened.past.waiting = waiting
            return
        commit, begun = staged
        try:
            opened.log.append(commit, begun.items)
        except Exception as error:
            if not self._last_write.attempt(partial(opened.has, commit, error)):
                raise
        opened.past.waiting, opened.writer = (), commit.writer
        committed(commit.epoch, len(waiting), opened.store.url)
        opened.is_due = False
        opened.commits += 1
        opened.committed_at = time.monotonic()
        if opened.inputs is not None:
            opened.inputs.restart()
        opened.may_log = True
        opened.saver.keep(begun)
        opened.residence.committed(commit.states)

    def discard(self) -> None:
        """Drop what was begun."""
        opened = self._open
        if opened is None:
            return
        opened.staged, opened.waits = ((), None), False
        if opened.is_logging:
            opened.is_logging = False
            self._take_back(opened)

    def tidy(self) -> None:
        """Keep to the limit of memory, sweep now and then, and write early. A failure is a warning, as the epoch is done."""
        opened = self._now()
        if not opened.past.waiting:
            opened.residence.keep_within()
        if opened.commits >= SWEEP_EVERY:
            opened.sweep(self._checkpoint)
        # After the sweep, as no commit names these files yet; and each that is begun has to be noted.
        with interrupts_deferred():
            opened.saver.write_early(opened.states)

    def flush(self, metadata: CommitMetadata) -> None:
        """Commit the epochs that wait, and the last epochs delivered to readers. Called between epochs.

        Raises:
            CheckpointError: it could not be written; the epochs keep waiting.
        """
        self.require_open()
        opened = self._now()
        if opened.past.waiting:
            opened.staged = opened.past.waiting, opened.commit_of(opened.past.waiting, metadata)
            self.append()
        last = opened.log.last
        if last is not None and dict(metadata.readers) != dict(last.readers):
            write_note(opened.store, last.epoch, metadata.readers)

    def close(self, metadata: CommitMetadata) -> None:
        """Flush, and release the checkpoint. Closing twice is no error.

        Raises:
            CheckpointError: the last epochs could not be committed.
        """
        if self._closed or not self._is_ours:
            return
        try:
            is_owed = self._open is not None and bool(self._open.past.waiting)
            if self._open is not None and self._last_write.allows_another(is_owed=is_owed):
                self.flush(metadata)
                self._open.saver.early.close()
                if self._open.inputs is not None:
                    self._open.inputs.remove()
        finally:
            self._closed = True
            self._lock.close()

    def release(self) -> None:
        """Release the lock of a checkpoint that could not be opened."""
        self._open = None
        self._lock.close()

    @property
    def residence(self) -> Residence | None:
        """The part of the states that is in memory; None before the checkpoint is opened."""
        return None if self._open is None else self._open.residence

    @property
    def store(self) -> Store:
        """The store of the checkpoint."""
        return self._checkpoint.store

    @property
    def waiting(self) -> tuple[EvaluatedEpoch, ...]:
        """The epochs that are done and not committed yet."""
        return self._now().past.waiting

    def durable_epoch(self, epoch: int, waiting: Sequence[EvaluatedEpoch]) -> int:
        """Return the last epoch up to this one that no crash takes back, where these wait for a commit."""
        is_on_disk = self._checkpoint.every == 1  # As input, which is evaluated again.
        return epoch if is_on_disk or not waiting else waiting[0].epoch - 1

    @property
    def past(self) -> PastReader:
        """The reader of earlier epochs from the retained commits, for any thread."""
        return self._now().readers

    @property
    def committed(self) -> tuple[int, ...]:
        """The epochs of the retained commits, ascending."""
        return tuple(sorted(self._now().log.epochs()))

    def bear(self, views: Iterable[str], epoch: int) -> None:
        """Record that these views begin in this epoch, which is committed at once, some of them in place of others."""
        self._now().bear(views, epoch)

    @property
    def replaced(self) -> dict[str, tuple[int, pl.Schema]]:
        """The first epochs of views that have replaced others, and the columns before."""
        return self._now().replaced

    @property
    def maps_states(self) -> bool:
        """Whether ``tidy`` maps states from disk, to keep within a limit of memory."""
        return self._checkpoint.resident_bytes is not None

    @property
    def checkpoint(self) -> Checkpoint:
        """The place of the checkpoint, and its options."""
        return self._checkpoint

    # Details

    @property
    def _is_ours(self) -> bool:
        """Whether it was not opened yet, or was opened in this process."""
        return self._open is None or self._process == os.getpid()

    def _wait_for_input(self, opened: OpenCheckpoint) -> None:
        if opened.is_logging:
            assert opened.inputs is not None, "it was begun there"
            with refusing(self._where, "the input of the epoch", "written"):
                opened.inputs.wait()
        opened.is_logging = opened.waits = False

    def _take_back(self, opened: OpenCheckpoint) -> None:
        """Remove the logged input of an epoch that was discarded. If that fails, it is tried again before the next one."""
        inputs, epoch = opened.inputs, opened.last_epoch + 1
        assert inputs is not None, "it was begun there"
        with suppress(CheckpointError):  # The epoch has failed already, with an error of its own.
            self._last_write.attempt(lambda: is_left(inputs, self._where, epoch))

    def _now(self) -> OpenCheckpoint:
        assert self._open is not None, "the engine opens a checkpoint before it uses it"
        return self._open

    @property
    def _where(self) -> str:
        return self._checkpoint.store.url
