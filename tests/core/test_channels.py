"""What operators give to others beside their rows: who may read it, and when it is there."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl
import pytest

from evercurrent.core.circuit.checked import Checked, ContractError
from evercurrent.core.circuit.circuit import Circuit, EpochDeltas, Look, NodeId, NotGivenError
from evercurrent.core.circuit.placement import Placement
from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.operators.arrange import Arrange
from evercurrent.core.operators.source_rows import Append
from evercurrent.core.operators.top_k import TopK
from evercurrent.core.state.channels import Channel, Finding, Lookup
from evercurrent.core.state.operator_contract import Operator
from evercurrent.core.state.run import Layout
from evercurrent.core.state.spine import Spine

SCHEMA = pl.Schema({"k": pl.Int64()})


class Counts(Operator):
    """Hands its rows on, and finds how many there are."""

    def __init__(self) -> None:
        self.schema = SCHEMA
        self.count = Finding("count", 0)
        self.gives: tuple[Channel, ...] = (self.count,)

    def step(self, now: Now, *deltas: Delta) -> Delta:
        if len(deltas[0]):
            self.count.set(len(deltas[0]))
        return deltas[0]


class Reads(Operator):
    """Hands its rows on, and notes what it reads of another operator."""

    def __init__(self, count: Finding[int], *, declares: bool = True) -> None:
        self.schema = SCHEMA
        self._count = count
        self.looks_at = (count,) if declares else ()
        self.seen: list[int] = []

    def step(self, now: Now, *deltas: Delta) -> Delta:
        self.seen.append(self._count.value)
        return deltas[0]


class Pair:
    """A circuit of an operator that counts and one that reads the count, on rows of their own."""

    def __init__(self, *, declares: bool = True) -> None:
        self.circuit, self.counts = Circuit(), Counts()
        self.reads = Reads(self.counts.count, declares=declares)
        counted, other = (self.circuit.add(name, Append(SCHEMA)) for name in "ab")
        self.counting = self.circuit.add("counts", self.counts, counted)
        self.reading = self.circuit.add("reads", self.reads, other)
        for node in self.circuit.nodes:
            node.operator = Checked(node.name, node.operator, node.states)
        self.epoch = 0

    def evaluate(self, **rows: int) -> EpochDeltas:
        self.epoch += 1
        arrived = {
            name: Delta(
                pl.DataFrame({"k": range(count), "_diff": [1] * count}, {**SCHEMA, "_diff": pl.Int64})
            )
            for name, count in rows.items()
        }
        return self.circuit.evaluate(Now(Epoch(self.epoch), datetime.fromtimestamp(0, UTC)), arrived)


def test_a_finding_counts_for_its_epoch_alone() -> None:
    pair = Pair()
    pair.circuit.commit(pair.evaluate(a=3))
    pair.circuit.commit(pair.evaluate(b=1))
    pair.evaluate(a=2)
    pair.circuit.discard()
    pair.circuit.commit(pair.evaluate(b=1))
    pair.circuit.commit(pair.evaluate(a=1, b=1))
    assert pair.reads.seen == [3, 0, 2, 0, 1], (
        "visited with what it reads, and nothing is left of epochs before"
    )


def test_what_a_node_reads_follows_from_what_it_looks_at() -> None:
    pair = Pair()
    assert pair.circuit.nodes[pair.reading].looks == (Look("count", pair.counting),)
    assert pair.circuit.nodes[pair.reading].reads == (pair.counting,)
    assert pair.circuit.nodes[pair.counting].reads == ()


def test_behind_a_lookup_stands_what_is_read_to_answer_it() -> None:
    class Answers(TopK):
        """The first rows, which other operators can look up too."""

        def __init__(self, spine: Spine) -> None:
            super().__init__(SCHEMA, spine, 1)
            self.entries = Lookup("entries", lambda: spine.entries)
            self.gives = (self.entries,)

    class Requests(Operator):
        """Looks at the answers alone."""

        def __init__(self, entries: Lookup[[], int]) -> None:
            self.schema = SCHEMA
            self.looks_at = (entries,)

    circuit = Circuit()
    source = circuit.add("a", Append(SCHEMA))
    arrange = Arrange(SCHEMA, ["k"], Layout(SCHEMA, by_row=True))
    arranged = circuit.add("arrange", arrange, source, states=[arrange.spine], placement=Placement(by=("k",)))
    answers = Answers(arrange.spine)
    top = circuit.add("top", answers, arranged)
    requests = circuit.add("requests", Requests(answers.entries), source)
    assert circuit.nodes[top].looks == (Look("state", arranged),)
    assert circuit.nodes[requests].looks == (Look("entries", top),)
    assert circuit.nodes[requests].reads == (top, arranged)


@pytest.mark.parametrize("first", [True, False], ids=["given later", "given by nobody"])
def test_a_node_that_looks_at_what_no_node_before_it_gives_is_refused(first: bool) -> None:
    circuit, counts = Circuit(), Counts()
    source = circuit.add("a", Append(SCHEMA))
    message = (
        r"node 'reads' \(Reads\) reads count, which no earlier node gives; first add the node that gives it"
    )
    with pytest.raises(NotGivenError, match=message):
        circuit.add("reads", Reads(counts.count), source)
    assert len(circuit.nodes) == 1, "nothing was added"
    if first:
        circuit.add("counts", counts, source)
        assert circuit.add("reads", Reads(counts.count), source) == NodeId(2)


def test_a_state_that_no_node_keeps_is_refused() -> None:
    circuit = Circuit()
    source = circuit.add("a", Append(SCHEMA))
    with pytest.raises(NotGivenError, match=r"node 'top' \(TopK\) reads state"):
        circuit.add("top", TopK(SCHEMA, Spine(Layout(SCHEMA, by_row=True)), 1), source)


def test_who_reads_without_looking_breaks_the_contract() -> None:
    pair = Pair(declares=False)
    with pytest.raises(
        ContractError, match="node 'reads' reads count of node 'counts', which is not in its looks_at"
    ):
        pair.evaluate(a=1, b=1)


def test_a_finding_that_outlives_its_epoch_breaks_the_contract() -> None:
    pair = Pair()
    pair.evaluate(a=1)  # Neither committed nor discarded.
    with pytest.raises(
        ContractError, match="node 'reads' reads count of node 'counts' in epoch 2, found in another"
    ):
        pair.evaluate(b=1)
    with pytest.raises(ContractError, match="node 'counts' still has count of an epoch before"):
        pair.evaluate(a=1)


def test_nothing_is_found_twice_in_an_epoch() -> None:
    finding = Finding("count", 0)
    finding.set(1)
    with pytest.raises(AssertionError, match="found twice"):
        finding.set(2)
    finding.clear()
    assert (finding.value, finding.is_set) == (0, False)
