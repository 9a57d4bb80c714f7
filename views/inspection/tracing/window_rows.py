"""The rows of windows that differ from those of their input: too late, taken back too late, or not emitted yet."""

from __future__ import annotations

import polars as pl

from evercurrent.core.data.columns.grouping import group
from evercurrent.core.data.columns.kernels import stack
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.schema import DIFF
from evercurrent.core.eventtime.triggers.window_columns import OPEN, PENDING
from evercurrent.core.state.ledger import MISSED
from evercurrent.core.state.narrowing import narrowed

from ...compiler.builder import Compiled
from ...plan.nodes import BOUNDS, PlanId
from ...plan.plan import Plan
from ...plan.shapes import Assigned, Chosen, InTurn, Retimed
from .rows import Rows
from .stages import values

KEEPING = (Assigned, Chosen, InTurn, Retimed)
"""The stages whose rows have the columns of their input as they are."""


def without_late(rows: Rows, place: PlanId, input_rows: pl.DataFrame) -> pl.DataFrame:
    """Leave out the rows that came too late for the windows of a grouping, and put those back that were taken back too late.

    As far as the ledger still has them.
    """
    late = [
        entry
        for entry in late_rows(rows.plan, rows.compiled, place)
        if set(input_rows.columns) <= set(entry.columns)
    ]
    if not late:
        return input_rows
    refused = stack([frame.select(input_rows.columns) for frame in late]).with_columns(-pl.col(DIFF))
    return Delta(stack([input_rows, refused])).consolidate().frame.filter(pl.col(DIFF) > 0)


def late_rows(plan: Plan, compiled: Compiled, place: PlanId) -> list[pl.DataFrame]:
    """Return the rows in the ledger that came too late for windows of a grouping, each with the bounds of one it missed."""
    reason, frames = f"too late for {plan.name_of(place)}:", []
    for entry in compiled.ledger.refused:
        if entry.reason.startswith(reason):
            frame = entry.frame
            if MISSED in frame.columns:
                frame = frame.drop(BOUNDS).explode(MISSED, empty_as_null=False).unnest(MISSED)
            frames.append(frame)
    return frames


def taken_back_too_late(rows: Rows, place: PlanId, window_rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of windows that their input no longer has, with how many of each."""
    late = late_rows(rows.plan, rows.compiled, place)
    if not any((frame.get_column(DIFF) < 0).any() for frame in late):
        return window_rows.clear()
    (source,) = rows.plan[place].inputs
    there = rows.rows(source, values(window_rows)).with_columns(-pl.col(DIFF)).select(window_rows.columns)
    return Delta(stack([window_rows, there])).consolidate().frame.filter(pl.col(DIFF) > 0)


def end_of_taken_back(
    plan: Plan, place: PlanId, taken_back: pl.DataFrame
) -> tuple[PlanId, PlanId, pl.DataFrame]:
    """Return the first stage that had rows of the input of a window as they are, the stage above it, and the rows there.

    It is a source unless columns are computed between.
    """
    above = place
    while isinstance(plan[place].operation.shape, KEEPING):
        above, (place,) = place, plan[place].inputs
    return place, above, taken_back.select(*plan[place].schema, DIFF)


def unemitted(compiled: Compiled, place: PlanId, panes: pl.DataFrame) -> bool:
    """Return whether a window of these panes has a pane to emit. Cost: these windows."""
    if place not in compiled.trackers:
        return False
    spine, grouping = compiled.trackers[place].spine, compiled.groupings[place]
    keys = group(grouping.words(panes.select(grouping.key_types.names()))).keys
    return any(
        bool((run.sums[PENDING] * run.sums[OPEN]).any())
        for run in narrowed(spine, spine.version, keys).parts[0]
        if PENDING in run.sums and OPEN in run.sums
    )
