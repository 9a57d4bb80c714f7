"""An epoch that fails anywhere changes nothing and emits nothing, and the same input then succeeds."""

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given

from durability import every_operator as operators
from faults import FaultError, raising_node, raising_state
from harness import Running, circuit_of, contents
from oracle import TooLargeError
from strategies import Case, cases, of_profile

EVERY_OPERATOR = replace(operators.EVERY_OPERATOR, epochs=operators.EVERY_OPERATOR.epochs[:2])


def observed(running: Running) -> tuple[Any, ...]:
    """All that outlives an epoch."""
    engine = running.engine
    views = [
        (view.epoch, view.read().rows(), [f.rows() for f in view.deltas()]) for view in running.views.values()
    ]
    states = [(state.entries, state.nbytes) for state in circuit_of(engine).states]
    measured = [(node.rows_in, node.rows_out) for node in circuit_of(engine).nodes]
    return engine.epoch_number, repr(views), engine.ledger().rows(), states, measured


def check_faults_everywhere(case: Case) -> int:
    """Raise at every place in turn during the last epoch; how many faults there were."""
    running = Running(case)
    *earlier, last = case.epochs
    for epoch in earlier:
        running.push(epoch)
    before = observed(running)
    circuit = circuit_of(running.engine)
    circuit.visits_all = True  # A node that is not visited raises nothing.
    received: list[pl.DataFrame] = []
    for view in running.views.values():
        view.subscribe(received.append)
    faults = 0
    for after in (False, True):
        for node in circuit.nodes:
            with raising_node(node, after=after), pytest.raises(FaultError):
                running.push(last)
            assert observed(running) == before, node.name
            faults += 1
        for state in circuit.states:
            # The last node raises too: not every state is written to in every epoch.
            with (
                raising_state(state, after=after) as raised,
                raising_node(circuit.nodes[-1], after=True),
                pytest.raises(FaultError),
            ):
                running.push(last)
            assert observed(running) == before
            faults += len(raised)
    assert received == []
    running.push(last)
    # Read at the same place: an epoch goes on from runs that a reader has merged.
    untouched = Running(case)
    for epoch in earlier:
        untouched.push(epoch)
    assert observed(untouched) == before
    untouched.push(last)
    assert observed(running) == observed(untouched)
    return faults


def test_a_fault_at_every_node_and_at_every_state() -> None:
    assert check_faults_everywhere(EVERY_OPERATOR) > 80


@of_profile(0.2)
@given(case=cases(max_lines=3))
def test_a_fault_anywhere_in_any_program(case: Case) -> None:
    try:
        case.expected()
    except TooLargeError:
        assume(False)
    check_faults_everywhere(case)


def test_a_fault_in_the_first_epoch_leaves_an_engine_that_can_still_be_declared_on() -> None:
    case = Case(EVERY_OPERATOR.program, EVERY_OPERATOR.epochs[:1])
    running = Running(case)
    with raising_node(circuit_of(running.engine).nodes[-1], after=True), pytest.raises(FaultError):
        running.push(case.epochs[0])
    late = running.engine.view("late", running.sources["a"].unique())
    running.push(case.epochs[0])
    assert contents(late).counts == {(1, 1): 1, (1, 2): 1, (2, 5): 1}
    for name, expected in case.expected().items():
        assert contents(running.views[name]).counts == expected.part(1).counts
