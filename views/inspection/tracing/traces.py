"""Rows are followed back, stage by stage, to the rows of the stages before from which they come."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from evercurrent.core.data.columns.kernels import Mask, gather, keep, stack
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.schema import DIFF

from ...plan.nodes import BOUNDS, PlanId
from ...plan.shapes import (
    Assigned,
    Computed,
    Exploded,
    First,
    Grouped,
    Paired,
    Panes,
    Union,
    Unknown,
    Unnested,
)
from .copies import OF_SEVERAL, ONE_FROM_ONE, copies_behind, copies_of_sides
from .remade_windows import rows_of_remade
from .rows import STATELESS, Rows
from .stages import (
    above,
    applied,
    columns_of,
    copied,
    joined,
    keys_across,
    matching,
    may_be_padded,
    of_windows,
    sides_of,
    span_of,
    values,
    values_of_both,
    with_keys,
    without_diffs,
)
from .window_rows import end_of_taken_back, taken_back_too_late, unemitted, without_late

Origin = tuple[PlanId, pl.DataFrame]
"""A stage, and the rows of it from which others come."""


READING = (Computed, Exploded, Unnested, Assigned, Grouped, Panes, First, Paired)
"""The stages whose rows differ from those of their inputs, which have to be read."""


class UntraceableError(Exception):
    """A stage whose rows cannot be followed back, and why."""


class Trace:
    """The rows of each stage that were passed, from the view to the sources, and the edges between stages.

    ``ends`` are the stages at which it ends, with their rows and ``_diff``; ``remarks`` name why one is not a source, and what
    is to be known of the rows of windows. ``taken_back`` has rows of the inputs of windows that were taken back too late.
    Of the rows of ``limited`` stages perhaps not all equal ones are meant, if they are in one part.
    """

    def __init__(self) -> None:
        self.stages: dict[PlanId, pl.DataFrame] = {}
        self.edges: list[tuple[PlanId, PlanId]] = []
        self.ends: dict[PlanId, pl.DataFrame] = {}
        self.remarks: list[str] = []
        self.taken_back: dict[PlanId, pl.DataFrame] = {}
        self.limited: set[PlanId] = set()

    def add_taken_back(self, rows: Rows) -> None:
        """Add the rows that were taken back too late to the ends that had them."""
        for at, taken_back in self.taken_back.items():
            end, above_end, of_end = end_of_taken_back(rows.plan, at, taken_back)
            if end == above_end:
                continue
            there = [self.ends[end]] if end in self.ends else []
            self.ends[end] = Delta(stack([*there, of_end])).consolidate().frame
            self.stages[end] = values(self.ends[end])
            if (end, above_end) not in self.edges:
                self.edges.append((end, above_end))


def traced(rows: Rows, place: PlanId, start_rows: pl.DataFrame) -> Trace:
    """Follow rows of a stage back, as far as what is needed is kept.

    Raises:
        UntraceableError: an operation cannot be followed back, or nothing is kept; it names the reason.
    """
    trace = Trace()
    pending: dict[PlanId, list[pl.DataFrame]] = {place: [values(start_rows)]}
    while pending:
        at = max(pending)
        parts = pending.pop(at)
        here = values(stack([*map(without_diffs, parts)]))
        trace.stages[at] = here
        origins = _origins(rows, at, here, trace)
        if origins is None:
            if at == place and at not in rows.plan.inputs:
                raise UntraceableError("; ".join(trace.remarks))
            is_counted = len(parts) == 1 and DIFF in parts[0].columns
            trace.ends[at] = parts[0] if is_counted or not here.width else rows.rows(at, here)
            continue
        some = parts[0] if at in trace.limited and len(parts) == 1 else None
        if some is not None and not rows.is_change:
            origins = copies_of_sides(rows, at, some, origins)
        for source, origin_rows in origins:
            if origin_rows.height:
                trace.edges.append((source, at))
                pending.setdefault(source, []).append(_limited(rows, (source, at), origin_rows, some, trace))
    trace.add_taken_back(rows)
    return trace


def _limited(
    rows: Rows,
    edge: tuple[PlanId, PlanId],
    origin_rows: pl.DataFrame,
    some: pl.DataFrame | None,
    trace: Trace,
) -> pl.DataFrame:
    """Return as many of equal rows as those windows, and first rows, have that may have only some of them."""
    (source, at), shape = edge, rows.plan[edge[1]].operation.shape
    if rows.is_change:
        return origin_rows
    if isinstance(shape, Panes) and shape.window.depends_on_key:
        trace.limited.add(source)
    elif isinstance(shape, First) and rows.holds(at):
        trace.limited.add(source)
        return some if some is not None else rows.rows(at, origin_rows)
    elif some is not None and isinstance(shape, OF_SEVERAL):
        trace.limited.add(source)
    elif some is not None and isinstance(shape, ONE_FROM_ONE):
        trace.limited.add(source)
        return copies_behind(rows, at, source, some, origin_rows)
    return origin_rows


def _origins(rows: Rows, place: PlanId, here: pl.DataFrame, trace: Trace) -> list[Origin] | None:
    """Return the rows of the inputs from which these rows of a stage come; None if it ends here."""
    plan, node = rows.plan, rows.plan[place]
    if place in plan.inputs:
        return None
    reaches = rows.holds if isinstance(node.operation.shape, READING) else rows.can_pass
    missing = [source for source in node.inputs if not reaches(source)]
    trace.remarks += [remark for source in missing if (remark := _missing(rows, source)) not in trace.remarks]
    if len(missing) == len(node.inputs):
        return None
    origins = [(source, part) for source, part in before(rows, place, here) if source not in missing]
    if isinstance(node.operation.shape, Panes) and not rows.is_change:
        _remark_on_window(rows, place, here, origins, trace)
    return origins


def _remark_on_window(
    rows: Rows, place: PlanId, panes: pl.DataFrame, origins: list[Origin], trace: Trace
) -> None:
    """Note which rows of a window are in its pane and no longer in its input, and whether others are not in its pane yet."""
    if unemitted(rows.compiled, place, panes):
        trace.remarks.append(
            "a window has rows that its pane does not have yet, as they wait for its trigger: they may be among these"
        )
    for source, window_rows in origins:
        taken_back = taken_back_too_late(rows, place, window_rows)
        if taken_back.height:
            trace.taken_back[source] = taken_back
            count = int(taken_back.get_column(DIFF).sum())
            trace.remarks.append(
                f"{count:,} {'row was' if count == 1 else 'rows were'} taken back too late for {rows.plan.name_of(place)}: "
                f"{'it counts' if count == 1 else 'they count'} in the window, and the ledger has what was refused"
            )


def before(rows: Rows, place: PlanId, here: pl.DataFrame) -> Iterator[Origin]:
    """Yield the inputs of a stage with the rows of theirs from which these rows come.

    Raises:
        UntraceableError: its operation cannot be followed back.
    """
    node = rows.plan[place]
    source = node.inputs[0]
    match node.operation.shape:
        case (Computed() | Exploded() | Unnested() | Assigned()) as shape:
            down = above(node, rows.plan[source].schema, here)
            span = span_of(here, shape.event_time) if isinstance(shape, Assigned) else None
            input_rows = rows.rows(source, values(down), span)
            computed_rows, owners = applied(rows.compiled, place, source, input_rows)
            yield source, input_rows[np.unique(owners[matching(computed_rows, here).to_numpy()])]
        case Union():
            for each in node.inputs:
                if rows.can_pass(each):
                    yield each, rows.rows(each, here) if rows.holds(each) else here
        case Paired() as join:
            yield from _sides(rows, place, join, here)
        case Grouped(keys=keys, key_columns=columns):
            group_keys = values(columns_of(here, keys))
            input_rows = rows.rows(source, copied(columns, group_keys))
            if keys:
                is_of_group = matching(with_keys(input_rows, columns), group_keys)
                input_rows = keep(input_rows, is_of_group.to_numpy())
            yield source, input_rows
        case Panes() as grouped:
            yield source, _rows_of_panes(rows, place, grouped, here)
        case First(keys=keys) if rows.is_change:
            yield source, rows.rows(source, values(columns_of(here, keys)))
        case Unknown():
            raise UntraceableError(
                "the rows that map_batches makes cannot be followed back, as only its function determines them; use "
                "with_columns, filter or explode in its place, or declare a view of its result and look into that"
            )
        case _:
            yield source, rows.rows(source, here) if rows.is_change and rows.holds(source) else here


def _sides(rows: Rows, place: PlanId, join: Paired, here: pl.DataFrame) -> Iterator[Origin]:
    node = rows.plan[place]
    held = [rows.holds(side) for side in node.inputs]
    ours, theirs = sides_of(join, here)
    empty = [Delta.empty(rows.plan[side].schema).frame for side in node.inputs]
    if rows.is_change:
        for side in (0, 1):
            if held[side]:
                yield node.inputs[side], _changes_of_side(rows, node.inputs[side], join, (ours, theirs), side)
        return
    if join.kind in ("semi", "anti"):
        yield node.inputs[0], here
        if join.kind == "semi" and held[1]:
            yield (
                node.inputs[1],
                rows.rows(node.inputs[1], keys_across(here, join.left_keys, join.right_keys)),
            )
        return
    left, right = (
        _rows_of_side(rows, node.inputs[side], join, (ours, theirs), side) if held[side] else empty[side]
        for side in (0, 1)
    )
    if not all(held):
        yield from (
            (side, part)
            for side, part, is_held in zip(node.inputs, (left, right), held, strict=True)
            if is_held
        )
        return
    pairs = joined(join, node.schema, left, right)
    chosen = np.flatnonzero(matching(pairs.rows, here).to_numpy())
    for side, part, index in ((0, left, pairs.left_index), (1, right, pairs.right_index)):
        yield node.inputs[side], gather(part, np.unique(index[chosen][index[chosen] >= 0]))


def _rows_of_side(
    rows: Rows, place: PlanId, join: Paired, parts: tuple[pl.DataFrame, pl.DataFrame], side: int
) -> pl.DataFrame:
    """Return the rows of a side that may be in joined rows, of which the parts of both sides are given.

    A part that is null in all columns is padding or a row without values: then those are looked up that have the key of the other part.
    """
    own, other = parts[side], parts[1 - side]
    height = max(own.height, other.height)
    by_key = np.zeros(height, np.bool_)
    if may_be_padded(join, side):
        by_key = _is_null(own, height)
        if may_be_padded(join, 1 - side):
            by_key &= ~_is_null(other, height)
    side_rows = Delta.empty(rows.plan[place].schema).frame
    if own.width and not by_key.all():
        side_rows = rows.rows(place, values(own.filter(~by_key)))
    if by_key.any():
        keys = (join.left_keys, join.right_keys)
        partners = rows.rows(place, keys_across(other.filter(by_key), keys[1 - side], keys[side]))
        side_rows = values_of_both(side_rows, partners)
    return side_rows


def _is_null(part: pl.DataFrame, height: int) -> Mask:
    """Return which rows of the part of a side are null in all columns; without columns all are."""
    columns = [column.is_null().to_numpy() for column in part.get_columns()]
    return np.logical_and.reduce(columns) if columns else np.ones(height, np.bool_)


def _changes_of_side(
    rows: Rows, place: PlanId, join: Paired, parts: tuple[pl.DataFrame, pl.DataFrame], side: int
) -> pl.DataFrame:
    """Return the changed rows of a side that have the key of one of the joined rows: any of them may have changed it."""
    keys = (join.left_keys, join.right_keys)
    columns = []
    for own, other in zip(keys[side], keys[1 - side], strict=True):
        key_parts = [
            part.get_column(name)
            for part, name in zip((parts[side], parts[1 - side]), (own, other), strict=True)
            if name in part.columns
        ]
        columns.append(
            (key_parts[0] if len(key_parts) == 1 else key_parts[0].fill_null(key_parts[1])).alias(own)
        )
    return rows.rows(place, values(pl.DataFrame(columns)))


def _rows_of_panes(rows: Rows, place: PlanId, grouped: Panes, panes: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the windows of these panes.

    Raises:
        UntraceableError: the windows of their keys are others by now.
    """
    window, keys = grouped.window, grouped.key_columns
    if window.depends_on_key:
        remade = rows_of_remade(rows, place, grouped, panes)
        if panes.height and not (rows.is_change or remade.height):
            raise UntraceableError(
                f"{window} depend on all rows of their key, and those that are kept now are in other windows: rows have come since "
                "the pane was emitted, or its window was closed before"
            )
        return remade
    by_time = window.session_gap is not None or window.shifted_by_key
    names = [*grouped.keys, *(() if by_time or window.is_global else BOUNDS)]
    columns = [key for key in keys if key.name in names]
    pane_values = values(columns_of(panes, [name for name in names if name in panes.columns]))
    down = copied(columns, pane_values)
    bounds = [name for name in names if name in BOUNDS and name not in grouped.keys]
    down = pl.DataFrame([*down.get_columns(), *(pane_values.get_column(name) for name in bounds)])
    span = span_of(panes, grouped.event_time) if window.needs_event_time else None
    (source,) = rows.plan[place].inputs
    # Rows of other windows that were taken back too late are among them until their windows are compared.
    input_rows = without_late(rows, place, rows.rows(source, values(down), span))
    own = with_keys(input_rows, columns)
    if by_time:
        return input_rows[
            of_windows(values(panes.select(*grouped.keys, *BOUNDS)), input_rows, own, grouped.event_time)
        ]
    if not (columns or bounds):
        return input_rows  # There is one window for all rows.
    own = pl.DataFrame([*own.get_columns(), *(input_rows.get_column(name) for name in bounds)])
    return input_rows.filter(matching(own, pane_values))


