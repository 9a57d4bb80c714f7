"""The files in which a checkpoint has requests to a query and records of micro-batches that may be repeated."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from uuid import uuid4

from evercurrent.core.data.errors import CheckpointWarning, CorruptFileError, NameTakenError
from evercurrent.views.partitioned.tasks import FireRequest
from evercurrent.views.store import Store

from .control_records import Attempt, attempt_as_bytes, attempt_from, fire_as_bytes, fire_from
from .options import instant_of

REQUESTS, BATCHES = "asked", "batches"
"""Folders of the checkpoint: requests that windows fire; records of micro-batches."""


class Attempts:
    """The requests and records in the store of a checkpoint."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ignored: set[str] = set()

    def request(self, fire: FireRequest) -> None:
        """Request that windows fire with the next micro-batch."""
        self._store.put(f"{REQUESTS}/{uuid4().hex}", [fire_as_bytes(fire)])

    def begin(self, batch: int, last_requests: Sequence[str], *, record: bool) -> Attempt:
        """Return the time of a batch, and the windows that are requested to fire.

        With ``record``, which a sink that is called before the commit needs, they are recorded when the batch is first run and
        used again when it is repeated, so that the same deltas are emitted. The ``last_requests``, those that fired in the last epoch, are skipped.
        """
        requested = [file.name for file in self._store.list(f"{REQUESTS}/")]
        self._store.delete_all([name for name in requested if name in last_requests])
        waiting = self._requests([name for name in requested if name not in last_requests])
        attempt = Attempt(instant_of(None), tuple(waiting.values()), tuple(waiting))
        if not record:
            return attempt
        name = f"{BATCHES}/{batch:012}"
        try:
            self._store.put(name, [attempt_as_bytes(attempt)])
        except NameTakenError:
            try:
                attempt = attempt_from(self._where(name), self._store.read(name).to_pybytes())
            except CorruptFileError as error:
                raise CorruptFileError(
                    f"{error}; delete it: the micro-batch then gets a new processing time"
                ) from error
        return attempt

    def is_recorded(self, batch: int) -> bool:
        """Return whether a batch was begun, with ``record``."""
        return bool(self._store.list(f"{BATCHES}/{batch:012}"))

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
