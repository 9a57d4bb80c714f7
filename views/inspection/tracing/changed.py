"""The changes of the stages of a plan in one epoch, as far as they are kept: deltas of views, and recorded rows of sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import polars as pl

from evercurrent.core.data.delta import Delta
from evercurrent.core.data.schema import DIFF

from ...compiler.builder import Compiled
from ...plan.nodes import PlanId
from ...plan.plan import Plan
from ...plan.shapes import First, Once, Paired
from .indexes import Span
from .rows import Rows
from .stages import matching

Kept = Mapping[PlanId, pl.DataFrame]
"""The changes of an epoch by stage, with ``_diff``; a stage that has not changed has a frame without rows."""


class Changes(Rows):
    """The changes of one epoch. ``changes_by_stage`` are those of the stages whose changes are kept.

    ``recorded_from`` is the epoch from which on rows of sources are recorded, if they are.
    """

    is_change = True

    def __init__(
        self, plan: Plan, compiled: Compiled, changes_by_stage: Kept, recorded_from: int | None = None
    ) -> None:
        super().__init__(plan, compiled)
        self.recorded_from = recorded_from
        self._kept = changes_by_stage
        self._find_held()

    def can_pass(self, place: PlanId) -> bool:
        """Return True also for joins and the like one of whose inputs has kept its changes: their rows name these."""
        node = self.plan[place]
        named = isinstance(node.operation.shape, Paired | Once | First)
        return self.holds(place) or (named and any(map(self.holds, node.inputs)))

    def _is_kept(self, place: PlanId) -> bool:
        return place in self._kept

    def _looked_up(self, place: PlanId, lookup_values: pl.DataFrame, span: Span | None) -> pl.DataFrame:
        del span  # The windows of what is computed of these rows are compared by whoever needs them.
        rows = self._kept[place]
        return rows.filter(matching(rows, lookup_values))


class KeptChanges:
    """The changes that are kept, by stage and epoch; those of a stage are read when they are first needed.

    ``deltas`` returns the deltas of a view with ``_epoch``, and the epoch after which they are kept; ``recorded`` the rows of a
    source, and the epoch from which on they are recorded, or None if they are not.
    """

    def __init__(
        self,
        plan: Plan,
        deltas: Callable[[str], tuple[int, Iterable[pl.DataFrame]]],
        recorded: Callable[[str, pl.Schema], tuple[int, pl.DataFrame] | None],
    ) -> None:
        self._plan = plan
        self._deltas = deltas
        self._recorded = recorded
        self._by_epoch: dict[PlanId, tuple[int, dict[int, pl.DataFrame]]] = {}

    def of(self, epoch: int, places: Iterable[PlanId]) -> Kept:
        """Return the changes of these stages in an epoch, of those of which they are kept."""
        changes = {}
        for place in places:
            if (by_epoch := self._of_place(place)) is not None and by_epoch[0] <= epoch:
                nothing = Delta.empty(self._plan[place].schema).frame
                changes[place] = by_epoch[1].get(epoch, nothing).select(*self._plan[place].schema, DIFF)
        return changes

    def _of_place(self, place: PlanId) -> tuple[int, dict[int, pl.DataFrame]] | None:
        if place not in self._by_epoch:
            schema = self._plan[place].schema
            if (names := self._plan.views_at(place)) and names[0] in self._plan.views:
                after, frames = self._deltas(names[0])
                self._by_epoch[place] = (
                    after + 1,
                    {frame.item(0, "_epoch"): frame for frame in frames if frame.height},
                )
            elif place in self._plan.inputs:
                recorded_rows = self._recorded(self._plan.inputs[place].name, schema)
                if recorded_rows is None:
                    return None
                parts = recorded_rows[1].partition_by("_epoch", as_dict=True)
                self._by_epoch[place] = recorded_rows[0], {int(key[0]): part for key, part in parts.items()}
            else:
                return None
        return self._by_epoch[place]
