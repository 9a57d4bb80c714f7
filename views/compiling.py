"""From plan to circuit: each declared node becomes operators, states that can be shared are shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl

from evercurrent.core.aggregates import (
    Additive,
    Aggregate,
    Column,
    Custom,
    Distinct,
    Pick,
    Whole,
)
from evercurrent.core.circuit import Circuit, NodeId
from evercurrent.core.kernels import computed, keep, with_plain_zeros
from evercurrent.core.operators.arrange import Arrange, CountKeys, Keep
from evercurrent.core.operators.distinct import Distinct as DistinctRows
from evercurrent.core.operators.group import GroupBy, GroupSpec
from evercurrent.core.operators.group_parts import (
    AdditivePart,
    DistinctPart,
    InvertedPart,
    Part,
    PickPart,
    RecomputedPart,
    WholePart,
)
from evercurrent.core.operators.inputs import Append, CheckRetractions, Ledger, Upsert
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

from .expressions import Expression
from .plan import (
    Concat,
    Explode,
    Filter,
    Group,
    Input,
    Join,
    Mapped,
    Negate,
    Plan,
    PlanId,
    PlanNode,
    Select,
    Top,
    Unique,
    Unnest,
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
    ``contents`` where a view's rows are read.
    """

    circuit: Circuit
    ledger: Ledger
    outputs: dict[PlanId, NodeId] = field(default_factory=dict)
    parts: dict[PlanId, list[NodeId]] = field(default_factory=dict)
    contents: dict[str, Readable] = field(default_factory=dict)


def compile_plan(plan: Plan, ledger: Ledger) -> Compiled:
    """The circuit that keeps the views of a plan current."""
    compiler = _Compiler(plan, ledger)
    for place in plan.needed():
        compiler.compile(place)
    for name, place in plan.views.items():
        compiler.keep(name, place)
    return compiler.compiled


