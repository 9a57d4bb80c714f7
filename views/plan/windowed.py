"""Functions about the windowed part of a plan, for its declaration, compilation and display."""

from __future__ import annotations

from typing import TypeGuard

from evercurrent.core.eventtime.windows.kinds import Count, Custom, Fixed, LastRows, Window

from .nodes import PlanId, Windowing
from .plan import Plan

HELD = "held:"
"""Column of the instants at which rows hold the watermark back, for panes that are dated by their earliest row."""


def shifted_by_key(window: Window) -> bool:
    """Return whether the windows of a row depend on its key."""
    return isinstance(window, Fixed) and window.shifted_by_key


def depends_on_key(window: Window) -> TypeGuard[Count | LastRows | Custom]:
    """Return whether the windows of a row depend on the other rows of its key, sessions aside."""
    return isinstance(window, Count | LastRows) or (isinstance(window, Custom) and window.merge is not None)


def merges_and_closes(windowing: Windowing) -> bool:
    """Return whether the windows are merged by a user's function, and close: then they are kept as sessions are."""
    window = windowing.window
    return isinstance(window, Custom) and window.merge is not None and windowing.lateness is not None


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
