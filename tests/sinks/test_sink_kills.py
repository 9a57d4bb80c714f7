"""Sinks whose writer is killed at any moment hold each epoch once all the same."""

from __future__ import annotations

import itertools
import os
import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from hypothesis import settings

from sink_places import summed

pytest.importorskip("sqlalchemy")

WRITER = Path(__file__).with_name("doomed_writer.py")


@pytest.mark.parametrize("every", [1, 9])
def test_a_killed_writer_goes_on_where_its_sinks_are(tmp_path: Path, every: int) -> None:
    is_long = settings.get_current_profile_name() == "long"
    chance = random.Random(time.time_ns() if is_long else 7)
    for _ in range(40 if is_long else 3):
        writer = subprocess.Popen(
            [sys.executable, WRITER, tmp_path, str(every)], stdout=subprocess.PIPE, text=True, env=os.environ
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0, 0.5))
        writer.kill()
        writer.wait()
    done = subprocess.run(
        [sys.executable, WRITER, tmp_path, str(every), "once"], capture_output=True, text=True, check=True
    )
    epoch, rows = done.stdout.splitlines()[1].split(" ", 1)
    with sqlite3.connect(tmp_path / "sums.db") as database:
        assert str(sorted(database.execute("select * from sums").fetchall())) == rows
        assert database.execute("select epoch from evercurrent_epochs").fetchall() == [(int(epoch),)]
    feed = pl.read_parquet(tmp_path / "feed" / "*.parquet")
    assert str(summed(feed)) == rows
    spans = sorted(path.stem.split("-") for path in (tmp_path / "feed").glob("*.parquet"))
    assert all(last < first for (_, last), (first, _) in itertools.pairwise(spans))
