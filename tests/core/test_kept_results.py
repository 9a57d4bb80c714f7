"""Standard deviations of all groups are kept for the next epoch: the deltas add up to those of the state, whatever came between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import evercurrent as ec
from evercurrent.core.operators.group import kept_results
from evercurrent.core.state import merger, run_merge

KEYS, EPOCHS = 200, 14
VALUES = [None, float("nan"), float("inf"), -0.0, 0.0, 1.5, 1e300, -1e300, 5e-324, 2.0**-40, 3.0]


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few groups are kept, and few entries are added to others, as many are."""
    monkeypatch.setattr(kept_results, "FEWEST_KEYS", 1)
    monkeypatch.setattr(run_merge, "FEW_ENTRIES", merger.SAMPLE)
    monkeypatch.setattr(merger, "FEW_ENTRIES", merger.SAMPLE)


def declare(engine: ec.Engine) -> ec.View:
    source = engine.source("rows", {"key": pl.Int64, "value": pl.Float64, "note": pl.Int64}, kind="diffs")
    value = pl.col("value")
    view = engine.view(
        "spread", source.group_by("key").agg(std=value.std(), var=value.var(ddof=0), mean=value.mean())
    )
    engine.view("small", source.select("key", small=pl.col("note").cast(pl.Int8)))
    return view


def batches(seed: int) -> Iterator[pl.DataFrame]:
    """Rows of a growing range of keys, some of which are taken back later, now and then all rows of many keys."""
    generator = np.random.default_rng(seed)
    present = pl.DataFrame(schema={"key": pl.Int64, "value": pl.Float64})
    for epoch in range(EPOCHS):
        most = KEYS - 20 + 2 * epoch
        rows = int(generator.choice([1, 400, 600, 1200]))
        values = [VALUES[each] for each in generator.integers(0, len(VALUES), rows)]
        if generator.random() < 0.5:
            values = (generator.normal(100, 20, rows)).round(2).tolist()
        added = pl.DataFrame(
            {"key": generator.integers(0, most, rows), "value": values}, schema=present.schema
        )
        gone = present.filter(
            pl.lit(generator.random() < 0.3) & (pl.col("key") % 3 == int(generator.integers(0, 3)))
        )
        if not gone.height:
            gone = present.head(present.height // 4)
        present = pl.concat([remaining_rows(present, gone), added])
        signed = [
            added.with_columns(_diff=pl.lit(1, pl.Int64)),
            gone.with_columns(_diff=pl.lit(-1, pl.Int64)),
        ]
        yield pl.concat(signed).with_columns(note=pl.lit(0, pl.Int64))


def remaining_rows(present: pl.DataFrame, gone: pl.DataFrame) -> pl.DataFrame:
    counts = pl.concat([present.with_columns(n=pl.lit(1)), gone.with_columns(n=pl.lit(-1))])
    left = counts.group_by("key", "value", maintain_order=True).agg(pl.col("n").sum())
    return left.select(pl.col("key", "value").repeat_by("n")).explode("key", "value", empty_as_null=False)


def adds_up(view: ec.View) -> None:
    """Check that the deltas since the beginning add up to the contents, to the bit."""
    deltas = pl.concat(view.deltas(since=0))
    columns = [name for name in deltas.columns if name not in ("_diff", "_epoch")]
    sums = deltas.group_by(columns).agg(pl.col("_diff").sum()).filter(pl.col("_diff") != 0)
    assert (sums.get_column("_diff") == 1).all(), sums.sort("key")
    assert sums.select(columns).sort("key").equals(view.read().select(columns).sort("key"))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("most", [KEYS - 5, kept_results.MOST_KEYS])
def test_deltas_add_up(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_results, "MOST_KEYS", most)
    engine = ec.Engine()
    view = declare(engine)
    for number, batch in enumerate(batches(seed)):
        if number % 3 < 2:
            # An epoch that ends after its results are computed, and changes nothing.
            values = np.random.default_rng(number).random(2 * KEYS)
            refused = pl.DataFrame({"key": [*range(KEYS)] * 2, "value": values, "note": 1000})
            with pytest.raises(ec.InputError, match="small"):
                engine.push("rows", refused.with_columns(_diff=pl.lit(1)))
        engine.push("rows", batch)
        if number % 5 == 1:
            engine.push("rows", batch.clear())
        adds_up(view)


def test_purged_groups_are_not_kept() -> None:
    engine = ec.Engine()
    source = engine.source(
        "rows",
        {"key": pl.Int64, "value": pl.Float64, "at": pl.Datetime},
        event_time="at",
        watermark=ec.bounded_delay("0s"),
    )
    windowed = source.window(ec.fixed("1m")).lateness("1m").group_by("key").agg(std=pl.col("value").std())
    view, generator, rows = engine.view("spread", windowed), np.random.default_rng(5), []
    for epoch in range(12):
        key = generator.integers(0, KEYS, 2_000)
        at = pl.Series(epoch * 20_000_000 + generator.integers(0, 10_000_000, 2_000)).cast(pl.Datetime)
        rows.append(pl.DataFrame({"key": key, "value": generator.random(2_000), "at": at}))
        engine.push("rows", rows[-1])
    deltas = pl.concat(view.deltas(since=0)).group_by("key", "window_start", "std").agg(pl.col("_diff").sum())
    every = pl.concat(rows).with_columns(window_start=pl.col("at").dt.truncate("1m"))
    expected = every.group_by("key", "window_start").agg(std=pl.col("value").std(), _diff=pl.lit(1, pl.Int64))
    assert_frame_equal(
        deltas.filter(pl.col("_diff") != 0),
        expected,
        check_row_order=False,
        check_column_order=False,
        check_dtypes=False,
    )


def test_forks_have_their_own() -> None:
    engine = ec.Engine()
    view = declare(engine)
    for number, batch in enumerate(batches(8)):
        if number % 4 == 3:
            fork = engine.fork()
            fork.push(
                "rows",
                {
                    "key": [*range(KEYS)] * 2,
                    "value": [float(each) for each in range(2 * KEYS)],
                    "note": [0] * 2 * KEYS,
                    "_diff": [1] * 2 * KEYS,
                },
            )
            adds_up(fork.views["spread"])
        engine.push("rows", batch)
        adds_up(view)


def test_a_restored_state_is_another_run(tmp_path: Path) -> None:
    rows, contents = [], None
    engine = ec.Engine(checkpoint=tmp_path / "checkpoint")
    view = declare(engine)
    for number, batch in enumerate(batches(9)):
        epoch = engine.push("rows", batch)
        rows += [each.drop("_epoch", strict=False) for each in view.deltas(since=epoch - 1)]
        if number % 3 == 2:
            engine.close()
            engine = ec.Engine(checkpoint=tmp_path / "checkpoint")
            view = declare(engine)
        contents = view.read().sort("key")
    engine.close()
    assert contents is not None
    sums = pl.concat(rows).group_by(contents.columns).agg(pl.col("_diff").sum()).filter(pl.col("_diff") != 0)
    assert sums.sort("key").drop("_diff").equals(contents)
