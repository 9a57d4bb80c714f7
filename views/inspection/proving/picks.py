"""Aggregates that pick a row, as the first by an order: which of equal rows that is, polars leaves open and views define.

So the order of views is added to the expression, which is still evaluated by polars. Nothing else of an expression is read here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from ...expressions.polars_tree import read, tree_of
from ...expressions.polars_writer import write
from ...expressions.tree import Alias, Call, Node, Rename, without_renaming

_FIRST, _LAST = ("first", "first_non_null"), ("last", "last_non_null")
_EXTREMES = {"max_by": True, "min_by": False, "arg_max": True, "arg_min": False}
"""Whether the greatest is picked."""

_LEFT_OUT = ("drop_nulls", "drop_nans")
_SORTS = ("sort", "sort_by", "reverse")
_RANKS = ("top_k", "top_k_by")


def with_order_of_equals(expr: pl.Expr, rows: pl.DataFrame, time: str | None) -> pl.Expr:
    """Return an aggregate over rows whose picks are decided among equal rows as views do.

    Of equal rows ``first`` and the extremes pick the smallest value and ``last`` the largest, null only where all are. ``time``
    is the column that orders rows where no order is given.
    """
    if expr.meta.has_multiple_outputs():
        return expr
    tree = read(expr)
    return expr if tree is None else _Picks(rows, time).decided(tree).alias(expr.meta.output_name())


class _Picks:
    """The picks within an expression over rows."""

    def __init__(self, rows: pl.DataFrame, time: str | None) -> None:
        self._rows = rows.clear()
        self._time = time if time in rows.columns else None

    def decided(self, node: Node) -> pl.Expr:
        """Return an expression with its picks decided."""
        inputs = [tree_of(self.decided(each)) if _may_pick(each) else each for each in node.inputs]
        node = node.with_inputs(inputs)
        picked: pl.Expr | None = None
        if isinstance(node, Call):
            if node.name in (*_FIRST, *_LAST):
                picked = self._of_order(node, node.inputs[0], nulls_last=node.name in _FIRST)
            elif node.name in ("implode", "str.join"):
                picked = self._listed(node, node.inputs[0])
            elif node.name in _EXTREMES:
                picked = self._extreme(node.name, *node.inputs) if len(node.inputs) == 2 else None
            elif node.name == "gather" and node.option("returns_scalar"):
                index = without_renaming(node.inputs[1])
                if index.name in _EXTREMES:
                    picked = self._extreme(index.name, node.inputs[0], *index.inputs)
        return write(node) if picked is None else picked

    def _of_order(self, node: Call, values: Node, *, nulls_last: bool) -> pl.Expr | None:
        if (decided := self._sorted(node, values, nulls_last=nulls_last)) is not None:
            return decided
        if self._time is None or _has(values, _SORTS) or not self._is_sortable(write(values)):
            return None
        value, time = write(values), pl.col(self._time)
        for condition in _conditions(values):
            time = condition(time)
        ordered = value.sort_by(time, value, nulls_last=[nulls_last, nulls_last], maintain_order=True)
        return write(node.with_inputs([tree_of(ordered)]))

    def _listed(self, node: Call, values: Node) -> pl.Expr | None:
        """Return an aggregate of all values in order: that of a sort, and without one that of the values."""
        if (decided := self._sorted(node, values, nulls_last=False)) is not None:
            return decided
        value = write(values)
        if (ranked := _ranked_in_order(values)) is not values:
            return write(node.with_inputs([ranked, *node.inputs[1:]]))
        if _has(values, _SORTS) or not self._is_sortable(value):
            return None
        return write(node.with_inputs([tree_of(value.sort()), *node.inputs[1:]]))

    def _sorted(self, node: Call, values: Node, *, nulls_last: bool) -> pl.Expr | None:
        """Return an aggregate of sorted values, with the value as the last key; None where they are not sorted by others."""
        if isinstance(values, Alias | Rename) or (isinstance(values, Call) and values.name in _LEFT_OUT):
            inner = self._sorted(values, values.inputs[0], nulls_last=nulls_last)  # type: ignore[arg-type]
            return None if inner is None else write(node.with_inputs([tree_of(inner), *node.inputs[1:]]))
        if not (isinstance(values, Call) and values.name == "sort_by"):
            return None
        value, *keys = map(write, values.inputs)
        if not self._is_sortable(value):
            return None
        options = values.option("options")
        descending, last = (_each(options[name], len(keys)) for name in ("descending", "nulls_last"))
        ordered = value.sort_by(
            *keys,
            value,
            descending=[*descending, False],
            nulls_last=[*last, nulls_last],
            maintain_order=True,
        )
        return write(node.with_inputs([tree_of(ordered), *node.inputs[1:]]))

    def _extreme(self, kind: str, values: Node, by: Node) -> pl.Expr | None:
        if _has(values, _SORTS) or _has(by, _SORTS) or not self._is_sortable(write(values)):
            return None
        order, is_there = write(by), write(by).is_not_null()
        value, order = write(values).filter(is_there), order.filter(is_there)
        keys, greatest = [order], _EXTREMES[kind]
        if self._rows.select(order).dtypes[0].is_float():
            keys.insert(0, order.is_nan())  # The last of all, for the greatest and the least alike.
        descending = [*(False for _ in keys[1:]), greatest, False]
        return value.sort_by(
            *keys, value, descending=descending, nulls_last=[True] * len(descending), maintain_order=True
        ).first()

    def _is_sortable(self, value: pl.Expr) -> bool:
        return not isinstance(self._rows.select(value).dtypes[0], pl.List | pl.Array | pl.Object)


def _ranked_in_order(values: Node) -> Node:
    """Return values with those of ``top_k`` and the like in their order, unless they are sorted later; the node itself if none is."""
    if not isinstance(values, Call) or values.name not in _RANKS:
        inputs = [each if values.name in _SORTS else _ranked_in_order(each) for each in values.inputs]
        is_changed = any(new is not old for new, old in zip(inputs, values.inputs, strict=True))
        return values.with_inputs(inputs) if is_changed else values
    value, count, *keys = map(write, values.inputs)
    greatest = [not each for each in _each(values.option("descending"), max(1, len(keys)))]
    if not keys:
        return tree_of(write(values).sort(descending=greatest[0], nulls_last=True))
    by = value.sort_by(
        *keys,
        value,
        descending=[*greatest, False],
        nulls_last=[*(True for _ in keys), False],
        maintain_order=True,
    )
    return tree_of(by.head(count))


def _may_pick(node: Node) -> bool:
    return _has(node, (*_FIRST, *_LAST, *_EXTREMES, "implode", "str.join", "gather"))


def _has(node: Node, names: Sequence[str]) -> bool:
    return node.name in names or any(_has(each, names) for each in node.inputs)


def _each(value: bool | Sequence[bool], count: int) -> list[bool]:
    values = [value] if isinstance(value, bool) else list(value)
    return values * count if len(values) == 1 else values


def _conditions(values: Node) -> list[Callable[[pl.Expr], pl.Expr]]:
    """Return what leaves rows out of values, from the first on."""
    if isinstance(values, Alias | Rename):
        return _conditions(values.inputs[0])
    if not (isinstance(values, Call) and values.name in ("filter", *_LEFT_OUT)):
        return []
    inner = values.inputs[0]
    value = write(inner)
    if values.name == "filter":
        conditions = [write(each) for each in values.inputs[1:]]
        return [*_conditions(inner), lambda time: time.filter(*conditions)]
    is_left = value.is_not_null() if values.name == "drop_nulls" else ~value.is_nan().fill_null(False)
    return [*_conditions(inner), lambda time: time.filter(is_left)]
