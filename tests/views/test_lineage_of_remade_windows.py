"""Lineage and history of windows that are made of all rows of a key: counted, the last rows, merged."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta

import polars as pl
import pytest

import evercurrent as ec

ROWS = 3
"""So many rows of each view are followed."""

NOON = datetime(2026, 1, 1, 12)
COLUMNS = {"car": pl.String, "n": pl.Int64, "at": pl.Datetime("us"), "notes": pl.List(pl.String)}


def parked(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(window_start="at", window_end=pl.col("at") + pl.duration(seconds="n"))


WINDOWS = {
    "counted": ec.count_window(3),
    "last": ec.last_rows(2),
    "merged": ec.custom_windows(parked, merge=ec.merge_overlapping),
}


def declared(kind: str = "counted", *, record: bool = False) -> ec.Engine:
    """An engine with views of a kind of windows: by a key that is computed, by one that is not, and without a key."""
    engine = ec.Engine(record=record)
    rows = engine.source("rows", COLUMNS, kind="diffs", event_time="at", retained=True)
    total = {"n": pl.len(), "total": pl.col("n").sum()}
    upper = pl.col("car").str.to_uppercase().alias("car")
    windowed = rows.window(WINDOWS[kind])
    engine.view(kind, windowed.group_by("car").agg(**total))
    engine.view(f"{kind} upper", windowed.group_by(upper).agg(**total))
    engine.view(f"{kind} all", windowed.group_by().agg(**total))
    if kind == "counted":
        halves = rows.with_columns(n=pl.col("n") // 2, notes=pl.lit(None, pl.List(pl.String)))
        few = halves.filter(pl.col("n") < 2).window(WINDOWS[kind]).group_by("car")
        engine.view("counted halves", few.agg(**total))
        engine.view("sizes", engine.views["counted"].group_by("n").agg(windows=pl.len()))
    return engine


def history(seed: int) -> list[list[tuple[object, ...]]]:
    """Batches of rows, many of them of one instant and some of them equal, of which some are taken back."""
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
            for _ in range(draws.choice([1, 1, 1, 2, 4])):
                there.append(row)
                batch.append((*row, 1))
        batches.append(batch)
    return batches


def of_key(panes: pl.DataFrame, key: dict[str, object]) -> int:
    """The number of rows in all windows of a key that begin at one instant."""
    return int(panes.filter(pl.col(name).eq_missing(pl.lit(value)) for name, value in key.items())["n"].sum())


def counted(frame: pl.DataFrame) -> Counter[str]:
    return Counter(map(repr, frame.rows()))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", WINDOWS)
def test_the_rows_of_a_window_alone_make_it_and_without_them_it_is_gone(kind: str, seed: int) -> None:
    engine = declared(kind)
    for batch in history(seed):
        engine.push("rows", batch)
    for name, view in engine.views.items():
        before = counted(view.read())
        rows = view.read().rows(named=True)
        for row in random.Random(seed).sample(rows, min(ROWS, len(rows))):
            behind = view.lineage(row)["rows"]
            if name != "sizes" and "upper" not in name:
                keys = [column for column in ("car", "window_start") if column in row]
                assert behind["_diff"].sum() == of_key(view.read(), {column: row[column] for column in keys})
            alone = declared(kind)
            alone.push("rows", behind)
            key = repr(tuple(row.values()))
            assert key in counted(alone.views[name].read()), (name, row)
            if not name.startswith("last"):  # Rows before the last ones take their place.
                without = engine.fork()
                without.push("rows", behind.with_columns(-pl.col("_diff")))
                assert counted(without.views[name].read())[key] < before[key], (name, row)


NAMES = ("counted", "counted upper", "counted all", "counted halves")


def test_of_equal_rows_those_of_the_window_are_named() -> None:
    engine = declared()
    early, late = ("a", 1, NOON, None), ("a", 1, NOON + timedelta(seconds=1), None)
    engine.push("rows", [early] * 2 + [late] * 3)
    for name in NAMES:
        for n, named in ((3, [1, 2]), (2, [2])):
            rows = engine.views[name].lineage({"n": n})["rows"].sort("at", descending=True)
            assert rows["_diff"].to_list() == named, name


def test_windows_that_begin_at_the_same_instant_are_named_together() -> None:
    engine = declared()
    engine.push("rows", [("a", 1, NOON, None)] * 4)
    for n in (3, 1):
        for name in NAMES:
            assert engine.views[name].lineage({"n": n})["rows"]["_diff"].to_list() == [4], name


def test_rows_of_two_windows_are_those_of_both() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", COLUMNS, event_time="at", retained=True)
    halves = rows.with_columns(n=pl.col("n") // 2)
    threes, twos = (
        halves.window(ec.count_window(size)).group_by("car").agg(n=pl.col("n").sum()).select("car", "n")
        for size in (3, 2)
    )
    both = engine.view("both", threes.concat(twos).group_by("n").agg(windows=pl.len()))
    engine.push("rows", [("a", n, NOON + timedelta(seconds=n), None) for n in (2, 3, 4, 5, 6)])
    named = {n: sorted(both.lineage({"n": n})["rows"]["n"]) for n in both.read()["n"]}
    assert named == {2: [2, 3], 3: [6], 4: [2, 3, 4, 5], 5: [5, 6]}


def test_first_rows_are_as_many_as_there_are() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.String, "n": pl.Int64}, retained=True)
    halves = rows.with_columns(half=pl.col("n") // 2).select("k", "half")
    engine.view("first", halves.top_k(2, by="half"))
    engine.view("totals", engine.views["first"].group_by("k").agg(n=pl.len()))
    rows.push([("a", 9)] * 3 + [("a", 7), ("b", 8), ("b", 1)])
    for name, row in (("first", ("a", 4)), ("totals", ("a", 2))):
        assert engine.views[name].lineage(row)["rows"].rows() == [("a", 9, 2)], name


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
