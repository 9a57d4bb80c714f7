"""Why a row is there, or is not: the stage that decides it is named."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Any

import polars as pl
import pytest

import evercurrent as ec

HITS = {"ip": pl.String, "bytes": pl.Int64, "at": pl.Datetime("us")}


def minute(number: int) -> datetime:
    return datetime(2026, 1, 1, 12, number)


@pytest.fixture(scope="module")
def engine() -> ec.Engine:
    engine = ec.Engine()
    hits = engine.source(
        "hits", HITS, kind="diffs", event_time="at", watermark=ec.bounded_delay("1m"), retained=True
    )
    who = engine.source("who", {"ip": pl.String, "name": pl.String}, kind="upsert", key="ip")
    dear = engine.view("dear", hits.filter(pl.col("bytes") > 5))
    engine.view("kilo", dear.select("ip", kilo=pl.col("bytes") * 10))
    counts = engine.view("counts", dear.group_by("ip").agg(n=pl.len(), most=pl.col("bytes").max()))
    engine.view("sizes", counts.group_by("n").agg(ips=pl.len()))
    engine.view("known", hits.join(who, on="ip"))
    engine.view("named", hits.join(who, on="ip", how="left"))
    engine.view("met", hits.join(who, on="ip", how="semi"))
    engine.view("strange", hits.join(who, on="ip", how="anti"))
    engine.view("top", hits.group_by("ip").top_k(1, by="bytes"))
    engine.view("once", hits.unique("ip", keep="first", by="at"))
    engine.view("ips", hits.select("ip").unique())
    engine.view("both", hits.select("ip").concat(who.select("ip")))
    windowed = hits.window(ec.fixed("10m"))
    engine.view("windows", windowed.group_by("ip").agg(n=pl.len()))
    engine.view("final", windowed.trigger(ec.after_watermark()).lateness("0s").group_by("ip").agg(n=pl.len()))
    engine.push("who", {"ip": ["a", "x"], "name": ["Ann", "Xia"]})
    rows = {
        "ip": ["a", "a", "b", None],
        "bytes": [3, 10, 20, 7],
        "at": [minute(1), minute(2), minute(3), minute(4)],
    }
    engine.push("hits", rows, at="2026-01-01T12:30:00Z")
    engine.push("hits", {"ip": ["c"], "bytes": [8], "at": [minute(30)]}, at="2026-01-01T12:31:00Z")
    engine.push("hits", {"ip": ["d"], "bytes": [9], "at": [minute(5)]}, at="2026-01-01T12:32:00Z")
    engine.push(
        "hits", {"ip": ["e"], "bytes": [9], "at": [minute(5)], "_diff": [-1]}, at="2026-01-01T12:33:00Z"
    )
    return engine


REASONS: list[tuple[str, Any, list[str]]] = [
    (
        "dear",
        {"ip": "a", "bytes": 10},
        ["view 'dear' has it:", 'filter col("bytes") > 5 lets it pass', "source 'hits' has 1 row:"],
    ),
    (
        "dear",
        {"ip": "a", "bytes": 3},
        ["filter col(\"bytes\") > 5 refuses it: the condition is false for 1 row of source 'hits':"],
    ),
    ("dear", {"ip": "z"}, ["source 'hits' has no row with ip z: none was pushed, or it was taken back"]),
    (
        "dear",
        {"ip": "e"},
        ["source 'hits' has refused 1 row of these values in epoch 5: retraction of a row that is not there"],
    ),
    (
        "kilo",
        {"ip": "b", "kilo": 100},
        ["view 'kilo' has 1 row with ip b, not with kilo 100:", "  ip b, kilo 200"],
    ),
    ("counts", "a", ["the group ip a is made of 1 row of view 'dear'"]),
    ("counts", {"ip": "a", "n": 2}, ["view 'counts' has 1 row with ip a, not with n 2:", "  ip a, n 1"]),
    ("counts", "z", ["no group has ip z, as no row reaches it", "source 'hits' has no row with ip z"]),
    ("sizes", 1, ["the group n 1 is made of 5 rows of view 'counts'"]),
    (
        "known",
        {"ip": "b"},
        [
            "source 'hits' has 1 row of it:",
            "it has no partner in source 'who', on ip:",
            "source 'who' has no row with ip b",
        ],
    ),
    ("known", {"ip": None}, ["its key is null, which matches nothing (ip)"]),
    (
        "known",
        {"name": "Xia"},
        ["it has no partner in source 'hits', on ip:", "source 'hits' has no row with ip x"],
    ),
    ("known", {"ip": "a", "name": "Bob"}, ["has 2 rows with ip a, not with name Bob:"]),
    ("named", {"ip": "b"}, ["source 'hits' has it, and source 'who' has no partner for it"]),
    ("met", {"ip": "b"}, ["it has no partner in source 'who', on ip:"]),
    ("strange", {"ip": "a"}, ["a partner in source 'who' keeps it away:", "  ip a, name Ann"]),
    ("strange", {"ip": "b"}, ["source 'who' has no partner for it, which would keep it away"]),
    (
        "top",
        {"ip": "a", "bytes": 3},
        ["as number 2 of the group ip a by bytes descending; only the first 1 is kept", "  ip a, bytes 10"],
    ),
    (
        "once",
        {"ip": "a", "bytes": 10},
        ["as number 2 of the group ip a by at ascending", "What stands for it:", "  ip a, bytes 3"],
    ),
    ("ips", "a", ["it stands for 2 equal rows of (select ip)"]),
    (
        "both",
        {"ip": "z"},
        [
            "it is in none of the 2 inputs",
            "source 'hits' has no row with ip z",
            "source 'who' has no row with ip z",
        ],
    ),
    ("both", {"ip": "x"}, ["source 'who' has 1 row:"]),
    ("windows", "a", ["the window ip a, window_start 2026-01-01 12:00:00", "is made of 2 rows"]),
    ("windows", {"ip": "a", "n": 5}, ["has 1 row with ip a, not with n 5:"]),
    (
        "final",
        "c",
        ["the window ends at 2026-01-01 12:40:00 UTC", "for the watermark to reach 2026-01-01 12:40:00 UTC"],
    ),
    ("final", "b", ["there is no open window", "view 'final' has it:", "is made of 1 row"]),
    (
        "final",
        "d",
        [
            "view 'final' has no row with ip d",
            "none of them in that window in time:",
            "1 row came too late, and are in the ledger",
        ],
    ),
    ("final", {"ip": "c", "n": 1}, ["it has a pane to emit, of 1 row in all. It waits"]),
]


@pytest.mark.parametrize(("view", "key", "lines"), REASONS)
def test_the_stage_that_decides_is_named(engine: ec.Engine, view: str, key: Any, lines: list[str]) -> None:
    text = engine.views[view].why(key)
    for line in lines:
        assert line in text, text


def test_a_window_may_be_given_with_its_key(engine: ec.Engine) -> None:
    assert "is made of 2 rows" in engine.views["windows"].why("a", minute(0))
    assert "view 'windows' has no row with ip a, window_start 2026-01-01 12:10:00" in engine.views[
        "windows"
    ].why("a", minute(10))


def test_what_is_not_kept_is_named() -> None:
    engine = ec.Engine()
    sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64})
    totals = engine.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum()))
    engine.push("sales", {"shop": ["north"], "price": [1]})
    assert (
        "where it comes from is not known: source 'sales' does not retain its rows; declare it with"
        in totals.why("north")
    )
    assert (
        "source 'sales' keeps no rows; declare source 'sales' with retained=True, or a view here"
        in totals.why("south")
    )
    for wrong in ({"place": 1}, 5, ("a", "b")):
        with pytest.raises(ec.InputError):
            totals.why(wrong)


def test_a_deep_chain_is_explained() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"n": pl.Int64}, retained=True)
    deep = rows
    for number in range(sys.getrecursionlimit() + 50):
        deep = deep.filter(pl.col("n") != number)
    view = engine.view("deep", deep)
    engine.push("rows", {"n": [7, 2_000]})
    assert "refuses it: the condition is false for 1 row" in view.why({"n": 7})
    assert view.lineage({"n": 2_000})["rows"].rows() == [(2_000, 1)]


@pytest.mark.parametrize("mode", ["accumulating", "retracting", "discarding"])
def test_windows_without_a_key_are_not_listed(mode: Any) -> None:
    """Of a window whose rows are retracted, or discarded with its last pane, no key is kept: there is nothing to emit of it."""
    engine = ec.Engine()
    rows = engine.source(
        "rows",
        {"k": pl.String, "at": pl.Datetime("us")},
        kind="diffs",
        event_time="at",
        watermark=ec.bounded_delay("1h"),
    )
    windows = (
        rows.window(ec.fixed("10m")).trigger(ec.after_watermark(early=ec.after_count(2))).accumulate(mode)
    )
    view = engine.view("view", windows.group_by("k").agg(n=pl.len()))
    for keys, diff in (("gone", 1), ("emitted", 1), ("emitted", 1), ("gone", -1), ("waits", 1)):
        engine.push("rows", {"k": [keys], "at": [datetime(2026, 1, 1)], "_diff": [diff]})
    listed = [line for line in str(view.why()).splitlines() if line.startswith("k ")]
    assert all("None" not in line for line in listed)
    assert {line.split(",")[0] for line in listed} - {"k gone"} == (
        {"k waits"} if mode == "discarding" else {"k waits", "k emitted"}
    )


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("mode", ["accumulating", "retracting", "discarding"])
def test_all_windows_are_fired_also_those_without_a_key(mode: Any, workers: int) -> None:
    """A signal is an event for the trigger of a window that has nothing to emit, too: here it counts anew after it."""
    engine = ec.Engine(workers=workers)
    rows = engine.source("rows", {"k": pl.String, "at": pl.Datetime("us")}, kind="diffs", event_time="at")
    trigger = ec.repeat(ec.any_of(ec.after_count(3), ec.signal()))
    windows = rows.window(ec.fixed("10m")).trigger(trigger).accumulate(mode)
    view = engine.view("view", windows.group_by("k").agg(n=pl.len()))
    for keys, diff in (("gone", 1), ("gone", -1), *[("other", 1)] * 4):
        engine.push("rows", {"k": [keys], "at": [datetime(2026, 1, 1)], "_diff": [diff]})
    assert "None" not in str(view.why())
    view.fire()
    engine.push("rows", {"k": ["gone"], "at": [datetime(2026, 1, 1)], "_diff": [1]})
    assert "gone" not in view.read()["k"].to_list()
    for _ in range(2):
        engine.push("rows", {"k": ["gone"], "at": [datetime(2026, 1, 1)], "_diff": [1]})
    assert view.read().filter(k="gone")["n"].sum() == 3
