"""What a query writes outside, through restarts and kills: each epoch once, and in the end the contents of the view."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("sqlalchemy")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from evercurrent.views.store import LocalStore
from sink_places import ordered
from spark.doomed_query import batches, declare, feed
from spark.doomed_sinks import VIEW, places, run_to_the_end
from spark.offered import declared, emitted_deltas, held
from spark.test_query import forget_last_commit
from spark.test_spark_kill import KILLS, Doomed, long_only, on_linux


def check(folder: Path) -> None:
    """Each place has what the checkpoint has."""
    checkpoint = folder / "checkpoint"
    contents = ordered(held(declared(declare), LocalStore(checkpoint))[VIEW])
    for place in places(folder):
        assert place.rows() == contents, place.kind
    emitted = {
        epoch: sorted(rows) for epoch, rows in emitted_deltas(checkpoint, [VIEW])[VIEW].items() if rows
    }
    logs = {place.kind: place for place in places(folder)}
    for log in (
        pl.read_parquet(folder / "places/parquet/*.parquet"),
        pl.read_delta(str(logs["delta log"].folder / "log")),
    ):
        assert by_epoch(log.rows()) == after_the_first(emitted, log["_epoch"].min())
    lines = [
        [tuple(row) for row in json.loads(line)]
        for line in (folder / "written.jsonl").read_text().splitlines()
    ]
    # The function may get the last epochs again, each as it was, and the contents that it began with too.
    epochs = [by_epoch(rows) for rows in lines]
    seen = [epoch for each in epochs for epoch in each]
    expected = after_the_first(emitted, seen[0])
    assert all(expected[epoch] == rows for each in epochs for epoch, rows in each.items())
    assert set(seen) == set(expected)


def by_epoch(rows: list[tuple]) -> dict[int, list[tuple]]:
    """The rows of each epoch, in order."""
    found: dict[int, list[tuple]] = {}
    for row in rows:
        found.setdefault(row[-2], []).append(row)
    return {epoch: sorted(each) for epoch, each in sorted(found.items())}


def after_the_first(emitted: dict[int, list[tuple]], first: int) -> dict[int, list[tuple]]:
    """The deltas from an epoch on, of which the first has the contents."""
    sums: dict[tuple, int] = {}
    for epoch, rows in emitted.items():
        for row in rows if epoch <= first else ():
            sums[row[:-2]] = sums.get(row[:-2], 0) + row[-1]
    contents = sorted((*row, first, diff) for row, diff in sums.items() if diff)
    return {first: contents} | {epoch: rows for epoch, rows in emitted.items() if epoch > first}


def test_a_query_that_is_started_again_goes_on_where_its_sinks_are(spark: Any, tmp_path: Path) -> None:
    """Spark offers a batch again that is committed by us and written by the sinks."""
    frames = batches(4, 40, lull=2)
    feed(tmp_path / "input", frames[:2])
    run_to_the_end(spark, tmp_path)
    check(tmp_path)
    forget_last_commit(tmp_path / "checkpoint" / "spark")
    feed(tmp_path / "more", frames)
    for number in (2, 3):
        os.rename(tmp_path / "more" / f"{number:06}.parquet", tmp_path / "input" / f"{number:06}.parquet")
    run_to_the_end(spark, tmp_path)
    check(tmp_path)


@long_only
@on_linux
def test_killed_while_it_writes(tmp_path: Path) -> None:
    """kill -9 at random times, also where a sink has an epoch and its reader's position is not yet noted."""
    doomed = Doomed(tmp_path, batches(6 * KILLS, 60, lull=4), program="spark.doomed_sinks")
    draw, kills = random.Random(24), 0
    while kills < KILLS:
        process = doomed.start()
        doomed.await_commits(draw.randrange(1, 4), process)
        time.sleep(draw.uniform(0, 1.5))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
        assert not doomed.finish(process) or kills == KILLS
        assert doomed.ends[-1] in (0, -signal.SIGKILL), doomed.log.read_text()[-4000:]
        if doomed.ends[-1] == 0:
            break
    assert doomed.ends[-1] == 0 or doomed.finish(doomed.start()), doomed.log.read_text()[-4000:]
    print(f"{kills} kills, {doomed.starts} starts, {doomed.commits() - 1} epochs")
    doomed.check()
    check(tmp_path)


def test_sinks_of_a_query_that_has_ended_end_when_it_is_started_again(spark: Any, tmp_path: Path) -> None:
    """They wrote the epochs of the second one too, beside its own sinks."""
    frames = batches(4, 40, lull=2)
    feed(tmp_path / "input", frames[:2])
    first = run_to_the_end(spark, tmp_path)
    assert len(first.deliveries) == len(places(tmp_path)) + 1
    feed(tmp_path / "more", frames)
    os.rename(tmp_path / "more" / "000002.parquet", tmp_path / "input" / "000002.parquet")
    second = run_to_the_end(spark, tmp_path)
    assert not first.deliveries
    assert len(second.deliveries) == len(places(tmp_path)) + 1
    check(tmp_path)
