"""Divisions and sums are rewritten so that a row's result is the same in every frame, even if an operand is constant there.

polars divides by a constant differently from a column, and ``when(...)``, ``coalesce`` and others return a constant if
all rows of a frame take the same branch: ``x / when(b).then(49.0).otherwise(7.0)`` would depend on the other rows. So an
operand that reads columns is materialized, unless its values certainly are. An operand that reads no column is a constant
in every frame and stays one.

polars adds floats up in one order if a group or list is a slice of the column, and in another if its values have been
selected from it; and if no group of a frame loses a value, ``filter`` and others return the slice itself. So selected
values are materialized before they are added up. ``list.sum()`` uses another order if some list of the frame holds a null,
and ``list.agg(element().sum())`` does not.

What the tree has as an evaluation of elements and this polars would compute otherwise, in a random order, is written anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from evercurrent.core.data.columns.polars_versions import SHUFFLED
from evercurrent.core.operators.group.aggregates import Column as OutputColumn

from .deep_expressions import with_room
from .polars_tree import read
from .polars_writer import write
from .tree import Aggregate, Call, Cast, Column, Element, Field, Literal, Nested, Node, Renaming

_DIVISIONS = frozenset(
    {"div", "floordiv", "mod", "sql.div", "sql.floordiv", "sql.mod", "truediv", "truncdiv"}
)
_ARITHMETIC = _DIVISIONS | {"add", "mul", "sql.add", "sql.mul", "sql.sub", "sub"}
_SENSITIVE = frozenset({"cbrt", "pow", "sqrt", "str.split"})
"""Functions whose results for a constant differ from those for a column of equal values."""

_ADDING_UP = frozenset({"corr", "entropy", "kurtosis", "mean", "product", "skew", "std", "sum", "var"})
"""Aggregates whose last bits depend on the order in which floats are added up."""

_CHOOSING = frozenset(
    {
        "diff",
        "drop_nans",
        "drop_nulls",
        "fill_null_by",
        "filter",
        "gather",
        "interpolate",
        "mode",
        "slice",
        "top_k",
        "top_k_by",
    }
    | {"unique", "unique_counts"}
)
"""Functions that return some of the values, and the column itself where none is left out."""

_OF_ELEMENTS = {
    f"{family}.{kind}": (f"{family}.agg", kind) for family in ("arr", "list") for kind in ("mean", "sum")
}
"""Functions of lists whose order of addition changes where a list of the frame holds a null, with those that replace them."""


def elementwise(expr: pl.Expr) -> pl.Expr:
    """Return the expression with the operands of its divisions materialized, where that may make a difference.

    Raises:
        TooDeepError: it nests too deeply to be rewritten.
    """
    return with_room(expr, _elementwise)


def _elementwise(expr: pl.Expr) -> pl.Expr:
    node = read(expr)
    if node is None:
        return expr
    changed = _written_out(node)
    return expr if changed is node else write(changed)


def check_elementwise(node: Node) -> None:
    """Check that the tree of an expression can be rewritten in this way.

    Raises:
        TooDeepError: it nests too deeply.
    """
    changed = _written_out(node)
    if changed is not node:
        write(changed)


def elementwise_columns(columns: Sequence[OutputColumn]) -> tuple[OutputColumn, ...]:
    """Return the columns with their expressions rewritten in this way; copies stay as they are."""
    return tuple(
        column if column.copies is not None else replace(column, expr=elementwise(column.expr))
        for column in columns
    )


def _written_out(node: Node) -> Node:
    inputs, name = node.inputs, node.name
    operands = [_written_out(each) for each in inputs]
    if name in _SENSITIVE or name in _DIVISIONS:
        operands = [_shifted_by_none(each) if _may_be_constant(each) else each for each in operands]
    if name in _ADDING_UP:
        operands = [_shifted_by_none(each) if _is_chosen(each) else each for each in operands]
    if name in _OF_ELEMENTS:
        function, kind = _OF_ELEMENTS[name]
        return Nested(function, operands[0], (Aggregate(kind, (Element(),)),))
    is_same = all(one is other for one, other in zip(operands, inputs, strict=True))
    changed = node if is_same else node.with_inputs(operands)
    if isinstance(changed, Nested) and not changed.sees_row:
        evaluations = tuple(map(_written_out, changed.evaluations))
        is_shuffled = any(each.name in SHUFFLED for each in evaluations)
        if is_shuffled or any(
            one is not other for one, other in zip(evaluations, changed.evaluations, strict=True)
        ):
            changed = replace(changed, evaluations=evaluations)
    return changed


def _shifted_by_none(node: Node) -> Node:
    """Return the same values in a form that polars does not treat as constant."""
    return Call("shift", (node, Literal("int", 0)))


def _may_be_constant(node: Node) -> bool:
    """Return whether an operand reads rows and may nevertheless be one constant for all of them."""
    return _reads_rows(node) and not _is_long(node)


_OF_ROWS = (Column, Element, Field)


def _reads_rows(node: Node) -> bool:
    return isinstance(node, _OF_ROWS) or any(map(_reads_rows, node.inputs))


def _is_long(node: Node) -> bool:
    if isinstance(node, _OF_ROWS):
        return True
    if isinstance(node, (*Renaming, Cast)):
        return _is_long(node.input)
    return node.name in _ARITHMETIC and any(map(_is_long, node.inputs))


def _is_chosen(node: Node) -> bool:
    """Return whether an operand consists of values chosen from those of a group or list, not of one value each."""
    if node.name in _CHOOSING:
        return True
    return (
        node.name not in _ADDING_UP and not isinstance(node, Aggregate) and any(map(_is_chosen, node.inputs))
    )
