"""Views of a checkpoint that somebody else keeps current, read without its lock."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from commit_cadence import commits_put_off, each_epoch_committed
from evercurrent import spark_bridge
from evercurrent.core.data.errors import CheckpointError, EpochGoneError, InputError, PlanError
from evercurrent.core.operators.group.group_by import GroupBy
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.checkpoint.rebucket import rebucket
from evercurrent.views.partitioned.checkpoint_reader import CheckpointReader
from evercurrent.views.store import store_at
from identity.other_compilers import Kind, compiled_by
from spark.doomed_query import VIEWS, batches, declare
from spark.offered import Offering, declared, emitted_deltas, held
from spark.twins import counted

FRAMES = batches(5, 40)


def made(**options: Any) -> ec.Engine:
    engine = ec.Engine(**options)
    declare(engine)
    return engine


@functools.cache
def pushed(epochs: int) -> ec.Engine:
    """The embedded engine after so many epochs."""
    engine = made()
    for frame in FRAMES[:epochs]:
        engine.push("hits", frame)
    return engine


def offered(path: Path, buckets: int = 3) -> Offering:
    return Offering(declared(declare), store_at(path), buckets=buckets, full_every=1)


def files(path: Path) -> list[tuple[str, int, int]]:
    """All there is, with size and date."""
    found = [(each, each.stat()) for each in sorted(path.rglob("*"))]
    return [(str(each), stat.st_size, stat.st_mtime_ns) for each, stat in found]


@each_epoch_committed()
def test_they_follow_what_others_commit_in_any_number_of_buckets(tmp_path: Path) -> None:
    """Of an engine that has the lock, in one bucket, and of drivers in several; as of every epoch that there was."""
    with made(checkpoint=tmp_path) as writer:
        writer.push("hits", FRAMES[0])
        views = spark_bridge.views(made(), tmp_path)
        assert list(views) == list(VIEWS)
        assert_same(views, [0, 1])
        writer.push("hits", FRAMES[1])
        assert_same(views, [0, 1, 2])
    pushes = [0, 1, 2]
    for number, buckets in enumerate((4, 7)):
        rebucket(store_at(tmp_path), buckets)  # That is an epoch, in which nothing happens.
        assert offered(tmp_path, buckets).offer(number, {"hits": FRAMES[number + 2]})
        pushes += [pushes[-1], number + 3]
        before = files(tmp_path)
        assert_same(views, pushes)
        assert_same(spark_bridge.views(made(), tmp_path), pushes)
        assert files(tmp_path) == before


def assert_same(views: Any, pushes: list[int]) -> None:
    """After each epoch they have what an engine has after so many pushes."""
    last = len(pushes) - 1
    passed = [pushed(count) for count in pushes]
    for name, view in views.items():
        own, now = passed[-1].views[name], view.snapshot()
        assert (view.epoch, now.epoch, view.schema) == (last, last, own.schema)
        assert counted([view.read()]) == counted([now.frame]) == counted([own.read()])
        for epoch, then in enumerate(passed):
            assert counted([view.read(epoch)]) == counted([then.views[name].read()])
        assert changes(view.deltas()) == changes(own.deltas())
        assert changes(view.deltas(since=1)) == changes(own.deltas(since=1))


def changes(deltas: Iterable[pl.DataFrame]) -> list[Any]:
    return [counted([frame.drop("_epoch")]) for frame in deltas]


def test_what_was_swept_is_gone_for_whoever_had_looked_before(tmp_path: Path) -> None:
    offering = offered(tmp_path)
    for number in range(2):
        offering.offer(number, {"hits": FRAMES[number]})
    views = spark_bridge.views(made(), tmp_path)
    view, reader = views["by_user"], CheckpointReader(made().declared, store_at(tmp_path))
    assert view.read(epoch=1).height
    assert view.earliest == -1
    for number in range(2, 5):
        offering.offer(number, {"hits": FRAMES[number]})
    assert view.epoch == reader.last().epoch == 5
    assert CommitLog(store_at(tmp_path)).sweep(keep=2, grace=0).commits == 4
    for read in (
        lambda: view.read(epoch=1),
        lambda: list(view.deltas()),
        lambda: list(view.deltas(since=0)),
        lambda: reader.delta_files("by_user", 0),
    ):
        with pytest.raises(EpochGoneError, match="view 'by_user'"):
            read()
    assert view.earliest == 4
    assert [frame.item(0, "_epoch") for frame in view.deltas(since=4)] == [5]
    assert counted([view.read()]) == counted([pushed(5).views["by_user"].read()])


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        *(("read", given, "epoch=.*; give the number of an epoch") for given in ("1", 1.0, True)),
        ("read", -1, "epoch=-1; epochs are counted from 0$"),
        *(("deltas", given, "since=.*; give the number of an epoch") for given in ("1", 1.0, True)),
        ("deltas", -2, "since=-2; epochs are counted from 0, and -1 stands for the very beginning"),
        ("read", 3, "epoch=3 is still to come, the checkpoint .* is at epoch 2"),
        ("deltas", 3, "since=3 is still to come, the checkpoint .* is at epoch 2"),
    ],
)  # fmt: skip
def test_what_is_no_epoch_is_refused(method: str, given: Any, message: str, tmp_path: Path) -> None:
    offering = offered(tmp_path)
    for number in range(2):
        offering.offer(number, {"hits": FRAMES[number]})
    view = spark_bridge.views(made(), tmp_path)["depth"]
    with pytest.raises(InputError, match=f"view 'depth': {message}"):
        getattr(view, method)(given)


def test_what_cannot_be_read_is_refused_when_it_is_called(tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match="nothing is committed there; first start the engine or query that writes it"
    ):
        spark_bridge.views(made(), tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(PlanError, match="expected an engine"):
        spark_bridge.views(made, tmp_path)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="path=None"):
        spark_bridge.views(made(), None)  # type: ignore[arg-type]
    offered(tmp_path)
    with pytest.raises(PlanError, match=r"spark='local\[2\]' is not a Spark session"):
        spark_bridge.views(made(), tmp_path, "local[2]")  # type: ignore[arg-type]
    view = spark_bridge.views(made(), tmp_path)["depth"]
    for method in (view.to_spark, view.deltas_to_spark):
        with pytest.raises(PlanError, match=r"there is no Spark session; give one to views\("):
            method()


# Other plans


def counting(
    path: Path | None, views: Sequence[str], at_least: int = 0, drop: Sequence[str] = ()
) -> ec.Engine:
    """An engine whose views count the rows of a key, of those from a number on."""
    engine = ec.Engine(checkpoint=None if path is None else ec.Checkpoint(path, drop=tuple(drop)))
    rows = engine.source("rows", {"k": pl.Int64}, retained=True)
    for name in views:
        engine.view(name, rows.filter(pl.col("k") >= at_least).group_by("k").agg(n=pl.len()))
    return engine


@pytest.mark.parametrize(("names", "at_least"), [((), 0), (("other",), 0), (("counts",), 2)])
def test_an_engine_of_another_plan_is_refused_as_when_it_is_opened(
    names: tuple[str, ...], at_least: int, tmp_path: Path
) -> None:
    with counting(tmp_path, ["counts"]) as engine:
        engine.push("rows", {"k": [1, 2]})
    opened = counting(tmp_path, names, at_least)
    with pytest.raises(CheckpointError, match="of another plan") as refused:
        opened._current()
    with pytest.raises(CheckpointError) as refused_here:
        spark_bridge.views(counting(None, names, at_least), tmp_path)
    assert str(refused_here.value) == str(refused.value)


def test_a_view_that_is_new_has_nothing_to_be_read(tmp_path: Path) -> None:
    with counting(tmp_path, ["counts"]) as engine:
        engine.push("rows", {"k": [1, 2]})
    with pytest.raises(
        CheckpointError, match=r"view 'more' is new to the checkpoint .*; leave it out, or open"
    ):
        spark_bridge.views(counting(None, ["counts", "more"]), tmp_path)
    only = spark_bridge.views(counting(None, []), ec.Checkpoint(tmp_path, drop=("counts",)))
    assert dict(only) == {}


def test_a_reader_raises_when_the_plan_has_changed(tmp_path: Path) -> None:
    with counting(tmp_path, ["counts"]) as engine:
        engine.push("rows", {"k": [1, 2]})
    view = spark_bridge.views(counting(None, ["counts"]), tmp_path)["counts"]
    assert sorted(view.read().rows()) == [(1, 1), (2, 1)]
    with counting(tmp_path, ["counts"], 2, drop=["counts"]) as engine:
        engine.push("rows", {"k": [3]})
    for read in (view.read, view.deltas, view.snapshot, lambda: view.epoch, lambda: view.read(0)):
        with pytest.raises(
            CheckpointError, match="view 'counts' is declared in another way than in the checkpoint"
        ):
            read()
    again = spark_bridge.views(counting(None, ["counts"], 2), tmp_path)["counts"]
    assert sorted(again.read().rows()) == [(2, 1), (3, 1)]
    # What stands under its name in older commits is about the view of before.
    with pytest.raises(EpochGoneError, match="had another definition"):
        again.read(epoch=1)
    with pytest.raises(EpochGoneError, match="its present definition begins at epoch 2"):
        again.deltas(since=1)
    assert again.earliest == -1
    assert sum(
        (counted([frame.drop("_epoch")]) for frame in again.deltas(again.earliest)), counted([])
    ) == counted([again.read()])


@pytest.mark.filterwarnings("ignore:.*nothing declared uses")
def test_states_that_are_known_by_other_names_are_refused_in_buckets(tmp_path: Path) -> None:
    """An engine computes them from what is retained, and then they are there for all."""
    with counting(tmp_path, ["counts"]) as engine:
        engine.push("rows", {"k": [1, 2]})
    plan = counting(None, ["counts"]).declared
    with compiled_by(Kind(renamed=(1, 1.0), of=GroupBy)):
        for opened in (
            lambda: Offering(plan, store_at(tmp_path), buckets=1),
            lambda: spark_bridge.views(counting(None, ["counts"]), tmp_path),
        ):
            with pytest.raises(
                CheckpointError,
                match=r"(?s)of view 'counts' is not among its states.*nothing that is declared uses it.*open it once with Engine",
            ):
                opened()
        with counting(tmp_path, ["counts"]) as engine:
            engine._current()
        assert Offering(plan, store_at(tmp_path), buckets=1).offer(0, {"rows": pl.DataFrame({"k": [1]})})
        assert held(plan, tmp_path)["counts"] == [(1, 2), (2, 1)]


def test_a_view_is_renamed_in_buckets_with_all_its_rows_as_its_first_delta(tmp_path: Path) -> None:
    """Otherwise it would have all its rows and few of its deltas, which then do not add up to them."""
    with counting(tmp_path, ["counts"]) as engine:
        engine.push("rows", {"k": [1, 2]})
    plan = counting(None, ["tallies"]).declared
    with pytest.raises(CheckpointError, match="of another plan"):
        Offering(plan, store_at(tmp_path), buckets=1)
    assert Offering(plan, store_at(tmp_path), buckets=1, drop=("counts",)).epochs.last.epoch == 2
    assert Offering(plan, store_at(tmp_path), buckets=1).offer(0, {"rows": pl.DataFrame({"k": [1]})})
    deltas = emitted_deltas(tmp_path, ["tallies"])["tallies"]
    assert sorted(row[:2] for row in deltas[2]) == [(1, 1), (2, 1)]
    assert held(plan, tmp_path)["tallies"] == [(1, 2), (2, 1)]


# With Spark

READER = """
import json, sys
import evercurrent as ec
from evercurrent import spark_bridge
from spark.doomed_query import declare

