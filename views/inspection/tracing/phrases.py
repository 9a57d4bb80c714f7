"""The phrases in which reasons are given: stages by name, groups and rows by their values and numbers."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from evercurrent.core.data.schema import DIFF

from ...plan.nodes import PlanId
from ...plan.plan import Plan
from ...plan.shapes import (
    Chosen,
    Computed,
    Paired,
)
from .drawing import shown_rows
from .stages import values

NULL_KEY, PADDED = "null key ", "pad with nulls"
"""Labels of the stages by which a join passes rows with a null key on."""


def name_of(plan: Plan, place: PlanId) -> str:
    """Return the name of a stage: that of its source or view, or what it does."""
    if place in plan.inputs:
        return f"source {plan.inputs[place].name!r}"
    views = plan.views_at(place)
    return f"view {views[0]!r}" if views else f"({plan[place].label})"


def is_of_null_keys(plan: Plan, place: PlanId) -> bool:
    """Return whether a stage is one by which a join passes rows with a null key on, which users have not declared."""
    node = plan[place]
    if isinstance(node.operation.shape, Computed) and node.label == PADDED:
        node = plan[node.inputs[0]]
    return isinstance(node.operation.shape, Chosen) and node.label.startswith(NULL_KEY)


def these(what: str, keys: pl.DataFrame) -> str:
    """Name one group or window by its key, or count several."""
    keys = values(keys)
    return (
        f"{keys.height:,} {what}s, {pairs(keys.head(1))} among them, are"
        if keys.height > 1
        else f"the {what} {pairs(keys)} is"
    )


def on(join: Paired) -> str:
    """Return the keys of a join."""
    keys = zip(join.left_keys, join.right_keys, strict=True)
    return ", ".join(left if left == right else f"{left} = {right}" for left, right in keys) or "nothing"


def pairs(lookup_values: pl.DataFrame) -> str:
    """Return the values of a row that is looked up."""
    return ", ".join(shown_rows(values(lookup_values), most=1)[:1]) or "these values"


def count_of(rows: pl.DataFrame) -> str:
    """Return how many rows these are, diffs counted."""
    total = int(rows.get_column(DIFF).sum()) if DIFF in rows.columns else rows.height
    return f"{total:,} row{'' if total == 1 else 's'}"


def indented(lines: Sequence[str]) -> list[str]:
    """Return lines below a heading."""
    return [f"  {line}" for line in lines]
