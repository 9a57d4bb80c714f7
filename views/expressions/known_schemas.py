"""A cache of the types that polars derives for an expression over columns of some types.

Deriving them takes polars some 20 us, and in a group_by, which starts threads, at least twice as long. Deep plans repeat
expressions, and each declared column is checked more than once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import polars as pl

from evercurrent.core.data.columns.polars_versions import forgets_elements, root_names
from evercurrent.core.data.errors import PlanError, first_line
from evercurrent.core.data.schema import empty_frame

from .polars_tree import Expression
from .sample_rows import require_computable
from .showing import About

MOST = 2000
"""How many entries the cache holds before it is emptied."""

LONGEST, PER_COLUMN = 2000, 20
"""The most bytes of a cached expression, and bytes counted for each column of the schema: larger ones rarely recur."""

_DATETIME = re.compile(r"[Dd]atetime[(\[]'?[mnuμ]s'?(?:, '?([^)\]']+))?")
"""A type of datetimes in messages of polars, with its zone."""

_known: dict[Hashable, pl.Schema] = {}


def known_schema(
    call: Hashable, schema: pl.Schema, form: bytes | None, find: Callable[[], pl.Schema]
) -> pl.Schema:
    """Return the result of ``find``, a function of the call, the schema and the expression of a form; do not change it."""
    if form is None or len(form) + PER_COLUMN * len(schema) > LONGEST:
        return find()
    key = (call, form, *schema.items())
    result = _known.get(key)
    if result is None:
        result = find()
        if len(_known) >= MOST:
            _known.clear()
        _known[key] = result
    return result


def read_by(expr: pl.Expr, schema: pl.Schema, besides: Iterable[str] = ()) -> pl.Schema:
    """Return the columns of a schema that an expression reads, and those of others besides, as far as they are there.

    All of them where it is not known, as for ``pl.all()``, and where a column is missing, which polars then names. So what is found out
    about an expression costs what it reads, also among thousands of columns.
    """
    names = root_names(expr)
    if not names or expr.meta.has_multiple_outputs() or not schema.keys() >= {*names}:
        return schema
    return pl.Schema({name: schema[name] for name in (*names, *besides) if name in schema})


def selected_schema(about: About | str, schema: pl.Schema, expression: Expression) -> pl.Schema:
    """Return the schema that polars has for an expression over rows; do not change it.

    Raises:
        PlanError: as ``evaluated`` does.
    """
    expr = expression.expr
    schema = read_by(expr, schema)

    def find() -> pl.Schema:
        if _is_quantile_of_dates(schema, expression):
            return resolved(about, lambda: empty_frame(schema).lazy().select(expr))
        types = evaluated(about, schema, lambda frame: frame.select(expr))
        require_computable(about, schema, expression)
        return types

    return known_schema("select", schema, expression.form, find)


def grouped_schema(
    about: About | str, schema: pl.Schema, keys: tuple[str, ...], expression: Expression
) -> pl.Schema:
    """Return the schema that polars has for an expression in ``group_by(keys).agg``, without the keys; do not change it.

    Raises:
        PlanError: as ``evaluated`` does.
    """
    # In a group_by polars gives nulls for some aggregates that do not exist, such as the sum of dates.
    ungrouped = selected_schema(about, schema, expression)
    if not keys:
        return ungrouped
    expr = expression.expr
    schema = read_by(expr, schema, keys)
    by = [pl.col(key) if key in schema else pl.lit(0).alias(key) for key in keys]

    def find() -> pl.Schema:
        return evaluated(about, schema, lambda frame: frame.group_by(by).agg(expr))

    grouped = known_schema(("agg", keys), schema, expression.form, find)
    return pl.Schema(list(grouped.items())[len(keys) :])


def check_expansion(about: About | str, ours: pl.Schema | int, polars: pl.Schema) -> None:
    """Check that an expression was expanded as polars expands it: to as many columns, or to the same schema.

    Raises:
        PlanError: it was not; the message has the remedy.
    """
    if ours not in (len(polars), polars):
        raise PlanError(f"{about}: polars expands it in its own way; write one expression per column")


def _is_quantile_of_dates(schema: pl.Schema, expression: Expression) -> bool:
    """Return whether an expression may have a quantile of dates, which polars 2.1 cannot compute without rows.

    It would panic, which is caught, but prints a backtrace of Rust. Each column of it has a quantile: of another one the
    evaluation would refuse it, and the derivation of types does not.
    """
    form = expression.form
    types = [schema[name] for name in root_names(expression.expr) if name in schema]
    has_quantiles = all(dtype.is_numeric() or dtype.is_temporal() for dtype in types)
    return pl.Date in types and has_quantiles and form is not None and b"Quantile" in form


def planned_schema(about: About | str, schema: pl.Schema, expression: Expression) -> pl.Schema:
    """Return the schema of an expression without evaluating it: types that depend on the rows are ``pl.Unknown``.

    Raises:
        PlanError: as ``resolved`` does.
    """
    expr = expression.expr
    schema = read_by(expr, schema)
    return known_schema(
        "plan",
        schema,
        expression.form,
        lambda: resolved(about, lambda: empty_frame(schema).lazy().select(expr)),
    )


def evaluated(about: About | str, schema: pl.Schema, query: Callable[[Any], Any]) -> pl.Schema:
    """Return the schema of a query over a frame of this schema, by running it on frames without rows or with nulls only.

    ``query`` takes a frame, eager or lazy, and returns one.

    Raises:
        PlanError: polars refuses it; has the first line of polars' message.
    """
    empty = empty_frame(schema)
    try:
        result: pl.Schema = query(empty).collect_schema()
        return resolved(about, lambda: query(empty.lazy())) if forgets_elements(result) else result
    except pl.exceptions.DuplicateError:
        raise PlanError(
            f"{about}: several of its output columns have the same name; rename them with .name.suffix(...) or write them one by one"
        ) from None
    except pl.exceptions.PanicException:
        # polars 2.1 cannot compute some aggregates without rows, as quantiles of dates, but has their types.
        again: pl.DataFrame | pl.LazyFrame = empty.lazy()
    except pl.exceptions.PolarsError:
        # An expression that has no value without rows, such as `get(0)`, may have one for a row of nulls.
        again = empty.clear(1)
    return resolved(about, lambda: query(again))


def resolved(about: About | str, make: Callable[[], pl.DataFrame | pl.LazyFrame]) -> pl.Schema:
    """Return the schema of a frame; of a lazy one polars derives it without running the query.

    Raises:
        PlanError: polars refuses it; has the first line of polars' message.
    """
    try:
        return make().collect_schema()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise PlanError(f"{about}: {first_line(error)}{_zone_hint(str(error))}") from error


def _zone_hint(message: str) -> str:
    """Return the way out where polars refuses a time with a zone beside one without, which is in UTC."""
    if {zone != "" for zone in _DATETIME.findall(message)} != {True, False}:
        return ""
    return (
        "; a column without a zone is read as UTC: give it the zone with .dt.replace_time_zone('UTC'), or compare it with a "
        "time in UTC without a zone"
    )
