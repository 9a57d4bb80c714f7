"""Why a window has not spoken: what its trigger waits for, who holds the watermark, when at the earliest it speaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from evercurrent.core.columns.json_texts import shown_values
from evercurrent.core.data.clock import END_OF_TIME, START_OF_TIME, Clock
from evercurrent.core.data.instants import shown, spelled
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
    """What is known beside the state of a window: how far time is, and what holds the watermark."""

    watermark: int
    processing_time: int
    lateness: int | None
    held_by: tuple[str, ...]
    percentiles: Mapping[float, Clock]


MOST = 5
"""So many windows are explained at once; of the others it is said how many there are."""


def why_lines(
    operation: WindowedGroup, windows: OpenWindows, known: Circumstances, *, asked: bool
) -> list[str]:
    """Why these open windows say nothing now; or that there are none."""
    if not len(windows.keys):
        none = "there is no open window" + (" of that key and those bounds" if asked else "")
        closes = " or it was closed" if known.lateness is not None else ""
        forgotten = (
            " or what came for it was spoken and forgotten"
            if operation.windowing.mode == "discarding"
            else ""
        )
        return [
            f"{none}: no row has come for it{closes}{forgotten}; the watermark is at {shown(known.watermark)}"
        ]
    lines = []
    bounds = [name for name in BOUNDS if name in windows.frame.columns]
    order = windows.frame.select(pl.arg_sort_by(bounds)).to_series().to_list() if bounds else [0]
    for number in order[:MOST]:
        state = {name: int(column[number]) for name, column in windows.state.items()}
        row = shown_values(windows.frame, number)
        lines.append(", ".join(f"{name} {value}" for name, value in row.items()) or "all rows")
        lines += [f"  {line}" for line in why_open(operation.windowing.trigger, state, known)]
    if len(windows.keys) > MOST:
        lines.append(f"and {len(windows.keys) - MOST:,} more open windows; give key= and window=")
    return lines


def why_open(trigger: Trigger, state: Mapping[str, int], known: Circumstances) -> list[str]:
    """Why an open window says nothing now, line by line."""
    end = state[END]
    lines = [_where_it_stands(end, known)]
    if not state.get(PENDING, 0):
        spoken = "and has spoken on time" if state.get(PAST, 0) else ""
        lines.append(
            f"it has {_count(state.get(ROWS, 0), 'row')} {spoken}; nothing has changed since it last spoke, so there is "
            "nothing to say until rows come".replace("  ", " ").replace(" ;", ";")
        )
        return lines + _closing(end, known)
    lines.append(f"it has something to say: {_count(state.get(ROWS, 0), 'row')} in all. It waits")
    lines += [f"  {line}" for line in _waits(trigger, "t", state, known)]
    if _asks_for_watermark(trigger, "t", state) and known.watermark < end:
        lines += known.held_by
    return lines + _closing(end, known)


def _where_it_stands(end: int, known: Circumstances) -> str:
    if known.watermark >= end:
        return f"the watermark, {_at(known.watermark)}, has passed the end of the window, {_at(end)}"
    far = known.watermark > START_OF_TIME and end < END_OF_TIME
    away = f", {spelled(end - known.watermark)} before it" if far else ""
    return f"the window ends at {_at(end)}, and the watermark is at {_at(known.watermark)}{away}"


def _closing(end: int, known: Circumstances) -> list[str]:
    if known.lateness is None:
        return ["it never closes: there is no .lateness(...)"]
    return [f"it closes when the watermark reaches {_at(min(end + known.lateness, END_OF_TIME))}"]


def _waits(trigger: Trigger, place: str, state: Mapping[str, int], known: Circumstances) -> list[str]:
    """What a trigger waits for: one thing a line, a composed one with its parts below it."""
    parts = [(part, f"{place}.{number}") for number, part in enumerate(parts_of(trigger))]
    if state.get(f"{place}done"):
        return ["for nothing more: this part has finished"]
    match trigger:
        case EveryEpoch():
            return ["for the end of an epoch that brings rows"]
        case AtPeriod():
            return [_timer(state.get(f"{place}at", 0), known)]
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
            at = known.percentiles[share].before
            return [f"for the watermark of {share:.0%} of the rows, which is at {_at(at)}, to pass the end"]
        case Signal():
            return ["for a word from outside: view.fire(...)"]
        case Custom(name):
            own = f"{place}state "
            held = {part.removeprefix(own): value for part, value in state.items() if part.startswith(own)}
            return [f"for trigger {name!r}, whose state is {held}"]
        case AfterWatermark(early, late):
            return _around_watermark(early, late, place, state, known)
        case Repeat(part):
            return _waits(part, f"{place}.0", state, known)
        case Sequence():
            turn = next(((part, at) for part, at in parts if not state.get(f"{at}over")), parts[-1])
            return _waits(*turn, state, known)
        case AllOf():
            left = [(part, at) for part, at in parts if not state.get(f"{at}was ready")]
            return ["for all of", *_below(left, state, known)]
        case AnyOf() | Until():
            return ["for the first of", *_below(parts, state, known)]
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
    known: Circumstances,
) -> list[str]:
    on_time = f"for the watermark to reach {_at(state[END])}"
    if state.get(f"{place}late") and late is not None:
        number = 1 if early is not None else 0
        return _waits(late, f"{place}.{number}", state, known)
    if early is None:
        return [on_time]
    return ["for the first of", f"  {on_time}", *_below([(early, f"{place}.0")], state, known)]


def _below(parts: list[tuple[Trigger, str]], state: Mapping[str, int], known: Circumstances) -> list[str]:
    return [f"  {line}" for part, at in parts for line in _waits(part, at, state, known)]


def _asks_for_watermark(trigger: Trigger, place: str, state: Mapping[str, int]) -> bool:
    """Whether the passing of the watermark is among what is waited for."""
    if isinstance(trigger, AfterWatermark) and not state.get(f"{place}late"):
        return True
    return any(
        _asks_for_watermark(part, f"{place}.{number}", state) for number, part in enumerate(parts_of(trigger))
    )


def _timer(at: int, known: Circumstances) -> str:
    if not at:
        return "for rows, which set its timer"
    instant = at + START_OF_TIME
    return (
        f"for processing time to reach {_at(instant)}: it was {_at(known.processing_time)} in the last epoch; "
        "an epoch has to come, with rows or by engine.tick()"
    )


def _counted(so_far: int, wanted: int, what: str) -> str:
    left = wanted - so_far
    return f"for {left:,} more {what.removesuffix('s') if left == 1 else what}: {so_far:,} of {wanted:,} are there"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _at(instant: int) -> str:
    return shown(instant)
