"""Python values of a decimal column: each is the same number as a decimal of its type, or is refused, whatever stands beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Context, Decimal
from typing import Any

import numpy as np
import polars as pl

from evercurrent.core.data.columns.lossless import as_type

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
"""The texts that are read as decimals."""

MOST_DIGITS = 38
"""The digits of a decimal of polars, and of one that is declared without a precision."""

WIDE = Context(prec=2 * MOST_DIGITS)
"""Rounds no decimal that a column holds, whatever the context of the calling thread is."""


def has_decimals(dtype: pl.DataType) -> bool:
    """Return whether a type is one of decimals, or has them inside.

    >>> has_decimals(pl.List(pl.Decimal(10, 2))), has_decimals(pl.List(pl.Int8))
    (True, False)
    """
    match dtype:
        case pl.List() | pl.Array():
            return has_decimals(as_type(dtype.inner))
        case pl.Struct():
            return any(has_decimals(as_type(field.dtype)) for field in dtype.fields)
    return isinstance(dtype, pl.Decimal)


def misfit_of_decimal(value: object, dtype: pl.Decimal) -> str | None:
    """Return why a value is no decimal of this type, with the remedy; None if it is one.

    A float is the shortest decimal that Python prints for it.

    >>> misfit_of_decimal(2.5, pl.Decimal(10, 2)) is None
    True
    >>> misfit_of_decimal(2.567, pl.Decimal(10, 2))
    '2.567, which has more than 2 decimals; round it, or declare more of them'
    """
    number = _number(value)
    if number is None:
        return f"{value!r}, which is no decimal number; correct it, or leave the row out"
    if not number.is_finite():
        return f"{value}, which decimals do not have; give null, or declare pl.Float64"
    whole_digits = _whole_digits(dtype)
    if number and number.adjusted() >= whole_digits:
        return f"{value}, which has more than {whole_digits} digits before the point; declare more of them"
    if number.quantize(_step(dtype), context=WIDE) != number:
        return f"{value}, which has more than {dtype.scale} decimals; round it, or declare more of them"
    return None


def exact_decimals(values: Iterable[Any], dtype: pl.Decimal) -> tuple[list[Decimal | None], int | None]:
    """Return values as decimals of the type's scale, up to the first misfit, and the place of that; None if there is none."""
    step, whole_digits = _step(dtype), _whole_digits(dtype)
    decimals: list[Decimal | None] = []
    for place, value in enumerate(values):
        if value is None:
            decimals.append(None)
            continue
        number = _number(value)
        if number is None or not number.is_finite() or (number and number.adjusted() >= whole_digits):
            return decimals, place
        decimals.append(number.quantize(step, context=WIDE))
        if decimals[-1] != number:
            return decimals, place
    return decimals, None


def as_decimals(value: Any, dtype: pl.DataType) -> Any:
    """Return a value, in which no decimal is a misfit, with all its decimals as ``Decimal`` of their type's scale."""
    match value, dtype:
        case None, _:
            return None
        case _, pl.Decimal():
            number = _number(value)
            return value if number is None else number.quantize(_step(dtype), context=WIDE)
        case ((list() | tuple()), (pl.List() | pl.Array())) if has_decimals(dtype):
            inner = as_type(dtype.inner)
            return [as_decimals(each, inner) for each in value]
        case Mapping(), pl.Struct():
            types = dict(_fields(dtype))
            return {name: as_decimals(each, types[name]) for name, each in value.items()}
    return value


def _fields(dtype: pl.Struct) -> Iterator[tuple[str, pl.DataType]]:
    return ((field.name, as_type(field.dtype)) for field in dtype.fields)


def _number(value: object) -> Decimal | None:
    if type(value) is Decimal:
        return value
    match value:
        case bool() | np.bool_():
            return None
        case Decimal():
            return value
        case int() | np.integer():
            return Decimal(int(value))
        case float() | np.floating():
            return Decimal(str(value))
        case str() if NUMBER.fullmatch(value):
            return Decimal(value)
    return None


def _whole_digits(dtype: pl.Decimal) -> int:
    return (dtype.precision or MOST_DIGITS) - dtype.scale


def _step(dtype: pl.Decimal) -> Decimal:
    return Decimal(1).scaleb(-dtype.scale)
