"""The files in which a checkpoint has requests to a query and records of micro-batches that may be repeated."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from uuid import uuid4

from evercurrent.core.data.errors import CheckpointError, CheckpointWarning, CorruptFileError, NameTakenError
from evercurrent.views.checkpoint import Commit, begun
from evercurrent.views.checkpoint.begun import BATCHES, record_of, require_not_taken
from evercurrent.views.partitioned.tasks import FireRequest
from evercurrent.views.store import Store
from evercurrent.views.store.repeated_puts import put_own

from .control_records import Attempt, attempt_as_bytes, attempt_from, fire_as_bytes, fire_from
from .options import Options, instant_of

REQUESTS = "asked"
"""The folder of requests that windows fire."""


class Attempts:
    """The requests and records in the store of a checkpoint."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ignored: set[str] = set()

    def request(self, fire: FireRequest) -> None:
        """Request that windows fire with the next micro-batch."""
        put_own(self._store, f"{REQUESTS}/{uuid4().hex}", [fire_as_bytes(fire)])

    def of(self, batch: int, epoch: int, last_requests: Sequence[str], *, recorded: bool) -> Attempt:
        """Return the time of a batch, and the windows that are requested to fire; with ``recorded`` that of its record, if there is one.

        It becomes this ``epoch``. The ``last_requests``, those that fired in the last epoch, are skipped.

        Raises:
            CorruptFileError: the record is damaged.
            CheckpointError: a sink may have its deltas as those of another epoch.
        """
        requested = [file.name for file in self._store.list(f"{REQUESTS}/")]
        self._store.delete_all([name for name in requested if name in last_requests])
        if recorded and self.is_recorded(batch):
            return self._repeated(batch, epoch)
        waiting = self._requests([name for name in requested if name not in last_requests])
        return Attempt(instant_of(None), tuple(waiting.values()), tuple(waiting), epoch)

    def record(self, batch: int, attempt: Attempt) -> None:
        """Record a batch before a sink is called that does not record whether it is committed: repeated, it emits the same deltas.

        Raises:
            CheckpointError: it was recorded otherwise, by another process.
        """
        try:
            self._store.put(record_of(batch), [attempt_as_bytes(attempt)])
        except NameTakenError as error:
            if self._recorded(batch) != attempt:
                raise CheckpointError(
                    f"{self._where(record_of(batch))}: another process runs the same micro-batch; run one query on a checkpoint"
                ) from error

    def _repeated(self, batch: int, epoch: int) -> Attempt:
        attempt = self._recorded(batch)
        require_not_taken(self._store.url, batch, attempt.epoch, epoch)
        return attempt

    def _recorded(self, batch: int) -> Attempt:
        name = record_of(batch)
        try:
            return attempt_from(self._where(name), self._store.read(name).to_pybytes())
        except CorruptFileError as error:
            raise CorruptFileError(
                f"{error}; delete it: the micro-batch then gets a new processing time"
            ) from error

    def is_recorded(self, batch: int) -> bool:
        """Return whether a sink may have the deltas of a batch."""
        return bool(self._store.list(record_of(batch)))

    def _requests(self, names: Sequence[str]) -> dict[str, FireRequest]:
        """Return the requests in these files; a file that is not a request is kept, and a warning names it."""
        requests: dict[str, FireRequest] = {}
        for name in names:
            try:
                requests[name] = fire_from(self._where(name), self._store.read(name).to_pybytes())
            except CorruptFileError as error:
                if name not in self._ignored:
                    self._ignored.add(name)
                    warnings.warn(
                        f"{error}; it is ignored: delete it, and call query.fire(...) again",
                        CheckpointWarning,
                        stacklevel=2,
                    )
        return requests

    def delete(self, last: int | None) -> None:
        """Delete the records of micro-batches up to the ``last`` one that is committed."""
        names = [file.name for file in self._store.list(f"{BATCHES}/")]
        committed = [name for name in names if last is not None and int(name.rpartition("/")[2]) <= last]
        if committed:
            self._store.delete_all(committed)

    def _where(self, name: str) -> str:
        return f"{self._store.url}: {name}"


def require_none_begun(store: Store, last: Commit, options: Options, remedy: str) -> None:
    """Check as ``begun.require_none_begun`` that another epoch may follow, if this query passes deltas to a sink.

    Raises:
        CheckpointError: the sink may have the deltas of the next micro-batch under the number of that epoch.
    """
    if options.on_epoch is not None:
        begun.require_none_begun(store, last, remedy)
