"""Spark's query behind the views, which can be ended between two micro-batches, and started again with other streams or views.

Spark fixes the streams of a query and the function for its micro-batches when it starts. So where one of them changes, its
query is ended and another one is started on the same offsets: those who wait for the query wait on, and it keeps its id.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Condition, Event, Lock, Thread
from typing import TYPE_CHECKING, Any, TypeAlias

from ..runtime.ended_java import has_ended
from .end_of_process import END_OF_PROCESS
from .interruptions import interruption
from .micro_batches import MicroBatches
from .spark_checkpoint import location_in_spark
from .writer_lock import WriterLock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_SECONDS = 0.01
"""Seconds between two looks at whether Spark has begun to end a query."""

STOP_SECONDS = 1.0
"""Seconds after which a query that has not ended is stopped again; twice as many each time."""


Outcomes: TypeAlias = "SimpleQueue[Future[None]]"
"""The queue for the results and errors of a call."""


class Streaming:
    """A query of Spark over the rows that ``rows`` returns, from its start to its end, with all times that it is started again."""

    def __init__(
        self,
        batches: MicroBatches,
        rows: Callable[[], DataFrame],
        trigger: Mapping[str, Any] | None,
        name: str | None,
    ) -> None:
        self._batches = batches
        self.rows: Callable[[], DataFrame] = rows
        self._trigger = trigger
        self.name: str | None = name
        """The name of the query, as Spark shows it."""
        self._one_at_a_time = Lock()
        self._changed = Condition()
        self._is_changing = False
        self._is_done = Event()
        batches.await_end = self._await_end
        self.lock: WriterLock = WriterLock(batches.store.url)
        """The lock of the checkpoint, held until the query has ended."""
        try:
            batches.holds.clear()
            self.query: StreamingQuery = self._start()
        except BaseException:
            self.lock.release()
            raise
        if not batches.is_connected:
            END_OF_PROCESS.add(self)
        Thread(target=self._watch, daemon=True, name="evercurrent-lock").start()

    @property
    def is_active(self) -> bool:
        """Whether it runs, or is about to be started again."""
        try:
            return self._is_changing or bool(self.query.isActive)
        except Exception:
            if self.has_lost_java:
                return False
            raise

    @property
    def has_lost_java(self) -> bool:
        """Whether the Java process in which it ran has ended."""
        return has_ended(self._session)

    def _start(self) -> StreamingQuery:
        rows, batches = self.rows(), self._batches
        self._session: SparkSession = rows.sparkSession
        location = location_in_spark(rows.sparkSession, batches.store.url, batches.folder)
        writer = rows.writeStream.foreachBatch(batches).option("checkpointLocation", location)
        if self.name is not None:
            writer = writer.queryName(self.name)
        query = (writer.trigger(**self._trigger) if self._trigger else writer).start()
        batches.log.follow(query, rows.sparkSession)
        return query

    @contextmanager
    def between_micro_batches(self, ended: Exception) -> Iterator[None]:
        """End Spark's query between two micro-batches, and start it again at the end of the block, whatever that raises.

        Raises:
            Exception: ``ended``, as the query has ended by itself.
        """
        with self._one_at_a_time:
            self._set_changing(True)
            try:
                self._end(ended)
                try:
                    yield
                finally:
                    self.query = self._start()
            finally:
                self._set_changing(False)

    def _end(self, ended: Exception) -> None:
        """End Spark's query before a micro-batch begins.

        Raises:
            Exception: ``ended``, as it has ended by itself.
        """
        while True:
            while self.query.isActive and not self._batches.pause():
                time.sleep(POLL_SECONDS)
            is_ours = self.query.isActive
            try:
                self._stop()
            finally:
                self._batches.resume()
            if not is_ours or self.query.exception() is not None:
                raise ended
            if not self._batches.has_begun():
                return
            self.query = self._start()

    def _await_end(self) -> InterruptedError:
        """Wait until Spark ends the query, and return the error with which a micro-batch that has not begun ends."""
        while self.query.isActive:
            time.sleep(POLL_SECONDS)
        return interruption(InterruptedError("the query is started again"))

    def _set_changing(self, is_changing: bool) -> None:
        with self._changed:
            self._is_changing = is_changing
            self._changed.notify_all()

    def _is_over(self, query: StreamingQuery) -> bool:
        """Return whether the query, which is not running, was not started again; waits while that is not known."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_changing)
            return self.query is query

    def await_termination(self, timeout: float | None) -> bool:
        """Wait until the query has ended; return False if it has not after ``timeout`` seconds.

        Java is waited for in a thread of its own: where a handler of a signal raises in the middle of a call of Py4J, the next call of
        that thread would wait for the answer to the one before.

        Raises:
            Exception: the error of Spark with which it ended.
        """
        if not self._is_done.wait(timeout):
            return False
        self._await_last()
        return True

    def _await_last(self) -> None:
        """Wait until the query has ended and is not started again.

        Raises:
            Exception: the error of Spark with which it ended.
        """
        while True:
            query = self.query
            query.awaitTermination()
            if self._is_over(query):
                return

    def process_all_available(self) -> None:
        """Wait until all rows that are there now are committed, in a thread of its own: see ``await_termination``.

        Raises:
            Exception: the error of Spark with which the query ends.
        """
        in_thread(self._process_all).get().result()

    def _process_all(self) -> None:
        while True:
            query = self.query
            query.processAllAvailable()
            if query.isActive or self._is_over(query):
                return

    def stop(self) -> None:
        """Stop the query. A running micro-batch is abandoned."""
        with self._one_at_a_time:
            try:
                self._stop()
            except Exception:
                if not self.has_lost_java:
                    raise
        self.ended()

    def _stop(self) -> None:
        if self._batches.is_connected:
            stop_again(self.query)
        else:
            self.query.stop()

    def ended(self) -> None:
        """Note that the query has ended: the lock of the checkpoint is released after the work beside micro-batches."""
        self._batches.end()
        self.lock.release()
        END_OF_PROCESS.discard(self)

    def _watch(self) -> None:
        """Wait for the end of the query, whether anybody else does or not."""
        try:
            self._await_last()
        except Exception:
            # Callers that wait for the query get its error; here it only matters that it has ended.
            return
        finally:
            self._is_done.set()
            self.ended()


def stop_again(query: StreamingQuery, seconds: float = STOP_SECONDS) -> None:
    """Stop a query under Spark Connect, again and again until it has ended.

    Spark interrupts the thread of the query once, and waits. Where the interrupt is lost, the thread waits for the process that runs the
    micro-batch; and that process waits for the end of the query, in which no micro-batch may begin.

    Raises:
        Exception: what Spark raises.
    """
    outcomes: Outcomes = SimpleQueue()
    while True:
        in_thread(query.stop, outcomes)
        try:
            outcomes.get(timeout=seconds).result()
        except Empty:
            seconds *= 2
            continue
        return


def in_thread(work: Callable[[], None], outcomes: Outcomes | None = None) -> Outcomes:
    """Run a call of Spark in a thread of its own, and return the queue into which its outcome is put."""
    there: Outcomes = SimpleQueue() if outcomes is None else outcomes

    def run() -> None:
        outcome: Future[None] = Future()
        try:
            work()
        except BaseException as error:  # Also one that is no Exception, as somebody waits for the outcome.
            outcome.set_exception(error)
        else:
            outcome.set_result(None)
        there.put(outcome)

    Thread(target=run, daemon=True, name="evercurrent-spark").start()
    return there
