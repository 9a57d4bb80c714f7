"""Law: an epoch that fails raises the same error with workers as without, and changes nothing in either."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.eventtime.panes.panes import Panes
from evercurrent.core.eventtime.panes.unemitted import PendingRows
from evercurrent.core.eventtime.sessions.sessions import Sessions
from evercurrent.core.eventtime.windows.window_tracker import TrackWindows
from evercurrent.core.operators.group.group_by import GroupBy
from evercurrent.views.partitioned import workers

NOON = datetime(2026, 1, 1, 12)
HOUR = timedelta(hours=1)
ROWS = 40

Pushes = list[tuple[str, dict[str, Any]]]
Case = Callable[[ec.Engine], Pushes]
"""Declares the view ``v``, and returns what is pushed: the last batch fails, those before it do not."""

CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    """Name a case by its function."""
    CASES[function.__name__] = function
    return function


def timed(engine: ec.Engine, **options: Any) -> ec.Source:
    return engine.source("s", {"k": pl.Int64, "at": pl.Datetime("us")}, event_time="at", **options)


def untimed(engine: ec.Engine, **types: Any) -> ec.Source:
    return engine.source("s", {"k": pl.Int64, **types})


KEYS = [*range(ROWS)]


@case
def strict_retractions(engine: ec.Engine) -> Pushes:
    source = engine.source("s", {"k": pl.Int64}, kind="diffs", strict=True)
    engine.view("v", source.group_by("k").agg(n=pl.len()))
    return [("s", {"k": [1], "_diff": [1]}), ("s", {"k": KEYS, "_diff": [-1] * 8 + [1] * (ROWS - 8)})]


@case
def rows_behind_a_perfect_watermark(engine: ec.Engine) -> Pushes:
    engine.view("v", timed(engine, watermark=ec.perfect()).group_by("k").agg(n=pl.len()))
    late = [NOON - timedelta(minutes=k if k % 5 == 0 else 0) for k in KEYS]
    return [("s", {"k": [1], "at": [NOON]}), ("s", {"k": KEYS, "at": late})]


@case
def rows_dated_behind_the_watermark(engine: ec.Engine) -> Pushes:
    moved = pl.when(pl.col("k") == 1).then(pl.col("at") + HOUR).otherwise(pl.col("at") - HOUR)
    earlier = timed(engine, watermark=ec.ascending()).with_event_time(moved.alias("b"), strict=True)
    engine.view("v", earlier.window(ec.fixed("1h")).group_by("k").agg(n=pl.len()))
    first = [NOON + timedelta(minutes=90 - k) for k in KEYS]
    return [("s", {"k": [1], "at": [NOON]}), ("s", {"k": KEYS, "at": first})]


@case
def null_event_times(engine: ec.Engine) -> Pushes:
    source = untimed(engine, at=pl.Datetime("us")).with_event_time("at")
    engine.view("v", source.window(ec.fixed("1h")).group_by("k").agg(n=pl.len()))
    return [
        ("s", {"k": [1], "at": [NOON]}),
        ("s", {"k": KEYS, "at": [NOON if k % 3 else None for k in KEYS]}),
    ]


@case
def counts_below_zero_in_sessions(engine: ec.Engine) -> Pushes:
    source = timed(engine, kind="diffs", trusted=True)
    engine.view("v", source.window(ec.sessions("1h")).group_by("k").agg(n=pl.len()))
    return [
        ("s", {"k": [1], "at": [NOON], "_diff": [1]}),
        ("s", {"k": KEYS, "at": [NOON] * ROWS, "_diff": [-1] * ROWS}),
    ]


@case
def counts_below_zero_in_counted_windows(engine: ec.Engine) -> Pushes:
    source = timed(engine, kind="diffs", trusted=True)
    engine.view("v", source.window(ec.count_window(3)).group_by("k").agg(n=pl.len()))
    return [
        ("s", {"k": [1], "at": [NOON], "_diff": [1]}),
        ("s", {"k": KEYS, "at": [NOON] * ROWS, "_diff": [-1] * ROWS}),
    ]


@case
def texts_that_are_no_numbers(engine: ec.Engine) -> Pushes:
    numbers = untimed(engine, t=pl.String).with_columns(x=pl.col("t").str.to_integer())
    engine.view("v", numbers.group_by("k").agg(n=pl.col("x").sum()))
    return [("s", {"k": [1], "t": ["1"]}), ("s", {"k": KEYS, "t": ["1" if k % 4 else f"a{k}" for k in KEYS]})]


@case
def texts_that_are_no_numbers_after_a_grouping(engine: ec.Engine) -> Pushes:
    most = engine.view("most", untimed(engine, t=pl.String).group_by("k").agg(t=pl.col("t").max()))
    engine.view("v", most.with_columns(x=pl.col("t").str.to_integer()).group_by("x").agg(n=pl.len()))
    return [("s", {"k": [1], "t": ["1"]}), ("s", {"k": KEYS, "t": ["5" if k % 4 else "a" for k in KEYS]})]


@case
def results_that_do_not_fit(engine: ec.Engine) -> Pushes:
    total = pl.col("v").sum().cast(pl.Int8, strict=True)
    engine.view("v", untimed(engine, v=pl.Int64).group_by("k").agg(n=total))
    return [("s", {"k": [1], "v": [1]}), ("s", {"k": [k % 7 for k in KEYS], "v": [100] * ROWS})]


@case
def a_function_that_raises(engine: ec.Engine) -> Pushes:
    def few(frame: pl.DataFrame) -> pl.DataFrame:
        if (frame["k"] > 5).any():
            raise ValueError(f"{frame.height} rows")
        return frame

    engine.view("v", untimed(engine).map_batches(few).group_by("k").agg(n=pl.len()))
    return [("s", {"k": [1]}), ("s", {"k": KEYS})]


@case
def rows_too_often(engine: ec.Engine) -> Pushes:
    source = engine.source("s", {"k": pl.Int64, "v": pl.Int64}, kind="diffs")
    engine.view("v", source.group_by("k").agg(n=pl.col("v").quantile(0.3)))
    often = [2**24 + k for k in KEYS]
    return [
        ("s", {"k": [1], "v": [1], "_diff": [1]}),
        ("s", {"k": [k % 9 for k in KEYS], "v": KEYS, "_diff": often}),
    ]


@case
def too_many_partitions(engine: ec.Engine) -> Pushes:
    engine.view("v", timed(engine, watermark=ec.by_partition("k", limit=5)).group_by("k").agg(n=pl.len()))
    return [("s", {"k": [1], "at": [NOON]}), ("s", {"k": KEYS, "at": [NOON] * ROWS})]


@case
def windows_that_end_at_their_start(engine: ec.Engine) -> Pushes:
    def assign(frame: pl.DataFrame) -> pl.DataFrame:
        length = pl.when(pl.col("k") % 3 == 0).then(timedelta()).otherwise(HOUR)
        return frame.select(window_start="at", window_end=pl.col("at") + length)

    engine.view("v", timed(engine).window(ec.custom_windows(assign)).group_by("k").agg(n=pl.len()))
    return [("s", {"k": [1], "at": [NOON]}), ("s", {"k": KEYS, "at": [NOON] * ROWS})]


@case
def bounds_that_are_missing(engine: ec.Engine) -> Pushes:
    source = untimed(engine, window_start=pl.Datetime("us"), window_end=pl.Datetime("us"))
    engine.view("v", source.window(None).group_by("k").agg(n=pl.len()))
    ends = [NOON + HOUR if k % 3 else None for k in KEYS]
    return [
        ("s", {"k": [1], "window_start": [NOON], "window_end": [NOON + HOUR]}),
        ("s", {"k": KEYS, "window_start": [NOON] * ROWS, "window_end": ends}),
    ]


@pytest.fixture(params=[1, workers.FEW_ROWS], ids=["in parts", "in one part"])
def parts(request: pytest.FixtureRequest) -> Iterator[None]:
    """Rows that arrive are divided among workers, or not."""
    with patch.object(workers, "FEW_ROWS", request.param):
        yield


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("name", CASES)
def test_an_error_is_the_same_with_workers(name: str) -> None:
    expected, rows = failure(CASES[name], ec.Engine())
    for count in (2, 3):
        assert failure(CASES[name], ec.Engine(workers=count)) == (expected, rows)


def failure(case: Case, engine: ec.Engine) -> tuple[str, list[tuple[Any, ...]]]:
    """The error of the last batch, after which all is as before and goes on, and the rows of the view at the end."""
    *good, bad = case(engine)
    for source, rows in good:
        engine.push(source, rows)
    before, epoch = sorted(engine.views["v"].read().rows(), key=repr), engine.epoch_number
    with pytest.raises(ec.EvercurrentError) as raised:
        engine.push(*bad)
    assert sorted(engine.views["v"].read().rows(), key=repr) == before
    assert engine.epoch_number == epoch
    for source, rows in good:
        engine.push(source, rows)
    return f"{type(raised.value).__name__}: {raised.value}", sorted(engine.views["v"].read().rows(), key=repr)


def test_what_fails_for_a_part_of_the_rows_only_fails_all_the_same() -> None:
    """Without workers the function sees all rows; a worker sees only some."""

    def many(frame: pl.DataFrame) -> pl.DataFrame:
        if 0 < frame.height < 25:
            raise ValueError(f"only {frame.height} rows")
        return frame

    with patch.object(workers, "FEW_ROWS", 1):
        engine = ec.Engine(workers=2)
        engine.view("v", untimed(engine).map_batches(many).group_by("k").agg(n=pl.len()))
        with pytest.raises(ec.InputError, match="only 20 rows"):
            engine.push("s", {"k": KEYS})
    engine.push("s", {"k": KEYS})
    assert engine.views["v"].read().height == ROWS


class PlantedError(Exception):
    """A fault at the end of a step."""


@pytest.mark.parametrize("kind", [TrackWindows, Sessions, PendingRows, GroupBy, Panes])
def test_a_node_that_fails_at_the_end_of_its_step_leaves_nothing_behind(kind: type) -> None:
    """Neither what it has staged, nor what it has found for others in that epoch."""
    step, faults = kind.step, [False]

    def failing(operator: Any, now: Any, *deltas: Any) -> Any:
        result = step(operator, now, *deltas)
        if faults[0]:
            raise PlantedError
        return result

    engines = [ec.Engine(), ec.Engine(workers=2)]
    for engine in engines:
        panes = (
            timed(engine)
            .window(ec.sessions("1h"))
            .trigger(ec.repeat(ec.after_count(2)))
            .accumulate("discarding")
        )
        engine.view("v", panes.group_by("k").agg(n=pl.len()))
    with patch.object(kind, "step", failing):
        for minute in range(6):
            for engine in engines:
                rows = {"k": [minute % 3, 1], "at": [NOON + timedelta(minutes=5 * minute)] * 2}
                faults[0] = True
                with pytest.raises(PlantedError):
                    engine.push("s", {"k": [7, 1, 2], "at": [NOON - HOUR] * 3})
                faults[0] = False
                engine.push("s", rows)
    expected, found = (sorted(engine.views["v"].read().rows(), key=repr) for engine in engines)
    assert found == expected != []
