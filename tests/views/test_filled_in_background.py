"""Views that a thread fills while pushes and reads go on: progress, errors, and what is done to them meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.delta import Delta
from evercurrent.views.engine import fills
from harness import contents

SALES = {"shop": pl.Int64, "price": pl.Int64}
ROWS = pl.DataFrame({"shop": range(1000), "price": [price % 10 for price in range(1000)]})


class Held:
    """Fills go no further than so many pieces, until they are let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.after = 1

    def advance(self, own: Callable[[fills.Filling], bool]) -> Callable[[fills.Filling], bool]:
        def held(filling: fills.Filling) -> bool:
            if filling.progress.rows_done >= 100 * self.after and not filling._turn.is_ours:
                assert self.go.wait(20)
            return own(filling)

        return held


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    holder = Held()
    monkeypatch.setattr(fills, "PIECE_ROWS", 100)
    monkeypatch.setattr(fills.Filling, "advance", holder.advance(fills.Filling.advance))
    yield holder
    holder.go.set()


def started(checkpoint: Any = None, workers: int = 1) -> ec.Engine:
    engine = ec.Engine(checkpoint=checkpoint, workers=workers)
    sales = engine.source("sales", SALES, retained=True)
    engine.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum()))
    engine.push("sales", ROWS)
    return engine


def sizes(engine: ec.Engine) -> Any:
    return engine.views["totals"].group_by("total").agg(shops=pl.len())


def until(condition: Callable[[], bool]) -> None:
    waiting = threading.Event()
    for _ in range(2000):
        if condition():
            return
        waiting.wait(0.01)
    raise AssertionError("it did not come")


@pytest.mark.parametrize("workers", [1, 3])
def test_pushes_and_reads_go_on_and_progress_is_shown(held: Held, workers: int) -> None:
    engine, seen = started(workers=workers), list[ec.FillProgress]()
    view = engine.view("sizes", sizes(engine), background=True, on_progress=seen.append)
    until(lambda: engine.filling["sizes"].rows_done >= 100)
    progress = engine.filling["sizes"]
    assert (progress.state, progress.rows_total) == ("filling", 1000)
    assert progress.share == progress.rows_done / 1000
    assert progress.seconds_left is not None
    assert repr(view).startswith("View 'sizes': view 'sizes' is being filled: 1")
    assert "is being filled" in view._repr_html_()
    assert "view 'sizes' is being filled: 1" in engine.explain()
    assert engine.stats()["filling"]["sizes"]["rows_total"] == 1000
    for read in (
        view.read,
        view.snapshot,
        view.deltas,
        view.follow,
        lambda: view.subscribe(print),
        view.to_arrow,
    ):
        with pytest.raises(ec.NotFilledError, match=r"of 1,000 rows \(.* %\).*wait for it with view.wait"):
            read()
    with pytest.raises(ec.NotFilledError, match="is being filled"):
        view.wait(timeout=0)
    assert engine.push("sales", {"shop": [1, 2000], "price": [5, 3]}) == 2
    assert engine.views["totals"].read().height == 1001
    assert "sizes" not in engine.views
    held.go.set()
    view.wait(20)
    assert view.filling is None
    assert engine.filling == {}
    assert engine.epoch_number == 3
    assert contents(view).counts == {
        (total, 100 + (total in (3, 6)) - (total == 1)): 1 for total in range(10)
    }
    assert [each.state for each in seen[-1:]] == ["ready"]
    assert seen[-1].share == 1
    assert [each.rows_done for each in seen] == sorted(each.rows_done for each in seen)
    engine.push("sales", {"shop": [2001], "price": [3]})
    assert (3, 102) in contents(view).counts


def test_a_subscriber_may_wait(held: Held) -> None:
    engine = started()
    waited: list[int] = []

    def wait(_: pl.DataFrame) -> None:
        view.wait()
        waited.append(view.read().height)

    engine.views["totals"].subscribe(wait)
    view = engine.view("sizes", sizes(engine), background=True)
    engine.push("sales", {"shop": [1], "price": [20]})
    assert waited == [11]


