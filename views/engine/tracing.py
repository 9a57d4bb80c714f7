"""The questions to the rows of a fork: where they come from, what changed them, and why they are there or not."""

from __future__ import annotations

from collections.abc import Mapping

from ..compiler.builder import Compiled
from ..plan.plan import Plan
from ..tracing.collected import Collections
from ..tracing.indexes import Indexes
from ..tracing.lineage import Lineage, lineage


class Tracer:
    """Follows rows of a fork, whose states nobody changes meanwhile."""

    def __init__(self, plan: Plan, compiled: Compiled, indexes: Indexes) -> None:
        self._plan = plan
        self._compiled = compiled
        self._indexes = indexes

    def lineage(self, view: str, row: object, limit: int) -> Lineage:
        """Return where a row of a view comes from; see ``View.lineage``.

        Raises:
            InputError: there is no such row, or it cannot be followed back.
        """
        collections = Collections(self._plan, self._compiled, self._indexes)
        return lineage(collections, view, row, limit, self._newest())

    def _newest(self) -> Mapping[str, list[str]]:
        """Return the columns by which rows of sources are newer than others: those of event time, or of their sequence."""
        return {
            source.name: [*([time.column] if (time := self._plan[place].event_time) is not None else []), *source.sequence]
            for place, source in self._plan.inputs.items()
        }
