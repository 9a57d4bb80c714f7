"""A query that is started again: with the folder that belongs to it, and with a sink that has failed."""

from __future__ import annotations

import shutil
import traceback
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import evercurrent as ec
from evercurrent.core.data.errors import CheckpointError
from evercurrent.spark_bridge import run
from evercurrent.views.cli.checkpoint import app
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


def test_a_sink_that_fails_receives_the_same_again(spark: Any, feed: Any, checkpoint: Path) -> None:
    received: list[tuple[str, int, Any]] = []

    def fails_once(view: str, delta: Any, epoch: int) -> None:
        rows = counted([pl.DataFrame(delta.toArrow())])
        is_first = (view, epoch) not in [(view, epoch) for view, epoch, _ in received]
        received.append((view, epoch, rows))
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
            deliveries = [
                rows for view, epoch, rows in received if (view, epoch) == (name, delta["_epoch"][0])
            ]
            assert deliveries
            assert all(rows == counted([delta]) for rows in deliveries)


def test_a_sink_that_raises_is_shown_by_its_traceback_and_one_sentence(
    spark: Any, feed: Any, checkpoint: Path
) -> None:
    def sink(view: str, delta: Any, epoch: int) -> None:
        delta.select("no_such_column").collect() if in_spark else {}["no such key"]

    stream, sentence = (
        feed(HITS[:1]),
        rf"^view '{VIEWS[0]}': on_epoch= raised \w+ for epoch 1: .*no.such.*; nothing of the epoch",
    )
    for in_spark in (False, True):
        with pytest.raises(ec.SinkError, match=sentence) as raised:
            start(stream, checkpoint, on_epoch=sink).await_termination(60)
        shown = "".join(traceback.format_exception(raised.value.__cause__)).splitlines()
        assert "in sink" in shown[1], "the function of the user comes first"
        assert len(shown) < (60 if in_spark else 12)
        assert not any("lineWithError" in line or "micro_batches" in line for line in shown)
    start(stream, checkpoint, on_epoch=lambda *_: None).await_termination(60)


