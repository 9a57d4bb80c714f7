"""The builder of circuits: arrangements, projections and aggregates that several operators share."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from evercurrent.core.circuit.circuit import Circuit, Deltas, NodeId
from evercurrent.core.circuit.placement import ANYWHERE, Placement
from evercurrent.core.circuit.stages import Cut
from evercurrent.core.data.clock import Clock, Earliest, UnknownClock
from evercurrent.core.data.columns.kernels import MANY_ROWS, Keys, Mask, with_plain_zeros
from evercurrent.core.data.columns.polars_versions import root_names
from evercurrent.core.data.columns.row_values import RowExpressions
from evercurrent.core.data.columns.whole_columns import AnyColumn, IntColumn
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.schema import DIFF, empty_frame
from evercurrent.core.eventtime.panes.panes import Panes
from evercurrent.core.eventtime.watermarks.source_clock import SourceClock
from evercurrent.core.eventtime.windows.window_tracker import TrackWindows
from evercurrent.core.operators.arrange import Arrange
from evercurrent.core.operators.distinct import Distinct as DistinctRows
from evercurrent.core.operators.group.aggregate_contract import AggregateState
from evercurrent.core.operators.group.aggregates import (
    Aggregate,
    Column,
)
from evercurrent.core.operators.group.group_by import GroupBy
from evercurrent.core.operators.linear import ColumnFunction, Linear, MaskFunction
from evercurrent.core.operators.sequenced import SequencedUpsert
from evercurrent.core.state.channels import Finding
from evercurrent.core.state.ledger import Ledger
from evercurrent.core.state.operator_contract import Operator
from evercurrent.core.state.partitioning import KeyColumns
from evercurrent.core.state.protocol import State
from evercurrent.core.state.readable import Readable
from evercurrent.core.state.run import Layout
from evercurrent.core.state.spine import Spine

from ..expressions import compared_columns
from ..expressions.array_expressions import over_arrays
from ..expressions.elementwise import elementwise
from ..expressions.showing import shown
from ..plan.node_identities import CircuitIdentities, Purpose
from ..plan.nodes import PlanId
from ..plan.plan import Plan
from .aggregate_states import GroupRows
from .retained import RetainedRows


@dataclass(slots=True)
class Compiled:
    """A circuit, with the mapping from the plan to its nodes.

    ``outputs`` has the circuit node that gives the delta of a plan node, ``parts`` all nodes made for it, ``contents`` the
    reader of a view's rows, ``kept_at`` the node that keeps them, ``clocks`` the watermark of each source with event time.
    For groupings, ``trackers`` has the operators that keep their windows, ``groupings`` those that keep their groups, and
    ``panes`` those that emit their panes. ``sequenced`` has the operators of sources with ``sequence_by``. ``allow_pickle``:
    states of users' aggregates may be pickles.
    """

    circuit: Circuit
    ledger: Ledger
    outputs: dict[PlanId, NodeId] = field(default_factory=dict)
    parts: dict[PlanId, list[NodeId]] = field(default_factory=dict)
    contents: dict[str, Readable] = field(default_factory=dict)
    kept_at: dict[str, NodeId] = field(default_factory=dict)
    clocks: dict[str, SourceClock] = field(default_factory=dict)
    arrivals: dict[NodeId, str] = field(default_factory=dict)
    """The sources with event time, by the nodes that hand on their rows and move their clocks."""
    untimed: dict[NodeId, str] = field(default_factory=dict)
    """The sources without event time, by the nodes that hand on their rows."""
    trackers: dict[PlanId, TrackWindows] = field(default_factory=dict)
    groupings: dict[PlanId, GroupBy] = field(default_factory=dict)
    panes: dict[PlanId, Panes] = field(default_factory=dict)
    retained: dict[str, RetainedRows] = field(default_factory=dict)
    sequenced: dict[str, SequencedUpsert] = field(default_factory=dict)
    requested: dict[PlanId, list[NodeId]] = field(default_factory=dict)
    """The nodes with states that each plan node needs, shared ones too, in the order in which they were added for it."""
    views: dict[NodeId, list[tuple[int, str]]] = field(default_factory=dict)
    """The views whose delta is that of a node, with their numbers in the order in which they were declared."""
    allow_pickle: bool = False
    cut: Cut = field(init=False)
    """The cut into stages for buckets."""

    def named(self, place: NodeId) -> list[str]:
        """Return the views whose delta is that of a node."""
        return [name for _, name in self.views.get(place, ())]

    def of_views(self, deltas: Deltas, silent: Container[str] = ()) -> list[tuple[str, Delta]]:
        """Return the changes of views in an epoch, in the order of their declarations, without ``silent`` ones and rows that cancel."""
        touched = [
            (number, name, delta)
            for node, delta in deltas.items()
            if delta.height
            for number, name in self.views.get(node, ())
            if name not in silent
        ]
        touched.sort(key=lambda each: each[0])
        return [
            (name, change) for _, name, delta in touched if (change := delta.without_cancelled()) is not None
        ]

    def timed_rows(self, deltas: Deltas) -> dict[str, pl.DataFrame]:
        """Return the rows that an epoch brings to sources with event time."""
        return {name: deltas[node].frame for node, name in self.arrivals.items() if node in deltas}

    def untimed_rows(self, deltas: Deltas) -> dict[str, Delta]:
        """Return the rows that an epoch brings to sources without event time, by reference."""
        return {name: deltas[node] for node, name in self.untimed.items() if node in deltas}

    def views_at(self, nodes: Iterable[NodeId]) -> Iterator[str]:
        """Yield the names of the views at these nodes."""
        return (name for node in nodes for _, name in self.views.get(node, ()))


class Builder:
    """A circuit under construction, with the parts that operators of several plan nodes share, each made once."""

    def __init__(self, plan: Plan, ledger: Ledger, *, allow_pickle: bool) -> None:
        self.plan = plan
        self.ledger = ledger
        self.compiled: Compiled = Compiled(Circuit(), ledger, allow_pickle=allow_pickle)
        self._shared: dict[Any, tuple[NodeId, Any]] = {}
        self._clocks: dict[PlanId, tuple[Clock, ...]] = {}
        self.place: PlanId = PlanId(0)
        self._identities = CircuitIdentities()
        self._purpose: Purpose | None = None
        self._parts = 0
        """How many parts were made that plan nodes may share."""

    def add(
        self,
        name: str,
        operator: Operator,
        *inputs: NodeId,
        states: Sequence[State] = (),
        placement: Placement = ANYWHERE,
        only: tuple[str, int | str] | None = None,
        purpose_before: Purpose | None = None,
    ) -> NodeId:
        """Add a node. ``purpose_before``: the one it had in earlier versions, if its states held more in these."""
        number = self.compiled.circuit.add(
            name, operator, *inputs, states=states, placement=placement, only=only
        )
        nodes = self.compiled.circuit.nodes
        purpose = self._purpose or self._identities.operation(self.plan[self.place])
        behind = [nodes[source] for source in inputs]
        made_for = ("plan node", self.place) if self._purpose is None else ("part", self._parts)
        self._identities.promise(nodes[number], purpose, behind, made_for, purpose_before)
        self.compiled.parts.setdefault(self.place, []).append(number)
        self._note_requested(number)
        return number

    def _note_requested(self, number: NodeId) -> None:
        if self.compiled.circuit.nodes[number].states:
            self.compiled.requested.setdefault(self.place, []).append(number)

    def schema_of(self, node: NodeId) -> pl.Schema:
        """Return the data columns of a circuit node."""
        return self.compiled.circuit.nodes[node].operator.schema

    def once(
        self, role: str, source: NodeId, what: tuple[Hashable, ...], make: Callable[[], tuple[NodeId, Any]]
    ) -> tuple[NodeId, Any]:
        """Return what was made after this node in this role, and make it if it is missing, so that arrangements are shared."""
        key = (role, source, what)
        if key in self._shared:
            self._note_requested(self._shared[key][0])
        else:
            self._purpose = self._identities.shared(role, what)
            self._parts += 1
            try:
                self._shared[key] = make()
            finally:
                self._purpose = None
        return self._shared[key]

    def clock_of(self, place: PlanId) -> Clock:
        """Return the clock of a collection: the least of its sources' watermarks, held back by windows."""
        if place not in self._clocks:
            self._clocks[place] = self._nearest_clocks(place)
        clocks = self._clocks[place]
        return Earliest(clocks) if len(clocks) > 1 else clocks[0] if clocks else UnknownClock()

    def _nearest_clocks(self, place: PlanId) -> tuple[Clock, ...]:
        """Return the clocks of the sources and of the nearest windowed groupings upstream of a node, each once."""
        clocks: dict[Clock, None] = {}
        seen, waiting = {place}, [place]
        while waiting:
            at = waiting.pop()
            node = self.plan[at]
            if at in self._clocks:
                clocks |= dict.fromkeys(self._clocks[at])
            elif at in self.plan.inputs:
                clock = self.compiled.clocks.get(self.plan.inputs[at].name)
                clocks |= {} if clock is None else {clock: None}
            elif at in self.compiled.trackers:
                clocks[self.compiled.trackers[at].hold] = None
            else:
                new = [source for source in reversed(node.inputs) if source not in seen]
                seen.update(new)
                waiting += new
        return tuple(clocks)

    def distinct(self, source: NodeId, schema: pl.Schema, by: tuple[str, ...] | None = None) -> NodeId:
        """Add a node that has each row once; rows that are equal in ``by``, by default in all columns, are in one bucket."""

        def make() -> tuple[NodeId, DistinctRows]:
            distinct = DistinctRows(schema, by)
            placement = Placement(by=tuple(schema) if by is None else by, passes=frozenset(schema))
            name = f"unique {', '.join(schema)}"
            return self.add(name, distinct, source, states=[distinct.spine], placement=placement), distinct

        return self.once("distinct", source, (tuple(schema.items()), by), make)[0]

    def arranged(
        self,
        source: NodeId,
        schema: pl.Schema,
        keys: Sequence[str],
        layout: Layout,
        where: str | None = None,
        *,
        skip_null_keys: bool = False,
        expired: Finding[Keys] | None = None,
        by: tuple[str, ...] | None = None,
        holds_rows: bool = True,
        first: int | None = None,
    ) -> tuple[NodeId, Spine]:
        """The rows of a node by key; without ``holds_rows`` only what an earlier version has kept of them.

        With ``first``, of a node that never retracts, only this many of each key: the first in the order of the layout.
        """

        def make() -> tuple[NodeId, Arrange]:
            arrange = Arrange(
                schema,
                keys,
                layout,
                where=where,
                skip_null_keys=skip_null_keys,
                expired=expired,
                by=by,
                holds_rows=holds_rows,
                first=first,
            )
            order = "".join(f", order {part.column}" for part in layout.order)
            what_is_kept = "arrange" if first is None else f"first {first} rows"
            name = f"{what_is_kept} by {', '.join(keys) or 'nothing'}{order}"
            placement = Placement(by=tuple(keys) if by is None else by, passes=frozenset(schema))
            before = None if first is None else self._identities.shared("arrange", what)
            states = [arrange.spine]
            added = self.add(name, arrange, source, states=states, placement=placement, purpose_before=before)
            return added, arrange

        what = (KeyColumns.of(keys, by), layout, where, skip_null_keys)
        node, arrange = self.once("arrange", source, what if first is None else (*what, first), make)
        arrange.holds_rows |= holds_rows
        return node, arrange.spine

    def projected(self, source: NodeId, where: str, schema: pl.Schema, columns: Sequence[Column]) -> NodeId:
        """Add a node with these columns of another one, made once for all that use the same."""
        if [column.copies for column in columns] == schema.names() and all(
            c.copies == c.name for c in columns
        ):
            return source
        types = _types_of(columns, schema)
        what = compared_columns(columns)

        def make() -> tuple[NodeId, None]:
            select, untouched = selecting(columns, schema), untouched_columns(columns)
            linear = Linear(
                where,
                types,
                columns=select,
                copies=plain_copies(columns),
                keeps_rows_apart=False,
                untouched=untouched,
            )
            placement = Placement(passes=copied_columns(columns))
            return self.add(f"prepare {', '.join(types)}", linear, source, placement=placement), None

        return self.once("project", source, what, make)[0]

    def part(
        self,
        aggregate: Aggregate,
        prepared: NodeId,
        types: pl.Schema,
        keys: tuple[str, ...],
        where: str,
        expired: Finding[Keys] | None = None,
        *,
        of_nothing: bool = False,
        by: tuple[str, ...] | None = None,
        retracts: bool = True,
        may_go_below_zero: bool = True,
        in_windows: bool = False,
    ) -> tuple[NodeId, AggregateState]:
        """Return the state of one aggregate, and the last node that was made for it.

        ``of_nothing``: groups without rows are needed too. ``retracts``: rows may be retracted; ``may_go_below_zero``: also
        those that are not there. ``in_windows``: keys contain windows. If keys expire, all state has to be by key: values are
        then counted among the rows of the group, and a user's aggregate is computed from them.
        """
        rows = GroupRows(
            self, prepared, types, keys, where, expired, of_nothing, by, retracts, may_go_below_zero, in_windows,
            self.compiled.allow_pickle,
        )  # fmt: skip
        return rows.state(aggregate)


