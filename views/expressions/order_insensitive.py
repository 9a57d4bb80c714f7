"""Expressions over a group are accepted only if they do not depend on the order of its rows.

A group's rows are sorted by all their prepared columns, so any expression over them is a function of the collection. But
one that uses the order of rows (``first``, ``shift``, ``cum_sum``) would use an order that the user did not state: it is
refused unless it is applied to a ``sort`` or ``sort_by``.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import NoReturn

import polars as pl

from evercurrent.core.operators.group.ranks import METHODS, Ranks

from .functions import ONE_VALUE, SAME_ROWS
from .polars_tree import read, tree_of
from .polars_writer import write
from .rowwise import (
    CAST_OF_STRUCT,
    LOOKING_UP,
    NEIGHBOURS,
    RANDOM,
    Obstacle,
    is_rowwise,
    operands,
    own_obstacle,
)
from .tree import Aggregate, Alias, Call, Column, Literal, Node, Record, Renaming, reads_columns

NO_ORDER: Obstacle = (
    "it depends on the order of rows, and the rows of a collection have none",
    'state an order below it, as in pl.col("x").sort_by("at").first()',
)
_RANKED: Obstacle = (
    "it depends on the order of the values of top_k or bottom_k, and these have none",
    'sort them, as in pl.col("x").top_k(3).sort(descending=True).first()',
)
SINGLE: Obstacle = (
    "it aggregates a constant or a single value, not the rows of the group",
    "aggregate a column, or count rows with pl.len()",
)
_UNPAIRED: Obstacle = (
    "it combines values that are not in the same rows",
    "filter and sort all of them alike, or combine them first",
)
_OPAQUE: Obstacle = (
    "how it treats the rows of a group is not known",
    "use aggregates that are kept current, or write one with aggregate(create=..., add=..., ...)",
)

_GIVING_ONE = frozenset(
    {
        "all",
        "any",
        "approx_n_unique",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "corr",
        "count",
        "entropy",
        "has_nulls",
    }
    | {
        "implode",
        "is_empty",
        "kurtosis",
        "max",
        "max_by",
        "mean",
        "median",
        "min",
        "min_by",
        "n_unique",
        "null_count",
    }
    | {"product", "quantile", "skew", "std", "str.join", "sum", "var"}
)
"""Aggregates of any rows. ``implode`` and ``str.join`` keep the order of the prepared rows, which is that of the values."""

_KEEPING_ROWS = frozenset({"is_duplicated", "is_unique", "rank"})
"""Functions that compute a value of every row that does not depend on the order of rows."""

_RANKING = frozenset({"top_k", "top_k_by"})
"""Functions that keep the first values by an order, which polars returns in any order."""

_CHOOSING_ROWS = frozenset({"drop_nans", "drop_nulls", "filter", "mode", "unique"}) | _RANKING
"""Functions that keep some values, whatever their order."""

_LISTING = frozenset({"implode", "str.join"})
"""Aggregates whose result shows the order of the values."""

_SORTING = frozenset({"sort", "sort_by"})

_REFUSED_ALWAYS = frozenset(
    {"agg_groups", "approx_quantile", "explode", "item", "over", "random", "rolling", "value_counts"}
)
"""Functions that are always refused; ``approx_quantile`` and the order of ``value_counts`` differ from process to process."""

_PLAIN = (
    _GIVING_ONE
    | _KEEPING_ROWS
    | _CHOOSING_ROWS
    | _SORTING
    | {"alias", "column", "first", "last", "literal", "rename"}
)
"""Nodes that pass values on or aggregate them, with the same result for a group alone as beside others."""


def computes(expr: pl.Expr) -> bool:
    """Return whether an expression over a group does more than select and aggregate values, such as divide."""
    node = read(expr)
    return node is None or _computes(node)


def ranked(expr: pl.Expr) -> Ranks | None:
    """Return which values of a column an expression over a group is made of, if it is a median or a quantile and nothing more.

    >>> ranked(pl.col("price").quantile(0.9))
    Ranks(method='nearest', quantile=0.9)
    """
    node = read(expr)
    if node is None or node.name not in ("median", "quantile"):
        return None
    column, *others = node.inputs
    while column.name == "alias":
        (column,) = column.inputs
    if column.name != "column":
        return None
    if node.name == "median":
        return Ranks("median")
    (quantile,) = others
    if not (isinstance(node, Call) and isinstance(quantile, Literal) and isinstance(quantile.value, float)):
        return None
    method = str(node.option("method"))
    return Ranks(method, quantile.value) if method in METHODS and 0 <= quantile.value <= 1 else None


def _computes(node: Node) -> bool:
    return node.name not in _PLAIN or any(map(_computes, node.inputs))


@dataclass(frozen=True, slots=True)
class RowAlignment:
    """The alignment of an expression's values: the rows that they are in, and whether their order was stated."""

    rows: Hashable
    ordered: bool = False


