"""Runs in files: what is mapped is what was written, and nothing of it is copied."""

import datetime as dt
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from evercurrent.core.errors import FileError
from evercurrent.core.kernels import key_words
from evercurrent.core.run import Layout, Run, merge, run_of_rows
from evercurrent.core.run_files import map_run, write_run
from evercurrent.core.schema import DIFF, Order

ROWS = pl.DataFrame(
    {
        "k": [3, 1, None, 3, 2] * 2000,
        "name": ["c", "a", "n", "d", None] * 2000,
        "at": [dt.datetime(2020, 1, day % 28 + 1) for day in range(10_000)],
        "tags": [[1, 2], [], None, [3], [4]] * 2000,
    }
)
LAYOUT = Layout(ROWS.schema, by_row=True, order=(Order("at", descending=True),))


def made(rows: pl.DataFrame) -> Run:
    return run_of_rows(LAYOUT, ["k"], rows.with_columns(pl.lit(1, pl.Int64).alias(DIFF)))


def assert_same(one: Run, other: Run) -> None:
    assert len(one) == len(other)
    np.testing.assert_array_equal(one.keys.first, other.keys.first)
    np.testing.assert_array_equal(one.keys.seconds(), other.keys.seconds())
    np.testing.assert_array_equal(one.sums[DIFF], other.sums[DIFF])
    assert_frame_equal(one.payload, other.payload)


def test_a_mapped_run_is_the_run_that_was_written(tmp_path: Path) -> None:
    run = made(ROWS)
    write_run(tmp_path / "run", run)
    assert_same(map_run(tmp_path / "run", LAYOUT), run)


def test_keys_are_found_in_a_mapped_run_and_it_merges_with_others(tmp_path: Path) -> None:
    one, other = made(ROWS.head(5000)), made(ROWS.tail(5000))
    write_run(tmp_path / "run", one)
    mapped = map_run(tmp_path / "run", LAYOUT)
    keys = key_words([pl.Series([3])], 1)
    assert [part.tolist() for part in mapped.find(keys)] == [part.tolist() for part in one.find(keys)]
    assert_same(merge(LAYOUT, [mapped, other]), merge(LAYOUT, [one, other]))


def test_columns_are_mapped_and_not_copied(tmp_path: Path) -> None:
    write_run(tmp_path / "run", made(ROWS))
    before = pa.total_allocated_bytes()
    mapped = map_run(tmp_path / "run", LAYOUT)
    assert pa.total_allocated_bytes() - before < 10_000
    assert not mapped.keys.first.flags.owndata
    assert not mapped.sums[DIFF].flags.owndata


def test_a_file_that_is_no_run_is_refused_by_name(tmp_path: Path) -> None:
    torn = tmp_path / "torn"
    write_run(torn, made(ROWS))
    torn.write_bytes(torn.read_bytes()[:-100])
    with pytest.raises(FileError, match="torn"):
        map_run(torn, LAYOUT)
    ROWS.write_ipc(tmp_path / "frame")
    with pytest.raises(FileError, match="format None"):
        map_run(tmp_path / "frame", LAYOUT)
