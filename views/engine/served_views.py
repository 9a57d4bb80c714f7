"""The side of an engine that its views, drivers and drawings use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from functools import cached_property
from uuid import uuid4

import polars as pl

from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.errors import InputError
from evercurrent.core.state.ledger import Refused

from ..checkpoint.origin import BEGINNINGS, SinkOffset, writers_of
from ..compiler.builder import Compiled
from ..concurrency.turns import Turn
from ..connectors.positions import Position
from ..dataframe.source import Source
from ..epochs.records import EpochInput, FireRequest
from ..epochs.run_log import RunLog
from ..epochs.subscriptions import Readers
from ..inspection.open_windows import bounds_of, key_values
from ..inspection.questions import WindowQueries
from ..inspection.why import NO_WINDOW
from ..plan.nodes import BOUNDS
from ..plan.plan import Plan
from ..plan.windowed import grouping_of, panes_of
from ..sinks.delivery import Delivery
from ..sinks.origin import Origin
from .epoch_runner import Running
from .fill_reports import FillReports
from .published import Published
from .view import View
from .view_driver import ViewDriver, rows_elsewhere
from .view_sinks import DeliverySubscription


class ServedViews(ABC):
    """The members of an engine that its views use; see the methods of ``View``."""

    _plan: Plan
    _running: Running
    _turn: Turn
    sources: dict[str, Source]
    views: dict[str, View]

    @property
    def epoch_number(self) -> int:
        """The number of the last epoch; 0 before the first."""
        return self._shown()[0]

    @property
    def is_durable(self) -> bool:
        """Whether there is a checkpoint."""
        return self._running.durability is not None

    @property
    def durable_epoch(self) -> int:
        """The last epoch that no crash takes back; without a checkpoint, the last one."""
        now, durability = self.published(), self._running.durability
        return now.epoch if durability is None else durability.durable_epoch(now.epoch, now.waiting)

    def require_not_closed(self) -> None:
        """Check that epochs may still come, as they do without a checkpoint after ``close`` too.

        Raises:
            CheckpointError: the checkpoint was closed.
        """
        if self._running.durability is not None:
            self._running.durability.require_not_closed()

    @abstractmethod
    def make_durable(self) -> int:
        """Commit the epochs that a crash would take back, wake the sinks, and return the last one.

        Raises:
            InputError: an epoch is open, whose rows would not be among them.
            CheckpointError: it could not be written; it can be tried again.
        """

    def _commit_waiting(self) -> int:
        """Commit the epochs that a crash would take back, wake the sinks, and return the last one.

        Raises:
            CheckpointError: it could not be written; it can be tried again.
        """
        if self.durable_epoch < self.epoch_number:
            self._flush()
        return self.epoch_number

    def _flush(self) -> None:
        with self._turn:
            self._running.flush()

    def _deliveries(self) -> tuple[Delivery, ...]:
        """Return the open deliveries of all views."""
        return tuple(
            each.delivery
            for view in tuple(self.views.values())  # As another thread may declare one.
            for each in view.subscriptions
            if isinstance(each, DeliverySubscription) and each.delivery is not None
        )

    def origin(self, view: str) -> Origin:
        """Return the token that distinguishes the epochs of a view from those of other engines and checkpoints."""
        self.published()  # This opens the checkpoint.
        durability = self._running.durability
        if durability is None:
            return Origin.of(self._token, view)
        writers = writers_of(durability.store)
        return Origin(view, lambda: writers)

    def beginning(self, view: str, name: str) -> SinkOffset | None:
        """Return where the epoch is noted with which the sink of a name begins; None if nothing outlives this process."""
        durability = self._running.durability
        return None if durability is None else SinkOffset(durability.store, f"{view}/{name}", BEGINNINGS)

    @cached_property
    def _token(self) -> str:
        return uuid4().hex

    def _shown(self) -> tuple[int, Mapping[str, Position]]:
        """Return the last epoch and the positions, of the checkpoint if there is one and its views are declared."""
        if self._running.durability is not None and self.views:
            self.published()
        return self._running.shown()

    def fire(self, view: str, key: object, window: object, at: datetime | str | None) -> int:
        """Run an epoch without rows in which windows of a view are fired; see ``View.fire``."""
        with self._running.giving_way, self._turn:
            tracker, windows = WindowQueries(self._plan, self._running.current(), view).windows(key, window)
            tracker.signal(windows.keys)
            try:
                return self._running.run(EpochInput(fires=(FireRequest(view, key, window),)), at)
            finally:
                tracker.forget_signals()

    def why(self, view: str, key: object, window: object) -> list[str]:
        """Explain why windows of a view emit no panes, or why a row is there or not; see ``View.why``."""
        row = None if key is None else self._row(view, key, window)
        is_of_window = row is None or (
            set(row) <= {*self._window_keys(view), *BOUNDS} and (BOUNDS[0] in row or BOUNDS[1] not in row)
        )
        if row is not None and is_of_window:  # The bounds may be among the columns of the key.
            key = {name: value for name, value in row.items() if name not in BOUNDS} or None
            window = tuple(row[name] for name in BOUNDS if name in row) or None

        def lines(compiled: Compiled) -> list[str]:
            return WindowQueries(self._plan, compiled, view).why(key, window, self._last_instant() or 0)

        is_waiting = self._running.steadily(lambda compiled: self._waits(compiled, view))
        window_lines = self._running.steadily(lines) if row is None or (is_waiting and is_of_window) else []
        if row is None:
            return window_lines
        is_open = bool(window_lines) and not window_lines[0].startswith(NO_WINDOW)
        return [*window_lines, *self.why_row(view, row, if_present=is_open)]

    @abstractmethod
    def why_row(self, view: str, row: Mapping[str, object], *, if_present: bool = False) -> list[str]:
        """Explain line by line why a row of a view is there or not; with ``if_present`` nothing where it is not."""

    def _waits(self, compiled: Compiled, view: str) -> bool:
        """Return whether windows of a view wait for a trigger."""
        return grouping_of(self._plan, self._plan.place_of(view)) in compiled.trackers

    def _window_keys(self, view: str) -> tuple[str, ...]:
        place = grouping_of(self._plan, self._plan.place_of(view))
        return () if place is None else self._plan.windowed[place].keys

    def _row(self, view: str, key: object, window: object) -> Mapping[str, object]:
        """Return the values by column that a key means, and the bounds of a window.

        Raises:
            InputError: they do not go with the columns of the view.
        """
        where, schema = f"view {view!r}", self._plan[self._plan.place_of(view)].schema
        if isinstance(key, dict) and not set(key) <= set(schema):
            key_values(where, schema.names(), key)
        panes = panes_of(self._plan, self._plan.place_of(view))
        names = (
            self._plan.keys_of(self._plan.place_of(view))
            if panes is None
            else self._plan.windowed[panes].keys
        )
        row = key if isinstance(key, dict) else key_values(where, list(names) or schema.names(), key)
        return {**row, **dict(zip(BOUNDS, bounds_of(where, window), strict=False))}

    def _last_instant(self) -> int | None:
        """The processing time of the last epoch."""
        last = self._running.log.now().last
        return None if last is None else Now(Epoch(last[0]), last[1]).instant

    def watermark_of(self, view: str) -> datetime | int | None:
        """Return how far the event time of a view's rows is complete; see ``View.watermark``."""
        now = self.published()
        return WindowQueries(self._plan, now.compiled, view).watermark(now.watermarks)

    def published(self) -> Published:
        """Return the object that was published after the last epoch, which later epochs do not change."""
        return self._running.published()

    def reading(self, view: str) -> AbstractContextManager[Published]:
        """Yield what is published, for a reader of this view inside of the block.

        Raises:
            InputError: a driver runs the views, and has their rows.
        """
        self._require_rows(view)
        return self._running.reading(view)

    def ready(self) -> None:
        """Compile the plan or open the checkpoint, so that views hold what they held last, or hold before any input."""
        self.published()

    def refused(self) -> Iterable[Refused]:
        """The entries of the ledger."""
        return self.published().refused

    @property
    def turn(self) -> Turn:
        """The lock that a writer holds while all others wait."""
        return self._turn

    def driven_by(self, driver: ViewDriver) -> None:
        """Let a driver take part in later declarations, for as long as it runs."""
        with self._turn:
            drivers = self._running.drivers
            drivers[:] = [*(each for each in drivers if each.is_running), driver]

    @property
    def fill_reports(self) -> FillReports:
        """The progress of views that are filled while others wait: at the opening of a checkpoint, or in a driver."""
        return self._running.reports

    @property
    def readers(self) -> Readers:
        """The subscriptions, and the last epochs delivered to those with a name."""
        return self._running.readers

    @property
    def run_log(self) -> RunLog:
        """The times of the last epochs, the watermarks after them, and the recorded rows."""
        return self.published().log

    def contents(self, view: str, epoch: int | None = None) -> pl.DataFrame:
        """Return all rows of a view now, or after an epoch; see ``View.read``."""
        self._require_rows(view)
        return self._running.contents(view, epoch)

    def elsewhere(self, view: str) -> str:
        """Return where the rows of a view are, if a driver has them; else nothing."""
        return rows_elsewhere(view, self._running.drivers)

    def _require_rows(self, view: str) -> None:
        if elsewhere := self.elsewhere(view):
            raise InputError(elsewhere)
