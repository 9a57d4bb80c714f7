"""Lineage and history of windows that are made of all rows of a key: counted, the last rows, merged."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta

import polars as pl
import pytest

import evercurrent as ec

NOON = datetime(2026, 1, 1, 12)
COLUMNS = {"car": pl.String, "n": pl.Int64, "at": pl.Datetime("us"), "notes": pl.List(pl.String)}


def parked(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(window_start="at", window_end=pl.col("at") + pl.duration(seconds="n"))


WINDOWS = {
    "counted": ec.count_window(3),
    "last": ec.last_rows(2),
    "merged": ec.custom_windows(parked, merge=ec.merge_overlapping),
}


def declared(**options: bool) -> ec.Engine:
    """An engine with a view of each kind of window, by a key that is computed, by one that is not, and without a key."""
    engine = ec.Engine(**options)  # type: ignore[arg-type]
    rows = engine.source("rows", COLUMNS, kind="diffs", event_time="at", retained=True)
    total = {"n": pl.len(), "total": pl.col("n").sum()}
    upper = pl.col("car").str.to_uppercase().alias("car")
    for name, window in WINDOWS.items():
        windowed = rows.window(window)
        engine.view(name, windowed.group_by("car").agg(**total))
        engine.view(f"{name} upper", windowed.group_by(upper).agg(**total))
        engine.view(f"{name} all", windowed.group_by().agg(**total))
    engine.view("sizes", engine.views["counted"].group_by("n").agg(windows=pl.len()))
    return engine


def history(seed: int) -> list[list[tuple[object, ...]]]:
    """Batches of different rows, many of them of one instant, of which some are taken back."""
    draws, there, batches = random.Random(seed), [], []
    for _ in range(5):
        batch: list[tuple[object, ...]] = []
        for _ in range(draws.randint(1, 4)):
            if there and draws.random() < 0.25:
                batch.append((*there.pop(draws.randrange(len(there))), -1))
                continue
            at = NOON + timedelta(seconds=draws.randint(0, 9))
            row = (
                draws.choice(["a", "A", None]),
                draws.randint(1, 3),
                at,
                draws.choice([["x"], ["y"], None]),
            )
            if row not in there:
                there.append(row)
                batch.append((*row, 1))
        batches.append(batch)
    return batches


def counted(frame: pl.DataFrame) -> Counter[str]:
    return Counter(map(repr, frame.rows()))


@pytest.mark.parametrize("seed", range(3))
def test_the_rows_of_a_window_alone_make_it_and_without_them_it_is_gone(seed: int) -> None:
    engine = declared()
    for batch in history(seed):
        engine.push("rows", batch)
    for name, view in engine.views.items():
        before = counted(view.read())
        for row in view.read().iter_rows(named=True):
            behind = view.lineage(row)["rows"]
            if "upper" not in name:
                assert name == "sizes" or behind["_diff"].sum() == row["n"]
            alone = declared()
            alone.push("rows", behind)
            key = repr(tuple(row.values()))
            assert key in counted(alone.views[name].read()), (name, row)
            if not name.startswith("last"):  # Rows before the last ones take their place.
                without = engine.fork()
                without.push("rows", behind.with_columns(-pl.col("_diff")))
                assert counted(without.views[name].read())[key] < before[key], (name, row)


def test_equal_rows_are_named_together() -> None:
    engine = declared()
    engine.push("rows", [("a", 1, NOON, None)] * 4)
    for n in (3, 1):
        assert engine.views["counted"].lineage({"car": "a", "n": n})["rows"]["_diff"].to_list() == [4]


def test_changes_of_windows_have_the_rows_that_moved_them() -> None:
    engine = declared(record=True)
    for second in (1, 2, 3, 0):
        engine.push("rows", [("a", second + 1, NOON + timedelta(seconds=second), None)])
    engine.push("rows", [("b", 1, NOON, None)])
    changes = engine.views["counted"].history({"car": "a"})
    assert [(change.epoch, change.causes["rows"]["n"].to_list()) for change in changes] == [
        (1, [2]),
        (2, [3]),
        (3, [4]),
        (4, [1]),
    ]
    assert changes.remarks == ()


def test_a_window_that_has_changed_since_its_pane_is_named() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", COLUMNS, event_time="at", retained=True)
    windowed = rows.window(ec.count_window(2)).trigger(early=ec.after_count(1)).accumulate("accumulating")
    panes = engine.view("panes", windowed.group_by("car").agg(n=pl.len()))
    engine.push("rows", [("a", 1, NOON, None)])
    engine.push("rows", [("a", 1, NOON + timedelta(seconds=1), None)])
    assert panes.lineage({"n": 2})["rows"].height == 2
    with pytest.raises(
        ec.InputError, match=r"windows of 2 rows depend on all rows of their key.*rows have come"
    ):
        panes.lineage({"n": 1})
