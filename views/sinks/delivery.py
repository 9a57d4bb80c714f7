"""A delivery writes the deltas of a view to a sink in a thread of its own, tries again when it fails, and catches up."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import polars as pl

from evercurrent.core.data.errors import EpochGoneError, InputError, PlanError, SinkError, first_line
from evercurrent.core.data.schema import EPOCH
from evercurrent.core.data.tags import tagged

from ..concurrency.draining import DRAIN_SECONDS, drain_at_exit
from .alarm import Alarm
from .delivered_view import Beginning, DeliveredView
from .retry import Retry
from .sink import Sink

LOG = logging.getLogger("evercurrent")

FINAL = (PlanError, InputError, SinkError, EpochGoneError)
"""Errors that trying again does not mend."""


@tagged("views.sinks:Delivery")
class Delivery:
    """A sink that is written from a view: how far it is, what failed, and the way to wait for it or end it.

    It is returned by ``view.to_sql(...)`` and the like, and works in a thread of its own, so that no push waits for the
    sink. The thread is woken by each epoch of the view; where the view is in a checkpoint that another process writes, it looks
    there every ``poll_seconds``. When the sink raises, it is left alone for a while (``Retry``) and then gets all that it
    has missed. An error that trying again cannot mend ends the delivery: ``error`` has it, and ``join`` raises it.

    >>> import tempfile
    >>> import evercurrent as ec
    >>> import polars as pl
    >>> engine = ec.Engine()
    >>> words = engine.source("words", {"word": pl.String})
    >>> counts = engine.view("counts", words.group_by("word").len())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     delivery = counts.to_parquet(f"{folder}/feed")
    ...     _ = words.push({"word": ["a"]})
    ...     _ = delivery.join()
    ...     print(pl.read_parquet(f"{folder}/feed/*.parquet").rows())
    ...     delivery.close()
    [('a', 1, 1, 1)]
    """

    def __init__(
        self,
        view: DeliveredView,
        sink: Sink,
        name: str,
        *,
        retry: Retry | None = None,
        poll_seconds: float | None = None,
        on_written: Callable[[int], None] | None = None,
        on_end: Callable[[], None] | None = None,
        reader: str = "deltas",
        keys: tuple[str, ...] = (),
        beginning: Beginning | None = None,
    ) -> None:
        self.reader: str = reader
        self.keys: tuple[str, ...] = keys
        """How the sink uses rows, and the key columns by which it writes them, if they are those of the view."""
        self.name = name
        """The name under which the engine remembers how far the sink is."""
        self.epoch: int | None = None
        """The epoch that the sink is current as of; None before anything was written."""
        self.error: BaseException | None = None
        """Why the last attempt failed; None if it did not."""
        self.failures: int = 0
        """How many attempts failed, one after the other."""
        self._view, self._sink, self._retry = view, sink, Retry.of(retry)
        self._on_written, self._on_end = on_written, on_end
        self._beginning = None if sink.remembers else beginning
        alarm: Alarm[Delivery] = Alarm(poll_seconds)
        self._alarm = alarm
        self._changed = alarm.changed
        self.is_closed: bool = False
        # While there is nothing to write the thread holds none of this, so that an engine that nobody uses can be collected.
        waiting = weakref.ref(self, lambda _: alarm.end())
        self._thread = threading.Thread(
            target=_work, args=(waiting, alarm, sink), name=f"evercurrent sink {name} of {view.name}", daemon=True
        )  # fmt: skip
        _deliveries.add(self)
        alarm.wake(self)
        self._thread.start()

    @property
    def view_name(self) -> str:
        """The name of the view."""
        return self._view.name

    @property
    def lag(self) -> int | None:
        """How many epochs of the view the sink is behind; None where its checkpoint is gone or cannot be read."""
        return self._behind()[0]

    @property
    def place(self) -> str:
        """Where it is written: the kind, and a path, url or table without any password."""
        return self._sink.place

    def is_to(self, sink: Sink) -> bool:
        """Return whether it writes to the place of this sink."""
        return sink.target is not None and self._sink.target == sink.target

    @property
    def remembers(self) -> bool:
        """Whether the sink itself records how far it is."""
        return self._sink.remembers

    def figures(self) -> dict[str, Any]:
        """Return what ``engine.stats()`` shows of it."""
        return {
            "view": self._view.name,
            "place": self._sink.place,
            "epoch": self.epoch,
            "lag": self.lag,
            "failures": self.failures,
            "error": None if self.error is None else first_line(self.error),
        }

    def follow(self, view: DeliveredView) -> None:
        """Go on with the view that replaces the one so far and has the same columns."""
        self._view = view
        self.wake()

    def wake(self) -> None:
        """Let the thread look for new epochs."""
        self._alarm.wake(self)

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the sink has every epoch up to now; return False if it has not after ``timeout`` seconds.

        Epochs that wait for the next commit, see ``Checkpoint(every=...)``, are committed first.

        Raises:
            SinkError: the delivery has ended, or was closed, before that; or it is called by the sink's own function.
            CheckpointError: what waits could not be committed.
            InputError: an epoch is open, whose rows would not be among them; or a subscriber waits for this thread, which waits for
                the end of the epoch to commit it.
        """
        self._require_other_thread("join()")
        until = self._of_view(self._view._make_durable)
        self.wake()
        with self._changed:
            there = self._changed.wait_for(lambda: self._has(until) or self.is_closed, timeout)
            if self._has(until) or not there:
                return there
        raise SinkError(
            f"{self._where} is closed at epoch {self.epoch}: {self.error or 'by close()'}"
        ) from self.error

    def drain(self, seconds: float = DRAIN_SECONDS) -> None:
        """Wait until the sink has every epoch up to now, has failed, or this many seconds are over. Raises nothing."""
        if self.is_closed or threading.current_thread() is self._thread:
            return  # Closed, or the function of the sink closes the engine.
        try:
            until = self._of_view(lambda: self._view.epoch)
        except Exception as error:  # The checkpoint of a query is gone, or cannot be reached.
            self._note(error)
            return
        self.wake()
        with self._changed:
            self._changed.wait_for(lambda: self._has(until) or self.is_closed or self.failures > 0, seconds)

    def end(self) -> None:
        """End the delivery after the step under way, for which it does not wait."""
        self._alarm.end()

    def close(self, seconds: float = DRAIN_SECONDS) -> None:
        """End the delivery after the step under way, for which it waits so many seconds. The same call goes on from there."""
        self.end()
        if threading.current_thread() is not self._thread:
            self._thread.join(max(0.0, seconds))

    def __repr__(self) -> str:
        """Show the view, the sink, how far it is, and what failed."""
        state = f"at epoch {self.epoch}, {self._behind()[1]}"
        if self.error is not None:
            state += f", after {self.failures} failures: {first_line(self.error)}"
        return f"Delivery(view {self._view.name!r} to {self._sink.place}, {state}{', closed' if self.is_closed else ''})"

    def _behind(self) -> tuple[int | None, str]:
        """Return how many epochs the sink is behind, and the same in words: those why that is not known, if it is not."""
        try:
            last = self._of_view(lambda: self._view._last_epoch)
        except Exception as error:  # Whatever the store of a checkpoint raises.
            return None, f"how far behind is not known: {first_line(error)}"
        lag = last - (-1 if self.epoch is None else self.epoch)
        return lag, f"{lag} behind"

    @property
    def _where(self) -> str:
        return f"view {self._view.name!r} to {self._sink.place}"

    def _has(self, epoch: int) -> bool:
        return self.epoch is not None and self.epoch >= epoch

    @property
    def _is_ending(self) -> bool:
        return self._alarm.is_ending

    def _of_view(self, epoch: Callable[[], int]) -> int:
        """Return an epoch of the view; of one that was dropped, the last one written."""
        try:
            return epoch()
        except InputError:
            if not self._is_dropped:
                raise
            return -1 if self.epoch is None else self.epoch

    @property
    def _is_dropped(self) -> bool:
        try:
            _ = self._view.epoch
        except InputError:
            return True
        return False

    def _require_other_thread(self, what: str) -> None:
        if threading.current_thread() is self._thread:
            raise SinkError(
                f"{self._where}: {what} in the sink's own function would wait for itself; leave it out"
            )

    def work(self) -> None:
        """Write until there is nothing to write or the delivery ends, in its thread."""
        self._attempt()
        while self.error is not None and self._alarm.pause(self._retry.pause(self.failures)):
            self._attempt()

    def ended(self) -> None:
        """Note, at the end of its thread, that nothing more is written."""
        try:
            if self._on_end is not None:
                self._on_end()
        finally:
            with self._changed:
                self.is_closed = True
                self._changed.notify_all()

    def lose(self) -> None:
        """End in a child made by ``fork``, in which there is no thread: the parent goes on with the sink."""
        self._alarm.changed = self._changed = threading.Condition()
        self._alarm.is_ending = self.is_closed = True
        self.error = SinkError("the process was forked, and its parent writes the sink")
        if self._on_end is not None:
            self._on_end()

    def _attempt(self) -> None:
        try:
            while not self._caught_up():
                pass
        except BaseException as error:
            self._note(error)
            return
        if self.error is not None:
            LOG.info(
                "%s works again, at epoch %s",
                self._where,
                self.epoch,
                extra={"event": "sink", "view": self._view.name},
            )
        with self._changed:
            self.error, self.failures = None, 0
            self._changed.notify_all()

    def _note(self, error: BaseException) -> None:
        """Take down a failure: one that trying again does not mend ends the delivery."""
        is_final = isinstance(error, FINAL) or not (isinstance(error, Exception) or _is_panic(error))
        with self._changed:
            self.error, self.failures = error, self.failures + 1
            pause = self._retry.pause(self.failures)
            self._alarm.is_ending |= is_final
            self._changed.notify_all()
        then = "; the delivery has ended" if is_final else f"; tried again in {pause:g} s"
        LOG.warning(
            "%s failed at epoch %s: %s: %s%s", self._where, self.epoch, type(error).__name__, first_line(error), then,
            extra={"event": "sink", "view": self._view.name},
        )  # fmt: skip

    def _caught_up(self) -> bool:
        """Write every epoch, or return False if the view was replaced while it was read."""
        view = self._view
        try:
            self._catch_up()
        except InputError:
            if self._view is view:
                raise
            return False
        return True

    def _catch_up(self) -> None:
        """Write every epoch that the sink does not have, from where the sink itself is by its own record."""
        if self.epoch is None or self.error is not None:
            self._find_position()
        while not self._is_ending and not self._has(until := self._view.epoch):
            try:
                self._write_after(self._written)
            except EpochGoneError:
                self._begin()
            if not self._is_ending:
                self._reached(until)

    def _find_position(self) -> None:
        """Go on behind the sink's own position; if it has none, or none that this view has had, let it begin with the contents."""
        position = self._sink.position()
        if position is not None and self._view.first_epoch <= position <= self._view.epoch:
            self.epoch = None
            self._reached(position)
        else:
            self._begin()

    def _begin(self) -> None:
        epoch, contents = self._first_contents()
        self._sink.begin(contents, epoch)
        self._reached(epoch)

    def _first_contents(self) -> tuple[int, pl.DataFrame]:
        """Return the contents to begin with, and their epoch.

        A sink that does not remember how far it is may have had them from a process that was killed before its next commit. It gets
        those of the same epoch again, under the same number, as long as they are retained.
        """
        begun = None if self._beginning is None else self._beginning.last()
        if begun is not None and self._view.first_epoch <= begun <= self._view.epoch:
            with suppress(EpochGoneError):
                _ = next(iter(self._view.deltas(begun)), None)  # What comes after it has to be there as well.
                return begun, self._view.read(begun)
        snapshot = self._view.snapshot()
        if self._beginning is not None:
            self._beginning.note(snapshot.epoch)
        return snapshot.epoch, snapshot.frame

    def _write_after(self, since: int) -> None:
        """Write the deltas after an epoch, several epochs together up to the size of a step."""
        gathered: list[pl.DataFrame] = []
        rows = 0
        for delta in self._view.deltas(since):
            if gathered and rows + delta.height > self._sink.most_rows:
                self._write(pl.concat(gathered))
                gathered, rows = [], 0
                if self._is_ending:
                    return
            gathered.append(delta)
            rows += delta.height
        if gathered:
            self._write(pl.concat(gathered))

    def _write(self, delta: pl.DataFrame) -> None:
        self._sink.write(delta)
        last = delta[EPOCH].max()
        assert isinstance(last, int)
        self._reached(last)

    @property
    def _written(self) -> int:
        assert self.epoch is not None
        return self.epoch

    def _reached(self, epoch: int) -> None:
        reached = max(epoch, -1 if self.epoch is None else self.epoch)
        if self._on_written is not None:
            self._on_written(reached)
        with self._changed:
            self.epoch = reached
            self._changed.notify_all()


def _is_panic(error: BaseException) -> bool:
    """Return whether a library written in Rust has failed, as some do on a full disk: each has a class of this name, none an Exception."""
    return type(error).__name__ == "PanicException"


def _work(waiting: weakref.ref[Delivery], alarm: Alarm[Delivery], sink: Sink) -> None:
    """Write a sink in a thread of its own, until the delivery ends or was collected."""
    try:
        while (delivery := alarm.wait(waiting)) is not None:
            delivery.work()
            delivery = None
    finally:
        try:
            sink.close()
        except Exception as error:
            LOG.warning("%s: closing it failed: %s: %s", sink.place, type(error).__name__, first_line(error))
        delivery = waiting()
        if delivery is not None:
            delivery.ended()


_deliveries: weakref.WeakSet[Delivery] = weakref.WeakSet()


def _lose_all() -> None:
    """End, in a child made by ``fork``, the deliveries whose threads are in the parent."""
    for delivery in tuple(_deliveries):
        if not delivery.is_closed:
            delivery.lose()


drain_at_exit(_deliveries)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_lose_all)
