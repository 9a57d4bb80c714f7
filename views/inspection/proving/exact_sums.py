"""Sums, means and variances are added up without rounding, as those of views are, where polars rounds after each value.

Where values cancel, as 1e17 and -1e17, what rounding loses may be more than what is left. All else of an expression is evaluated by polars.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import polars as pl

from ...expressions.expansion import expanded
from ...expressions.polars_tree import output_name, read, tree_of
from ...expressions.polars_writer import write
from ...expressions.tree import Aggregate, Nested, Node, Over, reads_columns

Values = Sequence[float]
Aggregated = Callable[[Values], "float | None"]


def with_exact_sums(expr: pl.Expr, rows: pl.DataFrame, group: str) -> tuple[list[pl.Expr], pl.DataFrame]:
    """Return an aggregate as one expression per output column, and the rows with what these read besides.

    ``group`` is the column that numbers the groups of rows, from 0 on without gaps.
    """
    tree = read(expr)
    if tree is None or not rows.height:
        return [expr], rows
    sums = _Sums(rows, group)
    trees = expanded("prove", rows.drop(group).schema, tree)
    exact = [sums.exact(each) for each in trees]
    if sums.rows is rows:
        return [expr], rows
    named = zip(trees, exact, strict=True)
    return [write(after).alias(output_name(write(before))) for before, after in named], sums.rows


class _Sums:
    """The exact sums within expressions, each of which becomes a column of the rows."""

    def __init__(self, rows: pl.DataFrame, group: str) -> None:
        self.rows = rows
        self._group = group

    def exact(self, node: Node) -> Node:
        """Return a tree that reads its sums from columns."""
        if isinstance(node, Over | Nested):
            return node  # Their aggregates are of other rows than those of the group.
        node = node.with_inputs([self.exact(each) for each in node.inputs])
        aggregated = self._aggregated(node)
        if aggregated is None:
            return node
        lists = self.rows.group_by(self._group).agg(write(node.inputs[0]).implode().alias("#values"))
        values = lists.sort(self._group).get_column("#values").list.drop_nulls().to_list()
        dtype = self.rows.select(write(node)).to_series().dtype
        of_groups = pl.Series([*map(aggregated, values)], dtype=pl.Float64).cast(dtype)
        name = f"#exact {self.rows.width}"
        self.rows = self.rows.with_columns(of_groups.gather(self.rows.get_column(self._group)).alias(name))
        return tree_of(pl.col(name).first())

    def _aggregated(self, node: Node) -> Aggregated | None:
        """Return what computes the value of a group exactly; None if polars does so, or it is something else."""
        if not isinstance(node, Aggregate) or node.name not in ("sum", "mean", "var", "std"):
            return None
        (values,) = node.inputs
        if not reads_columns(values):
            return None
        dtype = self.rows.clear().select(write(values)).to_series().dtype
        if node.name == "sum":
            return _sum if dtype.is_float() else None
        if not (dtype.is_float() or dtype.is_integer()):
            return None
        if node.name == "mean":
            return _mean
        return partial(_spread, ddof=node.option("ddof"), root=node.name == "std")


def _sum(values: Values) -> float:
    if not all(map(math.isfinite, values)):
        return sum(values)
    try:
        return math.fsum(values)
    except OverflowError:
        return _rounded(sum(map(Fraction, values)))


def _mean(values: Values) -> float | None:
    # Divided after it was rounded, as in views and in polars: mean * len - sum is 0.
    return _sum(values) / len(values) if values else None


def _spread(values: Values, *, ddof: int, root: bool) -> float | None:
    count = len(values)
    if count <= ddof:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    # Integers, so that nothing is divided before the end: each value is one over a power of two.
    ratios = [value.as_integer_ratio() for value in values]
    unit = max(below for _, below in ratios)
    numbers = [above * (unit // below) for above, below in ratios]
    squares = count * sum(number * number for number in numbers) - sum(numbers) ** 2
    variance = _rounded(Fraction(squares, count * (count - ddof) * unit * unit))
    return math.sqrt(variance) if root else variance


def _rounded(value: Fraction | int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
