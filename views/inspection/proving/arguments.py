"""Arguments of methods as they are declared: columns by name or as expressions, one or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl


def is_column(key: Any, name: str) -> bool:
    """Return whether a key is the column of this name, as it is."""
    return bool(key == name if isinstance(key, str) else key.meta.eq(pl.col(name)))


def with_name(expr: Any, name: str) -> Any:
    """Return a column or an expression under a name; anything else as it is."""
    column = pl.col(expr) if isinstance(expr, str) else expr
    return column.alias(name) if isinstance(column, pl.Expr) else column


def listed(value: Any) -> list[Any]:
    """Return one value or several as a list."""
    return [value] if isinstance(value, str | pl.Expr) or not isinstance(value, Sequence) else list(value)


def each_of(flag: Any, count: int) -> list[bool]:
    """Return a flag for each of so many columns."""
    return [flag] * count if isinstance(flag, bool) else list(flag)
