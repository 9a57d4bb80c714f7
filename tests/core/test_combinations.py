"""Rows that are counted by the combinations of their values are in the groups that hashes of all rows bring them to."""

from __future__ import annotations

from datetime import datetime, timedelta

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
from evercurrent.core.data.columns.combinations import group_by_columns
from evercurrent.core.data.columns.grouping import group
from evercurrent.core.data.columns.kernels import key_words
from strategies import of_profile

HEIGHT = 2_000
DTYPES = [
    pl.Int64(),
    pl.UInt64(),
    pl.Int8(),
    pl.UInt32(),
    pl.Boolean(),
    pl.Date(),
    pl.Datetime("us"),
    pl.Duration("ms"),
]


@st.composite
def columns(draw: st.DrawFn) -> list[pl.Series]:
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    drawn: list[pl.Series] = []
    for place in range(draw(st.integers(1, 4))):
        dtype, count = draw(st.sampled_from(DTYPES)), draw(st.sampled_from([1, 2, 3, 17, 60, 5_000]))
        if drawn and draw(st.booleans()):
            drawn.append(drawn[-1].alias(str(place)))
            continue
        numbers = random.integers(0, count, HEIGHT)
        if not isinstance(dtype, pl.Boolean | pl.Int8):
            numbers = numbers * draw(st.sampled_from([1, 60_000_000, 2**40])) + draw(
                st.sampled_from([0, 7, 10**9])
            )
            numbers = np.where(
                random.random(HEIGHT) < draw(st.sampled_from([0.0, 0.01])), numbers + 1, numbers
            )
        bits = pl.Series(str(place), numbers, pl.Int64)
        if isinstance(dtype, pl.Int64 | pl.Datetime) and draw(st.booleans()):
            bits = bits - draw(st.sampled_from([1, 2**62, 2**63 - 1]))
        if isinstance(dtype, pl.Boolean):
            bits = bits % 2
        if isinstance(dtype, pl.Int8 | pl.UInt32 | pl.Date):
            bits = bits % 100
        narrow = bits.cast(pl.Int32) if isinstance(dtype, pl.Date) else bits
        drawn.append(narrow.cast(dtype))
    return drawn


@of_profile(1.0, quick=100)
@given(columns=columns(), routed=st.integers(0, 2))
def test_groups_are_those_of_the_words(columns: list[pl.Series], routed: int) -> None:
    routed = min(routed, len(columns))
    found = group_by_columns(columns, HEIGHT, routed)
    if found is None:
        return
    expected = group(key_words(columns, HEIGHT, routed))
    assert len(found) == len(expected)
    assert found.keys.first.tolist() == expected.keys.first.tolist()
    assert found.keys.seconds().tolist() == expected.keys.seconds().tolist()
    for name in ("order", "starts", "first_entries", "numbers"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name
    values = np.arange(HEIGHT) - 3
    assert found.sums(values).tolist() == expected.sums(values).tolist()
    assert found.greatest(values).tolist() == expected.greatest(values).tolist()


@pytest.mark.parametrize("step", [1, 3_600_000_000, 2**50])
def test_few_combinations_are_counted(step: int) -> None:
    numbers = np.arange(HEIGHT) % 20
    start = pl.Series("start", numbers * step - 2**62)
    columns = [pl.Series("key", numbers // 2), start, (start + step).alias("end")]
    found = group_by_columns(columns, HEIGHT)
    assert found is not None
    assert len(found) == 20


@pytest.mark.parametrize(
    "column",
    [
        pl.Series("k", ["a", "b"] * (HEIGHT // 2)),
        pl.Series("k", [0, None] * (HEIGHT // 2)),
        pl.Series("k", [1.0, 2.0] * (HEIGHT // 2)),
        pl.Series("k", np.arange(HEIGHT)),
        pl.Series("k", [-(2**63), 2**63 - 1] * (HEIGHT // 2)),
        pl.Series("k", [-(2**62), 2**62] * (HEIGHT // 2)),
    ],
    ids=["texts", "nulls", "floats", "as many as rows", "far apart", "half as far"],
)
def test_other_columns_are_hashed(column: pl.Series) -> None:
    other = pl.Series("other", np.arange(HEIGHT) // 3 % 2)
    assert group_by_columns([other, column], HEIGHT) is None or column.dtype == pl.Int64
    engine = ec.Engine()
    source = engine.source("s", {"other": pl.Int64, "k": column.dtype})
    view = engine.view("v", source.group_by("other", "k").agg(n=pl.len()))
    frame = pl.DataFrame([other, column])
    engine.push("s", frame)
    expected = frame.group_by("other", "k").agg(n=pl.len().cast(pl.Int64))
    assert sorted(view.read().rows(), key=repr) == sorted(expected.rows(), key=repr)


def test_windows_of_many_rows_in_any_order_are_what_polars_counts() -> None:
    engine = ec.Engine()
    source = engine.source("s", {"k": pl.Int64, "t": pl.Datetime("us")}, event_time="t")
    view = engine.view("v", source.window(ec.fixed("1h")).group_by("k").agg(n=pl.len()))
    random, begin = np.random.default_rng(3), datetime(2026, 1, 1)
    for epoch in range(4):
        seconds = random.integers(0, 20_000, HEIGHT) + epoch * 9_000
        times = pl.Series("t", [begin + timedelta(seconds=second) for second in seconds.tolist()])
        engine.push(
            "s", pl.DataFrame({"k": random.integers(0, 5, HEIGHT), "t": times.cast(pl.Datetime("us"))})
        )
    rows = view.read()
    assert rows["n"].sum() == 4 * HEIGHT
    assert (rows["window_end"] - rows["window_start"]).unique().to_list() == [timedelta(hours=1)]
    assert rows.select("k", "window_start").is_duplicated().sum() == 0
