"""Whether an expression is computed row by row, and if not, why, and what to do instead.

polars answers for the top of an expression only (``Expr.meta.is_row_separable``), and calls separable what makes
more rows or fewer (``explode``, ``filter``, ``drop_nulls``) or looks through a whole column (``is_in`` of one). So
every node of the tree is asked alone, and those are known here by name.
"""

import warnings

import polars as pl

from .expression_trees import (
    RENAMING,
    Node,
    cannot_be_rebuilt,
    children,
    function_options,
    rebuilt,
    resolved,
    text,
    variant,
    with_children,
)

Obstacle = tuple[str, str]
"""Why an expression is refused, and the way out."""

PYTHON: Obstacle = (
    "it calls a Python function, and polars does not know whether that treats each row by itself",
    "declare it with map_batches",
)
_AGGREGATE: Obstacle = ("it aggregates over rows", "use it inside group_by(...).agg(...)")
_WINDOW: Obstacle = (
    "it looks at the other rows of a window",
    "aggregate with group_by(...).agg(...) and join the result",
)
NEIGHBOURS: Obstacle = (
    "its value depends on other rows, and the rows of a collection have no order",
    'use it inside agg, on pl.col("x").sort_by("at"); or, if it does treat each row by itself, declare it with'
    " map_batches",
)
RANDOM: Obstacle = (
    "it is random, or gives values in a random order, and the same input must give the same result",
    'use a hash of the row, as in pl.col("id").hash() % 10 == 0, or maintain_order=True',
)
_SERIES: Obstacle = (
    "a Series has rows of its own, which are not those of the collection",
    "push it to a source of its own and join",
)
_LOOKED_UP: Obstacle = (
    "it looks through all rows of a column",
    "give constants or a list column, or join with the other collection",
)
_SORTED: Obstacle = ("it promises sorted rows, and the rows of a collection have no order", "leave it out")
_ORDERED: Obstacle = (
    "it puts rows in an order, which a collection does not have",
    "sort what you read, or keep the first rows with .limit(n, by=...)",
)
_GUESSED: Obstacle = (
    "it guesses the format from all rows",
    'give the format, as in .str.to_datetime("%Y-%m-%d %H:%M")',
)


_INSTANTS: Obstacle = (
    "dates and times do not add up",
    "take the differences first, or .list.mean(), .list.min() or .list.max()",
)


_NESTED_ANGLE: Obstacle = (
    "an angle is that of two numbers, and of anything else polars ends the process",
    "take the fields or elements",
)


def _use(call: str) -> Obstacle:
    return "it changes how many rows there are", f"use {call} of the collection"


_OBSTACLES: dict[str, Obstacle] = {
    "AnonymousFunction": PYTHON,
    "Over": _WINDOW,
    "Rolling": _WINDOW,
    "RollingExpr": _WINDOW,
    "ListExpr.Sample": RANDOM,
    "Random": RANDOM,
    "SetSortedFlag": _SORTED,
    "Sort": _ORDERED,
    "SortBy": _ORDERED,
    "Explode": _use(".explode(...)"),
    "Filter": _use(".filter(...)"),
    "DropNulls": _use(".filter(... .is_not_null())"),
    "DropNans": _use(".filter(... .is_not_nan())"),
    "Unique": _use(".unique()"),
    "Slice": _use(".limit(n, by=...)"),
    "TopK": _use(".top_k(k, by=...)"),
    "TopKBy": _use(".top_k(k, by=...)"),
}
"""Nodes and functions, or families of functions, that are never row by row, whatever polars calls them."""

_ROW_BY_ROW = RENAMING | {"BinaryExpr", "Cast", "Column", "Element", "Field", "StructEval", "Ternary"}

LOOKING_UP = {
    "Boolean.IsIn": (1,),
    "Business.AddBusinessDay": (2,),
    "Business.BusinessDayCount": (2,),
    "Business.IsBusinessDay": (1,),
    "Replace": (1, 2),
    "ReplaceStrict": (1, 2),
}
"""Functions that look values up in arguments at these places: constants for all rows, or a list in each."""


