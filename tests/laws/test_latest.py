"""Law: ``latest()`` is the last pane of each key and window, whatever the mode, and takes back what it replaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
from eventtime import pipelines
from eventtime import simulator as sim
from eventtime.few_instants import moving_sessions
from eventtime.pipelines import Both, Run, runs
from evercurrent.core.data.errors import CheckpointError
from harness import assert_consolidated, hold_to_contract, summed
from oracle import Bag
from spark.twins import WAYS, TwinEngine, Way
from strategies import of_profile

MODES = ("accumulating", "discarding")


class LastPanes(sim.Simulator):
    """The simulator, taking note of the last pane of each key and window, and of what became part of it."""

    def __init__(self, pipeline: sim.Pipeline) -> None:
        super().__init__(pipeline)
        self.latest: dict[tuple[Any, ...], sim.Pane] = {}
        self.parts: dict[int, list[tuple[Any, ...]]] = {}

    def _emit(self, window: sim.Open, timing: str, seen: Any, outcome: sim.Outcome, *, is_last: bool) -> None:
        emitted = len(outcome.panes)
        before = list(window.emitted)
        super()._emit(window, timing, seen, outcome, is_last=is_last)
        if len(outcome.panes) == emitted and self.pipeline.mode == "discarding":
            # Nothing was emitted: what stood stands, and the next pane replaces it.
            window.emitted = before
            return
        for pane in before:
            self.latest.pop(self._place(pane), None)
        # The new pane, or the equal one that stands, without those of the sessions that it was merged with meanwhile.
        self.latest.update((self._place(pane), pane) for pane in window.emitted)

    def _place(self, pane: sim.Pane) -> tuple[Any, ...]:
        start, end = pane.bounds
        return (
            (*pane.key, start) if isinstance(self.pipeline.window, sim.Sessions) else (*pane.key, start, end)
        )

    @property
    def rows(self) -> Counter[Any]:
        return Counter(self._output(pane) for pane in self.latest.values())


def followed(run: Run) -> tuple[Both, ec.View, ec.View]:
    """A run on the engine and in the simulator, with a view of the last panes and one that is built on them."""
    both = Both(run)
    latest = both.engine.view("latest", both.view.latest())
    windows = both.engine.view("windows", both.view.latest().group_by(*run.setup.keys).agg(n=pl.len()))
    both.simulator = LastPanes(run.setup.pipeline())
    return both, latest, windows


def check(run: Run) -> None:
    both, latest, windows = followed(run)
    # A word is given to the operators themselves.
    if not isinstance(both.engine, TwinEngine) and not any(epoch.fires for epoch in run.epochs):
        hold_to_contract(both.engine)
    columns = run.setup.columns
    for number, epoch in enumerate(run.epochs):
        pushed = both.push(epoch)
        both.simulated(epoch)
        assert isinstance(both.simulator, LastPanes)
        found = both.counted(latest.read(), columns)
        assert found == both.simulator.rows, (
            f"epoch {number}:\n engine    {found}\n simulator {both.simulator.rows}"
        )
        for delta in latest.deltas(since=pushed - 1):
            assert_consolidated(delta, pushed)
    assert Bag(latest.schema, summed(latest.deltas())) == Bag.of(latest.read())
    counted = Bag.of(latest.read()).group_by(*run.setup.keys).agg(n=pl.len())
    assert Bag.of(windows.read()) == counted


@pytest.mark.parametrize("mode", MODES)
@of_profile(0.3)
@given(data=st.data())
def test_the_last_pane_of_each_key_and_window_stands(mode: str, data: st.DataObject) -> None:
    check(data.draw(runs(mode=mode)))


@pytest.mark.parametrize("mode", MODES)
@of_profile(0.2)
@given(data=st.data())
def test_of_sessions_that_merge(mode: str, data: st.DataObject) -> None:
    check(data.draw(runs(mode=mode, window="sessions(5)")))


@of_profile(0.3, quick=70)
@given(run=moving_sessions("accumulating"))
def test_of_sessions_that_move_and_move_back(run: Run) -> None:
    check(run)


@of_profile(0.1)
@given(data=st.data())
def test_retracting_panes_are_their_own_last_ones(data: st.DataObject) -> None:
    run = data.draw(runs(mode="retracting"))
    both = Both(run)
    latest = both.engine.view("latest", both.view.latest())
    for epoch in run.epochs:
        both.push(epoch)
    assert Bag.of(latest.read()) == Bag.of(both.view.read())
    assert both.view.latest()._place == both.view._place


@of_profile(0.2)
@given(data=st.data())
def test_of_accumulating_panes_they_are_what_retracting_ones_would_be(data: st.DataObject) -> None:
    run = data.draw(runs(mode="accumulating", always=False, info=False))
    both = Both(run)
    latest = both.engine.view("latest", both.view.latest())
    windowed = both.engine.sources["a"]
    other = pipelines.Setup(**{**vars_of(run.setup), "mode": "retracting"})
    retracting = both.engine.view("retracting", other.panes(windowed))
    for epoch in run.epochs:
        both.push(epoch)
        if not epoch.fires:
            continue
        # A word goes to the windows of one view: here to those of both.
        retracting.fire(at=run.moment(epoch.at))
    assert Bag.of(latest.read()) == Bag.of(retracting.read())


def vars_of(setup: pipelines.Setup) -> dict[str, Any]:
    return {name: getattr(setup, name) for name in setup.__dataclass_fields__}


@pytest.fixture
def twins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every engine that a test makes has a twin in buckets."""
    monkeypatch.setattr(ec, "Engine", TwinEngine)
    yield
    TwinEngine.way = Way()


