"""A row that is refused for its time changes nothing: neither its own key nor what stands for it later."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
from strategies import of_profile

COLUMNS = {"id": pl.Int64, "v": pl.Int64, "at": pl.Datetime("us")}

NO_TIMES = (None, 2**63 - 1, 2**62, -(2**62), -(2**63) + 1)
"""Event times, in microseconds, with which a row is refused."""

times = st.one_of(st.integers(0, 60_000_000), st.sampled_from(NO_TIMES))
changes = st.tuples(st.integers(0, 2), st.integers(0, 9), times, st.sampled_from((1, 1, 1, -1)))
histories = st.lists(st.lists(changes, max_size=4), max_size=8)


def engine_of(sequence: str | None) -> ec.Engine:
    engine = ec.Engine()
    readings = engine.source(
        "readings", COLUMNS, kind="upsert", key="id", sequence_by=sequence, event_time="at",
        watermark=ec.bounded_delay("10s"),
    )  # fmt: skip
    engine.view("now", readings)
    engine.view("panes", readings.window(ec.fixed("10s")).group_by("id").agg(most=pl.col("v").max()))
    return engine


def frame_of(batch: list[Any]) -> pl.DataFrame:
    frame = pl.DataFrame(batch, schema={**COLUMNS, "at": pl.Int64, "_diff": pl.Int64}, orient="row")
    return frame.with_columns(pl.col("at").cast(pl.Datetime("us")))


@pytest.mark.parametrize("sequence", [None, "v"])
@of_profile(quick=40)
@given(histories)
def test_a_row_that_is_refused_for_its_time_changes_nothing(
    sequence: str | None, history: list[list[Any]]
) -> None:
    engine, without = engine_of(sequence), engine_of(sequence)
    refused = 0
    for batch in history:
        bad = [row for row in batch if row[3] > 0 and row[2] in NO_TIMES]
        engine.push("readings", frame_of(batch))
        without.push("readings", frame_of([row for row in batch if row not in bad]))
        refused += len(bad)
        for name, view in engine.views.items():
            assert sorted(view.read().rows()) == sorted(without.views[name].read().rows())
    assert engine.ledger().height == without.ledger().height + refused


def test_a_row_with_a_time_out_of_range_does_not_replace_the_row_of_its_key() -> None:
    engine = engine_of(None)
    engine.push("readings", frame_of([(1, 5, 0, 1)]))
    engine.push("readings", frame_of([(1, 6, 2**62, 1)]))
    assert engine.views["now"].read().get_column("v").to_list() == [5]
    assert engine.ledger().get_column("reason").to_list() == [
        "event time 'at' is too far from 1970 to count with; mend the time and push the row again"
    ]