def obstacle(node: Node, schema: pl.Schema) -> str | None:
    """Why an expression is not computed row by row, with the way out; None where it is."""
    if found := own_obstacle(node, schema):
        return f"{text(node)} is not computed row by row: {found[0]}; {found[1]}"
    return next(filter(None, (obstacle(child, schema) for child in operands(node))), None)


def operands(node: Node) -> list[Node]:
    """The children of a node without constants that are looked up: those may be a Series."""
    constant = LOOKING_UP.get(variant(node)[0], ())
    return [
        child
        for place, child in enumerate(children(node))
        if not (place in constant and variant(child)[0] == "Literal")
    ]


def own_obstacle(node: Node, schema: pl.Schema) -> Obstacle | None:
    """Why the top of a tree, whatever its children are, is not computed row by row; None where it is."""
    name, body = variant(node)
    if name == "Literal":
        return _SERIES if "Series" in body else None
    if name == "Eval":
        inside = RANDOM if _is_random(body["evaluation"]) else None
        return NEIGHBOURS if "Cumulative" in body["variant"] else inside
    if name in _ROW_BY_ROW:
        return None
    if name == "Len" or name.startswith("Agg."):
        return _AGGREGATE
    if known := _OBSTACLES.get(name) or _OBSTACLES.get(name.split(".")[0]):
        return known
    if isinstance(node, str) or "Function" not in node:
        return NEIGHBOURS
    if name in LOOKING_UP and not _looks_up_constants(node, schema):
        return _LOOKED_UP
    if name in ("ArrayExpr.Sum", "ListExpr.Sum") and _holds_instants(node, schema):
        return _INSTANTS
    if name == "Atan2" and any(_type_of(child, schema).is_nested() for child in children(node)):
        return _NESTED_ANGLE
    return _function_obstacle(node)


def _is_random(node: Node) -> bool:
    """Whether an expression within a row gives something else each time, as some order of values."""
    name, body = variant(node)
    if name in ("ApproxQuantile", "ListExpr.Sample", "Random", "ValueCounts"):
        return True
    if name == "Mode" and not function_options(node)["maintain_order"]:
        return True
    if name == "Rank" and function_options(node)["options"]["method"] == "Random":
        return True
    below = [*children(node), *([body["evaluation"]] if name == "Eval" else [])]
    return any(map(_is_random, below))


def _function_obstacle(node: Node) -> Obstacle | None:
    # Of a nested expression polars tells only whether its top is separable: so each function is asked alone.
    alone = rebuilt(with_children(node, [_stand_in(child) for child in children(node)]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these questions are marked unstable
        try:
            if alone.meta.is_row_separable():
                return None
            if variant(node)[0] == "StringExpr.Strptime":
                return _GUESSED
            return _AGGREGATE if alone.meta.is_scalar() else NEIGHBOURS
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            return NEIGHBOURS


def _stand_in(child: Node) -> Node:
    plain = variant(child)[0] == "Literal" and not cannot_be_rebuilt(child)
    return child if plain else {"Column": "x"}


def _holds_instants(node: Node, schema: pl.Schema) -> bool:
    """Whether lists are of dates or times, of which polars has no sum, and gives null for one within ``list.agg``."""
    dtype = _type_of(children(node)[0], schema)
    inner = dtype.inner if isinstance(dtype, pl.List | pl.Array) else None
    return inner is not None and inner.is_temporal() and not isinstance(inner, pl.Duration)


def _looks_up_constants(node: Node, schema: pl.Schema) -> bool:
    """Whether what a function looks through is constant, or a list in the row where it takes one."""
    inputs = children(node)
    name = variant(node)[0]
    columns = [inputs[place] for place in LOOKING_UP[name] if variant(inputs[place])[0] != "Literal"]
    if not columns or name.startswith("Replace") or obstacle(columns[0], schema):
        return not columns
    return isinstance(_type_of(columns[0], schema), pl.List | pl.Array)


def _type_of(node: Node, schema: pl.Schema) -> pl.DataType:
    rows = schema.to_frame().lazy()
    ((_, dtype),) = resolved(text(node), lambda: rows.select(rebuilt(node))).items()
    return dtype
