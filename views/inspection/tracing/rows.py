"""The rows of the stages of a plan: those that are kept, and those that follow from them by stages without state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator

import polars as pl

from evercurrent.core.data.columns.kernels import stack
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.schema import DIFF

from ...compiler.builder import Compiled
from ...plan.nodes import PlanId
from ...plan.plan import Plan
from ...plan.shapes import Assigned, Chosen, Computed, Exploded, Negated, Retimed, Union, Unnested
from .indexes import Span
from .stages import above, applied, columns_of, matching, span_above, values

STATELESS = (Computed, Chosen, Exploded, Unnested, Assigned, Retimed, Union, Negated)
"""The stages whose rows, and whose changes, follow from those of their inputs."""

Request = tuple[PlanId, pl.DataFrame, Span | None]
Steps = Generator[Request, pl.DataFrame, pl.DataFrame]


class Rows(ABC):
    """The rows of the stages of a plan: those of collections, or with ``is_change`` those of the change of one epoch."""

    is_change = False
    recorded_from: int | None = None
    """The epoch from which on the rows of sources are recorded; None if they are not, or are not looked up by epoch."""

    def __init__(self, plan: Plan, compiled: Compiled) -> None:
        self.plan = plan
        self.compiled = compiled
        self.held: set[PlanId] = set()
        self._made: dict[PlanId, tuple[pl.DataFrame, Span | None, pl.DataFrame]] = {}
        """What was last looked up in each stage, and its rows: explanations look up the same in stage after stage."""

    def _find_held(self) -> None:
        """Find the stages whose rows are kept, or follow from what is kept."""
        for place in sorted(self.compiled.outputs):
            if self._is_kept(place) or self._follows(place):
                self.held.add(place)

    @abstractmethod
    def _is_kept(self, place: PlanId) -> bool:
        """Return whether the rows of a stage are kept."""

    def _follows(self, place: PlanId) -> bool:
        """Return whether the rows of a stage follow from what is kept of others."""
        node = self.plan[place]
        return isinstance(node.operation.shape, STATELESS) and all(
            source in self.held for source in node.inputs
        )

    def holds(self, place: PlanId) -> bool:
        """Return whether the rows of a stage are kept, or follow from what is kept."""
        return place in self.held

    def can_pass(self, place: PlanId) -> bool:
        """Return whether rows of a stage can be followed on although its rows are not known: that they are there is known otherwise."""
        return self.holds(place)

    def rows(self, place: PlanId, lookup_values: pl.DataFrame, span: Span | None = None) -> pl.DataFrame:
        """Return the rows of a stage with the values of one of the rows to look up in its columns, with ``_diff``.

        Without columns: those in the span of event time, or all.
        """
        result = self._known((place, lookup_values, span))
        waiting: list[tuple[Request, Steps]] = []
        if result is None:
            waiting.append(((place, lookup_values, span), self._steps((place, lookup_values, span))))
        # A chain of stages may be longer than Python's stack.
        while waiting:
            (at, values_there, within), steps = waiting[-1]
            try:
                request = next(steps) if result is None else steps.send(result)
            except StopIteration as ended:
                waiting.pop()
                result = Delta(ended.value).consolidate().frame
                self._made[at] = values_there, within, result
            else:
                result = self._known(request)
                if result is None:
                    waiting.append((request, self._steps(request)))
        assert result is not None, "the first request has a result"
        return result

    def _known(self, request: Request) -> pl.DataFrame | None:
        """Return the rows of a stage if they are those that were last made of it."""
        place, lookup_values, span = request
        if place not in self._made:
            return None
        before, within, last_rows = self._made[place]
        is_same = within == span and before.columns == lookup_values.columns and before.equals(lookup_values)
        return last_rows if is_same else None

    def _is_looked_up(self, place: PlanId, lookup_values: pl.DataFrame) -> bool:
        """Return whether the rows of a stage with these values are looked up, and not computed from those of others."""
        del lookup_values
        return self._is_kept(place)

    @abstractmethod
    def _looked_up(
        self, place: PlanId, lookup_values: pl.DataFrame, span: Span | None
    ) -> pl.DataFrame | None:
        """Return the rows that are kept of a stage with these values."""

    def _steps(self, request: Request) -> Steps:
        """Yield what is needed of other stages, and return the rows of this one."""
        place, lookup_values, span = request
        node, schema = self.plan[place], self.plan[place].schema
        if self._is_looked_up(place, lookup_values):
            kept_rows = self._looked_up(place, lookup_values, span)
            return Delta.empty(schema).frame if kept_rows is None else columns_of(kept_rows, [*schema, DIFF])
        match node.operation.shape:
            case Computed() | Chosen() | Exploded() | Unnested() | Assigned() | Retimed() | Negated():
                (source,) = node.inputs
                down = above(node, self.plan[source].schema, lookup_values)
                rows = yield source, values(down), span_above(node, self.plan[source], lookup_values, span)
                if isinstance(node.operation.shape, Negated):
                    return rows.with_columns(-pl.col(DIFF))
                computed_rows, _ = applied(self.compiled, place, source, rows)
                return computed_rows.filter(matching(computed_rows, lookup_values))
            case Union():
                parts = []
                for source in node.inputs:
                    rows = yield source, lookup_values, span
                    parts.append(columns_of(rows, [*schema, DIFF]))
                return stack(parts)
        raise AssertionError(f"{node.label} keeps no rows")
