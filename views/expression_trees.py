"""How polars represents an expression: the only file that knows.

polars writes an expression as a tree of JSON (``Expr.meta.serialize``) and reads it back. In that tree a *node*
is a name with a body, ``{"Cast": {"expr": ..., "dtype": ...}}``, or a bare name, ``"Len"``. The format is
polars' own and changes with its version: a tree lives as long as a definition is compiled and is never stored.
"""

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import PurePath
from typing import Any, TypeVar

import numpy as np
import polars as pl
import polars.selectors as cs

from evercurrent.core.errors import PlanError, first_line
from evercurrent.core.schema import listed, require_columns

_T = TypeVar("_T")

Node = dict[str, Any] | str
"""One expression in polars' tree of JSON."""

RENAMING = frozenset({"Alias", "KeepName", "RenameAlias"})
"""Nodes that give their child another name and leave its values alone."""


# Between expressions and trees.


_UNSAID = r"\b(dyn (int|float|str): )|(, sort_option=SortMultipleOptions \{[^}]*\})|(, require_all=true)"
"""What polars shows and nobody has written: types of literals, options that are the default."""

_ATOM = r'(?<!\w)\((col\("[^"]*"\)|-?[\d.]+|"[^"]*"|true|false)\)'
"""A name or a literal in brackets of its own."""


def shown(expr: pl.Expr) -> str:
    """An expression on one line: as polars shows it, with fewer brackets.

    >>> shown((pl.col("a") + 1 > pl.col("b")) & ~pl.col("c").is_in([2, 3]))
    '((col("a") + 1) > col("b")) & (col("c").is_in([[2, 3]]).not())'
    """
    said = re.sub(_ATOM, r"\1", re.sub(_UNSAID, "", re.sub(r"\s*\n\s*", " ", str(expr))))
    letters, opened = list(said), []
    for place, letter in enumerate(said):
        if letter == "[":
            opened.append(place)
        elif letter == "]" and opened:
            start = opened.pop()
            before, after = said[:start], said[place + 1 : place + 2]
            if before[-1:] + after in ("", "()") and not re.search(r"\w\($", before):
                letters[start] = letters[place] = ""
            elif not before or re.search(r"(?<!\w)\($", before):
                letters[start], letters[place] = "(", ")"
    return "".join(letters)


def written(write: Callable[[], _T]) -> _T | None:
    """What a call of ``Expr.meta.serialize`` gives; None where polars cannot write the expression."""
    try:
        return write()
    except (pl.exceptions.PolarsError, TypeError, ValueError):
        return None


def tree(expr: pl.Expr) -> Node | None:
    """The tree of an expression; None where polars cannot write it: it calls a Python function."""
    found = written(lambda: expr.meta.serialize(format="json"))
    # With cloudpickle at hand polars writes Python functions too, as bytes that say no more than nothing.
    return None if found is None or _PYTHON in found else json.loads(found)


_PYTHON = '"AnonymousFunction"'
"""Stands in the form of an expression that calls a Python function."""


def said(expr: pl.Expr) -> bytes:
    """All that an expression says, the same in every process: for digests of it, as the form is that of polars."""
    # The binary form, since JSON has no NaN and no infinity and polars writes both as null.
    found = written(lambda: expr.meta.serialize(format="binary"))
    if found is None:
        plain = without_python_renaming(expr)
        found = written(lambda: plain.meta.serialize(format="binary"))
    if found is None:
        return str(expr).encode()
    if _PLUGIN in found:
        return json.dumps(_portable(tree(expr)), sort_keys=True).encode()
    return found


_PLUGIN = b"FfiPlugin"
"""Stands in the form of an expression that calls a plugin."""


def _portable(node: Any) -> Any:
    """A tree in which plugins are named by their files, wherever these are."""
    if isinstance(node, list):
        return node if node and isinstance(node[0], int) else [_portable(each) for each in node]
    if not isinstance(node, dict):
        return node
    made = {name: _portable(body) for name, body in node.items()}
    if "lib" in made and "symbol" in made:
        made["lib"] = PurePath(str(made["lib"])).name
    return made


class TooDeepError(ValueError):
    """A tree is deeper than polars reads: 128 brackets within each other."""


def rebuilt(node: Node) -> pl.Expr:
    """The expression of a tree.

    Raises:
        TooDeepError: polars does not read it.
    """
    said = json.dumps(node)
    try:
        return pl.Expr.deserialize(io.StringIO(said), format="json")
    except pl.exceptions.ComputeError as error:
        if _brackets(said) >= MOST_BRACKETS:
            raise TooDeepError("a tree is too deep for polars to read") from error
        raise


MOST_BRACKETS = 128


def _brackets(said: str) -> int:
    """How many brackets stand within each other, those in texts included."""
    letters = np.frombuffer(said.encode(), np.uint8)
    opened = np.isin(letters, np.frombuffer(b"{[", np.uint8)).astype(np.int64)
    return int(np.cumsum(opened - np.isin(letters, np.frombuffer(b"}]", np.uint8))).max())


