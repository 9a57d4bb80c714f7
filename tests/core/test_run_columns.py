"""Runs as columns: what comes back is what was given, also mapped from a file, and nothing of it is copied."""

import datetime as dt
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from evercurrent.core.data.columns.kernels import Keys, key_words
from evercurrent.core.data.errors import CheckpointError
from evercurrent.core.data.schema import DIFF, Order
from evercurrent.core.state.partitioning import KeyColumns
from evercurrent.core.state.run import Layout, Run, empty_run, make_run, run_of_rows
from evercurrent.core.state.run_columns import columns_of_run, run_of_columns
from evercurrent.core.state.run_merge import merge

COLOURS = pl.Enum(["red", "green"])

ROWS = pl.DataFrame(
    {
        "k": [3, 1, None, 3, 2] * 2000,
        "name": ["c", "a", "n", "d", None] * 2000,
        "at": [dt.datetime(2020, 1, day % 28 + 1) for day in range(10_000)],
        "tags": [[1, 2], [], None, [3], [4]] * 2000,
        "inner": [
            {"x": 1, "y": ["a"]},
            {"x": None, "y": None},
            None,
            {"x": 2, "y": []},
            {"x": 3, "y": [None]},
        ]
        * 2000,
        "colour": pl.Series(["red", None, "green", "red", "red"] * 2000, dtype=COLOURS),
        "kind": pl.Series(["p", "q", None, "p", "r"] * 2000, dtype=pl.Categorical),
        "price": pl.Series([Decimal("1.25"), None, Decimal("-3.50"), Decimal(0), Decimal(7)] * 2000),
        "bytes": [b"\0", b"", None, b"xy", b"z"] * 2000,
        "flag": [True, None, False, True, True] * 2000,
        "nothing": pl.Series([None] * 10_000, dtype=pl.Null),
    }
)
LAYOUT = Layout(ROWS.schema, by_row=True, order=(Order("at", descending=True),))


def made(rows: pl.DataFrame, layout: Layout = LAYOUT) -> Run:
    return run_of_rows(layout, KeyColumns.of(["k"]), rows.with_columns(pl.lit(1, pl.Int64).alias(DIFF)))


def mapped(path: Path, columns: pl.DataFrame) -> pl.DataFrame:
    """The columns, written to an uncompressed file and mapped from there."""
    table = columns.rechunk().to_arrow(compat_level=pl.CompatLevel.newest())
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pa.memory_map(str(path)) as source:
        return pl.DataFrame(pl.from_arrow(pa.ipc.open_file(source).read_all(), rechunk=False))


def assert_same(one: Run, other: Run) -> None:
    assert len(one) == len(other)
    for ours, theirs in ((one.keys, other.keys), (one.rows or one.keys, other.rows or other.keys)):
        np.testing.assert_array_equal(ours.first, theirs.first)
        assert (ours.second is None) == (theirs.second is None)
        np.testing.assert_array_equal(ours.seconds(), theirs.seconds())
    assert (one.rows is None) == (other.rows is None)
    assert list(one.sums) == list(other.sums)
    for name, column in one.sums.items():
        np.testing.assert_array_equal(column, other.sums[name])
    assert one.payload.schema == other.payload.schema
    assert_frame_equal(one.payload, other.payload)


def test_a_run_comes_back_from_its_columns() -> None:
    run = made(ROWS)
    assert_same(run_of_columns(LAYOUT, columns_of_run(run)), run)


def test_a_mapped_run_is_the_run_that_was_written(tmp_path: Path) -> None:
    run = made(ROWS)
    assert_same(run_of_columns(LAYOUT, mapped(tmp_path / "run", columns_of_run(run))), run)


def test_keys_are_found_in_a_mapped_run_and_it_merges_with_others(tmp_path: Path) -> None:
    one, other = made(ROWS.head(5000)), made(ROWS.tail(5000))
    run = run_of_columns(LAYOUT, mapped(tmp_path / "run", columns_of_run(one)))
    keys = key_words([pl.Series([3])], 1)
    assert [part.tolist() for part in run.find(keys)] == [part.tolist() for part in one.find(keys)]
    assert_same(merge(LAYOUT, [run, other]), merge(LAYOUT, [one, other]))


def test_many_keys_are_found_by_a_directory_that_is_made_then() -> None:
    values = pl.Series("v", range(100_000))
    run = make_run(Layout(), key_words([values], 100_000), pl.DataFrame(), {DIFF: np.ones(100_000, np.int64)})
    opened = run_of_columns(Layout(), columns_of_run(run))
    assert opened.directory is not None
    assert opened.directory.nbytes == 0
    keys = make_run(
        Layout(), key_words([values[::7]], len(values[::7])), pl.DataFrame(), {DIFF: np.ones(14286, np.int64)}
    ).keys
    for found, expected in zip(opened.match(keys), run.match(keys), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert opened.directory.nbytes > 0


def test_columns_are_mapped_and_not_copied(tmp_path: Path) -> None:
    rows = ROWS.drop("nothing")
    layout = Layout(rows.schema, by_row=True)
    columns = columns_of_run(made(rows, layout))
    frame = mapped(tmp_path / "run", columns)
    before = pa.total_allocated_bytes()
    run = run_of_columns(layout, frame)
    assert pa.total_allocated_bytes() - before < 10_000
    for column in (run.keys.first, run.keys.second, run.rows and run.rows.first, run.sums[DIFF]):
        assert column is not None
        assert not column.flags.owndata
        assert not column.flags.writeable


def test_a_run_gives_its_own_columns() -> None:
    run = made(ROWS)
    columns = columns_of_run(run)
    assert np.shares_memory(columns.get_column("key").to_numpy(), run.keys.first)
    assert np.shares_memory(columns.get_column("sum _diff").to_numpy(), run.sums[DIFF])


@pytest.mark.parametrize("layout", [Layout(), LAYOUT, Layout(pl.Schema({"x": pl.String()}))])
def test_a_run_without_entries(layout: Layout) -> None:
    none = run_of_columns(layout, columns_of_run(empty_run(layout)))
    assert_same(none, empty_run(layout))


def test_the_null_of_an_integer_key_keeps_its_second_word() -> None:
    keys = key_words([pl.Series([1, None, 3])], 3)
    run = make_run(Layout(), keys, pl.DataFrame(), {DIFF: np.ones(3, np.int64)})
    assert_same(run_of_columns(Layout(), columns_of_run(run)), run)


def test_names_of_columns_and_of_sums_do_not_meet() -> None:
    """A payload column may be named as a column of words, or as a sum."""
    layout = Layout(pl.Schema({"key": pl.Int64(), "sum _diff": pl.Int64(), "payload key": pl.Int64()}))
    payload = pl.DataFrame({"key": [1, 2], "sum _diff": [3, 4], "payload key": [5, 6]})
    run = make_run(
        layout, Keys(np.array([7, 8], np.uint64)), payload, {DIFF: np.array([1, -1]), "key": np.array([2, 2])}
    )
    assert_same(run_of_columns(layout, columns_of_run(run)), run)


def test_columns_of_another_state_are_refused() -> None:
    columns = columns_of_run(made(ROWS))
    with pytest.raises(CheckpointError, match="another state"):
        run_of_columns(Layout(pl.Schema({"other": pl.Int64()}), by_row=True), columns)
    with pytest.raises(CheckpointError, match="another state"):
        run_of_columns(Layout(ROWS.schema), columns)
    with pytest.raises(CheckpointError, match="'x'"):
        run_of_columns(Layout(), pl.DataFrame({"x": [1]}))