def _missing(rows: Rows, place: PlanId) -> str:
    """Return which stage has not kept its rows, and what would keep them."""
    plan = rows.plan
    if rows.is_change:
        while isinstance(plan[place].operation.shape, STATELESS):
            place = next(each for each in plan[place].inputs if not rows.holds(each))
        if place in plan.inputs and rows.recorded_from is not None:
            return (
                f"the rows of source {plan.inputs[place].name!r} are recorded from epoch {rows.recorded_from} on, in the memory of "
                "this process; keep more with Engine(retain=Retain(...)), or declare a view of the source, whose deltas are in a "
                "checkpoint, too"
            )
        if place in plan.inputs:
            return (
                f"the changes of source {plan.inputs[place].name!r} are not kept by epoch; make the engine with Engine(record=True), "
                "or declare a view of the source, whose deltas are"
            )
        return f"the changes of {plan.name_of(place)} are not kept by epoch; declare a view of it, whose deltas are"
    lacking = [
        source.name for at, source in plan.inputs.items() if at in plan.behind(place) and not rows.holds(at)
    ]
    if lacking:
        return "; ".join(
            f"source {name!r} does not retain its rows; declare it with retained=True before its first rows come"
            for name in lacking
        )
    return f"{plan.name_of(place)} keeps no rows; declare a view of it"
