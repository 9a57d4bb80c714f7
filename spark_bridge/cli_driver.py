"""A driver for views that a Spark query keeps current, into which this process pushes as into an engine.

This is ``evercurrent run APP --on spark``: a push writes a file, which is a micro-batch, which is an epoch.
"""

from __future__ import annotations

import os
import re
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from evercurrent.core.data.errors import EvercurrentError, InputError
from evercurrent.views.checkpoint import Checkpoint
from evercurrent.views.checkpoint.begun import next_batch
from evercurrent.views.connectors.positions import copied
from evercurrent.views.dataframe.accepted_rows import arriving_frame, messages_of
from evercurrent.views.dataframe.bad_rows import accepted_apart
from evercurrent.views.dataframe.source import Source
from evercurrent.views.engine.engine import Engine
from evercurrent.views.epochs.history import BEFORE_ALL

from .execution.arguments import require_declarations
from .execution.arrivals import Arrivals
from .execution.micro_batches import MicroBatches
from .execution.options import Planned, instant_of
from .output.spark_views import SparkView
from .query import DRIVER_ROWS, Query, prepared, started
from .runtime.session import is_local, local_session, require_spark, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[2]"
STDERR = 2


class SparkStartError(EvercurrentError):
    """Spark cannot be started with these settings."""


@contextmanager
def on_spark(
    engine: Engine, *, checkpoint: str | None = None, master: str | None = None, buckets: int | None = None
) -> Iterator[SparkDriver]:
    """Run the views of an engine inside Spark, in the running session or one that ends with the context.

    Without a checkpoint they are kept in a folder that is deleted when the context ends. What bad rows do is
    ``engine.on_bad_rows``.

    Raises:
        SparkMissingError, JavaMissingError, SparkStartError: Spark cannot be started here.
        PlanError, CheckpointError: as for ``run``.
    """
    require_spark()
    require_declarations(engine)
    with ExitStack() as stack:
        place: str | Checkpoint | None = checkpoint
        if place is None:
            folder = tempfile.TemporaryDirectory(prefix="evercurrent-", ignore_cleanup_errors=True)
            place = Checkpoint(stack.enter_context(folder), keep=16, grace="1s")
        spark = stack.enter_context(_session(master or MASTER))
        batches = prepared(engine, spark, place, buckets, DRIVER_ROWS, None)
        arrivals = Arrivals(batches.store, engine.sources)
        batches.planned = arrivals.planned
        query = started(engine, batches, spark, arrivals.stream(spark))
        stack.callback(query.stop)
        driver = SparkDriver(engine, query, batches, arrivals, is_durable=checkpoint is not None)
        driver.catch_up()
        yield driver


@contextmanager
def _session(master: str) -> Iterator[SparkSession]:
    """Start a session and restore the handler of Ctrl-C, as Spark's would end its jobs in the middle of an epoch."""
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    at_interrupt = signal.getsignal(signal.SIGINT)
    try:
        with _quiet():
            start = local_session if is_local(master) else session
            spark = start(settings={"spark.master": master, "spark.ui.enabled": False})
    except EvercurrentError:
        raise
    except Exception as error:
        reason = " ".join(str(error).splitlines()[:2])
        raise SparkStartError(f"Spark does not start on {master}: {reason}; correct --master") from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, at_interrupt)
    # From now on errors are raised as exceptions; the log would repeat each of them at length.
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide Java's output on standard error, now and later, unless the block fails.

    At every start it is a page of warnings on which users cannot act. Java keeps the standard error with which it was
    started, so ours has to be replaced for that time.
    """
    with tempfile.TemporaryFile() as output:
        ours = os.dup(STDERR)
        os.dup2(output.fileno(), STDERR)
        try:
            yield
        except Exception:
            output.seek(0)
            os.write(ours, output.read())
            raise
        finally:
            os.dup2(ours, STDERR)
            os.close(ours)


class Following:
    """A subscription: its callback gets the delta of every epoch that changes a view, until it is closed."""

    def __init__(self, callback: Callable[[pl.DataFrame], Any], among: list[Following]) -> None:
        self.callback = callback
        self._among = among
        among.append(self)

    def close(self) -> None:
        """End the subscription. Closing twice is no error."""
        if self in self._among:
            self._among.remove(self)


class DrivenView:
    """A view of a driven query, with those methods of an engine's view that a run uses."""

    def __init__(self, view: SparkView) -> None:
        self._view = view
        self._following: list[Following] = []

    @property
    def earliest(self) -> int:
        """Return the epoch after which the deltas of all epochs are retained."""
        return self._view.earliest

    def read(self) -> pl.DataFrame:
        """Return the contents, as of the last epoch."""
        return self._view.read()

    def deltas(self, since: int = BEFORE_ALL) -> Iterable[pl.DataFrame]:
        """Return the deltas of the epochs after this one."""
        return self._view.deltas(since)

    def subscribe(self, callback: Callable[[pl.DataFrame], Any]) -> Following:
        """Call a function with the delta of every later epoch that changes the view."""
        return Following(callback, self._following)

    def deliver(self, since: int) -> None:
        """Pass the deltas of the epochs after this one to the subscribers."""
        if self._following:
            for delta in self.deltas(since):
                for following in tuple(self._following):
                    following.callback(delta)


