"""The compilation of windowed groupings to operators: late rows, sessions, triggers, aggregates, panes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import polars as pl

from evercurrent.core.circuit.circuit import NodeId
from evercurrent.core.circuit.placement import Placement
from evercurrent.core.data.clock import Clock, Earliest, Latest, mark_read
from evercurrent.core.eventtime.panes.latest import LatestPanes
from evercurrent.core.eventtime.panes.panes import PANE_INFO, Panes, PaneSpec
from evercurrent.core.eventtime.panes.unemitted import PendingRows
from evercurrent.core.eventtime.sessions.sessions import SessionEnds, Sessions
from evercurrent.core.eventtime.watermarks.percentile import Percentile
from evercurrent.core.eventtime.watermarks.reorder import ReleaseInOrder
from evercurrent.core.eventtime.watermarks.source_clock import Arrive, SourceClock
from evercurrent.core.eventtime.windows.assign_windows import AssignWindows
from evercurrent.core.eventtime.windows.kinds import last_end_of
from evercurrent.core.eventtime.windows.lateness import (
    DropLate,
    HoldAt,
    KeepLateRows,
    Lateness,
    RequireInTime,
)
from evercurrent.core.eventtime.windows.merging import MergeWindows
from evercurrent.core.eventtime.windows.row_windows import WindowByKey, layout_of, rewindow
from evercurrent.core.eventtime.windows.window_tracker import Tracking, TrackWindows
from evercurrent.core.operators.group.aggregates import Column, SuppliedValue
from evercurrent.core.operators.group.group_by import GroupBy, GroupSpec
from evercurrent.core.state.negative_counts import NeverBelowZero
from evercurrent.core.state.protocol import State

from ..expressions.elementwise import elementwise_columns
from ..plan.nodes import (
    BOUNDS,
    Assign,
    EventTime,
    InOrder,
    LastPanes,
    LateRows,
    PlanId,
    PlanNode,
    WindowedGroup,
    Windowing,
    WithEventTime,
)
from ..plan.windowed import HELD, columns_of_keys
from .builder import Builder


def windows_over_time(builder: Builder, where: str, node: PlanNode, source: NodeId) -> NodeId:
    """Add the operators of a plan node that concerns event time."""
    (upstream,) = node.inputs
    match node.operation:
        case Assign(window, event_time):
            keys = () if window.shifted_by_key else None
            assign = AssignWindows(where, node.schema, window, event_time.column, event_time.shift, keys=keys)
            # Rows that were together by the bounds of their panes are not by those of the new windows.
            replaced = () if window.is_given else BOUNDS
            placement = Placement(passes=frozenset(builder.schema_of(source)).difference(replaced))
            return builder.add(node.label, assign, source, placement=placement)
        case WithEventTime(strict, event_time):
            return _retimed(builder, where, node, source, strict, event_time)
        case InOrder(event_time):
            name = ", ".join(each.name for each in builder.plan.sources_of(upstream))
            clock, appends = builder.clock_of(upstream), not builder.plan.may_retract(upstream)
            release = ReleaseInOrder(
                name,
                node.schema,
                event_time.column,
                clock,
                builder.ledger,
                shift=event_time.shift,
                appends=appends,
            )
            states: list[State] = [release.buffer, release.refused, builder.ledger]
            placement = Placement(by=(), passes=frozenset(node.schema))
            return builder.add(node.label, release, source, states=states, placement=placement)
        case LateRows(windowing, event_time, each_window):
            lateness = _lateness(builder, where, windowing, event_time, upstream)
            last_end = None if each_window else last_end_of(windowing.window)
            late = KeepLateRows(node.schema, lateness, builder.clock_of(upstream), last_end)
            return builder.add(node.label, late, source, placement=_passing(builder, source))
        case LastPanes():
            # Panes that retract what they replace are the last ones themselves.
            panes = builder.compiled.panes[upstream]
            firing = builder.compiled.trackers[upstream].firing
            latest = LatestPanes(panes.schema, panes.spec, firing, panes.withdrawn)
            placement = Placement(passes=frozenset(panes.spec.keys))
            return builder.add(node.label, latest, source, states=latest.states, placement=placement)
        case WindowedGroup() as grouped:
            return _WindowedGroup(builder, where, node, grouped).compile(source)
        case _:
            raise AssertionError(node.operation)


def _passing(builder: Builder, source: NodeId) -> Placement:
    """Return the placement of a node that keeps the columns of its input, and may add some."""
    return Placement(passes=frozenset(builder.schema_of(source)))


def _retimed(
    builder: Builder, where: str, node: PlanNode, source: NodeId, strict: bool, event_time: EventTime
) -> NodeId:
    if not strict:
        return source
    clock = builder.clock_of(node.inputs[0])
    require = RequireInTime(where, node.schema, event_time.column, clock)
    return builder.add(node.label, require, source, placement=_passing(builder, source))


def _lateness(
    builder: Builder, where: str, windowing: Windowing, event_time: EventTime, upstream: PlanId
) -> Lateness:
    assert windowing.lateness is not None
    names = [source.name for source in builder.plan.sources_of(upstream)]
    return Lateness(
        where, ", ".join(names), windowing.lateness, event_time=event_time.column, shift=event_time.shift
    )


def _copies(names: Iterable[str]) -> list[Column]:
    return [Column(name, pl.col(name), copies=name) for name in names]


class _WindowedGroup:
    """The compilation of one windowed grouping."""

    def __init__(self, builder: Builder, where: str, node: PlanNode, grouped: WindowedGroup) -> None:
        self._builder = builder
        self._where = where
        self._node = node
        self._grouped = grouped
        self._windowing = grouped.windowing
        self._place = builder.place
        (self._upstream,) = node.inputs
        self._clock = builder.clock_of(self._upstream)
        self._is_global = self._windowing.window.is_global
        window, lateness = self._windowing.window, self._windowing.lateness
        # Without lateness, rows of windows that a user's function merges move from window to window.
        self._are_merging = window.session_gap is not None or (window.merged_by_user and lateness is not None)
        self._held_in: dict[str, str] | None = None
        """The columns of the rows that hold the keys, by the names of these, if they have been computed."""

    def compile(self, source: NodeId) -> NodeId:
        """Add all operators, from rows with their first windows to panes."""
        rows, ends = self._merged(self._prepared(self._by_key(self._in_time(self._shifted(source)))))
        is_tracked = not self._windowing.is_refined_only or self._windowing.lateness is not None
        if not is_tracked:
            # The watermark is held upstream all the same: windows that wait for it may be declared over these panes later.
            mark_read(self._clock)
            return self._aggregated(rows, ends, None)[0]
        return self._in_panes(*self._tracker(rows, ends), ends)

    def _with_keys(self, source: NodeId) -> tuple[NodeId, dict[str, str]]:
        """Add the key columns to the rows, if windows can only be assigned once the key is there; return their names, too."""
        schema, keys = self._builder.schema_of(source), self._grouped.key_columns
        names = columns_of_keys(keys, schema)
        own = [name for name in schema if name not in names.values()]
        columns = [*_copies(own), *(replace(key, name=names[key.name]) for key in keys)]
        return self._builder.projected(source, self._where, schema, columns), names

    def _shifted(self, source: NodeId) -> NodeId:
        """Assign rows to windows that are shifted by key."""
        window, time = self._windowing.window, self._grouped.event_time
        if not window.shifted_by_key:
            return source
        keyed, names = self._with_keys(source)
        types = self._builder.schema_of(keyed)
        keys = tuple(names.values())
        assign = AssignWindows(self._where, types, window, time.column, time.shift, keys=keys)
        placement = Placement(passes=frozenset(types) - frozenset(BOUNDS))
        shifted = self._builder.add("shift windows by key", assign, keyed, placement=placement)
        if keys == self._grouped.keys:
            self._held_in = names
            return shifted
        # Rows that are refused have the columns of the source, and the keys are computed of these once more.
        return self._builder.projected(shifted, self._where, types, _copies(self._builder.schema_of(source)))

    def _in_time(self, source: NodeId) -> NodeId:
        """Keep the rows that do not come too late, with the instants at which they hold the watermark if that is declared."""
        windowing, builder = self._windowing, self._builder
        if windowing.lateness is not None and not self._is_global:
            lateness = _lateness(builder, self._where, windowing, self._grouped.event_time, self._upstream)
            drop = DropLate(
                builder.schema_of(source),
                lateness,
                self._clock,
                builder.ledger,
                last_end_of(windowing.window),
            )
            placement = _passing(builder, source)
            source = builder.add("drop late rows", drop, source, states=[builder.ledger], placement=placement)
        if windowing.stamp == "earliest" and not self._is_global:
            schema = builder.schema_of(source)
            held = pl.Schema({**schema, HELD: schema["window_end"]})
            time = self._grouped.event_time
            # A row and its retraction must be the same, so its date must not depend on when it came.
            takes_back = builder.plan.may_retract(self._upstream)
            hold = HoldAt(held, HELD, time.column, time.shift, None if takes_back else self._clock)
            source = builder.add("hold the watermark", hold, source, placement=_passing(builder, source))
        return source

    def _by_key(self, source: NodeId) -> NodeId:
        """Assign rows to windows that depend on the other rows of their key."""
        builder, window = self._builder, self._windowing.window
        if not window.depends_on_key or self._are_merging:
            return source
        keyed, self._held_in = self._with_keys(source)
        types, keys = builder.schema_of(keyed), tuple(self._held_in.values())
        place, spine = builder.arranged(keyed, types, keys, layout_of(window, types))
        placement = Placement(passes=frozenset(types) - frozenset(BOUNDS))
        function = rewindow(self._where, window, self._held_in)
        operator = WindowByKey(types, spine, function, self._never_below_zero(keys))
        return builder.add(self._node.label, operator, place, placement=placement)

    def _prepared(self, source: NodeId) -> NodeId:
        """Compute the columns that keys, aggregates and triggers need."""
        grouped, schema = self._grouped, self._builder.schema_of(source)
        columns = [] if self._is_global else _copies(BOUNDS)
        keys = grouped.key_columns
        if self._held_in is not None:
            keys = tuple(Column(key, pl.col(name), copies=name) for key, name in self._held_in.items())
        columns = [*keys, *columns, *grouped.aggregation.prepared, *grouped.trigger_inputs]
        return self._builder.projected(source, self._where, schema, columns)

    def _merged(self, prepared: NodeId) -> tuple[NodeId, NodeId | None]:
        """Assign rows to their sessions, or to windows that a user's function merges and that close, and add the ends of these.

        Rows of other windows are passed on.
        """
        builder, keys = self._builder, self._grouped.keys
        if not self._are_merging:
            return prepared, None
        self._merging = self._operator_that_merges(builder.schema_of(prepared))
        placement = Placement(by=keys, passes=frozenset(keys))
        rows = builder.add(
            self._node.label, self._merging, prepared, states=self._merging.states, placement=placement
        )
        ends = SessionEnds(self._merging.ids, self._merging.changes)
        passing = Placement(passes=frozenset(keys))
        what = "sessions" if self._windowing.window.session_gap is not None else "merged windows"
        return rows, builder.add(f"ends of {what}", ends, rows, placement=passing)

    def _operator_that_merges(self, types: pl.Schema) -> Sessions | MergeWindows:
        windowing, keys, clock = self._windowing, self._grouped.keys, self._clock
        window, lateness = windowing.window, windowing.lateness
        may_retract, never_below_zero = (
            self._builder.plan.may_retract(self._upstream),
            self._never_below_zero(keys),
        )
        if window.session_gap is not None:
            return Sessions(
                types, keys, window.session_gap, lateness=lateness, clock=clock,
                may_retract=may_retract, never_below_zero=never_below_zero,
            )  # fmt: skip
        assert lateness is not None, "without lateness no window closes"
        return MergeWindows(
            self._where, types, keys, window, lateness=lateness, clock=clock, may_retract=may_retract,
            may_split=windowing.mode != "discarding", never_below_zero=never_below_zero,
        )  # fmt: skip

    def _never_below_zero(self, keys: tuple[str, ...]) -> NeverBelowZero | None:
        """Return the check that refuses rows with negative counts, unless there cannot be any."""
        plan = self._builder.plan
        sources = tuple(
            plan.inputs[at].name for at in plan.below_zero_by(self._upstream) if at in plan.inputs
        )
        columns = (*keys, BOUNDS[0])
        return NeverBelowZero(self._where, sources, columns) if sources else None

    @property
    def _window_keys(self) -> tuple[str, ...]:
        """Return the columns that identify a (key, window)."""
        if self._is_global:
            return self._grouped.keys
        return (*self._grouped.keys, *(BOUNDS[:1] if self._are_merging else BOUNDS))

    @property
    def _meets_by(self) -> tuple[str, ...]:
        """Return the columns by which rows have to meet: all sessions of a key do, as they may merge."""
        return self._grouped.keys if self._are_merging else self._window_keys

    def _tracker(self, rows: NodeId, ends: NodeId | None) -> tuple[NodeId, TrackWindows]:
        builder, windowing = self._builder, self._windowing
        tracking = Tracking(
            keys=self._window_keys,
            by=self._meets_by,
            window_end=None if self._is_global or self._are_merging else BOUNDS[1],
            is_global=self._is_global,
            trigger=windowing.trigger,
            lateness=windowing.lateness,
            always=windowing.always is True,
            discards=windowing.mode == "discarding" and not self._are_merging,
            window_start=(
                BOUNDS[0]
                if windowing.stamp in ("start", "earliest", "latest") and not self._is_global
                else None
            ),
        )
        tracker = TrackWindows(
            builder.schema_of(rows),
            tracking,
            self._clock,
            self._merging.merging if self._are_merging else None,
            self._percentiles(),
        )
        builder.compiled.trackers[self._place] = tracker
        inputs = [rows] if ends is None else [rows, ends]
        placement = Placement(by=self._meets_by, passes=frozenset(builder.schema_of(rows)))
        tracked = builder.add("track windows", tracker, *inputs, states=tracker.states, placement=placement)
        return tracked, tracker

    def _percentiles(self) -> dict[float, Clock]:
        """Return a watermark for each share of the rows for which the trigger waits."""
        shares = [part.awaited_share for part in self._windowing.trigger.every_part()]
        return {share: self._percentile(share) for share in shares if share is not None}

    def _percentile(self, share: float) -> Clock:
        builder, clocks = self._builder, []
        for place, source in builder.plan.inputs.items():
            node = builder.plan[place]
            if source.watermark is None or node.event_time is None:
                continue
            if source in builder.plan.sources_of(self._upstream):
                clock = SourceClock(source.name, Percentile(share))
                arrive = Arrive(source.name, node.schema, node.event_time.column, builder.ledger, clock)
                builder.add(
                    f"{share:.0%} of {source.name}",
                    arrive,
                    builder.compiled.outputs[place],
                    states=[clock],
                    placement=Placement(passes=frozenset(node.schema)),
                )
                clocks.append(clock)
        # The watermark for a share of the rows cannot be behind that for all of them.
        return Latest([Earliest(clocks), self._clock])

    def _aggregated(
        self, rows: NodeId, ends: NodeId | None, tracker: TrackWindows | None
    ) -> tuple[NodeId, GroupBy]:
        """Add the grouping by key and window; it emits by itself if only refinement is declared."""
        builder, grouped, windowing = self._builder, self._grouped, self._windowing
        types, keys = builder.schema_of(rows), self._window_keys
        purges = windowing.lateness is not None or (windowing.mode == "discarding" and not self._are_merging)
        expired = tracker.expired if tracker is not None and purges else None
        aggregates, finished = list(grouped.aggregation.aggregates), list(grouped.aggregation.finished)
        if self._are_merging:
            aggregates.append(SuppliedValue(BOUNDS[1], self._node.schema[BOUNDS[1]]))
            finished.insert(0, Column(BOUNDS[1], pl.col(BOUNDS[1]), copies=BOUNDS[1]))
        inputs, parts = [rows], []
        # A pane that discards has differences: what it retracts may have been in an earlier one.
        below_zero = windowing.mode == "discarding" or bool(builder.plan.below_zero_by(self._upstream))
        for aggregate in aggregates:
            before, part = builder.part(
                aggregate, rows, types, keys, self._where, expired,
                of_nothing=bool(windowing.always) and windowing.mode == "discarding", by=self._meets_by,
                retracts=self._are_merging or windowing.window.depends_on_key or builder.plan.may_retract(self._upstream),
                may_go_below_zero=below_zero, in_windows=True,
            )  # fmt: skip
            parts.append(part)
            if part.counts_input:
                inputs.append(ends if aggregate.is_supplied and ends is not None else before)
        key_types = pl.Schema({key: types[key] for key in keys})
        spec = GroupSpec(self._where, key_types, tuple(aggregates), elementwise_columns(finished))
        emits_on_request = not windowing.is_refined_only
        differences = windowing.mode == "discarding" and builder.plan.may_retract(self._upstream)
        operator = GroupBy(
            spec, self._rows_schema, parts,
            expired=expired, emits_on_request=emits_on_request, discarding=differences, by=self._meets_by,
        )  # fmt: skip
        builder.compiled.groupings[self._place] = operator
        states = [*operator.states]
        placement = Placement(by=self._meets_by, passes=frozenset(keys))
        grouping = builder.add(self._node.label, operator, *inputs, states=states, placement=placement)
        return grouping, operator

    def _pending(self, tracked: NodeId, tracker: TrackWindows) -> NodeId:
        """Keep the rows that were not emitted yet, which move with their sessions when these merge."""
        schema = self._builder.schema_of(tracked)
        pending = PendingRows(
            schema, self._window_keys, BOUNDS[0], tracker.firing, self._merging.merging, self._meets_by
        )
        placement = Placement(passes=frozenset(self._grouped.keys))
        return self._builder.add(
            "rows not emitted yet", pending, tracked, states=pending.states, placement=placement
        )

    @property
    def _rows_schema(self) -> pl.Schema:
        """Return the columns of the grouping itself, without those that panes add."""
        stamp = self._watermark_column
        return pl.Schema(
            {
                name: dtype
                for name, dtype in self._node.schema.items()
                if name != stamp and not (self._windowing.info and name in PANE_INFO)
            }
        )

    @property
    def _watermark_column(self) -> str | None:
        return self._grouped.event_time.column if self._windowing.stamp == "watermark" else None

    def _in_panes(self, tracked: NodeId, tracker: TrackWindows, ends: NodeId | None) -> NodeId:
        windowing, builder = self._windowing, self._builder
        if windowing.mode == "discarding" and self._are_merging:
            tracked = self._pending(tracked, tracker)
        node, operator = self._aggregated(tracked, ends, tracker)
        if windowing.is_refined_only:
            return node
        spec = PaneSpec(
            mode=windowing.mode,
            keys=self._window_keys,
            by=self._meets_by,
            always=windowing.always,
            info=windowing.info,
            window_end=BOUNDS[1] if self._are_merging else None,
            stamp=self._watermark_column,
            dated=self._grouped.event_time.column if windowing.stamp in ("earliest", "latest") else None,
            awaits=any(part.awaits_signal for part in windowing.trigger.every_part()),
        )
        panes = Panes(
            self._rows_schema, self._node.schema, spec, tracker.firing, operator.groups, self._clock
        )
        builder.compiled.panes[self._place] = panes
        placement = Placement(passes=frozenset(self._window_keys))
        return builder.add(f"panes, {windowing.mode}", panes, node, states=panes.states, placement=placement)
