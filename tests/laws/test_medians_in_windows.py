"""Law: medians of windows are those of all of their rows, however they come late, are taken back, or close."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from unittest.mock import Mock, patch

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given
from polars.testing import assert_frame_equal

import evercurrent as ec
from evercurrent.core.state import ranked_runs, spine
from evercurrent.views.compiler import aggregate_states
from strategies import of_profile

NOON = datetime(2026, 1, 1, 12)
COLUMNS = {"k": pl.String, "x": pl.Float64, "t": pl.Datetime("us")}

WINDOWS: dict[str, Callable[[ec.Source], ec.Collection]] = {
    "fixed": lambda rows: rows.window(ec.fixed("10s")),
    "fixed, closing": lambda rows: rows.window(ec.fixed("10s")).lateness("5s"),
    "sliding, closing": lambda rows: rows.window(ec.sliding("20s", every="10s")).lateness("5s"),
    "sessions": lambda rows: rows.window(ec.sessions("4s")),
    "sessions, closing": lambda rows: rows.window(ec.sessions("4s")).lateness("5s"),
    "counted": lambda rows: rows.window(ec.count_window(3)),
    "panes": lambda rows: rows.window(ec.fixed("10s")).trigger(ec.after_watermark()).lateness("5s"),
    "panes, discarding": lambda rows: (
        rows.window(ec.fixed("10s")).trigger(late=ec.every_epoch()).accumulate("discarding").lateness("5s")
    ),
}


DISCARDED = ("panes, discarding", "diffs")
"""What is refused: such panes do not keep their rows."""


def engine_of(name: str, kind: str, *, by_ranks: bool) -> ec.Engine:
    ranked = Mock(side_effect=aggregate_states.ranked if by_ranks else lambda expr: None)
    with patch.object(aggregate_states, "ranked", ranked):
        engine = ec.Engine()
        rows = engine.source(
            "rows", COLUMNS, kind=kind, event_time="t", watermark=ec.bounded_delay("3s"), strict=False
        )  # type: ignore[call-overload]
        windowed = WINDOWS[name](rows).group_by("k")
        engine.view("v", windowed.agg(pl.col("x").median(), high=pl.col("x").quantile(0.8, "linear")))
        engine.views["v"].read()
    assert ranked.called, "compiled here"
    return engine


CASES = [(name, kind) for name in WINDOWS for kind in ("append", "diffs") if (name, kind) != DISCARDED]


@pytest.mark.parametrize(("name", "kind"), CASES)
@of_profile(quick=10)
@given(seed=st.integers(0, 2**32))
def test_they_are_those_of_all_rows(name: str, kind: str, seed: int) -> None:
    draw, there = random.Random(seed), list[tuple[str, float, datetime]]()
    with patch.multiple(ranked_runs, NEAR=0, READ_AT_ONCE=0), patch.object(spine, "AT_ONCE", 0):
        ours, theirs = (engine_of(name, kind, by_ranks=by_ranks) for by_ranks in (True, False))
        for epoch in range(15):
            come = [
                (draw.choice("ab"), draw.choice([1.0, 2.0, 7.5]), NOON + timedelta(seconds=at + 2 * epoch))
                for at in draw.choices(range(-12, 6), k=draw.randrange(6))
            ]
            gone = draw.sample(there, min(len(there), draw.choice([0, 1, 4]))) if kind == "diffs" else []
            for row in gone:
                there.remove(row)
            there += come
            diffs = pl.Series("_diff", [1] * len(come) + [-1] * len(gone), pl.Int64)
            frame = pl.DataFrame(come + gone, COLUMNS, orient="row")
            frame = frame.with_columns(diffs) if kind == "diffs" else frame
            for engine in (ours, theirs):
                engine.push("rows", frame)
            (one, *_), (other, *_) = (
                [*engine.views["v"].deltas(since=epoch)] or [None] for engine in (ours, theirs)
            )
            assert (one is None) == (other is None)
            if one is not None and other is not None:
                assert_frame_equal(one, other, check_exact=True)
            assert_frame_equal(
                ours.views["v"].read(), theirs.views["v"].read(), check_exact=True, check_row_order=False
            )
