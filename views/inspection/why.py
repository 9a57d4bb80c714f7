"""Why a window has not emitted a pane: what its trigger waits for, what holds the watermark, when it may fire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from evercurrent.core.columns.json_texts import shown_values
from evercurrent.core.data.clock import END_OF_TIME, START_OF_TIME, Clock
from evercurrent.core.data.instants import shown, spelled_briefly
from evercurrent.core.eventtime.triggers.kinds import (
    AfterCount,
    AfterPercentile,
    AfterSum,
    AfterWatermark,
    AllOf,
    AnyOf,
    AtPeriod,
    Custom,
    EveryEpoch,
    Pattern,
    Punctuation,
    Repeat,
    Sequence,
    Signal,
    Trigger,
    Until,
    parts_of,
)
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
    percentiles: Mapping[float, Clock]


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
    order = windows.frame.select(pl.arg_sort_by(bounds)).to_series().to_list() if bounds else [0]
    for number in order[:MOST]:
        state = {name: int(column[number]) for name, column in windows.state.items()}
        row = shown_values(windows.frame, number)
        lines.append(", ".join(f"{name} {value}" for name, value in row.items()) or "all rows")
        lines += [f"  {line}" for line in why_open(operation.windowing.trigger, state, circumstances)]
    if len(windows.keys) > MOST:
        lines.append(f"and {len(windows.keys) - MOST:,} more open windows; give key= and window=")
    return lines


def why_open(trigger: Trigger, state: Mapping[str, int], circumstances: Circumstances) -> list[str]:
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
    lines += [f"  {line}" for line in _waits(trigger, "t", state, circumstances)]
    if _waits_for_watermark(trigger, "t", state) and circumstances.watermark < end:
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


def _waits(trigger: Trigger, place: str, state: Mapping[str, int], circumstances: Circumstances) -> list[str]:
    """List what a trigger waits for, a line each; the parts of a composed trigger are indented below it."""
    parts = [(part, f"{place}.{number}") for number, part in enumerate(parts_of(trigger))]
    if state.get(f"{place}done"):
        return ["for nothing more: this part has finished"]
    match trigger:
        case EveryEpoch():
            return ["for the end of an epoch that brings rows"]
        case AtPeriod():
            return [_timer(state.get(f"{place}at", 0), circumstances)]
        case AfterCount(count):
            return [_counted(state.get(f"{place}sum", 0), count, "rows")]
        case AfterSum(input, limit):
            return [_counted(state.get(f"{place}sum", 0), limit, f"of {input}")]
        case Punctuation(input):
            return [f"for a row in which {input!r} is true"]
        case Pattern(start, stop):
            begun = state.get(f"{place}begun", 0)
            return [
                f"for a row with {stop!r}"
                if begun
                else f"for a row with {start!r} and after it one with {stop!r}"
            ]
        case AfterPercentile(share):
            at = circumstances.percentiles[share].before
            return [f"for the watermark of {share:.0%} of the rows, which is at {_at(at)}, to pass the end"]
        case Signal():
            return ["for a call of view.fire(...)"]
        case Custom(name):
            own = f"{place}state "
            columns = {part.removeprefix(own): value for part, value in state.items() if part.startswith(own)}
            return [f"for trigger {name!r}, whose state is {columns}"]
        case AfterWatermark(early, late):
            return _around_watermark(early, late, place, state, circumstances)
        case Repeat(part):
            return _waits(part, f"{place}.0", state, circumstances)
        case Sequence():
            turn = next(((part, at) for part, at in parts if not state.get(f"{at}over")), parts[-1])
            return _waits(*turn, state, circumstances)
        case AllOf():
            unready = [(part, at) for part, at in parts if not state.get(f"{at}was ready")]
            return ["for all of", *_below(unready, state, circumstances)]
        case AnyOf() | Until():
            return ["for the first of", *_below(parts, state, circumstances)]
        case _:
            columns = {
                name.removeprefix(place): value for name, value in state.items() if name.startswith(place)
            }
            return [trigger.waits_for(columns)]


def _around_watermark(
    early: Trigger | None,
    late: Trigger | None,
    place: str,
    state: Mapping[str, int],
    circumstances: Circumstances,
) -> list[str]:
    on_time = f"for the watermark to reach {_at(state[END])}"
    if state.get(f"{place}late") and late is not None:
        number = 1 if early is not None else 0
        return _waits(late, f"{place}.{number}", state, circumstances)
    if early is None:
        return [on_time]
    return ["for the first of", f"  {on_time}", *_below([(early, f"{place}.0")], state, circumstances)]


def _below(
    parts: list[tuple[Trigger, str]], state: Mapping[str, int], circumstances: Circumstances
) -> list[str]:
    return [f"  {line}" for part, at in parts for line in _waits(part, at, state, circumstances)]


def _waits_for_watermark(trigger: Trigger, place: str, state: Mapping[str, int]) -> bool:
    """Return whether the trigger waits for the watermark to pass the end of the window."""
    if isinstance(trigger, AfterWatermark) and not state.get(f"{place}late"):
        return True
    return any(
        _waits_for_watermark(part, f"{place}.{number}", state)
        for number, part in enumerate(parts_of(trigger))
    )


def _timer(at: int, circumstances: Circumstances) -> str:
    if not at:
        return "for rows, which set its timer"
    instant = at + START_OF_TIME
    return (
        f"for processing time to reach {_at(instant)}: it was {_at(circumstances.processing_time)} in the last epoch; "
        "an epoch has to come, with rows or by engine.tick()"
    )


def _counted(so_far: int, needed: int, what: str) -> str:
    missing = needed - so_far
    return f"for {missing:,} more {what.removesuffix('s') if missing == 1 else what}: {so_far:,} of {needed:,} are there"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _at(instant: int) -> str:
    return shown(instant)
