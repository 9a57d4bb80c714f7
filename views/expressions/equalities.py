"""A condition may imply that one column has one value, which lets other rows be skipped."""

from __future__ import annotations

import polars as pl

from .deep_expressions import levels
from .polars_tree import read
from .tree import Call, Column, Literal, Node, without_renaming

PLAIN = 12
"""Conditions that nest deeper are not analysed."""


def only_value(condition: pl.Expr, schema: pl.Schema) -> tuple[str, int | str] | None:
    """Return a column and the value that it must have for a condition to be true; None where the condition implies none.

    >>> schema = pl.Schema({"k": pl.Int64(), "s": pl.String()})
    >>> only_value((pl.col("s") != "a") & (pl.col("k") == 3), schema)
    ('k', 3)
    >>> only_value((pl.col("k") == 3) | (pl.col("k") == 4), schema)
    """
    node = None if levels(condition, PLAIN) > PLAIN else read(condition)
    if node is None or not _only_compares(without_renaming(node)):
        return None
    waiting = [without_renaming(node)]
    while waiting:
        compared = waiting.pop()
        if not isinstance(compared, Call):
            continue
        left, right = compared.inputs
        if compared.function == "and":
            waiting += [right, left]
        elif compared.function == "eq":
            equality = _equality(left, right, schema)
            if equality is not None:
                return equality
    return None


_COMPARISONS = frozenset({"and", "eq", "ge", "gt", "le", "lt", "ne", "or"})


def _only_compares(node: Node) -> bool:
    """Return whether a condition cannot fail for any row: one that fails refuses the whole epoch."""
    if isinstance(node, Column | Literal):
        return True
    return node.name in _COMPARISONS and all(map(_only_compares, node.inputs))


def _equality(one: Node, other: Node, schema: pl.Schema) -> tuple[str, int | str] | None:
    if isinstance(one, Literal):
        one, other = other, one
    if not isinstance(one, Column) or not isinstance(other, Literal) or one.column not in schema:
        return None
    dtype = schema[one.column]
    if other.dtype == "int" and dtype.is_integer():
        return one.column, int(other.value)
    is_text = other.dtype == "str" or other.dtype == pl.String
    return (
        (one.column, str(other.value)) if is_text and other.value is not None and dtype == pl.String else None
    )
