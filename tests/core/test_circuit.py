"""What a circuit refuses when it is built."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import evercurrent as ec
import evercurrent.views.compiler.builder as builder_module
from evercurrent.core.circuit.circuit import Circuit, PlacementMissingError
from evercurrent.core.circuit.placement import ANYWHERE, Placement
from evercurrent.core.operators.distinct import Distinct
from evercurrent.core.operators.source_rows import Append, CheckRetractions
from evercurrent.core.state.ledger import Ledger
from laws.test_work import COLUMNS, PLANS
from strategies import evaluate

SCHEMA = pl.Schema({"k": pl.Int64()})


def test_a_node_with_state_and_no_placement_is_refused_by_name() -> None:
    circuit = Circuit()
    source = circuit.add("words", Append(SCHEMA))
    distinct = Distinct(SCHEMA)
    with pytest.raises(
        PlacementMissingError, match=r"node 'unique k' \(Distinct\) has state but no placement"
    ):
        circuit.add("unique k", distinct, source, states=[distinct.spine])
    with pytest.raises(PlacementMissingError, match=r"Placement\(by=...\)"):
        circuit.add(
            "unique k", distinct, source, states=[distinct.spine], placement=Placement(passes=frozenset("k"))
        )
    assert len(circuit.nodes) == 1, "nothing was added"
    circuit.add("unique k", distinct, source, states=[distinct.spine], placement=Placement(by=("k",)))


def test_a_ledger_needs_no_placement_and_what_stands_beside_it_does() -> None:
    circuit, ledger = Circuit(), Ledger(10)
    circuit.add("words", Append(SCHEMA), states=[ledger])
    check = CheckRetractions("checked", SCHEMA, ledger, strict=False)
    with pytest.raises(PlacementMissingError, match="node 'checked'"):
        circuit.add("checked", check, states=[check.spine, ledger])


@pytest.mark.parametrize("plan", PLANS)
def test_a_forgotten_placement_stops_any_program_with_state(
    plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(self: Circuit, *args: Any, placement: Placement, **options: Any) -> Any:
        return add(self, *args, placement=ANYWHERE, **options)

    add = Circuit.add
    engine = ec.Engine()
    sources = {name: engine.source(name, COLUMNS, kind="diffs", trusted=True) for name in "ab"}
    view = engine.view("v", evaluate(PLANS[plan], sources))
    monkeypatch.setattr(builder_module.Circuit, "add", forgetful)
    with pytest.raises(PlacementMissingError):
        view.read()