@pytest.mark.usefixtures("twins")
@of_profile(0.1)
@given(data=st.data(), mode=st.sampled_from(MODES), way=st.sampled_from(WAYS))
def test_in_buckets(data: st.DataObject, mode: str, way: Way) -> None:
    TwinEngine.way = way
    check(data.draw(runs(mode=mode)))


AT = datetime(2026, 1, 1, 12)
COLUMNS = {"k": pl.String, "v": pl.Int64, "at": pl.Datetime("us")}


def sums(window: Any, mode: Any, **options: Any) -> tuple[ec.Engine, ec.View]:
    engine = ec.Engine(**options)
    rows = engine.source("rows", COLUMNS, event_time="at", watermark=ec.bounded_delay("0s"))
    panes = rows.window(window).lateness("1m").accumulate(mode).group_by("k").agg(v=pl.col("v").sum())
    engine.view("panes", panes)
    return engine, engine.view("now", engine.views["panes"].latest())


def second(number: int) -> datetime:
    return AT + timedelta(seconds=number)


@pytest.mark.parametrize(("mode", "value"), [("accumulating", 3), ("discarding", 2)])
def test_it_goes_on_where_it_was(tmp_path: Path, mode: str, value: int) -> None:
    engine, _ = sums(ec.fixed("1m"), mode, checkpoint=tmp_path)
    with engine:
        engine.push("rows", [("a", 1, second(0))])
    engine, now = sums(ec.fixed("1m"), mode, checkpoint=tmp_path)
    with engine:
        engine.push("rows", [("a", 2, second(1))])
        assert now.read()["v"].to_list() == [value]
        assert sorted(engine.views["panes"].read()["v"].to_list()) == sorted([1, value])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("window", [ec.fixed("1m"), ec.sessions("30s")], ids=["fixed", "sessions"])
def test_state_is_of_open_windows_and_the_view_keeps_those_that_closed(window: Any, mode: str) -> None:
    engine, now = sums(window, mode)
    for minute in range(50):
        engine.push("rows", [("a", minute, second(60 * minute)), ("b", 1, second(60 * minute))])
    kept = [
        node.operator.spine.total("_diff")
        for node in engine._current().circuit.nodes
        if type(node.operator).__name__ == "LatestPanes"
    ]
    assert kept[0] <= 8
    assert sorted(now.read().filter(pl.col("k") == "a")["v"].to_list()) == list(range(50))


def test_it_is_not_filled_from_panes_of_which_the_order_is_unknown(tmp_path: Path) -> None:
    with ec.Engine(checkpoint=tmp_path) as engine:
        rows = engine.source("rows", COLUMNS, event_time="at", retained=True)
        panes = rows.window(ec.fixed("1m")).accumulate("accumulating").group_by("k").agg(n=pl.len())
        engine.view("panes", panes)
        engine.push("rows", [("a", 2, second(1))])
    again = ec.Engine(checkpoint=tmp_path)
    rows = again.source("rows", COLUMNS, event_time="at", retained=True)
    panes = rows.window(ec.fixed("1m")).accumulate("accumulating").group_by("k").agg(n=pl.len())
    again.view("panes", panes)
    again.view("now", panes.latest())
    with pytest.raises(CheckpointError, match="'now' cannot be filled: it depends on when rows arrived"):
        again.push("rows", [("a", 2, second(1))])


def test_what_is_built_on_it_counts_once() -> None:
    engine, _ = sums(ec.sessions("30s"), "accumulating")
    panes = engine.views["panes"]
    with pytest.raises(ec.PlanError, match=r"count twice. Use .latest\(\)"):
        panes.group_by("v").agg(n=pl.len())
    depth = engine.view("depth", panes.latest().group_by("k").agg(v=pl.col("v").sum(), n=pl.len()))
    for at in (0, 50, 25):
        engine.push("rows", [("a", 1, second(at))], at=datetime(2026, 1, 1, tzinfo=UTC))
    assert depth.read().rows() == [("a", 3, 1)]
    assert panes.read().height == 3
    changes = list(engine.views["now"].changes())
    assert changes[-1]["_change"].to_list().count("delete") + sum(
        frame["_change"].to_list().count("update_preimage") for frame in changes
    )
    engine.views["now"].subscribe(print, reader="summing")


@pytest.mark.parametrize(
    "of",
    {
        "a source": lambda rows: rows,
        "no windows": lambda rows: rows.group_by("k").agg(pl.len()),
        "windows that are not grouped": lambda rows: rows.window(ec.fixed("1m")),
        "what is filtered": lambda rows: (
            rows.window(ec.fixed("1m"))
            .accumulate("discarding")
            .group_by("k")
            .agg(n=pl.len())
            .filter(pl.col("n") > 1)
        ),
    }.values(),
)
def test_what_is_no_pane_has_no_last_one(of: Any) -> None:
    rows = ec.Engine().source("rows", COLUMNS, event_time="at")
    with pytest.raises(ec.PlanError, match=r"no panes here; call it directly after"):
        of(rows).latest()
