"""Types of columns are kept as texts that are the same with every version of polars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

NAMES: Mapping[type[pl.DataType], str] = {
    getattr(pl, name): name
    for name in (
        "Array", "Binary", "Boolean", "Categorical", "Date", "Datetime", "Decimal", "Duration", "Enum", "Float16", "Float32",
        "Float64", "Int8", "Int16", "Int32", "Int64", "Int128", "List", "Map", "Null", "Object", "String", "Struct", "Time",
        "UInt8", "UInt16", "UInt32", "UInt64", "UInt128", "Unknown",
    )
    if hasattr(pl, name)
}  # fmt: skip
"""The names of the types, some of which are not in every version of polars."""


def dtype_text(dtype: pl.DataType | type[pl.DataType]) -> str:
    """Return the text of a type: with time unit, time zone, all categories, the types of fields.

    ``evercurrent.views.expressions.dtype_reading`` reads them back. A type without a name here has polars' own text.

    >>> dtype_text(pl.List(pl.Datetime("ms", "UTC")))
    "List(Datetime(time_unit='ms', time_zone='UTC'))"
    """
    name = NAMES.get(dtype if isinstance(dtype, type) else type(dtype))
    if name is None:
        return repr(dtype)
    return name if isinstance(dtype, type) else name + _parameters(dtype)


def _parameters(dtype: pl.DataType) -> str:
    match dtype:
        case pl.Datetime(time_unit=unit, time_zone=zone):
            return f"(time_unit={unit!r}, time_zone={zone!r})"
        case pl.Duration(time_unit=unit):
            return f"(time_unit={unit!r})"
        case pl.Decimal(precision=precision, scale=scale):
            return f"(precision={precision!r}, scale={scale!r})"
        case pl.Enum(categories=categories):
            return f"(categories={categories.to_list()!r})"
        case pl.Categorical():
            return _categories(getattr(dtype, "categories", None))
        case pl.Array():
            leaf, shape = _leaf(dtype)
            return f"({dtype_text(leaf)}, shape={shape!r})"
        case pl.List(inner=inner):
            return f"({dtype_text(_type(inner))})"
        case pl.Struct(fields=fields):
            named = ", ".join(f"{field.name!r}: {dtype_text(_type(field.dtype))}" for field in fields)
            return f"({{{named}}})"
        case _ if NAMES.get(type(dtype)) == "Map":
            key, value = (dtype_text(getattr(dtype, part)) for part in ("key", "value"))
            return f"({key}, {value})"
        case _:
            return ""


def _leaf(array: pl.Array) -> tuple[pl.DataType | type[pl.DataType], tuple[int, ...]]:
    """Return the innermost type of nested arrays, and their shape."""
    shape: tuple[int, ...] = (array.size,)
    inner = array.inner
    while isinstance(inner, pl.Array):
        shape, inner = (*shape, inner.size), inner.inner
    return _type(inner), shape


def _categories(categories: Any) -> str:
    """Return the text of the parameters of named categories."""
    if categories is None or categories.is_global():
        return ""
    name, namespace, physical = categories.name(), categories.namespace(), dtype_text(categories.physical())
    if namespace == "" and physical == "UInt32":
        return f'(Categories("{name}"))'
    return f'(Categories(name="{name}", namespace="{namespace}", physical=pl.{physical}))'


def _type(dtype: Any) -> pl.DataType | type[pl.DataType]:
    """Return a type of polars, given as a class or an object."""
    polars_type: pl.DataType | type[pl.DataType] = dtype
    return polars_type
