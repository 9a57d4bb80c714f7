"""Our tree of an expression is written back in polars' form: see ``polars_tree``."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import numpy as np
import polars as pl

from evercurrent.core.data.columns.polars_versions import VERSION

from .message_pack import packed
from .polars_forms import (
    LISTS_WRITTEN,
    OPERATORS_WRITTEN,
    SQL_WRITTEN,
    STRUCTS_WRITTEN,
    Form,
    forms_by_our_names,
)
from .polars_values import CODECS, thawed, written_literal
from .tree import (
    Alias,
    Call,
    Cast,
    Column,
    Element,
    Field,
    Literal,
    Nested,
    Node,
    OfOne,
    Option,
    Over,
    Rename,
    Selector,
)


class TooDeepError(ValueError):
    """A tree is deeper than polars reads: 128 nested brackets."""


def write(node: Node) -> pl.Expr:
    """Return the expression of a tree.

    Raises:
        TooDeepError: polars does not read it.
    """
    body = body_of(node)
    if _has_lost_numbers(node):
        return pl.Expr.deserialize(io.BytesIO(packed(body)), format="binary")
    text = json.dumps(body, default=list)
    try:
        return pl.Expr.deserialize(io.StringIO(text), format="json")
    except pl.exceptions.ComputeError as error:
        if _brackets(text) >= MOST_BRACKETS:
            raise TooDeepError("a tree is too deep for polars to read") from error
        raise


MOST_BRACKETS = 128


def _brackets(text: str) -> int:
    """Return how deeply brackets nest, those in texts included."""
    letters = np.frombuffer(text.encode(), np.uint8)
    opened = np.isin(letters, np.frombuffer(b"{[", np.uint8)).astype(np.int64)
    return int(np.cumsum(opened - np.isin(letters, np.frombuffer(b"}]", np.uint8))).max())


def _has_lost_numbers(node: Node) -> bool:
    """Return whether a number in the tree is NaN or infinite, which JSON cannot hold."""
    match node:
        case Literal(value=value):
            return _is_lost(value)
        case OfOne(input=input):
            return _has_lost_numbers(input)
        case Call(inputs=inputs, options=options):
            return any(_is_lost(value) for _, value in options) or any(map(_has_lost_numbers, inputs))
        case Nested(input=input, evaluations=evaluations):
            return any(map(_has_lost_numbers, (input, *evaluations)))
    return any(map(_has_lost_numbers, node.inputs))


def _is_lost(value: Option) -> bool:
    match value:
        case float():
            return not math.isfinite(value)
        case Literal(value=inner):
            return _is_lost(inner)
        case tuple():
            return any(map(_is_lost, value))
    return False


def body_of(node: Node) -> Any:
    """Return polars' form of a tree."""
    match node:
        case Column(column=column):
            return {"Column": column}
        case Element():
            return "Element"
        case Field(fields=fields):
            return {"Field": list(fields)}
        case Literal():
            return {"Literal": written_literal(node)}
        case Selector(description=description):
            return {"Selector": thawed(description)}
        case Alias(input=input, alias=alias):
            return {"Alias": [body_of(input), alias]}
        case Rename(input=input, how="keep"):
            return {"KeepName": body_of(input)}
        case Rename(input=input, how=how, argument=argument):
            word = CODECS["word"][1](how)
            return {
                "RenameAlias": {
                    "expr": body_of(input),
                    "function": word if argument is None else {word: thawed(argument)},
                }
            }
        case Cast(input=input, dtype=dtype, how=how):
            return {
                "Cast": {
                    "expr": body_of(input),
                    "dtype": CODECS["type"][1](dtype),
                    "options": CODECS["word"][1](how),
                }
            }
        case Over():
            return {"Over": _over_body(node)}
        case Nested():
            return _nested_body(node)
        case Call():
            return _call_body(node)
    raise AssertionError(node)


def _over_body(node: Over) -> Any:
    by = None if node.order_by is None else [body_of(node.order_by), thawed(node.order)]
    keys, mapping = list(map(body_of, node.partition_by)), CODECS["word"][1](node.mapping)
    return {"function": body_of(node.input), "partition_by": keys, "order_by": by, "mapping": mapping}


def _nested_body(node: Nested) -> Any:
    expr, evaluations = body_of(node.input), list(map(body_of, node.evaluations))
    if node.function in STRUCTS_WRITTEN:
        variant = {} if VERSION < (2, 0) else {"variant": STRUCTS_WRITTEN[node.function]}
        return {"StructEval": {"expr": expr, "evaluation": evaluations, **variant}}
    options = dict(node.options)
    kinds = {"arr.eval": {"Array": options}, "cumulative_eval": {"Cumulative": options}}
    kind = LISTS_WRITTEN.get(node.function) or kinds[node.function]
    return {"Eval": {"expr": expr, "evaluation": evaluations[0], "variant": kind}}


def _call_body(node: Call) -> Any:
    inputs = list(map(body_of, node.inputs))
    if node.function in OPERATORS_WRITTEN:
        return {"BinaryExpr": {"left": inputs[0], "op": OPERATORS_WRITTEN[node.function], "right": inputs[1]}}
    if node.function == "len":
        return "Len"
    if node.function in SQL_WRITTEN:
        return {"Function": {"input": inputs, "function": {"Sql": {"Binary": SQL_WRITTEN[node.function]}}}}
    if node.function == "plugin":
        plugin = {name: thawed(value) for name, value in node.options}
        return {"Function": {"input": inputs, "function": {"FfiPlugin": plugin}}}
    if VERSION < (2, 0) and node.function == "hash" and isinstance(node.option("seed"), int):
        return {"Function": {"input": inputs, "function": {"Hash": [node.option("seed")] * 4}}}
    if VERSION < (1, 41) and node.function == "quantile":
        method = CODECS["word"][1](node.option("method"))
        return {"Agg": {"Quantile": {"expr": inputs[0], "quantile": inputs[1], "method": method}}}
    kind, form = forms_by_our_names()[node.function]
    options = _written_options(form, node)
    if kind == "Agg":
        if form.style == "none":
            return {"Agg": {form.theirs: inputs[0]}}
        body = [inputs[0], *options] if form.style == "items" else {"input": inputs[0], **options}
        return {"Agg": {form.theirs: body}}
    if kind == "Function":
        family, _, name = form.theirs.rpartition(".")
        function = name if form.style == "none" else {name: options}
        return {"Function": {"input": inputs, "function": {family: function} if family else function}}
    fields = dict(zip(form.inputs, inputs, strict=False))
    if form.inputs[-1].endswith("*"):
        fields.pop(form.inputs[-1], None)
        fields[form.inputs[-1][:-1]] = inputs[len(form.inputs) - 1 :]
    return {form.theirs: {**fields, **(options or {})}}


def _written_options(form: Form, node: Call) -> Any:
    values = [
        CODECS[option.codec][1](value) for option, (_, value) in zip(form.options, node.options, strict=True)
    ]
    if form.style == "fields":
        return {option.theirs: value for option, value in zip(form.options, values, strict=True)}
    return values if form.style == "items" else values[0] if form.style == "single" else None
