"""The words of rows in the order of all their values are made late, and are the same as those that are made at once."""

import numpy as np
import polars as pl
import pytest

from evercurrent.core.data.columns.kernels import Keys, key_words
from evercurrent.core.data.columns.key_hash import OF_POLARS, OURS, KeyHash, hashing_by
from evercurrent.core.data.schema import DIFF, Order
from evercurrent.core.state.narrowing import narrowed
from evercurrent.core.state.partitioning import KeyColumns
from evercurrent.core.state.row_words import DeferredWords
from evercurrent.core.state.run import Layout, Run, make_run, run_of_rows
from evercurrent.core.state.run_merge import merge
from evercurrent.core.state.spine import Spine, Version

KEYS = KeyColumns.of(("key",))
VALUES = [3.5, -1.0, 3.5, float("nan"), float("inf"), 0.0, 2.25, -1.0, float("nan")]


def layout_of(dtype: pl.DataType, *, descending: bool = False) -> Layout:
    """Return a layout of rows that are one value."""
    return Layout(pl.Schema({"value": dtype}), by_row=True, order=(Order("value", descending=descending),))


def frame_of(values: pl.Series, seed: int) -> pl.DataFrame:
    """Return rows of a few keys, in a random order."""
    random = np.random.default_rng(seed)
    rows = values.sample(3_000, with_replacement=True, seed=seed)
    keys, diffs = random.integers(0, 40, len(rows)), random.choice([1, 1, 2, -1], len(rows))
    return pl.DataFrame([pl.Series("key", keys), rows, pl.Series(DIFF, diffs)])


def at_once(layout: Layout, frame: pl.DataFrame) -> Run:
    """Return the run whose words are made first, as that of rows of several values."""
    payload = frame.select([*layout.payload])
    words = key_words(payload.get_columns(), frame.height)
    return make_run(layout, KEYS.words(frame), payload, {DIFF: frame.get_column(DIFF).to_numpy()}, words)


def check(one: Run, other: Run) -> None:
    """Assert that two runs are equal in every column."""
    assert one.payload.equals(other.payload)
    np.testing.assert_array_equal(one.sums[DIFF], other.sums[DIFF])
    pairs = [(one.keys, other.keys), (one.rows, other.rows)]
    for mine, theirs in pairs:
        assert mine is not None
        assert theirs is not None
        np.testing.assert_array_equal(mine.first, theirs.first)
        np.testing.assert_array_equal(mine.seconds(), theirs.seconds())


@pytest.mark.parametrize("dtype", [pl.Float64(), pl.Float32(), pl.Int64(), pl.UInt64(), pl.Datetime("us")])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("key_hash", [OURS, OF_POLARS])
def test_runs_and_merges_are_the_same(dtype: pl.DataType, descending: bool, key_hash: KeyHash) -> None:
    values = pl.Series("value", VALUES if dtype.is_float() else [5, 7, 0, 2**40, 1, 12]).cast(dtype)
    layout = layout_of(dtype, descending=descending)
    frames = [frame_of(values, seed) for seed in range(3)]
    with hashing_by(key_hash):
        late, early = (
            [run_of_rows(layout, KEYS, each) for each in frames],
            [at_once(layout, each) for each in frames],
        )
    for one, other in zip(late, early, strict=True):
        assert isinstance(one.row_words, DeferredWords)
        check(one, other)
    with hashing_by(key_hash):
        late = [run_of_rows(layout, KEYS, each) for each in frames]
        expected = merge(layout, early)
    # Merged by a reader's thread, in which no hash is in force; one of the runs comes from a checkpoint.
    for runs in (late, [early[0], *late[1:]], [*late[:2], early[2]]):
        merged = merge(layout, runs)
        assert isinstance(merged.row_words, DeferredWords)
        check(merged, expected)
    part = late[0].between(0, 2**62)
    check(part, early[0].between(0, 2**62))
    positions = np.arange(3, 40, 7)
    rows = early[0].rows
    assert rows is not None
    np.testing.assert_array_equal(late[0].rows_at(positions).first, rows.first[positions])


def test_rows_of_several_values_are_the_same_if_all_are_in_the_order() -> None:
    """As the greatest numbers are kept: those that are no number behind the others."""
    schema = pl.Schema({"value": pl.Float64(), "is_nan": pl.Boolean()})
    orders = Order("is_nan", nulls_last=True), Order("value", descending=True, nulls_last=True)
    layout = Layout(schema, by_row=True, order=orders)
    frames = [
        frame_of(pl.Series("value", VALUES), seed).select(
            "key", "value", pl.col("value").is_nan().alias("is_nan"), DIFF
        )
        for seed in range(3)
    ]
    late = [run_of_rows(layout, KEYS, each) for each in frames]
    early = [at_once(layout, each) for each in frames]
    for one, other in zip((*late, merge(layout, late)), (*early, merge(layout, early)), strict=True):
        assert isinstance(one.row_words, DeferredWords)
        check(one, other)
    partly = Layout(schema, by_row=True, order=orders[:1])
    assert isinstance(run_of_rows(partly, KEYS, frames[0]).row_words, Keys)


def test_rows_with_nulls_have_words_at_once() -> None:
    layout = layout_of(pl.Float64())
    plain = frame_of(pl.Series("value", VALUES), 1)
    nulls = frame_of(pl.Series("value", [*VALUES, None]), 2)
    runs = [run_of_rows(layout, KEYS, each) for each in (plain, nulls)]
    assert isinstance(runs[1].row_words, Keys)
    merged = merge(layout, runs)
    assert isinstance(merged.row_words, Keys)
    check(merged, merge(layout, [at_once(layout, each) for each in (plain, nulls)]))


def test_few_keys_are_read_without_the_words_of_all_rows() -> None:
    layout = layout_of(pl.Float64())
    run = run_of_rows(layout, KEYS, frame_of(pl.Series("value", VALUES), 1))
    key = KEYS.words(pl.DataFrame({"key": [17]}))
    version = narrowed(Spine(layout, keys=KEYS), Version(((run,), ())), key)
    (cut,), _ = version.parts
    assert 0 < len(cut) < 10
    assert run.row_words is not None
    assert run.row_words.nbytes == 0
