"""Expressions are checked to be row by row; the obstacle of one that is not names the reason and the remedy.

For most functions the name is enough (``functions``); the rules that depend on options or arguments, such as ``is_in`` of
a whole column, are here.
"""

import polars as pl

from evercurrent.core.data.columns.polars_versions import UNSTEADY, VERSION, steady_since
from evercurrent.core.data.schema import empty_frame

from .functions import ONE_VALUE, ROW_BY_ROW
from .known_schemas import resolved
from .polars_writer import write
from .showing import text
from .tree import (
    Aggregate,
    Call,
    Cast,
    Column,
    Element,
    Field,
    Literal,
    Nested,
    Node,
    Over,
    Record,
    Renaming,
    Selector,
    without_renaming,
)

Obstacle = tuple[str, str]
"""The reason why an expression is refused, and the remedy."""

PYTHON: Obstacle = (
    "it calls a Python function, and nothing shows whether that treats each row by itself",
    "declare it with map_batches",
)
_AGGREGATE: Obstacle = ("it aggregates over rows", "use it inside group_by(...).agg(...)")
_WINDOW: Obstacle = (
    "it reads the other rows of a window",
    "aggregate with group_by(...).agg(...) and join the result",
)
NEIGHBOURS: Obstacle = (
    "its value depends on other rows, and the rows of a collection have no order",
    'use it inside agg, on pl.col("x").sort_by("at"); or, if it does treat each row by itself, declare it with'
    " map_batches",
)
RANDOM: Obstacle = (
    "it is random, or has values in a random order, and the same input must have the same result",
    'use a hash of the row, as in pl.col("id").hash() % 10 == 0, or maintain_order=True',
)
_SERIES: Obstacle = (
    "a Series has rows of its own, which are not those of the collection",
    "push it to a source of its own and join",
)
_LOOKED_UP: Obstacle = (
    "it searches all rows of a column",
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


CAST_OF_STRUCT: Obstacle = (
    "polars casts the fields of a struct, and returns a struct in place of this type",
    'cast a field, as in pl.col("v").struct.field("x").cast(...)',
)
_NESTED_ANGLE: Obstacle = (
    "arctan2 takes two numbers, and for other types polars crashes the process",
    "take the fields or elements",
)


def _of_its_company(sound: tuple[int, ...]) -> Obstacle:
    since = ".".join(map(str, sound))
    reason = f"for such values the result of polars {pl.__version__} depends on other rows, which is repaired in polars {since}"
    return reason, f"use polars {since} or newer, or write it with pl.when(...)"


def _use(call: str) -> Obstacle:
    return "it changes how many rows there are", f"use {call} of the collection"


_OBSTACLES: dict[str, Obstacle] = {
    "list.sample": RANDOM,
    "random": RANDOM,
    "rolling": _WINDOW,
    "rolling_function": _WINDOW,
    "set_sorted": _SORTED,
    "sort": _ORDERED,
    "sort_by": _ORDERED,
    "explode": _use(".explode(...)"),
    "filter": _use(".filter(...)"),
    "drop_nulls": _use(".filter(... .is_not_null())"),
    "drop_nans": _use(".filter(... .is_not_nan())"),
    "unique": _use(".unique()"),
    "slice": _use(".limit(n, by=...)"),
    "top_k": _use(".top_k(k, by=...)"),
    "top_k_by": _use(".top_k(k, by=...)"),
}
"""Functions that are never row by row, each with its obstacle."""

LOOKING_UP = {
    "is_in": (1,),
    "dt.add_business_days": (2,),
    "business_day_count": (2,),
    "dt.is_business_day": (1,),
    "replace": (1, 2),
    "replace_strict": (1, 2),
    "sql.is_in": (1,),
}
"""Functions that search the arguments at these places: constants for all rows, or a list in each row."""


def obstacle(node: Node, schema: pl.Schema) -> str | None:
    """Return why an expression is not computed row by row, with the remedy; None where it is."""
    if reason_and_remedy := own_obstacle(node, schema):
        if reason_and_remedy is CAST_OF_STRUCT:
            return f"{text(node)}: {'; '.join(CAST_OF_STRUCT)}"
        return f"{text(node)} is not computed row by row: {reason_and_remedy[0]}; {reason_and_remedy[1]}"
    return next(filter(None, (obstacle(child, schema) for child in operands(node))), None)


def is_rowwise(node: Node, schema: pl.Schema) -> bool:
    """Return whether an expression is computed row by row."""
    return own_obstacle(node, schema) is None and all(is_rowwise(child, schema) for child in operands(node))


def operands(node: Node) -> list[Node]:
    """Return the inputs of a node, without constants that are searched: those may be a Series."""
    constant = LOOKING_UP.get(node.name, ())
    return [
        each for place, each in enumerate(node.inputs) if not (place in constant and _is_constant(node, each))
    ]


def _is_constant(node: Node, looked_up: Node) -> bool:
    """Return whether the searched values are constants of the expression; SQL writes them as a list of a Series."""
    if isinstance(looked_up, Aggregate) and looked_up.function == "implode":
        (looked_up,) = looked_up.inputs
    return isinstance(looked_up, Literal)


def own_obstacle(node: Node, schema: pl.Schema) -> Obstacle | None:
    """Return why the top node of a tree, apart from its inputs, is not computed row by row; None where it is."""
    if isinstance(node, Literal):
        return _SERIES if node.dtype == "series" else None
    if isinstance(node, Nested):
        inside = RANDOM if not node.sees_row and any(map(_is_random, node.evaluations)) else None
        return NEIGHBOURS if node.function == "cumulative_eval" else inside
    if isinstance(node, Cast):
        return CAST_OF_STRUCT if _is_cast_of_struct(node, schema) else None
    if isinstance(node, (*Renaming, Column, Element, Field)):
        return None
    if isinstance(node, Over):
        return _WINDOW
    if isinstance(node, Aggregate):
        return _AGGREGATE
    if isinstance(node, Selector):
        return NEIGHBOURS
    assert isinstance(node, Call), node
    return _OBSTACLES.get(node.function) or _obstacle_of(node, schema)


def _obstacle_of(node: Call, schema: pl.Schema) -> Obstacle | None:
    name = node.function
    if name in LOOKING_UP and not _looks_up_constants(node, schema):
        return _LOOKED_UP
    if name in ("arr.sum", "list.sum") and _holds_instants(node, schema):
        return _INSTANTS
    if name == "arctan2" and any(_type_of(each, schema).is_nested() for each in node.inputs):
        return _NESTED_ANGLE
    if (
        name in UNSTEADY
        and (since := steady_since(name, [_type_of(each, schema) for each in node.inputs])) > VERSION
    ):
        return _of_its_company(since)
    if name == "str.strptime" and node.option("options")["format"] is None:
        return _GUESSED
    if name == "fill_null_by" and node.option("strategy") in ("one", "zero"):
        return None
    if name == "bin" and _is_cut_at_constants(node.option("method")):
        return None
    if name in ROW_BY_ROW or name in ROW_OPERATORS or (name == "plugin" and _is_plugin_of_rows(node)):
        return None
    return _AGGREGATE if name in ONE_VALUE else NEIGHBOURS


ROW_OPERATORS = frozenset(
    {
        "add",
        "and",
        "div",
        "eq",
        "eq_missing",
        "floordiv",
        "ge",
        "gt",
        "le",
        "logical_and",
        "logical_or",
        "lt",
        "mod",
        "mul",
    }
    | {"ne", "ne_missing", "or", "sub", "truediv", "truncdiv", "when", "xor"}
)
"""Operators, and the choice between two values."""


def _is_cut_at_constants(method: Record) -> bool:
    """Return whether bins end at given values, and not at quantiles of the rows."""
    ((kind, how),) = method
    return kind == "intervals" and dict(how["spec"]).keys() == {"breaks"}


def _is_plugin_of_rows(node: Call) -> bool:
    """Return whether a plugin is declared to treat each row by itself."""
    return write(node.with_inputs([Column("x") for _ in node.inputs])).meta.is_row_separable()


def _is_random(node: Node) -> bool:
    """Return whether an expression within a row has another result each time, such as a random order of values."""
    if node.name in ("approx_quantile", "list.sample", "random", "value_counts"):
        return True
    if isinstance(node, Call) and node.function == "mode" and not node.option("maintain_order"):
        return True
    if isinstance(node, Call) and node.function == "rank" and node.option("options")["method"] == "random":
        return True
    below = node.evaluations if isinstance(node, Nested) and not node.sees_row else ()
    return any(map(_is_random, (*node.inputs, *below)))


def _holds_instants(node: Node, schema: pl.Schema) -> bool:
    """Return whether lists hold dates or times, for which polars has no sum, and a null within ``list.agg``."""
    dtype = _type_of(node.inputs[0], schema)
    inner = dtype.inner if isinstance(dtype, pl.List | pl.Array) else None
    return inner is not None and inner.is_temporal() and not isinstance(inner, pl.Duration)


def _looks_up_constants(node: Call, schema: pl.Schema) -> bool:
    """Return whether the values that a function searches are constant, or a list in the row if it takes one."""
    looked_up = [node.inputs[place] for place in LOOKING_UP[node.function]]
    columns = [each for each in looked_up if not _is_constant(node, each)]
    if not columns or node.function.startswith("replace") or not is_rowwise(columns[0], schema):
        return not columns
    return isinstance(_type_of(columns[0], schema), pl.List | pl.Array)


def _is_cast_of_struct(node: Cast, schema: pl.Schema) -> bool:
    """Return whether a column or field that is a struct is cast to what neither is a struct nor text."""
    if isinstance(node.dtype, pl.Struct) or node.dtype in (pl.String, pl.Struct):
        return False
    values = without_renaming(node.input)
    if isinstance(values, Column):
        return isinstance(schema.get(values.column), pl.Struct)
    is_field = values.name == "struct.field"
    return values.name == "struct" or (is_field and isinstance(_type_of(values, schema), pl.Struct))


def _type_of(node: Node, schema: pl.Schema) -> pl.DataType:
    rows = empty_frame(schema).lazy()
    ((_, dtype),) = resolved(text(node), lambda: rows.select(write(node))).items()
    return dtype
