"""Views are declared, replaced and dropped while a query runs: on a real Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.errors import CheckpointWarning, InputError, PlanError
from evercurrent.spark_bridge import run
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.partitioned.bucket_states import BucketStates
from evercurrent.views.store import LocalStore
from spark.test_spark_declared_later import BATCHES, SALES, sum_of
from spark.twins import counted

price = pl.col("price")

HERE: dict[str, Any] = {}
"""What a sink uses that cannot be sent to another process."""


def declares_more(view: str, delta: Any, epoch: int) -> None:
    engine = HERE["engine"]
    try:
        engine.view("in it", engine.sources["sales"].unique())
    except InputError as refused:
        HERE["refused"] = refused


def waits(view: str, delta: Any, epoch: int) -> None:
    if epoch == 1:
        HERE["begun"].set()
        assert HERE["go on"].wait(60)


def keeps(view: str, delta: Any, epoch: int) -> None:
    HERE["deltas"].append((view, epoch, counted([pl.DataFrame(delta.toArrow()).drop("_epoch")])))


def declared(*, retained: bool = True) -> tuple[ec.Engine, Any]:
    engine = ec.Engine()
    sales = engine.source("sales", SALES, retained=retained)
    engine.view("totals", sales.group_by("shop").agg(total=price.sum()))
    return engine, sales


@contextmanager
def running(engine: ec.Engine, stream: Any, checkpoint: Path, **options: Any) -> Iterator[Any]:
    query = run(engine, {"sales": stream}, checkpoint=checkpoint, buckets=3, **options)
    try:
        yield query
    finally:
        query.stop()


def test_views_come_and_go_while_the_query_runs(spark: Any, feed: Any, checkpoint: Path) -> None:
    deltas: list[tuple[str, int, Any]] = []
    HERE["deltas"] = deltas
    stream = feed(BATCHES[:1])
    engine, sales = declared()
    with running(engine, stream, checkpoint, on_epoch=keeps) as query:
        query.process_all_available()
        totals = query.view("totals")
        engine.view("sizes", engine.views["totals"].group_by("total").agg(shops=pl.len()))
        engine.view("best", sales.group_by("shop").agg(best=price.max()))
        assert query.epoch_number == 3
        assert query.view("best").first_epoch == 3
        feed(BATCHES[1:2])
        query.process_all_available()
        most = sales.group_by("shop").agg(total=price.max())
        with pytest.raises(PlanError, match=r"declared twice, in different ways"):
            engine.view("totals", most)
        best = query.view("best")
        engine.view("best", sales.group_by("shop").agg(best=price.min()), replace=True)
        assert query.view("best") is best, "it goes on with the difference"
        with pytest.raises(PlanError, match="view 'totals': view 'sizes' is declared on it"):
            engine.drop_view("totals")
        engine.drop_view("sizes")
        with pytest.raises(InputError, match="there is no view 'sizes'"):
            query.view("sizes")
        engine.drop_view("totals")
        with pytest.raises(InputError, match="view 'totals' was dropped"):
            totals.read()
        assert "was dropped" in repr(totals)
        feed(BATCHES[2:])
        query.process_all_available()
        assert list(query.views) == ["best"]
        assert "best" in query.explain()
        expected = pl.concat(BATCHES).group_by("shop").agg(best=price.min())
        assert counted([best.read()]) == counted([expected])
        total = counted([delta.drop("_epoch") for delta in best.deltas()])
        assert total == sum_of([rows for view, _, rows in deltas if view == "best"])
        assert query.epoch_number == 3 + 2 + 3
    again = ec.Engine()
    sales = again.source("sales", SALES, retained=True)
    again.view("best", sales.group_by("shop").agg(best=price.min()))
    feed(BATCHES[:1])
    with running(again, stream, checkpoint) as query:
        query.process_all_available()
        assert query.epoch_number == 9, "it was not filled again, and what was dropped needs no drop="
        expected = pl.concat([*BATCHES, BATCHES[0]]).group_by("shop").agg(best=price.min())
        assert counted([query.view("best").read()]) == counted([expected])


def test_what_a_running_query_refuses(spark: Any, feed: Any, checkpoint: Path) -> None:
    engine, sales = declared(retained=False)
    HERE["engine"] = engine
    stream = feed(BATCHES[:1])
    with running(engine, stream, checkpoint, on_epoch=declares_more) as query:
        query.process_all_available()
        assert "on_epoch=" in str(HERE["refused"])
        before = query.epoch_number
        with pytest.raises(
            PlanError, match=r"^view 'shops' cannot be filled: source 'sales' does not retain"
        ):
            engine.view("shops", sales.unique())
        assert list(engine.views) == ["totals"]
        with pytest.raises(PlanError, match=r"backfill= is for an engine that maintains views itself"):
            engine.view("shops", sales.unique(), backfill={"sales": BATCHES[0]})
        with pytest.raises(PlanError, match=r"on_epoch= does not take that; choose another name"):
            engine.view("totals", engine.views["totals"].with_columns(x=1), replace=True)
        table = query.view("totals").to_delta(checkpoint.with_name("totals"))
        by_total = engine.views["totals"].group_by("total").agg(shop=pl.col("shop").min())
        with pytest.raises(PlanError, match=r"a row for each 'shop': the key of what replaces.*is none"):
            engine.view("totals", by_total.select("shop", "total"), replace=True)
        table.close()
        assert query.epoch_number == before
        assert list(engine.sources) == ["sales"]
        feed(BATCHES[1:2])
        query.process_all_available()
        assert query.epoch_number == before + 1
        with (
            running(engine, feed(BATCHES[:1], into="other"), checkpoint.with_name("second")),
            pytest.raises(PlanError, match="2 queries run the views of this engine"),
        ):
            engine.drop_view("totals")
    engine.view("shops", sales.unique())
    with pytest.raises(InputError, match="was declared after the query was started"):
        query.view("shops")


def test_declarations_wait_for_the_micro_batch_and_micro_batches_for_them(
    spark: Any, feed: Any, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the rows of a micro-batch are with a slow sink, and while a view is filled, readers go on."""
    begun, go_on = HERE["begun"], HERE["go on"] = threading.Event(), threading.Event()
    engine, sales = declared()
    with running(engine, feed(BATCHES[:1]), checkpoint, on_epoch=waits) as query:
        assert begun.wait(60)
        adding = threading.Thread(target=lambda: engine.view("shops", sales.unique()))
        adding.start()
        time.sleep(0.2)
        assert query.epoch_number == 0, "it waits"
        assert query.view("totals").read().height == 0
        go_on.set()
        adding.join(60)
        assert query.epoch_number == 2
        assert query.view("shops").read().height == BATCHES[0].unique().height

        append = CommitLog.append

        def slowly(*given: Any, **more: Any) -> Any:
            feed(BATCHES[1:2])
            time.sleep(0.5)
            assert query.view("totals").epoch == 2
            return append(*given, **more)

        with monkeypatch.context() as patched:
            patched.setattr(CommitLog, "append", slowly)
            engine.view("prices", sales.group_by("price").len())
        query.process_all_available()
        assert query.epoch_number == 4
        rows = pl.concat(BATCHES[:2]).group_by("price").agg(len=pl.len().cast(pl.Int64))
        assert counted([query.view("prices").read()]) == counted([rows])


