"""Why a window has not emitted a pane: what its trigger waits for, what holds the watermark, when it may fire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from evercurrent.core.data.clock import END_OF_TIME, START_OF_TIME
from evercurrent.core.data.columns.json_texts import shown_values
from evercurrent.core.data.instants import shown, spelled_briefly
from evercurrent.core.eventtime.triggers.combinators import trigger_state
from evercurrent.core.eventtime.triggers.leaves import Times, TriggerState
from evercurrent.core.eventtime.triggers.window_columns import END, PAST, PENDING, ROWS

from ..plan.nodes import BOUNDS, WindowedGroup
from .open_windows import OpenWindows


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The input of an explanation besides the state of a window: both times, and what holds the watermark back."""

    watermark: int
    processing_time: int
    lateness: int | None
    held_by: tuple[str, ...]
    percentiles: Mapping[float, int]


NO_WINDOW = "there is no open window"
"""The beginning of the explanation where no window is open."""

MOST = 5
"""The most windows that are explained at once; the others are counted."""


def why_lines(
    operation: WindowedGroup, windows: OpenWindows, circumstances: Circumstances, *, is_selection: bool
) -> list[str]:
    """Explain why these open windows emit no pane now, or that there are none."""
    if not len(windows.keys):
        none = NO_WINDOW + (" of that key and those bounds" if is_selection else "")
        closes = " or it was closed" if circumstances.lateness is not None else ""
        forgotten = (
            " or what came for it was emitted and discarded"
            if operation.windowing.mode == "discarding"
            else ""
        )
        return [
            f"{none}: no row has come for it{closes}{forgotten}; the watermark is at {shown(circumstances.watermark)}"
        ]
    lines = []
    bounds = [name for name in BOUNDS if name in windows.frame.columns]
    trigger = trigger_state(operation.windowing.trigger)
    order = windows.frame.select(pl.arg_sort_by(bounds)).to_series().to_list() if bounds else [0]
    for number in order[:MOST]:
        state = {name: int(column[number]) for name, column in windows.state.items()}
        row = shown_values(windows.frame, number)
        lines.append(", ".join(f"{name} {value}" for name, value in row.items()) or "all rows")
        lines += [f"  {line}" for line in why_open(trigger, state, circumstances)]
    if len(windows.keys) > MOST:
        lines.append(f"and {len(windows.keys) - MOST:,} more open windows; give key= and window=")
    return lines


def why_open(trigger: TriggerState, state: Mapping[str, int], circumstances: Circumstances) -> list[str]:
    """Explain line by line why an open window emits no pane now."""
    end = state[END]
    lines = [_where_it_stands(end, circumstances)]
    if not state.get(PENDING, 0):
        on_time = " and has emitted its on-time pane" if state.get(PAST, 0) else ""
        lines.append(
            f"it has {_count(state.get(ROWS, 0), 'row')}{on_time}; nothing has changed since its last pane, so there is "
            "nothing to emit until rows come"
        )
        return lines + _closing(end, circumstances)
    lines.append(f"it has a pane to emit, of {_count(state.get(ROWS, 0), 'row')} in all. It waits")
    times = Times(end, circumstances.watermark, circumstances.processing_time, circumstances.percentiles)
    lines += [f"  {line}" for line in trigger.waits_for(state, times)]
    if trigger.waits_for_watermark(state) and circumstances.watermark < end:
        lines += circumstances.held_by
    return lines + _closing(end, circumstances)


def _where_it_stands(end: int, circumstances: Circumstances) -> str:
    if circumstances.watermark >= end:
        return f"the watermark, {_at(circumstances.watermark)}, has passed the end of the window, {_at(end)}"
    far = circumstances.watermark > START_OF_TIME and end < END_OF_TIME
    away = f", {spelled_briefly(end - circumstances.watermark)} before it" if far else ""
    return f"the window ends at {_at(end)}, and the watermark is at {_at(circumstances.watermark)}{away}"


def _closing(end: int, circumstances: Circumstances) -> list[str]:
    if circumstances.lateness is None:
        return ["it never closes: there is no .lateness(...)"]
    return [f"it closes when the watermark reaches {_at(min(end + circumstances.lateness, END_OF_TIME))}"]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _at(instant: int) -> str:
    return shown(instant)
