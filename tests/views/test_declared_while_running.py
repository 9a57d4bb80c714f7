"""Sources and views that are declared, replaced and dropped between two epochs: what they hold, and what is refused."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from durability.observing import all_of, differences, state
from evercurrent.views.store import LocalStore
from failing_store import FailingStore, InjectedError, Killed
from harness import contents, summed

SALES = {"shop": pl.String, "price": pl.Int64}
ROWS = pl.DataFrame({"shop": ["north", "south", "north"], "price": [3, 4, 5]})
MORE = pl.DataFrame({"shop": ["south", "west"], "price": [6, 1]})


def started(checkpoint: Any = None, *, retained: bool = True, **options: Any) -> ec.Engine:
    """An engine after two epochs."""
    engine = ec.Engine(checkpoint=checkpoint, **options)
    sales = engine.source("sales", SALES, retained=retained)
    engine.view("per_shop", sales.group_by("shop").agg(n=pl.len(), total=pl.col("price").sum()))
    engine.push("sales", ROWS)
    engine.push("sales", MORE)
    return engine


def best(engine: ec.Engine) -> Any:
    return engine.sources["sales"].group_by("shop").agg(best=pl.col("price").max())


@pytest.fixture(params=["memory", "checkpoint"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "here"


# What is filled


def test_a_view_begins_with_all_of_its_rows(place: Path | None) -> None:
    engine = started(place)
    view = engine.view("best", best(engine))
    assert engine.epoch_number == 3
    assert contents(view).counts == {("north", 5): 1, ("south", 6): 1, ("west", 1): 1}
    assert summed(view.deltas()) == contents(view).counts
    assert view.earliest == -1
    assert summed(view.deltas(view.earliest)) == contents(view).counts
    with pytest.raises(ec.EpochGoneError, match="its present definition begins at epoch 3"):
        view.deltas(since=1)
    assert summed(engine.views["per_shop"].deltas()) == contents(engine.views["per_shop"]).counts
    engine.push("sales", {"shop": ["north"], "price": [9]})
    assert summed(view.deltas(3)) == {("north", 9): 1, ("north", 5): -1}
    assert "best" in engine.explain()
    assert "best" in engine.explain(circuit=True)
    engine.close()


def test_a_view_of_a_view_needs_no_source(place: Path | None) -> None:
    engine = started(place, retained=False)
    sizes = engine.view("sizes", engine.views["per_shop"].group_by("n").agg(shops=pl.len()))
    assert contents(sizes).counts == {(2, 2): 1, (1, 1): 1}
    engine.close()


def test_a_view_is_filled_from_the_arrangement_of_another(place: Path | None) -> None:
    engine = ec.Engine(checkpoint=place)
    sales = engine.source("sales", SALES, kind="diffs")
    engine.view("dearest", sales.group_by("shop").top_k(1, by="price"))
    engine.push("sales", ROWS)
    engine.push("sales", ROWS.head(1).with_columns(_diff=-1))
    view = engine.view("total", sales.group_by().agg(total=pl.col("price").sum(), n=pl.len()))
    assert view.read().rows() == [(9, 2)]
    engine.push("sales", MORE)
    assert view.read().rows() == [(16, 4)]
    engine.close()


def test_a_view_is_not_filled_from_a_join_that_leaves_rows_out(place: Path | None) -> None:
    engine = ec.Engine(checkpoint=place)
    sales = engine.source("sales", SALES, kind="diffs")
    towns = engine.source("towns", {"shop": pl.String, "town": pl.String}, kind="diffs")
    engine.view("joined", sales.join(towns, on="shop").group_by("town").agg(n=pl.len()))
    engine.push("sales", ROWS)
    with pytest.raises(ec.PlanError, match="source 'sales' does not retain its rows"):
        engine.view("total", sales.group_by().agg(total=pl.col("price").sum()))
    engine.close()


def test_a_new_source_needs_nothing(place: Path | None) -> None:
    engine = started(place, retained=False)
    hits = engine.source("hits", {"at": pl.Datetime("us")}, event_time="at", watermark=ec.ascending())
    assert engine.epoch_number == 2, "a source alone is no epoch"
    panes = (
        hits.window(ec.fixed("1m")).trigger(ec.after_watermark()).lateness("0s").group_by().agg(n=pl.len())
    )
    view = engine.view("panes", panes)
    engine.push("hits", {"at": [datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 2)]})
    assert view.read()["n"].to_list() == [1]
    assert engine.watermarks["hits"] == datetime(2024, 1, 1, 0, 2, tzinfo=UTC)
    with pytest.raises(ec.PlanError, match="source 'hits' does not retain its rows"):
        engine.view("late", hits.group_by("at").agg(n=pl.len()))
    engine.close()


def test_it_is_there_after_a_restart_and_after_a_crash(tmp_path: Path) -> None:
    engine = started(tmp_path)
    engine.view("best", best(engine))
    engine.push("sales", MORE)
    seen = all_of(engine)
    del engine  # Nothing is written at the end.
    again = ec.Engine(checkpoint=tmp_path)
    sales = again.source("sales", SALES, retained=True)
    again.view("per_shop", sales.group_by("shop").agg(n=pl.len(), total=pl.col("price").sum()))
    again.view("best", best(again))
    assert differences(seen, all_of(again)) == []
    with pytest.raises(ec.EpochGoneError, match="the view did not exist"):
        again.views["best"].read(epoch=2)
    assert again.views["best"].read(epoch=3).height == 3
    again.close()


def test_a_checkpoint_within_a_limit_of_memory_goes_on(tmp_path: Path) -> None:
    engine = started(ec.Checkpoint(tmp_path, resident_bytes=100_000))
    view = engine.view("best", best(engine))
    for price in range(20):
        engine.push("sales", {"shop": [f"shop {n}" for n in range(1_000)], "price": [price] * 1_000})
    assert view.read().height == 1_003
    assert view.read()["best"].max() == 19
    engine.drop_view("best")
    engine.push("sales", MORE)
    engine.close()


def test_a_timeline_shows_what_came_before(tmp_path: Path) -> None:
    engine = ec.Engine(record=True)
    hits = engine.source("hits", {"at": pl.Datetime("us"), "n": pl.Int64}, event_time="at", retained=True)
    engine.view("all", hits)
    engine.push("hits", {"at": [datetime(2024, 1, 1)], "n": [1]})
    view = engine.view("sums", hits.window(ec.fixed("1m")).group_by().agg(n=pl.col("n").sum()))
    engine.push("hits", {"at": [datetime(2024, 1, 1, 0, 0, 30)], "n": [2]})
    assert engine.run_log.epochs()["_epoch"].to_list() == [1, 2, 3]
    assert "<svg" in view.timeline().svg()


# What is refused


def test_what_cannot_be_filled_is_refused_with_the_way_out(place: Path | None) -> None:
    engine = started(place, retained=False)
    before = state(engine)
    for _ in range(2):
        with pytest.raises(
            ec.PlanError, match=r"(?s)'best'.*'sales'.*retained=True.*backfill=\{'sales': ROWS\}"
        ):
            engine.view("best", best(engine))
    assert differences(before, state(engine)) == []
    engine.push("sales", MORE)
    engine.close()


def test_what_depends_on_when_rows_came_is_refused(place: Path | None) -> None:
    engine = ec.Engine(checkpoint=place)
    hits = engine.source("hits", {"at": pl.Datetime("us")}, event_time="at", retained=True)
    engine.view("all", hits)
    engine.push("hits", {"at": [datetime(2024, 1, 1)]})
    with pytest.raises(ec.PlanError, match="'panes' cannot be filled: it depends on when rows arrived"):
        engine.view("panes", hits.window(ec.fixed("1m")).lateness("1m").group_by().agg(n=pl.len()))
    engine.close()


def test_a_value_that_cannot_be_computed_changes_nothing(place: Path | None) -> None:
    engine = started(place)
    before = state(engine)
    with pytest.raises(ec.InputError):
        engine.view("numbers", engine.sources["sales"].select(pl.col("shop").cast(pl.Int64)))
    assert differences(before, state(engine)) == []
    engine.close()


def test_a_function_that_a_view_uses_cannot_declare() -> None:
    engine = started()
    raised: list[BaseException] = []

    def declaring(rows: pl.DataFrame) -> pl.DataFrame:
        try:
            engine.view("another", best(engine))
        except ec.InputError as error:
            raised.append(error)
        return rows

    engine.view("mapped", engine.sources["sales"].map_batches(declaring, schema=SALES))
    engine.push("sales", MORE)
    assert len(raised) >= 2
    assert all("cannot declare anything" in str(error) for error in raised)
    assert "another" not in engine.views


def test_a_closed_engine_declares_nothing(tmp_path: Path) -> None:
    engine = started(tmp_path)
    collection = best(engine)
    engine.close()
    with pytest.raises(ec.CheckpointError, match="closed"):
        engine.view("best", collection)


# Rows from elsewhere


def test_rows_given_for_a_source_that_keeps_none(place: Path | None, tmp_path: Path) -> None:
    every = pl.concat([ROWS, MORE])
    every.write_parquet(tmp_path / "sales.parquet")
    kinds: dict[str, Callable[[], Any]] = {
        "frame": lambda: every,
        "columns": lambda: every.to_dict(as_series=False),
        "batches": lambda: iter([ROWS, MORE]),
        "path": lambda: tmp_path / "sales.parquet",
        "text": lambda: str(tmp_path / "sales.parquet"),
    }
    engine = started(place, retained=False)
    for name, rows in kinds.items():
        changed = best(engine).with_columns(kind=pl.lit(name))
        view = engine.view(name, changed, backfill={"sales": rows()})
        assert contents(view).counts == {("north", 5, name): 1, ("south", 6, name): 1, ("west", 1, name): 1}
        if len(engine.views) == 2:
            engine.push("sales", {"shop": ["west"], "price": [8]})
            assert summed(view.deltas(engine.epoch_number - 1)) == {
                ("west", 8, name): 1,
                ("west", 1, name): -1,
            }
            engine.drop_view(name)
            break
    engine.close()


def test_rows_given_end_where_the_live_ones_begin(place: Path | None) -> None:
    engine = ec.Engine(checkpoint=place)
    sales = engine.source("sales", SALES)
    engine.view("n", sales.group_by().agg(n=pl.len()))
    engine.push("sales", ROWS, position=7)

    def declared(rows: Any) -> ec.View:
        return engine.view("best", best(engine), backfill={"sales": rows})

    with pytest.raises(ec.PlanError, match=r"does not state where it ends; .*up to 7.*position=7"):
        declared(ROWS)
    for position in (6, 8):
        with pytest.raises(ec.PlanError, match=f"ends at position {position}, but .* up to 7"):
            declared(ec.Backfill(ROWS, position=position))
    view = declared(ec.Backfill(ROWS, position=7))
    engine.push("sales", MORE, position=8)
    assert contents(view).counts == {("north", 5): 1, ("south", 6): 1, ("west", 1): 1}
    engine.close()


def test_rows_that_are_not_needed_or_do_not_fit_are_refused() -> None:
    engine = started()
    every = pl.concat([ROWS, MORE])
    with pytest.raises(ec.PlanError, match=r"'best'.*rows of source 'sales', which are not needed"):
        engine.view("best", best(engine), backfill={"sales": every})
    with pytest.raises(ec.PlanError, match="names 'orders', which is no source"):
        engine.view("best", best(engine), backfill={"orders": every})
    with pytest.raises(ec.PlanError, match="is a DataFrame; give a mapping"):
        engine.view("best", best(engine), backfill=every)  # type: ignore[arg-type]
    fresh = ec.Engine()
    sales = fresh.source("sales", SALES)
    with pytest.raises(
        ec.PlanError, match="view 'all': backfill= goes with a view that is declared after the first push"
    ):
        fresh.view("all", sales, backfill={"sales": every})
    other = started(retained=False)
    with pytest.raises(ec.InputError, match="'price'"):
        other.view("best", best(other), backfill={"sales": every.drop("price")})
    with pytest.raises(ec.PlanError, match="nothing was pushed with a position"):
        other.view("best", best(other), backfill={"sales": ec.Backfill(every, position=1)})
    hits = other.source("hits", {"at": pl.Datetime("us")}, event_time="at", watermark=ec.ascending())
    other.view("hits", hits.group_by().agg(n=pl.len()))
    other.push("hits", {"at": [datetime(2024, 1, 1)]})
    with pytest.raises(ec.InputError, match="event time 'at' cannot be computed with"):
        other.view("each", hits, backfill={"hits": {"at": [None]}})
    orders = other.source("orders", {"k": pl.Int64}, kind="diffs")
    other.view("orders", orders.group_by().agg(n=pl.len()))
    other.push("orders", {"k": [1]})
    with pytest.raises(ec.InputError, match="retractions of rows that are not there"):
        other.view("each", orders, backfill={"orders": {"k": [1, 2], "_diff": [1, -1]}})


# The same again, another one, none


def test_a_cell_that_is_run_twice_changes_nothing(place: Path | None) -> None:
    def cell(engine: ec.Engine) -> tuple[Any, Any]:
        sales = engine.source("sales", SALES, retained=True)
        doubled = sales.map_batches(lambda rows: rows.with_columns(price=pl.col("price") * 2), schema=SALES)
        return sales, engine.view("doubled", doubled.group_by("shop").agg(s=pl.col("price").sum()))

    engine = ec.Engine(checkpoint=place)
    first = cell(engine)
    engine.push("sales", ROWS)
    assert cell(engine) == first
    assert engine.epoch_number == 1
    engine.push("sales", MORE)
    assert contents(first[1]).counts == {("north", 16): 1, ("south", 20): 1, ("west", 2): 1}
    engine.close()


def test_another_declaration_under_a_name_is_refused() -> None:
    engine = started()
    with pytest.raises(
        ec.PlanError, match=r"view 'per_shop' is declared twice, in different ways.*replace=True"
    ):
        engine.view("per_shop", best(engine))
    with pytest.raises(
        ec.PlanError, match=r"source 'sales' is declared twice, in different ways.*drop_source"
    ):
        engine.source("sales", SALES)
    with pytest.raises(ec.PlanError, match="source 'sales' is declared twice"):
        engine.source("sales", {**SALES, "more": pl.Int8}, retained=True)


def test_functions_that_cannot_be_distinguished_are_refused() -> None:
    engine = started()

    def mapped(lock: Any) -> Any:
        def function(rows: pl.DataFrame) -> pl.DataFrame:
            with lock:
                return rows

        return engine.sources["sales"].map_batches(function, schema=SALES)

    first = mapped(threading.RLock())
    view = engine.view("mapped", first)
    assert engine.view("mapped", first) is view
    with pytest.raises(ec.PlanError, match="differ only by objects that cannot be inspected"):
        engine.view("mapped", mapped(threading.RLock()), replace=True)


def test_a_view_is_replaced_in_one_epoch(place: Path | None) -> None:
    engine = started(place)
    before, received = engine.views["per_shop"], list[pl.DataFrame]()
    open_one = before.subscribe(received.append)
    named = before.subscribe(received.append, name="named")
    sales = engine.sources["sales"]
    definition = (
        sales.filter(pl.col("price") > 3).group_by("shop").agg(n=pl.len(), total=pl.col("price").sum())
    )
    view = engine.view("per_shop", definition, replace=True)
    change = {("north", 2, 8): -1, ("north", 1, 5): 1, ("west", 1, 1): -1}
    assert [summed([frame]) for frame in received] == [change, change]
    assert summed(view.deltas(2)) == change
    assert summed(view.deltas()) == contents(view).counts == {("north", 1, 5): 1, ("south", 2, 10): 1}
    assert view.subscriptions == (open_one, named)
    with pytest.raises(ec.InputError, match=r"'per_shop' was replaced.*engine.views\['per_shop'\]"):
        before.read()
    engine.push("sales", {"shop": ["west"], "price": [9]})
    assert len(received) == 4
    assert engine.readers.delivered() == {"per_shop/named": 4}
    if place is not None:
        assert view.read(epoch=3).height == 2
        with pytest.raises(ec.EpochGoneError, match="had another definition"):
            view.read(epoch=2)
    engine.close()


def test_subscribers_of_a_view_with_other_columns_are_notified_or_it_is_refused(place: Path | None) -> None:
    engine = started(place)
    before, received = engine.views["per_shop"], list[Any]()
    plain = before.subscribe(received.append)
    with pytest.raises(ec.PlanError, match=r"other columns, and Subscription\(view 'per_shop'\).*on_schema="):
        engine.view("per_shop", best(engine), replace=True)
    assert before.read().width == 3
    plain.close()
    engine.views["per_shop"].subscribe(received.append, name="named", on_schema=received.append)
    view = engine.view("per_shop", best(engine), replace=True)
    change, rows = received
    assert (change.view, change.epoch, list(change.before), list(change.after)) == (
        "per_shop",
        3,
        ["shop", "n", "total"],
        ["shop", "best"],
    )
    assert summed([rows]) == contents(view).counts
    assert view.earliest == -1
    assert summed(view.deltas(view.earliest)) == contents(view).counts
    engine.close()


def test_a_view_is_dropped_and_what_nobody_needs_is_freed(place: Path | None) -> None:
    engine = started(place)
    for part in engine._current().circuit.states:
        part.saved()  # Waiting rows become a run, as they do when the view is filled.
    size = sum(state.nbytes for state in engine._current().circuit.states)
    view = engine.view("best", best(engine))
    sizes = engine.view("sizes", view.group_by("best").agg(n=pl.len()))
    with pytest.raises(ec.PlanError, match="view 'best': view 'sizes' is declared on it; drop that first"):
        engine.drop_view("best")
    subscription = sizes.subscribe(print)
    with pytest.raises(ec.PlanError, match="1 open subscription to it"):
        engine.drop_view("sizes")
    subscription.close()
    engine.drop_view("sizes")
    engine.drop_view("best")
    assert list(engine.views) == ["per_shop"]
    assert sum(state.nbytes for state in engine._current().circuit.states) == size
    with pytest.raises(ec.InputError, match="view 'best' was dropped"):
        view.read()
    with pytest.raises(ec.PlanError, match="there is no view 'best'"):
        engine.drop_view("best")
    with pytest.raises(ec.PlanError, match="source 'sales': view 'per_shop' is computed from it"):
        engine.drop_source("sales")
    sales = engine.sources["sales"]
    collection = sales.filter(pl.col("price") > 1)
    engine.drop_view("per_shop")
    engine.drop_source("sales")
    assert not engine.sources
    for each in (sales, collection, sales.filter(pl.col("price") > 2), collection.select("shop")):
        with pytest.raises(ec.PlanError, match="source 'sales', which was dropped"):
            engine.view("more", each)
    with pytest.raises(ec.InputError, match="no source 'sales'"):
        engine.push("sales", ROWS)
    sales = engine.source("sales", SALES)
    again = engine.view("per_shop", sales.group_by("shop").agg(n=pl.len()))
    assert not again.read().height
    engine.push("sales", ROWS)
    assert again.read().height == 2
    engine.close()


def test_a_named_subscription_does_not_outlive_its_view(tmp_path: Path) -> None:
    engine = started(tmp_path)
    received: list[pl.DataFrame] = []
    engine.views["per_shop"].subscribe(received.append, name="me").close()
    definition = best(engine)
    engine.drop_view("per_shop")
    view = engine.view("per_shop", definition)
    view.subscribe(received.append, name="me")
    engine.push("sales", {"shop": ["east"], "price": [1]})
    assert [summed([frame]) for frame in received] == [{("east", 1): 1}]
    engine.close()


def test_a_subscriber_that_raises_leaves_the_change_done(place: Path | None) -> None:
    engine = started(place)
    before = engine.views["per_shop"]
    before.subscribe(lambda delta: 1 / 0)
    definition = engine.sources["sales"].group_by("shop").agg(n=pl.len(), total=pl.col("price").min())
    with pytest.raises(ec.SubscriberError, match="epoch 3 is done"):
        engine.view("per_shop", definition, replace=True)
    assert engine.views["per_shop"].read().height == 3
    with pytest.raises(ec.InputError, match="was replaced"):
        before.read()
    engine.close()


# Whatever fails, and from any thread


@pytest.mark.parametrize("what", ["add", "replace", "drop"])
@pytest.mark.parametrize("kill", [False, True])
def test_a_store_that_fails_changes_nothing(what: str, kill: bool, tmp_path: Path) -> None:
    changes: dict[str, Callable[[ec.Engine], Any]] = {
        "add": lambda engine: engine.view("best", best(engine)),
        "replace": lambda engine: engine.view("per_shop", best(engine), replace=True),
        "drop": lambda engine: engine.drop_view("other"),
    }
    for n in itertools.count():
        folder = tmp_path / str(n)
        store = FailingStore(LocalStore(folder), None, error=Killed if kill else InjectedError)
        engine = started(ec.Checkpoint(store))
        engine.view("other", best(engine).select("shop"))
        engine.checkpoint()
        before = state(engine)
        store.fail_at = len(store.done) + n
        try:
            changes[what](engine)
        except InjectedError:
            assert differences(before, state(engine)) == []
            changes[what](engine)
        except Killed:
            with suppress(Killed):
                engine.close()
            again = started_again(folder)
            assert differences(before, state(again)) == []
            again.close()
            continue
        if not store.has_failed:
            break
        engine.push("sales", MORE)
        engine.close()
    assert n > 0


def started_again(folder: Path) -> ec.Engine:
    engine = ec.Engine(checkpoint=folder)
    sales = engine.source("sales", SALES, retained=True)
    engine.view("per_shop", sales.group_by("shop").agg(n=pl.len(), total=pl.col("price").sum()))
    engine.view("other", best(engine).select("shop"))
    return engine


def test_views_are_declared_while_other_threads_push_and_read(place: Path | None) -> None:
    engine = started(place)
    ended, raised = threading.Event(), list[BaseException]()

    def pushing() -> None:
        while not ended.is_set():
            engine.push("sales", MORE)

    def reading() -> None:
        while not ended.is_set():
            for view in list(engine.views.values()):
                with suppress(ec.InputError):  # It may be dropped at any moment.
                    view.read()
            engine.explain()

    def guarded(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                raised.append(error)

        return run

    threads = [threading.Thread(target=guarded(work)) for work in (pushing, reading)]
    for thread in threads:
        thread.start()
    for number in range(15):
        view = engine.view(f"view {number}", best(engine).with_columns(number=pl.lit(number)))
        assert view.read().height == 3
        if number % 3 == 2:
            engine.drop_view(view.name)
    ended.set()
    for thread in threads:
        thread.join()
    assert not raised, raised
    pushes = sum(len(list(engine.views["per_shop"].deltas(2))) for _ in [0])
    assert engine.views["per_shop"].read()["n"].sum() == 5 + 2 * pushes
    engine.close()
