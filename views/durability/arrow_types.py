"""The check that files of a checkpoint can hold all that views and states keep, by the names that the user gave."""

from __future__ import annotations

import polars as pl

from evercurrent.core.circuit.circuit import Node
from evercurrent.core.data.schema import listed
from evercurrent.core.state.spine import Spine

from ..checkpoint.piece_files import is_in_arrow, require_arrow
from ..compiler.builder import Compiled
from ..compiler.state_labels import views_served
from ..expressions.showing import shown
from ..plan.nodes import Operation, PlanId
from ..plan.plan import Plan
from ..plan.windowed import KEY


def require_arrow_types(plan: Plan, compiled: Compiled) -> None:
    """Check that Arrow has the types of all kept rows: the log of inputs would accept others, and no commit would.

    Raises:
        CheckpointError: a column of a type that Arrow does not have; names the view or the source for which it is kept.
    """
    nodes = compiled.circuit.nodes
    for place, views in compiled.views.items():
        for name, dtype in nodes[place].operator.schema.items():
            for _, view in views:
                require_arrow(name, dtype, f"view {view!r}: column")
    for number, node in enumerate(nodes):
        for state in node.states:
            for name, dtype in state.layout.payload.items() if isinstance(state, Spine) else ():
                if not is_in_arrow(dtype):
                    _refuse(plan, compiled, number, name, dtype)


def _refuse(plan: Plan, compiled: Compiled, number: int, name: str, dtype: pl.DataType) -> None:
    """Raise the error of a column of a state, by the place of its node."""
    node = compiled.circuit.nodes[number]
    place = next((place for place, parts in compiled.parts.items() if number in parts), None)
    source = _source_of(plan, compiled, node, place)
    if source is not None:
        where = f"source {source!r}"
    else:
        views = views_served(plan, compiled)
        serving = views[number] or (views[compiled.outputs[place]] if place is not None else set())
        label = node.name if place is None else plan[place].label
        where = f"view {listed(sorted(serving))}: {label}" if serving else label
    what, shown_name = "column", name
    if place is not None and name not in plan[place].schema:
        what, shown_name = _computed(plan[place].operation, name)
    require_arrow(shown_name, dtype, f"{where}: {what}")


def _source_of(plan: Plan, compiled: Compiled, node: Node, place: PlanId | None) -> str | None:
    """Return the source whose rows a node keeps; None if it keeps something else."""
    if place in plan.inputs:
        return plan.inputs[place].name
    return next((name for name, rows in compiled.retained.items() if rows.spine in node.states), None)


def _computed(operation: Operation, name: str) -> tuple[str, str]:
    """Return what a column of a state is, and its name or expression, from the columns that an operation computes of rows."""
    for column in operation.prepared:
        if column.name == name:
            expression = shown(column.expr.meta.undo_aliases())
            return ("expression", expression) if column.copies is None else ("column", column.copies)
    while name.startswith(KEY):
        name = name.removeprefix(KEY)
    return "column", name
