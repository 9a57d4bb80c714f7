"""From plan to circuit: each declared node becomes operators, states that can be shared are shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import polars as pl

from evercurrent.core.aggregates import (
    Additive,
    Aggregate,
    Column,
    Custom,
    Distinct,
    Pick,
    Told,
    Whole,
)
from evercurrent.core.circuit import Circuit, NodeId
from evercurrent.core.clock import Clock, Earliest, Still
from evercurrent.core.eventtime.arrival import Arrive, SourceClock
from evercurrent.core.eventtime.tracking import TrackWindows
from evercurrent.core.expiry import Expiry
from evercurrent.core.kernels import computed, keep, with_plain_zeros
from evercurrent.core.ledger import Ledger
from evercurrent.core.operators.arrange import Arrange, CountKeys, Keep
from evercurrent.core.operators.distinct import Distinct as DistinctRows
from evercurrent.core.operators.group import GroupBy, GroupSpec
from evercurrent.core.operators.group_parts import (
    AdditivePart,
    InputPart,
    InvertedPart,
    Part,
    PickPart,
    RecomputedPart,
    WholePart,
)
from evercurrent.core.operators.inputs import Append, CheckRetractions, Upsert
from evercurrent.core.operators.join import Join as JoinOperator
from evercurrent.core.operators.join import JoinSide
from evercurrent.core.operators.linear import Concat as ConcatOperator
from evercurrent.core.operators.linear import FrameFunction, Linear, MapBatches
from evercurrent.core.operators.linear import Negate as NegateOperator
from evercurrent.core.operators.top_k import TopK
from evercurrent.core.protocol import Operator, State
from evercurrent.core.run import Layout
from evercurrent.core.schema import DIFF, Order
from evercurrent.core.spine import Spine

from .compiling_windows import windows_over_time
from .expressions import Expression
from .plan import (
    Assign,
    Concat,
    Explode,
    Filter,
    Group,
    InOrder,
    Input,
    Join,
    Mapped,
    Negate,
    Plan,
    PlanId,
    PlanNode,
    Retimed,
    Select,
    TooLate,
    Top,
    Unique,
    Unnest,
    WindowedGroup,
)


class Readable(Protocol):
    """A state from which the contents of a collection can be read."""

    spine: Spine

    def contents(self) -> pl.DataFrame:
        """All rows."""
        ...


@dataclass(slots=True)
class Compiled:
    """A circuit with the way back to the plan.

    ``outputs`` says which circuit node gives the delta of a plan node, ``parts`` all nodes made for it,
    ``contents`` where a view's rows are read, ``clocks`` the watermark of each source with event time,
    ``trackers`` what keeps the windows of a grouping.
    """

    circuit: Circuit
    ledger: Ledger
    outputs: dict[PlanId, NodeId] = field(default_factory=dict)
    parts: dict[PlanId, list[NodeId]] = field(default_factory=dict)
    contents: dict[str, Readable] = field(default_factory=dict)
    clocks: dict[str, SourceClock] = field(default_factory=dict)
    trackers: dict[PlanId, TrackWindows] = field(default_factory=dict)

    def clock(self, plan: Plan, place: PlanId) -> Clock:
        """The clock of a node, as far as it was asked for; else the least of its sources' watermarks."""
        if place in self.trackers:
            return (
                self.trackers[place].hold
                if self.trackers[place].hold.is_wanted
                else self.trackers[place].clock
            )
        names = [source.name for source in plan.sources_of(place) if source.name in self.clocks]
        return Earliest([self.clocks[name] for name in names]) if names else Still()


def compile_plan(plan: Plan, ledger: Ledger) -> Compiled:
    """The circuit that keeps the views of a plan current."""
    compiler = Compiler(plan, ledger)
    for place in plan.needed():
        compiler.compile(place)
    for name, place in plan.views.items():
        compiler.keep(name, place)
    return compiler.compiled


