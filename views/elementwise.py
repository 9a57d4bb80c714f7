"""Division that is the same in every frame, where an operand may happen to be constant in one.

polars divides by a constant in another way than by a column, and ``when(...)``, ``coalesce`` and others give a constant
where all rows of a frame take the same branch: ``x / when(b).then(49.0).otherwise(7.0)`` would depend on the other
rows. So an operand that reads columns, and of which it is not plain that its values are written out, is written out.
What reads no column is a constant in every frame and stays one.

Floats are added up in one order where a group or list is a piece of the column, and in another where its values have
been chosen from it; and where no group of a frame loses a value, ``filter`` and the like hand on the piece. So chosen
values are written out before they are added up. ``list.sum()`` takes another order where some list of the frame holds a
null, which ``list.agg(element().sum())`` does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from evercurrent.core.aggregates import Column
from evercurrent.core.errors import PlanError

from .deep_expressions import with_room
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

_ADDING_UP = frozenset(
    {"Agg.Mean", "Agg.Std", "Agg.Sum", "Agg.Var", "Correlation", "Entropy", "Kurtosis", "Product", "Skew"}
)
"""Aggregates whose last bits depend on the order in which floats are added up."""

_CHOOSING = frozenset(
    {
        "Diff",
        "DropNans",
        "DropNulls",
        "FillNullWithStrategy",
        "Filter",
        "Gather",
        "Interpolate",
        "Mode",
        "Slice",
    }
    | {"TopK", "TopKBy", "Unique", "UniqueCounts"}
)
"""What gives some of the values, and all of them as they stand where there is nothing to leave out."""

_OF_ELEMENTS = {
    f"{family}Expr.{kind}": (f"{family}Agg", kind) for family in ("Array", "List") for kind in ("Mean", "Sum")
}
"""Functions of lists that add up in another order where some list of the frame holds a null, and which do not."""


def elementwise(expr: pl.Expr, where: str = "expression") -> pl.Expr:
    """The expression with the operands of its divisions written out, where that may make a difference.

    Raises:
        PlanError: with ``where``, if it has to be taken apart for that, and holds what polars cannot put together again.
        TooDeepError: where it nests too deeply for that.
    """
    return with_room(expr, lambda: _elementwise(expr, where))


def _elementwise(expr: pl.Expr, where: str) -> pl.Expr:
    node = tree(expr)
    if node is None:
        return expr
    changed = _written_out(node)
    if changed == node:
        return expr
    if cannot_be_rebuilt(node):
        raise PlanError(
            f"{where}: {shown(expr)}: a literal that is NaN or infinite is lost when a division is taken apart; make the"
            " column that needs it with with_columns(...) first, one expression per column"
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
    if name in _ADDING_UP:
        operands = [_shifted_by_none(each) if _is_chosen(each) else each for each in operands]
    if name in _OF_ELEMENTS:
        family, kind = _OF_ELEMENTS[name]
        return {"Eval": {"expr": operands[0], "evaluation": {"Agg": {kind: "Element"}}, "variant": family}}
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


def _is_chosen(node: Node) -> bool:
    """Whether an operand is made of values that were chosen from those of a group or list; not of one value each."""
    name, _ = variant(node)
    if name in _CHOOSING:
        return True
    return name not in _ADDING_UP and not name.startswith("Agg.") and any(map(_is_chosen, children(node)))


def _operator(node: Node) -> str | None:
    """The arithmetic of a node. Functions of bytes are of a family that has the name of the operators."""
    name, body = variant(node)
    return body.get("op") if name == "BinaryExpr" else None