class _Compiler:
    def __init__(self, plan: Plan, ledger: Ledger) -> None:
        self._plan = plan
        self._ledger = ledger
        self.compiled = Compiled(Circuit(), ledger)
        self._shared: dict[Any, tuple[NodeId, Any]] = {}
        self._place = PlanId(0)

    def compile(self, place: PlanId) -> None:
        """Add the operators of one plan node."""
        self._place = place
        node = self._plan[place]
        inputs = [self.compiled.outputs[source] for source in node.inputs]
        self.compiled.outputs[place] = self._operators(node, inputs)

    def keep(self, name: str, place: PlanId) -> None:
        """Make the rows of a view readable: from the state of its operator, or from one of its own."""
        self._place = place
        output = self.compiled.outputs[place]
        operator = self.compiled.circuit.nodes[output].operator
        if isinstance(operator, GroupBy):
            self.compiled.contents[name] = operator
            return
        schema = self._plan[place].schema

        def make() -> tuple[NodeId, Keep]:
            keep = Keep(schema)
            return self._add(f"keep {name}", keep, output, states=[keep.spine]), keep

        self.compiled.contents[name] = self._once(("keep", output), make)[1]

    def _add(self, name: str, operator: Operator, *inputs: NodeId, states: Sequence[State] = ()) -> NodeId:
        made = self.compiled.circuit.add(name, operator, *inputs, states=states)
        self.compiled.parts.setdefault(self._place, []).append(made)
        return made

    def _once(self, key: Any, make: Callable[[], tuple[NodeId, Any]]) -> tuple[NodeId, Any]:
        """What was made under this key before, or else now: arrangements are shared by (collection, key)."""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    def _operators(self, node: PlanNode, inputs: list[NodeId]) -> NodeId:
        where = self._plan.name_of(self._place)
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
                return self._add(node.label, MapBatches(where, node.schema, function), *inputs)
            case Concat():
                return self._add(node.label, ConcatOperator(node.schema), *inputs)
            case Negate():
                return self._add(node.label, NegateOperator(node.schema), *inputs)
            case Unique():
                return self._distinct(inputs[0], node.schema)
            case Group() as grouped:
                return self._group(where, node, inputs[0], grouped)
            case Join() as join:
                return self._join(node, inputs, join)
            case Top(keys=keys, order=order, count=count):
                layout = Layout(node.schema, by_row=True, order=order)
                arranged, spine = self._arranged(inputs[0], node.schema, keys, layout)
                return self._add(node.label, TopK(node.schema, spine, count), arranged)

    def _input(self, node: PlanNode, source: Input) -> NodeId:
        if source.kind == "upsert":
            upsert = Upsert(source.name, node.schema, source.keys, self._ledger)
            return self._add(source.name, upsert, states=[upsert.spine, self._ledger])
        if source.kind == "diffs" and not source.trusted:
            check = CheckRetractions(source.name, node.schema, self._ledger, strict=source.strict)
            return self._add(source.name, check, states=[check.spine, self._ledger])
        return self._add(source.name, Append(node.schema))

    def _linear(
        self, where: str, node: PlanNode, inputs: list[NodeId], function: FrameFunction, apart: bool
    ) -> NodeId:
        return self._add(node.label, Linear(where, node.schema, function, keeps_rows_apart=apart), *inputs)

    def _distinct(self, source: NodeId, schema: pl.Schema) -> NodeId:
        def make() -> tuple[NodeId, DistinctRows]:
            distinct = DistinctRows(schema)
            return self._add(
                f"unique {', '.join(schema)}", distinct, source, states=[distinct.spine]
            ), distinct

        return self._once(("distinct", source, tuple(schema.items())), make)[0]

    def _arranged(
        self,
        source: NodeId,
        schema: pl.Schema,
        keys: Sequence[str],
        layout: Layout,
        where: str | None = None,
        *,
        skip_null_keys: bool = False,
    ) -> tuple[NodeId, Spine]:
        def make() -> tuple[NodeId, Spine]:
            arrange = Arrange(schema, keys, layout, where=where, skip_null_keys=skip_null_keys)
            order = "".join(f", order {part.column}" for part in layout.order)
            name = f"arrange by {', '.join(keys) or 'nothing'}{order}"
            return self._add(name, arrange, source, states=[arrange.spine]), arrange.spine

        return self._once(("arrange", source, tuple(keys), layout, where, skip_null_keys), make)

    def _projected(self, source: NodeId, where: str, schema: pl.Schema, columns: Sequence[Column]) -> NodeId:
        """These columns of a node, made once for all that ask for the same."""
        if [column.copies for column in columns] == schema.names() and all(
            c.copies == c.name for c in columns
        ):
            return source
        types = schema.to_frame().select([column.expr.alias(column.name) for column in columns]).schema
        key = ("project", source, tuple((column.name, Expression(column.expr)) for column in columns))

        def make() -> tuple[NodeId, None]:
            linear = Linear(where, types, selecting(columns), keeps_rows_apart=False)
            return self._add(f"prepare {', '.join(types)}", linear, source), None

        return self._once(key, make)[0]

    def _group(self, where: str, node: PlanNode, source: NodeId, grouped: Group) -> NodeId:
        aggregation, keys = grouped.aggregation, grouped.keys
        schema = self.compiled.circuit.nodes[source].operator.schema
        prepared = self._projected(source, where, schema, (*grouped.key_columns, *aggregation.prepared))
        types = self.compiled.circuit.nodes[prepared].operator.schema
        key_types = pl.Schema({key: types[key] for key in keys})
        inputs, parts = [prepared], []
        for aggregate in aggregation.aggregates:
            before, part = self._part(aggregate, prepared, types, keys, where)
            parts.append(part)
            if isinstance(part, DistinctPart):
                inputs.append(before)
        spec = GroupSpec(where, key_types, aggregation.aggregates, aggregation.finished)
        operator = GroupBy(spec, node.schema, parts)
        states = [operator.spine, *(part.spine for part in operator.inverted)]
        return self._add(node.label, operator, *inputs, states=states)

    def _part(
        self, aggregate: Aggregate, prepared: NodeId, types: pl.Schema, keys: tuple[str, ...], where: str
    ) -> tuple[NodeId, Part]:
        """What keeps one aggregate, and the last node that was made for it."""
        match aggregate:
            case Additive(input=name):
                return prepared, AdditivePart(aggregate, types[name] if name else None)
            case Distinct(input=name):
                pairs = [
                    Column(column, pl.col(column), copies=column) for column in dict.fromkeys((*keys, name))
                ]
                projected = self._projected(prepared, where, types, pairs)
                schema = self.compiled.circuit.nodes[projected].operator.schema
                return self._distinct(projected, schema), DistinctPart(aggregate)
            case Pick(input=name, order=order):
                node, spine = self._ordered(prepared, types, keys, [name], order, aggregate.where)
                return node, PickPart(aggregate, spine)
            case Whole(inputs=names, order=order):
                node, spine = self._ordered(prepared, types, keys, names, order, None)
                return node, WholePart(aggregate, spine, keyless=not keys)
            case Custom(input=name, remove=None):
                node, spine = self._ordered(prepared, types, keys, [name], (Order(name),), None)
                return node, RecomputedPart(aggregate, spine, keyless=not keys)
            case Custom():
                return prepared, InvertedPart(aggregate, keyless=not keys)

    def _ordered(
        self,
        prepared: NodeId,
        types: pl.Schema,
        keys: tuple[str, ...],
        names: Sequence[str],
        order: tuple[Order, ...],
        where: str | None,
    ) -> tuple[NodeId, Spine]:
        """An arrangement of these columns by group, in this order and then by the columns themselves."""
        payload = {name: types[name] for name in (*(part.column for part in order), *names)}
        implied = order or tuple(Order(name) for name in names if not types[name].is_nested())
        layout = Layout(pl.Schema(payload), by_row=True, order=implied)
        return self._arranged(prepared, types, keys, layout, where)

    def _join(self, node: PlanNode, inputs: list[NodeId], join: Join) -> NodeId:
        sides, behind = [], []
        keeps_unmatched = {"left": (1,), "right": (0,), "full": (0, 1), "semi": (1,), "anti": (1,)}
        for number, (source, keys) in enumerate(zip(inputs, (join.left_keys, join.right_keys), strict=True)):
            schema = self.compiled.circuit.nodes[source].operator.schema
            skip = not join.nulls_equal and bool(keys)
            rows = counts = None
            counted = number in keeps_unmatched.get(join.kind, ())
            # The right rows of a semi or anti join are never shown: only whether a key is there.
            if not (join.kind in ("semi", "anti") and number == 1):
                layout = Layout(schema, by_row=True)
                place, rows = self._arranged(source, schema, keys, layout, skip_null_keys=skip)
                behind.append(place)
            if counted:
                place, counts = self._counted(source, schema, keys, skip)
                behind.append(place)
            sides.append(JoinSide(rows or Spine(Layout(by_row=True)), counts))
        operator = JoinOperator(node.schema, join.kind, sides[0], sides[1], join.columns)
        return self._add(node.label, operator, *behind)

    def _counted(
        self, source: NodeId, schema: pl.Schema, keys: tuple[str, ...], skip: bool
    ) -> tuple[NodeId, Spine]:
        def make() -> tuple[NodeId, Spine]:
            count = CountKeys(schema, keys, skip_null_keys=skip)
            return self._add(f"count {', '.join(keys)}", count, source, states=[count.spine]), count.spine

        return self._once(("count", source, keys, skip), make)


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
