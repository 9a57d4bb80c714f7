"""Why a row of a view is there: of which rows each stage has made it."""

from __future__ import annotations

from functools import partial

import polars as pl

from evercurrent.core.data.columns.kernels import stack
from evercurrent.core.data.schema import DIFF, listed

from ...plan.nodes import BOUNDS, PlanId
from ...plan.shapes import (
    Chosen,
    Computed,
    First,
    Grouped,
    Once,
    Paired,
    Panes,
    Union,
)
from .drawing import shown_rows
from .lineage import newest_first
from .phrases import count_of, indented, is_of_null_keys, name_of, on, these
from .rows import Rows
from .traces import Trace, UntraceableError, traced


class Presence:
    """Explains rows that are there by what is kept of the stages."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._plan = rows.plan

    def of(self, place: PlanId, present_rows: pl.DataFrame) -> list[str]:
        """Explain line by line where these rows of a stage come from."""
        try:
            trace = traced(self._rows, place, present_rows)
        except UntraceableError as reason:
            return [f"where it comes from is not known: {reason}"]
        lines = []
        for at, here in trace.stages.items():
            if at in trace.ends:
                lines.append(f"{name_of(self._plan, at)} has {count_of(trace.ends[at])}:")
                lines += indented(shown_rows(newest_first(trace.ends[at], ())))
            else:
                lines += self._step(at, here, trace)
        return [*lines, *trace.remarks]

    def _step(self, at: PlanId, here: pl.DataFrame, trace: Trace) -> list[str]:
        """Explain in a line how rows of a stage were made."""
        node, sources = self._plan[at], [source for source, to in trace.edges if to == at]
        names = [name_of(self._plan, source) for source in node.inputs]
        match node.operation.shape:
            case Chosen():
                return [f"{node.label} lets it pass"]
            case Grouped(keys=keys):
                origin = f"made of {count_of(self._below(node.inputs[0], trace))} of {names[0]}"
                return [
                    f"{these('group', here.select(keys))} {origin}" if keys else f"the one group is {origin}"
                ]
            case Panes(keys=keys):
                window = [name for name in (*keys, *BOUNDS) if name in here.columns]
                origin = f"made of {count_of(self._below(node.inputs[0], trace))} of {names[0]}"
                return [
                    f"{these('window', here.select(window))} {origin}"
                    if window
                    else f"the one window is {origin}"
                ]
            case Paired(kind=kind) as shape:
                if kind == "anti":
                    return [f"{names[1]} has no partner for it, which would keep it away"]
                alone = [
                    name for source, name in zip(node.inputs, names, strict=True) if source not in sources
                ]
                if alone and kind != "semi":
                    return [
                        f"{names[0] if alone[0] == names[1] else names[1]} has it, and {alone[0]} has no partner for it"
                    ]
                return [f"{names[0]} and {names[1]} have partners with {on(shape)}"]
            case First(count=count, keys=keys):
                return [f"it is among the first {count}{' of its group' if keys else ''} ({node.label})"]
            case Once():
                below = self._below(node.inputs[0], trace)
                total = int(below.get_column(DIFF).sum()) if DIFF in below.columns else below.height
                return [f"it stands for {total} equal row{'' if total == 1 else 's'} of {names[0]}"]
            case Union() if not any(map(partial(is_of_null_keys, self._plan), node.inputs)):
                return [f"it comes from {listed([name_of(self._plan, source) for source in sources])}"]
            case Computed() if not self._plan.views_at(at):
                return [f"it is computed by {node.label}"]
            case _:
                return []

    def _below(self, source: PlanId, trace: Trace) -> pl.DataFrame:
        below = trace.stages.get(source)
        if below is None or not below.height:
            return pl.DataFrame({DIFF: pl.Series([], dtype=pl.Int64)})
        if not self._rows.holds(source):
            return below
        taken_back = trace.taken_back.get(source)
        there = self._rows.rows(source, below)
        return there if taken_back is None else stack([there, taken_back.select(there.columns)])
