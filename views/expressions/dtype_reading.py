"""Types of columns are read back from the texts in which a checkpoint keeps them."""

from __future__ import annotations

import ast
from typing import Any

import polars as pl

from evercurrent.core.data.columns.polars_versions import MAP

NAMES: tuple[type[pl.DataType], ...] = (
    pl.Array, pl.Binary, pl.Boolean, pl.Categorical, pl.Date, pl.Datetime, pl.Decimal, pl.Duration, pl.Enum,
    pl.Float16, pl.Float32, pl.Float64, pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128, pl.List, pl.Null,
    pl.String, pl.Struct, pl.Time, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.UInt128,
    *([] if MAP is None else [MAP]),
)  # fmt: skip

_TYPES: dict[str, Any] = {dtype.__name__: dtype for dtype in NAMES}


def dtype_of_text(text: str) -> pl.DataType:
    """Return the type of a text by ``evercurrent.views.expressions.dtype_text.dtype_text``, without evaluating it.

    >>> dtype_of_text("List(Datetime(time_unit='ms', time_zone='UTC'))")
    List(Datetime(time_unit='ms', time_zone='UTC'))

    Raises:
        ValueError: the text does not name a known type.
    """
    try:
        value = _read(ast.parse(text, mode="eval").body)
        dtype = value() if isinstance(value, type) else value
    except (SyntaxError, TypeError) as error:
        raise ValueError(f"{text!r} is not a column type: {error}") from error
    if not isinstance(dtype, pl.DataType):
        raise ValueError(f"{text!r} is not a column type")
    return dtype


def _read(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in _TYPES:
            return _TYPES[name]
        case ast.List(elts=parts):
            return [_read(part) for part in parts]
        case ast.Tuple(elts=parts):
            return tuple(_read(part) for part in parts)
        case ast.Dict(keys=keys, values=values):
            return {
                _read(key): _read(value) for key, value in zip(keys, values, strict=True) if key is not None
            }
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in _TYPES:
            named = {each.arg: _read(each.value) for each in keywords if each.arg is not None}
            return _TYPES[name](*map(_read, args), **named)
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is not part of a column type")
