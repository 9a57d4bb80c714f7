"""Queries on a windowed view: why it has not emitted panes, how far its event time is complete, which windows are open."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from evercurrent.core.data.clock import END_OF_TIME, START_OF_TIME
from evercurrent.core.data.errors import InputError
from evercurrent.core.data.instants import time_of
from evercurrent.core.eventtime.windows.window_tracker import TrackWindows

from ..compiler.builder import Compiled
from ..plan.nodes import BOUNDS, PlanId
from ..plan.plan import Plan
from ..plan.windowed import grouping_of
from .open_windows import OpenWindows, open_windows
from .why import Circumstances, why_lines


def shown_watermark(instant: int) -> datetime | int | None:
    """Return a watermark as users see it: None if unknown, ``END_OF_TIME`` when no more rows will come."""
    return END_OF_TIME if instant >= END_OF_TIME else time_of(instant)


class WindowQueries:
    """Queries on one view of a circuit, or on a stage of it at another ``place``.

    It copies no state and is made anew for each query.
    """

    def __init__(self, plan: Plan, compiled: Compiled, view: str, place: PlanId | None = None) -> None:
        self._plan = plan
        self._compiled = compiled
        self._view = view
        self._place = plan.place_of(view) if place is None else place

    def watermark(self, watermarks: Mapping[str, int]) -> datetime | int | None:
        """Return how far the event time of the view's rows is complete, by the watermarks of the sources."""
        return shown_watermark(
            min((watermarks[name] for name in self._sources(self._place)), default=START_OF_TIME)
        )

    def windows(self, key: object, window: object) -> tuple[TrackWindows, OpenWindows]:
        """Return the open windows of a key (None: all) with these bounds (None: all), and the operator that tracks them.

        Raises:
            InputError: the view has no windows, none that wait for a trigger, or no such key.
        """
        tracker = self.tracker()
        windows = open_windows(self._compiled, self._plan, self._grouping())
        return tracker, windows.of(f"view {self._view!r}", key, window)

    def tracker(self) -> TrackWindows:
        """Return the operator that tracks the windows of the view.

        Raises:
            InputError: the view has no windows, or none that wait for a trigger.
        """
        place = self._grouping()
        if place not in self._compiled.trackers:
            raise InputError(
                f"view {self._view!r} emits panes at every epoch; declare it with .trigger(ec.after_watermark()), or another trigger that waits"
            )
        return self._compiled.trackers[place]

    @property
    def keys(self) -> tuple[str, ...] | None:
        """Return the keys of the windows of the view; None if it has none that wait for a trigger."""
        place = grouping_of(self._plan, self._place)
        return (
            self._plan.windowed[place].keys
            if place in self._compiled.trackers and place is not None
            else None
        )

    def why_waiting(self, row: Mapping[str, object], instant: int) -> list[str]:
        """Explain why the open windows with these keys and bounds emit no pane; no lines if there are none."""
        bounds = [row[name] for name in BOUNDS if name in row]
        key = {name: value for name, value in row.items() if name not in BOUNDS}
        if self.keys is None or not set(key) <= set(self.keys) or (BOUNDS[1] in row and BOUNDS[0] not in row):
            return []
        windows = self.windows(key or None, tuple(bounds) or None)[1]
        return self.why(key or None, tuple(bounds) or None, instant) if len(windows.keys) else []

    def why(self, key: object, window: object, instant: int) -> list[str]:
        """Explain line by line why windows emit no pane; ``instant`` is the last processing time.

        Raises:
            InputError: the view has no windows, or no such key.
        """
        place = self._grouping()
        operation = self._plan.windowed[place]
        if place not in self._compiled.trackers:
            return ["nothing is held back: every epoch that brings rows emits its panes at once"]
        tracker, windows = self.windows(key, window)
        windows = windows.named()
        circumstances = Circumstances(
            watermark=tracker.clock.before,
            processing_time=instant,
            lateness=operation.windowing.lateness,
            held_by=self._held_by(place, instant),
            percentiles={share: clock.before for share, clock in tracker.percentiles.items()},
        )
        return why_lines(
            operation, windows, circumstances, is_selection=key is not None or window is not None
        )

    def _held_by(self, place: PlanId, instant: int) -> tuple[str, ...]:
        """Explain what holds the watermark of a node back: the source whose watermark is the least."""
        clocks, sources = self._compiled.clocks, self._sources(place)
        if not sources:
            return ("no source of it has event time, so that there is no watermark",)
        slowest = min(sources, key=lambda name: clocks[name].before)
        return tuple(clocks[slowest].describe(instant))

    def _sources(self, place: PlanId) -> list[str]:
        """Return the sources of a node that have event time."""
        names = [source.name for source in self._plan.sources_of(place)]
        return [name for name in names if name in self._compiled.clocks]

    def _grouping(self) -> PlanId:
        place = grouping_of(self._plan, self._place)
        if place is None:
            raise InputError(
                f"view {self._view!r} is not grouped by windows, so that it has no open ones; use the view upstream that is"
            )
        return place
