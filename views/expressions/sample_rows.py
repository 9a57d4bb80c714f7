"""What polars refuses because of the types of columns, but only where there is a value: it is found with one row of any values.

Of an expression over no rows, or over nulls, polars often derives a type that it cannot compute, as of a list that is cast to a text.
"""

from __future__ import annotations

import re
from functools import lru_cache

import polars as pl
from polars.datatypes import DataTypeClass

from evercurrent.core.data.errors import PlanError, first_line

from .polars_tree import Expression
from .showing import About

_OF_TYPES = re.compile(
    r"cannot cast |casting from .* (is )?not supported|operation not supported for dtype|could not evaluate .*comparison"
    r"|must specify one field in the struct|invalid series dtype|not yet (implemented|supported)"
)
"""Messages of polars that follow from the types alone: others may be of these values."""


def require_computable(about: About | str, schema: pl.Schema, expression: Expression) -> None:
    """Check that polars can compute an expression over columns of these types. Functions of Python are not called.

    Raises:
        PlanError: it cannot; has the first line of polars' message.
    """
    if expression.calls_python:
        return
    if expression.expr.meta.has_multiple_outputs():
        # Of many columns of a type one shows it.
        names = dict.fromkeys(
            [*{dtype: name for name, dtype in schema.items()}.values(), *expression.root_names]
        )
        schema = pl.Schema({name: schema[name] for name in names if name in schema})
    try:
        _sample_frame(schema).select(expression.expr)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        message = first_line(error)
        if _OF_TYPES.search(message):
            raise PlanError(
                f"{about}: {message}; cast the column before, or compute it in another way"
            ) from error


def _sample_frame(schema: pl.Schema) -> pl.DataFrame:
    return pl.DataFrame([_sample(dtype).alias(name) for name, dtype in schema.items()])


@lru_cache(1000)
def _sample(dtype: pl.DataType) -> pl.Series:
    """Return one value of a type; null where there may be none."""
    if isinstance(dtype, pl.Struct) and dtype.fields:
        return pl.DataFrame(
            [_sample(_instance(each.dtype)).alias(each.name) for each in dtype.fields]
        ).to_struct("")
    if isinstance(dtype, pl.List):
        return _sample(_instance(dtype.inner)).implode()
    if isinstance(dtype, pl.Array) and dtype.size:
        inner = _sample(_instance(dtype.inner))
        return pl.concat([inner] * dtype.size).implode().cast(dtype)
    if isinstance(dtype, pl.Enum) and len(dtype.categories):
        return pl.Series([dtype.categories[0]], dtype=dtype)
    if isinstance(dtype, pl.String | pl.Categorical | pl.Binary):
        return pl.Series(["1"]).cast(dtype)
    if dtype.is_numeric() or dtype.is_temporal() or dtype == pl.Boolean:
        # 1 may not fit a decimal that has digits after the point only.
        return pl.Series([0 if dtype.is_decimal() else 1]).cast(dtype)
    return pl.Series([None], dtype=dtype)


def _instance(dtype: pl.DataType | DataTypeClass) -> pl.DataType:
    return dtype() if isinstance(dtype, type) else dtype
