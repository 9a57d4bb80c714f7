"""Functions about the windowed part of a plan, for its declaration, compilation and display."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from evercurrent.core.operators.group.aggregates import Column

from .nodes import BOUNDS, EventTime, PlanId
from .plan import Plan
from .shapes import Assigned, Chosen, Computed, LastOnes, Retimed, Same

KEY = "key:"
"""Before the name of a column that holds a key in place of a column of rows that has the name of the key."""

HELD = "held:"
"""Column of the instants at which rows hold the watermark back, for panes that are dated by their earliest row."""


def columns_of_keys(keys: Sequence[Column], schema: pl.Schema) -> dict[str, str]:
    """Return the columns in which rows with these columns have their keys beside them, by the names of the keys.

    A key may have the name of a column that it is not, from which aggregates are still computed.
    """
    return {key.name: key.name if key.copies == key.name else _free(key.name, schema) for key in keys}


def _free(name: str, schema: pl.Schema) -> str:
    while name in schema:
        name = KEY + name
    return name


def grouping_of(plan: Plan, place: PlanId) -> PlanId | None:
    """Return the windowed grouping that a node is, or that it filters and renames; None if there is none."""
    while True:
        if place in plan.windowed:
            return place
        inputs = plan[place].inputs
        if len(inputs) != 1:
            return None
        (place,) = inputs


def is_windowed(plan: Plan, place: PlanId) -> bool:
    """Return whether the rows of a node, or of one upstream, were put into windows."""
    return any(isinstance(plan[at].operation.shape, Assigned) for at in plan.behind(place))


def is_of_panes(plan: Plan, place: PlanId) -> bool:
    """Return whether rows come from a source of panes: it has both bounds of windows, and one of them is its event time."""
    sources = [plan[at] for at in plan.behind(place) if not plan[at].inputs]
    return any(
        each.event_time is not None and each.event_time.column in BOUNDS and set(BOUNDS) <= set(each.schema)
        for each in sources
    )


def panes_of(plan: Plan, place: PlanId) -> PlanId | None:
    """Return the windowed grouping whose panes are the rows of a node, filtered and renamed at most; None if there is none.

    Rows of panes that are grouped again, or are in other windows, are none of its panes.
    """
    while place not in plan.windowed:
        node = plan[place]
        if not isinstance(node.operation.shape, Same | Chosen | Computed | Retimed | LastOnes):
            return None
        (place,) = node.inputs
    return place


def time_of_panes(time: EventTime) -> pl.Expr:
    """Return the event time of panes as a column of its own, which stays when their bounds are replaced."""
    return pl.col(time.column) + pl.duration(microseconds=time.shift)


def shows_last_panes(plan: Plan, place: PlanId) -> bool:
    """Return whether a node shows a windowed grouping by the last pane of each window, not by all that were emitted."""
    while True:
        node = plan[place]
        if node.operation.keeps_last:
            return True
        if place in plan.windowed or len(node.inputs) != 1:
            return False
        (place,) = node.inputs
