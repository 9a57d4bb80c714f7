"""A checkpoint is swept and compacted while its query runs, in the time between epochs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from threading import Thread

from evercurrent.core.data.errors import CheckpointError, CheckpointWarning

from ..checkpoint import Checkpoint
from ..checkpoint.compacting import without_waste
from ..concurrency.turns import Guard, Turn
from .driver import Epochs

EVERY = 64
"""Epochs between two times at which files are looked at."""


class Upkeep:
    """Keeps the files of a checkpoint few, in a thread that begins when an epoch is committed.

    An epoch and the upkeep exclude each other by ``turn``, so upkeep costs an epoch time only if it comes while that runs.
    Files that no retained commit names are deleted. Where files that states need are mostly unneeded, what is needed is
    copied out of them, in an epoch of its own in which nothing else happens. ``also`` deletes other files that a query keeps.
    While ``is_read_elsewhere``, as by a fill, files stay; what begins to read takes the lock of ``deleting`` for that, so that it
    does not begin in the middle of the upkeep, which would delete what it reads and writes. Nothing is copied where an epoch
    ``has_begun`` and not ended, so that a sink may have its deltas under the number that the copies would get.

    Cost: the files of the checkpoint are listed; and what is copied, which is less than what is freed.
    """

    def __init__(
        self,
        turn: Turn,
        epochs: Callable[[], Epochs],
        checkpoint: Checkpoint,
        also: Callable[[], None],
        is_read_elsewhere: Callable[[], bool],
        has_begun: Callable[[], bool] = lambda: False,
    ) -> None:
        self._turn = turn
        self._epochs = epochs
        self._checkpoint = checkpoint
        self._also = also
        self._is_read_elsewhere = is_read_elsewhere
        self._has_begun = has_begun
        self.deleting = Guard()
        self._looked_at: int | None = None
        """The epoch at which files were last looked at; before that, the one before the first of this process."""
        self._thread: Thread | None = None

    def after_epoch(self) -> None:
        """Begin, if it is time, and return at once.

        It is time at each multiple of so many epochs, whichever processes ran them: one may end before it has run as many.
        """
        epoch = self._epochs().last.epoch
        if self._looked_at is None:
            self._looked_at = epoch - 1
        is_due = epoch // EVERY > self._looked_at // EVERY
        if not is_due or (self._thread is not None and self._thread.is_alive()):
            return
        self._looked_at = epoch
        self._thread = Thread(target=self._run, daemon=True, name="evercurrent-upkeep")
        self._thread.start()

    def join(self) -> None:
        """Wait for the end of what has begun. After the last epoch, before the lock of the checkpoint is released."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        """Do the upkeep. A failure is only a warning, as files will be deleted later."""
        try:
            with self._turn:
                self.work()
        except CheckpointError as error:
            warnings.warn(
                f"files that are no longer needed could not be deleted: {error}",
                CheckpointWarning,
                stacklevel=1,
            )

    def work(self) -> None:
        """Compact, sweep, and note what that has freed in the measures of the next epoch. The caller has the turn."""
        with self.deleting.lock:
            if not self._is_read_elsewhere():
                self._delete()

    def _delete(self) -> None:
        epochs = self._epochs()
        log, last = epochs.log, epochs.last
        compacted = None if self._has_begun() else without_waste(log.store, last)
        if compacted is not None:
            log.append(compacted, whole=True)
            epochs.go_on_from(compacted)
        swept = log.sweep(self._checkpoint.keep, self._checkpoint.grace_seconds)
        self._also()
        epochs.note_freed(swept.files, swept.bytes)
