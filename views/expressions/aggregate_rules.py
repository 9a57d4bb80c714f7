"""The rules by which each aggregate of polars is compiled to incremental aggregates of the core."""

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from evercurrent.core.operators.group.aggregates import Distinct

from .aggregate_parts import COUNT, AggregateCompiler, Rows, Rules, SortKey
from .order_insensitive import NO_ORDER
from .polars_tree import tree_of
from .polars_writer import write
from .rowwise import Obstacle
from .tree import Call, Node, without_renaming

MOST_DIGITS = 38
"""Of a decimal; the product of no values is 1, which does not fit if all are after the point."""

_NOT_NUMBERS: Obstacle = ("it aggregates numbers, and its values are not numbers", "cast them first")
_NOT_BOOLEAN: Obstacle = (
    "it aggregates Booleans, and its values are not Booleans",
    "compare them with something",
)


def _len(parts: AggregateCompiler, node: Node) -> pl.Expr:
    return parts.additive("len", None, COUNT)


def _count(parts: AggregateCompiler, rows: Rows, node: Node, dtype: pl.DataType) -> pl.Expr:
    if option(node, "include_nulls"):
        return parts.length(rows)
    return parts.additive("count", rows.masked, COUNT)


def _null_count(parts: AggregateCompiler, rows: Rows, node: Node, dtype: pl.DataType) -> pl.Expr:
    return parts.null_count(rows)


def _has_nulls(parts: AggregateCompiler, rows: Rows, node: Node, dtype: pl.DataType) -> pl.Expr:
    return parts.null_count(rows) > 0


def _sum(parts: AggregateCompiler, rows: Rows, node: Node, dtype: pl.DataType) -> pl.Expr:
    if isinstance(dtype, pl.Duration):
        return parts.additive("sum", rows.masked.cast(pl.Int64), pl.Int64()).cast(dtype)
    is_count = parts.row_dtype(rows.value) == pl.Boolean
    return parts.additive("sum", rows.masked, COUNT if is_count else dtype)


def _mean(parts: AggregateCompiler, rows: Rows, node: Node, dtype: pl.DataType) -> pl.Expr:
    if not dtype.is_temporal():
        return parts.additive("mean", rows.masked, dtype)
    # As in polars: the mean of days or of time units in floating point, truncated to the unit of the result.
    mean = parts.additive("mean", rows.masked.cast(pl.Int64), pl.Float64())
    unit = 86_400_000_000 if parts.row_dtype(rows.value) == pl.Date else 1
    return (mean * unit).cast(pl.Int64).cast(dtype)


def _product(parts: AggregateCompiler, rows: Rows, node: Node, dtype: pl.DataType) -> None:
    """Refuse a product of which polars fails with any values; others are computed of all rows."""
    values = parts.row_dtype(rows.value)
    if values == pl.UInt128:
        parts.refuse(
            ("polars cannot compute the product of UInt128", "cast the column to Int128 or Float64"), node
        )
    if isinstance(values, pl.Decimal) and values.scale == MOST_DIGITS:
        parts.refuse(
            (
                "polars cannot compute the product of decimals without a digit before the point",
                "cast the column to Float64",
            ),
            node,
        )


def _var(parts: AggregateCompiler, rows: Rows, node: Node, dtype: pl.DataType) -> pl.Expr:
    return parts.additive("var", rows.masked, dtype, ddof=option(node, "ddof"))


def _std(parts: AggregateCompiler, rows: Rows, node: Node, dtype: pl.DataType) -> pl.Expr:
    return parts.additive("std", rows.masked, dtype, ddof=option(node, "ddof"))


def _any(parts: AggregateCompiler, rows: Rows, node: Node, dtype: pl.DataType) -> pl.Expr:
    any_true = parts.additive("any", _as_boolean(parts, rows, node), dtype)
    if option(node, "ignore_nulls"):
        return any_true
    return pl.when(any_true | (parts.null_count(rows) == 0)).then(any_true)


