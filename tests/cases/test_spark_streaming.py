"""Spark Structured Streaming's micro-batches (`spark-streaming`): one ``add`` is one epoch.

Append mode is a view that emits a window when the watermark has passed it, with no lateness; update mode gives the rows that
a view gained, complete mode all that it holds. A batch without data after a moved watermark is not needed: ours moves
before the epoch ends. Ruling: sessions one gap apart are two (events at 30 and 40, gap 10), so where Spark joins them
the rows are those that the ruling names. ``expect_state_rows`` is about Spark's state and is not compared. ``restart``:
a new engine takes the same batches, and emits the same.
"""

from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.views.testing.times import as_datetime
from peer_cases import cases, named, needs_cases

CASES = cases("spark-streaming/cases.json")
TIME = pl.Datetime("us", "UTC")
TEXT = {"text": pl.String, "at": TIME}
VALUE = {"value": pl.Int64, "at": TIME}

RULED = {
    ("spark", 25, 50, 25, 3): [("spark", 25, 40, 15, 2), ("spark", 40, 50, 10, 1)],
    ("streaming", 25, 51, 26, 4): [("streaming", 25, 40, 15, 2), ("streaming", 40, 51, 11, 2)],
}
"""The sessions by the ruling for those that are exactly one gap apart."""


def second(count: float) -> datetime:
    return as_datetime(round(count * 1_000_000))


def seconds(column: str) -> pl.Expr:
    return pl.col(column).dt.epoch("s")


def in_mode(windows: Any, mode: str) -> Any:
    """Return the windows with the trigger and the lateness that stand for an output mode of Spark."""
    if mode == "append":
        return windows.trigger(ec.after_watermark()).accumulate("discarding").lateness("0s")
    return windows if mode == "complete" else windows.lateness("0s")


def sessions(engine: ec.Engine, query: dict[str, Any]) -> Any:
    delay, (_, group) = timedelta(seconds=query["watermark_delay_s"]), query["group"]
    source = engine.source("input", TEXT, event_time="at", watermark=ec.bounded_delay(delay))
    words = source.with_columns(sessionId=pl.col("text").str.split(" ")).explode("sessionId")
    windows = words.window(ec.sessions(timedelta(seconds=group["session_gap_s"])))
    counted = in_mode(windows, query["output_mode"]).group_by("sessionId").agg(count=pl.len())
    start, end = seconds("window_start"), seconds("window_end")
    return counted.select("sessionId", "count", start=start, end=end, length=end - start)


def tumbling(engine: ec.Engine, query: dict[str, Any]) -> Any:
    delay, (group,) = timedelta(seconds=query["watermark_delay_s"]), query["group"]
    source = engine.source("input", VALUE, event_time="at", watermark=ec.bounded_delay(delay))
    windows = source.window(ec.fixed(timedelta(seconds=group["tumbling_s"])))
    counted = in_mode(windows, query["output_mode"]).group_by().agg(count=pl.len())
    return counted.select("count", start=seconds("window_start"))


def joined(engine: ec.Engine, query: dict[str, Any]) -> Any:
    sides = {}
    for side, factor in (("left", 2), ("right", 3)):
        source = engine.source(side, VALUE, event_time="at")
        valued = source.with_columns(**{f"{side}Value": pl.col("value") * factor})
        sides[side] = valued.window(ec.fixed("10s"))
    both = sides["left"].join(sides["right"], on=["value", "window_start", "window_end"])
    return both.select("leftValue", "rightValue", key="value", end=seconds("window_end"))


QUERIES = {
    "spark/session/complete": (sessions, ["sessionId", "start", "end", "length", "count"]),
    "spark/session/append": (sessions, ["sessionId", "start", "end", "length", "count"]),
    "spark/window/append": (tumbling, ["start", "count"]),
    "spark/window/update": (tumbling, ["start", "count"]),
    "spark/join/windowed_no_watermark": (joined, ["key", "end", "leftValue", "rightValue"]),
}


class Run:
    """A query on an engine, which can be given up for a new one that takes the same batches."""

    def __init__(self, case: dict[str, Any]) -> None:
        self._query, self._columns = QUERIES[case["id"]]
        self._case = case
        self._taken: list[tuple[str, list[Any]]] = []
        self._start()

    def _start(self) -> None:
        self.engine = ec.Engine()
        self.view = self.engine.view("result", self._query(self.engine, self._case["query"]))
        self.checked = 0

    def add(self, source: str, rows: list[Any]) -> None:
        self._taken.append((source, rows))
        self._push(source, rows)

    def _push(self, source: str, rows: list[Any]) -> None:
        pairs = [row if isinstance(row, list) else [row, row] for row in rows]
        self.engine.push(source, [(value, second(at)) for value, at in pairs])

    def restart(self) -> None:
        before = self.view.deltas().frame()
        self._start()
        for source, rows in self._taken:
            self._push(source, rows)
        assert self.view.deltas().frame().equals(before)
        self.checked = self.engine.epoch_number

    def new(self) -> list[tuple[Any, ...]]:
        """The rows that are new since the last check; in complete mode all."""
        frames = list(self.view.deltas(since=self.checked))
        self.checked = self.engine.epoch_number
        if self._case["query"].get("output_mode") == "complete":
            return sorted(self.view.read().select(self._columns).rows())
        gained = [frame.filter(pl.col("_diff") > 0).select(self._columns) for frame in frames]
        return sorted(row for frame in gained for row in frame.rows())

    def watermark(self) -> float | None:
        now = self.engine.watermarks["input"]
        return now.timestamp() if isinstance(now, datetime) else None


def expected(case: dict[str, Any], rows: list[list[Any]]) -> list[tuple[Any, ...]]:
    ruled = RULED if "ruling" in case else {}
    return sorted(row for given in rows for row in ruled.get(tuple(given), [tuple(given)]))


@needs_cases
def test_all_cases_are_there() -> None:
    assert {case["id"] for case in CASES} == set(QUERIES)


@pytest.mark.parametrize("case", named(CASES))
def test_case(case: dict[str, Any]) -> None:
    run = Run(case)
    refused, watermarks = 0, []
    for step in case["steps"]:
        match step:
            case {"add": batch}:
                refused = run.engine.ledger().height
                for source, rows in batch.items():
                    run.add(source, rows)
                watermarks.append(run.watermark() if "input" in batch else None)
            case {"expect_new": rows}:
                assert run.new() == expected(case, rows)
            case {"expect_dropped_by_watermark": count}:
                assert run.engine.ledger().height - refused == count
            case {"restart": True}:
                run.restart()
            case {"expect_state_rows": _}:
                pass
            case _:
                raise NotImplementedError(step)
    if "watermarks_after_each_add_s" in case:
        assert watermarks == case["watermarks_after_each_add_s"]
