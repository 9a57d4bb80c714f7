"""The tumbling windows of ksqlDB's query translation tests (`ksqldb-qtt`): one row is one batch, one output each.

Ruling: an output that repeats its value comes with ``always`` only. No watermark: out-of-order rows are within the
grace. The event time of an output is that of its record in ksqlDB, and is not compared; nor is a windowed ROWKEY, which
is Kafka's text.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.views.testing.times import Times, as_datetime
from peer_cases import cases, named, needs_cases

CASES = [
    case for case in cases("ksqldb-qtt/cases.json") if case["id"].startswith("ksql2018/tumbling-windows/")
]
TYPES = {"bigint": pl.Int64, "varchar": pl.String, "double": pl.Float64}
TIME = pl.Datetime("us", "UTC")
TIMES = Times("ms")

VALUE = pl.col("VALUE")
AGGREGATES: dict[str, pl.Expr] = {
    "max(value)": VALUE.max(),
    "min(value)": VALUE.min(),
    "topk(value, 2)": VALUE.top_k(2).implode().list.sort(descending=True),
    "topkdistinct(value, 2)": VALUE.unique().top_k(2).implode().list.sort(descending=True),
}
"""The aggregates of the statements; those of several values are lists."""

Output = tuple[int, datetime, datetime, Any]
"""Key, window, value."""


def aggregate_of(case: dict[str, Any]) -> pl.Expr | None:
    """The aggregate of the statement that makes a table over windows of 30 seconds; None where there is no window."""
    (statement,) = [text for text in case["statements"] if " TUMBLING " in text] or [""]
    if not statement:
        return None
    assert "WINDOW TUMBLING (SIZE 30 SECONDS) group by id" in statement
    (found,) = [made for text, made in AGGREGATES.items() if f" {text} " in statement]
    return found


def columns_of(case: dict[str, Any]) -> dict[str, Any]:
    (relation,) = case["relations"].values()
    return {column["name"]: TYPES[column["type"]] for column in relation["columns"]}


def instant(milliseconds: int) -> datetime:
    return as_datetime(TIMES.instant(milliseconds))


def row_of(record: dict[str, Any], columns: dict[str, Any]) -> dict[str, Any]:
    """The columns of a record; KSQL's names have no case."""
    value = {name.upper(): cell for name, cell in record["value"].items()}
    return {
        name: float(value[name]) if dtype == pl.Float64 else value[name] for name, dtype in columns.items()
    }


def windowed(case: dict[str, Any], *, always: bool) -> list[Output]:
    """What the view of a stream emits, record by record."""
    engine, columns = ec.Engine(), columns_of(case)
    source = engine.source("test_topic", {**columns, "at": TIME}, event_time="at")
    windows = source.window(ec.fixed("30s")).trigger(ec.each_row(), always=always).accumulate("accumulating")
    aggregate = aggregate_of(case)
    assert aggregate is not None
    view = engine.view("S2", windows.group_by("ID").agg(value=aggregate))
    for record in case["inputs"]:
        engine.push("test_topic", [{**row_of(record, columns), "at": instant(record["ts"])}])
    return [row[:4] for delta in view.deltas() for row in delta.rows()]


def imported(case: dict[str, Any], *, always: bool) -> list[Output]:
    """The rows of a table whose rows come with a key and a window: each row replaces the one before."""
    engine, columns = ec.Engine(), columns_of(case)
    key = ["ID", "window_start", "window_end"]
    schema = {**columns, "window_start": TIME, "window_end": TIME}
    source = engine.source("test_topic", schema, kind="upsert", key=key)
    view = engine.view("S2", source.select(*key, "VALUE"))
    for record in case["inputs"]:
        bounds = {f"window_{side}": instant(record["window"][side]) for side in ("start", "end")}
        engine.push("test_topic", [{**row_of(record, columns), **bounds}])
    return [row[:4] for delta in view.deltas() for row in delta.filter(pl.col("_diff") > 0).rows()]


def run_of(case: dict[str, Any]) -> Callable[..., list[Output]]:
    return imported if aggregate_of(case) is None else windowed


def expected(case: dict[str, Any]) -> list[Output]:
    columns = columns_of(case)
    found = []
    for record in case["expected_outputs_in_order"]:
        key, value = (
            record["value"][:2]
            if isinstance(record["value"], list)
            else (record["key"], record["value"]["TOPK"])
        )
        if not isinstance(value, list):
            value = float(value) if columns["VALUE"] == pl.Float64 else int(value)
        assert int(key) == record["key"]
        window = record["window"]
        found.append((int(key), instant(window["start"]), instant(window["end"]), value))
    return found


def without_repeats(outputs: list[Output]) -> list[Output]:
    """Without those that repeat the last value of their key and window."""
    last: dict[Any, Any] = {}
    kept = []
    for output in outputs:
        if last.get(output[:3]) != output[3]:
            kept.append(output)
        last[output[:3]] = output[3]
    return kept


@needs_cases
def test_all_cases_are_there() -> None:
    assert len(CASES) == 5
    assert sum("`always`" in case.get("ruling", "") for case in CASES) == 3


@pytest.mark.parametrize("case", named(CASES))
def test_each_record_gives_one_output(case: dict[str, Any]) -> None:
    assert run_of(case)(case, always=True) == expected(case)


@pytest.mark.parametrize("case", named(CASES))
def test_a_repeated_value_is_emitted_with_always_only(case: dict[str, Any]) -> None:
    changes = without_repeats(expected(case))
    assert (len(changes) < len(expected(case))) == ("`always`" in case.get("ruling", ""))
    assert run_of(case)(case, always=False) == changes
