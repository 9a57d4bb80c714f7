"""Views that come, go and are replaced while a query runs are those that were declared from the start: without Spark."""

from __future__ import annotations

import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import evercurrent as ec
from evercurrent.core.data.errors import ArithmeticRefusedError
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.store import Store, store_at
from harness import Running, contents, frame_of_entries, summed
from laws.test_declared_later import HEADS
from oracle import Bag, TooLargeError
from spark.offered import Offering
from spark.test_filled_in_buckets import ROWS, delivered, frozen, held, shops
from strategies import Case, Draw, Epoch, cases, of_profile

Step = tuple[str, int, int]
"""What is done: "add", "drop" or "restart"; the number of a view, and that of the line that defines it."""


@st.composite
def steps(draw: Draw) -> list[list[Step]]:
    """What is declared before the first micro-batch, and after each of them."""
    what = st.sampled_from(["add", "add", "add", "drop", "restart"])
    one = st.tuples(what, st.integers(0, 2), st.integers(0, 3))
    return [draw(st.lists(one, min_size=1, max_size=4)) for _ in range(4)]


class Redeclared:
    """A query whose views come and go while it runs, beside an engine in which all were declared from the start."""

    def __init__(self, case: Case, store: Store, buckets: int, elsewhere: bool) -> None:
        self.case, self.store, self.batch = case, store, 0
        self.truth = Running(case, is_checked=False)
        self.shown: dict[str, str] = {}
        self.options = {"buckets": buckets, "elsewhere": elsewhere}
        self.offering = Offering(self.declared().declared, store, **self.options)  # type: ignore[arg-type]

    def declared(self) -> ec.Engine:
        engine = ec.Engine()
        sources = {
            name: engine.source(name, columns, kind="diffs", retained=True)
            for name, columns in self.case.program.sources.items()
        }
        self.lines = self.case.program.run(sources)
        for name, line in self.shown.items():
            engine.view(name, self.lines[line])
        return engine

    def do(self, what: str, view: int, line: int) -> None:
        names = list(self.lines)
        name, before = f"view {view}", dict(self.shown)
        epoch = self.offering.epochs.last.epoch
        if what == "add":
            self.shown[name] = names[line % len(names)]
        elif what == "drop":
            self.shown.pop(name, None)
        plan = self.declared().declared
        if what == "restart":
            self.offering = Offering(plan, self.store, **self.options)  # type: ignore[arg-type]
            assert self.offering.epochs.last.epoch == epoch, (
                "nothing is filled again, and nothing has to be dropped"
            )
        elif self.shown != before:
            self.offering = self.offering.redeclared(plan, drop=(name,))
            assert self.offering.epochs.last.epoch <= epoch + 1
        self.check()

    def push(self, epoch: Epoch) -> None:
        columns = self.case.program.sources
        self.truth.push(epoch)
        rows = {name: frame_of_entries(columns[name], epoch.get(name, [])) for name in columns}
        assert self.offering.offer(self.batch, rows)
        self.batch += 1
        self.check()

    def check(self) -> None:
        for name, line in self.shown.items():
            view = self.truth.views[line]
            assert dict(held(self.offering, name)) == frozen(contents(view).counts), (name, line)
            whole = Bag(view.schema, summed(view.deltas()))
            assert dict(delivered(self.offering, name)) == frozen(whole.counts), (name, line)


REPLACED = [
    [("add", 0, 0)],
    [("add", 0, 1), ("restart", 0, 0)],
    [("add", 0, 2), ("add", 1, 0), ("drop", 0, 0)],
]


@of_profile(0.3, quick=12)
@given(case=cases(trusted=False), plan=steps(), buckets=st.sampled_from([1, 2, 3]), elsewhere=st.booleans())
@example(HEADS, REPLACED, 3, True)
@example(
    HEADS, [[("add", 0, 0), ("add", 1, 1)], [("add", 2, 2), ("drop", 1, 0), ("restart", 0, 0)]], 2, False
)
def test_views_of_a_running_query(case: Case, plan: list[list[Step]], buckets: int, elsewhere: bool) -> None:
    try:
        with tempfile.TemporaryDirectory() as folder:
            live = Redeclared(case, store_at(Path(folder)), buckets, elsewhere)
            for step in plan[0]:
                live.do(*step)
            for number, epoch in enumerate(case.epochs, 1):
                live.push(epoch)
                for step in plan[number] if number < len(plan) else ():
                    live.do(*step)
    except (ArithmeticRefusedError, TooLargeError):
        assume(False)


def test_a_view_that_cannot_be_filled_leaves_the_query_as_it_was(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    offering = Offering(shops(["totals"], retained=False).declared, store)
    assert offering.offer(0, ROWS)
    before = CommitLog(store).last
    with pytest.raises(
        ec.PlanError,
        match=r"^what is declared: view 'prices' cannot be filled: source 'sales' does not retain",
    ):
        offering.redeclared(shops(["totals", "prices"], retained=False).declared)
    assert CommitLog(store).last == before
    assert offering.offer(1, ROWS)
    again = offering.redeclared(shops(["totals", "sizes"], retained=False).declared)
    assert again.offer(2, ROWS)
    assert held(again, "sizes") == {(12, 1): 1, (6, 1): 1}


def test_a_fill_that_is_not_written_leaves_the_query_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_at(tmp_path)
    offering = Offering(shops(["totals"], retained=True).declared, store)
    assert offering.offer(0, ROWS)
    both = shops(["totals", "firsts"], retained=True).declared

    def fails(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(CommitLog, "append", fails)
        with pytest.raises(OSError, match="disk is full"):
            offering.redeclared(both)
    assert offering.offer(1, ROWS), "it goes on"
    again = offering.redeclared(both)
    assert held(again, "firsts") == {("a", 3): 1, ("b", 2): 1}
    assert again.epochs.last.epoch == 3


def test_a_view_that_is_dropped_needs_no_drop_when_the_query_is_started_again(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    offering = Offering(shops(["totals", "prices"], retained=True).declared, store)
    assert offering.offer(0, ROWS)
    fewer = shops(["totals"], retained=True).declared
    offering.redeclared(fewer, drop=("prices",))
    again = Offering(fewer, store)
    assert again.epochs.last.epoch == 2
    assert again.offer(1, ROWS)
    assert not any("prices" in view for view in again.epochs.last.plan["views"])


def test_a_view_that_is_replaced_goes_on_with_the_difference(tmp_path: Path) -> None:
    def engine(of: str) -> ec.Engine:
        engine = ec.Engine()
        sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64}, retained=True)
        price = pl.col("price")
        engine.view("shops", sales.group_by("shop").agg(x=price.max() if of == "most" else price.sum()))
        return engine

    store = store_at(tmp_path)
    offering = Offering(engine("sum").declared, store)
    assert offering.offer(0, ROWS)
    again = offering.redeclared(engine("most").declared, drop=("shops",))
    (ref,) = again.epochs.last.deltas["shops"]
    rows = again.epochs.pieces.read(ref.piece).drop("_epoch").rows()
    assert sorted(rows) == [("a", 3, 1), ("a", 4, -1)], "what has not changed is not in it"
    assert "shops" not in again.epochs.last.facts["born"]
