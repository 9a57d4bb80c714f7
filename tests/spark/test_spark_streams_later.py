"""Sources that come and go in a query that runs, and in one that is started again: on a real Spark."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.errors import CheckpointError, InputError, PlanError
from evercurrent.spark_bridge import run
from evercurrent.spark_bridge.execution.streaming import Streaming
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.checkpoint.verifying import verify
from evercurrent.views.store import LocalStore
from spark.doomed_streams import HITS, NAMES, declared
from spark.test_spark_declared_later import sum_of
from spark.twins import counted

HIT_ROWS = [
    pl.DataFrame({"ip": [(at * step) % 5 for at in range(12)], "bytes": list(range(step, step + 12))})
    for step in range(1, 5)
]
NAME_ROWS = [
    pl.DataFrame({"ip": [step, step + 1], "name": [f"n{step}", f"m{step}"]}, schema=NAMES)
    for step in range(3)
]


def the_same(query: Any, hits: list[pl.DataFrame], names: list[pl.DataFrame]) -> None:
    truth = declared(names=True)
    for frame in hits:
        truth.push("hits", frame)
    for frame in names:
        truth.push("names", frame)
    for name, view in query.views.items():
        rows = counted([truth.views[name].read()])
        assert counted([view.read()]) == rows, name
        assert counted([delta.drop("_epoch") for delta in view.deltas()]) == rows, name


def test_a_source_more_while_it_runs(spark: Any, feed: Any, checkpoint: Path) -> None:
    engine = declared()
    query = run(engine, {"hits": feed(HIT_ROWS[:2])}, checkpoint=checkpoint, buckets=3, name="later")
    try:
        query.process_all_available()
        identity, first = query.id, query.runId
        declared(names=True, engine=engine)
        feed(HIT_ROWS[2:3])
        query.process_all_available()
        assert query.runId == first, "a source without a stream needs no other query of Spark"
        the_same(query, HIT_ROWS[:3], [])
        stream = feed(NAME_ROWS[:2], "names")
        query.add_streams({"names": stream})
        assert (query.id, query.name, query.isActive) == (identity, "later", True)
        assert query.runId != first
        feed(HIT_ROWS[3:])
        query.process_all_available()
        the_same(query, HIT_ROWS, NAME_ROWS[:2])
        with pytest.raises(PlanError, match="source 'names' has a stream already"):
            query.add_streams({"names": stream})
        feed(NAME_ROWS[2:], "names")
        query.process_all_available()
        the_same(query, HIT_ROWS, NAME_ROWS)
        engine.drop_view("named")
        engine.drop_source("names")
        feed(HIT_ROWS[:1])
        query.process_all_available()
        the_same(query, [*HIT_ROWS, HIT_ROWS[0]], [])
        assert list(query.views) == ["totals"]
        engine.drop_view("totals")
        before = query.epoch_number
        with pytest.raises(
            PlanError, match=r"source 'hits'.*would be without a stream; give it that of another"
        ):
            engine.drop_source("hits")
        with pytest.raises(
            InputError, match=r"takes rows from its streams alone: write rows to where a stream"
        ):
            engine.push("hits", HIT_ROWS[0])
        engine.view("late", engine.sources["hits"].unique())
        assert query.view("late").read().height == pl.concat(HIT_ROWS).unique().height
        assert (query.isActive, query.epoch_number, list(engine.sources)) == (True, before + 1, ["hits"])
    finally:
        query.stop()
    assert verify(LocalStore(checkpoint)).faults == ()
    assert {each.name.partition("/")[0] for each in LocalStore(checkpoint).list("spark")} == {"spark-3"}


def test_a_query_that_spark_does_not_start_again_has_dropped_what_was_dropped(
    spark: Any, feed: Any, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epoch of the change is committed by then, so the engine keeps to it, too."""
    engine = declared(names=True)
    streams = {"hits": feed(HIT_ROWS[:2]), "names": feed(NAME_ROWS, "names")}
    query = run(engine, streams, checkpoint=checkpoint, buckets=2)
    query.process_all_available()
    engine.drop_view("named")

    def refuses(*_: object) -> Any:
        raise RuntimeError("there is no such folder any more")

    with monkeypatch.context() as patch:
        patch.setattr(Streaming, "_start", refuses)
        with pytest.raises(RuntimeError, match="no such folder"):
            engine.drop_source("names")
    assert query.await_termination(20)
    assert (query.isActive, list(engine.sources), list(engine.views)) == (False, ["hits"], ["totals"])
    feed(HIT_ROWS[2:])
    query = run(declared(), {"hits": streams["hits"]}, checkpoint=checkpoint, trigger={"availableNow": True})
    query.await_termination()
    the_same(query, HIT_ROWS, [])


