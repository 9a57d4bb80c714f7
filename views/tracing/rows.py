"""The rows of the stages of a plan: those that are kept, and those that follow from them by stages without state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator

import polars as pl

from evercurrent.core.columns.kernels import stack
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.schema import DIFF

from ..compiler.builder import Compiled
from ..plan.nodes import PlanId
from ..plan.plan import Plan
from ..plan.shapes import Assigned, Chosen, Computed, Exploded, Negated, Retimed, Union, Unnested
from .indexes import Span
from .stages import above, applied, matching, span_above, values

STATELESS = (Computed, Chosen, Exploded, Unnested, Assigned, Retimed, Union, Negated)
"""The stages whose rows, and whose changes, follow from those of their inputs."""

Request = tuple[PlanId, pl.DataFrame, Span | None]
Steps = Generator[Request, pl.DataFrame, pl.DataFrame]


class Rows(ABC):
    """The rows of the stages of a plan: those of collections, or with ``is_change`` those of the change of one epoch."""

    is_change = False

    def __init__(self, plan: Plan, compiled: Compiled) -> None:
        self.plan = plan
        self.compiled = compiled
        self.held: set[PlanId] = set()
        self._made: dict[PlanId, tuple[pl.DataFrame, Span | None, pl.DataFrame]] = {}
        """What was last asked of each stage, and its rows: explanations ask stage after stage for the same."""

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

    def rows(self, place: PlanId, wanted: pl.DataFrame, span: Span | None = None) -> pl.DataFrame:
        """Return the rows of a stage with the values of one of the wanted ones in its columns, with ``_diff``.

        Without columns: those in the span of event time, or all.
        """
        made = self._known((place, wanted, span))
        waiting: list[tuple[Request, Steps]] = []
        if made is None:
            waiting.append(((place, wanted, span), self._steps((place, wanted, span))))
        # A chain of stages may be longer than Python's stack.
        while waiting:
            (at, values_there, within), steps = waiting[-1]
            try:
                request = next(steps) if made is None else steps.send(made)
            except StopIteration as ended:
                waiting.pop()
                made = Delta(ended.value).consolidate().frame
                self._made[at] = values_there, within, made
            else:
                made = self._known(request)
                if made is None:
                    waiting.append((request, self._steps(request)))
        assert made is not None, "the first request has a result"
        return made

    def _known(self, request: Request) -> pl.DataFrame | None:
        """Return the rows of a stage if they are those that were last made of it."""
        place, wanted, span = request
        if place not in self._made:
            return None
        before, within, made = self._made[place]
        is_same = within == span and before.columns == wanted.columns and before.equals(wanted)
        return made if is_same else None

    def _is_looked_up(self, place: PlanId, wanted: pl.DataFrame) -> bool:
        """Return whether the rows of a stage with these values are looked up, and not computed from those of others."""
        del wanted
        return self._is_kept(place)

    @abstractmethod
    def _looked_up(self, place: PlanId, wanted: pl.DataFrame, span: Span | None) -> pl.DataFrame | None:
        """Return the rows that are kept of a stage with these values."""

    def _steps(self, request: Request) -> Steps:
        """Yield what is needed of other stages, and return the rows of this one."""
        place, wanted, span = request
        node, schema = self.plan[place], self.plan[place].schema
        if self._is_looked_up(place, wanted):
            found = self._looked_up(place, wanted, span)
            return Delta.empty(schema).frame if found is None else found.select(*schema, DIFF)
        match node.operation.shape:
            case Computed() | Chosen() | Exploded() | Unnested() | Assigned() | Retimed() | Negated():
                (source,) = node.inputs
                down = above(node, self.plan[source].schema, wanted)
                rows = yield source, values(down), span_above(node, wanted, span)
                if isinstance(node.operation.shape, Negated):
                    return rows.with_columns(-pl.col(DIFF))
                made, _ = applied(self.compiled, place, source, rows)
                return made.filter(matching(made, wanted))
            case Union():
                parts = []
                for source in node.inputs:
                    rows = yield source, wanted, span
                    parts.append(rows.select(*schema, DIFF))
                return stack(parts)
        raise AssertionError(f"{node.label} keeps no rows")
