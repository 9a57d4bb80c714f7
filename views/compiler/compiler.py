"""The compiler from plan to circuit: each declared node becomes operators, and states are shared where possible."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from evercurrent.core.circuit.circuit import NodeId
from evercurrent.core.circuit.placement import Placement
from evercurrent.core.circuit.stages import cut, mark_routes
from evercurrent.core.data.columns.kernels import frame_of, with_plain_zeros
from evercurrent.core.eventtime.watermarks.source_clock import Arrive, RefuseUntimed, SourceClock
from evercurrent.core.operators.arrange import KeyCounts, Materialize
from evercurrent.core.operators.group.group_by import GroupBy, GroupSpec
from evercurrent.core.operators.join import Join as JoinOperator
from evercurrent.core.operators.join import JoinSide
from evercurrent.core.operators.linear import FrameFunction, Linear
from evercurrent.core.operators.sequenced import SequencedUpsert
from evercurrent.core.operators.source_rows import Append, CheckRetractions, Upsert
from evercurrent.core.operators.top_k import TopK
from evercurrent.core.state.ledger import Ledger
from evercurrent.core.state.protocol import State
from evercurrent.core.state.run import Layout
from evercurrent.core.state.spine import Spine

from ..expressions.elementwise import elementwise_columns
from ..expressions.equalities import only_value
from ..plan.node_identities import identify_functions
from ..plan.nodes import (
    Assign,
    Explode,
    Filter,
    Group,
    InOrder,
    Input,
    Join,
    LastPanes,
    LateRows,
    PlanId,
    PlanNode,
    Select,
    Top,
    Unique,
    Unnest,
    WindowedGroup,
    WithEventTime,
)
from ..plan.plan import Plan
from .builder import Builder, Compiled, copied_columns, filtering, plain_copies, selecting
from .retained import RetainedRows


def compile_plan(plan: Plan, ledger: Ledger, *, allow_pickle: bool = False) -> Compiled:
    """Return the circuit that keeps the views of a plan current.

    ``allow_pickle``: states of users' aggregates may be pickles, as nobody else can write to them.
    """
    compiler = Compiler(plan, ledger, allow_pickle=allow_pickle)
    for place in plan.needed():
        compiler.compile(place)
    compiled = compiler.compiled
    for number, (name, place) in enumerate(plan.views.items()):
        compiler.keep(name, place)
        compiled.views.setdefault(compiled.outputs[place], []).append((number, name))
    compiled.cut = cut(compiled.circuit, compiled.kept_at)
    mark_routes(compiled.circuit, compiled.cut)
    return compiled


class Compiler(Builder):
    """Adds the operators of plan nodes to a circuit, one node after the other."""

    def compile(self, place: PlanId) -> None:
        """Add the operators of one plan node."""
        self.place: PlanId = place
        node = self.plan[place]
        identify_functions(node)
        inputs = [self.compiled.outputs[source] for source in node.inputs]
        self.compiled.outputs[place] = self._operators(node, inputs)
        if place in self.plan.inputs:
            self._retain(node, self.plan.inputs[place], self.compiled.outputs[place])

    def keep(self, name: str, place: PlanId) -> None:
        """Make the rows of a view readable: from the state of its operator, or from one of its own."""
        self.place = place
        output = self.compiled.outputs[place]
        kept_at, readable = output, self.compiled.circuit.nodes[output].operator.readable
        if readable is None:
            kept_at, readable = self._kept(name, output, self.plan[place].schema)
        self.compiled.contents[name], self.compiled.kept_at[name] = readable, kept_at

    def _kept(self, name: str, output: NodeId, schema: pl.Schema) -> tuple[NodeId, Materialize]:
        """Return the rows of a node as state, made once for all readers."""

        def make() -> tuple[NodeId, Materialize]:
            keep = Materialize(schema)
            placement = Placement(by=tuple(schema), any_part=True, passes=frozenset(schema))
            return self.add(f"keep {name}", keep, output, states=[keep.spine], placement=placement), keep

        return self.once("keep", output, (), make)

    def _retain(self, node: PlanNode, source: Input, output: NodeId) -> None:
        """Add a state with the rows of a source if the source is retained; an upsert source has one in any case."""
        if source.retained and source.kind != "upsert":
            _, keep = self._kept(source.name, output, node.schema)
            self.compiled.retained[source.name] = RetainedRows(node.schema, keep.spine)

    def _operators(self, node: PlanNode, inputs: list[NodeId]) -> NodeId:
        where = self.plan.name_of(self.place)
        if (own := node.operation.made(where, node.schema)) is not None:
            return self.add(node.label, own.operator, *inputs, states=own.states, placement=own.placement)
        match node.operation:
            case Input():
                return self._input(node, node.operation)
            case Select(columns=columns, keeps_rows_apart=apart):
                passes = copied_columns(columns)
                linear = Linear(
                    where,
                    node.schema,
                    columns=selecting(columns, self.schema_of(inputs[0])),
                    copies=plain_copies(columns),
                    keeps_rows_apart=apart,
                )
                return self.add(node.label, linear, *inputs, placement=Placement(passes=passes))
            case Filter(condition=condition):
                rows = filtering(condition, node.schema)
                linear = Linear(where, node.schema, rows=rows, keeps_rows_apart=True)
                only = only_value(condition.expr, node.schema)
                return self.add(node.label, linear, *inputs, placement=_passing(node), only=only)
            case Explode(columns=names):
                passes = frozenset(node.schema) - frozenset(names)
                return self._linear(
                    where,
                    node,
                    inputs,
                    lambda frame: _plain(frame.explode(names, empty_as_null=False)),
                    False,
                    passes,
                )
            case Unnest(columns=names):
                # A field may have the name of the struct that it takes the place of.
                passes = (frozenset(node.schema) & frozenset(self.schema_of(inputs[0]))).difference(names)
                return self._linear(
                    where, node, inputs, lambda frame: _plain(frame.unnest(names)), False, passes
                )
            case Unique():
                return self.distinct(inputs[0], node.schema)
            case Group() as grouped:
                return self._group(where, node, inputs[0], grouped)
            case Join() as join:
                return self._join(node, inputs, join)
            case Assign() | WithEventTime() | InOrder() | LateRows() | WindowedGroup() | LastPanes():
                from .windowed_groups import windows_over_time  # Imported here, as only event time needs it.

                return windows_over_time(self, where, node, inputs[0])
            case Top(keys=keys, order=order, count=count):
                layout = Layout(node.schema, by_row=True, order=order)
                first = None if self.plan.may_retract(node.inputs[0]) else count
                arranged, spine = self.arranged(inputs[0], node.schema, keys, layout, first=first)
                placement = Placement(passes=frozenset(node.schema))
                return self.add(node.label, TopK(node.schema, spine, count), arranged, placement=placement)
            case _:
                raise AssertionError(node.operation)

    def _input(self, node: PlanNode, source: Input) -> NodeId:
        place = self._rows_of(node, source)
        if source.watermark is None:
            self.compiled.untimed[place] = source.name
            return place
        assert node.event_time is not None, "a watermark is about a column of event time"
        clock = SourceClock(source.name, source.watermark)
        self.compiled.clocks[source.name] = clock
        arrive = Arrive(source.name, node.schema, node.event_time.column, self.ledger, clock)
        added = self.add(
            f"event time of {source.name}",
            arrive,
            place,
            states=[clock, self.ledger],
            placement=_passing(node),
        )
        self.compiled.arrivals[added] = source.name
        return added

    def _rows_of(self, node: PlanNode, source: Input) -> NodeId:
        # Rows of a bucket are in their original order, but there is none between buckets.
        in_order = self._depends_on_order(source)
        if source.kind == "upsert":
            upsert, states = self._by_key(node.schema, source)
            timed = node.event_time if source.watermark is not None else None
            event_time = None if timed is None else timed.column
            self.compiled.retained[source.name] = RetainedRows(node.schema, upsert.spine, event_time)
            placement = Placement(by=() if in_order else source.keys, passes=frozenset(node.schema))
            if event_time is None:
                return self.add(source.name, upsert, states=states, placement=placement)
            refuse = RefuseUntimed(source.name, node.schema, event_time, self.ledger)
            place = self.add(source.name, refuse, states=[self.ledger])
            return self.add(
                f"rows of {source.name} by key", upsert, place, states=states, placement=placement
            )
        if source.kind == "diffs" and not source.trusted:
            strict = source.strict and not self.plan.refuses_retractions
            check = CheckRetractions(source.name, node.schema, self.ledger, strict=strict)
            placement = Placement(by=() if in_order else tuple(node.schema), passes=frozenset(node.schema))
            return self.add(source.name, check, states=[check.spine, self.ledger], placement=placement)
        return self.add(source.name, Append(node.schema))

    def _depends_on_order(self, source: Input) -> bool:
        """Return whether a watermark or a trigger goes by the order in which the rows of a source come."""
        if source.watermark is not None and source.watermark.depends_on_order:
            return True
        return any(
            any(part.depends_on_order for part in grouped.windowing.trigger.every_part())
            and source in self.plan.sources_of(place)
            for place, grouped in self.plan.windowed.items()
        )

    def _by_key(self, schema: pl.Schema, source: Input) -> tuple[Upsert | SequencedUpsert, Sequence[State]]:
        """Return the operator that replaces rows by key, by sequence or in the order in which they come, and its states."""
        if source.sequence:
            sequenced = SequencedUpsert(schema, source.keys, source.sequence)
            self.compiled.sequenced[source.name] = sequenced
            return sequenced, sequenced.states
        upsert = Upsert(source.name, schema, source.keys, self.ledger)
        return upsert, [upsert.spine, self.ledger]

    def _linear(
        self,
        where: str,
        node: PlanNode,
        inputs: list[NodeId],
        function: FrameFunction,
        apart: bool,
        passes: frozenset[str],
    ) -> NodeId:
        linear = Linear(where, node.schema, function, keeps_rows_apart=apart)
        return self.add(node.label, linear, *inputs, placement=Placement(passes=passes))

    def _group(self, where: str, node: PlanNode, source: NodeId, grouped: Group) -> NodeId:
        aggregation, keys = grouped.aggregation, grouped.keys
        schema = self.schema_of(source)
        prepared = self.projected(source, where, schema, (*grouped.key_columns, *aggregation.prepared))
        types = self.schema_of(prepared)
        key_types = pl.Schema({key: types[key] for key in keys})
        inputs, parts = [prepared], []
        (upstream,) = node.inputs
        retracts, below_zero = self.plan.may_retract(upstream), bool(self.plan.below_zero_by(upstream))
        for aggregate in aggregation.aggregates:
            before, part = self.part(
                aggregate, prepared, types, keys, where, retracts=retracts, may_go_below_zero=below_zero
            )
            parts.append(part)
            if part.counts_input:
                inputs.append(before)
        spec = GroupSpec(where, key_types, aggregation.aggregates, elementwise_columns(aggregation.finished))
        operator = GroupBy(spec, node.schema, parts)
        states = [*operator.states]
        placement = Placement(by=keys, passes=frozenset(keys))
        return self.add(node.label, operator, *inputs, states=states, placement=placement)

    def _join(self, node: PlanNode, inputs: list[NodeId], join: Join) -> NodeId:
        sides, behind = [], []
        keeps_unmatched = {"left": (1,), "right": (0,), "full": (0, 1), "semi": (1,), "anti": (1,)}
        for number, (source, keys) in enumerate(zip(inputs, (join.left_keys, join.right_keys), strict=True)):
            schema = self.schema_of(source)
            skip = not join.nulls_equal and bool(keys)
            rows = counts = None
            counted = number in keeps_unmatched.get(join.kind, ())
            # The right rows of a semi or anti join are never emitted: only whether a key exists matters.
            if not (join.kind in ("semi", "anti") and number == 1):
                layout = Layout(schema, by_row=True)
                place, rows = self.arranged(source, schema, keys, layout, skip_null_keys=skip)
                behind.append(place)
            if counted:
                place, counts = self._counted(source, schema, keys, skip)
                behind.append(place)
            sides.append(JoinSide(rows or Spine(Layout(by_row=True)), counts))
        operator = JoinOperator(node.schema, join.kind, sides[0], sides[1], join.columns)
        # Rows without a partner on the left have the keys of the right side.
        keeps_left = join.kind in ("inner", "left", "semi", "anti")
        copied = {column.name for column in join.columns if column.name == column.left}
        meets_by = join.left_keys if keeps_left and copied.issuperset(join.left_keys) else None
        return self.add(node.label, operator, *behind, placement=Placement(meets_by=meets_by))

    def _counted(
        self, source: NodeId, schema: pl.Schema, keys: tuple[str, ...], skip: bool
    ) -> tuple[NodeId, Spine]:
        def make() -> tuple[NodeId, Spine]:
            count = KeyCounts(schema, keys, skip_null_keys=skip)
            placement = Placement(by=keys, passes=frozenset(schema))
            name = f"count {', '.join(keys)}"
            return self.add(name, count, source, states=[count.spine], placement=placement), count.spine

        return self.once("count", source, (keys, skip), make)


def _passing(node: PlanNode) -> Placement:
    """Return the placement of a node that keeps the columns of its input."""
    return Placement(passes=frozenset(node.schema))


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    return frame_of([with_plain_zeros(column) for column in frame.get_columns()])
