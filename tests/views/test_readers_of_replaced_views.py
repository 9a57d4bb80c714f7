"""Who follows or subscribes to a view that is replaced, and what keeps two subscriptions, or an engine and its fork, apart."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.checkpoint.reader_offsets import read_note
from evercurrent.views.store import store_at
from harness import contents

SALES = {"shop": pl.String, "price": pl.Int64}


def started(checkpoint: Any = None) -> ec.Engine:
    engine = ec.Engine(checkpoint=checkpoint)
    sales = engine.source("sales", SALES, retained=True)
    engine.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum()))
    engine.push("sales", {"shop": ["a", "b"], "price": [1, 2]})
    return engine


def large(engine: ec.Engine) -> Any:
    totals = engine.sources["sales"].group_by("shop").agg(total=pl.col("price").sum())
    return totals.filter(pl.col("total") > 1)


def counted(engine: ec.Engine) -> Any:
    return engine.sources["sales"].group_by("shop").agg(n=pl.len())


async def until(found: list[Any], many: int) -> None:
    for _ in range(1000):
        if len(found) >= many:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"{found} are all")


def test_who_follows_goes_on_with_the_view_that_replaces_it() -> None:
    engine = started()
    rows: list[Any] = []

    async def follow() -> None:
        async for delta in engine.views["totals"].follow(0):
            rows.extend(delta.sort("shop").select("shop", "total", "_epoch", "_diff").rows())

    async def run() -> None:
        task = asyncio.create_task(follow())
        await until(rows, 2)
        engine.view("totals", large(engine), replace=True)
        await until(rows, 3)
        engine.push("sales", {"shop": ["c"], "price": [5]})
        await until(rows, 4)
        task.cancel()

    asyncio.run(run())
    assert rows == [("a", 1, 1, 1), ("b", 2, 1, 1), ("a", 1, 2, -1), ("c", 5, 3, 1)]


def test_a_follower_receives_the_change_of_columns_between_the_deltas_of_both() -> None:
    engine = started()
    seen: list[Any] = []

    async def follow(since: int, slow: asyncio.Event) -> None:
        async for delta in engine.views["totals"].follow(since, on_schema=seen.append):
            seen.append((delta.columns[1], int(delta["_epoch"][0]), delta.height))
            await slow.wait()

    async def run() -> None:
        slow = asyncio.Event()
        task = asyncio.create_task(follow(0, slow))
        await until(seen, 1)
        engine.push("sales", {"shop": ["a"], "price": [5]})
        engine.view("totals", counted(engine), replace=True)
        engine.push("sales", {"shop": ["c"], "price": [5]})
        slow.set()
        await until(seen, 5)
        task.cancel()

    asyncio.run(run())
    first, second, change, third, fourth = seen
    assert (first, second) == (("total", 1, 2), ("total", 2, 2))
    assert isinstance(change, ec.SchemaChange)
    assert (change.epoch, change.after.names()) == (3, ["shop", "n"])
    assert (third, fourth) == (("n", 3, 2), ("n", 4, 1))


def test_without_on_schema_other_columns_are_refused_while_it_is_followed() -> None:
    engine = started()
    seen: list[Any] = []

    async def follow() -> None:
        async for delta in engine.views["totals"].follow(0):
            seen.extend(delta.rows())

    async def run() -> None:
        task = asyncio.create_task(follow())
        await until(seen, 2)
        with pytest.raises(
            ec.PlanError, match="does not take that; close it first, or subscribe with on_schema="
        ):
            engine.view("totals", counted(engine), replace=True)
        task.cancel()

    asyncio.run(run())
    assert engine.epoch_number == 1


def test_a_view_is_not_replaced_in_its_own_named_callback_for_the_right_reason() -> None:
    engine = started()
    refused: list[str] = []

    def replace(_: pl.DataFrame) -> None:
        if refused:
            return
        with pytest.raises(ec.PlanError) as error:
            engine.view("totals", counted(engine), replace=True)
        refused.append(str(error.value))

    engine.views["totals"].subscribe(replace, name="mail", on_schema=lambda _: None)
    engine.push("sales", {"shop": ["a"], "price": [1]})
    assert "is being called, and the view that it replaces has other columns" in refused[0]
    assert "replace it after the callback has returned" in refused[0]
    engine.view("totals", counted(engine), replace=True)


@pytest.mark.parametrize("names", [("v/a", "b", "v", "a/b"), ("v", "a/b", "v/a", "b")])
def test_names_with_slashes_are_distinguished(names: tuple[str, str, str, str], tmp_path: Path) -> None:
    first, its_name, second, its_other = names

    def opened() -> ec.Engine:
        engine = ec.Engine(checkpoint=tmp_path)
        rows = engine.source("rows", {"k": pl.Int64})
        engine.view(first, rows)
        engine.view(second, rows.filter(pl.col("k") > 0))
        return engine

    with opened() as engine:
        engine.push("rows", {"k": [1]})
        engine.views[first].subscribe(lambda _: None, name=its_name, since=0)
        engine.push("rows", {"k": [2]})
    with opened() as engine:
        got: list[int] = []
        engine.views[second].subscribe(lambda delta: got.append(delta.height), name=its_other, since=0)
        assert got == [1, 1], "it has a position of its own"
        again: list[int] = []
        engine.views[first].subscribe(lambda delta: again.append(delta.height), name=its_name, since=0)
        assert again == []


def test_a_key_of_an_earlier_version_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evercurrent.views.engine import view as module
    from evercurrent.views.epochs import reader_keys

    def opened() -> ec.Engine:
        engine = ec.Engine(checkpoint=tmp_path)
        engine.view("v/a", engine.source("rows", {"k": pl.Int64}))
        return engine

    with monkeypatch.context() as patched:
        patched.setattr(module, "reader_key", reader_keys.earlier_key)
        with opened() as engine:
            engine.push("rows", {"k": [1]})
            engine.views["v/a"].subscribe(lambda _: None, name="b", since=0)
    assert positions(tmp_path) == {"v/a/b": 1}
    with opened() as engine:
        got: list[int] = []
        engine.views["v/a"].subscribe(lambda delta: got.append(delta.height), name="b", since=0)
        assert got == []
        engine.push("rows", {"k": [2]})
        assert got == [1]
    assert positions(tmp_path) == {"v/a\0b": 2}


def positions(folder: Path) -> dict[str, int]:
    """What the checkpoint keeps of named subscriptions: in its last commit, or beside it."""
    store = store_at(folder)
    last = CommitLog(store).last
    assert last is not None
    return read_note(store, last.epoch) or dict(last.readers)


def test_a_fork_frees_its_origin_and_the_checkpoint(tmp_path: Path) -> None:
    engine = started(tmp_path)
    engine.view(
        "sizes",
        engine.views["totals"].join(engine.sources["sales"], on="shop").group_by("total").agg(n=pl.len()),
    )
    dropped = engine.view("dropped", engine.views["sizes"])
    engine.drop_view("dropped")
    fork, origin = engine.fork(), weakref.ref(engine)
    second = fork.fork()
    del engine, dropped
    gc.collect()
    assert origin() is None
    with ec.Engine(checkpoint=ec.Checkpoint(tmp_path, drop=("totals", "sizes"))) as again:
        again.view("sales", again.source("sales", SALES, retained=True))
        assert again.views["sales"].read().height == 2
    for each in (fork, second):
        assert contents(each.views["totals"]).counts == {("a", 1): 1, ("b", 2): 1}
        assert each.prove()
        assert each.views["sizes"].lineage({"total": 2})["sales"].rows() == [("b", 2, 1)]
        with pytest.raises(ec.PlanError, match="'sizes' is declared on it"):
            each.drop_view("totals")
        each.push("sales", {"shop": ["a"], "price": [1]})
        each.view("dropped", each.views["sizes"])


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("name", [None, "reader"])
def test_other_columns_are_announced_in_their_epoch_though_the_view_has_no_rows(
    name: str | None, background: bool
) -> None:
    engine = started()
    engine.view("elsewhere", engine.source("others", SALES))
    seen: list[Any] = []
    reader = engine.views["totals"].subscribe(seen.append, name=name, since=0, on_schema=seen.append)
    many = counted(engine).filter(pl.col("n") > 1)
    engine.view("totals", many, replace=True, background=background).wait()
    rows, change = seen
    assert rows["_epoch"].to_list() == [1, 1]
    assert isinstance(change, ec.SchemaChange)
    assert (change.epoch, change.after.names(), reader.delivered) == (3, ["shop", "n"], 3)
    engine.push("others", {"shop": ["a"], "price": [1]})
    assert len(seen) == 2
    engine.push("sales", {"shop": ["a"], "price": [1]})
    assert [delta.rows() for delta in seen[2:]] == [[("a", 2, 5, 1)]]


def test_a_change_of_columns_without_rows_is_not_lost_when_the_engine_is_opened_again(tmp_path: Path) -> None:
    def many(engine: ec.Engine) -> Any:
        return counted(engine).filter(pl.col("n") > 1)

    seen: list[Any] = []
    with started(tmp_path) as engine:
        engine.views["totals"].subscribe(seen.append, name="reader", since=0, on_schema=seen.append)
        engine.view("totals", many(engine), replace=True)
    assert [type(each) for each in seen] == [pl.DataFrame, ec.SchemaChange]
    with ec.Engine(checkpoint=tmp_path) as engine:
        engine.source("sales", SALES, retained=True)
        view = engine.view("totals", many(engine))
        view.subscribe(seen.append, name="reader", on_schema=seen.append)
        engine.push("sales", {"shop": ["a"], "price": [1]})
    assert [delta.rows() for delta in seen[2:]] == [[("a", 2, 3, 1)]]


def test_a_follower_receives_the_change_of_columns_at_once_though_the_view_has_no_rows() -> None:
    engine = started()
    seen: list[Any] = []

    async def follow() -> None:
        async for delta in engine.views["totals"].follow(0, on_schema=seen.append):
            seen.extend(delta.rows())

    async def run() -> None:
        task = asyncio.create_task(follow())
        await until(seen, 2)
        engine.view("totals", counted(engine).filter(pl.col("n") > 1), replace=True)
        await until(seen, 3)
        task.cancel()

    asyncio.run(run())
    assert isinstance(seen[2], ec.SchemaChange)


def test_a_change_of_columns_at_which_a_named_reader_raises_is_announced_again() -> None:
    engine = started()
    seen: list[Any] = []

    def announced(change: ec.SchemaChange) -> None:
        seen.append(change.epoch)
        if len(seen) == 1:
            raise ValueError("not ready")

    engine.views["totals"].subscribe(
        lambda delta: seen.append(delta["_epoch"].to_list()), name="reader", on_schema=announced
    )
    with pytest.raises(ec.SubscriberError, match="not ready"):
        engine.view("totals", counted(engine).filter(pl.col("n") > 1), replace=True)
    engine.push("sales", {"shop": ["a"], "price": [1]})
    assert seen == [2, 2, [3]]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", [None, "reader"])
@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("before", ["rows", "total"])
def test_what_readers_have_adds_up_to_the_contents_if_a_view_is_replaced_before_the_first_push(
    before: str, is_read: bool, name: str | None, workers: int
) -> None:
    engine = ec.Engine(workers=workers)
    rows = engine.source("rows", {"k": pl.Int64, "v": pl.Int64}, retained=True)
    total = rows.group_by().agg(k=pl.len().cast(pl.Int64), v=pl.col("v").max())
    first, second = (rows, total) if before == "rows" else (total, rows)
    view = engine.view("v", first)
    got: list[pl.DataFrame] = []
    start = view.read() if is_read else pl.DataFrame(schema=view.schema)
    if before == "total":
        start = pl.DataFrame([(0, None)], schema=view.schema, orient="row")
    view.subscribe(got.append, name=name)
    again = engine.view("v", second, replace=True)

    def sums() -> Counter[Any]:
        counts = Counter(start.rows())
        for delta in got:
            for *row, _, diff in delta.rows():
                counts[tuple(row)] += diff
        return Counter({row: count for row, count in counts.items() if count})

    assert sums() == Counter(again.read().rows())
    assert engine.epoch_number == 1
    engine.push("rows", [(1, 2)])
    assert sums() == Counter(again.read().rows())
    assert [delta["_epoch"][0] for delta in got] == [1, 2]
    whole = (
        pl.concat([delta.drop("_epoch") for delta in again.deltas()]).group_by("k", "v").agg(pl.sum("_diff"))
    )
    assert whole.filter(pl.col("_diff") != 0).rows() == [(1, 2, 1)]
    engine.close()


def test_other_columns_before_the_first_push_are_announced_at_once() -> None:
    engine = ec.Engine()
    sales = engine.source("sales", SALES, retained=True)
    seen: list[Any] = []
    engine.view("totals", sales).subscribe(seen.append, on_schema=seen.append)
    engine.view("totals", sales.group_by().agg(n=pl.len()), replace=True)
    change, delta = seen
    assert (change.epoch, change.after.names(), delta.rows()) == (1, ["n"], [(0, 1, 1)])
    engine.push("sales", {"shop": ["a"], "price": [1]})
    assert sorted(seen[2].rows()) == [(0, 2, -1), (1, 2, 1)]


@pytest.mark.parametrize("is_dropped", [False, True], ids=["replaced", "dropped"])
@pytest.mark.parametrize("is_other", [True, False], ids=["other-columns", "same-columns"])
def test_a_sink_that_was_closed_is_not_behind_a_replacement_before_the_first_push(
    is_other: bool, is_dropped: bool, tmp_path: Path
) -> None:
    engine = ec.Engine()
    sales = engine.source("sales", SALES)
    view = engine.view("totals", sales.group_by().agg(n=pl.len()))
    table = view.to_delta(tmp_path / "totals", key=["n"])
    feed = view.to_parquet(tmp_path / "feed")
    assert table.join(10)
    assert feed.join(10)
    table.close()
    feed.close()
    after = {"n": pl.len() + 5} if not is_other else {"most": pl.col("price").max(), "rows": pl.len()}
    if is_dropped:
        engine.drop_view("totals")
    view = engine.view("totals", sales.group_by().agg(**after), replace=True)
    engine.push("sales", {"shop": ["a", "b"], "price": [3, 4]})
    table = view.to_delta(tmp_path / "totals", key=view.columns)
    assert table.join(10)
    assert pl.read_delta(str(tmp_path / "totals")).rows() == view.read().rows()
    feed = view.to_parquet(tmp_path / "feed")
    if is_other or is_dropped:
        with pytest.raises(ec.SinkError, match="give another folder, or empty this one"):
            feed.join(10)
        return
    assert feed.join(10)
    deltas = pl.read_parquet(tmp_path / "feed" / "*.parquet")
    sums = deltas.group_by("n").agg(pl.col("_diff").sum()).filter(pl.col("_diff") != 0)
    assert sums.select("n").rows() == view.read().rows()


def test_a_replacement_that_is_refused_before_the_first_push_leaves_no_epoch() -> None:
    engine = ec.Engine()
    sales = engine.source("sales", SALES)
    engine.view("totals", sales).subscribe(lambda _: None)
    with pytest.raises(ec.PlanError, match="does not take that"):
        engine.view("totals", sales.group_by().agg(n=pl.len()), replace=True)
    engine.view("counts", sales.group_by("shop").agg(n=pl.len()))
    assert engine.epoch_number == 0
    assert engine.push("sales", {"shop": ["a"], "price": [1]}) == 1
    assert contents(engine.views["counts"]).counts == {("a", 1): 1}
    assert contents(engine.views["totals"]).counts == {("a", 1): 1}


@pytest.mark.parametrize("background", [False, True])
def test_a_reader_that_does_not_fit_what_replaces_its_view_is_named_before_anything_changes(
    background: bool, tmp_path: Path
) -> None:
    engine = ec.Engine()
    hits = engine.source(
        "hits", {"ip": pl.String, "n": pl.Int64, "at": pl.Datetime("us")}, event_time="at", retained=True
    )
    hourly = hits.window(ec.fixed("1h"))
    engine.view("hourly", hourly.group_by("ip").agg(n=pl.len()))
    sums: list[pl.DataFrame] = []
    summing = engine.views["hourly"].subscribe(sums.append, reader="summing")
    engine.view("counts", hits.group_by("ip").agg(n=pl.col("n").sum()))
    table = engine.views["counts"].to_delta(tmp_path / "counts")
    by_key = engine.views["counts"].to_delta(tmp_path / "by_key", key="ip")
    engine.push("hits", [("a", 1, "2026-01-01 10:00:00")])
    epoch = engine.epoch_number
    again = hourly.trigger(ec.each_row()).accumulate("accumulating").group_by("ip").agg(n=pl.len())
    with pytest.raises(ec.PlanError, match=r"'hourly' cannot be replaced while Subscription.*adds up"):
        engine.view("hourly", again, replace=True, background=background)
    with pytest.raises(ec.PlanError, match=r"'counts' cannot be replaced.*each 'ip': the key.*is none"):
        engine.view("counts", hits.select("ip", "n"), replace=True, background=background)
    assert engine.epoch_number == epoch
    table.close()
    engine.view("counts", hits.group_by("ip").agg(n=pl.col("n").max()), replace=True).wait()
    engine.push("hits", [("a", 5, "2026-01-01 10:30:00")])
    by_key.join()
    assert pl.read_delta(str(tmp_path / "by_key")).rows() == [("a", 5)]
    assert sum((delta["n"] * delta["_diff"]).sum() for delta in sums) == 2
    summing.close()
    by_key.close()
