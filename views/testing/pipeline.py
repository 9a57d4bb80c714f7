"""The pipeline that a transcript describes, declared on an engine: windows, trigger, mode, lateness, aggregate."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import polars as pl

from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import listed
from evercurrent.core.eventtime.triggers.kinds import Trigger
from evercurrent.core.eventtime.windows.kinds import Window

from ..dataframe import triggers, windows
from ..dataframe.collection import Collection
from ..engine.engine import Engine
from ..engine.view import View
from ..plan.nodes import Stamp
from .times import Times, as_datetime
from .transcripts import Transcript

SOURCE, VIEW = "rows", "panes"
KEY, VALUE, TIME = "key", "v", "t"
RESULT, STAMP = "value", "timestamp"

MODES = {
    "discarding": "discarding",
    "accumulating": "accumulating",
    "accumulating_and_retracting": "retracting",
    "retracting": "retracting",
}
AGGREGATES: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "collect_sorted": lambda values: values.implode(),
    "collect_set": lambda values: values.unique().implode(),
    "sum": lambda values: values.sum(),
    "sum_per_key": lambda values: values.sum(),
}
TRANSFORMED = "output_at_earliest_transformed"
STAMPS: dict[str, Stamp] = {
    "output_at_eow": "end",
    "output_at_earliest": "earliest",
    "earliest": "earliest",
    "output_at_latest": "latest",
    TRANSFORMED: "end",
}
"""The timestamps of panes, by the words of a transcript."""

UNBOUNDED = ("inf", "unbounded", float("inf"))
_NO_TRIGGER: Mapping[str, Any] = {"every_epoch": {}}


class Pipeline:
    """One source of rows with key, value and event time, and one view of panes by key and window."""

    def __init__(self, transcript: Transcript, times: Times, *, always: bool = False) -> None:
        self._case = transcript
        self._times = times
        self._where = f"transcript {transcript.id!r}"
        self.engine = Engine()
        self.schema = _schema(rows_of(transcript))
        is_global = self._word("window", dict, {"type": "global"}).get("type") == "global"
        self.source = self.engine.source(SOURCE, self.schema, event_time=TIME, bounded=is_global)
        self.view: View = self.engine.view(VIEW, self._panes(always))

    def frame(self, rows: list[Mapping[str, Any]]) -> pl.DataFrame:
        """Return rows of a transcript as a frame for the source."""
        cells: dict[str, list[Any]] = {
            KEY: [_key(row) for row in rows],
            VALUE: [row.get("v") for row in rows],
            TIME: [self._times.instant(row.get("t")) for row in rows],
        }
        return pl.DataFrame([pl.Series(name, cells[name]).cast(self.schema[name]) for name in self.schema])

    def _panes(self, always: bool) -> Collection:
        windowed = self.source.window(self._window(), timestamp=self._stamp())
        triggered = windowed.trigger(self._trigger(self._case.get("trigger", _NO_TRIGGER)), always=always)
        moded = triggered.accumulate(self._choice("accumulation", MODES, "retracting"))
        late = self._case.get("allowed_lateness", 0)
        if late not in UNBOUNDED:
            moded = moded.lateness(self._length(late))
        aggregate = self._choice("aggregate", AGGREGATES, "collect_sorted")
        outputs = {RESULT: aggregate(pl.col(VALUE)), **self._transformed()}
        return self._dated(moded.with_pane_info().group_by(KEY).agg(**outputs))

    def _stamp(self) -> Stamp:
        stamp: Stamp = self._choice("timestamp_combiner", STAMPS, "output_at_eow")
        return stamp

    def _transformed(self) -> dict[str, pl.Expr]:
        """Return the earliest of the times that a window function gives its rows, if it changes them."""
        if self._case.get("timestamp_combiner") != TRANSFORMED:
            return {}
        custom = str(self._word("window", dict, {}).get("custom"))
        match_of_custom = re.fullmatch(r"transformed output time = input timestamp \+ (\d+)", custom)
        if match_of_custom is None:
            raise InputError(
                f"{self._where}: {TRANSFORMED} goes with a window whose custom is "
                f"'transformed output time = input timestamp + 100', not {custom!r}"
            )
        return {STAMP: (pl.col(TIME) + self._length(int(match_of_custom[1]))).min()}

    def _dated(self, panes: Collection) -> Collection:
        """Return the panes with their timestamp, rounded down to the unit of the transcript."""
        columns = panes.columns
        if STAMP in columns:
            stamp = pl.col(STAMP)
        elif TIME in columns:
            stamp = pl.col(TIME)
        elif "window_end" in columns:
            stamp = pl.col("window_end") - timedelta(microseconds=1)
        else:
            return panes
        return panes.with_columns(stamp.dt.truncate(f"1{self._times.unit}").alias(STAMP))

    def _window(self) -> Window:
        entry = self._word("window", dict, {"type": "global"})
        match entry.get("type"):
            case "fixed":
                return windows.fixed(self._length(entry["size"]), offset=self._length(entry.get("offset", 0)))
            case "sliding":
                size, period = self._length(entry["size"]), self._length(entry["period"])
                return windows.sliding(size, every=period, offset=self._length(entry.get("offset", 0)))
            case "session":
                return windows.sessions(self._length(entry["gap"]))
            case "global":
                return windows.global_window()
        raise InputError(
            f"{self._where}: window {entry.get('type')!r}; there are fixed, sliding, session and global"
        )

    def _trigger(self, entry: Mapping[str, Any]) -> Trigger:
        """Build a trigger from the words of a transcript, which are described in ``docs/testing.md``."""
        if not isinstance(entry, Mapping) or len(entry) != 1:
            raise InputError(f"{self._where}: trigger {entry!r}; write one, as {{'default': {{}}}}")
        ((word, rest),) = entry.items()
        match word:
            case "every_epoch":
                return triggers.every_epoch()
            case "default":
                return triggers.repeat(triggers.after_watermark())
            case "after_watermark":
                parts = {name: self._trigger(part) for name, part in rest.items()}
                return triggers.after_watermark(**{"late": None, **parts})
            case "after_count":
                return triggers.after_count(rest)
            case "at_period":
                start = rest.get("aligned_to")
                aligned = None if start is None else as_datetime(self._times.instant(start))
                return triggers.at_period(self._length(rest["period"]), aligned_to=aligned)
            case "repeatedly":
                return triggers.repeat(self._trigger(rest))
            case "after_any":
                return triggers.any_of(*map(self._trigger, rest))
            case "after_all":
                return triggers.all_of(*map(self._trigger, rest))
            case "after_each":
                return triggers.sequence(*map(self._trigger, rest))
            case "or_finally":
                part, end = map(self._trigger, rest)
                return triggers.until(part, end)
        raise InputError(f"{self._where}: unknown trigger {word!r}; docs/testing.md lists them")

    def _length(self, length: Any) -> timedelta:
        return timedelta(microseconds=self._times.duration(length))

    def _word(self, name: str, kind: type, default: Any) -> Any:
        entry = self._case.get(name, default)
        if not isinstance(entry, kind):
            raise InputError(f"{self._where}: {name} {entry!r}; write a mapping")
        return entry

    def _choice(self, name: str, choices: Mapping[str, Any], default: str) -> Any:
        entry = self._case.get(name, default)
        if entry not in choices:
            raise InputError(f"{self._where}: {name} {entry!r}; there are {listed(choices)}")
        return choices[entry]


def rows_of(transcript: Transcript) -> Iterator[Mapping[str, Any]]:
    """Yield all input rows of a transcript."""
    for step in transcript.get("steps", ()):
        yield from step.get("input", ())


def times_of(transcript: Transcript) -> Times:
    """Return how times are written in a transcript: as numbers, or as times of the day."""
    first = next((row.get("t") for row in rows_of(transcript)), 0)
    return Times(transcript.get("time_unit", "s"), clock=isinstance(first, str))


def _schema(rows: Iterator[Mapping[str, Any]]) -> dict[str, pl.DataType]:
    values = [row.get("v") for row in rows]
    dtype = pl.Series(values, strict=False).dtype if values else pl.Int64()
    return {KEY: pl.String(), VALUE: dtype, TIME: pl.Datetime("us", "UTC")}


def _key(row: Mapping[str, Any]) -> str:
    return str(row.get("key", ""))
