"""Views that come, go and are replaced while a query runs are those that were declared from the start: without Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import evercurrent as ec
from evercurrent.core.data.errors import ArithmeticRefusedError
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.partitioned.bucket_states import BucketStates, ComputedStates
from evercurrent.views.partitioned.running_fill import RunningFill
from evercurrent.views.store import Store, store_at
from harness import Running, contents, frame_of_entries, summed
from laws.test_declared_later import HEADS
from oracle import Bag, TooLargeError
from spark.offered import Offering
from spark.test_filled_in_buckets import ROWS, delivered, frozen, held, shops
from spark.twins import counted
from strategies import Case, Draw, Epoch, cases, of_profile

Step = tuple[str, int, int]
"""What is done; the number of a view, and that of the line that defines it, or how many pieces are computed."""


@st.composite
def steps(draw: Draw) -> list[list[Step]]:
    """What is declared before the first micro-batch, and after each of them."""
    what = st.sampled_from(["add", "add", "begin", "begin", "advance", "complete", "drop", "restart"])
    one = st.tuples(what, st.integers(0, 2), st.integers(0, 3))
    return [draw(st.lists(one, min_size=1, max_size=4)) for _ in range(4)]


class Redeclared:
    """A query whose views come and go while it runs, beside an engine in which all were declared from the start."""

    def __init__(self, case: Case, store: Store, buckets: int, elsewhere: bool) -> None:
        self.case, self.store, self.batch = case, store, 0
        self.truth = Running(case, is_checked=False)
        self.shown: dict[str, str] = {}
        self.begun: tuple[str, str, RunningFill, Iterator[int]] | None = None
        self.options = {"buckets": buckets, "elsewhere": elsewhere}
        self.offering = Offering(self.declared().declared, store, **self.options)  # type: ignore[arg-type]

    def declared(self, **more: str) -> ec.Engine:
        engine = ec.Engine()
        sources = {
            name: engine.source(name, columns, kind="diffs", retained=True)
            for name, columns in self.case.program.sources.items()
        }
        self.lines = self.case.program.run(sources)
        for name, line in {**self.shown, **more}.items():
            engine.view(name, self.lines[line])
        return engine

    def begin(self, name: str, line: str) -> None:
        """A view is filled while micro-batches go on, as far as that is ``advanced``."""
        if self.shown.get(name) == line:
            return
        plan, offering = self.declared(**{name: line}).declared, self.offering

        def prepare(computed: ComputedStates | None) -> BucketStates | None:
            return offering.planned(plan, (name,), computed) if self.offering is offering else None

        fill = RunningFill(prepare)
        self.begun = name, line, fill, fill.pieces(1)

    def complete(self) -> None:
        if self.begun is None:
            return
        name, line, fill, pieces = self.begun
        assert list(pieces) is not None
        self.shown[name], self.begun = line, None
        plan = self.declared().declared
        self.offering = self.offering.redeclared(plan, (name,), fill.computed)

    def do(self, what: str, view: int, line: int) -> None:
        names = list(self.lines)
        name, before = f"view {view}", dict(self.shown)
        epoch = self.offering.epochs.last.epoch
        if what == "begin":
            self.begin(name, names[line % len(names)])
        elif what == "advance" and self.begun is not None:
            for _ in zip(range(line + 1), self.begun[3], strict=False):
                pass
        elif what == "complete":
            self.complete()
            before = dict(self.shown)
        elif what == "add":
            self.shown[name] = names[line % len(names)]
        elif what == "drop":
            self.shown.pop(name, None)
        if self.begun is not None and (
            what == "restart" or (what in ("add", "drop") and self.begun[0] == name)
        ):
            self.begun = None
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
BEGUN = [
    [("add", 0, 0)],
    [("begin", 1, 1), ("advance", 0, 0)],
    [],
    [("complete", 0, 0), ("begin", 0, 2)],
    [("complete", 0, 0)],
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
            live.complete()
            live.check()
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


def test_what_comes_while_a_view_is_filled_is_computed_from_what_has_changed(tmp_path: Path) -> None:
    """Three rounds: all rows, those of the micro-batches since then, and at last that of the one before it appears."""
    store = store_at(tmp_path)
    offering = Offering(shops(["totals"], retained=True).declared, store)
    many = pl.DataFrame({"shop": [f"s{at % 50}" for at in range(5_000)], "price": range(5_000)})
    assert offering.offer(0, {"sales": many})
    more = shops(["totals", "prices", "firsts"], retained=True).declared
    fill = RunningFill(lambda computed: offering.planned(more, computed=computed))
    pieces = fill.pieces(1)
    assert fill.entries == 5_000
    next(pieces)
    assert offering.offer(1, ROWS)
    assert offering.offer(2, ROWS)
    read = list(pieces)[-1]
    assert read == fill.entries < 5_010, "each row is read once"
    assert offering.offer(3, ROWS)
    assert fill.computed is not None
    rest = offering.planned(more, computed=fill.computed)
    assert rest is not None
    assert list(rest.pieces())[-1] == rest.entries < 10
    again = offering.redeclared(more, computed=fill.computed)
    expected = pl.concat([many, *[ROWS["sales"]] * 3])
    counts = expected.group_by("price").agg(n=pl.len().cast(pl.Int64))
    assert held(again, "prices") == counted([counts])
    assert held(again, "firsts") == counted([expected.group_by("shop").agg(best=pl.col("price").max())])
    assert again.offer(4, ROWS)
    assert held(again, "prices")[1, 5] == 1
