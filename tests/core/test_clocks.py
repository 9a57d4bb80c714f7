"""Clocks are edges: a node that reads one declares it, runs behind what moves it, and is held to that."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl
import pytest

from evercurrent.core.circuit.checked import Checked, ContractError
from evercurrent.core.circuit.circuit import Circuit
from evercurrent.core.circuit.stages import cut
from evercurrent.core.data.clock import Clock, Earliest, Epoch, Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.eventtime.watermarks.kinds import BoundedDelay
from evercurrent.core.eventtime.watermarks.source_clock import Arrive, SourceClock
from evercurrent.core.operators.source_rows import Append
from evercurrent.core.state.ledger import Ledger
from evercurrent.core.state.operator_contract import Operator

SCHEMA = pl.Schema({"at": pl.Datetime("us")})


class Reads(Operator):
    """Reads a clock at one of its moments, whatever it declares."""

    def __init__(self, clock: Clock, moment: str, *, declares: bool, awaits: bool) -> None:
        self.schema = SCHEMA
        self.clocks = (Earliest([clock]),) if declares else ()
        self.awaits_clocks = awaits
        self._clock = clock
        self._moment = moment
        self.seen = 0

    def step(self, now: Now, *deltas: Delta) -> Delta:
        self.seen = self._clock.now if self._moment == "now" else self._clock.before
        return deltas[0]


def circuit_with(reads: Reads, clock: SourceClock, ledger: Ledger) -> Circuit:
    """A source, what moves its clock, and a reader of that on rows of another source."""
    circuit = Circuit()
    source, other = (circuit.add(name, Append(SCHEMA)) for name in "ab")
    circuit.add("moves", Arrive("a", SCHEMA, "at", ledger, clock), source, states=[clock, ledger])
    circuit.add("reads", reads, other)
    return circuit


def stepped(circuit: Circuit) -> None:
    for node in circuit.nodes:
        node.operator = Checked(node.name, node.operator, node.states)
    rows = Delta(
        pl.DataFrame(
            {"at": [datetime(2026, 1, 1)], "_diff": [1]}, {**SCHEMA, "_diff": pl.Int64}, orient="row"
        )
    )
    circuit.commit(circuit.evaluate(Now(Epoch(1), datetime(2026, 1, 1, tzinfo=UTC)), {"a": rows, "b": rows}))


@pytest.mark.parametrize(("moment", "stage"), [("before", 0), ("now", 1)])
def test_what_reads_a_clock_after_the_rows_runs_in_a_later_stage(moment: str, stage: int) -> None:
    clock, ledger = SourceClock("a", BoundedDelay()), Ledger(10)
    reads = Reads(clock, moment, declares=True, awaits=moment == "now")
    circuit = circuit_with(reads, clock, ledger)
    assert circuit.nodes[3].timed_by == (2,)
    assert clock.is_read
    assert cut(circuit, {}).stage_of[3] == stage  # type: ignore[index]
    stepped(circuit)
    assert (reads.seen > 0) == (moment == "now")


@pytest.mark.parametrize(
    ("moment", "declares", "message"),
    [
        ("before", False, "node 'reads' reads the watermark of node 'moves', which is not among its clocks"),
        ("now", True, "node 'reads' reads the watermark of node 'moves' after the rows .* does not await it"),
    ],
)
def test_a_clock_that_is_not_declared_is_not_read(moment: str, declares: bool, message: str) -> None:
    clock, ledger = SourceClock("a", BoundedDelay()), Ledger(10)
    reads = Reads(clock, moment, declares=declares, awaits=False)
    with pytest.raises(ContractError, match=message):
        stepped(circuit_with(reads, clock, ledger))
