"""The calls of a collection that have to do with event time: where, when, how, and what dates the rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from datetime import timedelta
from typing import Any, Generic, Literal, TypeVar

import polars as pl

from evercurrent.core.data.durations import microseconds
from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import require_columns
from evercurrent.core.eventtime.triggers.kinds import Trigger
from evercurrent.core.eventtime.windows.kinds import Custom, Given, Global, Window, windowed_schema

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
    WindowedGroup,
    Windowing,
    WithEventTime,
)
from ..plan.plan import Plan
from .collection_base import CollectionBase
from .windowing import refined, require_bounds, require_time, triggered, windowing
from .windows import described

PANE_TIME = "pane_time"
"""Column of the event time of panes that are windowed anew."""

C = TypeVar("C", bound="EventTimeCalls[Any]")


class EventTimeCalls(CollectionBase, Generic[C]):
    """What a collection can be asked about event time. ``C`` is the collection that each call gives."""

    _plan: Plan
    _place: PlanId

    @abstractmethod
    def with_columns(self, *exprs: Any, **named_exprs: Any) -> C:
        """All columns, and these computed row by row."""

    @abstractmethod
    def _with(self, place: PlanId, windowing: Windowing | None) -> C:
        """The collection at this place, with what is answered of the four questions."""

    def window(self, window: Window | None = None, *, timestamp: Stamp = "end") -> C:
        """Where in event time: each row with the windows it falls into, ``window_start`` and ``window_end``.

        Rows of sessions have windows of their own at first; ``group_by`` merges them. From here on ``group_by``
        groups by the windows too, and other methods leave them in place.

        Args:
            window: ``fixed``, ``sliding``, ``sessions``, ``calendar``, ``global_window``, ``count_window``,
                ``last_rows`` or ``custom_windows``; None: those of the panes upstream, by their bounds.
            timestamp: the event time of a pane: "end" of the window less a microsecond, "start", the "earliest"
                or "latest" of its rows, or the "watermark" when it is spoken. A pane that is dated before its end may
                be late for windows downstream, if its first row came when the watermark had passed that date.

        Raises:
            PlanError: no event time, or event time and ingress time mixed.
        """
        where = self._where("window")
        known = windowing(where, self._plan, self._place, window, timestamp)
        if isinstance(known.window, Global):
            return self._with(self._place, known)
        of = self if isinstance(known.window, Given) else self._with_lasting_event_time()
        assert of._event_time is not None or isinstance(known.window, Custom | Given)
        event_time = of._event_time or EventTime("window_start")
        schema = windowed_schema(of.schema, known.window, event_time.column)
        label = f"window: {described(known.window)}"
        node = PlanNode(Assign(known.window, event_time), (of._place,), schema, label, of._event_time)
        return self._with(self._plan.add(node), known)

    def trigger(
        self,
        trigger: Trigger | None = None,
        *,
        early: Trigger | None = None,
        late: Trigger | None = None,
        always: bool = False,
    ) -> C:
        """When in processing time: a window speaks when its trigger says so. Without: at every epoch.

        Args:
            trigger: such as ``every("1m")``, ``repeat(after_count(100))``, ``after_watermark(...)``.
            early: before the watermark passes the end of the window; it then speaks on time.
            late: after that. Both begin again whenever they finish.
            always: speak also where nothing has changed since the last time.

        Raises:
            PlanError: no trigger, or columns that it needs are missing.
        """
        where = self._where("trigger")
        known = triggered(where, self._windows, self.schema, trigger, early, late, always)
        return self._with(self._place, known)

    def accumulate(
        self,
        mode: Literal["discarding", "accumulating", "retracting"],
        *,
        allow_regrouping: bool = False,
    ) -> C:
        """How the panes of a window relate: what one says when others were said before.

        Args:
            mode: "discarding": what came since the last pane. "accumulating": all there is, beside what was
                said before. "retracting", as without this call: all there is, and the last pane is taken back.
                Nothing takes back discarding and accumulating panes, so what a view of them holds is all of them,
                a row for every pane of a window: ``latest()`` is the last one of each.
            allow_regrouping: accumulating panes may be grouped again, though they then count twice.

        Raises:
            PlanError: an unknown mode.
        """
        known = refined(self._where("accumulate"), self._windows, mode, allow_regrouping)
        return self._with(self._place, known)

    def lateness(self, allowed: str | timedelta | None) -> C:
        """How long a window stays open when the watermark has passed its end; None, as without this call: for ever.

        It closes exactly when the watermark reaches end + allowed: what is pending is spoken, its state goes, and
        rows that come later are refused into the ledger. A row in several windows is late when all of them are
        closed; until then it is in those that are open, and the ledger has it with those that it missed.
        """
        length = (
            None if allowed is None else microseconds(f"{self._where('lateness')}: the lateness", allowed)
        )
        return self._with(self._place, replace(self._windows, lateness=length))

    def with_pane_info(self) -> C:
        """Panes say of themselves which they are: ``pane_index``, ``timing``, ``is_first``, ``is_last`` and others."""
        return self._with(self._place, replace(self._windows, info=True))

    def latest(self) -> C:
        """The last pane of each key and window, of panes that stand beside those before them.

        A collection as any other: its rows are read by making it a view, and taken back when a later pane replaces
        them, so what is built on it is exact. Of accumulating panes it is what the view would hold with
        ``accumulate("retracting")``; retracting panes, and those of no trigger, are their own last ones. Of
        discarding panes it is the last part of each window. The panes of sessions that merged go with the first pane of
        the one that they became, and the last pane of a window stays when the window is closed.

        Kept beside the panes: the last one of each window that is still open.

        Raises:
            PlanError: these are no panes: call it right behind ``group_by(...).agg(...)`` of windows.

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
        if not isinstance(node.operation, WindowedGroup):
            raise PlanError(
                f"{where}: there are no panes here; call it right behind .window(...) ... .group_by(...).agg(...), and put "
                ".filter(...) and the like behind it"
            )
        if node.operation.windowing.mode == "retracting":
            return self._with(self._place, None)
        operation, label = LastPanes(), "last pane of each window"
        place = self._plan.add(PlanNode(operation, (self._place,), node.schema, label, node.event_time))
        return self._with(place, None)

    def late_rows(self, *, each_window: bool = False) -> C:
        """The rows that come too late for these windows and this lateness: those that are in no window at all.

        A row in several windows is here once, in the last of them, when all are closed.

        Args:
            each_window: a row once for each window that it misses, also if it is in others: with those in time,
                every pair of a row and a window.

        Raises:
            PlanError: no lateness, so that nothing is ever too late.
        """
        where, known = self._where("late_rows"), self._windows
        if known.lateness is None or isinstance(known.window, Global):
            raise PlanError(f"{where}: no row is ever too late; give .window(...) and .lateness(...) first")
        require_bounds(where, self.schema)
        operation = LateRows(known, self._event_time or EventTime("window_end", -1), bool(each_window))
        label = "late rows" + (" of each window" if each_window else "")
        place = self._plan.add(PlanNode(operation, (self._place,), self.schema, label, self._event_time))
        return self._with(place, None)

    def with_event_time(self, column: str | pl.Expr, *, strict: bool = False) -> C:
        """The same rows with another event time: a column, or one computed under the name that it then has.

        The watermark stays: rows that are moved behind it are late, and with ``strict`` an error.

        Raises:
            PlanError: the column is no time.
        """
        where, place = self._where("with_event_time"), self._place
        if isinstance(column, str):
            name = column
        else:
            name, place = column.meta.output_name(), self.with_columns(column)._place
        schema, event_time = self._plan[place].schema, EventTime(name)
        require_columns(where, schema, [name])
        require_time(where, name, schema[name])
        node = PlanNode(WithEventTime(strict, event_time), (place,), schema, f"event time {name}", event_time)
        return self._with(self._plan.add(node), None)

    def order_by_time(self) -> C:
        """The rows in order of event time, each held until the watermark has passed it.

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
        """What is answered of the four questions; without a window, it is the one of all time."""
        return self._windowing or Windowing(Global())

    def _with_lasting_event_time(self) -> EventTimeCalls[C]:
        """With event time in a column that stays when the bounds of windows are replaced."""
        event_time = self._event_time
        if event_time is None or event_time.column not in BOUNDS:
            return self
        if PANE_TIME in self.schema:
            raise PlanError(
                f"{self._where('window')}: {PANE_TIME!r} is to hold the time of panes; rename the column"
            )
        column = pl.col(event_time.column) + pl.duration(microseconds=event_time.shift)
        return self.with_event_time(column.alias(PANE_TIME))
