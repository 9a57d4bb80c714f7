"""Rows are followed back, stage by stage, to the rows of the stages before from which they come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from evercurrent.core.columns.kernels import gather, stack
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.schema import DIFF
from evercurrent.core.eventtime.windows.kinds import Custom, Fixed, Global, Sessions
from evercurrent.core.state.ledger import MISSED

from ..compiler.builder import Compiled
from ..plan.nodes import BOUNDS, PlanId
from ..plan.plan import Plan
from ..plan.shapes import (
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
from .rows import STATELESS, Rows
from .stages import (
    above,
    applied,
    copied,
    joined,
    keys_across,
    matching,
    of_windows,
    sides_of,
    span_of,
    values,
    with_keys,
)

Origin = tuple[PlanId, pl.DataFrame]
"""A stage, and the rows of it from which others come."""


READING = (Computed, Exploded, Unnested, Assigned, Grouped, Panes, First, Paired)
"""The stages whose rows differ from those of their inputs, which have to be read."""


class UntraceableError(Exception):
    """A stage whose rows cannot be followed back, and why."""


@dataclass(slots=True)
class Trace:
    """The rows of each stage that were passed, from the view to the sources, and the edges between stages.

    ``ends`` are the stages at which it ends, with their rows and ``_diff``; ``remarks`` say why one is not a source.
    """

    stages: dict[PlanId, pl.DataFrame] = field(default_factory=dict)
    edges: list[tuple[PlanId, PlanId]] = field(default_factory=list)
    ends: dict[PlanId, pl.DataFrame] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def traced(rows: Rows, place: PlanId, wanted: pl.DataFrame) -> Trace:
    """Follow rows of a stage back, as far as what is needed is kept.

    Raises:
        UntraceableError: an operation cannot be followed back, or nothing is kept; says why.
    """
    trace = Trace()
    pending: dict[PlanId, list[pl.DataFrame]] = {place: [values(wanted)]}
    while pending:
        at = max(pending)
        parts = pending.pop(at)
        here = values(stack([part.drop(DIFF, strict=False) for part in parts]))
        trace.stages[at] = here
        origins = _origins(rows, at, here, trace)
        if origins is None:
            if at == place and at not in rows.plan.inputs:
                raise UntraceableError("; ".join(trace.remarks))
            is_counted = len(parts) == 1 and DIFF in parts[0].columns
            trace.ends[at] = parts[0] if is_counted or not here.width else rows.rows(at, here)
            continue
        for source, found in origins:
            if found.height:
                trace.edges.append((source, at))
                pending.setdefault(source, []).append(found)
    return trace


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
    return [(source, part) for source, part in before(rows, place, here) if source not in missing]


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
            given = rows.rows(source, values(down), span)
            made, owners = applied(rows.compiled, place, source, given)
            yield source, given[np.unique(owners[matching(made, here).to_numpy()])]
        case Union():
            for each in node.inputs:
                if rows.can_pass(each):
                    yield each, rows.rows(each, here) if rows.holds(each) else here
        case Paired() as join:
            yield from _sides(rows, place, join, here)
        case Grouped(keys=keys, key_columns=columns):
            wanted = values(here.select(keys))
            given = rows.rows(source, copied(columns, wanted))
            yield source, given.filter(matching(with_keys(given, columns), wanted)) if keys else given
        case Panes() as grouped:
            yield source, without_late(rows, place, _rows_of_panes(rows, source, grouped, here))
        case First(keys=keys) if rows.is_change:
            yield source, rows.rows(source, values(here.select(keys)))
        case Unknown():
            raise UntraceableError(
                "the rows that map_batches makes cannot be followed back, as only its function knows them; use "
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
        rows.rows(side, _without_padding(part)) if is_held and part.width else none
        for side, part, is_held, none in zip(node.inputs, (ours, theirs), held, empty, strict=True)
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


def _without_padding(part: pl.DataFrame) -> pl.DataFrame:
    """Leave out rows that are null in all columns, as a side without a partner is."""
    return values(part.filter(~pl.all_horizontal(pl.all().is_null())))


def _changes_of_side(
    rows: Rows, place: PlanId, join: Paired, parts: tuple[pl.DataFrame, pl.DataFrame], side: int
) -> pl.DataFrame:
    """Return the changed rows of a side that have the key of one of the joined rows: any of them may have changed it."""
    keys = (join.left_keys, join.right_keys)
    columns = []
    for own, other in zip(keys[side], keys[1 - side], strict=True):
        given = [
            part.get_column(name)
            for part, name in zip((parts[side], parts[1 - side]), (own, other), strict=True)
            if name in part.columns
        ]
        columns.append((given[0] if len(given) == 1 else given[0].fill_null(given[1])).alias(own))
    return rows.rows(place, values(pl.DataFrame(columns)))


def _rows_of_panes(rows: Rows, source: PlanId, grouped: Panes, panes: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the windows of these panes.

    Raises:
        UntraceableError: the windows of a row depend on the other rows of its key.
    """
    window, keys = grouped.window, grouped.key_columns
    if window.depends_on_key:
        raise UntraceableError(
            f"windows of {type(window).__name__} depend on the other rows of their key, so the rows of a pane are not known"
        )
    by_time = isinstance(window, Sessions) or (isinstance(window, Fixed) and window.shifted_by_key)
    names = [*grouped.keys, *(() if by_time or isinstance(window, Global) else BOUNDS)]
    columns = [key for key in keys if key.name in names]
    wanted = values(panes.select(name for name in names if name in panes.columns))
    down = copied(columns, wanted)
    bounds = [name for name in names if name in BOUNDS and name not in grouped.keys]
    down = pl.DataFrame([*down.get_columns(), *(wanted.get_column(name) for name in bounds)])
    span = None if isinstance(window, Global | Custom) else span_of(panes, grouped.event_time)
    given = rows.rows(source, values(down), span)
    own = with_keys(given, columns)
    if by_time:
        return given[of_windows(values(panes.select(*grouped.keys, *BOUNDS)), given, own, grouped.event_time)]
    own = pl.DataFrame([*own.get_columns(), *(given.get_column(name) for name in bounds)])
    return given.filter(matching(own, wanted))


def without_late(rows: Rows, place: PlanId, given: pl.DataFrame) -> pl.DataFrame:
    """Leave out the rows that came too late for the windows of a grouping, as far as the ledger still has them."""
    late = [
        entry
        for entry in late_rows(rows.plan, rows.compiled, place)
        if set(given.columns) <= set(entry.columns)
    ]
    if not (late and given.height):
        return given
    refused = stack([frame.select(given.columns) for frame in late]).with_columns(-pl.col(DIFF))
    return Delta(stack([given, refused])).consolidate().frame.filter(pl.col(DIFF) > 0)


def late_rows(plan: Plan, compiled: Compiled, place: PlanId) -> list[pl.DataFrame]:
    """Return the rows in the ledger that came too late for windows of a grouping, each with the bounds of one it missed."""
    reason, found = f"too late for {plan.name_of(place)}:", []
    for entry in compiled.ledger.refused:
        if entry.reason.startswith(reason):
            frame = entry.frame
            if MISSED in frame.columns:
                frame = frame.drop(BOUNDS).explode(MISSED, empty_as_null=False).unnest(MISSED)
            found.append(frame)
    return found


def _missing(rows: Rows, place: PlanId) -> str:
    """Return which stage has not kept its rows, and what would keep them."""
    plan = rows.plan
    if rows.is_change:
        while isinstance(plan[place].operation.shape, STATELESS):
            place = next(each for each in plan[place].inputs if not rows.holds(each))
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
