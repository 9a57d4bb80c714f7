"""A query that is started again: with the folder that belongs to it, and with a sink that has failed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.errors import CheckpointError
from evercurrent.spark_bridge import run
from spark.doomed_query import VIEWS, batches, declare
from spark.twins import counted

HITS = batches(4, 30)


def start(stream: Any, checkpoint: Path, **options: Any) -> Any:
    engine = ec.Engine()
    declare(engine)
    return run(
        engine, {"hits": stream}, checkpoint=checkpoint, buckets=3, trigger={"availableNow": True}, **options
    )


def test_spark_cannot_begin_anew_where_epochs_are_committed(spark: Any, feed: Any, checkpoint: Path) -> None:
    """Its first batches would be taken for those that are done, and their rows would be lost."""
    stream = feed(HITS[:3])
    start(stream, checkpoint).await_termination()
    shutil.copytree(checkpoint / "spark", checkpoint.with_name("copy"))
    shutil.rmtree(checkpoint / "spark")
    feed(HITS[3:])
    broken = start(stream, checkpoint)
    with pytest.raises(Exception, match="is not the one with which micro-batches up to 2 were committed"):
        broken.await_termination()
    shutil.rmtree(checkpoint / "spark")
    shutil.copytree(checkpoint.with_name("copy"), checkpoint / "spark")
    again = start(stream, checkpoint)
    again.await_termination()
    assert_whole(again)


def test_a_sink_that_fails_is_told_the_same_again(spark: Any, feed: Any, checkpoint: Path) -> None:
    heard: list[tuple[str, int, Any]] = []

    def fails_once(view: str, delta: Any, epoch: int) -> None:
        rows = counted([pl.DataFrame(delta.toArrow())])
        is_first = (view, epoch) not in [(view, epoch) for view, epoch, _ in heard]
        heard.append((view, epoch, rows))
        if is_first and view == VIEWS[1]:
            raise RuntimeError(f"the sink is full at epoch {epoch}")

    stream = feed(HITS)
    for epoch in range(1, len(HITS) + 1):
        query = start(stream, checkpoint, on_epoch=fails_once)
        with pytest.raises(Exception, match=f"full at epoch {epoch}"):
            query.await_termination()
        assert query.epoch_number == epoch - 1
    query = start(stream, checkpoint, on_epoch=fails_once)
    query.await_termination()
    assert_whole(query)
    for name in VIEWS:
        for delta in query.view(name).deltas(since=0):
            told = [rows for view, epoch, rows in heard if (view, epoch) == (name, delta["_epoch"][0])]
            assert told
            assert all(rows == counted([delta]) for rows in told)


def assert_whole(query: Any) -> None:
    """Every view says what the embedded engine says."""
    engine = ec.Engine()
    declare(engine)
    for frame in HITS:
        engine.push("hits", frame)
    assert query.epoch_number == engine.epoch_number
    for name, view in engine.views.items():
        told = {frame["_epoch"][0]: counted([frame]) for frame in query.view(name).deltas()}
        assert told == {frame["_epoch"][0]: counted([frame]) for frame in view.deltas()}
        assert counted([query.view(name).read()]) == counted([view.read()])


def test_a_source_gets_a_column_between_two_runs(spark: Any, feed: Any, checkpoint: Path) -> None:
    """What three buckets hold is carried over by the embedded engine, and cut into three again."""
    from pyspark.sql import functions as F  # noqa: N812 (the name that everybody knows)

    def declared(path: Path | None, *more: str) -> ec.Engine:
        engine = ec.Engine(checkpoint=path)
        columns = {**HITS[0].drop("_diff").schema, **dict.fromkeys(more, pl.String)}
        hits = engine.source("hits", columns, kind="diffs", trusted=True)
        engine.view("all", hits)
        engine.view("counts", hits.group_by(HITS[0].columns[0]).agg(n=pl.len()))
        return engine

    def ran(engine: ec.Engine, stream: Any) -> Any:
        query = run(
            engine, {"hits": stream}, checkpoint=checkpoint, buckets=3, trigger={"availableNow": True}
        )
        query.await_termination()
        return query

    stream = feed(HITS[:2])
    ran(declared(None), stream)
    feed(HITS[2:])
    fuller = stream.withColumn("note", F.lit("new"))
    with pytest.raises(
        CheckpointError, match=r"source 'hits': column 'note' is new.*open it once with Engine"
    ):
        ran(declared(None, "note"), fuller)
    with declared(checkpoint, "note") as engine:
        assert set(engine.views["all"].read().get_column("note")) == {None}
    query = ran(declared(None, "note"), fuller)
    whole = declared(None, "note")
    for number, frame in enumerate(HITS):
        whole.push("hits", frame.with_columns(note=pl.lit(None if number < 2 else "new", pl.String)))
    for name, view in whole.views.items():
        assert counted([query.view(name).read()]) == counted([view.read()])


def test_a_stream_of_other_files_is_refused_by_name(spark: Any, feed: Any, checkpoint: Path) -> None:
    """Spark would read them all: rows that have come already would count twice."""
    start(feed(HITS[:1]), checkpoint).await_termination()
    with pytest.raises(
        CheckpointError,
        match=r"source 'hits' was begun with the files of '/.*/input', and its stream reads '/.*/moved'",
    ):
        start(feed(HITS, into="moved"), checkpoint)
    feed(HITS[1:])
    again = start(feed([HITS[0].clear()]), checkpoint)
    again.await_termination()
    assert again.epoch_number == len(HITS) + 1