def text(node: Node) -> str:
    """A tree as polars shows the expression, for messages."""
    try:
        return shown(rebuilt(node))
    except (pl.exceptions.PolarsError, TooDeepError):
        return variant(node)[0]


def without_python_renaming(expr: pl.Expr) -> pl.Expr:
    """The expression without ``name.map(function)`` on top, which cannot be written where the rest can."""
    while tree(expr) is None:
        inputs = expr.meta.pop()
        if len(inputs) != 1 or not inputs[0].meta.undo_aliases().meta.eq(expr.meta.undo_aliases()):
            break
        (expr,) = inputs
    return expr


def cannot_be_rebuilt(node: Any) -> bool:
    """Whether a literal is NaN or infinite: JSON has neither, and polars writes null and cannot read it."""
    if isinstance(node, list):
        return any(map(cannot_be_rebuilt, node))
    if not isinstance(node, dict):
        return False
    return any(
        (body is None and name.startswith("Float")) or cannot_be_rebuilt(body)
        for name, body in node.items()
        if name != "Series"
    )


# Nodes and their children.

_FAMILIES = frozenset(
    {"ArrayExpr", "Bitwise", "Boolean", "Business", "CategoricalExpr", "ExtensionExpr", "ListExpr"}
    | {"Range", "StringExpr", "StructExpr", "TemporalExpr", "Trigonometry"}
)
"""Functions that are named by two words."""

_CHILDREN: dict[str, tuple[str | int, ...]] = {
    "Alias": (0,),
    "BinaryExpr": ("left", "right"),
    "Cast": ("expr",),
    "Eval": ("expr",),
    "Explode": ("input",),
    "Filter": ("input", "by"),
    "Function": ("input",),
    "Gather": ("expr", "idx"),
    "Over": ("function", "partition_by"),
    "RenameAlias": ("expr",),
    "Rolling": ("function", "index_column"),
    "Slice": ("input", "offset", "length"),
    "Sort": ("expr",),
    "SortBy": ("expr", "by"),
    "StructEval": ("expr", "evaluation"),
    "Ternary": ("predicate", "truthy", "falsy"),
}
"""Where the bodies of nodes keep their children: a node, or a list of them."""


def variant(node: Node) -> tuple[str, Any]:
    """The name of a node and its body; of a bare name, the name and None.

    An aggregate is named after itself, ``Agg.Sum``, and so is a function, ``NullCount`` or ``Boolean.IsIn``.
    """
    if isinstance(node, str):
        return node, None
    ((name, body),) = node.items()
    if name == "Agg":
        ((kind, inner),) = body.items()
        return f"Agg.{kind}", inner
    if name == "Function":
        return ".".join(_function_path(body["function"])), body
    return name, body


def _function_path(function: Any) -> Iterator[str]:
    if isinstance(function, str):
        yield function
        return
    name = next(iter(function))
    yield name
    if name in _FAMILIES and isinstance(function[name], str | dict):
        yield from _function_path(function[name])


def function_options(node: Node) -> Any:
    """What stands beside the name of a function: ``{"ignore_nulls": true}`` of ``Boolean.Any``."""
    name, body = variant(node)
    options = body["function"]
    for step in name.split("."):
        options = options[step] if isinstance(options, dict) else None
    return options


def _slots(node: Node) -> tuple[Any, tuple[str | int, ...]]:
    """The container of a node's children, and the places in it."""
    if isinstance(node, str):
        return node, ()
    ((name, body),) = node.items()
    if name == "Agg":
        ((kind, inner),) = body.items()
        if isinstance(inner, list):
            return inner, (0,)
        return (inner, ("input",)) if isinstance(inner, dict) and "input" in inner else (body, (kind,))
    return (node, (name,)) if name == "KeepName" else (body, _CHILDREN.get(name, ()))


def children(node: Node) -> list[Node]:
    """The expressions that a node is made of; not what stands inside ``list.eval``, which sees one row."""
    container, places = _slots(node)
    found = (container[place] for place in places)
    return list(chain.from_iterable(each if isinstance(each, list) else [each] for each in found))


def with_children(node: Node, replacements: Sequence[Node]) -> Node:
    """The node with other children; where it takes a list of them, with as many as are given."""
    changed: Node = _opened(node)
    container, places = _slots(changed)
    rest = list(replacements)
    for after, place in enumerate(reversed(places)):
        # From the last place back, so that what one list does not take is left to the single ones before it.
        single = len(places) - 1 - after
        if isinstance(container[place], list):
            container[place], rest = rest[single:], rest[:single]
        else:
            container[place] = rest.pop()
    return changed


def _opened(value: Any, depth: int = 4) -> Any:
    """A copy down to where children stand, which may be replaced in it; what is below is shared."""
    if not depth or not isinstance(value, dict | list):
        return value
    if isinstance(value, list):
        return [_opened(each, depth - 1) for each in value]
    return {name: _opened(body, depth - 1) for name, body in value.items()}


def without_renaming(node: Node) -> Node:
    """The node under its aliases."""
    while variant(node)[0] in RENAMING:
        (node,) = children(node)
    return node