class Compiler:
    """Adds the operators of plan nodes to a circuit, one node after the other."""

    def __init__(self, plan: Plan, ledger: Ledger) -> None:
        self.plan = plan
        self.ledger = ledger
        self.compiled = Compiled(Circuit(), ledger)
        self._shared: dict[Any, tuple[NodeId, Any]] = {}
        self._clocks: dict[PlanId, Clock | None] = {}
        self.place = PlanId(0)

    def compile(self, place: PlanId) -> None:
        """Add the operators of one plan node."""
        self.place = place
        node = self.plan[place]
        inputs = [self.compiled.outputs[source] for source in node.inputs]
        self.compiled.outputs[place] = self._operators(node, inputs)

    def keep(self, name: str, place: PlanId) -> None:
        """Make the rows of a view readable: from the state of its operator, or from one of its own."""
        self.place = place
        output = self.compiled.outputs[place]
        operator = self.compiled.circuit.nodes[output].operator
        if isinstance(operator, GroupBy) and not operator.forgets:
            self.compiled.contents[name] = operator
            return
        schema = self.plan[place].schema

        def make() -> tuple[NodeId, Keep]:
            keep = Keep(schema)
            return self.add(f"keep {name}", keep, output, states=[keep.spine]), keep

        self.compiled.contents[name] = self.once(("keep", output), make)[1]

    def add(self, name: str, operator: Operator, *inputs: NodeId, states: Sequence[State] = ()) -> NodeId:
        made = self.compiled.circuit.add(name, operator, *inputs, states=states)
        self.compiled.parts.setdefault(self.place, []).append(made)
        return made

    def schema_of(self, node: NodeId) -> pl.Schema:
        """The data columns that a circuit node gives."""
        return self.compiled.circuit.nodes[node].operator.schema

    def once(self, key: Any, make: Callable[[], tuple[NodeId, Any]]) -> tuple[NodeId, Any]:
        """What was made under this key before, or else now: arrangements are shared by (collection, key)."""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    def _operators(self, node: PlanNode, inputs: list[NodeId]) -> NodeId:
        where = self.plan.name_of(self.place)
        match node.operation:
            case Input():
                return self._input(node, node.operation)
            case Select(columns=columns, keeps_rows_apart=apart):
                return self._linear(where, node, inputs, selecting(columns), apart)
            case Filter(condition=condition):
                return self._linear(where, node, inputs, _filtering(condition), True)
            case Explode(columns=names):
                return self._linear(where, node, inputs, lambda frame: _plain(frame.explode(names)), False)
            case Unnest(columns=names):
                return self._linear(where, node, inputs, lambda frame: _plain(frame.unnest(names)), False)
            case Mapped(function=function):
                return self.add(node.label, MapBatches(where, node.schema, function), *inputs)
            case Concat():
                return self.add(node.label, ConcatOperator(node.schema), *inputs)
            case Negate():
                return self.add(node.label, NegateOperator(node.schema), *inputs)
            case Unique():
                return self._distinct(inputs[0], node.schema)
            case Group() as grouped:
                return self._group(where, node, inputs[0], grouped)
            case Join() as join:
                return self._join(node, inputs, join)
            case Assign() | Retimed() | InOrder() | TooLate() | WindowedGroup():
                return windows_over_time(self, where, node, inputs[0])
            case Top(keys=keys, order=order, count=count):
                layout = Layout(node.schema, by_row=True, order=order)
                arranged, spine = self.arranged(inputs[0], node.schema, keys, layout)
                return self.add(node.label, TopK(node.schema, spine, count), arranged)

    def clock_of(self, place: PlanId) -> Clock:
        """How far the event time of a collection is complete: the least of its sources' watermarks, as far as held."""
        return self._clock_of(place) or Still()

    def _clock_of(self, place: PlanId) -> Clock | None:
        if place not in self._clocks:
            self._clocks[place] = self._found_clock(place)
        return self._clocks[place]

    def _found_clock(self, place: PlanId) -> Clock | None:
        node = self.plan[place]
        if isinstance(node.operation, Input):
            return self.compiled.clocks.get(node.operation.name)
        if place in self.compiled.trackers:
            hold = self.compiled.trackers[place].hold
            hold.is_wanted = True
            return hold
        found = list(dict.fromkeys(clock for source in node.inputs if (clock := self._clock_of(source))))
        return Earliest(found) if len(found) > 1 else found[0] if found else None

    def _input(self, node: PlanNode, source: Input) -> NodeId:
        place = self._rows_of(node, source)
        if source.watermark is None:
            return place
        assert node.event_time is not None, "a watermark is about a column of event time"
        clock = SourceClock(source.name, source.watermark)
        self.compiled.clocks[source.name] = clock
        arrive = Arrive(source.name, node.schema, node.event_time.column, self.ledger, clock)
        return self.add(f"event time of {source.name}", arrive, place, states=[clock, self.ledger])

    def _rows_of(self, node: PlanNode, source: Input) -> NodeId:
        if source.kind == "upsert":
            upsert = Upsert(source.name, node.schema, source.keys, self.ledger)
            return self.add(source.name, upsert, states=[upsert.spine, self.ledger])
        if source.kind == "diffs" and not source.trusted:
            check = CheckRetractions(source.name, node.schema, self.ledger, strict=source.strict)
            return self.add(source.name, check, states=[check.spine, self.ledger])
        return self.add(source.name, Append(node.schema))

    def _linear(
        self, where: str, node: PlanNode, inputs: list[NodeId], function: FrameFunction, apart: bool
    ) -> NodeId:
        return self.add(node.label, Linear(where, node.schema, function, keeps_rows_apart=apart), *inputs)

    def _distinct(self, source: NodeId, schema: pl.Schema) -> NodeId:
        def make() -> tuple[NodeId, DistinctRows]:
            distinct = DistinctRows(schema)
            return self.add(
                f"unique {', '.join(schema)}", distinct, source, states=[distinct.spine]
            ), distinct

        return self.once(("distinct", source, tuple(schema.items())), make)[0]

    def arranged(
        self,
        source: NodeId,
        schema: pl.Schema,
        keys: Sequence[str],
        layout: Layout,
        where: str | None = None,
        *,
        skip_null_keys: bool = False,
        expiry: Expiry | None = None,
    ) -> tuple[NodeId, Spine]:
        def make() -> tuple[NodeId, Spine]:
            arrange = Arrange(schema, keys, layout, where=where, skip_null_keys=skip_null_keys, expiry=expiry)
            order = "".join(f", order {part.column}" for part in layout.order)
            name = f"arrange by {', '.join(keys) or 'nothing'}{order}"
            return self.add(name, arrange, source, states=[arrange.spine]), arrange.spine

        return self.once(("arrange", source, tuple(keys), layout, where, skip_null_keys), make)

    def projected(self, source: NodeId, where: str, schema: pl.Schema, columns: Sequence[Column]) -> NodeId:
        """These columns of a node, made once for all that ask for the same."""
        if [column.copies for column in columns] == schema.names() and all(
            c.copies == c.name for c in columns
        ):
            return source
        types = schema.to_frame().select([column.expr.alias(column.name) for column in columns]).schema
        key = ("project", source, tuple((column.name, Expression(column.expr)) for column in columns))

        def make() -> tuple[NodeId, None]:
            linear = Linear(where, types, selecting(columns), keeps_rows_apart=False)
            return self.add(f"prepare {', '.join(types)}", linear, source), None

        return self.once(key, make)[0]

    def _group(self, where: str, node: PlanNode, source: NodeId, grouped: Group) -> NodeId:
        aggregation, keys = grouped.aggregation, grouped.keys
        schema = self.schema_of(source)
        prepared = self.projected(source, where, schema, (*grouped.key_columns, *aggregation.prepared))
        types = self.schema_of(prepared)
        key_types = pl.Schema({key: types[key] for key in keys})
        inputs, parts = [prepared], []
        for aggregate in aggregation.aggregates:
            before, part = self.part(aggregate, prepared, types, keys, where)
            parts.append(part)
            if isinstance(part, InputPart):
                inputs.append(before)
        spec = GroupSpec(where, key_types, aggregation.aggregates, aggregation.finished)
        operator = GroupBy(spec, node.schema, parts)
        states = [operator.spine, *(part.spine for part in operator.inverted)]
        return self.add(node.label, operator, *inputs, states=states)

    def part(
        self,
        aggregate: Aggregate,
        prepared: NodeId,
        types: pl.Schema,
        keys: tuple[str, ...],
        where: str,
        expiry: Expiry | None = None,
        *,
        of_nothing: bool = False,
    ) -> tuple[NodeId, Part]:
        """What keeps one aggregate, and the last node that was made for it.

        ``of_nothing``: groups of no rows are asked for too. Where keys expire, all state has to be by key: values are then counted among the rows of the group, and
        a user's aggregate is computed from them.
        """
        if expiry is not None and isinstance(aggregate, Distinct):
            counted = pl.col(aggregate.input).n_unique()
            aggregate = Whole(aggregate.output, aggregate.dtype, (aggregate.input,), counted)
        if expiry is not None and isinstance(aggregate, Custom):
            aggregate = replace(aggregate, remove=None)
        match aggregate:
            case Told():
                return prepared, InputPart(aggregate)
            case Additive(input=name):
                return prepared, AdditivePart(aggregate, types[name] if name else None)
            case Distinct(input=name):
                pairs = [
                    Column(column, pl.col(column), copies=column) for column in dict.fromkeys((*keys, name))
                ]
                projected = self.projected(prepared, where, types, pairs)
                schema = self.schema_of(projected)
                return self._distinct(projected, schema), InputPart(aggregate)
            case Pick(input=name, order=order):
                node, spine = self._ordered(prepared, types, keys, [name], order, aggregate.where, expiry)
                return node, PickPart(aggregate, spine)
            case Whole(inputs=names, order=order):
                node, spine = self._ordered(prepared, types, keys, names, order, None, expiry)
                return node, WholePart(aggregate, spine, keyless=of_nothing or not keys)
            case Custom(input=name, remove=None):
                node, spine = self._ordered(prepared, types, keys, [name], (Order(name),), None, expiry)
                return node, RecomputedPart(aggregate, spine, keyless=of_nothing or not keys)
            case Custom():
                return prepared, InvertedPart(aggregate, keyless=of_nothing or not keys)

    def _ordered(
        self,
        prepared: NodeId,
        types: pl.Schema,
        keys: tuple[str, ...],
        names: Sequence[str],
        order: tuple[Order, ...],
        where: str | None,
        expiry: Expiry | None,
    ) -> tuple[NodeId, Spine]:
        """An arrangement of these columns by group, in this order and then by the columns themselves."""
        payload = {name: types[name] for name in (*(part.column for part in order), *names)}
        implied = order or tuple(Order(name) for name in names if not types[name].is_nested())
        layout = Layout(pl.Schema(payload), by_row=True, order=implied)
        return self.arranged(prepared, types, keys, layout, where, expiry=expiry)

    def _join(self, node: PlanNode, inputs: list[NodeId], join: Join) -> NodeId:
        sides, behind = [], []
        keeps_unmatched = {"left": (1,), "right": (0,), "full": (0, 1), "semi": (1,), "anti": (1,)}
        for number, (source, keys) in enumerate(zip(inputs, (join.left_keys, join.right_keys), strict=True)):
            schema = self.schema_of(source)
            skip = not join.nulls_equal and bool(keys)
            rows = counts = None
            counted = number in keeps_unmatched.get(join.kind, ())
            # The right rows of a semi or anti join are never shown: only whether a key is there.
            if not (join.kind in ("semi", "anti") and number == 1):
                layout = Layout(schema, by_row=True)
                place, rows = self.arranged(source, schema, keys, layout, skip_null_keys=skip)
                behind.append(place)
            if counted:
                place, counts = self._counted(source, schema, keys, skip)
                behind.append(place)
            sides.append(JoinSide(rows or Spine(Layout(by_row=True)), counts))
        operator = JoinOperator(node.schema, join.kind, sides[0], sides[1], join.columns)
        return self.add(node.label, operator, *behind)

    def _counted(
        self, source: NodeId, schema: pl.Schema, keys: tuple[str, ...], skip: bool
    ) -> tuple[NodeId, Spine]:
        def make() -> tuple[NodeId, Spine]:
            count = CountKeys(schema, keys, skip_null_keys=skip)
            return self.add(f"count {', '.join(keys)}", count, source, states=[count.spine]), count.spine

        return self.once(("count", source, keys, skip), make)


def selecting(columns: Sequence[Column]) -> FrameFunction:
    """A function that computes these columns and keeps ``_diff``; plain copies are taken by reference."""
    exprs = [column.expr.alias(column.name) for column in columns if column.copies is None]
    exprs += [pl.col(DIFF)] if exprs else []

    def select(frame: pl.DataFrame) -> pl.DataFrame:
        made = computed(frame, exprs) if exprs else frame
        taken = [
            with_plain_zeros(made.get_column(column.name))
            if column.copies is None
            else frame.get_column(column.copies).alias(column.name)
            for column in columns
        ]
        return pl.DataFrame([*taken, frame.get_column(DIFF)])

    return select


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    return pl.DataFrame([with_plain_zeros(column) for column in frame.get_columns()])


def _filtering(condition: Column) -> FrameFunction:
    def choose(frame: pl.DataFrame) -> pl.DataFrame:
        chosen = computed(frame, [condition.expr, pl.col(DIFF)]).to_series()
        return keep(frame, (chosen.fill_null(False) if chosen.has_nulls() else chosen).to_numpy())

    return choose
