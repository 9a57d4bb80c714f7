"""Why a row of a view is there, or is not: the stages are followed back to the one that decides it."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from evercurrent.core.data.schema import DIFF
from evercurrent.core.state.ledger import Refused

from ...plan.nodes import PlanId
from .absence import Absence, Windows
from .drawing import shown_rows
from .lineage import newest_first
from .phrases import indented, name_of, pairs
from .presence import Presence
from .rows import Rows


class Reasons:
    """Explains rows by what is kept of the stages. ``refused`` are the entries of the ledger."""

    def __init__(self, rows: Rows, refused: Sequence[Refused], windows: Windows) -> None:
        self._rows = rows
        self._presence = Presence(rows)
        self._absence = Absence(rows, refused, windows)

    def of(self, place: PlanId, lookup_values: pl.DataFrame, *, if_present: bool = False) -> list[str]:
        """Explain line by line why the rows of a stage with these values are there, or why there is none.

        With ``if_present`` there are no lines where there is no such row.
        """
        name = name_of(self._rows.plan, place)
        if not self._rows.holds(place):
            return [f"{name} keeps no rows, so it is not known whether it has {pairs(lookup_values)}"]
        present_rows = self._rows.rows(place, lookup_values)
        if not present_rows.filter(pl.col(DIFF) > 0).height:
            return [] if if_present else self._absence.of(place, lookup_values)
        return [
            f"{name} has it:",
            *indented(shown_rows(newest_first(present_rows, ()))),
            *self._presence.of(place, present_rows),
        ]
