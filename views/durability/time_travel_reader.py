"""Reading earlier epochs of a checkpoint in any thread, while another one commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

import polars as pl

from evercurrent.core.data.errors import MissingFileError

from ..checkpoint import CommitLog, DeltaRef, Pieces
from ..checkpoint.beside_writer import read_beside_writer
from ..concurrency.turns import Guard
from ..epochs.records import EvaluatedEpoch, Noted
from ..plan.plan import Plan
from ..store import Store
from .digest_schemes import EarlierNames
from .time_travel import Past, PastCircuit

Read = TypeVar("Read")


class PastReader:
    """Reads what ``Past`` reads, through a log of its own, as another process would.

    A reader waits for other readers, but not for a commit. ``waiting`` is passed with each call: the epochs that were in no
    file yet when the caller's epoch was published. One that has been written since is not returned twice. ``record`` is that
    of the present plan.
    """

    def __init__(
        self,
        plan: Plan,
        record: Mapping[str, Any],
        store: Store,
        pieces: Pieces,
        earlier: EarlierNames,
        *,
        allow_pickle: bool,
    ) -> None:
        self._allow_pickle = allow_pickle
        self.born: Mapping[str, int] = {}
        self._plan = plan
        self.record = record
        self._store = store
        self._pieces = pieces
        self._log: CommitLog | None = None
        self._of_plan = record, earlier, self._circuit()
        """The names in earlier commits, the circuit for them, and the record of the plan for which they hold."""
        self._guard = Guard()

    def _circuit(self) -> PastCircuit:
        return PastCircuit(self._plan, allow_pickle=self._allow_pickle)

    def first(self, view: str) -> int:
        """See ``Past.first``."""
        return self.born.get(view, 0)

    def begins(self, view: str) -> int:
        """See ``Past.begins``."""
        return self._read((), lambda past: past.begins(view))

    def deltas(
        self, view: str, since: int, until: int, waiting: Sequence[EvaluatedEpoch]
    ) -> Iterator[pl.DataFrame]:
        """See ``Past.deltas``."""
        if waiting and since >= waiting[0].epoch - 1:
            frames = [
                evaluated.deltas[view]
                for evaluated in waiting
                if view in evaluated.deltas and since < evaluated.epoch <= until
            ]
            return iter([frame.clone() for frame in frames])
        committed = min(until, waiting[0].epoch - 1) if waiting else until
        written, unwritten = self._read(
            waiting, lambda past: past.delta_places(view, since, until), committed
        )
        return chain((self._delta(view, ref) for ref in written), unwritten)

    def past_epochs(self) -> list[Noted]:
        """See ``Past.past_epochs``."""
        return self._read((), lambda past: list(past.past_epochs()))

    def contents(self, view: str, epoch: int, waiting: Sequence[EvaluatedEpoch]) -> pl.DataFrame:
        """See ``Past.contents``."""
        return self._read(waiting, lambda past: past.contents(view, epoch))

    def _read(
        self, waiting: Sequence[EvaluatedEpoch], read: Callable[[Past], Read], committed: int = 0
    ) -> Read:
        """Return the result of a read, begun again with the newest log if files were swept meanwhile.

        ``committed`` is an epoch that has been committed: a log that ends before it was read during a sweep.
        """

        def read_now() -> Read:
            past = self._now(waiting)
            if past.last_epoch < committed:
                self.look_again()
                past = self._now(waiting)
            return read(past)

        with self._guard.lock:
            return read_beside_writer(self._store, read_now, self.look_again)

    def _delta(self, view: str, ref: DeltaRef) -> pl.DataFrame:
        """Return a delta of a list that may be older than the last sweep.

        Raises:
            EpochGoneError: its commit was dropped since.
        """
        try:
            return self._pieces.read_delta(ref)
        except MissingFileError:
            self.look_again()
        return self._read((), lambda past: past.delta(view, ref))

    def look_again(self) -> None:
        """Read the log from its start before anything else is read: new records do not show which old ones were dropped."""
        self._log = None

    def _now(self, waiting: Sequence[EvaluatedEpoch]) -> Past:
        log = self._log
        if log is None:
            log = self._log = CommitLog(self._store)
        last = log.refresh()
        if self._of_plan[0] is not self.record:
            self._of_plan = self.record, EarlierNames(self._plan), self._circuit()
        _, earlier, circuit = self._of_plan
        past = Past(
            self._plan,
            self.record,
            log,
            self._pieces,
            allow_pickle=self._allow_pickle,
            earlier=earlier,
            circuit=circuit,
        )
        past.born = self.born
        past.waiting = tuple(
            evaluated for evaluated in waiting if last is None or evaluated.epoch > last.epoch
        )
        return past
