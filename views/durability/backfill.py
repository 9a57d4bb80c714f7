"""Backfill of views that are new in a program with a checkpoint, from what is kept, as if they had always been there."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import CheckpointError

from ..compiler.builder import Compiled
from ..compiler.retained import RetainedRows
from ..plan.plan import Plan
from .kept_rows import RowsReader
from .nodes_to_fill import AT_OPENING, OnRead, Remedies
from .piecewise_fill import PiecewiseFill
from .plan_diff import lost_states
from .plan_match import PlanMatch


def fill(
    plan: Plan,
    compiled: Compiled,
    match: PlanMatch,
    retained: Mapping[str, RetainedRows],
    readers: Mapping[str, RowsReader] = MappingProxyType({}),
    remedies: Remedies = AT_OPENING,
    on_read: OnRead | None = None,
) -> dict[str, Delta]:
    """Fill the new states as if they had always been there, and return the first deltas of the new views.

    Missing states of unchanged declarations (``match.lost``) are computed in the same way; if that fails, all fails.
    ``compiled`` holds the states that are ``match.unchanged``, committed; ``retained`` are the rows of its sources, and
    ``readers`` read those of sources that retain none, from elsewhere. A node is computed from the nearest kept rows upstream:
    those of a view or a grouping, or else of sources. They go through a separate circuit piece by piece, from which the new
    states are taken. Cost: the rows that are read, and the results of the new nodes.

    Returns:
        All rows of each view in ``match.to_fill``, as its first delta.

    Raises:
        CheckpointError: a view or a missing state cannot be filled, since a source does not keep its rows, or the result
            depends on when rows came; or ``readers`` has rows that are not needed. Nothing has changed.
        InputError: a value cannot be computed. Nothing has changed.
    """
    if not match.to_fill and not match.lost:
        return {}
    filling = PiecewiseFill(plan, compiled, match, readers, remedies, retained)
    filling.compute(match.to_fill, on_read)
    if (name := filling.differing(compiled)) is not None:
        missing = [f"- view {name!r}: its kept rows differ from those that were computed again"]
        raise CheckpointError("\n".join(lost_states("the checkpoint", missing, match)))
    filled = filling.take(compiled, match)
    return {name: rows.delta().consolidate() for name, rows in filled.items()}