@pytest.mark.parametrize("end", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
@pytest.mark.parametrize("place", ["sink", "view"])
def test_a_function_that_ends_its_thread_ends_the_query(
    spark: Any, feed: Any, checkpoint: Path, end: BaseException, place: str
) -> None:
    """Java would wait for its answer for ever, and so would whoever waits for the query, or stops it."""

    def ends(frame: pl.DataFrame) -> pl.DataFrame:
        if frame.height and place == "view" and not is_repaired:
            raise end
        return frame

    def sink(view: str, delta: Any, epoch: int) -> None:
        if place == "sink" and not is_repaired:
            raise end

    def started() -> Any:
        engine = ec.Engine()
        hits = engine.source("hits", HITS[0].drop("_diff").schema, kind="diffs", trusted=True)
        engine.view("hits", hits.map_batches(ends, version=1))
        once = {"availableNow": True}
        return run(engine, {"hits": stream}, checkpoint=checkpoint, buckets=3, trigger=once, on_epoch=sink)

    is_repaired = False
    stream = feed(HITS[:1])
    query = started()
    with pytest.raises(ec.EvercurrentError, match=f"^{type(end).__name__}: .*cannot end the process"):
        query.await_termination(60)
    assert not query.isActive
    is_repaired = True
    again = started()
    assert again.await_termination(60)
    assert again.epoch_number == 1


def test_what_takes_an_epoch_is_refused_where_a_sink_may_have_its_deltas(
    spark: Any, feed: Any, checkpoint: Path
) -> None:
    """A fill, or other buckets, between the sink and the commit: the micro-batch would come to the sink under two numbers."""
    got: list[tuple[str, int]] = []
    is_full = True

    def sink(view: str, delta: Any, epoch: int) -> None:
        got.append((view, epoch))
        if is_full and epoch == 2:
            raise RuntimeError("the sink is full")

    def started(buckets: int, *, has_more: bool) -> Any:
        engine = ec.Engine()
        declare(engine)
        if has_more:
            engine.view("more", engine.views[VIEWS[0]])
        once = {"availableNow": True}
        return run(
            engine, {"hits": stream}, checkpoint=checkpoint, buckets=buckets, trigger=once, on_epoch=sink
        )

    stream = feed(HITS)
    with pytest.raises(Exception, match="the sink is full"):
        started(3, has_more=False).await_termination()
    begun = r"micro-batch 1 ended before its commit, and on_epoch= may have its deltas as those of epoch 2"
    with pytest.raises(CheckpointError, match=f"{begun}.*the views that it had, and declare the others"):
        started(3, has_more=True)
    with pytest.raises(CheckpointError, match=f"{begun}.*with buckets=3, and with 5 when"):
        started(5, has_more=False)
    is_full = False
    query = started(3, has_more=False)
    query.await_termination()
    assert_whole(query)
    query = started(5, has_more=True)
    query.await_termination()
    assert counted([query.view("more").read()]) == counted([query.view(VIEWS[0]).read()])
    assert ("more", query.epoch_number) in got


def test_no_other_epoch_takes_the_number_that_a_sink_may_have(
    spark: Any, feed: Any, checkpoint: Path
) -> None:
    """The end of the input, and the commands that add an epoch: a sink would get the same rows under two numbers."""
    query, started = failed_in_a_sink(spark, feed, checkpoint)
    begun = "micro-batch 1 ended before its commit, and on_epoch= may have its deltas as those of epoch 2"
    with pytest.raises(CheckpointError, match=f"{begun}.*start the query again"):
        query.finish()
    for command in (["compact"], ["rebucket", "--buckets", "2"]):
        done = CliRunner().invoke(app, [*command, str(checkpoint)])
        assert done.exit_code == 1
        assert begun in " ".join(done.output.split())
    again = started()
    again.await_termination()
    assert_whole(again)
    for command in (["compact"], ["rebucket", "--buckets", "2"]):
        assert CliRunner().invoke(app, [*command, str(checkpoint)]).exit_code == 0
    assert again.finish() == len(HITS) + 3


def test_a_sink_does_not_get_a_micro_batch_under_two_numbers(spark: Any, feed: Any, checkpoint: Path) -> None:
    """An engine in one process does not have the sink, and goes on with the number under which that has rows."""
    _, started = failed_in_a_sink(spark, feed, checkpoint)
    with ec.Engine(checkpoint=checkpoint) as engine:
        declare(engine)
        engine.push("hits", HITS[3])
        epoch = engine.epoch_number
    query = started(buckets=1)
    with pytest.raises(
        CheckpointError,
        match=rf"the deltas of micro-batch 1 as those of epoch 2, .* as those of epoch {epoch + 1}; delete them .*batches/0+1 in",
    ):
        query.await_termination()
    assert query.epoch_number == epoch
    (checkpoint / "batches" / f"{1:012}").unlink()
    query = started(buckets=1)
    query.await_termination()
    assert query.epoch_number > epoch


def failed_in_a_sink(spark: Any, feed: Any, checkpoint: Path) -> tuple[Any, Any]:
    """Return a query whose sink had epoch 2 before its commit, and what starts it again with a sink that does not fail."""
    failures = iter([RuntimeError("the sink is full")])

    def sink(view: str, delta: Any, epoch: int) -> None:
        if epoch == 2 and (failure := next(failures, None)) is not None:
            raise failure

    def started(buckets: int = 3) -> Any:
        engine = ec.Engine()
        declare(engine)
        once = {"availableNow": True}
        return run(
            engine, {"hits": stream}, checkpoint=checkpoint, buckets=buckets, trigger=once, on_epoch=sink
        )

    stream = feed(HITS)
    query = started()
    with pytest.raises(Exception, match="the sink is full"):
        query.await_termination()
    return query, started


def test_a_micro_batch_that_failed_before_a_sink_had_it_holds_nothing_up(
    spark: Any, feed: Any, checkpoint: Path
) -> None:
    """A function that fails in a micro-batch is replaced by one that does not, which is filled before that micro-batch."""

    def started(function: Any, version: int) -> Any:
        engine = ec.Engine()
        columns = HITS[0].drop("_diff").schema
        hits = engine.source("hits", columns, kind="diffs", trusted=True, retained=True)
        engine.view("hits", hits.map_batches(function, version=version))
        once, kept = {"availableNow": True}, ec.Checkpoint(checkpoint, drop=("hits",))
        query = run(
            engine, {"hits": stream}, checkpoint=kept, buckets=3, trigger=once, on_epoch=lambda *_: None
        )
        query.await_termination()
        return query

    def fails(frame: pl.DataFrame) -> pl.DataFrame:
        if frame.height:
            raise ValueError("it is not done yet")
        return frame

    def works(frame: pl.DataFrame) -> pl.DataFrame:
        return frame

    stream = feed(HITS[:1])
    with pytest.raises(Exception, match="it is not done yet"):
        started(fails, 1)
    assert started(works, 2).view("hits").read().height == HITS[0].get_column("_diff").sum()


def assert_whole(query: Any) -> None:
    """Every view has what the embedded engine has."""
    engine = ec.Engine()
    declare(engine)
    for frame in HITS:
        engine.push("hits", frame)
    assert query.epoch_number == engine.epoch_number
    for name, view in engine.views.items():
        of_query = {frame["_epoch"][0]: counted([frame]) for frame in query.view(name).deltas()}
        assert of_query == {frame["_epoch"][0]: counted([frame]) for frame in view.deltas()}
        assert counted([query.view(name).read()]) == counted([view.read()])


def test_a_source_gets_a_column_between_two_runs(spark: Any, feed: Any, checkpoint: Path) -> None:
    """What three buckets hold is carried over by the embedded engine, and cut into three again."""
    from pyspark.sql import functions as F  # noqa: N812 (the usual name)

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
