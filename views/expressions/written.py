"""Expressions and columns of values are written as bytes for digests, the same with every version of polars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import numpy as np
import polars as pl

from .dtype_text import dtype_text
from .polars_tree import Expression, UnreadableError, series_of
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
    Option,
    Over,
    Record,
    Rename,
    Selector,
    Values,
)

Write = Callable[[Any], bytes]
"""A writer of a plain value, or a tuple of them, with a length, so that its end is known."""

MOST, LONGEST = 2000, 4000
"""How many expressions are cached, and the most bytes of their form in polars."""

OF_A_VERSION = frozenset({"approx_n_unique", "approx_quantile", "hash"})
"""Functions whose results depend on the version of polars, so that their digests do too."""

LOOKED_UP = "is_in"
"""A search among constants whose order does not matter, as the order of a Python set differs in each process."""

_known: dict[tuple[bytes, bool], bytes] = {}


def expression_bytes(expr: pl.Expr, write: Write, *, as_given: bool = False) -> bytes:
    """Return the bytes of an expression, the same in every process. It never raises.

    For an expression that calls a Python function they are polars' printed text, and for an unknown form polars' bytes.
    ``as_given`` leaves the constants of ``is_in`` in the given order, as in the second scheme of digests.
    """
    expression = Expression(expr)
    form = expression.form or b""
    content = _known.get((form, as_given)) if form else None
    if content is None:
        content = _made_bytes(expression, write, as_given=as_given)
        if form and len(form) <= LONGEST:
            if len(_known) >= MOST:
                _known.clear()
            _known[form, as_given] = content
    return content


def _made_bytes(expression: Expression, write: Write, *, as_given: bool) -> bytes:
    try:
        node = expression.without_python_renaming.tree
    except UnreadableError:
        return write(("form", expression.form or b""))
    return (
        write(("shown", str(expression.expr))) if node is None else tree_bytes(node, write, as_given=as_given)
    )


def tree_bytes(node: Node, write: Write, *, as_given: bool = False) -> bytes:
    """Return the bytes of a tree. Each node has the number of its inputs, so that no recursion is needed."""
    waiting, parts = [node], []
    while waiting:
        node = waiting.pop()
        content, below = _content_and_inputs(node)
        if not as_given and isinstance(node, Call) and node.function == LOOKED_UP:
            below = tuple(map(_in_any_order, below))
        parts.append(write((*content, len(below))))
        waiting.extend(reversed(below))
    return b"".join(parts)


def _in_any_order(node: Node) -> Node:
    """Return several constants in a canonical order; lists and structs, which no set can hold, keep their order."""
    if not isinstance(node, Literal) or not isinstance(node.value, Values):
        return node
    values = series_of(node.value)
    if values.dtype.is_nested():
        return node
    plain = values.cast(pl.String) if isinstance(values.dtype, pl.Categorical | pl.Enum) else values
    return replace(node, value=series_parts(values.gather(plain.arg_sort())))


def _content_and_inputs(node: Node) -> tuple[tuple[Option, ...], tuple[Node, ...]]:
    """Return a node's own content, in a form that never changes, and its inputs."""
    match node:
        case Column(column=column):
            return ("column", column), ()
        case Element():
            return ("element",), ()
        case Field(fields=fields):
            return ("field", *fields), ()
        case Literal(dtype=dtype, value=value):
            return ("literal", _plain(dtype), _plain(value)), ()
        case Selector(description=description):
            return ("selector", _plain(description)), ()
        case Alias(alias=alias):
            return ("alias", alias), node.inputs
        case Rename(how=how, argument=argument):
            return ("rename", how, _plain(argument)), node.inputs
        case Cast(dtype=dtype, how=how):
            return ("cast", _plain(dtype), how), node.inputs
        case Over(order=order, mapping=mapping, order_by=by):
            return ("over", by is not None, _plain(order), mapping), node.inputs
        case Nested(function=function, options=options, input=input, evaluations=evaluations):
            return ("within", function, *_options(options)), (input, *evaluations)
        case Call(function="plugin", options=options):
            portable = ((name, PurePath(value).name if name == "lib" else value) for name, value in options)
            return ("call", "plugin", *_options(tuple(portable))), node.inputs
        case Call(function=function, options=options):
            version = (pl.__version__,) if function in OF_A_VERSION else ()
            return ("call", function, *version, *_options(options)), node.inputs
    raise AssertionError(node)


def _options(options: tuple[tuple[str, Option], ...]) -> Iterator[Option]:
    return ((name, _plain(value)) for name, value in sorted(options))


def _plain(value: Option) -> Option:
    """Return an option or a constant as plain values and tuples of them."""
    match value:
        case pl.DataType():
            return "type", dtype_text(value)
        case Values():
            return series_parts(series_of(value))
        case Literal(dtype=dtype, value=inner):
            return "literal", _plain(dtype), _plain(inner)
        case Selector(description=description):
            return "selector", _plain(description)
        case Record():
            return "record", *((name, _plain(body)) for name, body in value)
        case tuple():
            return tuple(map(_plain, value))
    return value


def series_parts(values: pl.Series) -> tuple[Option, ...]:
    """Return the content of a column of values: its name, type, length, nulls and values."""
    is_null = np.packbits(values.is_null().to_numpy()).tobytes() if values.null_count() else b""
    return values.name, dtype_text(values.dtype), len(values), is_null, *_content(values)


def _content(values: pl.Series) -> Iterator[Option]:
    match values.dtype:
        case pl.Struct(fields=fields):
            for place in range(len(fields)):
                yield series_parts(values.struct.unnest().to_series(place))
        case pl.List() | pl.Array():
            lists = values.arr.to_list() if isinstance(values.dtype, pl.Array) else values
            yield lists.list.len().fill_null(0).cast(pl.Int64).to_numpy().astype("<i8").tobytes()
            filled = lists.drop_nulls().filter(lists.drop_nulls().list.len() > 0)
            yield series_parts(filled.explode(empty_as_null=False).rename(""))
        case pl.Categorical() | pl.Enum():
            yield from _content(values.cast(pl.String))
        case pl.String() | pl.Binary():
            plain = values.cast(pl.Binary).drop_nulls()
            yield plain.bin.size().cast(pl.Int64).to_numpy().astype("<i8").tobytes()
            yield b"".join(plain)
        case pl.Boolean():
            yield np.packbits(values.fill_null(False).to_numpy()).tobytes()
        case pl.Null():
            return
        case pl.Float32() | pl.Float64():
            yield _little(values.fill_null(0).to_numpy())
        case dtype if dtype.is_decimal() or dtype in _WIDE:
            yield tuple(None if each is None else str(each) for each in values)
        case dtype if dtype.is_numeric() or dtype.is_temporal():
            yield _little(values.to_physical().fill_null(0).to_numpy())
        case _:
            yield tuple(map(repr, values))


def _little(numbers: np.ndarray[Any, Any]) -> bytes:
    return numbers.astype(numbers.dtype.newbyteorder("<")).tobytes()


_WIDE = (pl.Int128, getattr(pl, "UInt128", pl.Int128))