def copied(node: Node) -> str | None:
    """The column that a tree is, under its own name or another; None where it computes."""
    name, body = variant(without_renaming(node))
    return str(body) if name == "Column" else None


def columns_of(node: Any) -> Iterator[str]:
    """The columns that a tree names, those of strict selectors too."""
    if isinstance(node, list):
        yield from chain.from_iterable(map(columns_of, node))
    if not isinstance(node, dict):
        return
    for name, body in node.items():
        if name == "Column" and isinstance(body, str):
            yield body
        elif name == "ByName":
            yield from body["names"] if body["strict"] else ()
        elif name == "Eval":
            yield from columns_of(body["expr"])
        elif name not in ("Literal", "SelectFields"):
            yield from columns_of(body)


# Expansion: one tree per output column.

_WIDE = frozenset(
    {"AsStruct", "Coalesce", "MaxHorizontal", "MeanHorizontal", "MinHorizontal", "SumHorizontal"}
    | {"ArrayExpr.Concat", "Boolean.AllHorizontal", "Boolean.AnyHorizontal", "ListExpr.Concat"}
    | {"StringExpr.ConcatHorizontal"}
)
"""Functions that take all columns of a selector as inputs, where others are applied to each."""


def expanded(where: str, schema: pl.Schema, node: Node, hidden: Iterable[str] = ()) -> list[Node]:
    """The trees that an expression with selectors stands for, one per output column.

    A selector that names no columns does not see the ``hidden`` ones: the keys, in a ``group_by``.

    Raises:
        PlanError: where selections of different lengths meet.
    """
    parts = [expanded(where, schema, child, hidden) for child in children(node)]
    name, body = variant(node)
    if name == "Selector":
        return [{"Column": column} for column in _selected(schema, node, body, set(hidden))]
    if name == "StructExpr.SelectFields":
        return [
            field for struct in parts[0] for field in _fields(where, schema, function_options(node), struct)
        ]
    if name in _WIDE:
        parts = [[each] for part in parts for each in part]
    lengths = {len(part) for part in parts} - {1}
    if not lengths:
        single = [part[0] for part in parts]
        return [node if single == children(node) else with_children(node, single)]
    if len(lengths) > 1:
        raise PlanError(
            f"{where}: {text(node)}: it combines selections of {listed(map(str, sorted(lengths)))} columns;"
            " select as many on both sides"
        )
    each_of = range(lengths.pop())
    return [with_children(node, [part[0 if len(part) == 1 else i] for part in parts]) for i in each_of]


def _selected(schema: pl.Schema, node: Node, body: Any, hidden: set[str]) -> list[str]:
    named = isinstance(body, dict) and not {"ByName", "ByIndex"}.isdisjoint(body)
    names = cs.expand_selector(schema, rebuilt(node), strict=False)
    return [name for name in names if named or name not in hidden]


def _fields(where: str, schema: pl.Schema, selector: Any, struct: Node) -> list[Node]:
    rows = schema.to_frame().lazy()
    ((_, dtype),) = resolved(f"{where}: {text(struct)}", lambda: rows.select(rebuilt(struct))).items()
    if not isinstance(dtype, pl.Struct):
        raise PlanError(f"{where}: {text(struct)}: it is {dtype} and has no fields; give a Struct")
    fields = pl.Schema(dtype.to_schema())
    require_columns(f"{where}: {text(struct)}", fields, columns_of({"Selector": selector}))
    names = cs.expand_selector(fields, rebuilt({"Selector": selector}), strict=False)
    return [
        {"Function": {"input": [struct], "function": {"StructExpr": {"FieldByName": name}}}} for name in names
    ]


def evaluated(about: str, schema: pl.Schema, ask: Callable[[Any], Any]) -> pl.Schema:
    """The columns that polars makes of a frame of this schema, found out by doing it to frames that hold nothing.

    ``ask`` takes a frame, eager or lazy, and gives one.

    Raises:
        PlanError: with the first line of what polars says, where it refuses.
    """
    empty = schema.to_frame()
    try:
        return _made(ask(empty))
    except pl.exceptions.DuplicateError:
        raise PlanError(
            f"{about}: it makes columns of one name; tell them apart with .name.suffix(...) or write them singly"
        ) from None
    except pl.exceptions.PanicException:
        # Some aggregates of nothing are beyond polars 2.1, as quantiles of dates; their types are not.
        again: pl.DataFrame | pl.LazyFrame = empty.lazy()
    except pl.exceptions.PolarsError:
        # What has no value for no rows, as `get(0)`, may have one for a row of nulls.
        again = empty.clear(1)
    return resolved(about, lambda: ask(again))


def resolved(about: str, make: Callable[[], pl.DataFrame | pl.LazyFrame]) -> pl.Schema:
    """The columns of a frame, which may be lazy: then polars says without doing anything.

    Raises:
        PlanError: with the first line of what polars says, where it refuses.
    """
    try:
        return _made(make())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise PlanError(f"{about}: {first_line(error)}") from error


def _made(frame: pl.DataFrame | pl.LazyFrame) -> pl.Schema:
    return frame.collect_schema()