class Arranging:
    """The rewriter of an expression over a group's rows into one over prepared columns, whose order does not matter.

    ``prepare`` returns the name of the prepared column of a row by row expression; the names used are in
    ``inputs``. ``refuse`` raises.
    """

    def __init__(
        self,
        schema: pl.Schema,
        prepare: Callable[[pl.Expr], str],
        name_of: Callable[[Node], str],
        refuse: Callable[[Obstacle, Node], NoReturn],
    ) -> None:
        self.schema = schema
        self.prepare = prepare
        self.name_of = name_of
        self.refuse = refuse
        self.inputs: dict[str, None] = {}

    def arrange(self, node: Node) -> tuple[Node, RowAlignment | None]:
        """Return the rewritten tree and the alignment of its values; None for one value per group."""
        own = own_obstacle(node, self.schema)
        if own is CAST_OF_STRUCT:
            return self.refuse(own, node)
        if isinstance(node, Literal):
            return self.refuse(own, node) if own else (node, None)
        if reads_columns(node) and is_rowwise(node, self.schema):
            prepared = self.prepare(write(node))
            self.inputs[prepared] = None
            return self._named(Column(prepared), node), RowAlignment("group")
        within = operands(node)
        parts = [
            self.arrange(each) if any(each is operand for operand in within) else (each, None)
            for each in node.inputs
        ]
        arranged = node.with_inputs([part for part, _ in parts])
        if isinstance(node, Renaming):
            return self._named(arranged.inputs[0], node), parts[0][1]
        standings = [standing for _, standing in parts]
        if own is None or node.name in LOOKING_UP:
            return arranged, self._combined(node, standings)
        return self._rule(node, arranged, standings, own)

    def _named(self, arranged: Node, original: Node) -> Node:
        return Alias(arranged, self.name_of(original))

    def _rule(
        self, node: Node, arranged: Node, standings: list[RowAlignment | None], own: Obstacle
    ) -> tuple[Node, RowAlignment | None]:
        name = node.name
        below = standings[0] if name == "gather" else self._combined(node, standings)
        if name == "len":
            return arranged, None
        if below is None and name in _GIVING_ONE | _KEEPING_ROWS | _CHOOSING_ROWS | _SORTING:
            return self.refuse(SINGLE, node)
        if name in _GIVING_ONE:
            is_unordered = name in _LISTING and below is not None and not below.ordered
            return _ranked_in_order(arranged) if is_unordered else arranged, None
        if name in _SORTING:
            return _stable(arranged), RowAlignment(_key(node, below), ordered=True)
        if name in _KEEPING_ROWS and not _rank_method(node) & {"ordinal", "random"}:
            return arranged, below
        if name in _CHOOSING_ROWS:
            keeps_order = below is not None and below.ordered and name not in _RANKING
            return _stable(arranged), RowAlignment(_key(node, below), keeps_order)
        if own is RANDOM or name in _REFUSED_ALWAYS or "random" in _rank_method(node):
            is_opaque = own is NEIGHBOURS or isinstance(node, Aggregate) or name in ONE_VALUE
            return self.refuse(_OPAQUE if is_opaque else own, node)
        if below is None or not below.ordered:
            return self.refuse(_RANKED if _is_ranked(arranged) else NO_ORDER, node)
        if isinstance(node, Call) and name == "gather":
            single = node.option("returns_scalar")
            return arranged, None if single else RowAlignment(_key(node, below), ordered=True)
        if isinstance(node, Aggregate) or name in ONE_VALUE:
            return arranged, None
        return arranged, below if name in SAME_ROWS else RowAlignment(_key(node, below), ordered=True)

    def _combined(self, node: Node, standings: Iterable[RowAlignment | None]) -> RowAlignment | None:
        alignments = {standing for standing in standings if standing is not None}
        if len(alignments) > 1:
            self.refuse(_UNPAIRED, node)
        return next(iter(alignments), None)


def _key(node: Node, below: RowAlignment | None) -> Hashable:
    """Return the identity of the rows that a node keeps, or of their order."""
    # The first input of filter and sort_by is filtered or sorted; the others determine the rows.
    deciding = node.inputs[1:] if node.name in ("filter", "sort_by") else (node,)
    return node.name, below, deciding


def _rank_method(node: Node) -> set[str]:
    """Return the method of a rank; for other nodes an empty set."""
    if isinstance(node, Call) and node.function == "rank":
        return {node.option("options")["method"]}
    return set()


def _is_ranked(node: Node) -> bool:
    return node.name in _RANKING or (bool(node.inputs) and _is_ranked(node.inputs[0]))


def _ranked_in_order(node: Node) -> Node:
    """Return the node with the values of ``top_k`` and ``bottom_k`` in it in the order by which they are kept.

    Of ``top_k_by`` and ``bottom_k_by`` equal rows are in the order of the prepared rows.
    """
    node = node.with_inputs([_ranked_in_order(each) for each in node.inputs])
    if not (isinstance(node, Call) and node.function in _RANKING):
        return node
    descending = node.option("descending")
    if node.function == "top_k":
        return tree_of(write(node).sort(descending=not descending, nulls_last=True))
    values, count, *by = map(write, node.inputs)
    flags = [not each for each in descending]
    return tree_of(
        values.sort_by(*by, descending=flags, nulls_last=[True] * len(flags), maintain_order=True).head(count)
    )


def _stable(node: Node) -> Node:
    """Return the node with its option to keep the order of equal rows, so that the same rows give the same result."""
    if isinstance(node, Call) and node.function == "sort_by":
        options = Record(
            (name, True if name == "maintain_order" else value) for name, value in node.option("options")
        )
        return node.with_option("options", options)
    if isinstance(node, Call) and node.function in ("mode", "unique"):
        return node.with_option("maintain_order", True)
    return node
