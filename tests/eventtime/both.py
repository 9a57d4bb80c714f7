"""What is asserted of a run after every epoch: the engine emits what the simulator emits."""

from __future__ import annotations

import evercurrent as ec
from eventtime.pipelines import COLUMNS, Both, Run
from evercurrent.core.circuit.checked import Checked
from evercurrent.core.operators.group.group_by import GroupBy
from harness import assert_consolidated, circuit_of

ROW = tuple(COLUMNS)


def hold_to_contract(engine: ec.Engine, spared: tuple[type, ...] = ()) -> None:
    """Check the contract of operators at every node, but for these kinds."""
    for node in circuit_of(engine).nodes:
        if not isinstance(node.operator, spared):
            node.operator = Checked(node.name, node.operator, node.states)


def check(run: Run) -> Both:
    """After every epoch: the same delta, the same contents, the same rows refused."""
    both = Both(run)
    # Whoever fires from outside looks for the grouping among the nodes.
    is_fired = any(epoch.fires for epoch in run.epochs)
    hold_to_contract(both.engine, (GroupBy,) if is_fired else ())
    for number, epoch in enumerate(run.epochs, 1):
        pushed = both.push(epoch)
        outcome = both.simulated(epoch)
        columns = run.setup.columns
        for frame in both.view.deltas(since=pushed - 1):
            assert_consolidated(frame, pushed)
        delta = both.delta(both.view, pushed, columns)
        assert delta == outcome.delta, (
            f"epoch {number}:\n engine    {dict(delta)}\n simulator {dict(outcome.delta)}"
        )
        held = both.counted(both.view.read(), columns)
        assert held == both.simulator.contents, (
            f"after epoch {number}:\n engine holds {dict(held)}\n simulator    {dict(both.simulator.contents)}"
        )
        if both.late is not None:
            late = both.delta(both.late, pushed, ROW)
            assert late == outcome.late, (
                f"epoch {number}, late:\n engine    {late}\n simulator {outcome.late}"
            )
            ledger = both.engine.ledger("a")
            ledger = ledger.filter(ledger["_epoch"] == pushed)
            assert both.counted(ledger, ROW) == outcome.late, f"epoch {number}: the ledger holds {ledger}"
    assert both.view.columns == [*columns]
    return both