def test_streams_come_and_go_when_it_is_started_again(spark: Any, feed: Any, checkpoint: Path) -> None:
    """In another order too, with a heartbeat and without, and with a view of the new source that is declared only then."""
    hits, names = feed(HIT_ROWS[:2]), feed(NAME_ROWS[:1], "names")

    def again(engine: ec.Engine, streams: dict[str, Any], drop: tuple[str, ...] = (), **options: Any) -> Any:
        kept = ec.Checkpoint(checkpoint, drop=drop)
        query = run(engine, streams, checkpoint=kept, buckets=2, trigger={"availableNow": True}, **options)
        query.await_termination()
        assert query.exception() is None
        return query

    query = again(declared(), {"hits": hits})
    identity = query.id
    feed(HIT_ROWS[2:3])
    query = again(declared(names=True), {"names": names, "hits": hits}, heartbeat_seconds=0.5)
    assert query.id == identity
    the_same(query, HIT_ROWS[:3], NAME_ROWS[:1])
    reversed_order = ec.Engine()
    reversed_order.source("names", NAMES)
    feed(HIT_ROWS[3:])
    feed(NAME_ROWS[1:], "names")
    query = again(declared(names=True, engine=reversed_order), {"names": names, "hits": hits})
    the_same(query, HIT_ROWS, NAME_ROWS)
    feed(HIT_ROWS[:1])
    query = again(declared(), {"hits": hits}, drop=("names", "named"))
    the_same(query, [*HIT_ROWS, HIT_ROWS[0]], [])
    query = again(declared(names=True), {"names": names, "hits": hits}, drop=("names", "named"))
    the_same(query, [*HIT_ROWS, HIT_ROWS[0]], NAME_ROWS)


def test_what_a_stream_more_is_refused_for(spark: Any, feed: Any, checkpoint: Path) -> None:
    engine, hits = declared(), feed(HIT_ROWS[:1])
    query = run(engine, {"hits": hits}, checkpoint=checkpoint, buckets=2)
    try:
        query.process_all_available()
        with pytest.raises(PlanError, match="source 'names' is not declared; there are 'hits'"):
            query.add_streams({"names": feed(NAME_ROWS[:1], "names")})
        with pytest.raises(PlanError, match="add_streams: give a dictionary"):
            query.add_streams({})
        engine.source("copy", HITS)
        with pytest.raises(InputError, match=r"source 'copy': column 'bytes' \(Int64\) is missing"):
            query.add_streams({"copy": feed(NAME_ROWS[:1], "names")})
        with pytest.raises(InputError, match="the DataFrame is a batch, and a stream is needed"):
            query.add_streams({"copy": spark.range(3)})
        before = query.runId
        feed(HIT_ROWS[1:2])
        query.process_all_available()
        assert query.runId == before, "what is refused ends nothing"
    finally:
        query.stop()
    with pytest.raises(PlanError, match="source 'copy': the query has ended meanwhile"):
        query.add_streams({"copy": hits})


def test_a_dataframe_of_two_sources(feed: Any, checkpoint: Path) -> None:
    """From the start each gets all rows; later the second would not get those that had come, however it is made of the first."""
    engine, hits = declared(), feed(HIT_ROWS[:1])
    engine.view("copies", engine.source("copy", HITS).select(*HITS))
    streams = {"hits": hits, "copy": hits.where("true")}
    query = run(engine, streams, checkpoint=checkpoint, buckets=2)
    try:
        query.process_all_available()
        engine.source("later", HITS)
        for again in (hits, hits.select(*HITS), hits.union(hits)):
            with pytest.raises(InputError, match=r"source 'later': its DataFrame reads the same stream"):
                query.add_streams({"later": again})
        query.add_streams({"later": feed(HIT_ROWS[:1], "others")})
        feed(HIT_ROWS[1:])
        query.process_all_available()
        rows = counted([pl.concat(HIT_ROWS).select(*HITS)])
        assert counted([query.views["copies"].read()]) == rows
        assert query.views["totals"].read()["n"].sum() == pl.concat(HIT_ROWS).height
    finally:
        query.stop()


def test_a_dataframe_of_two_streams(spark: Any, feed: Any, checkpoint: Path) -> None:
    """A source may be a union, of which Spark counts both parts; and each is continued where it was."""
    engine = declared()
    both = feed(HIT_ROWS[:1]).union(feed(HIT_ROWS[1:2], "others"))
    query = run(engine, {"hits": both}, checkpoint=checkpoint, buckets=2)
    try:
        query.process_all_available()
        declared(names=True, engine=engine)
        query.add_streams({"names": feed(NAME_ROWS[:1], "names")})
        feed(HIT_ROWS[2:3])
        feed(HIT_ROWS[3:], "others")
        query.process_all_available()
        the_same(query, HIT_ROWS, NAME_ROWS[:1])
    finally:
        query.stop()
    with pytest.raises(
        CheckpointError, match=r"source 'hits' was begun with the files of '/.*', '/.*', and its stream reads"
    ):
        run(
            engine, {"hits": feed(HIT_ROWS[:1]), "names": feed(NAME_ROWS[:1], "names")}, checkpoint=checkpoint
        )