def test_a_query_that_is_stopped_during_a_fill_keeps_its_lock_to_the_end(
    spark: Any, feed: Any, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, sales = declared()
    with running(engine, feed(BATCHES[:1]), checkpoint) as query:
        query.process_all_available()
        append, opened = CommitLog.append, []

        def stopping(*given: Any, **more: Any) -> Any:
            query.stop()
            try:
                ec.Engine(checkpoint=checkpoint).published()
            except ec.CheckpointError as refused:
                opened.append(refused)
            return append(*given, **more)

        with monkeypatch.context() as patched:
            patched.setattr(CommitLog, "append", stopping)
            engine.view("shops", sales.unique())
        assert opened
        assert query.view("shops").read().height == BATCHES[0].unique().height
    assert CommitLog(LocalStore(checkpoint)).last is not None


def test_micro_batches_go_on_while_a_view_is_filled_in_the_background(
    spark: Any, feed: Any, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two fills: of one the query sees the end, and of the other not."""
    begun, go_on = threading.Event(), threading.Event()
    stage = BucketStates._stage

    def waits_first(*given: Any) -> Any:
        if threading.current_thread().name.startswith("evercurrent fill"):
            begun.set()
            assert go_on.wait(60)
        return stage(*given)

    monkeypatch.setattr(BucketStates, "_stage", waits_first)
    pieces: list[ec.FillProgress] = []
    engine, sales = declared()
    with running(engine, feed(BATCHES[:1]), checkpoint) as query:
        query.process_all_available()
        shops = engine.view("shops", sales.unique(), background=True, on_progress=pieces.append)
        assert begun.wait(60)
        feed(BATCHES[1:2])
        query.process_all_available()
        assert query.epoch_number == 2, "nobody waits"
        assert "is being filled" in repr(engine.filling["shops"])
        assert "is being filled" in query.explain()
        with pytest.raises(ec.NotFilledError, match="is being filled"):
            query.view("shops")
        go_on.set()
        shops.wait(60)
        assert query.epoch_number == 3
        feed(BATCHES[2:])
        query.process_all_available()
        expected = pl.concat(BATCHES).unique()
        assert counted([query.view("shops").read()]) == counted([expected])
        assert [pieces[-1].state, pieces[-1].share] == ["ready", 1.0]
        assert pieces[0].rows_total == BATCHES[0].unique().height
        assert engine.filling == {}
        begun.clear()
        go_on.clear()
        late = engine.view("late", sales.group_by("price").len(), background=True)
        assert begun.wait(60)
    go_on.set()
    with pytest.raises(ec.NotFilledError, match="the query has ended meanwhile"):
        late.wait(60)
    assert list(engine.views) == ["totals", "shops"]


def test_a_view_that_is_replaced_after_fire_does_not_end_the_query(
    spark: Any, feed: Any, checkpoint: Path
) -> None:
    """The request would be met by no micro-batch, and by none of a query that is started again."""
    stream = feed(BATCHES[:1])
    engine = ec.Engine()
    sales = engine.source("sales", SALES, retained=True)
    waiting = sales.window(ec.global_window()).trigger(ec.repeat(ec.signal()))
    engine.view("totals", waiting.group_by("shop").agg(total=price.sum()))
    with running(engine, stream, checkpoint) as query:
        query.process_all_available()
        query.fire("totals")
        engine.view("totals", sales.group_by("shop").agg(total=price.sum()), replace=True)
        feed(BATCHES[1:])
        with pytest.warns(CheckpointWarning, match="nothing fires in view 'totals', which was replaced"):
            query.process_all_available()
        expected = pl.concat(BATCHES).group_by("shop").agg(total=price.sum())
        assert counted([query.view("totals").read()]) == counted([expected])