def _types_of(columns: Sequence[Column], schema: pl.Schema) -> pl.Schema:
    """Return the types of columns that are computed of others; polars decides, unless all are copies."""
    copies = plain_copies(columns)
    if copies is not None:
        return pl.Schema({name: schema[source] for name, source in copies.items()})
    return empty_frame(schema).select([column.expr.alias(column.name) for column in columns]).schema


def copied_columns(columns: Sequence[Column]) -> frozenset[str]:
    """Return the columns that are the same in the output as in the input."""
    return frozenset(column.name for column in columns if column.copies == column.name)


def plain_copies(columns: Sequence[Column]) -> Mapping[str, str] | None:
    """Return what these columns copy; None if any of them is computed."""
    copies = {column.name: column.copies for column in columns if column.copies is not None}
    return copies if len(copies) == len(columns) else None


def untouched_columns(columns: Sequence[Column]) -> frozenset[str]:
    """Return the columns that are the same in the output, and from which no other one is made."""
    read = {name for column in columns if column.copies != column.name for name in root_names(column.expr)}
    return copied_columns(columns) - read


def selecting(columns: Sequence[Column], types: pl.Schema) -> ColumnFunction:
    """Return a function that computes these columns over rows with columns of these types.

    Plain copies are taken by reference, and only what is read is passed to polars; few numbers are computed as arrays.
    """
    copies = {column.name: column.copies for column in columns if column.copies is not None}
    expressions = [column for column in columns if column.copies is None]
    arrays = [over_arrays(column.expr, types) for column in expressions]
    if all(array is not None and not array.is_mask for array in arrays):
        small = {
            column.name: array for column, array in zip(expressions, arrays, strict=True) if array is not None
        }
    else:
        small = None
    computed = RowExpressions(
        [*(elementwise(each.expr).alias(each.name) for each in expressions), pl.col(DIFF)],
        lambda number: shown(expressions[number].expr.meta.undo_aliases()),
    )

    def values(delta: Delta) -> Mapping[str, AnyColumn]:
        if small is not None and delta.height <= MANY_ROWS:
            inputs = {name: delta.column(name) for array in small.values() for name in array.inputs}
            numbers = {name: array.of(inputs) for name, array in small.items()}
            series_by_name = {
                name: IntColumn(name, each) for name, each in numbers.items() if each is not None
            }
            if len(series_by_name) == len(numbers):
                return series_by_name
        frame = computed.of(delta.frame_with(computed.inputs))
        return {column.name: with_plain_zeros(frame.get_column(column.name)) for column in expressions}

    def select(delta: Delta) -> list[AnyColumn]:
        columns_by_name = {**values(delta), **{column.name: column for column in delta.renamed(copies)}}
        return [columns_by_name[name] for name in names]

    names = [column.name for column in columns]
    return select if expressions else lambda delta: delta.renamed(copies)


def filtering(condition: Column, types: pl.Schema) -> MaskFunction:
    """Return a function that returns which rows, with columns of these types, fulfil a condition."""
    computed = RowExpressions(
        [elementwise(condition.expr), pl.col(DIFF)], lambda _: shown(condition.expr.meta.undo_aliases())
    )
    array = over_arrays(condition.expr, types)
    small = array if array is not None and array.is_mask else None

    def chosen(delta: Delta) -> Mask:
        if small is not None and delta.height <= MANY_ROWS:
            mask = small.of({name: delta.column(name) for name in small.inputs})
            if mask is not None:
                return mask
        # The mask is an array of its own: polars holds booleans as bits.
        flags = computed.of(delta.frame_with(computed.inputs, at_once=True)).to_series()
        matches: Mask = (flags.fill_null(False) if flags.has_nulls() else flags).to_numpy()
        return matches

    return chosen
