"""Views that a restarted query has more, or no longer has: filled bucket by bucket, as if they had been declared from the start."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import evercurrent as ec
from evercurrent.core.data.errors import ArithmeticRefusedError, CheckpointError
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.durability.time_travel import BORN
from evercurrent.views.store import store_at
from harness import Running, contents, frame_of_entries, summed
from laws.test_declared_later import HEADS
from oracle import Bag, TooLargeError, freeze
from spark.offered import Offering
from spark.twins import counted
from strategies import Case, cases, of_profile

Declared = list[int]
"""The lines of a program that are views while an epoch is run."""


def declared(case: Case, lines: list[str]) -> ec.Engine:
    engine = ec.Engine()
    sources = {
        name: engine.source(name, columns, kind="diffs", retained=True)
        for name, columns in case.program.sources.items()
    }
    collections = case.program.run(sources)
    for line in lines:
        engine.view(line, collections[line])
    return engine


def held(offering: Offering, view: str) -> Any:
    last = offering.epochs.last
    parts = [offering.runner.contents(view, bucket, last.states) for bucket in range(last.buckets)]
    return counted([part for part in parts if part is not None])


def delivered(offering: Offering, view: str) -> Any:
    """All deltas of a view since its present definition begins."""
    log, last = CommitLog(offering.epochs.log.store), offering.epochs.last
    born = last.facts.get(BORN, {}).get(view, 0)
    frames = [
        offering.epochs.pieces.read(ref.piece)
        for epoch in range(born, last.epoch + 1)
        if (commit := log.at(epoch)) is not None
        for ref in commit.deltas.get(view, ())
    ]
    return counted([frame.drop("_epoch") for frame in frames])


@of_profile(0.3, quick=12)
@given(
    case=cases(trusted=False),
    plans=st.lists(st.lists(st.integers(0, 4), max_size=3), min_size=2, max_size=5),
    buckets=st.sampled_from([1, 2, 3]),
    elsewhere=st.booleans(),
)
@example(HEADS, [[0], [0, 1], [1, 2], [0, 2]], 3, False)
@example(HEADS, [[2], [1], [0]], 2, True)
def test_views_of_a_restarted_query(case: Case, plans: list[Declared], buckets: int, elsewhere: bool) -> None:
    try:
        truth = Running(case, is_checked=False)
        with tempfile.TemporaryDirectory() as folder:
            before: list[str] = []
            for number, epoch in enumerate(case.epochs):
                names = list(case.program.views)
                chosen = plans[min(number, len(plans) - 1)]
                lines = sorted({names[at % len(names)] for at in chosen})
                engine = declared(case, lines)
                gone = tuple(set(before) - set(lines))
                offering = Offering(
                    engine.declared, store_at(Path(folder)), buckets=buckets, elsewhere=elsewhere, drop=gone
                )
                compare(offering, truth, lines)
                columns = case.program.sources
                truth.push(epoch)
                rows = {name: frame_of_entries(columns[name], epoch.get(name, [])) for name in columns}
                assert offering.offer(number, rows)
                compare(offering, truth, lines)
                before = lines
    except (ArithmeticRefusedError, TooLargeError):
        assume(False)


def compare(offering: Offering, truth: Running, lines: list[str]) -> None:
    for line in lines:
        view = truth.views[line]
        assert dict(held(offering, line)) == frozen(contents(view).counts), line
        assert dict(delivered(offering, line)) == frozen(Bag(view.schema, summed(view.deltas())).counts), line


def frozen(counts: Any) -> dict[Any, int]:
    return {tuple(map(freeze, row)): count for row, count in counts.items()}


SALES = {"shop": pl.String, "price": pl.Int64}


def shops(names: list[str], *, retained: bool) -> ec.Engine:
    engine = ec.Engine()
    sales = engine.source("sales", SALES, retained=retained)
    views = {
        "totals": sales.group_by("shop").agg(total=pl.col("price").sum()),
        "prices": sales.group_by("price").agg(n=pl.len()),
        "firsts": sales.group_by("shop").agg(best=pl.col("price").max()),
    }
    views["sizes"] = views["totals"].group_by("total").agg(shops=pl.len())
    for name in names:
        engine.view(name, views[name])
    return engine


ROWS = {"sales": pl.DataFrame({"shop": ["a", "b", "a"], "price": [1, 2, 3]})}


def test_a_view_that_cannot_be_filled_is_refused_by_name(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    assert Offering(shops(["totals"], retained=False).declared, store).offer(0, ROWS)
    with pytest.raises(
        CheckpointError, match="view 'prices' cannot be filled: source 'sales' does not retain"
    ):
        Offering(shops(["totals", "prices"], retained=False).declared, store)
    offering = Offering(shops(["totals", "sizes"], retained=False).declared, store)
    assert held(offering, "sizes") == {(4, 1): 1, (2, 1): 1}, "it is filled from the groups of the other one"
    assert offering.epochs.last.epoch == 2
    assert offering.offer(1, ROWS), "micro-batches are counted as before"
    assert held(offering, "sizes") == {(8, 1): 1, (4, 1): 1}


def test_a_view_that_is_gone_is_named_and_dropped_on_request(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    assert Offering(shops(["totals", "prices"], retained=True).declared, store).offer(0, ROWS)
    with pytest.raises(CheckpointError, match="'prices'"):
        Offering(shops(["totals"], retained=True).declared, store)
    offering = Offering(shops(["totals"], retained=True).declared, store, drop=("prices",))
    assert offering.offer(1, ROWS)
    assert held(offering, "totals") == {("a", 8): 1, ("b", 4): 1}
    again = Offering(shops(["totals", "prices"], retained=True).declared, store)
    assert held(again, "prices") == {(1, 2): 1, (2, 2): 1, (3, 2): 1}


def test_nothing_is_there_if_the_fill_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_at(tmp_path)
    assert Offering(shops(["totals"], retained=True).declared, store).offer(0, ROWS)
    before = CommitLog(store).last
    both = shops(["totals", "firsts"], retained=True).declared
    with monkeypatch.context() as patched:

        def fails(*_: object) -> None:
            raise OSError("the disk is full")

        patched.setattr(CommitLog, "append", fails)
        with pytest.raises(OSError, match="disk is full"):
            Offering(both, store)
    assert CommitLog(store).last == before
    assert held(Offering(both, store), "firsts") == {("a", 3): 1, ("b", 2): 1}
