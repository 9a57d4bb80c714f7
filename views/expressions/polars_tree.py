"""Our tree of an expression, read from the form in which polars writes it, and written back to be evaluated.

With ``polars_forms``, ``polars_functions`` and ``polars_values``, which hold the words, this is all that knows that form.
polars does not promise it from one version to the next: a form that is not known, and with a version of polars that is
newer than ``TESTED`` one that does not come back as it was, is refused by its name.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import PurePath
from typing import Any, TypeVar

import numpy as np
import polars as pl

from evercurrent.core.errors import PlanError

from .message_pack import packed, unpacked
from .polars_forms import FAMILIES, OPERATORS, SQL_OPERATORS, Form, aggregates, functions, structures
from .polars_values import (
    CODECS,
    LostNumberError,
    UnknownFormError,
    dumped,
    frozen,
    literal_of,
    selector_of,
    shortened,
    single,
    thawed,
    written_literal,
)
from .tree import (
    Aggregate,
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
    Rename,
    Selector,
    Values,
)

_T = TypeVar("_T")

VERSION = tuple(int(part) for part in pl.__version__.split(".")[:2])
TESTED = (2, 1)
"""The newest polars whose forms are known by their tests; those of a newer one are tested when they are first met."""

MOST, LONGEST = 2000, 4000
"""So many trees are remembered, of expressions that take up to so many bytes."""

_known: dict[bytes, Node] = {}


class TooDeepError(ValueError):
    """A tree is deeper than polars reads: 128 brackets within each other."""


class UnreadableError(PlanError):
    """polars writes an expression in a form that is not known here."""


def written(write: Callable[[], _T]) -> _T | None:
    """What a call of ``Expr.meta.serialize`` gives; None where polars cannot write the expression."""
    try:
        return write()
    except (pl.exceptions.PolarsError, TypeError, ValueError):
        return None


def form_of(expr: pl.Expr) -> bytes | None:
    """What tells an expression from others in this process, as quickly as can be; None where it calls a Python function."""
    return written(lambda: expr.meta.serialize(format="binary"))


_PYTHON = b"AnonymousFunction"
"""Stands in the form of an expression that calls a Python function, where cloudpickle writes that as bytes."""


def read(expr: pl.Expr) -> Node | None:
    """The tree of an expression; None where polars cannot write it: it calls a Python function.

    >>> read(pl.col("a") + 1)
    Call(function='add', inputs=(Column(column='a'), Literal(dtype='int', value=1)), options=())

    Raises:
        UnreadableError: polars writes it in a form that is not known, which is named.
    """
    form = form_of(expr)
    if form is None:
        return None
    found = _known.get(form)
    if found is None:
        if _PYTHON in form:
            return None
        found = _read_anew(expr, form)
        if len(form) <= LONGEST:
            if len(_known) >= MOST:
                _known.clear()
            _known[form] = found
    return found


def _read_anew(expr: pl.Expr, form: bytes) -> Node:
    try:
        try:
            node = _node(json.loads(expr.meta.serialize(format="json")))
        except LostNumberError:
            node = _node(unpacked(form))
        if VERSION > TESTED and form_of(write(node)) != form:
            raise UnknownFormError("what comes back is another expression")
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, TooDeepError):
            raise
        found = error.form if isinstance(error, UnknownFormError) else f"{type(error).__name__}: {error}"
        way_out = _WAYS_OUT.get(found) or (
            "write it with other functions of polars, as .cast(...), when(...) and arithmetic, or declare it with map_batches"
        )
        raise UnreadableError(
            f"polars {pl.__version__} writes it in a form that is not known here ({found}); {way_out}"
        ) from error
    return node


_WAYS_OUT = {"SubPlan": "a query within an expression has rows of its own: make a view of it, and join"}
"""What to do instead of some forms that will not be known."""


def write(node: Node) -> pl.Expr:
    """The expression of a tree.

    Raises:
        TooDeepError: polars does not read it.
    """
    body = _body(node)
    if _has_lost_numbers(node):
        return pl.Expr.deserialize(io.BytesIO(packed(body)), format="binary")
    text = dumped(body)
    try:
        return pl.Expr.deserialize(io.StringIO(text), format="json")
    except pl.exceptions.ComputeError as error:
        if _brackets(text) >= MOST_BRACKETS:
            raise TooDeepError("a tree is too deep for polars to read") from error
        raise


MOST_BRACKETS = 128


def _brackets(text: str) -> int:
    """How many brackets stand within each other, those in texts included."""
    letters = np.frombuffer(text.encode(), np.uint8)
    opened = np.isin(letters, np.frombuffer(b"{[", np.uint8)).astype(np.int64)
    return int(np.cumsum(opened - np.isin(letters, np.frombuffer(b"}]", np.uint8))).max())


def _has_lost_numbers(node: Node) -> bool:
    """Whether a number in it is NaN or infinite, which JSON has no word for."""
    match node:
        case Literal(value=value):
            return _is_lost(value)
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


def series_of(values: Values) -> pl.Series:
    """The values that a constant holds."""
    return pl.read_ipc_stream(io.BytesIO(values.stream)).to_series()


# The forms of this version.


@cache
def _functions() -> dict[str, Form]:
    return {form.theirs: form for form in functions(VERSION)}


@cache
def _aggregates() -> dict[str, Form]:
    return {form.theirs: form for form in aggregates()}


@cache
def _structures() -> dict[str, Form]:
    return {form.theirs: form for form in structures()}


@cache
def _by_our_names() -> dict[str, tuple[str, Form]]:
    tables = {"Function": _functions(), "Agg": _aggregates(), "": _structures()}
    return {form.ours: (kind, form) for kind, table in tables.items() for form in table.values()}


_OPERATORS_WRITTEN = {ours: theirs for theirs, ours in OPERATORS.items()}
_SQL_WRITTEN = {ours: theirs for theirs, ours in SQL_OPERATORS.items()}


# From polars' form to ours.


def _node(body: Any) -> Node:
    if isinstance(body, str):
        if body not in _BARE:
            raise UnknownFormError(body)
        return _BARE[body]
    name, inner = single(body)
    if name in _READERS:
        return _READERS[name](inner)
    form = _structures().get(name)
    if form is None:
        raise UnknownFormError(name)
    inputs: list[Node] = []
    for place in form.inputs:
        inputs += _nodes(inner[place[:-1]]) if place.endswith("*") else (_node(inner[place]),)
    places = {place.rstrip("*") for place in form.inputs}
    options = {name: value for name, value in inner.items() if name not in places}
    return Call(form.ours, tuple(inputs), _options(form, options))


_BARE: dict[str, Node] = {"Len": Aggregate("len", ()), "Element": Element()}


def _nodes(bodies: Any) -> tuple[Node, ...]:
    return tuple(map(_node, bodies))


def _options(form: Form, body: Any) -> tuple[tuple[str, Option], ...]:
    """The options of a form, all that it has and no others."""
    if form.style == "none":
        if body:
            raise UnknownFormError(f"{form.theirs} with {shortened(body)}")
        return ()
    values = [body] if form.style == "single" else body
    if form.style == "fields":
        if not isinstance(body, dict) or body.keys() != {option.theirs for option in form.options}:
            raise UnknownFormError(f"{form.theirs} with {shortened(body)}")
        values = [body[option.theirs] for option in form.options]
    if len(values) != len(form.options):
        raise UnknownFormError(f"{form.theirs} with {shortened(body)}")
    return tuple(
        (option.ours, CODECS[option.codec][0](value))
        for option, value in zip(form.options, values, strict=True)
    )


def _function(body: Any) -> Node:
    path: Any = body["function"]
    options: Any = None
    if not isinstance(path, str):
        path, options = single(path)
        if path in FAMILIES:
            inner, options = (options, None) if isinstance(options, str) else single(options)
            path = f"{path}.{inner}"
    inputs = _nodes(body["input"])
    if path == "Sql.Binary" and options in SQL_OPERATORS:
        return Call(SQL_OPERATORS[options], inputs)
    if path == "FfiPlugin":
        return Call("plugin", inputs, tuple((name, frozen(options[name])) for name in sorted(options)))
    if path in _OLDER:
        return _OLDER[path](inputs, options)
    form = _functions().get(path)
    if form is None:
        raise UnknownFormError(f"Function {path}")
    return Call(form.ours, inputs, _options(form, options))


def _aggregate(body: Any) -> Node:
    name, inner = single(body)
    if name == "Quantile":
        inputs = (_node(inner["expr"]), _node(inner["quantile"]))
        return Call("quantile", inputs, (("method", CODECS["word"][0](inner["method"])),))
    form = _aggregates().get(name)
    if form is None:
        raise UnknownFormError(f"Agg {name}")
    if form.style == "none":
        return Aggregate(form.ours, (_node(inner),))
    if form.style == "items":
        return Aggregate(form.ours, (_node(inner[0]),), _options(form, inner[1:]))
    options = {name: value for name, value in inner.items() if name != "input"}
    return Aggregate(form.ours, (_node(inner["input"]),), _options(form, options))


def _operator(body: Any) -> Node:
    if body["op"] not in OPERATORS:
        raise UnknownFormError(f"BinaryExpr {body['op']}")
    return Call(OPERATORS[body["op"]], (_node(body["left"]), _node(body["right"])))


def _cast(body: Any) -> Node:
    return Cast(_node(body["expr"]), CODECS["type"][0](body["dtype"]), CODECS["word"][0](body["options"]))


def _over(body: Any) -> Node:
    by, order = body["order_by"] or (None, None)
    ordered = None if by is None else _node(by)
    mapping = CODECS["word"][0](body["mapping"])
    return Over(_node(body["function"]), _nodes(body["partition_by"]), ordered, frozen(order), mapping)


_LISTS = {"List": "list.eval", "ListAgg": "list.agg", "ArrayAgg": "arr.agg"}
_LISTS_WRITTEN = {ours: theirs for theirs, ours in _LISTS.items()}


def _evaluation(body: Any) -> Node:
    variant = body["variant"]
    within = _node(body["expr"]), (_node(body["evaluation"]),)
    if isinstance(variant, str) and variant in _LISTS:
        return Nested(_LISTS[variant], *within)
    kind, options = single(variant)
    if kind == "Array":
        return Nested("arr.eval", *within, (("as_list", options["as_list"]),))
    if kind == "Cumulative":
        return Nested("cumulative_eval", *within, (("min_samples", options["min_samples"]),))
    raise UnknownFormError(f"Eval {shortened(variant)}")


_STRUCTS = {"WithFields": "struct.with_fields", "Select": "struct.eval"}
_STRUCTS_WRITTEN = {ours: theirs for theirs, ours in _STRUCTS.items()}


def _struct_evaluation(body: Any) -> Node:
    # Before polars 2.0 there was one of them, without a word for it.
    variant = body.get("variant", "WithFields")
    if variant not in _STRUCTS:
        raise UnknownFormError(f"StructEval {variant}")
    return Nested(_STRUCTS[variant], _node(body["expr"]), _nodes(body["evaluation"]))


def _rename(body: Any) -> Node:
    how, argument = (
        (body["function"], None) if isinstance(body["function"], str) else single(body["function"])
    )
    return Rename(_node(body["expr"]), CODECS["word"][0](how), frozen(argument))


_READERS: dict[str, Callable[[Any], Node]] = {
    "Agg": _aggregate,
    "Alias": lambda body: Alias(_node(body[0]), body[1]),
    "BinaryExpr": _operator,
    "Cast": _cast,
    "Column": Column,
    "Eval": _evaluation,
    "Field": lambda body: Field(tuple(body)),
    "Function": _function,
    "KeepName": lambda body: Rename(_node(body), "keep"),
    "Literal": literal_of,
    "Over": _over,
    "RenameAlias": _rename,
    "Selector": selector_of,
    "StructEval": _struct_evaluation,
}


def _nested(function: str, evaluation: Node, **options: Option) -> Callable[[tuple[Node, ...], Any], Node]:
    return lambda inputs, _: Nested(function, inputs[0], (evaluation,), tuple(options.items()))


def _unique(function: str, **options: Option) -> Callable[[tuple[Node, ...], Any], Node]:
    def read_unique(inputs: tuple[Node, ...], ordered: Any) -> Node:
        unique = Call("unique", (Element(),), (("maintain_order", ordered),))
        return Nested(function, inputs[0], (unique,), tuple(options.items()))

    return read_unique


def _hash(inputs: tuple[Node, ...], seeds: Any) -> Node:
    """A hash, which had four seeds before polars 2.0, the same one four times where one was given."""
    seed = seeds[0] if isinstance(seeds, list) and len(set(seeds)) == 1 else frozen(seeds)
    return Call("hash", inputs, (("seed", seed),))


_REVERSED, _COUNTED = Call("reverse", (Element(),)), Aggregate("n_unique", (Element(),))

_OLDER: dict[str, Callable[[tuple[Node, ...], Any], Node]] = {
    "ArrayExpr.NUnique": _nested("arr.agg", _COUNTED),
    "ArrayExpr.Reverse": _nested("arr.eval", _REVERSED, as_list=False),
    "ArrayExpr.Unique": _unique("arr.eval", as_list=True),
    "Hash": _hash,
    "ListExpr.NUnique": _nested("list.agg", _COUNTED),
    "ListExpr.Reverse": _nested("list.eval", _REVERSED),
    "ListExpr.Unique": _unique("list.eval"),
}
"""Functions that an older polars wrote, as what a newer one writes for the same."""


# And back.


def _body(node: Node) -> Any:
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
            return {"Alias": [_body(input), alias]}
        case Rename(input=input, how="keep"):
            return {"KeepName": _body(input)}
        case Rename(input=input, how=how, argument=argument):
            word = CODECS["word"][1](how)
            return {
                "RenameAlias": {
                    "expr": _body(input),
                    "function": word if argument is None else {word: thawed(argument)},
                }
            }
        case Cast(input=input, dtype=dtype, how=how):
            return {
                "Cast": {
                    "expr": _body(input),
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
    by = None if node.order_by is None else [_body(node.order_by), thawed(node.order)]
    keys, mapping = list(map(_body, node.partition_by)), CODECS["word"][1](node.mapping)
    return {"function": _body(node.input), "partition_by": keys, "order_by": by, "mapping": mapping}


def _nested_body(node: Nested) -> Any:
    expr, evaluations = _body(node.input), list(map(_body, node.evaluations))
    if node.function in _STRUCTS_WRITTEN:
        variant = {} if VERSION < (2, 0) else {"variant": _STRUCTS_WRITTEN[node.function]}
        return {"StructEval": {"expr": expr, "evaluation": evaluations, **variant}}
    options = dict(node.options)
    kinds = {"arr.eval": {"Array": options}, "cumulative_eval": {"Cumulative": options}}
    kind = _LISTS_WRITTEN.get(node.function) or kinds[node.function]
    return {"Eval": {"expr": expr, "evaluation": evaluations[0], "variant": kind}}


def _call_body(node: Call) -> Any:
    inputs = list(map(_body, node.inputs))
    if node.function in _OPERATORS_WRITTEN:
        return {
            "BinaryExpr": {"left": inputs[0], "op": _OPERATORS_WRITTEN[node.function], "right": inputs[1]}
        }
    if node.function == "len":
        return "Len"
    if node.function in _SQL_WRITTEN:
        return {"Function": {"input": inputs, "function": {"Sql": {"Binary": _SQL_WRITTEN[node.function]}}}}
    if node.function == "plugin":
        plugin = {name: thawed(value) for name, value in node.options}
        return {"Function": {"input": inputs, "function": {"FfiPlugin": plugin}}}
    if VERSION < (2, 0) and node.function == "hash" and isinstance(node.option("seed"), int):
        return {"Function": {"input": inputs, "function": {"Hash": [node.option("seed")] * 4}}}
    if VERSION < (1, 41) and node.function == "quantile":
        method = CODECS["word"][1](node.option("method"))
        return {"Agg": {"Quantile": {"expr": inputs[0], "quantile": inputs[1], "method": method}}}
    kind, form = _by_our_names()[node.function]
    options = _written_options(form, node)
    if kind == "Agg":
        if form.style == "none":
            return {"Agg": {form.theirs: inputs[0]}}
        made = [inputs[0], *options] if form.style == "items" else {"input": inputs[0], **options}
        return {"Agg": {form.theirs: made}}
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


# What a digest of expressions was made of before it was made of our tree.


def first_form(expr: pl.Expr) -> bytes:
    """What stood for an expression in digests of the first scheme: the form of polars, of one version of it."""
    found = form_of(expr)
    if found is None:
        found = form_of(without_python_renaming(expr))
    if found is None:
        return str(expr).encode()
    if _PLUGIN in found:
        body = None if _PYTHON in found else json.loads(expr.meta.serialize(format="json"))
        return json.dumps(_portable(body), sort_keys=True).encode()
    return found


_PLUGIN = b"FfiPlugin"
"""Stands in the form of an expression that calls a plugin."""


def _portable(body: Any) -> Any:
    """A form in which plugins are named by their files, wherever these are."""
    if isinstance(body, list):
        return body if body and isinstance(body[0], int) else [_portable(each) for each in body]
    if not isinstance(body, dict):
        return body
    made = {name: _portable(inner) for name, inner in body.items()}
    if "lib" in made and "symbol" in made:
        made["lib"] = PurePath(str(made["lib"])).name
    return made


def without_python_renaming(expr: pl.Expr) -> pl.Expr:
    """The expression without ``name.map(function)`` on top, which cannot be written where the rest can."""
    while (form := form_of(expr)) is None or _PYTHON in form:
        inputs = expr.meta.pop()
        if len(inputs) != 1 or not inputs[0].meta.undo_aliases().meta.eq(expr.meta.undo_aliases()):
            break
        (expr,) = inputs
    return expr