def test_it_is_declared_again_replaced_and_dropped(held: Held) -> None:
    engine = started()
    view = engine.view("sizes", sizes(engine), background=True)
    assert engine.view("sizes", sizes(engine), background=True) is view
    other = engine.views["totals"].filter(pl.col("total") > 5)
    with pytest.raises(ec.PlanError, match="view 'sizes' is being filled, and is declared in another way"):
        engine.view("sizes", other)
    with pytest.raises(ec.PlanError, match="'sizes'"):
        engine.drop_view("totals")
    with pytest.raises(ec.PlanError, match="'sizes'"):
        engine.drop_source("sales")
    second = engine.view("sizes", other, replace=True, background=True)
    with pytest.raises(ec.InputError, match="was replaced while it was being filled"):
        view.read()
    engine.drop_view("sizes")
    with pytest.raises(ec.InputError, match="was dropped while it was being filled"):
        second.read()
    assert engine.filling == {}
    third = engine.view("sizes", other, background=True)
    assert engine.view("sizes", other) is third
    assert third.read().height == 400, "without background= it is filled when engine.view returns"


@pytest.mark.parametrize("background", [True, False])
def test_what_is_refused_leaves_its_fill_as_it_was(background: bool, held: Held) -> None:
    """The fill of a replacement goes on where a drop, or another replacement, is refused."""
    engine = started()
    visits = engine.source("visits", {"shop": pl.Int64})
    engine.push("visits", {"shop": [1]})
    engine.view("large", engine.views["totals"].filter(pl.col("total") > 5))
    shops = engine.sources["sales"].group_by("shop").agg(total=pl.col("price").max())
    view = engine.view("totals", shops, replace=True, background=True)
    with pytest.raises(ec.PlanError, match="view 'large' is declared on it"):
        engine.drop_view("totals")
    with pytest.raises(ec.PlanError, match="'visits' does not retain its rows"):
        engine.view("totals", visits.unique(), replace=True, background=background)
    assert list(engine.filling) == ["totals"]
    held.go.set()
    view.wait(20)
    assert view.read().sort("shop").rows() == ROWS.rows()


def test_a_view_on_which_another_one_stands_is_not_dropped_while_it_is_filled(held: Held) -> None:
    engine = started()
    view = engine.view("sizes", sizes(engine), background=True)
    small = engine.view("small", view.filter(pl.col("total") < 2))
    with pytest.raises(ec.PlanError, match="view 'sizes': view 'small' is declared on it; drop that first"):
        engine.drop_view("sizes")
    assert list(engine.filling) == ["sizes"]
    assert sorted(small.read().rows()) == [(0, 100), (1, 100)]
    engine.drop_view("small")
    engine.drop_view("sizes")
    assert engine.filling == {}


def test_a_drop_ends_the_fill_of_a_replacement_too(held: Held) -> None:
    engine = started()
    first = engine.view("sizes", sizes(engine))
    prices = engine.sources["sales"].group_by("price").agg(shops=pl.len())
    second = engine.view("sizes", prices, replace=True, background=True)
    engine.drop_view("sizes")
    assert (list(engine.views), engine.filling) == (["totals"], {})
    for view, why in ((first, "was dropped"), (second, "was dropped while it was being filled")):
        with pytest.raises(ec.InputError, match=f"view 'sizes' {why}$"):
            view.read()


def test_where_the_engine_is_closed_its_reader_gets_what_to_do(held: Held) -> None:
    engine = started()
    view = engine.view("sizes", sizes(engine), background=True)
    engine.close()
    for use in (view.read, view.wait):
        with pytest.raises(
            ec.NotFilledError, match="'sizes' is dropped, before it was ready; declare it again"
        ):
            use()


