"""Plain arithmetic and comparisons of whole numbers are computed over arrays where rows are few, without a query of polars.

A query costs as much as some thousand additions, and waits for a thread of polars' pool. What is computed here is what polars
computes, bit by bit (``tests/laws/test_array_expressions.py``): Int64 without nulls, which wraps, and constants. Everything else
is left to polars.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import polars as pl

from evercurrent.core.data.columns.kernels import Ints, Mask, physical, series_of
from evercurrent.core.data.columns.nulls import nulls_in
from evercurrent.core.data.columns.whole_columns import AnyColumn

from .polars_tree import read
from .tree import Alias, Call, Column, Literal, Node

Array = npt.NDArray[Any]
Columns = Mapping[str, AnyColumn]
Computed = Callable[[Columns], Any]
"""The values of a node, given the columns of the rows: an array, or a number that stands for as many as there are rows."""

LEAST, GREATEST = -(2**63), 2**63 - 1

SUMS: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
}
DIVISIONS: Mapping[str, Callable[[Any, Any], Any]] = {"floordiv": operator.floordiv, "mod": operator.mod}
COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
    "ne": operator.ne,
}
CONNECTIVES: Mapping[str, Callable[[Any, Any], Any]] = {"and": operator.and_, "or": operator.or_}
FUNCTIONS = {**SUMS, **DIVISIONS, **COMPARISONS, **CONNECTIVES}


@dataclass(frozen=True, slots=True)
class OverArrays:
    """An expression over arrays. ``inputs`` are the columns that it reads, ``numbers`` those of them that must have no null."""

    inputs: frozenset[str]
    numbers: frozenset[str]
    is_mask: bool
    _computed: Computed

    def of(self, columns: Columns) -> Array | None:
        """Return the values over these columns; None if one of them has nulls where there must be none."""
        if any(columns[name].has_nulls() for name in self.numbers):
            return None
        values: Array = self._computed(columns)
        return values


def over_arrays(expr: pl.Expr, types: pl.Schema) -> OverArrays | None:
    """Return an expression over columns of these types as one over arrays; None if it has to be computed by polars."""
    node = read(expr)
    while isinstance(node, Alias):
        node = node.input
    return None if node is None else _compiled(node, types)


def _compiled(node: Node, types: pl.Schema) -> OverArrays | None:
    if isinstance(node, Column):
        if types.get(node.column) != pl.Int64:
            return None
        name = frozenset([node.column])
        return OverArrays(name, name, False, _numbers(node.column))
    if not isinstance(node, Call) or node.options:
        return None
    if node.function in ("is_null", "is_not_null"):
        (operand,) = node.inputs
        if not isinstance(operand, Column) or operand.column not in types:
            return None
        inputs = frozenset([operand.column])
        return OverArrays(inputs, frozenset(), True, _nulls(operand.column, node.function == "is_null"))
    if len(node.inputs) != 2:
        return None
    function = FUNCTIONS.get(node.function)
    return None if function is None else _of_two(function, node, types)


def _of_two(function: Callable[[Any, Any], Any], node: Call, types: pl.Schema) -> OverArrays | None:
    constants = [_constant(each) for each in node.inputs]
    if node.function in DIVISIONS and (constants[1] is None or constants[1] < 1):
        return None  # By zero or by a column: nulls may come of it.
    if all(constant is not None for constant in constants):
        return None
    operands = [
        None if constant is not None else _compiled(each, types)
        for each, constant in zip(node.inputs, constants, strict=True)
    ]
    parts: list[Computed] = []
    takes_masks = node.function in CONNECTIVES
    for operand, constant in zip(operands, constants, strict=True):
        if constant is not None:
            if takes_masks:
                return None
            parts.append(_same(constant))
        elif operand is None or operand.is_mask != takes_masks:
            return None
        else:
            parts.append(operand._computed)
    inputs = [operand for operand in operands if operand is not None]
    return OverArrays(
        frozenset().union(*(operand.inputs for operand in inputs)),
        frozenset().union(*(operand.numbers for operand in inputs)),
        takes_masks or node.function in COMPARISONS,
        _applied(function, parts),
    )


def _constant(node: Node) -> int | None:
    """Return a whole number of 64 bits, if that is what stands there."""
    if not isinstance(node, Literal) or node.dtype not in ("int", pl.Int64()):
        return None
    value = node.value
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and LEAST <= value <= GREATEST else None


def _numbers(name: str) -> Computed:
    def numbers(columns: Columns) -> Ints:
        return physical(columns[name])

    return numbers


def _nulls(name: str, expected: bool) -> Computed:
    def nulls(columns: Columns) -> Mask:
        mask = nulls_in(series_of(columns[name]))
        return mask if expected else ~mask

    return nulls


def _same(constant: int) -> Computed:
    return lambda columns: constant


def _applied(function: Callable[[Any, Any], Any], parts: Sequence[Computed]) -> Computed:
    one, other = parts
    return lambda columns: function(one(columns), other(columns))
