"""Which rows a condition can be true of: those with one value in one column, where it says so plainly."""

from __future__ import annotations

from typing import Any

import polars as pl

from .deep_expressions import levels
from .expression_trees import Node, tree, variant, without_renaming

PLAIN = 12
"""Deeper conditions are not looked into."""


def only_value(condition: pl.Expr, schema: pl.Schema) -> tuple[str, int | str] | None:
    """A column and the one value in it without which a condition is not true; None where it does not say so plainly.

    >>> schema = pl.Schema({"k": pl.Int64(), "s": pl.String()})
    >>> only_value((pl.col("s") != "a") & (pl.col("k") == 3), schema)
    ('k', 3)
    >>> only_value((pl.col("k") == 3) | (pl.col("k") == 4), schema)
    """
    node = None if levels(condition, PLAIN) > PLAIN else tree(condition)
    if node is None or not _only_compares(without_renaming(node)):
        return None
    waiting = [without_renaming(node)]
    while waiting:
        name, body = variant(waiting.pop())
        if name != "BinaryExpr":
            continue
        if body["op"] == "And":
            waiting += [body["right"], body["left"]]
        elif body["op"] == "Eq":
            found = _equality(body["left"], body["right"], schema)
            if found is not None:
                return found
    return None


_COMPARISONS = frozenset({"And", "Eq", "Gt", "GtEq", "Lt", "LtEq", "NotEq", "Or"})


def _only_compares(node: Node) -> bool:
    """Whether a condition can be computed of any row: one that cannot refuses the epoch, whatever else is in it."""
    name, body = variant(node)
    if name in ("Column", "Literal"):
        return True
    if name != "BinaryExpr" or body["op"] not in _COMPARISONS:
        return False
    return _only_compares(body["left"]) and _only_compares(body["right"])


def _equality(left: Node, right: Node, schema: pl.Schema) -> tuple[str, int | str] | None:
    (one, column), (other, literal) = variant(left), variant(right)
    if one == "Literal":
        one, column, other, literal = other, literal, one, column
    if one != "Column" or other != "Literal" or column not in schema:
        return None
    value = _plain(literal)
    if isinstance(value, int) and schema[column].is_integer():
        return column, value
    return (column, value) if isinstance(value, str) and schema[column] == pl.String else None


def _plain(literal: Any) -> int | str | None:
    """The value of a literal that is a whole number or a text as it is written."""
    match literal:
        case {"Dyn": {"Int": int(value)}} | {"Scalar": {"String": str(value)}}:
            return value
        case {"Dyn": {"Str": str(value)}}:
            return value
        case _:
            return None
