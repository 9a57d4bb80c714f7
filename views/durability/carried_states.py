"""States of a checkpoint after the columns of sources changed: which stay as they are, and which are converted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from evercurrent.core.circuit.circuit import Node, NodeId
from evercurrent.core.data.columns.kernels import column_of_words, is_one_word, key_words
from evercurrent.core.data.columns.lossless import LossyValueError, exactly
from evercurrent.core.data.errors import CheckpointError
from evercurrent.core.state.operator_contract import Operator
from evercurrent.core.state.protocol import State
from evercurrent.core.state.run import Run, make_run
from evercurrent.core.state.snapshot import NOTHING, Saved
from evercurrent.core.state.spine import Spine

from ..compiler.builder import Compiled
from ..plan.plan import Plan
from ..plan.steadiness import steady_nodes
from .evolution import EarlierPlan


@dataclass(frozen=True, slots=True, eq=False)
class CarriedState:
    """A present state, the state of a checkpoint from which it is made, and the operators of both."""

    node: Node
    state: State
    before: Node
    then: State
    is_same: bool
    """Whether its entries are unchanged."""


def carried_states(plan: Plan, compiled: Compiled, earlier: EarlierPlan) -> Iterator[CarriedState]:
    """Return the states that can be carried over, as if the sources had always had their present columns."""
    steady = steady_nodes(plan, earlier.plan, earlier.places)
    nodes, others = compiled.circuit.nodes, earlier.compiled.circuit.nodes
    seen: set[int] = set()
    for place in sorted(steady.states):
        requested, were = (
            compiled.requested.get(place, []),
            earlier.compiled.requested.get(earlier.places[place], []),
        )
        pairs = list(zip(requested, were, strict=False)) if len(requested) == len(were) else []
        if place in plan.inputs:
            pairs = _with_rows(pairs, compiled, earlier)
        for number, before in pairs:
            for carried in _of_nodes(nodes[number], others[before]):
                if id(carried.state) not in seen:
                    seen.add(id(carried.state))
                    yield carried


def _with_rows(
    pairs: list[tuple[NodeId, NodeId]], compiled: Compiled, earlier: EarlierPlan
) -> list[tuple[NodeId, NodeId]]:
    """Return the nodes of a source; one that counts its rows comes with one that keeps them, as counts have no columns."""
    nodes, others = compiled.circuit.nodes, earlier.compiled.circuit.nodes
    node_with_rows = next((before for _, before in pairs if others[before].operator.keeps_input), None)
    return [
        (number, before)
        if node_with_rows is None or not nodes[number].operator.counts_rows
        else (number, node_with_rows)
        for number, before in pairs
    ]


def _of_nodes(node: Node, before: Node) -> Iterator[CarriedState]:
    for state, then in zip(node.states, before.states, strict=False):
        if isinstance(state, Spine) and isinstance(then, Spine):
            same = _is_same(node.operator, state, before.operator, then)
            if same or _can_be_made(node.operator, state, before.operator, then):
                yield CarriedState(node, state, before, then, same)
        elif type(state) is type(then) and node.operator.schema == before.operator.schema:
            yield CarriedState(node, state, before, then, True)


def _is_same(operator: Operator, state: Spine, other: Operator, then: Spine) -> bool:
    """Return whether the entries of a state are unchanged, word by word."""
    if type(operator) is not type(other) or not _has_same_words(operator, other):
        return False
    is_laid_out = list(state.layout.payload.items()) == list(then.layout.payload.items())
    return is_laid_out and operator.kept_sums == other.kept_sums


def _has_same_words(operator: Operator, other: Operator) -> bool:
    now, then = (list(each.key_types.values()) for each in (operator, other))
    if now == then:
        return True
    are_numbers = all(dtype.is_integer() for dtype in (*now, *then))
    return is_one_word(now) and is_one_word(then) and are_numbers


def _can_be_made(operator: Operator, state: Spine, other: Operator, then: Spine) -> bool:
    """Return whether a state can be made of another one."""
    if operator.counts_rows and other.keeps_input:
        return True
    if type(operator) is not type(other) or operator.taken_over(other, {}) is None:
        return False
    if not operator.is_rekeyable or _has_same_words(operator, other):
        return operator.is_rekeyable
    columns = {*state.layout.payload, *then.layout.payload}
    if not then.layout.payload and is_one_word(list(other.key_types.values())):
        columns |= set(other.key_types)  # A key of one word is the value itself.
    return columns.issuperset(operator.key_types)


def converted(carried: CarriedState, where: str) -> Saved:
    """Return a state made of the earlier one, which is restored for it. Cost: that state.

    Raises:
        CheckpointError: a value does not fit its present type.
    """
    assert isinstance(carried.then, Spine)
    assert isinstance(carried.state, Spine)
    run = carried.then.merged()
    if not len(run):
        return NOTHING
    layout, operator = carried.state.layout, carried.node.operator
    try:
        payload = _payload(run, carried)
        sums = operator.taken_over(carried.before.operator, run.sums) or run.sums
    except LossyValueError as lossy:
        raise CheckpointError(f"{where}: {carried.node.name}: {lossy} does not fit") from lossy
    held = pl.DataFrame([payload.get_column(name) for name in layout.payload])
    rows = key_words(held.get_columns(), len(run)) if layout.by_row else None
    keys = run.keys if _keeps_words(carried) else operator.words(payload)
    return Saved((make_run(layout, keys, held, sums, rows),), {})


def _keeps_words(carried: CarriedState) -> bool:
    """Return whether the entries are kept by the words by which they were kept."""
    operator, before = carried.node.operator, carried.before.operator
    return type(operator) is type(before) and _has_same_words(operator, before)


def _payload(run: Run, carried: CarriedState) -> pl.DataFrame:
    """Return the columns of all entries in their present types; null where a column is new."""
    assert isinstance(carried.state, Spine)
    held, types = run.payload, dict(carried.state.layout.payload)
    if not _keeps_words(carried):
        types |= carried.node.operator.key_types
        if not held.width:
            ((name, dtype),) = carried.before.operator.key_types.items()
            held = pl.DataFrame([column_of_words(run.keys, name, dtype)])
    return pl.DataFrame(
        [
            exactly(held.get_column(name), dtype)
            if name in held.columns
            else pl.Series(name, [None], dtype).new_from_index(0, len(run))
            for name, dtype in types.items()
        ]
    )
