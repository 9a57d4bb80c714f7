"""Medians of all keys are kept for the next epoch where they are few: with them and without, values are those of the rows."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.operators.group import ranked_states

KEYS, ROWS, EPOCHS = 300, 2_000, 5


@pytest.mark.parametrize("most", [0, KEYS - 1, ranked_states.MOST_KEYS])
def test_medians_are_those_of_the_rows(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranked_states, "MOST_KEYS", most)
    generator = np.random.default_rng(7)
    engine = ec.Engine()
    source = engine.source("rows", {"key": pl.Int64, "value": pl.Float64}, kind="diffs")
    view = engine.view("medians", source.group_by("key").agg(middle=pl.col("value").median()))
    engine.view("small", source.select("key", small=pl.col("value").cast(pl.Int8)))
    present = pl.DataFrame(schema={"key": pl.Int64, "value": pl.Float64})
    for _ in range(EPOCHS):
        added = pl.DataFrame({"key": generator.integers(0, KEYS, ROWS), "value": generator.random(ROWS)})
        # An epoch that ends after its medians are computed, and changes nothing: the next one begins with those before it.
        with pytest.raises(ec.InputError, match="small"):
            engine.push("rows", added.with_columns(value=pl.lit(1000.0), _diff=pl.lit(1)))
        taken_back = present.sample(min(present.height, ROWS // 3), seed=3)
        engine.push(
            "rows",
            pl.concat(
                [added.with_columns(_diff=pl.lit(1)), taken_back.with_columns(_diff=pl.lit(-1))],
                how="vertical_relaxed",
            ),
        )
        present = pl.concat([present.join(taken_back, on=["key", "value"], how="anti"), added])
        expected = present.group_by("key").agg(middle=pl.col("value").median())
        assert view.read().sort("key").equals(expected.sort("key"))
        deltas = pl.concat(view.deltas(since=0)).group_by("key", "middle").agg(pl.col("_diff").sum())
        remaining = deltas.filter(pl.col("_diff") != 0).sort("key")
        assert remaining.equals(expected.sort("key").with_columns(_diff=pl.lit(1, pl.Int64)))