engine = ec.Engine()
declare(engine)
views = spark_bridge.views(engine, sys.argv[1])
epoch = views["depth"].epoch
seen = {name: sorted(map(str, view.read(epoch).rows())) for name, view in views.items()}
print(json.dumps({"epoch": epoch, "seen": seen, "has_spark": "pyspark" in sys.modules}))
"""


def test_views_of_a_query_that_runs(spark: Any, feed: Any, checkpoint: Path) -> None:
    """In another process without Spark, and in this one with it, while the query has the lock."""
    stream = feed(FRAMES[:2])
    trigger = {"processingTime": "0 seconds"}
    query = spark_bridge.run(made(), {"hits": stream}, checkpoint=checkpoint, buckets=3, trigger=trigger)
    try:
        query.process_all_available()
        views = spark_bridge.views(made(), checkpoint, spark)
        with pytest.raises(CheckpointError, match="another"):
            made(checkpoint=checkpoint)._current()
        assert_read_elsewhere(checkpoint, 2)
        first = views["by_user"].to_spark()
        feed(FRAMES[2:3])
        query.process_all_available()
        assert_read_elsewhere(checkpoint, 3)
        for name, view in views.items():
            own = pushed(3).views[name]
            assert counted([pl.DataFrame(view.to_spark().toArrow())]) == counted([own.read()])
            assert counted([pl.DataFrame(view.deltas_to_spark(since=1).toArrow())]) == counted(
                list(own.deltas(since=1))
            )
        then = pushed(2).views["by_user"].read()
        assert counted([pl.DataFrame(first.toArrow())]) == counted([then])
        assert counted([pl.DataFrame(views["by_user"].to_spark(2).toArrow())]) == counted([then])
        assert query.streaming_query.isActive
    finally:
        query.stop()


def assert_read_elsewhere(checkpoint: Path, epochs: int) -> None:
    tests = Path(__file__).resolve().parents[1]
    paths = os.pathsep.join(map(str, [tests, tests.parent / "src"]))
    output = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", READER, str(checkpoint)],
        env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, timeout=900, check=True,
    ).stdout  # fmt: skip
    engine = pushed(epochs)
    assert json.loads(output) == {
        "epoch": epochs,
        "seen": {name: sorted(map(str, view.read().rows())) for name, view in engine.views.items()},
        "has_spark": False,
    }


def test_epochs_of_which_only_the_input_is_there_are_for_the_embedded_engine(tmp_path: Path) -> None:
    """A driver does not go on without them."""
    with commits_put_off():
        writer = made(checkpoint=tmp_path)
        for frame in FRAMES[:3]:
            writer.push("hits", frame)
    writer._running.durability._lock.close()  # The process is gone.
    with pytest.raises(CheckpointError, match="3 epochs after epoch 0 were finished and not committed"):
        offered(tmp_path, buckets=1)
    with made(checkpoint=tmp_path) as again:
        assert again.epoch_number == 3
    assert offered(tmp_path, buckets=1).epochs.last.epoch == 3
