"""Grouping, and the first rows of groups, as operations of the plan: the checks, and the identity of an aggregation."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import polars as pl

from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import Order, counted, listed
from evercurrent.core.operators.group.aggregates import Aggregation, Column

from ..expressions import Expression, column_names, compared_columns, output_schema
from ..plan.nodes import Group, Top
from .aggregation import aggregation

Flags = bool | Sequence[bool]


def grouped(
    where: str,
    schema: pl.Schema,
    keys: tuple[Column, ...],
    aggs: tuple[object, ...],
    named_aggs: Mapping[str, object],
    event_time: str | None,
) -> tuple[Group, pl.Schema]:
    """Return the operation of ``group_by(keys).agg(...)``, and its columns.

    Raises:
        PlanError: an aggregate cannot be kept current, or a name is taken or reserved.
    """
    names = tuple(key.name for key in keys)
    compiled = aggregation(where, schema, names, aggs, named_aggs, event_time)
    key_types = output_schema(schema, keys, where) if keys else pl.Schema()
    return Group(names, identity(keys, compiled), keys, compiled), pl.Schema({**key_types, **compiled.schema})


def first_rows(
    where: str,
    schema: pl.Schema,
    keys: tuple[Column, ...],
    count: object,
    by: object,
    *,
    descending: Flags,
    nulls_last: Flags,
) -> Top:
    """Return the operation that keeps the first rows of each group by an order.

    Raises:
        PlanError: the number of rows, the order or the flags make no sense, or a key is computed.
    """
    names = column_names(where, schema, by)
    if not names:
        raise PlanError(f"{where}: rows of a collection have no order; say which with by=")
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise PlanError(f"{where}: the number of rows is {count!r}; it must be a whole number from 0")
    if nested := [name for name in names if schema[name].is_nested()]:
        raise PlanError(f"{where}: {listed(nested)} is nested and has no order; order by a plain column")
    flags = zip(_each(where, names, descending), _each(where, names, nulls_last), strict=True)
    order = tuple(Order(name, *pair) for name, pair in zip(names, flags, strict=True))
    if computed := [key.name for key in keys if key.copies != key.name]:
        raise PlanError(f"{where}: the key {listed(computed)} is computed; add it with with_columns first")
    return Top(tuple(key.name for key in keys), order, count)


def by_any(where: str, schema: pl.Schema, subset: Sequence[str]) -> list[str]:
    """Return an order for one row of each group where it does not matter which: columns of the subset, which are equal there.

    Nested columns have no order, so if there are only such ones it is another column.

    Raises:
        PlanError: all columns are nested.
    """
    plain = [name for name in subset if not schema[name].is_nested()]
    others = [name for name, dtype in schema.items() if not dtype.is_nested()]
    if not plain and not others:
        raise PlanError(
            f"{where}: all columns are nested, and have no order by which one row of each is kept; add a plain column, or leave "
            "out the subset"
        )
    return plain or others[:1]


def turned(flags: Flags) -> Flags:
    """Return the opposite of a flag, or of each of several."""
    if isinstance(flags, bool):
        return not flags
    if not isinstance(flags, Iterable):
        return flags  # It is no flag, which is an error where it is used.
    return [not flag if isinstance(flag, bool) else flag for flag in flags]


def _each(where: str, names: Sequence[str], flags: Flags) -> list[bool]:
    each_flag = list(flags) if isinstance(flags, Iterable) else [flags] * len(names)
    if odd := [flag for flag in each_flag if not isinstance(flag, bool)]:
        raise PlanError(
            f"{where}: {(flags if isinstance(flags, str) else odd[0])!r} is no direction of by=; give True or False, for all or for each"
        )
    if len(each_flag) != len(names):
        raise PlanError(
            f"{where}: there are {counted(len(each_flag), 'flag')} for {counted(len(names), 'column')} of by=; give one for all or one for each"
        )
    return each_flag


def identity(keys: tuple[Column, ...], compiled: Aggregation) -> Hashable:
    """Return a value that is equal for equal aggregations: expressions as they are written, functions as objects."""
    aggregates = tuple([aggregate.identity(Expression) for aggregate in compiled.aggregates])
    return compared_columns((*keys, *compiled.prepared, *compiled.finished)), aggregates