def _all(parts: AggregateCompiler, rows: Rows, node: Node, dtype: pl.DataType) -> pl.Expr:
    all_true = parts.additive("all", _as_boolean(parts, rows, node), dtype)
    if option(node, "ignore_nulls"):
        return all_true
    return pl.when(~all_true | (parts.null_count(rows) == 0)).then(all_true)


def _as_boolean(parts: AggregateCompiler, rows: Rows, node: Node) -> pl.Expr:
    dtype = parts.row_dtype(rows.value)
    if dtype == pl.Boolean:
        return rows.masked
    if not (dtype.is_numeric() or dtype == pl.Null):
        parts.refuse(_NOT_BOOLEAN, node)
    return rows.masked.cast(pl.Boolean)


def _median(parts: AggregateCompiler, node: Node) -> pl.Expr | None:
    """Polars computes the mean of the two middle values in 64 bits, also of floats of 32.

    Earlier versions did not: a cast gives the median another identity, so that no state is taken over that was computed of theirs.
    """
    if parts.group_dtype(write(node)) != pl.Float32:
        return None
    return write(parts.over_group(tree_of(write(node.inputs[0]).cast(pl.Float64).median()))).cast(pl.Float32)


def _moment(parts: AggregateCompiler, rows: Rows, node: Node, dtype: pl.DataType) -> None:
    # Without rows polars accepts any type for these, and would report the error only when there is data.
    input_type = parts.row_dtype(rows.value)
    if input_type.is_nested() or input_type in (pl.String, pl.Binary, pl.Categorical, pl.Enum):
        parts.refuse(_NOT_NUMBERS, node)


def _bitwise(parts: AggregateCompiler, rows: Rows, node: Node, dtype: pl.DataType) -> None:
    # For nulls alone polars has one result in a select and another in a group_by.
    if dtype == pl.Boolean:
        parts.refuse(("polars does not define its result for nulls", "use any() or all()"), node)


def _n_unique(parts: AggregateCompiler, rows: Rows, node: Node, dtype: pl.DataType) -> pl.Expr:
    distinct = parts.part(Distinct, dtype=COUNT, input=parts.prepare(rows.masked))
    if rows.where is None:
        return distinct
    # The null in place of rows that do not count is not counted, unless a row that counts is null as well.
    masked_out = parts.additive("null_count", rows.masked, COUNT) > 0
    return distinct - masked_out.cast(COUNT) + (parts.null_count(rows) > 0).cast(COUNT)


def _min(parts: AggregateCompiler, rows: Rows, node: Node, dtype: pl.DataType) -> pl.Expr:
    nan_first = option(node, "propagate_nans")
    return parts.pick(dtype, rows.masked, _from_smallest(parts, rows.masked, nan_first))


def _max(parts: AggregateCompiler, rows: Rows, node: Node, dtype: pl.DataType) -> pl.Expr:
    nan_first = option(node, "propagate_nans")
    return parts.pick(dtype, rows.masked, _from_largest(parts, rows.masked, nan_first))


def _from_smallest(parts: AggregateCompiler, value: pl.Expr, nan_first: bool = False) -> list[SortKey]:
    ascending: SortKey = (value, False, True)
    if nan_first and parts.row_dtype(value).is_float():
        return [(value.is_nan(), True, True), ascending]
    return [ascending]


def _from_largest(parts: AggregateCompiler, value: pl.Expr, nan_first: bool = False) -> list[SortKey]:
    # NaN sorts above all numbers, but is the maximum only where there is no number.
    descending: SortKey = (value, True, True)
    if not nan_first and parts.row_dtype(value).is_float():
        return [(value.is_nan(), False, True), descending]
    return [descending]


def _max_by(parts: AggregateCompiler, node: Node) -> pl.Expr | None:
    return _extreme(parts, node, node.inputs, _from_largest)


def _min_by(parts: AggregateCompiler, node: Node) -> pl.Expr | None:
    return _extreme(parts, node, node.inputs, _from_smallest)


