"""What polars makes of an expression over columns of some types, found out once.

To find out takes polars some 20 us, and in a group_by, which sets threads going, twice as much or many times. Deep plans
repeat themselves, and each column that is declared is looked at more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import polars as pl

from .expression_trees import evaluated, resolved, written

MOST = 2000
"""So many answers are kept, and then none."""

LONGEST, PER_COLUMN = 2000, 20
"""Bytes of an expression that is looked up, with so many for each column of the schema: larger ones rarely come again."""

_known: dict[Hashable, pl.Schema] = {}


def known_schema(
    call: Hashable, schema: pl.Schema, expr: pl.Expr, find: Callable[[], pl.Schema]
) -> pl.Schema:
    """What ``find`` gives, which is a function of the call, the schema and the expression. To be read only."""
    form = written(lambda: expr.meta.serialize(format="binary"))
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
