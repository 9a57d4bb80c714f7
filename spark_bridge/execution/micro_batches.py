"""Micro-batches of Spark run as epochs, by the function that ``foreachBatch`` calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import pyarrow as pa

from evercurrent.core.data.errors import CheckpointError, PlanError
from evercurrent.views.checkpoint import CommitLog, Pieces, new_writer, versions
from evercurrent.views.checkpoint.begun import SPARK, next_batch
from evercurrent.views.concurrency.turns import Turn
from evercurrent.views.durability.nodes_to_fill import OnRead
from evercurrent.views.partitioned.bucket_commits import PartitionedDeltas
from evercurrent.views.partitioned.bucket_evaluator import SomeRows
from evercurrent.views.partitioned.bucket_states import BucketStates, ComputedStates
from evercurrent.views.partitioned.driver import Epochs, PlanChange
from evercurrent.views.partitioned.running_fill import RunningFill
from evercurrent.views.partitioned.tasks import FireRequest, Instant, TaskResult
from evercurrent.views.partitioned.upkeep import Upkeep
from evercurrent.views.store import Store, store_at

from ..input.origins import require_order, with_origins
from ..input.streams import Streams
from .attempts import Attempts, require_none_begun
from .batch_rows import RowsHere, RowsInSpark
from .continuity import never_streamed, query_in, require_new, require_same_query
from .control_records import fires_of, require_next
from .failed_jobs import as_sentence
from .first_stage import first_stage
from .frames import delta_frames
from .holds import POLL_SECONDS, Holds
from .interruptions import answerable, interruption, is_interruption
from .jobs import ARROW_BATCH, Setup, SparkJobs
from .left_out_files import ListedFiles
from .offset_log import FOLDER
from .options import Options, Planned, instant_of
from .short_log import ShortLog
from .sink_calls import call_each

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


FILL_LATER = "start the query with the views that it had, and declare the others while it runs, which waits for that micro-batch"

PROMISE_LATER = "start the query again, which commits that micro-batch, before finish()"


class MicroBatches:
    """The function that runs each micro-batch through the plan, as one epoch, committed before Spark commits the batch.

    Spark repeats a batch that it has not committed, with the same number and the same rows: if the epoch is in the
    checkpoint already it is skipped, otherwise it is run. It may be called in another process than the one that made it (Spark
    Connect): all that it needs is in the checkpoint.

    ``planned`` returns the metadata of a batch by its number; without it batches have the time at which they are run, and
    no positions. ``error`` is the error of the last batch in this process; Spark has only its text. ``streams``
    are those that Spark counts, where they are not files that this process writes.
    """

    def __init__(self, setup: Setup, options: Options, streams: Streams | None = None) -> None:
        self.setup: Setup = setup
        self.options: Options = options
        self.planned: Callable[[int], Planned] | None = None
        self.error: Exception | None = None
        self.log: ShortLog = ShortLog()
        self.streams: Streams | None = streams
        self.folder: str = FOLDER
        """The folder of Spark's own checkpoint."""
        self.while_running: Callable[[], AbstractContextManager[None]] = nullcontext
        """Makes a context in which micro-batches are run."""
        self.on_read: OnRead | None = None
        """Is called while views are filled for which micro-batches wait."""
        self.await_end: Callable[[], Exception] | None = None
        """Waits until Spark ends its query, and returns the error for a micro-batch that does not begin any more."""
        self.is_connected: bool = False
        """Whether micro-batches run in another process, to which Spark Connect sends a copy of this."""
        self._is_elsewhere = self._is_paused = False
        self._hold: str | None = None
        self._epochs: Epochs | None = None
        self._store: Store | None = None
        self._open_attempts: Attempts | None = None
        self._session: SparkSession | None = None
        self._fills: WeakSet[RunningFill] = WeakSet()
        self._begin()
        self._query: str | None = None

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Run a micro-batch.

        Raises:
            CheckpointError: batches are missing, another writer was faster, or the store failed.
            InputError: rows do not fit their source, files of it are gone, or a value cannot be computed: nothing has changed.
            InterruptedError: the query is stopped.
            EvercurrentError: a function has ended its thread, or a job of Spark has lost a process or a file.
        """
        try:
            with self.while_running():
                self._run_in_turn(rows, batch)
        except BaseException as raised:
            error = answerable(raised)
            if is_interruption(error):
                raise interruption(error) from None
            self.error = error = as_sentence(error)
            self.log.failed(error, batch)
            if error is raised:
                raise
            raise error from raised

    def _run_in_turn(self, rows: DataFrame, batch: int) -> None:
        if not self._is_elsewhere:
            with self.turn:
                if not self._is_paused:
                    self._run_next(rows, batch)
                    return
            assert self.await_end is not None, "there is a query to be paused"
            raise self.await_end()
        with self.turn:
            if self.holds.is_held("batches"):
                raise self.holds.await_end("batches")
            self._run_next(rows, batch)

    def _run_next(self, rows: DataFrame, batch: int) -> None:
        if self._query is None:
            self._query = query_in(self.store, self.folder)
        require_same_query(self.store.url, self.facts.get("query"), self._query, self.last_batch)
        if require_next(self.last_batch, batch):
            self._listed_files.require(rows.sparkSession, None if self.streams is None else self._query)
            self.run(rows, batch)
            self._upkeep.after_epoch()

    def run(self, rows: DataFrame, batch: int, promised: Mapping[str, int] | None = None) -> None:
        """Run the micro-batch after the last one; ``promised`` are watermarks by hand."""
        epochs = self.opened()
        views = {stage.number: tuple(stage.views) for stage in epochs.cut.stages}
        if self._session is not rows.sparkSession:
            self._session = rows.sparkSession  # The query's own, which Spark makes from the user's.
            self._session.conf.set(*ARROW_BATCH)
        jobs = SparkJobs(rows.sparkSession, self.setup, views)
        epochs.executors = jobs
        has_sink = self.options.on_epoch is not None
        last_requests = self.facts.get("asked", [])
        attempt = self._attempts.of(batch, epochs.last.epoch + 1, last_requests, recorded=has_sink)
        planned = Planned(attempt.at, {}) if self.planned is None else self.planned(batch)
        here: list[pa.Table] = []

        def arrive(instant: Instant) -> list[TaskResult]:
            results = first_stage(rows, epochs, self.setup, jobs, instant, self.options.limits, here)
            require_order(one.origins for one in results)
            return results

        def on_deltas(deltas: PartitionedDeltas) -> None:
            self._attempts.record(batch, attempt)
            self._call_sink(rows.sparkSession, deltas, self.setup)

        def rows_again() -> SomeRows:
            if here:
                return RowsHere(self.setup, epochs.runner, here[0])
            return RowsInSpark(self.setup, jobs, with_origins(rows, self.setup.sources()))

        epochs.step(
            arrive,
            planned.at,
            planned.positions,
            self._facts_with(batch=batch, asked=list(attempt.requests), query=self._query),
            on_deltas=on_deltas if has_sink else None,
            promised=promised,
            fires=fires_of(epochs.plan, attempt.fires),
            rows=rows_again if self.setup.on_bad_rows == "ledger" else None,
        )

    def promise(
        self, promised: Mapping[str, int], at: datetime | None = None, spark: SparkSession | None = None
    ) -> int:
        """Run an epoch without rows that moves watermarks by hand, between micro-batches, and return its number.

        With a session ``on_epoch`` is called for it.

        Raises:
            CheckpointError: a sink may have the deltas of the next micro-batch under that number.
        """
        with self.turn:
            epochs = self.opened()
            epochs.refresh()
            require_none_begun(self.store, epochs.last, self.options, PROMISE_LATER)
            return self.without_rows(promised, instant_of(at), {}, spark)

    def without_rows(
        self,
        promised: Mapping[str, int],
        instant: int | None,
        facts: Mapping[str, Any],
        spark: SparkSession | None,
    ) -> int:
        """Run an epoch without rows, by default at the processing time of the last one."""

        def on_deltas(deltas: PartitionedDeltas) -> None:
            if spark is not None and self.options.on_epoch is not None:
                self._call_sink(spark, deltas, self.setup)

        with self.turn:
            epochs = self.opened()
            epochs.refresh()
            at = epochs.last_instant if instant is None else instant
            return epochs.step(lambda _: [], at, {}, facts, promised=promised, on_deltas=on_deltas).epoch

    def require_new(self) -> None:
        """Check that nothing was committed yet.

        Raises:
            CheckpointError: there are epochs in the checkpoint.
        """
        require_new(self.setup.store, self.opened().last.epoch)

    def _facts_with(self, **facts: object) -> dict[str, Any]:
        """Return what a commit records about micro-batches, with these facts among it."""
        own = {"streams": None, "paths": None} if self.streams is None else self.streams.as_facts()
        return {SPARK: {**self.facts, **own, "folder": self.folder, **facts}}

    def pause(self) -> bool:
        """Let no micro-batch begin, in order to end the query, and return whether that could be done.

        It cannot as long as one that was begun is not committed, since a sink may have its deltas. In this process it waits for a
        micro-batch that runs; under Spark Connect one without a sink is abandoned.
        """
        if self.is_connected:
            if self.has_begun():
                return False
            self._hold = self.holds.begin("batches")
            return True
        with self.turn:
            self._is_paused = not self.has_begun()
        return self._is_paused

    def resume(self) -> None:
        """Let micro-batches begin again. The query has ended."""
        self._is_paused = False
        hold, self._hold = self._hold, None
        if hold is not None:
            self.holds.end(hold)

    def await_begun(self, is_active: Callable[[], bool]) -> None:
        """Wait until a micro-batch that an earlier run has begun is committed, or the query ends: its epoch keeps its number."""
        while True:
            with self.turn:
                if not self.has_begun():
                    return
            if not is_active():
                return
            time.sleep(POLL_SECONDS)

    def has_begun(self) -> bool:
        """Return whether the next micro-batch was begun and is not committed, so that a sink may have its deltas."""
        if self.options.on_epoch is None:
            return False
        if self.is_connected:
            self.opened().refresh()
        return self._attempts.is_recorded(next_batch(self.last_batch))

    @property
    def holds(self) -> Holds:
        """Return the holds in the checkpoint."""
        return Holds(self.store)

    def request(self, fire: FireRequest) -> None:
        """Request that windows fire with the next micro-batch."""
        self._attempts.request(fire)

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return the facts of the last commit about micro-batches."""
        facts: Mapping[str, Any] = self.opened().last.facts.get(SPARK, {})
        return facts

    @property
    def last_batch(self) -> int | None:
        """Return the number of the last micro-batch that is committed."""
        last: int | None = self.facts.get("batch")
        return last

    def opened(self, spark: SparkSession | None = None) -> Epochs:
        """Return the epochs of this query, opened once in a process.

        The first time, views that are new to the checkpoint are filled; with a session ``on_epoch`` gets their rows.
        """
        if self._epochs is None:
            self._epochs = self._opened(self.setup, spark)
        return self._epochs

    def filling(self, where: str, setup: Setup, drop: Sequence[str]) -> RunningFill:
        """Return the fill that computes the states of views that are new in a plan, while micro-batches continue.

        Files that no commit names are not deleted meanwhile; it waits for the upkeep that is deleting some.

        Raises:
            PlanError: a view cannot be filled; names it and the way out.
        """

        begun = self.setup

        def prepare(computed: ComputedStates | None) -> BucketStates | None:
            if self.setup is not begun:
                return None
            change = PlanChange(where, self.opened(), computed, is_planned=True)
            try:
                return self._opened(setup, None, drop, change).filling
            except (CheckpointError, PlanError):
                with self.turn:  # Another change of the plan may be committed, and not noted here yet.
                    if self.setup is not begun:
                        return None
                raise

        hold = self.holds.begin("files") if self.is_connected else None
        on_end = None if hold is None else partial(self.holds.end, hold)
        try:
            with self._upkeep.deleting.lock:
                filling = RunningFill(prepare, on_end)
                self._fills.add(filling)
        except BaseException:
            if on_end is not None:
                on_end()
            raise
        return filling

    def redeclare(
        self,
        where: str,
        setup: Setup,
        drop: Sequence[str],
        spark: SparkSession,
        computed: ComputedStates | None = None,
    ) -> None:
        """Continue with a changed plan, in an epoch of its own between two micro-batches.

        ``where`` names the declaration; the views in ``drop`` are dropped or replaced. If this raises, nothing has changed.
        Cost: that of the fill, for which micro-batches wait, or of the changes since the ``computed`` states.

        Raises:
            PlanError: a view cannot be filled; names it and the way out.
            CheckpointError: it could not be written.
        """
        with self.turn:
            before = self.opened()
            before.refresh()
            self._epochs = self._opened(setup, spark, drop, PlanChange(where, before, computed))
            self.setup = setup

    def _opened(
        self,
        setup: Setup,
        spark: SparkSession | None,
        drop: Sequence[str] = (),
        change: PlanChange | None = None,
    ) -> Epochs:
        """Return the epochs of a plan on the checkpoint."""

        def on_filled(deltas: PartitionedDeltas) -> None:
            if spark is not None and self.options.on_epoch is not None:
                self._call_sink(spark, deltas, setup)

        plan = setup.unpickled()
        if self._epochs is None:
            untouched = never_streamed(CommitLog(self.store).last, plan)
        else:
            untouched = self._epochs.untouched.difference(self.setup.streams or ())
        return Epochs(
            plan,
            CommitLog(self.store, full_every=self.options.checkpoint.full_every),
            Pieces.of(self.store),
            buckets=setup.buckets,
            driver_rows=self.options.driver_rows,
            driver_bytes=self.options.driver_bytes,
            inline_rows=setup.inline_rows,
            writer=new_writer(),
            versions=versions(),
            drop=(*self.options.checkpoint.drop, *drop),
            allow_pickle=setup.allow_pickle,
            on_filled=on_filled,
            before_fill=partial(require_none_begun, self.store, options=self.options, remedy=FILL_LATER),
            on_read=self.on_read if change is None or change.computed is None else None,
            change=change,
            facts={} if self.streams is None else {SPARK: self.streams.as_facts()},
            untouched=untouched,
        )

    @property
    def store(self) -> Store:
        """Return the store of the checkpoint."""
        if self._store is None:
            self._store = store_at(self.setup.store)
        return self._store

    @property
    def _attempts(self) -> Attempts:
        if self._open_attempts is None:
            self._open_attempts = Attempts(self.store)
        return self._open_attempts

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, without objects that are open here."""
        left = ("turn", "_upkeep", "_listed_files")
        shared = {name: value for name, value in self.__dict__.items() if name not in left}
        open_here = {
            "_epochs": None,
            "_store": None,
            "_open_attempts": None,
            "await_end": None,
            "_session": None,
        }
        here = {"while_running": nullcontext, "_fills": WeakSet(), "on_read": None, "_is_elsewhere": True}
        return {**shared, **open_here, **here}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def _begin(self) -> None:
        self.turn: Turn = Turn()
        """The lock of the writer: a micro-batch, a change of the plan between two, or the upkeep."""
        self._listed_files = ListedFiles()
        self._upkeep = Upkeep(
            self.turn,
            self.opened,
            self.options.checkpoint,
            lambda: self._attempts.delete(self.last_batch),
            self._is_read_elsewhere,
            self.has_begun,
        )

    def _is_read_elsewhere(self) -> bool:
        """Return whether a view is being filled from commits that may not be retained, here or in the process of the client."""
        return any(fill.is_needed for fill in self._fills) or (
            self._is_elsewhere and self.holds.is_held("files")
        )

    def _call_sink(self, spark: SparkSession, deltas: PartitionedDeltas, setup: Setup) -> None:
        assert self.options.on_epoch is not None, "there is a sink to call"
        call_each(self.options.on_epoch, delta_frames(spark, setup, deltas), deltas.epoch)

    def end(self) -> None:
        """End the work beside micro-batches; called after the last one, before the lock of the checkpoint is released."""
        self._upkeep.join()
        self.log.ended()
