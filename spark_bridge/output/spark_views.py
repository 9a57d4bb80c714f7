"""Views in a checkpoint are read with Spark or without, by the process that runs the query or by any other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from evercurrent.core.data.errors import InputError, NotFilledError, PlanError
from evercurrent.core.data.schema import listed
from evercurrent.views.checkpoint import Checkpoint, Saver
from evercurrent.views.checkpoint.origin import BEGINNINGS, SinkOffset, writers_of
from evercurrent.views.concurrency.draining import end_all
from evercurrent.views.engine.consumers import Reader
from evercurrent.views.engine.engine import Engine
from evercurrent.views.engine.published import with_values
from evercurrent.views.engine.retained_deltas import Deltas
from evercurrent.views.engine.view import View
from evercurrent.views.engine.view_forms import ReadForms
from evercurrent.views.engine.view_sinks import MakeSink, Outputs, require_own_place
from evercurrent.views.epochs.history import BEFORE_ALL
from evercurrent.views.epochs.refused_rows import ledger_frame, source_ledger_frame
from evercurrent.views.epochs.snapshot import Snapshot
from evercurrent.views.inspection.questions import shown_watermark
from evercurrent.views.partitioned.checkpoint_reader import CheckpointReader
from evercurrent.views.partitioned.clocks import Clocks
from evercurrent.views.sinks.delivery import Delivery
from evercurrent.views.sinks.kafka_topic import Producer, Send
from evercurrent.views.sinks.origin import Origin
from evercurrent.views.sinks.retry import Retry

from ..execution.arguments import as_checkpoint, require_engine
from ..execution.frames import contents, delta_schema, from_files
from ..execution.jobs import Setup
from ..execution.preflight import check_picklable
from ..runtime.session import is_stopped
from .frame_hints import RefusedByView
from .kafka_writer import sent_by_spark

POLL_SECONDS = 0.5
"""Seconds between two checks of a delivery for new epochs of a checkpoint."""

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class InSpark:
    """A session, and the setup of its tasks."""

    session: SparkSession
    setup: Setup


def views(
    engine: Engine, checkpoint: str | Path | Checkpoint, spark: SparkSession | None = None
) -> Mapping[str, SparkView]:
    """Return the views of a checkpoint that another process keeps current, by name, for reading only.

    The other process may be a query or an engine, and need not be running. No lock is taken and nothing is written. Each read
    uses the last commit at that time; to read several views as of one epoch, pass the ``epoch`` of one to ``read`` of the
    others.

    >>> import tempfile
    >>> import evercurrent as ec
    >>> import polars as pl
    >>> from evercurrent import spark_bridge
    >>> def declared(checkpoint: str | None = None) -> ec.Engine:
    ...     engine = ec.Engine(checkpoint=checkpoint)
    ...     _ = engine.view("visitors", engine.source("hits", {"ip": pl.String}).group_by("ip").len("n"))
    ...     return engine
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with declared(folder) as engine:
    ...         _ = engine.push("hits", {"ip": ["a", "a"]})
    ...     spark_bridge.views(declared(), folder)["visitors"].read().rows()
    [('a', 2)]

    Args:
        engine: declares the sources and views of the checkpoint; nothing is pushed into it, and it is not changed.
        checkpoint: the folder or url; of a ``Checkpoint``, the path, ``drop`` (names that are not declared here) and
            ``allow_pickle`` are used.
        spark: a session, for ``to_spark`` and ``deltas_to_spark``; without one, pyspark is not needed.

    Raises:
        PlanError: something cannot be sent to Spark's workers.
        CheckpointError: nothing is committed there, or it is of another plan.
    """
    require_engine(engine)
    if spark is not None and not hasattr(spark, "createDataFrame"):
        raise PlanError(f"spark={spark!r} is not a Spark session; give one, or leave it out")
    options = as_checkpoint(checkpoint)
    reader = CheckpointReader(engine.declared, options.store, options.drop, allow_pickle=options.allow_pickle)
    buckets = reader.last().buckets
    if spark is None:
        return views_of(engine, reader, None, [])
    plan = check_picklable(engine.declared, "the plan of the views")
    setup = Setup(plan, reader.store.url, buckets, inline_rows=0, allow_pickle=options.allow_pickle)
    return views_of(engine, reader, InSpark(spark, setup), [])


def views_of(
    engine: Engine, reader: CheckpointReader, in_spark: InSpark | None, sinks: list[Delivery]
) -> dict[str, SparkView]:
    """Return the views that an engine declares, to be read from a checkpoint; they share the list of their ``sinks``."""
    return {name: SparkView(view, reader, in_spark, sinks) for name, view in engine.views.items()}


class SparkViews:
    """The views of an engine in a checkpoint, by name, with its epoch, watermarks and ledger.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> from evercurrent import spark_bridge
    >>> engine = ec.Engine()
    >>> hits = engine.source("hits", {"ip": pl.String})
    >>> _ = engine.view("visitors", hits.group_by("ip").len("n"))
    >>> spark = spark_bridge.local_session()  # doctest: +SKIP
    >>> views = spark_bridge.run_batch(engine, {"hits": spark.read.parquet("hits")})  # doctest: +SKIP
    >>> views.epoch_number, list(views.views)  # doctest: +SKIP
    """

    def __init__(self, engine: Engine, reader: CheckpointReader, in_spark: InSpark) -> None:
        self._sinks: list[Delivery] = []
        self.views: Mapping[str, SparkView] = views_of(engine, reader, in_spark, self._sinks)
        self._engine = engine
        self._sources = dict(engine.sources)
        self._reader = reader
        self._in_spark = in_spark

    def view(self, name: str) -> SparkView:
        """Return a view, to be read as of its last epoch or an older one.

        Raises:
            InputError: there is no view of this name; lists those there are.
            NotFilledError: it is still being filled.
        """
        if isinstance(name, str) and name not in self.views and name in self._engine.filling:
            raise NotFilledError(
                f"{self._engine.filling[name]!r}; wait for it with what engine.view has returned: view.wait()"
            )
        if isinstance(name, str) and name not in self.views and name in self._engine.views:
            raise InputError(
                f"view {name!r} was declared after the query was started, which computes the views that were declared by then: "
                "tasks in other processes have their plan. Stop the query, and start it again on its checkpoint, which "
                "fills the view"
            )
        if not isinstance(name, str) or name not in self.views:
            raise InputError(f"there is no view {name!r}; there are {listed(self.views)}")
        return self.views[name]

    @property
    def deliveries(self) -> tuple[Delivery, ...]:
        """Return the open deliveries of all views to sinks."""
        return tuple(each for view in self.views.values() for each in view.deliveries)

    def end_deliveries(self, until: float | None = None) -> None:
        """End the deliveries to sinks, each after the step under way, for which it waits until this time of ``time.monotonic``."""
        end_all(self.deliveries, until)

    @property
    def epoch_number(self) -> int:
        """Return the number of the last epoch that is committed."""
        return self._reader.last().epoch

    @property
    def watermarks(self) -> dict[str, datetime | int | None]:
        """Return how far the event time of each source is complete: None if unknown, ``END_OF_TIME`` if it has ended."""
        clocks = self._clocks()
        return {name: shown_watermark(clock.before) for name, clock in clocks.compiled.clocks.items()}

    def ledger(self, source: str | None = None, *, each_window: bool = False) -> pl.DataFrame:
        """Return every refused row and why, as ``Engine.ledger``.

        Raises:
            InputError: there is no source of this name; lists those there are.
        """
        if source is None:
            return ledger_frame(self._clocks().ledger.refused, each_window=each_window)
        if not isinstance(source, str) or source not in self._sources:
            raise InputError(f"there is no source {source!r}; there are {listed(self._sources)}")
        return source_ledger_frame(
            self._clocks().ledger.refused, source, self._sources[source].schema, each_window=each_window
        )

    def _clocks(self) -> Clocks:
        clocks = Clocks(self._in_spark.setup.unpickled())
        clocks.restore(Saver(self._reader.pieces), self._reader.last())
        return clocks


class SparkView(ReadForms, Outputs, RefusedByView):
    """A named result in a checkpoint, as of its last epoch or an older one that is retained.

    A sink that is written from it (``to_sql`` and the like) looks for new epochs twice a second, in a thread of this process.

    >>> import tempfile
    >>> import evercurrent as ec
    >>> import polars as pl
    >>> from evercurrent import spark_bridge
    >>> def declared(checkpoint: str | None = None) -> ec.Engine:
    ...     engine = ec.Engine(checkpoint=checkpoint)
    ...     _ = engine.view("visitors", engine.source("hits", {"ip": pl.String}).group_by("ip").len("n"))
    ...     return engine
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with declared(folder) as engine:
    ...         _ = engine.push("hits", {"ip": ["a", "a"]})
    ...     view: spark_bridge.SparkView = spark_bridge.views(declared(), folder)["visitors"]
    ...     view.epoch, [delta.rows() for delta in view.deltas()]
    (1, [[('a', 2, 1, 1)]])
    """

    def __init__(
        self, declared: View, reader: CheckpointReader, in_spark: InSpark | None, sinks: list[Delivery]
    ) -> None:
        self.name: str = declared.name
        self._declared = declared
        self._checkpoint = reader
        self._in_spark = in_spark
        self._sinks = sinks
        self._deliveries: list[Delivery] = []
        self._ended: str | None = None

    @property
    def _reader(self) -> CheckpointReader:
        """Return the reader of the checkpoint.

        Raises:
            InputError: the view is no longer there.
        """
        if self._ended is not None:
            raise InputError(self._ended)
        return self._checkpoint

    def is_of(self, declared: View) -> bool:
        """Return whether this is the view of a declaration."""
        return self._declared is declared

    def go_on(self, declared: View, in_spark: InSpark | None) -> None:
        """Continue with another definition that has the same columns, or with another plan."""
        self._declared, self._in_spark = declared, in_spark

    def end(self, why: str) -> None:
        """Note that the view no longer exists, and why."""
        self._ended = why

    @property
    def schema(self) -> pl.Schema:
        """The columns and their types."""
        return self._declared.schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.schema.names()

    @property
    def deliveries(self) -> tuple[Delivery, ...]:
        """The open deliveries to sinks."""
        return tuple(each for each in self._deliveries if not each.is_closed)

    @property
    def epoch(self) -> int:
        """Return the last epoch that is committed."""
        return self._reader.last().epoch

    @property
    def earliest(self) -> int:
        """Return the epoch after which all deltas are retained, the least for ``deltas(since)``; -1 if all are."""
        begins = self._reader.begins(self.name)
        return BEFORE_ALL if begins < self.first_epoch else begins

    @property
    def first_epoch(self) -> int:
        """The first epoch of the present definition; 0 unless the view was added to the checkpoint later."""
        return self._reader.first(self.name)

    def read(self, epoch: int | None = None) -> pl.DataFrame:
        """Return the contents as a polars frame, as of an epoch, by default the last. Cost: the view; no Spark job.

        Raises:
            EpochGoneError: the commit of that epoch is no longer retained; names those that are.
            InputError: that is not an epoch, or it is still to come.
        """
        return self._reader.snapshot(self.name, epoch).frame

    def snapshot(self) -> Snapshot:
        """Return the contents and their epoch; later changes are ``deltas(since=snapshot.epoch)``."""
        return self._reader.snapshot(self.name)

    def to_spark(self, epoch: int | None = None) -> DataFrame:
        """Return the contents as a Spark DataFrame, as of an epoch, by default the last; read by Spark's tasks.

        It stays as of that epoch, and can be read as long as its commit is retained.

        Raises:
            EpochGoneError, InputError: as ``read``.
            PlanError: there is no session.
        """
        in_spark = self._spark()
        commit = self._reader.commit(self.name, epoch)
        return contents(in_spark.session, in_spark.setup, self.name, commit, self.schema)

    def deltas(self, since: int | None = None) -> Deltas:
        """Return the changes after an epoch, to be iterated or read as one frame; None starts from the first epoch.

        Raises:
            EpochGoneError: they are no longer all retained; start from ``snapshot()`` instead.
            InputError: that is not an epoch, or it is still to come.
        """
        last = self.epoch
        self._reader.delta_files(self.name, since)
        first = BEFORE_ALL if since is None else since
        return Deltas(self.name, self.schema, first, last, partial(self._begin_deltas, since))

    def _begin_deltas(self, since: int | None) -> tuple[int, Iterator[pl.DataFrame]]:
        last, parts = self.epoch, self._reader.deltas(self.name, since)
        by_epoch = groupby(parts, key=lambda one: one[0])
        return max(last, *(epoch for epoch, _ in parts[-1:]), 0), (
            pl.concat(frame for _, frame in frames) for _, frames in by_epoch
        )

    def deltas_to_spark(self, since: int | None = None) -> DataFrame:
        """Return the changes after an epoch as a Spark DataFrame; for a stream of them use ``readStream.format("evercurrent")``.

        Raises:
            EpochGoneError, InputError: as ``deltas``.
            PlanError: there is no session.
        """
        in_spark = self._spark()
        files = self._reader.delta_files(self.name, since)
        return from_files(in_spark.session, self.name, in_spark.setup.store, files, delta_schema(self.schema))

    def _keys(self) -> tuple[str, ...]:
        return self._declared.key_columns

    def _rows_of(self, row: pl.DataFrame) -> pl.DataFrame:
        return with_values(self.read(), row)

    @property
    def _last_epoch(self) -> int:
        return self.epoch

    def _make_durable(self) -> int:
        return self.epoch

    def _sender(self, topic: str, to: Producer | Mapping[str, str]) -> Send:
        return (
            sent_by_spark(self._spark().session, topic, to)
            if isinstance(to, Mapping)
            else super()._sender(topic, to)
        )

    def _deliver(
        self, make: MakeSink, name: str, reader: Reader, retry: Retry | None, keys: tuple[str, ...] = ()
    ) -> Delivery:
        self._declared.require_reader(name, reader)
        retry = Retry.of(retry)
        store = self._reader.store
        offset = SinkOffset(store, f"{self.name}/{name}")
        sink = make(Origin(self.name, lambda: writers_of(store)), offset.last())
        self._sinks[:] = [each for each in self._sinks if not each.is_closed]
        require_own_place(self.name, sink, self._sinks)
        if any(each.name == name for each in self.deliveries):
            raise PlanError(
                f"view {self.name!r}: {name!r} is being written already; close that delivery first"
            )
        on_written = None if sink.remembers else offset.note
        delivery = Delivery(
            self,
            sink,
            name,
            retry=retry,
            poll_seconds=POLL_SECONDS,
            on_written=on_written,
            reader=reader,
            keys=keys,
            beginning=SinkOffset(store, f"{self.name}/{name}", BEGINNINGS),
        )
        self._deliveries = [*self.deliveries, delivery]
        self._sinks.append(delivery)
        return delivery

    def __repr__(self) -> str:
        """Show name, epoch and the first rows."""
        if self._ended is not None:
            return f"View {self.name!r}: {self._ended}"
        now = self.snapshot()
        return f"View {self.name!r} at epoch {now.epoch}\n{now.frame}"

    def _spark(self) -> InSpark:
        if self._in_spark is None:
            raise PlanError(
                f"view {self.name!r}: there is no Spark session; give one to views(engine, checkpoint, spark), or use read() "
                "and deltas()"
            )
        if is_stopped(self._in_spark.session):
            raise PlanError(
                f"view {self.name!r}: the Spark session was stopped; use read() and deltas(), or "
                "spark_bridge.views(engine, checkpoint, spark) with another session"
            )
        return self._in_spark