def test_a_view_that_is_replaced_stays_until_the_other_is_ready(held: Held) -> None:
    engine = started()
    first = engine.view("sizes", sizes(engine))
    got: list[pl.DataFrame] = []
    first.subscribe(got.append)
    halves = engine.views["totals"].filter(pl.col("total") < 5).group_by("total").agg(shops=pl.len())
    second = engine.view("sizes", halves, replace=True, background=True)
    assert first.read().height == 10
    engine.push("sales", {"shop": [3000], "price": [1]})
    assert len(got) == 1
    held.go.set()
    second.wait(20)
    assert engine.views["sizes"] is second
    assert sorted(second.read().rows()) == [(0, 100), (1, 101), (2, 100), (3, 100), (4, 100)]
    assert sorted(row[:2] for row in got[1].select("total", "_diff").rows()) == [
        (at, -1) for at in range(5, 10)
    ]
    with pytest.raises(ec.InputError, match="was replaced"):
        first.read()


def test_a_fill_that_fails_has_the_reason_and_nothing_is_there() -> None:
    engine = started()

    def fails(_: pl.DataFrame) -> pl.DataFrame:
        raise ZeroDivisionError("no such price")

    broken = engine.sources["sales"].map_batches(fails, schema={"p": pl.Int64})
    view = engine.view("broken", broken, background=True)
    with pytest.raises(ec.NotFilledError, match=r"view 'broken' could not be filled: .*; declare it again"):
        view.wait(20)
    with pytest.raises(ec.NotFilledError, match="could not be filled"):
        view.read()
    assert engine.filling["broken"].state == "failed"
    assert "could not be filled" in engine.explain()
    assert engine.epoch_number == 1
    engine.push("sales", {"shop": [1], "price": [1]})
    again = engine.view("broken", engine.sources["sales"].select("price"), background=True)
    again.wait(20)
    assert again.read().height == 1001


def test_what_does_not_go_with_it() -> None:
    engine = started()
    with pytest.raises(
        ec.PlanError, match="give a function of one FillProgress, together with background=True"
    ):
        engine.view("b", sizes(engine), on_progress=print)
    gone = ec.Engine()
    words = gone.source("words", {"word": pl.String})
    gone.view("n", words.group_by().agg(n=pl.len()))
    gone.push("words", {"word": ["a"]})
    with pytest.raises(ec.PlanError, match="source 'words' does not retain its rows"):
        gone.view("words", words, background=True)
    assert gone.filling == {}
    later = gone.source("later", {"word": pl.String})
    assert gone.view("later", later, background=True).read().height == 0, "there is nothing to be read"


def test_rows_of_a_user_fill_it_too() -> None:
    engine = ec.Engine()
    words = engine.source("words", {"word": pl.String})
    engine.view("n", words.group_by().agg(n=pl.len()))
    engine.push("words", {"word": ["a", "b"]})
    view = engine.view("words", words, background=True, backfill={"words": {"word": ["a", "b"]}})
    engine.push("words", {"word": ["c"]})
    view.wait(20)
    assert sorted(view.read()["word"]) == ["a", "b", "c"]


def test_a_process_that_ends_in_the_middle_leaves_nothing_of_it(held: Held, tmp_path: Path) -> None:
    engine = started(tmp_path / "here")
    engine.view("sizes", sizes(engine), background=True)
    engine.push("sales", {"shop": [4000], "price": [4]})
    engine.close()
    assert engine.filling == {}
    again = ec.Engine(checkpoint=tmp_path / "here")
    sales = again.source("sales", SALES, retained=True)
    totals = again.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum()))
    view = again.view("sizes", totals.group_by("total").agg(shops=pl.len()))
    assert (4, 101) in contents(view).counts, "it is filled again, as a whole"
    assert again.epoch_number == 3
    again.close()


def test_epochs_of_declarations_are_watched() -> None:
    engine, events = started(), list[ec.EpochEvent]()
    engine.watch(events.append)
    engine.view("sizes", sizes(engine))
    engine.view("sizes", sizes(engine).filter(pl.col("shops") > 0), replace=True)
    engine.drop_view("sizes")
    engine.push("sales", {"shop": [1], "price": [1]})
    assert [(each.epoch, each.rows, each.changes) for each in events] == [
        (2, {}, {"sizes": 10}),
        (3, {}, {}),
        (4, {}, {}),
        (5, {"sales": 1}, {"totals": 2}),
    ]
    assert all(each.seconds > 0 for each in events)


