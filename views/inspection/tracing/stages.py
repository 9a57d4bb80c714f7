"""The stages of a plan, one by one: which values of their inputs follow from those of their rows, and their rows by these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import polars as pl

from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.columns.kernels import Index, frame_of, gather, key_words, stack
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.instants import instants_in
from evercurrent.core.data.schema import DIFF
from evercurrent.core.operators.group.aggregates import Column
from evercurrent.core.operators.join import KEPT_ALONE

from ...compiler.builder import Compiled
from ...expressions.elementwise import elementwise
from ...plan.nodes import BOUNDS, PlanId, PlanNode
from ...plan.shapes import Assigned, Computed, EventTime, Exploded, Paired, Unnested
from ...plan.windowed import time_of_panes
from ..proving.row_frames import is_among
from .indexes import Span

BETWEEN = Now(Epoch(0), datetime.fromtimestamp(0, UTC))
"""The time at which stages without state are applied to rows, as it plays no part."""


def above(node: PlanNode, below: pl.Schema, lookup_values: pl.DataFrame) -> pl.DataFrame:
    """Return what the values of rows of a node without state imply for the rows of its input, which has these columns."""
    match node.operation.shape:
        case Computed(columns=columns):
            return copied(columns, lookup_values)
        case Exploded(columns=names):
            return _but(lookup_values, names)
        case Unnested():
            return columns_of(lookup_values, [name for name in lookup_values.columns if name in below])
        case Assigned(window=window):
            return lookup_values if window.is_given else _but(lookup_values, BOUNDS)
        case _:
            return lookup_values


def span_above(
    node: PlanNode, below: PlanNode, lookup_values: pl.DataFrame, span: Span | None
) -> Span | None:
    """Return the span of event time in which all rows of its input lie that a node makes rows of a span or of windows from.

    None if that is not known, as the column of the span is computed.
    """
    shape = node.operation.shape
    if span is None:
        is_of_windows = isinstance(shape, Assigned) and set(BOUNDS) <= set(lookup_values.columns)
        return (
            span_of(lookup_values, shape.event_time)
            if isinstance(shape, Assigned) and is_of_windows
            else None
        )
    match shape:
        case Computed(columns=columns):
            return _before_computing(span, next(each for each in columns if each.name == span.column), below)
        case Exploded(columns=names):
            return None if span.column in names else span
        case Unnested():
            return span if span.column in below.schema else None
        case Assigned(window=window):
            return span if window.is_given or span.column not in BOUNDS else None
        case _:
            return span


def _before_computing(span: Span, column: Column, below: PlanNode) -> Span | None:
    """Return a span of a computed column as one of the input: of a copy, or of the time of panes, which follows from a bound."""
    if column.copies is not None:
        return replace(span, column=column.copies)
    time = below.event_time
    if time is None or not column.expr.meta.eq(time_of_panes(time).alias(column.name)):
        return None
    return replace(span, column=time.column, shift=span.shift + time.shift)


def span_of(windows: pl.DataFrame, time: EventTime) -> Span | None:
    """Return the span of event time from the first window to the end of the last one."""
    if not windows.height:
        return None
    starts, ends = (instants_in(windows.get_column(name))[0] for name in BOUNDS)
    return Span(time.column, time.shift, int(starts.min()), int(ends.max()))


def copied(columns: Sequence[Column], output_values: pl.DataFrame) -> pl.DataFrame:
    """Return values of output columns as those of the input columns that they copy."""
    names = {
        column.copies: column.name
        for column in columns
        if column.copies and column.name in output_values.columns
    }
    return pl.DataFrame([output_values.get_column(name).alias(copies) for copies, name in names.items()])


def with_keys(rows: pl.DataFrame, keys: Sequence[Column]) -> pl.DataFrame:
    """Return the key columns of rows of a grouping's input."""
    # polars may compute a frame of one row otherwise.
    at_least_two = pl.concat([rows, rows]) if rows.height == 1 else rows
    key_columns = [
        at_least_two.get_column(key.copies).alias(key.name)
        if key.copies is not None
        else at_least_two.select(elementwise(key.expr).alias(key.name)).to_series()
        for key in keys
    ]
    return pl.DataFrame([_plain(column.head(rows.height)) for column in key_columns])