class SparkDriver:
    """A running query into which rows are pushed. Made by ``on_spark``; used in one thread."""

    def __init__(
        self,
        engine: Engine,
        query: Query,
        batches: MicroBatches,
        arrivals: Arrivals,
        *,
        is_durable: bool,
    ) -> None:
        self.sources: Mapping[str, Source] = engine.sources
        self.views: Mapping[str, DrivenView] = {name: DrivenView(query.view(name)) for name in engine.views}
        self.is_durable = is_durable
        self._query = query
        self._batches = batches
        self._arrivals = arrivals
        self._reported_epoch = query.epoch_number
        self._promised: dict[str, int] | None = None

    @property
    def epoch_number(self) -> int:
        """Return the number of the last epoch."""
        return self._batches.opened().last.epoch

    @property
    def positions(self) -> dict[str, Any]:
        """Return the last ``position`` that was pushed to each source."""
        return copied(self._batches.opened().last.positions)

    @property
    def watermarks(self) -> dict[str, datetime | int | None]:
        """Return how far the event time of each source is complete."""
        return self._query.watermarks

    def ledger(self) -> pl.DataFrame:
        """Return every refused row and why."""
        return self._query.ledger()

    def push(
        self, source: str, data: pl.DataFrame, *, at: datetime | None = None, position: Any = None
    ) -> int:
        """Push one batch of changes as one micro-batch and return its epoch, which is committed when this returns.

        Raises:
            InputError: the batch does not fit the source, or a value cannot be computed; nothing has changed.
            CheckpointError: the epoch could not be written.
        """
        rows = self._rows(self.sources[source], data)
        batch = self._next
        reached = {} if position is None else {source: self.sources[source].positions.kept(position)}
        self._arrivals.put(batch, {source: rows}, Planned(instant_of(at), reached))
        self._run(batch)
        return self._deliver()

    def _rows(self, source: Source, data: pl.DataFrame) -> pl.DataFrame:
        """Return the rows for a micro-batch, which refuses those that do not fit the source.

        Raises:
            InputError: a row is to end the run, or has a value that no column of the source can carry there.
        """
        if self._batches.setup.on_bad_rows == "fail":
            return arriving_frame(source, data)
        if source.format is not None:
            return messages_of(source, data)
        delta, refused = accepted_apart(source, data)
        if not refused:
            return delta.frame
        try:
            return pl.concat([delta.frame, *(each.frame.select(delta.frame.columns) for each in refused)])
        except pl.exceptions.PolarsError:
            return arriving_frame(source, data)

    def tick(self) -> int:
        """Run an epoch without rows and return its number: processing time advances, and timers that are due fire."""
        self._batches.promise({})
        return self._deliver()

    @contextmanager
    def epoch(self, *, at: datetime | None = None) -> Iterator[None]:
        """Move all watermarks that are advanced within the context in one epoch."""
        promised: dict[str, int] = {}
        self._promised = promised
        try:
            yield
        finally:
            self._promised = None
        self._batches.promise(promised, at)
        self._deliver()

    def advance(self, source: str, watermark: int) -> int:
        """Move the watermark of a source by hand, in an epoch of its own or as part of the open one."""
        if self._promised is None:
            self._batches.promise({source: watermark})
            return self._deliver()
        self._promised[source] = watermark
        return self.epoch_number + 1

    def catch_up(self) -> None:
        """Run the micro-batches that an earlier run left, without a call of subscribers."""
        batch = self._next
        if self._arrivals.has(batch):
            self._run(batch)
        self._reported_epoch = self.epoch_number

    @property
    def _next(self) -> int:
        """Return the number of the next micro-batch."""
        return next_batch(self._batches.last_batch)

    def _run(self, batch: int) -> None:
        """Wait until a micro-batch is done.

        Raises:
            InputError: it fails with these rows; they are removed, so that it can be run without them.
        """
        try:
            self._query.process_all_available()
        except Exception as error:
            our_error = _our_error(self._batches.error)
            if isinstance(our_error, InputError):
                self._arrivals.withdraw(batch)
            raise (our_error or error) from error
        self._arrivals.forget(batch)

    def _deliver(self) -> int:
        since, self._reported_epoch = self._reported_epoch, self.epoch_number
        for view in self.views.values():
            view.deliver(since)
        return self._reported_epoch


def _our_error(error: Exception | None) -> Exception | None:
    """Return the error of a micro-batch, even if it was raised in a task and arrived as text."""
    if error is None or isinstance(error, EvercurrentError):
        return error
    raised = re.findall(r"^evercurrent\.core\.data\.errors\.(\w+): (.+)", str(error), re.MULTILINE)
    return InputError(raised[-1][1]) if raised else error
