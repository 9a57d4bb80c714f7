"""An expression with selectors is expanded to one tree per output column."""

from __future__ import annotations

import operator
from collections.abc import Iterable

import polars as pl
import polars.selectors as cs

from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import empty_frame, listed, require_columns

from .known_schemas import resolved
from .polars_writer import write
from .showing import text
from .tree import Call, Column, Node, Selector

_WIDE = frozenset(
    {
        "all_horizontal",
        "any_horizontal",
        "coalesce",
        "concat_arr",
        "concat_list",
        "concat_str",
        "max_horizontal",
    }
    | {"mean_horizontal", "min_horizontal", "struct", "sum_horizontal"}
)
"""Functions that take all columns of a selector as inputs; other functions are applied to each column."""


SELECT_FIELDS = "struct.select"
"""The function that becomes a column for each selected field."""


def expanded(where: str, schema: pl.Schema, node: Node, hidden: Iterable[str] = ()) -> list[Node]:
    """Return the trees into which an expression with selectors expands, one per output column.

    A selector that does not name columns skips the ``hidden`` ones: the keys, in a ``group_by``.

    Raises:
        PlanError: selections of different lengths are combined.
    """
    return _expanded(where, schema, node, hidden) if _has_selectors(node) else [node]


def _has_selectors(node: Node) -> bool:
    return isinstance(node, Selector) or node.name == SELECT_FIELDS or any(map(_has_selectors, node.inputs))


def _expanded(where: str, schema: pl.Schema, node: Node, hidden: Iterable[str]) -> list[Node]:
    inputs = node.inputs
    parts = [_expanded(where, schema, each, hidden) for each in inputs]
    if isinstance(node, Selector):
        return [Column(column) for column in _selected(schema, node, set(hidden))]
    if isinstance(node, Call) and node.function == SELECT_FIELDS:
        return [
            field for struct in parts[0] for field in _fields(where, schema, node.option("fields"), struct)
        ]
    if node.name in _WIDE:
        parts = [[each] for part in parts for each in part]
    lengths = {len(part) for part in parts} - {1}
    if not lengths:
        single = tuple(part[0] for part in parts)
        same = len(single) == len(inputs) and all(map(operator.is_, single, inputs))
        return [node if same else node.with_inputs(single)]
    if len(lengths) > 1:
        raise PlanError(
            f"{where}: {text(node)}: it combines selections of {listed(map(str, sorted(lengths)))} columns;"
            " select the same number on both sides"
        )
    each_of = range(lengths.pop())
    return [node.with_inputs([part[0 if len(part) == 1 else i] for part in parts]) for i in each_of]


def _selected(schema: pl.Schema, node: Selector, hidden: set[str]) -> list[str]:
    names = cs.expand_selector(schema, write(node), strict=False)
    return [name for name in names if node.is_literal or name not in hidden]


def _fields(where: str, schema: pl.Schema, selector: Selector, struct: Node) -> list[Node]:
    rows = empty_frame(schema).lazy()
    ((_, dtype),) = resolved(f"{where}: {text(struct)}", lambda: rows.select(write(struct))).items()
    if not isinstance(dtype, pl.Struct):
        raise PlanError(f"{where}: {text(struct)}: it is {dtype} and has no fields; give a Struct")
    fields = pl.Schema(dtype.to_schema())
    require_columns(f"{where}: {text(struct)}", fields, selector.required)
    names = cs.expand_selector(fields, write(selector), strict=False)
    return [Call("struct.field", (struct,), (("field", name),)) for name in names]
