"""What is refused before a query starts, and leaves nothing behind."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

pytest.importorskip("pyspark")

import evercurrent as ec
from evercurrent.core.data.errors import EvercurrentError, InputError, PlanError
from evercurrent.spark_bridge import run, run_batch
from evercurrent.spark_bridge.execution.arguments import (
    as_checkpoint,
    checkpoint_in_spark,
    require_declarations,
    require_engine,
    require_flag,
    require_name,
    require_on_epoch,
    require_sizes,
    require_timeout,
    require_trigger,
)

EVERY = {"processingTime": "5 seconds"}


def declared(workers: int = 1) -> ec.Engine:
    engine = ec.Engine(workers=workers)
    engine.view("counts", engine.source("words", {"word": pl.String}).group_by("word").agg(n=pl.len()))
    return engine


def without_views() -> ec.Engine:
    engine = ec.Engine()
    engine.source("words", {"word": pl.String})
    return engine


def pushed_into() -> ec.Engine:
    engine = declared()
    engine.push("words", {"word": ["a"]})
    return engine


def of_two(view: str, delta: Any) -> None: ...


class Sink:
    def __call__(self, view: str, delta: Any, epoch: int) -> None: ...

    def of_none(self) -> None: ...


@pytest.mark.parametrize(
    ("check", "given", "message"),
    [
        (require_engine, declared, "expected an engine with sources and views, got function; make it first"),
        (require_declarations, ec.Engine(), "declares no source, so there .*; declare one with engine.source"),
        (require_declarations, without_views(), "declares no view, so there .*; declare one with engine.view"),
        (require_declarations, pushed_into(), "it has been pushed into"),
        (require_declarations, declared(workers=2), r"workers=2\) is for .* give the query buckets="),
        (require_declarations, ec.Engine, "expected an engine"),
        *((as_checkpoint, given, "path=.*; give a folder, or a url") for given in (None, 5, b"x", ["x"], True)),
        (checkpoint_in_spark, ec.Checkpoint("x", every=2), r"every=2\) is for .*; leave it out"),
        (checkpoint_in_spark, ec.Checkpoint("x", resident_bytes=9), r"resident_bytes=9\) is for .* buckets="),
        *((require_name, given, "name=.*; give a text") for given in (5, "", " ", b"x")),
        *((functools.partial(require_flag, "is_all"), given, "is_all=.*; give True or") for given in (1, "no", None)),
        *((require_on_epoch, given, "cannot be called; give a function of") for given in (5, "print", [print])),
        *(
            (require_on_epoch, given, r"takes \(.*\); give a function of \(view, delta, epoch\)")
            for given in (of_two, Sink().of_none, lambda *, view: None)
        ),
        *((require_trigger, given, "is not a dictionary; give {'avail") for given in ("availableNow", 5, ["once"], True)),
        *(
            (require_trigger, given, "is not a trigger of micro-batches; give {'avail")
            for given in (
                {}, {"availablenow": True}, {"availableNow": False}, {"availableNow": 1}, {"processingTime": 5},
                {"processingTime": None}, {"continuous": "5 seconds"}, {"realTime": "5 seconds"}, {1: 2},
                {"once": True, "availableNow": True},
            )
        ),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(check: Callable[[Any], Any], given: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        check(given)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        *(((given, 0), "buckets=.*; give a whole number from 1 to 65536") for given in (0, "16", True, 2.0, None, 1 << 17)),
        *(((1, given), "driver_rows=.*; give a whole number from 0") for given in (-1, "5", None, 1.5, False)),
    ],
)  # fmt: skip
def test_sizes_are_whole_numbers(sizes: tuple[Any, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        require_sizes(*sizes)


@pytest.mark.parametrize("given", [-1, -0.1, "5", True, float("nan"), float("inf"), 1e300, [1]])
def test_a_timeout_is_a_number_of_seconds(given: Any) -> None:
    with pytest.raises(InputError, match=r"timeout=.*; give a number of seconds from 0, or leave it out"):
        require_timeout(given)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("checkpointLocation", "give checkpoint=folder"),
        ("outputMode", r"there are no output modes: query\.view\(name\) has both"),
        ("availableNow", "give trigger={'availableNow': True}"),
        ("foreachBatch", "give on_epoch=function"),
    ],
)
def test_an_argument_by_its_name_in_spark_is_named(name: str, message: str) -> None:
    given: Any = {name: "x"}
    with pytest.raises(PlanError, match=f"^run has no argument '{name}': {message}"):
        run(declared(), {}, **given)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        run(declared(), {}, checkpoint="x", nonsense=1)


def test_what_makes_sense_is_taken(tmp_path: Path) -> None:
    require_declarations(declared())
    assert checkpoint_in_spark(tmp_path) == ec.Checkpoint(tmp_path)
    assert checkpoint_in_spark(ec.Checkpoint("x", keep=2)).keep == 2
    require_sizes(65536, 0)
    for trigger in (None, {"availableNow": True}, {"once": True}, EVERY):
        require_trigger(trigger)
    for sink in (None, Sink(), lambda *everything: None, functools.partial(print, "received"), max):
        require_on_epoch(sink)
    for timeout in (None, 0, 0.5, 10):
        require_timeout(timeout)
    require_name("mine")
    require_flag("is_all", False)


def test_an_engine_with_a_checkpoint_of_its_own_is_not_opened(tmp_path: Path) -> None:
    engine = ec.Engine(checkpoint=tmp_path / "own")
    engine.view("counts", engine.source("words", {"word": pl.String}).group_by("word").agg(n=pl.len()))
    with pytest.raises(PlanError, match="a checkpoint= of its own"):
        require_declarations(engine)
    assert not (tmp_path / "own").exists()


def test_nothing_is_left_of_a_query_that_is_refused(spark: Any, feed: Any, checkpoint: Path) -> None:
    """Each is refused in a sentence of ours, and before anything is written."""
    words = pl.DataFrame({"word": ["a", "b"]})
    stream = feed([words])
    batch = spark.createDataFrame([("a",)], "word string")
    lock = threading.Lock()

    def refusal_of(call: Callable[..., Any], sources: Any, **wrong: Any) -> str:
        with pytest.raises(EvercurrentError) as refused:
            call(wrong.pop("engine", declared()), sources, **{"checkpoint": checkpoint, **wrong})
        assert not checkpoint.exists()
        return str(refused.value)

    for call, good, bad in ((run, stream, batch), (run_batch, batch, stream)):
        assert "is needed; use spark.read" in refusal_of(call, {"words": bad})
        assert "has no DataFrame" in refusal_of(call, {})
        assert "source 'verbs' is not declared; there are 'words'" in refusal_of(
            call, {"words": good, "verbs": good}
        )
        assert "give a dictionary" in refusal_of(call, good)
        assert "declares no source" in refusal_of(call, {}, engine=ec.Engine())
        assert "buckets='16'" in refusal_of(call, {"words": good}, buckets="16")
        assert "driver_rows=-1" in refusal_of(call, {"words": good}, driver_rows=-1)
        assert "path=5" in refusal_of(call, {"words": good}, checkpoint=5)
        assert "cannot be called" in refusal_of(call, {"words": good}, on_epoch="print")
        assert "cannot be sent to Spark's workers" in refusal_of(
            call, {"words": good}, on_epoch=lambda view, delta, epoch: lock.locked()
        )
    one = {"words": stream}
    assert "spark.read..." in refusal_of(run_batch, {})
    assert "is_all='no'" in refusal_of(run_batch, {"words": batch}, is_all="no")
    assert "path=None" in refusal_of(run, one, checkpoint=None)
    assert "every=5" in refusal_of(run, one, checkpoint=ec.Checkpoint(checkpoint, every=5))
    assert "is not a dictionary" in refusal_of(run, one, trigger="availableNow")
    assert "heartbeat_seconds='5'" in refusal_of(run, one, heartbeat_seconds="5")
    assert "name=''" in refusal_of(run, one, name="")
    for interval in ("5 secnds", "5s", "-5 seconds", "1 month"):
        assert f"'{interval}'" in (message := refusal_of(run, one, trigger={"processingTime": interval}))
        assert message.endswith("or leave it out to run one after the other")


def test_two_queries_have_two_names(spark: Any, feed: Any, checkpoint: Path) -> None:
    sources, other = {"words": feed([pl.DataFrame({"word": ["a"]})])}, checkpoint.with_name("other")
    query = run(declared(), sources, checkpoint=checkpoint, buckets=2, name="mine", trigger=EVERY)
    try:
        with pytest.raises(PlanError, match="name='mine': a query of this name is running; stop it"):
            run(declared(), sources, checkpoint=other, name="mine")
        assert not other.exists()
        with pytest.raises(InputError, match="timeout=-1"):
            query.await_termination(-1)
        for method in (query.view, query.ledger, query.fire):
            for name in ("none", 5, ["counts"]):
                with pytest.raises(InputError, match=r"there is no (view|source)"):
                    method(name)
        assert list(query.views) == ["counts"]
        assert query.views["counts"] is query.view("counts")
    finally:
        query.stop()