def _get(parts: AggregateCompiler, node: Node) -> pl.Expr | None:
    value, index = node.inputs
    index = without_renaming(index)
    extremes = {"arg_max": _from_largest, "arg_min": _from_smallest}
    if not option(node, "returns_scalar") or index.name not in extremes:
        return None
    return _extreme(parts, node, [value, *index.inputs], extremes[index.name])


def _extreme(
    parts: AggregateCompiler,
    node: Node,
    inputs: Sequence[Node],
    order: Callable[[AggregateCompiler, pl.Expr], list[SortKey]],
) -> pl.Expr | None:
    rows, by = (parts.rows(each) for each in inputs)
    if rows is None or by is None or not rows.pairs_with(by):
        return None
    keys = [*order(parts, by.value), (rows.value, False, True)]
    return parts.pick(
        parts.group_dtype(write(node)), rows.value, keys, by.among(by.value.is_not_null()).where
    )


def _first(parts: AggregateCompiler, rows: Rows, node: Node, dtype: pl.DataType) -> pl.Expr:
    order = rows.order or _default_order(parts, node, descending=False)
    return _picked(parts, rows, node, dtype, [*order, (rows.value, False, True)])


def _last(parts: AggregateCompiler, rows: Rows, node: Node, dtype: pl.DataType) -> pl.Expr:
    turned = [(by, not descending, not nulls_last) for by, descending, nulls_last in rows.order]
    order = turned or _default_order(parts, node, descending=True)
    return _picked(parts, rows, node, dtype, [*order, (rows.value, True, True)])


def _picked(
    parts: AggregateCompiler, rows: Rows, node: Node, dtype: pl.DataType, order: list[SortKey]
) -> pl.Expr:
    if node.name.endswith("non_null"):
        rows = rows.among(rows.value.is_not_null())
    return parts.pick(dtype, rows.value, order, rows.where)


def _default_order(parts: AggregateCompiler, node: Node, *, descending: bool) -> list[SortKey]:
    if parts.default_order is None:
        parts.refuse(NO_ORDER, node)
    return [(pl.col(parts.default_order), descending, True)]


def _joined(parts: AggregateCompiler, rows: Rows, node: Node, dtype: pl.DataType) -> pl.Expr | None:
    if isinstance(parts.row_dtype(rows.value), pl.Duration):
        parts.refuse(("polars has no text for a Duration", "make text of it, as with .dt.to_string()"), node)
    return _listed(parts, rows, node, dtype)


def _listed(parts: AggregateCompiler, rows: Rows, node: Node, dtype: pl.DataType) -> pl.Expr | None:
    if not rows.order:
        return None
    value = pl.col(parts.prepare(rows.value))
    inputs = [value.meta.output_name()]
    if rows.where is not None:
        inputs.append(parts.prepare(rows.where))
        value = value.filter(pl.col(inputs[-1]))
    order = parts.ordered(rows.order)
    inputs += [each.column for each in order]
    expr = write(node.with_inputs([tree_of(value)]))
    return parts.recomputed(dtype, dict.fromkeys(inputs), expr, order)


def option(node: Node, name: str) -> Any:
    """Return an option of a function."""
    assert isinstance(node, Call), node
    return node.option(name)


RULES = Rules(
    of_rows={
        "count": _count,
        "null_count": _null_count,
        "has_nulls": _has_nulls,
        "sum": _sum,
        "mean": _mean,
        "product": _product,
        "var": _var,
        "std": _std,
        "any": _any,
        "all": _all,
        "bitwise_and": _bitwise,
        "bitwise_or": _bitwise,
        "bitwise_xor": _bitwise,
        "n_unique": _n_unique,
        "min": _min,
        "max": _max,
        "first": _first,
        "first_non_null": _first,
        "last": _last,
        "last_non_null": _last,
        "implode": _listed,
        "str.join": _joined,
        "skew": _moment,
        "kurtosis": _moment,
    },
    of_any={
        "len": _len,
        "max_by": _max_by,
        "min_by": _min_by,
        "gather": _get,
        "median": _median,
    },
)
