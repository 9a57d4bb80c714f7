"""An epoch that fails anywhere between a row's arrival and its pane changes nothing, and the same epoch then succeeds."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given

from eventtime.pipelines import Both, Epoch, Run, Setup, runs
from faults import FaultError, raising_node, raising_state
from harness import circuit_of
from strategies import of_profile

INF = float("inf")


def observed(both: Both) -> tuple[Any, ...]:
    """All that outlives an epoch. Entries, not bytes: polars computes the size of its texts when they are read."""
    engine = both.engine
    views = [
        (view.epoch, repr(view.read().rows()), repr([f.rows() for f in view.deltas()]))
        for view in engine.views.values()
    ]
    states = [state.entries for state in circuit_of(engine).states]
    measured = [(node.rows_in, node.rows_out) for node in circuit_of(engine).nodes]
    return engine.epoch_number, engine.watermarks, views, engine.ledger().rows(), states, measured


def check_faults_everywhere(run: Run) -> int:
    """Raise at every place in turn during the last epoch; how many faults there were."""
    both = Both(run)
    *earlier, last = run.epochs
    for epoch in earlier:
        both.push(epoch)
    before = observed(both)
    circuit = circuit_of(both.engine)
    circuit.visits_all = True  # A node that is not visited raises nothing.
    received: list[pl.DataFrame] = []
    both.view.subscribe(received.append)
    faults = 0
    for after in (False, True):
        for node in circuit.nodes:
            with raising_node(node, after=after), pytest.raises(FaultError):
                both.push(last)
            assert observed(both) == before, node.name
            faults += 1
        for state in circuit.states:
            # The last node raises too: not every state is written to in every epoch.
            with (
                raising_state(state, after=after) as raised,
                raising_node(circuit.nodes[-1], after=True),
                pytest.raises(FaultError),
            ):
                both.push(last)
            assert observed(both) == before, state
            faults += len(raised)
    assert received == []
    both.push(last)
    # Read at the same place: an epoch goes on from runs that a reader has merged.
    untouched = Both(run)
    for epoch in earlier:
        untouched.push(epoch)
    assert observed(untouched) == before
    untouched.push(last)
    assert observed(both) == observed(untouched)
    return faults


def row(t: int, v: int = 1, diff: int = 1) -> Any:
    return (("a", t, v, 1, True), diff)


HISTORY = [Epoch([row(0), row(3), row(20)], 2), Epoch([row(9, 2)], 4, 7)]
LAST = [
    Epoch([row(6), row(-9), row(3, diff=-1)], 15, 12),
    Epoch([], INF, 40),
]


@pytest.mark.parametrize("last", LAST, ids=["rows, some of them late", "the end of time"])
@pytest.mark.parametrize(
    "setup",
    [
        Setup("sessions(5)", "after_watermark(early=at_period(5), late=after_count(1))", lateness=2, info=True, aggregates=("n", "max", "distinct")),
        Setup("merging(5)", "after_watermark(early=at_period(5), late=after_count(1))", lateness=2, info=True, aggregates=("n", "max", "distinct")),
        Setup("sliding(10, 5)", "repeat(any_of(punctuation(), after_bytes(2)))", mode="accumulating", lateness=0, always=True),
        Setup("fixed(10)", "repeat(all_of(after_count(2), after_watermark()))", mode="discarding", lateness=9),
        Setup("sessions(5)", "sequence(after_count(1), repeat(at_period(5)))", mode="discarding", appends=True, lateness=0),
        Setup("fixed(10)", lateness=0),
    ],
    ids=lambda setup: f"{setup.window}, {setup.mode}",
)  # fmt: skip
def test_a_fault_at_every_node_and_at_every_state(setup: Setup, last: Epoch) -> None:
    epochs = [*HISTORY, last]
    if setup.appends:
        epochs = [
            Epoch([entry for entry in epoch.rows if entry[1] > 0], epoch.watermark, epoch.at)
            for epoch in epochs
        ]
    assert check_faults_everywhere(Run(setup, epochs)) > 20


@of_profile(0.1)
@given(run=runs(max_epochs=4).filter(lambda run: not run.epochs[-1].fires))
def test_a_fault_anywhere_in_any_pipeline(run: Run) -> None:
    check_faults_everywhere(run)


def test_a_signal_of_an_epoch_that_failed_is_forgotten() -> None:
    both = Both(Run(Setup("fixed(10)", "repeat(signal())"), []))
    both.push(Epoch([row(0)]))
    circuit = circuit_of(both.engine)
    circuit.visits_all = True  # A node that is not visited raises nothing.
    with raising_node(circuit.nodes[-1], after=True), pytest.raises(FaultError):
        both.push(Epoch(fires=True))
    both.push(Epoch([row(1)]))
    assert both.view.read().is_empty()
    both.push(Epoch(fires=True))
    assert both.view.read().height == 1


def test_a_watermark_by_hand_of_an_epoch_that_failed_is_forgotten() -> None:
    both = Both(Run(Setup("fixed(10)", "after_watermark()", lateness=0), []))
    circuit = circuit_of(both.engine)
    circuit.visits_all = True  # A node that is not visited raises nothing.
    with raising_node(circuit.nodes[-1], after=True), pytest.raises(FaultError):
        both.push(Epoch([row(0)], 30))
    assert both.engine.watermarks == {"a": None}
    both.push(Epoch([row(0)], 5))
    assert both.view.read().is_empty()
    both.push(Epoch([], 10))
    assert both.view.read().height == 1