def test_those_who_wait_wait_on(spark: Any, feed: Any, checkpoint: Path) -> None:
    """While streams are added, who waits for the query or for its rows does not notice; rows come at any time."""
    engine, hits = declared(), feed(HIT_ROWS[:1])
    query = run(engine, {"hits": hits}, checkpoint=checkpoint, buckets=2)
    ended, failed = threading.Event(), list[BaseException]()

    def wait() -> None:
        try:
            query.await_termination()
        except BaseException as error:
            failed.append(error)
        ended.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    try:
        declared(names=True, engine=engine)
        for number in range(4):
            feed(HIT_ROWS[number : number + 1])
            if number == 1:
                query.add_streams({"names": feed(NAME_ROWS[:1], "names")})
            if number == 2:
                engine.drop_view("named")
                engine.drop_source("names")
        query.process_all_available()
        the_same(query, [HIT_ROWS[0], *HIT_ROWS], [])
        assert not ended.is_set()
        assert query.await_termination(0.01) is False
    finally:
        query.stop()
    assert ended.wait(30)
    waiting.join()
    assert failed == []


def test_rows_that_an_engine_has_pushed_are_known(spark: Any, feed: Any, checkpoint: Path) -> None:
    """A source that has never had a stream has had no rows, unless an engine went on with the checkpoint."""
    hits, names = feed(HIT_ROWS[:1]), feed(NAME_ROWS[:1], "names")
    once = {"availableNow": True}
    run(declared(), {"hits": hits}, checkpoint=checkpoint, buckets=2, trigger=once).await_termination()
    with ec.Engine(checkpoint=checkpoint) as engine:
        declared(engine=engine)
        engine.source("names", NAMES)
        engine.push("names", NAME_ROWS[1])
    with pytest.raises(CheckpointError, match="source 'names' does not retain its rows"):
        run(declared(names=True), {"hits": hits, "names": names}, checkpoint=checkpoint)


def test_a_checkpoint_of_an_earlier_version(spark: Any, feed: Any, checkpoint: Path) -> None:
    """Its commits have the names of the streams and not how Spark counts them, which was in the order of declaration."""
    hits, names = feed(HIT_ROWS[:2]), feed(NAME_ROWS[:1], "names")
    once = {"availableNow": True}

    def again(engine: ec.Engine, streams: dict[str, Any], **options: Any) -> Any:
        query = run(engine, streams, checkpoint=checkpoint, trigger=once, buckets=2, **options)
        query.await_termination()
        assert query.exception() is None
        return query

    again(declared(names=True), {"names": names, "hits": hits}, heartbeat_seconds=0.5)
    log = CommitLog(LocalStore(checkpoint))
    last = log.last
    assert last is not None
    facts = {name: fact for name, fact in last.facts["spark"].items() if name not in ("numbered", "folder")}
    assert facts["streams"] == ["hits", "names", "the heartbeat"]
    log.append(replace(last, epoch=last.epoch + 1, deltas={}, facts={**last.facts, "spark": facts}))
    feed(HIT_ROWS[2:])
    feed(NAME_ROWS[1:], "names")
    turned = ec.Engine()
    turned.source("names", NAMES)
    query = again(declared(names=True, engine=turned), {"names": names, "hits": hits})
    the_same(query, HIT_ROWS, NAME_ROWS)


def test_a_sink_gets_a_micro_batch_that_had_begun_under_the_same_epoch(
    spark: Any, feed: Any, checkpoint: Path
) -> None:
    """The query ends in its sink, and goes on with one more stream: which comes after that micro-batch."""
    got: dict[tuple[str, int], Any] = {}
    fails = [True]

    def sink(view: str, delta: Any, epoch: int) -> None:
        got[view, epoch] = counted([pl.DataFrame(delta.toArrow()).drop("_epoch")])
        if epoch == 2 and fails:
            fails.clear()
            raise OSError("the sink has failed")

    def begun(engine: ec.Engine, streams: dict[str, Any]) -> Any:
        return run(engine, streams, checkpoint=checkpoint, buckets=2, on_epoch=sink)

    hits, names = feed(HIT_ROWS[:2]), feed(NAME_ROWS, "names")
    query = begun(declared(), {"hits": hits})
    with pytest.raises(Exception, match="the sink has failed"):
        query.process_all_available()
    query.stop()
    feed(HIT_ROWS[2:])
    engine = declared()
    engine.source("names", NAMES)
    query = begun(engine, {"hits": hits, "names": names})
    try:
        query.process_all_available()
        totals = [rows for (view, _), rows in sorted(got.items()) if view == "totals"]
        assert sum_of(totals) == counted([query.view("totals").read()])
        assert got["totals", 2] == counted([next(iter(query.view("totals").deltas(since=1))).drop("_epoch")])
    finally:
        query.stop()