@pytest.mark.parametrize("background", [False, True])
def test_rows_of_an_iterator_are_there_when_a_fill_begins_again(background: bool) -> None:
    engine = ec.Engine()
    sales = engine.source("sales", SALES)
    rows = {"shop": [1, 1, 1], "price": [2**62, 2**62, 2**62]}
    engine.push("sales", rows)
    totals = sales.group_by("shop").agg(total=pl.col("price").sum())
    with pytest.raises((ec.NotFilledError, ec.InputError), match="the sum does not fit Int64"):
        engine.view("totals", totals, backfill={"sales": iter([rows])}, background=background).wait(20)
    assert "totals" not in engine.views


def test_a_function_of_a_view_that_is_being_filled_can_neither_push_nor_wait() -> None:
    engine, refused = started(), list[str]()
    begun, go = threading.Event(), threading.Event()

    def meddles(rows: pl.DataFrame) -> pl.DataFrame:
        begun.set()
        assert go.wait(20)
        for meddle in (lambda: engine.push("sales", {"shop": [1], "price": [1]}), lambda: view.wait(20)):
            with pytest.raises((ec.InputError, ec.NotFilledError)) as error:
                meddle()
            refused.append(str(error.value))
        return rows

    view = engine.view("same", engine.sources["sales"].map_batches(meddles, schema=SALES), background=True)
    assert begun.wait(20)

    def waits(_: object) -> None:
        go.set()
        view.wait()

    engine.views["totals"].subscribe(waits)
    engine.push("sales", {"shop": [1], "price": [1]})
    assert view.read().height == 1001
    assert engine.epoch_number == 3
    assert "cannot push; push from a subscriber" in refused[0]
    assert "a function that it calls cannot wait for it" in refused[1]


def test_on_progress_may_push_but_not_wait() -> None:
    engine, refused = started(), list[str]()

    def on_progress(progress: ec.FillProgress) -> None:
        if progress.state == "filling" and not refused:
            engine.push("sales", {"shop": [1], "price": [1]})
            with pytest.raises(ec.NotFilledError) as error:
                engine._running.fills["sizes"].view.wait()
            refused.append(str(error.value))

    view = engine.view("sizes", sizes(engine), background=True, on_progress=on_progress)
    view.wait(20)
    assert len(refused) == 1
    assert (1, 99) in contents(view).counts


def test_changes_are_counted_while_epochs_leave_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fills.Filling, "start", lambda _: None)
    engine = started()
    other = engine.source("other", SALES, retained=True)
    engine.view("other", other)
    engine.push("other", {"shop": [1], "price": [2]})
    view = engine.view("both", engine.sources["sales"].join(other, on="shop"), background=True)
    filling = engine._running.fills["both"]
    while filling._pieces is not None:
        filling.advance()
    engine.push("sales", {"shop": [1], "price": [1]})
    pushes = threading.Thread(target=engine.push, args=("other", {"shop": [1], "price": [3]}))

    def height(delta: Delta) -> int:
        if pushes.ident is None:
            pushes.start()
            pushes.join(0.3)
        return delta.height

    with monkeypatch.context() as patched:
        patched.setattr(Delta, "__len__", height)
        filling.advance()
    pushes.join()
    with engine.turn:
        view.wait()
    assert view.read().height == 4


def test_where_on_progress_ends_its_thread_the_view_and_its_subscribers_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fills.Filling, "start", lambda _: None)
    engine, got = started(), list[int]()
    before = engine.view("sizes", sizes(engine))
    before.subscribe(lambda delta: got.append(delta.height))

    def on_progress(progress: ec.FillProgress) -> None:
        if progress.state == "ready":
            raise SystemExit

    view = engine.view(
        "sizes",
        engine.views["totals"].filter(pl.col("total") > 8).group_by("total").agg(shops=pl.len()),
        replace=True,
        background=True,
        on_progress=on_progress,
    )
    engine._running.fills["sizes"].run()
    assert view.read().rows() == [(9, 100)]
    assert got == [9]
    with pytest.raises(ec.InputError, match="was replaced"):
        before.read()
