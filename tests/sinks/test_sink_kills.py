"""Sinks whose writer is killed at any moment hold each epoch once all the same."""

from __future__ import annotations

import itertools
import random
import sqlite3
import time
from pathlib import Path

import polars as pl
import pytest
from hypothesis import settings

from forked import forked
from sink_places import summed
from sinks.doomed_writer import write

pytest.importorskip("sqlalchemy")


@pytest.mark.parametrize("every", [1, 9])
def test_a_killed_writer_goes_on_where_its_sinks_are(tmp_path: Path, every: int) -> None:
    is_long = settings.get_current_profile_name() == "long"
    chance = random.Random(time.time_ns() if is_long else 7)
    for _ in range(40 if is_long else 3):
        writer, receiving = forked(write, tmp_path, every, 1000)
        assert receiving.recv() == "ready"
        time.sleep(chance.uniform(0, 0.5))
        writer.kill()
        writer.join()
    writer, receiving = forked(write, tmp_path, every, 1)
    assert receiving.recv() == "ready"
    epoch, rows = receiving.recv()
    writer.join()
    assert writer.exitcode == 0
    with sqlite3.connect(tmp_path / "sums.db") as database:
        assert sorted(database.execute("select * from sums").fetchall()) == rows
        assert database.execute("select epoch from evercurrent_epochs").fetchall() == [(epoch,)]
    feed = pl.read_parquet(tmp_path / "feed" / "*.parquet")
    assert summed(feed) == rows
    spans = sorted(path.stem.split("-") for path in (tmp_path / "feed").glob("*.parquet"))
    assert all(last < first for (_, last), (first, _) in itertools.pairwise(spans))
