"""The ways in which readers use the rows of a view, and the check that the panes of the view fit them."""

from __future__ import annotations

from typing import Literal

from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import listed

from ..plan.nodes import PlanId
from ..plan.plan import Plan
from ..plan.windowed import grouping_of, shows_last_panes

Reader = Literal["deltas", "summing", "overwriting", "log"]

READERS = {
    "deltas": "applies rows with their diffs",
    "summing": "adds up the values it gets",
    "overwriting": "keeps the last row of each key",
    "log": "appends every row",
}

MISFITS = {
    ("summing", "accumulating"): (
        "each pane holds what those before it held, so that the sum counts rows again and again",
        ".accumulate('discarding')",
    ),
    ("overwriting", "discarding"): (
        "each pane holds only what came since the one before, so that the last one is not the result",
        ".accumulate('accumulating')",
    ),
    ("log", "accumulating"): (
        "nothing in the log shows which pane replaces which",
        ".accumulate('retracting'), or .with_pane_info()",
    ),
}
"""Readers and modes that do not go together, why, and what does. (Streaming 102, table of sinks and modes.)"""


def check_reader(where: str, plan: Plan, place: PlanId, reader: object) -> None:
    """Check that a reader and the panes of a view fit each other.

    Raises:
        PlanError: the reader is unknown, or would get wrong results.
    """
    if not isinstance(reader, str) or reader not in READERS:
        raise PlanError(f"{where}: unknown reader={reader!r}; there are {listed(READERS)}")
    grouping = grouping_of(plan, place)
    if grouping is None:
        return
    windowing = plan.windowed[grouping].windowing
    if shows_last_panes(plan, place):
        return
    misfit = MISFITS.get((reader, windowing.mode))
    if misfit is not None and not (reader == "log" and windowing.info):
        reason, instead = misfit
        raise PlanError(
            f"{where}: the reader {READERS[reader]}, and the view emits {windowing.mode} panes: {reason}; "
            f"declare the view with {instead}"
        )


def require_one_pane(where: str, plan: Plan, place: PlanId) -> None:
    """Check that a view has one row for each window, so that a table has a row per key: its panes take back those before.

    Raises:
        PlanError: it has all panes; names what to declare instead.
    """
    grouping = grouping_of(plan, place)
    if grouping is None or shows_last_panes(plan, place):
        return
    mode = plan.windowed[grouping].windowing.mode
    if mode != "retracting":
        raise PlanError(
            f"{where}: the view emits {mode} panes, none of which takes back the one before, and a table has one row per key; "
            "declare the view with .accumulate('retracting'), or write the last panes: engine.view(name, view.latest())"
        )
