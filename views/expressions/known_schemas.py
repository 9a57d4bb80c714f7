"""What polars makes of an expression over columns of some types, found out once.

To find out takes polars some 20 us, and in a group_by, which sets threads going, twice as much or many times. Deep plans
repeat themselves, and each column that is declared is looked at more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import polars as pl

from evercurrent.core.columns.polars_versions import forgets_elements
from evercurrent.core.data.errors import PlanError, first_line

from .polars_tree import form_of

MOST = 2000
"""So many answers are kept, and then none."""

LONGEST, PER_COLUMN = 2000, 20
"""Bytes of an expression that is looked up, with so many for each column of the schema: larger ones rarely come again."""

_known: dict[Hashable, pl.Schema] = {}


def known_schema(
    call: Hashable, schema: pl.Schema, expr: pl.Expr, find: Callable[[], pl.Schema]
) -> pl.Schema:
    """What ``find`` gives, which is a function of the call, the schema and the expression. To be read only."""
    form = form_of(expr)
    if form is None or len(form) + PER_COLUMN * len(schema) > LONGEST:
        return find()
    key = (call, form, *schema.items())
    found = _known.get(key)
    if found is None:
        found = find()
        if len(_known) >= MOST:
            _known.clear()
        _known[key] = found
    return found


def selected_schema(about: str, schema: pl.Schema, expr: pl.Expr) -> pl.Schema:
    """The columns that polars makes of an expression over rows. To be read only.

    Raises:
        PlanError: as ``evaluated`` does.
    """
    return known_schema(
        "select", schema, expr, lambda: evaluated(about, schema, lambda frame: frame.select(expr))
    )


def planned_schema(about: str, schema: pl.Schema, expr: pl.Expr) -> pl.Schema:
    """The same without doing it: types that depend on the rows are ``pl.Unknown``.

    Raises:
        PlanError: as ``resolved`` does.
    """
    return known_schema(
        "plan", schema, expr, lambda: resolved(about, lambda: schema.to_frame().lazy().select(expr))
    )


def evaluated(about: str, schema: pl.Schema, ask: Callable[[Any], Any]) -> pl.Schema:
    """The columns that polars makes of a frame of this schema, found out by doing it to frames that hold nothing.

    ``ask`` takes a frame, eager or lazy, and gives one.

    Raises:
        PlanError: with the first line of what polars says, where it refuses.
    """
    empty = schema.to_frame()
    try:
        found = _made(ask(empty))
        return resolved(about, lambda: ask(empty.lazy())) if forgets_elements(found) else found
    except pl.exceptions.DuplicateError:
        raise PlanError(
            f"{about}: it makes columns of one name; tell them apart with .name.suffix(...) or write them singly"
        ) from None
    except pl.exceptions.PanicException:
        # Some aggregates of nothing are beyond polars 2.1, as quantiles of dates; their types are not.
        again: pl.DataFrame | pl.LazyFrame = empty.lazy()
    except pl.exceptions.PolarsError:
        # What has no value for no rows, as `get(0)`, may have one for a row of nulls.
        again = empty.clear(1)
    return resolved(about, lambda: ask(again))


def resolved(about: str, make: Callable[[], pl.DataFrame | pl.LazyFrame]) -> pl.Schema:
    """The columns of a frame, which may be lazy: then polars says without doing anything.

    Raises:
        PlanError: with the first line of what polars says, where it refuses.
    """
    try:
        return _made(make())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise PlanError(f"{about}: {first_line(error)}") from error


def _made(frame: pl.DataFrame | pl.LazyFrame) -> pl.Schema:
    return frame.collect_schema()