def _plain(column: pl.Series) -> pl.Series:
    return column + 0.0 if column.dtype.is_float() else column


def _but(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    return columns_of(frame, [name for name in frame.columns if name not in names])


def columns_of(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Return some columns. Cost: a tenth of that of a query, of which explanations make many for few rows each."""
    return frame_of([frame.get_column(name) for name in names])


def applied(
    compiled: Compiled, place: PlanId, source: PlanId, rows: pl.DataFrame
) -> tuple[pl.DataFrame, Index]:
    """Return what the operator of a node without state makes of rows, and for each result the position of its row."""
    made_by, given_by = compiled.outputs[place], compiled.outputs[source]
    if made_by == given_by or not rows.height:
        schema = compiled.circuit.nodes[made_by].operator.schema
        same = rows if made_by == given_by else Delta.empty(schema).frame
        return same, np.arange(same.height)
    # Diffs go through such operators as they are, so each row is marked by its number.
    numbered = Delta.of(_but(rows, [DIFF]), np.arange(1, rows.height + 1))
    results = compiled.circuit.nodes[made_by].operator.step(BETWEEN, numbered).frame
    owners = results.get_column(DIFF).to_numpy() - 1
    return results.with_columns(rows.get_column(DIFF).gather(owners).alias(DIFF)), owners


def values(frame: pl.DataFrame) -> pl.DataFrame:
    """Return rows without their diffs, each once."""
    rows = without_diffs(frame)
    if rows.height < 2:
        return rows
    return gather(rows, Delta.of(rows, np.ones(rows.height, np.int64)).groups.first_entries)


def without_diffs(frame: pl.DataFrame) -> pl.DataFrame:
    """Return rows without their diffs, if they have any."""
    return _but(frame, [DIFF]) if DIFF in frame.columns else frame


def values_of_both(rows: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Return rows that were looked up in two ways, each once, with its diff."""
    both = stack([rows, others])
    if not both.height:
        return both
    groups = Delta.of(_but(both, [DIFF]), np.ones(both.height, np.int64)).groups
    return both[groups.first_entries]


class Joined(NamedTuple):
    """Rows of both sides of a join, and the rows that they make: positions on either side, -1 where there is no partner."""

    left: pl.DataFrame
    right: pl.DataFrame
    rows: pl.DataFrame
    left_index: Index
    right_index: Index


def sides_of(join: Paired, joined_values: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the values of joined rows under the names that they have on each side, as far as they come from it."""
    sides: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for column in join.columns:
        for side, name in zip(sides, (column.left, column.right), strict=True):
            if name is not None and column.name in joined_values.columns:
                side.setdefault(name, column.name)
    left, right = (
        pl.DataFrame([joined_values.get_column(column).alias(name) for name, column in side.items()])
        for side in sides
    )
    return left, right


def keys_across(rows: pl.DataFrame, names: Sequence[str], others: Sequence[str]) -> pl.DataFrame:
    """Return the keys of rows of one side of a join under the names that they have on the other one."""
    return values(
        pl.DataFrame([rows.get_column(name).alias(other) for name, other in zip(names, others, strict=True)])
    )


def joined(join: Paired, schema: pl.Schema, left: pl.DataFrame, right: pl.DataFrame) -> Joined:
    """Join rows of both sides as the join does; of the sides all rows are given that may be partners."""
    ours, theirs = _pairs(join, left, right)
    if join.kind in ("semi", "anti"):
        has = np.zeros(left.height, np.bool_)
        has[ours[right.get_column(DIFF).to_numpy()[theirs] > 0]] = True
        chosen = np.flatnonzero(has if join.kind == "semi" else ~has)
        return Joined(left, right, gather(left, chosen), chosen, np.full(len(chosen), -1))
    padded_sides = KEPT_ALONE.get(join.kind, ())
    for side, height, index in (("left", left.height, ours), ("right", right.height, theirs)):
        if side in padded_sides:
            alone = np.setdiff1d(np.arange(height), index)
            none = np.full(len(alone), -1)
            ours = np.concatenate([ours, alone if side == "left" else none])
            theirs = np.concatenate([theirs, none if side == "left" else alone])
    rows = _joined_rows(join, schema, left, right, ours, theirs)
    return Joined(left, right, rows, ours, theirs)


def may_be_padded(join: Paired, side: int) -> bool:
    """Return whether joined rows may have no row of this side, the left one (0) or the right one (1)."""
    return ("right", "left")[side] in KEPT_ALONE.get(join.kind, ())


def _pairs(join: Paired, left: pl.DataFrame, right: pl.DataFrame) -> tuple[Index, Index]:
    if not join.left_keys:
        places = np.arange(left.height * right.height)
        return places // max(right.height, 1), places % max(right.height, 1)
    words = []
    for side, keys in ((left, join.left_keys), (right, join.right_keys)):
        hashes = key_words([side.get_column(key) for key in keys], side.height)
        words.append(pl.DataFrame({"first": hashes.first, "second": hashes.seconds()}).with_row_index("at"))
        if not join.nulls_equal:
            nulls = side.select(pl.any_horizontal(pl.col(*keys).is_null())).to_series()
            words[-1] = words[-1].filter(~nulls)
    pairs = words[0].join(words[1], on=["first", "second"], suffix=" of right")
    return pairs["at"].to_numpy().astype(np.intp), pairs["at of right"].to_numpy().astype(np.intp)


def _joined_rows(
    join: Paired, schema: pl.Schema, left: pl.DataFrame, right: pl.DataFrame, ours: Index, theirs: Index
) -> pl.DataFrame:
    places = [pl.Series(np.where(index < 0, -1, index)).replace(-1, None) for index in (ours, theirs)]
    columns = []
    for column in join.columns:
        sides = [
            side.get_column(name).gather(place)
            for side, name, place in ((left, column.left, places[0]), (right, column.right, places[1]))
            if name is not None
        ]
        value = sides[0] if len(sides) == 1 else sides[0].zip_with(pl.Series(ours >= 0), sides[1])
        columns.append(value.alias(column.name).cast(schema[column.name]))
    diffs = [
        side.get_column(DIFF).gather(place).fill_null(1)
        for side, place in zip((left, right), places, strict=True)
    ]
    return pl.DataFrame([*columns, (diffs[0] * diffs[1]).alias(DIFF)])


def of_windows(panes: pl.DataFrame, rows: pl.DataFrame, keys: pl.DataFrame, time: EventTime) -> Index:
    """Return the positions of the rows that have the key of a pane, and an instant within its window."""
    instants = instants_in(rows.get_column(time.column))[0] + time.shift
    starts, ends = (instants_in(panes.get_column(name))[0] for name in BOUNDS)
    if not keys.width:
        within = (instants[:, None] >= starts) & (instants[:, None] < ends)
        return np.flatnonzero(within.any(axis=1))
    words = key_words(keys.get_columns(), keys.height)
    pane_words = key_words(panes.select(keys.columns).get_columns(), panes.height)
    left = pl.DataFrame({"a": pane_words.first, "b": pane_words.seconds(), "start": starts, "end": ends})
    right = pl.DataFrame({"a": words.first, "b": words.seconds(), "at": instants}).with_row_index("row")
    within_panes = right.join(left, on=["a", "b"]).filter(
        pl.col("at") >= pl.col("start"), pl.col("at") < pl.col("end")
    )
    return np.unique(within_panes["row"].to_numpy()).astype(np.intp)


def matching(rows: pl.DataFrame, lookup_values: pl.DataFrame) -> pl.Series:
    """Return which rows have the values of one of the rows to look up."""
    if not lookup_values.width:
        return pl.Series(np.ones(rows.height, np.bool_))
    return is_among(rows, lookup_values)
