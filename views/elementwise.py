"""Division that is the same in every frame, where an operand may happen to be constant in one.

polars divides by a constant in another way than by a column, and ``when(...)``, ``coalesce`` and others give a constant
where all rows of a frame take the same branch: ``x / when(b).then(49.0).otherwise(7.0)`` would depend on the other
rows. So an operand that reads columns, and of which it is not plain that its values are written out, is written out.
What reads no column is a constant in every frame and stays one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from evercurrent.core.aggregates import Column
from evercurrent.core.errors import PlanError

from .expression_trees import (
    RENAMING,
    Node,
    cannot_be_rebuilt,
    children,
    rebuilt,
    shown,
    tree,
    variant,
    with_children,
)

_DIVISIONS = frozenset({"FloorDivide", "Modulus", "TrueDivide", "TruncDivide"})
_ARITHMETIC = _DIVISIONS | {"Minus", "Multiply", "Plus"}
_SENSITIVE = frozenset({"Pow", "StringExpr.Split"})
"""Functions that do with a constant what they do not with a column of equal values."""


def elementwise(expr: pl.Expr) -> pl.Expr:
    """The expression with the operands of its divisions written out, where that may make a difference.

    Raises:
        PlanError: where it has to be taken apart for that, and holds what polars cannot put together again.
    """
    node = tree(expr)
    if node is None:
        return expr
    changed = _written_out(node)
    if changed == node:
        return expr
    if cannot_be_rebuilt(node):
        raise PlanError(
            f"{shown(expr)}: a literal that is NaN or infinite is lost when a division is taken apart; make the column"
            " that needs it with with_columns(...) first, one expression per column"
        )
    return rebuilt(changed)


def elementwise_columns(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns with such expressions; copies as they are."""
    return tuple(
        column if column.copies is not None else replace(column, expr=elementwise(column.expr))
        for column in columns
    )


def _written_out(node: Node) -> Node:
    name, _ = variant(node)
    operands = [_written_out(child) for child in children(node)]
    if name in _SENSITIVE or _operator(node) in _DIVISIONS:
        operands = [_shifted_by_none(each) if _may_be_constant(each) else each for each in operands]
    changed = node if operands == children(node) else with_children(node, operands)
    if name == "Eval":
        body = variant(changed)[1]
        changed = {"Eval": {**body, "evaluation": _written_out(body["evaluation"])}}
    return changed


def _shifted_by_none(node: Node) -> Node:
    """The same values, which polars then knows no longer to be constant."""
    return {"Function": {"input": [node, {"Literal": {"Dyn": {"Int": 0}}}], "function": "Shift"}}


def _may_be_constant(node: Node) -> bool:
    """Whether an operand reads rows and may all the same be one value for all of them."""
    return _reads_rows(node) and not _is_long(node)


def _reads_rows(node: Node) -> bool:
    return variant(node)[0] in ("Column", "Element", "Field") or any(map(_reads_rows, children(node)))


def _is_long(node: Node) -> bool:
    name, _ = variant(node)
    if name in ("Column", "Element", "Field"):
        return True
    if name in RENAMING or name == "Cast":
        return _is_long(children(node)[0])
    return _operator(node) in _ARITHMETIC and any(map(_is_long, children(node)))


def _operator(node: Node) -> str | None:
    """The arithmetic of a node. Functions of bytes are of a family that has the name of the operators."""
    name, body = variant(node)
    return body.get("op") if name == "BinaryExpr" else None
