"""What an engine does is reported to ``logging.getLogger("evercurrent")``, and to functions that watch epochs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from evercurrent.core.data.clock import Now
from evercurrent.core.data.errors import InputError
from evercurrent.core.data.instants import shown
from evercurrent.core.data.schema import counted
from evercurrent.core.data.tags import tagged
from evercurrent.core.state.ledger import Ledger

from .records import EpochInput, EvaluatedEpoch
from .subscriptions import require_no_coroutine

LOG = logging.getLogger("evercurrent")
"""All events: ``event`` of a record names its kind, its other fields are attributes beside it.

debug: "epoch". info: "commit", "failed", an epoch that was refused as a whole, and "merge". warning: "late" and "refused", rows
that are in the ledger now, and "bad rows". error: "watcher" and "subscriber", a watcher or a subscriber with a queue that has raised.
"""
LOG.addHandler(
    logging.NullHandler()
)  # Without it Python writes warnings to the standard error of any program.


@tagged("views.run_events:EpochEvent")
@dataclass(frozen=True, slots=True)
class EpochEvent:
    """An epoch that is done: when it was begun by the clock of the machine, how long it took, and the rows in and out.

    ``rows`` are those pushed by source, ``changes`` the rows of the delta by view, ``refused`` the rows new in the ledger.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> engine = ec.Engine()
    >>> words = engine.source("words", {"word": pl.String})
    >>> counts = engine.view("counts", words.group_by("word").len())
    >>> watch = engine.watch(lambda event: print(event.epoch, event.rows, event.changes, event.refused))
    >>> _ = words.push({"word": ["a", "b", "a"]})
    1 {'words': 3} {'counts': 2} 0
    """

    epoch: int
    processing_time: datetime
    begun: float
    seconds: float
    rows: Mapping[str, int]
    changes: Mapping[str, int]
    refused: int


Watcher = Callable[[EpochEvent], None]


class Watch:
    """A function that is called with the event of every epoch of an engine, until the watch is closed.

    >>> import evercurrent as ec
    >>> engine = ec.Engine()
    >>> with engine.watch(lambda event: print(event.epoch)) as watch:
    ...     _ = engine.tick()
    1
    >>> _ = engine.tick()
    >>> watch
    Watch(closed)
    """

    def __init__(self, events: RunEvents, watcher: Watcher) -> None:
        self.watcher = watcher
        self._events = events

    @property
    def is_open(self) -> bool:
        """Whether the function is still called."""
        return self in self._events.watches

    def close(self) -> None:
        """End the calls; one under way in another thread runs to its end. Closing twice is no error."""
        self._events.remove(self)

    def __enter__(self) -> Watch:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        """Show the function, or that it is closed."""
        return f"Watch({self.watcher!r})" if self.is_open else "Watch(closed)"


@dataclass(frozen=True, slots=True)
class Begun:
    """The beginning of an epoch by the clock of the machine, and the rows that the ledger had refused by then."""

    at: float
    refused: int


WATCH_IN_TASK = "a function that puts the event into a queue, from which a task takes it"
"""What to write instead of a coroutine that is given as a watcher."""


class RunEvents:
    """Reports the epochs of an engine. Without watchers and with logging off, an epoch costs two readings of a clock."""

    def __init__(self) -> None:
        self.watches: tuple[Watch, ...] = ()
        self._changing = threading.Lock()
        self.is_reporting: bool = False

    def add(self, watcher: Watcher) -> Watch:
        """Return the watch of one more function, which is called from the next epoch on."""
        watch = Watch(self, watcher)
        with self._changing:
            self.watches = (*self.watches, watch)
        return watch

    def remove(self, watch: Watch) -> None:
        """No longer call the function of a watch."""
        with self._changing:
            self.watches = tuple(other for other in self.watches if other is not watch)

    def require_none_reported(self, what: str) -> None:
        """Check that it is not a watcher that does something which makes an epoch.

        Raises:
            InputError: it is one, and the epoch would be delivered before the one that it is called for.
        """
        if self.is_reporting:
            raise InputError(f"a watcher of epochs cannot {what}")

    def end(
        self, begun: Begun, now: Now, epoch_input: EpochInput, evaluated: EvaluatedEpoch, ledger: Ledger
    ) -> None:
        """Report an epoch that is done."""
        refused = ledger.entries + ledger.forgotten - begun.refused
        if refused and LOG.isEnabledFor(logging.WARNING):
            warn_of_refused(ledger, now.epoch)
        is_logged = LOG.isEnabledFor(logging.DEBUG)
        if not (is_logged or self.watches):
            return
        seconds = time.perf_counter() - begun.at
        event = EpochEvent(
            now.epoch,
            now.processing_time,
            time.time() - seconds,
            seconds,
            {name: sum(map(len, deltas)) for name, deltas in epoch_input.deltas.items()},
            {name: frame.height for name, frame in evaluated.deltas.items()},
            refused,
        )
        if is_logged:
            LOG.debug(
                "epoch %d: %d rows in, %d rows out, %.6f s",
                event.epoch, sum(event.rows.values()), sum(event.changes.values()), seconds,
                extra={
                    "event": "epoch", "epoch": event.epoch, "seconds": seconds, "rows": event.rows, "changes": event.changes,
                    "refused": refused, "watermarks": {name: shown(at) for name, at in evaluated.watermarks.items()},
                },
            )  # fmt: skip
        self._report(event)

    def _report(self, event: EpochEvent) -> None:
        """Call the watchers. One that raises changes nothing: the epoch is real, and its subscribers are called next."""
        self.is_reporting = True
        try:
            for watch in self.watches:
                if not watch.is_open:  # By one that was called before.
                    continue
                try:
                    # The return value is checked although the function should have none: it may be a coroutine.
                    result: object = watch.watcher(event)
                    require_no_coroutine(watch.watcher, result, WATCH_IN_TASK)
                except Exception:
                    LOG.exception(
                        "epoch %d is done, and a watcher raised",
                        event.epoch,
                        extra={"event": "watcher", "epoch": event.epoch},
                    )
        finally:
            self.is_reporting = False

    def failed(self, now: Now, error: BaseException) -> None:
        """Report an epoch that was refused as a whole; the error is raised to whoever pushed."""
        if LOG.isEnabledFor(logging.INFO):
            LOG.info(
                "epoch %d was not run: %s", now.epoch, error,
                extra={"event": "failed", "epoch": int(now.epoch), "error": type(error).__name__},
            )  # fmt: skip


def warn_of_refused(ledger: Ledger, epoch: int) -> None:
    """Report the rows that an epoch has refused, an event for each reason."""
    place = len(ledger.refused)
    while place and ledger.refused[place - 1].epoch == epoch:
        place -= 1
    for refused in ledger.refused.present.past(place):
        kind = "refused" if refused.watermark is None else "late"
        LOG.warning(
            "epoch %d: %s of source %r %s in the ledger: %s",
            epoch, counted(refused.frame.height), refused.source, "is" if refused.frame.height == 1 else "are", refused.reason,
            extra={
                "event": kind, "epoch": int(epoch), "source": refused.source, "rows": refused.frame.height,
                "reason": refused.reason,
            },
        )  # fmt: skip


def committed(epoch: int, epochs: int, url: str) -> None:
    """Report a commit, with the number of epochs that it has made durable as states."""
    if LOG.isEnabledFor(logging.INFO):
        LOG.info(
            "epoch %d is committed to %s, with %d epochs since the last commit", epoch, url, epochs,
            extra={"event": "commit", "epoch": epoch, "epochs": epochs, "checkpoint": url},
        )  # fmt: skip
