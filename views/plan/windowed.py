"""Functions about the windowed part of a plan, for its declaration, compilation and display."""

from __future__ import annotations

from .nodes import PlanId
from .plan import Plan

HELD = "held:"
"""Column of the instants at which rows hold the watermark back, for panes that are dated by their earliest row."""


def grouping_of(plan: Plan, place: PlanId) -> PlanId | None:
    """Return the windowed grouping that a node is, or that it filters and renames; None if there is none."""
    while True:
        if place in plan.windowed:
            return place
        inputs = plan[place].inputs
        if len(inputs) != 1:
            return None
        (place,) = inputs


def shows_last_panes(plan: Plan, place: PlanId) -> bool:
    """Return whether a node shows a windowed grouping by the last pane of each window, not by all that were emitted."""
    while True:
        node = plan[place]
        if node.operation.keeps_last:
            return True
        if place in plan.windowed or len(node.inputs) != 1:
            return False
        (place,) = node.inputs
