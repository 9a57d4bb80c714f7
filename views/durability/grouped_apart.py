"""Checkpoints in several buckets in which an earlier version has grouped rows of one group apart.

Where panes were put into other windows, or a field took the place of a struct of its name, rows were taken for being together by the
columns that had just been replaced. A view behind such an operation had several rows for one, which nothing mends, as the views after
it have counted them. Commits in buckets since then record that they are not of that version.
"""

from __future__ import annotations

from collections.abc import Collection

from evercurrent.core.data.errors import CheckpointError
from evercurrent.core.data.schema import listed

from ..checkpoint import Commit
from ..checkpoint.rebucket import has_together
from ..plan.nodes import BOUNDS, PlanId, PlanNode
from ..plan.plan import Plan
from ..plan.shapes import Assigned, Unnested


def require_together(url: str, last: Commit, plan: Plan, drop: Collection[str] = ()) -> None:
    """Check that no view of a plan that stays has rows of one group apart in the checkpoint at this address.

    Raises:
        CheckpointError: one may have; names the views, and the ways out.
    """
    if has_together(last):
        return
    wrong = [name for name in views_of_replaced(plan) if name in last.plan["views"] and name not in drop]
    if wrong:
        raise CheckpointError(
            f"{url}: view {listed(wrong)} may have rows of one group as several: an earlier version computed views in buckets wrongly "
            "where panes are put into other windows, or a field has the name of its struct; run once without these views and with "
            f"Checkpoint(..., drop={wrong!r}), and then with them, by which they are computed anew; or begin a new checkpoint"
        )


def views_of_replaced(plan: Plan) -> list[str]:
    """Return the views that stand on a node which replaces columns by others of the same names."""
    behind: set[PlanId] = set()
    for place in plan.needed():
        node = plan[place]
        if behind.intersection(node.inputs) or _replaces(node, [plan[source] for source in node.inputs]):
            behind.add(place)
    return [name for name, place in plan.views.items() if place in behind]


def _replaces(node: PlanNode, inputs: Collection[PlanNode]) -> bool:
    match node.operation.shape:
        case Assigned(window=window):
            return not window.is_given and any({*BOUNDS} & source.schema.keys() for source in inputs)
        case Unnested(columns=columns):
            return bool({*columns} & node.schema.keys())
    return False
