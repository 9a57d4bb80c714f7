"""The views of an engine as a Structured Streaming query."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evercurrent.core.data.clock import END_OF_TIME
from evercurrent.core.data.errors import CheckpointError, EvercurrentError
from evercurrent.views.checkpoint import Checkpoint, CommitLog
from evercurrent.views.checkpoint.marker import is_checkpoint
from evercurrent.views.concurrency.draining import DRAIN_SECONDS, drain_all
from evercurrent.views.dataframe.bad_rows import OnBadRows, require_on_bad_rows
from evercurrent.views.engine.engine import Engine
from evercurrent.views.partitioned.bucket_commits import largest_bucket
from evercurrent.views.partitioned.checkpoint_reader import CheckpointReader
from evercurrent.views.partitioned.limits import DRIVER_BYTES
from evercurrent.views.partitioned.progress import EpochProgress
from evercurrent.views.partitioned.stages_text import stages_text
from evercurrent.views.partitioned.tasks import FireRequest

from .execution.arguments import (
    checkpoint_in_spark,
    require_declarations,
    require_driver_bytes,
    require_name,
    require_on_epoch,
    require_sizes,
    require_start,
    require_timeout,
    require_trigger,
)
from .execution.bucket_number import BUCKETS, cut_into
from .execution.continuity import require_continued, streams_before
from .execution.control_records import require_fitting
from .execution.jobs import Setup
from .execution.micro_batches import MicroBatches
from .execution.options import OnEpoch, Options
from .execution.other_streams import continue_with
from .execution.preflight import Needs, check_executors, check_picklable
from .execution.spark_arguments import refusing_names_of_spark
from .execution.spark_checkpoint import location_in_spark
from .execution.streaming import Streaming
from .execution.writer_lock import WriterLock
from .input.inputs import check_sources, heartbeat
from .input.origins import require_no_aggregation, require_no_shuffle
from .input.streams import HEARTBEAT, Streams
from .output.frame_hints import RefusedByQuery
from .output.live_views import LiveViews
from .output.query_names import QueryNames
from .output.query_progress import in_record, remember
from .output.registration import register
from .output.spark_views import InSpark
from .output.united_rows import UnitedRows
from .runtime.ended_java import ended
from .runtime.ended_source import of_source
from .runtime.session import require_spark
from .runtime.spark_versions import require_bounded_beats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

DRIVER_ROWS = 200_000
"""Stages with at most this many rows run in the driver process: their work costs about as much as the overhead of a Spark job."""

INLINE_ROWS = 50_000
"""Tasks pass on up to this many rows in memory; more are written to files."""


@refusing_names_of_spark
def run(
    engine: Engine,
    sources: Mapping[str, DataFrame],
    *,
    checkpoint: str | Path | Checkpoint,
    buckets: int | None = None,
    trigger: Mapping[str, Any] | None = None,
    heartbeat_seconds: float | None = None,
    on_epoch: OnEpoch | None = None,
    driver_rows: int = DRIVER_ROWS,
    driver_bytes: int = DRIVER_BYTES,
    name: str | None = None,
    on_bad_rows: OnBadRows | None = None,
) -> Query:
    """Keep the views of an engine current over streaming DataFrames: one micro-batch is one epoch of all sources.

    The engine only declares sources and views: nothing may have been pushed into it, and it is not changed. An epoch is
    committed once its record is in the checkpoint, which any process can read, and which an engine can open
    (``Engine(checkpoint=...)``). Arguments are checked before anything is written.

    Views may be declared, replaced and dropped while the query runs: ``engine.view``, ``engine.drop_view``. A new one is
    filled bucket by bucket from other views, groupings and ``retained`` sources, in an epoch of its own between two
    micro-batches, which wait for it; it is in ``query.views`` when the call returns. With ``background=True`` it is filled
    by a thread while micro-batches continue; they wait only while the changes of the last ones are applied to it. If it
    cannot be filled, the call raises and the query is as it was. When a query is started again with more views, these are
    filled in the same way; one that is no longer declared is dropped with ``Checkpoint(path, drop=("name",))``, and one that is
    declared in another way replaces that of the checkpoint with ``replace=True``.

    Sources may come and go, too: ``engine.source``, and ``query.add_streams`` gives it the rows; ``engine.drop_source``. Spark's
    query is ended between two micro-batches for that, and started again on the same offsets; so it is for each declaration under
    Spark Connect, where micro-batches run in another process.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> from evercurrent import spark_bridge
    >>> engine = ec.Engine()
    >>> hits = engine.source("hits", {"ip": pl.String})
    >>> _ = engine.view("visitors", hits.group_by("ip").len("n"))
    >>> spark = spark_bridge.local_session()  # doctest: +SKIP
    >>> stream = spark.readStream.schema("ip string").parquet("hits")  # doctest: +SKIP
    >>> query = spark_bridge.run(engine, {"hits": stream}, checkpoint="hits.checkpoint")  # doctest: +SKIP

    Args:
        engine: an engine that declares sources and views.
        sources: a streaming DataFrame for every source, with its columns and types.
        checkpoint: a folder that driver and executors see under the same name, or an fsspec url; Spark's own checkpoint
            is put into it, as the two belong together.
        buckets: the number of parts into which states are cut, and so the most tasks that run at the same time. None: those of
            the checkpoint, or 16 if it is new or its states are in one part. If the number differs from the one before, states
            are split again before the first micro-batch, in an epoch of its own, at the cost of reading and writing all of
            them, one at a time in memory.
        trigger: the argument of Spark's ``DataStreamWriter.trigger``, as in ``{"availableNow": True}``.
        heartbeat_seconds: run a micro-batch at this interval even if no rows come, so that processing time advances. For
            Spark it is one more stream, which may come or go when the query is started again; the interval can be changed.
        on_epoch: called with (view, delta as a Spark DataFrame, epoch) before an epoch is committed. An epoch that fails before
            its commit is repeated, and its deltas are passed again, with the same rows: make the sink idempotent by epoch.
            Epoch 0, in which a group without rows gets its row, precedes all micro-batches and is not passed.
        driver_rows: stages with at most this many rows run in the driver process, without a Spark job, if two tasks could run
            at the same time; if more could, the limit is lower, down to half. So do the rows of a micro-batch if the one before
            had as few: a plain job collects them, and stops at that number.
        driver_bytes: the same limit in bytes; stages that exceed either limit run in executors.
        name: the name of the query, as Spark shows it.
        on_bad_rows: "fail": a row that does not fit its source, or with which a view cannot be computed, ends the query, each
            time it is started. "ledger": it goes to ``query.ledger()`` with the reason, and all other rows count. None:
            as the engine was made, ``Engine(on_bad_rows=...)``.

    Raises:
        InputError: a DataFrame is missing or does not fit its source.
        PlanError: the engine has been pushed into, an argument is not valid, or something cannot be pickled.
        PreflightError: an executor cannot run the query, for example as a library is missing there.
        CheckpointError: the checkpoint is of another plan, is open elsewhere, is not shared, or is where Spark has no file
            system.
    """
    require_spark()
    require_declarations(engine)
    require_trigger(trigger)
    require_name(name)
    check_sources(engine, sources, is_streaming=True)
    require_no_shuffle(sources, engine.sources)
    require_no_aggregation(sources)
    first = next(iter(sources.values()))
    require_start(first, trigger, name)
    spark = first.sparkSession
    location_in_spark(spark, checkpoint_in_spark(checkpoint).store.url)
    frames = {name: sources[name] for name in engine.sources}
    if heartbeat_seconds is not None:
        require_bounded_beats(trigger)
        frames[HEARTBEAT] = heartbeat(spark, heartbeat_seconds)
    batches = prepared(
        engine,
        spark,
        checkpoint,
        buckets,
        driver_rows,
        on_epoch,
        driver_bytes=driver_bytes,
        on_bad_rows=on_bad_rows,
        frames=frames,
    )
    return started(engine, batches, spark, frames, trigger, name)


def started(
    engine: Engine,
    batches: MicroBatches,
    spark: SparkSession,
    rows: Mapping[str, DataFrame] | DataFrame,
    trigger: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Query:
    """Return the query over the streams of its sources, or over all of their rows as ``tagged`` makes them."""
    united = UnitedRows(batches, rows)
    return Query(
        engine, batches, Streaming(batches, united, trigger, name), InSpark(spark, batches.setup), united
    )


def prepared(
    engine: Engine,
    spark: SparkSession,
    checkpoint: str | Path | Checkpoint,
    buckets: int | None,
    driver_rows: int,
    on_epoch: OnEpoch | None,
    *,
    driver_bytes: int = DRIVER_BYTES,
    on_bad_rows: OnBadRows | None = None,
    frames: Mapping[str, DataFrame] | None = None,
) -> MicroBatches:
    """Return the function for micro-batches, after all checks that are possible before the first one.

    ``frames`` are the streams by name, unless rows come in another way.
    """
    require_sizes(BUCKETS if buckets is None else buckets, driver_rows)
    require_driver_bytes(driver_bytes)
    require_on_epoch(on_epoch)
    if on_bad_rows is not None:
        require_on_bad_rows(on_bad_rows)
    options_of_checkpoint = checkpoint_in_spark(checkpoint)
    plan = check_picklable(engine.declared, "the plan of the views")
    if on_epoch is not None:
        check_picklable(on_epoch, "on_epoch")
    store = options_of_checkpoint.store
    # Before anything is written, so that no lock file is left in a folder of other data.
    is_checkpoint(store)
    lock = WriterLock(store.url)
    try:
        options = Options(options_of_checkpoint, driver_rows, on_epoch, driver_bytes)
        parts = cut_into(engine, options, store, buckets)
        last = CommitLog(store).last
        check_executors(spark, Needs(store.url, largest_bucket(last)))
        before = None if frames is None else streams_before(last, frames)
        streams = None if frames is None else Streams.of(frames, () if before is None else before.numbered)
        if before is not None and streams is not None:
            require_continued(store.url, before, streams)
        batches = MicroBatches(
            Setup(
                plan,
                store.url,
                parts,
                INLINE_ROWS,
                options_of_checkpoint.allow_pickle,
                on_bad_rows or engine.on_bad_rows,
                tuple(engine.sources) if streams is None else streams.sources,
            ),
            options,
            streams,
        )
        batches.is_connected = not hasattr(spark, "_jsc")
        register(spark)
        batches.on_read = engine.fill_reports.read
        with engine.fill_reports.ending():
            batches.opened(spark)  # Views that are new to the checkpoint are filled and committed.
        if streams is not None:
            continue_with(batches, before, streams, spark)
    finally:
        lock.release()
    return batches


class Query(LiveViews, QueryNames, RefusedByQuery):
    """A running query, and its views. Made by ``run``.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> from evercurrent import spark_bridge
    >>> engine = ec.Engine()
    >>> hits = engine.source("hits", {"ip": pl.String})
    >>> _ = engine.view("visitors", hits.group_by("ip").len("n"))
    >>> spark = spark_bridge.local_session()  # doctest: +SKIP
    >>> stream = spark.readStream.schema("ip string").parquet("hits")  # doctest: +SKIP
    >>> query = spark_bridge.run(engine, {"hits": stream}, checkpoint="hits.checkpoint")  # doctest: +SKIP
    >>> query.process_all_available()  # doctest: +SKIP
    >>> query.view("visitors").read()  # doctest: +SKIP
    >>> query.stop()  # doctest: +SKIP
    """

    def __init__(
        self,
        engine: Engine,
        batches: MicroBatches,
        streaming: Streaming,
        in_spark: InSpark,
        rows: UnitedRows,
    ) -> None:
        reader = CheckpointReader(
            batches.setup.unpickled(),
            batches.store,
            batches.options.checkpoint.drop,
            allow_pickle=batches.setup.allow_pickle,
        )
        super().__init__(engine, reader, in_spark, batches, streaming, rows)
        remember(str(self.id), self)

    @property
    def streaming_query(self) -> StreamingQuery:
        """See ``QueryNames``."""
        return self._streaming.query

    def fire(self, view: str, key: object = None, window: object = None) -> None:
        """Fire windows with the next micro-batch: those whose trigger waits for ``signal()``.

        Args:
            view: the name of the view.
            key: the key, as a value, a tuple or a dictionary; None for all keys.
            window: the start of the window, or (start, end); None for all windows.

        Raises:
            InputError: there is no such view, it has no windows that wait, or the key does not fit.
        """
        self.view(view)
        request = FireRequest(view, key, window)
        require_fitting(self._in_spark.setup.unpickled(), request)
        self._batches.request(request)

    def progress(self) -> EpochProgress | None:
        """Return the measures of the last epoch that this process has run; None before the first.

        Rows in and out of every view, seconds of each stage and where it ran, what is kept, and the slowest bucket. Each
        epoch's are also a record of ``logging.getLogger("evercurrent")`` at level INFO, and ``spark_bridge.progress_of`` returns
        them for an event of Spark's ``StreamingQueryListener``. Under Spark Connect micro-batches run in another process: there
        they are those in the record of the last commit, whose ``seconds`` end before that record was written.
        """
        measures = self.recent_progress()
        return measures[-1] if measures else None

    def recent_progress(self) -> list[EpochProgress]:
        """Return the measures of the last hundred epochs that this process has run, the oldest first.

        Under Spark Connect there are only those of the last one.
        """
        if hasattr(self.streaming_query, "_jsq"):
            return list(self._batches.opened().progress)
        last = in_record(self._reader.last())
        return [] if last is None else [last]

    def explain(self, extended: bool = False) -> str:
        """Return the stages of the views as text: what each computes, how it is cut, and where it last ran; and what is being filled.

        ``extended`` has Spark print its own plans of the last micro-batch as well: ``streaming_query.explain(True)``.
        """
        if extended:
            self.streaming_query.explain(True)
        epochs = self._batches.opened()
        text = stages_text(epochs.cut, epochs.runner.circuit, self._batches.options.limits, self.progress())
        return "\n".join([text, *map(repr, self._engine.filling.values())])

    def __repr__(self) -> str:
        """Show the name, whether it runs, the epoch, and the views."""
        named = "" if self.name is None else f" {self.name!r}"
        failed = "" if self.isActive or self.exception() is None else ", failed: see exception()"
        state = f"{'running' if self.isActive else 'ended'}{failed}"
        return (
            f"Query{named}, {state}, at epoch {self.epoch_number}; views: {', '.join(self.views) or 'none'}"
        )

    def process_all_available(self) -> None:
        """Wait until all rows that are there now are committed.

        Spark waits until no stream has anything new: where rows, or the beats of ``heartbeat_seconds``, come more often than
        micro-batches end, that is when the query is stopped.

        Raises:
            EvercurrentError: the query ends with this error, as in ``await_termination``.
        """
        with self._in_a_sentence():
            self._streaming.process_all_available()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the query ends; return False if it has not after ``timeout`` seconds, which may be a fraction.

        Raises:
            InputError: that is not a length of time; or the query has ended as a value could not be computed.
            SinkError: ``on_epoch=`` has raised; the traceback of that function is above its sentence.
            SparkEndedError: the Java process in which Spark runs has ended.
            SourceEndedError: the Python process in which Spark runs a source, as the heartbeat, has ended.
            EvercurrentError: the query has ended with another error of this package; ``exception()`` has Spark's.
        """
        require_timeout(timeout)
        try:
            with self._in_a_sentence():
                return self._streaming.await_termination(timeout)
        finally:
            if not self._streaming.is_active:
                self._streaming.ended()
                drain_all(self.deliveries)

    @contextmanager
    def _in_a_sentence(self) -> Iterator[None]:
        """Raise an error of this package without Spark's stack traces, which ``exception()`` has."""
        try:
            yield
        except Exception as error:
            own = self._batches.error
            if isinstance(own, EvercurrentError):
                raise own.with_traceback(None) from own.__cause__
            if self._streaming.has_lost_java:
                raise ended(self._batches.store.url) from None
            if (failure := of_source(error, self._batches.store.url)) is not None:
                raise failure from None
            raise

    @property
    def name(self) -> str | None:
        """See ``QueryNames``."""
        return self._streaming.name

    @property
    def isActive(self) -> bool:  # noqa: N802
        """See ``QueryNames``; no query runs whose Java process has ended."""
        return self._streaming.is_active

    def exception(self) -> Exception | None:
        """See ``QueryNames``; a ``SparkEndedError`` if the Java process in which Spark ran has ended, a ``SourceEndedError`` if the
        Python process of a source has, and the error of a source of this package."""
        try:
            error = super().exception()
            return of_source(error, self._batches.store.url) or error
        except Exception:
            if self._streaming.has_lost_java:
                return ended(self._batches.store.url)
            raise

    def stop(self) -> None:
        """Stop the query; a running micro-batch is abandoned, and run again when the query is started again.

        It waits half a minute at most for sinks.
        """
        self._streaming.stop()
        until = time.monotonic() + DRAIN_SECONDS
        drain_all(self.deliveries, until)
        self.end_deliveries(until)

    def finish(self) -> int:
        """End the input and return the epoch in which every watermark moves to the end of time, so that all windows close.

        Returns:
            The number of the epoch.

        Raises:
            CheckpointError: the query is still running.
        """
        if self._streaming.is_active:
            raise CheckpointError("the query is still running: wait for its end, or stop it, before finish()")
        timed = [name for name, source in self._sources.items() if source.event_time is not None]
        if not timed:
            return self.epoch_number
        return self._batches.promise(dict.fromkeys(timed, END_OF_TIME), spark=self._in_spark.session)
