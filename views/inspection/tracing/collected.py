"""The rows of the stages of a plan are looked up in what the engine keeps, and computed where a stage keeps none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from evercurrent.core.data.columns.grouping import group
from evercurrent.core.data.columns.key_hash import hashing_by
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.schema import DIFF
from evercurrent.core.state.lookup import first_rows
from evercurrent.core.state.operator_contract import Operator
from evercurrent.core.state.protocol import State
from evercurrent.core.state.spine import Spine

from ...compiler.builder import Compiled
from ...plan.nodes import PlanId
from ...plan.plan import Plan
from ...plan.shapes import First, Once, Paired
from .indexes import Groups, Indexes, Span
from .rows import Request, Rows, Steps
from .stages import joined, keys_across, matching, sides_of, values, values_of_both

ONE_GROUP = pl.DataFrame({"#": [0]})
"""A row without key columns."""

COMPUTED = (Once, Paired)
"""Stages with state whose rows follow from those of their inputs, key by key."""


class _StateOfRows(NamedTuple):
    """A state with the rows of a stage. ``lacks`` are keys of which rows are missing where one is null."""

    spine: Spine
    operator: Operator
    lacks: tuple[str, ...] = ()


class Collections(Rows):
    """The rows of the collections of a plan. The states are those of a fork, which nobody changes meanwhile."""

    def __init__(self, plan: Plan, compiled: Compiled, indexes: Indexes) -> None:
        super().__init__(plan, compiled)
        self._indexes = indexes
        self._kept: dict[PlanId, list[_StateOfRows]] = {}
        self._groups: dict[PlanId, Groups] = {}
        places = {node: place for place, node in reversed(compiled.outputs.items())}
        for place in compiled.outputs:
            self._note_states(place)
        for circuit_node in compiled.circuit.nodes:
            operator = circuit_node.operator
            if (
                len(circuit_node.inputs) == 1
                and circuit_node.states
                and (below := places.get(circuit_node.inputs[0])) is not None
            ):
                self._note_arrangement(below, operator, circuit_node.states)
        for name, retained in compiled.retained.items():
            place = next(at for at, source in plan.inputs.items() if source.name == name)
            if not any(state.spine is retained.spine for state in self._kept.get(place, ())):
                by = next(node.operator for node in compiled.circuit.nodes if retained.spine in node.states)
                self._kept.setdefault(place, []).append(_StateOfRows(retained.spine, by))
        self._find_held()

    def _note_states(self, place: PlanId) -> None:
        node = self.compiled.circuit.nodes[self.compiled.outputs[place]]
        readable = node.operator.readable
        if readable is not None and readable.spine.layout.payload != self.plan[place].schema:
            self._groups[place] = Groups(readable, self.plan[place].schema, node.identity)
        elif readable is not None:
            self._kept.setdefault(place, []).append(_StateOfRows(readable.spine, node.operator))

    def _note_arrangement(self, place: PlanId, operator: Operator, states: Sequence[State]) -> None:
        state, schema, lacks = states[0], self.plan[place].schema, operator.lacks_nulls_in
        if lacks is not None and isinstance(state, Spine) and dict(state.layout.payload) == dict(schema):
            self._kept.setdefault(place, []).append(_StateOfRows(state, operator, lacks))

    def _is_kept(self, place: PlanId) -> bool:
        return place in self._groups or place in self._kept

    def _follows(self, place: PlanId) -> bool:
        node = self.plan[place]
        if isinstance(node.operation.shape, COMPUTED):
            return all(source in self.held for source in node.inputs)
        return isinstance(node.operation.shape, First) or super()._follows(place)

    def rows(self, place: PlanId, lookup_values: pl.DataFrame, span: Span | None = None) -> pl.DataFrame:
        """See ``Rows``. Cost: the rows of the values that the stages below are looked up by."""
        with self._indexes.guard.lock, hashing_by(self.compiled.circuit.key_hash):
            return super().rows(place, lookup_values, span)

    def _steps(self, request: Request) -> Steps:
        place, lookup_values, span = request
        node, schema = self.plan[place], self.plan[place].schema
        if self._is_looked_up(place, lookup_values) or not isinstance(
            node.operation.shape, (*COMPUTED, First)
        ):
            return (yield from super()._steps(request))
        match node.operation.shape:
            case Once():
                rows = yield node.inputs[0], lookup_values, span
                return rows.filter(pl.col(DIFF) > 0).with_columns(pl.lit(1, pl.Int64).alias(DIFF))
            case Paired() as join:
                return (yield from self._join_steps(join, place, lookup_values))
            case First(keys=keys):
                if set(keys) <= set(lookup_values.columns):
                    # Without keys there is one group, whatever is looked up, be it all rows.
                    return self._first(place, lookup_values if keys else ONE_GROUP, lookup_values)
                rows_of_groups = self._indexes.rows(self._ordered(place).version.parts, lookup_values)
                return self._first(
                    place,
                    Delta.empty(schema).frame if rows_of_groups is None else rows_of_groups,
                    lookup_values,
                )
        raise AssertionError(node.operation)

    def _join_steps(self, join: Paired, place: PlanId, lookup_values: pl.DataFrame) -> Steps:
        node = self.plan[place]
        left_place, right_place = node.inputs
        ours, theirs = sides_of(join, lookup_values)
        keeps = {"left": (True, False), "right": (False, True), "full": (True, True)}.get(
            join.kind, (False, False)
        )
        is_scan = not (ours.width or theirs.width)
        left, right = (Delta.empty(self.plan[side].schema).frame for side in node.inputs)
        if ours.width or is_scan or keeps[0]:
            left = yield left_place, values(ours), None
        if join.kind not in ("semi", "anti") and (theirs.width or keeps[1]):
            right = yield right_place, values(theirs), None
        if not join.left_keys and join.kind == "inner":
            if not theirs.width:
                right = yield right_place, pl.DataFrame(), None
            if not ours.width and not is_scan:
                left = yield left_place, pl.DataFrame(), None
        else:
            partners = yield right_place, keys_across(left, join.left_keys, join.right_keys), None
            right = values_of_both(right, partners)
            if join.kind not in ("semi", "anti"):
                partners = yield left_place, keys_across(right, join.right_keys, join.left_keys), None
                left = values_of_both(left, partners)
        joined_rows = joined(join, node.schema, left, right).rows
        return joined_rows.filter(matching(joined_rows, lookup_values))

    def _is_looked_up(self, place: PlanId, lookup_values: pl.DataFrame) -> bool:
        return place in self._groups or bool(self._states_with(place, lookup_values))

    def _states_with(self, place: PlanId, lookup_values: pl.DataFrame) -> list[_StateOfRows]:
        """Return the states with all rows of a stage that have these values, or the ones with most where there is no other way."""
        states = self._kept.get(place, [])
        return [each for each in states if self._has_all(each, lookup_values)] or (
            [] if self._follows(place) else states
        )

    def _looked_up(
        self, place: PlanId, lookup_values: pl.DataFrame, span: Span | None
    ) -> pl.DataFrame | None:
        if place in self._groups:
            groups = self._groups[place]
            versions = tuple(spine.version for spine in groups.readable.reads)
            return self._indexes.rows_of_groups(groups, versions, lookup_values, span)
        states = self._states_with(place, lookup_values)
        chosen = next(
            (each for each in states if set(each.operator.key_types) <= set(lookup_values.columns)), states[0]
        )
        return self._indexes.rows(chosen.spine.version.parts, lookup_values, span, chosen.operator)

    @staticmethod
    def _has_all(state: _StateOfRows, lookup_values: pl.DataFrame) -> bool:
        if not state.lacks:
            return True
        if not set(state.lacks) <= set(lookup_values.columns):
            return False
        return not any(lookup_values.get_column(name).has_nulls() for name in state.lacks)

    def _ordered(self, place: PlanId) -> Spine:
        """Return the arrangement from which the first rows of groups are read."""
        operator = self.compiled.circuit.nodes[self.compiled.outputs[place]].operator
        return next(state for state in operator.looks_at if isinstance(state, Spine))

    def _first(self, place: PlanId, groups: pl.DataFrame, lookup_values: pl.DataFrame) -> pl.DataFrame:
        """Return the first rows of the groups of these rows that have these values."""
        top, spine = self.plan[place].operation.shape, self._ordered(place)
        assert isinstance(top, First), "the first rows of groups"
        if not groups.height:
            return Delta.empty(self.plan[place].schema).frame
        keys = group(spine.words_of(groups)).keys
        top_entries = first_rows(spine, keys, top.count)
        self._indexes.touched += len(top_entries.diffs)
        rows = Delta.of(top_entries.payload.select(self.plan[place].schema.names()), top_entries.diffs).frame
        return rows.filter(matching(rows, lookup_values))
