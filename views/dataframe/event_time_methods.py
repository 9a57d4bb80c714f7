"""The methods of a collection that concern event time: windows, triggers, panes, lateness, and the dates of rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from datetime import timedelta
from typing import Any, Generic, Literal, TypeVar

import polars as pl

from evercurrent.core.data.durations import microseconds
from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import require_columns
from evercurrent.core.eventtime.panes.panes import Always
from evercurrent.core.eventtime.triggers.kinds import Trigger
from evercurrent.core.eventtime.windows.kinds import Global, Window, windowed_schema

from ..plan.nodes import (
    BOUNDS,
    Assign,
    EventTime,
    InOrder,
    LastPanes,
    LateRows,
    PlanId,
    PlanNode,
    Stamp,
    Windowing,
    WithEventTime,
)
from ..plan.plan import Plan
from ..plan.windowed import time_of_panes
from .collection_base import CollectionBase
from .triggers import with_late_part
from .windowing import refined, require_bounds, require_time, triggered, windowing
from .windows import described

PANE_TIME = "pane_time"
"""The column of the event time of panes that are put into windows again."""

C = TypeVar("C", bound="EventTimeCalls[Any]")


class EventTimeCalls(CollectionBase, Generic[C]):
    """The methods of a collection that concern event time. ``C`` is the collection that each of them returns."""

    _plan: Plan
    _place: PlanId

    @abstractmethod
    def with_columns(self, *exprs: Any, **named_exprs: Any) -> C:
        """Return all columns, and these computed row by row."""

    @abstractmethod
    def _with(self, place: PlanId, windowing: Windowing | None) -> C:
        """Return the collection at this place of the plan, with this windowing."""

    def window(self, window: Window | None = None, *, timestamp: Stamp = "end") -> C:
        """Assign rows to windows (where in event time): each row gets ``window_start`` and ``window_end``.

        Each row of a session first has a window of its own; ``group_by`` merges them. From here on ``group_by`` groups
        by the windows too, and other methods keep the bounds.
        Windows count in whole microseconds: what is finer in a column of nanoseconds is cut off before, so that two rows are in
        one session if their microseconds are less than the gap apart.

        Args:
            window: ``fixed``, ``sliding``, ``sessions``, ``calendar``, ``global_window``, ``count_window``,
                ``last_rows`` or ``custom_windows``; None: the windows of the panes upstream, by their bounds.
            timestamp: the event time of a pane: "end" (the end of the window less a microsecond), "start", the
                "earliest" or "latest" event time of its rows, or the "watermark" when it is emitted. A pane that is
                dated before its end may be late for windows downstream, if its first row came when the watermark had
                passed that date.

        Raises:
            PlanError: there is no event time, event time and ingress time are mixed, or rows that are in no windows yet have a
                column ``window_start`` or ``window_end``.
        """
        where = self._where("window")
        declared = windowing(where, self._plan, self._place, window, timestamp)
        if declared.window.is_global:
            return self._with(self._place, declared)
        of = self if declared.window.is_given else self._with_lasting_event_time()
        assert of._event_time is not None or not declared.window.needs_event_time
        event_time = of._event_time or EventTime("window_start")
        schema = windowed_schema(of.schema, declared.window, event_time.column)
        label = f"window: {described(declared.window)}"
        node = PlanNode(Assign(declared.window, event_time), (of._place,), schema, label, of._event_time)
        return self._with(self._plan.add(node), declared)

    def trigger(
        self,
        trigger: Trigger | None = None,
        *,
        early: Trigger | None = None,
        late: Trigger | None = None,
        always: Always = False,
    ) -> C:
        """Set when in processing time panes are emitted: whenever the trigger fires. Without a trigger: at every epoch.

        Args:
            trigger: such as ``every("1m")``, ``repeat(after_count(100))``, ``after_watermark(...)``.
            early: the trigger until the watermark passes the end of the window, which emits the on-time pane.
            late: the trigger after that. Both begin again whenever they finish.
            always: emit a pane also if nothing has changed since the last one; "on_time": only when the watermark passes the
                end of the window, so that readers see that it has. A retracting pane that has not changed cancels with the
                retraction of the one before, and is not seen, unless ``.with_pane_info()`` makes them different.

        Raises:
            PlanError: no trigger is given, or columns that it needs are missing.
        """
        where = self._where("trigger")
        declared = triggered(where, self._windows, self.schema, trigger, early, late, always)
        return self._with(self._place, declared)

    def accumulate(
        self,
        mode: Literal["discarding", "accumulating", "retracting"],
        *,
        allow_regrouping: bool = False,
    ) -> C:
        """Set how the panes of a window relate: what a pane holds, and whether it retracts the one before.

        Args:
            mode: "discarding": a pane holds what came since the last one. "accumulating": a pane holds all rows of
                the window, beside the panes emitted before. "retracting", the default: a pane holds all rows of the
                window, and the last pane is retracted. Discarding and accumulating panes are never retracted, so a
                view of them holds a row for every pane of a window; ``latest()`` is the last one of each.
            allow_regrouping: allow accumulating panes to be grouped again, although rows then count more than once.

        Raises:
            PlanError: the mode is unknown.
        """
        declared = refined(self._where("accumulate"), self._windows, mode, allow_regrouping)
        return self._with(self._place, declared)

    def lateness(self, allowed: str | timedelta | None) -> C:
        """Set how long a window stays open after the watermark has passed its end; None, the default: for ever.

        It closes exactly when the watermark reaches end + allowed: a pending pane is emitted, the state is purged, and
        rows that come later are refused into the ledger. A row in several windows is late when all of them are closed;
        until then it is in those that are open, and the ledger holds it with those that it missed. A row of a session, and
        of ``custom_windows`` with a merge, is late by its own window, whatever it would be merged into. ``count_window``
        and ``last_rows`` cannot close.
        """
        length = (
            None if allowed is None else microseconds(f"{self._where('lateness')}: the lateness", allowed)
        )
        return self._with(self._place, replace(self._windows, lateness=length))

    def with_pane_info(self) -> C:
        """Add columns that describe each pane.

        ``pane_index``: how many panes of the key and window came before; ``nonspeculative_index``: how many of these were not
        early, and -1 for an early one; ``timing``: "EARLY", "ON_TIME" or "LATE"; ``is_first``; ``is_last``: whether the window closes
        with it; ``pane_processing_time`` and ``pane_watermark``: those of its epoch, the latter null while it is unknown.
        """
        return self._with(self._place, replace(self._windows, info=True))

    def latest(self) -> C:
        """Return the last pane of each key and window, where panes are accumulating or discarding.

        The result is a collection like any other: declare a view of it to read it. A row is retracted when a later pane
        replaces it, so what is built on the result is exact. For accumulating panes it is what the view would hold with
        ``accumulate("retracting")``; for discarding panes it is the last part of each window; panes that are retracted,
        and those without a trigger, are returned as they are. When sessions merge, their panes are retracted with the
        first pane of the merged session. The last pane of a window stays after the window has closed.

        State kept beside that of the panes: the last pane of each window that is still open.

        Raises:
            PlanError: there are no panes here; call it directly after ``group_by(...).agg(...)`` of windows.

        >>> import evercurrent as ec; from datetime import datetime
        >>> engine = ec.Engine()
        >>> hits = engine.source("hits", {"k": pl.String, "at": pl.Datetime("us")}, event_time="at")
        >>> hourly = hits.window(ec.fixed("1h")).accumulate("accumulating").group_by("k").agg(n=pl.len())
        >>> panes = engine.view("panes", hourly)
        >>> now = engine.view("now", panes.latest())
        >>> for minute in (1, 2):
        ...     _ = engine.push("hits", {"k": ["a"], "at": [datetime(2026, 1, 1, 12, minute)]})
        >>> sorted(panes.read()["n"]), now.read()["n"].to_list()
        ([1, 2], [2])
        """
        where, node = self._where("latest"), self._plan[self._place]
        if self._place not in self._plan.windowed:
            raise PlanError(
                f"{where}: there are no panes here; call it directly after .window(...) ... .group_by(...).agg(...), and put "
                ".filter(...) and the like after it"
            )
        if self._plan.windowed[self._place].windowing.mode == "retracting":
            return self._with(self._place, None)
        operation, label = LastPanes(), "last pane of each window"
        place = self._plan.add(PlanNode(operation, (self._place,), node.schema, label, node.event_time))
        return self._with(place, None)

    def late_rows(self, *, each_window: bool = False) -> C:
        """Return the rows that come too late for these windows and this lateness, so that they are in no window at all.

        A row of several windows is returned once, with the last of them, when all are closed. A retraction that comes too late is
        returned as a retraction, also of a row that was in time.

        Args:
            each_window: return a row once for each window that it misses, also if it is in others. Together with the
                rows in time, these are all pairs of a row and a window.

        Raises:
            PlanError: there is no lateness, so that no row is ever too late; or windows are shifted by key.
        """
        where, declared = self._where("late_rows"), self._windows
        if declared.lateness is None or declared.window.is_global:
            raise PlanError(f"{where}: no row is ever too late; give .window(...) and .lateness(...) first")
        if declared.window.shifted_by_key:
            # Until rows are grouped, the key is unknown, and their bounds are those of windows that are not shifted.
            raise PlanError(
                f"{where}: windows that are shifted by key depend on the keys of group_by, so that it is not known before "
                "which rows come too late; engine.ledger() has those that a view of the groups refused"
            )
        require_bounds(where, self.schema)
        declared = replace(declared, trigger=with_late_part(declared.trigger, declared.lateness))
        operation = LateRows(declared, self._event_time or EventTime("window_end", -1), bool(each_window))
        label = "late rows" + (" of each window" if each_window else "")
        place = self._plan.add(PlanNode(operation, (self._place,), self.schema, label, self._event_time))
        return self._with(place, None)

    def with_event_time(self, column: str | pl.Expr, *, strict: bool = False) -> C:
        """Return the same rows with another event time: a column, or an expression that is added as a column.

        The watermark stays as it is: rows that are moved behind it are late, or with ``strict`` an error.

        Raises:
            PlanError: the column is not a date or datetime.
        """
        where, place = self._where("with_event_time"), self._place
        if isinstance(column, str):
            name = column
        elif not isinstance(column, pl.Expr):
            raise PlanError(f"{where}: column={column!r}; give the name of a column, or an expression")
        else:
            name, place = column.meta.output_name(), self.with_columns(column)._place
        schema, event_time = self._plan[place].schema, EventTime(name)
        require_columns(where, schema, [name])
        require_time(where, name, schema[name])
        node = PlanNode(WithEventTime(strict, event_time), (place,), schema, f"event time {name}", event_time)
        return self._with(self._plan.add(node), None)

    def order_by_time(self) -> C:
        """Return the rows in order of event time, each held back until the watermark has passed it.

        Those that one epoch releases are in the order of event time and then of all columns; those of a later epoch come after them.
        A row that is added behind the watermark can no longer be put in order: it is refused into the ledger, and so is its
        retraction. The retraction of a row that was released is emitted as it comes. So a correction behind the
        watermark, as by an upsert source, takes the old row away and does not bring the new one.

        Raises:
            PlanError: there is no event time.
        """
        if self._event_time is None or self._event_time.shift:
            raise PlanError(f"{self._where('order_by_time')}: there is no column of event time to order by")
        operation, label = InOrder(self._event_time), "order by event time"
        place = self._plan.add(PlanNode(operation, (self._place,), self.schema, label, self._event_time))
        return self._with(place, self._windowing)

    @property
    def _windows(self) -> Windowing:
        """Return the windowing so far; without one, that of the global window."""
        return self._windowing or Windowing(Global())

    def _with_lasting_event_time(self) -> EventTimeCalls[C]:
        """Return the collection with its event time in a column that stays when the bounds of windows are replaced."""
        event_time = self._event_time
        if event_time is None or event_time.column not in BOUNDS:
            return self
        if PANE_TIME in self.schema:
            raise PlanError(
                f"{self._where('window')}: {PANE_TIME!r} is reserved for the time of panes; rename the column"
            )
        return self.with_event_time(time_of_panes(event_time).alias(PANE_TIME))
