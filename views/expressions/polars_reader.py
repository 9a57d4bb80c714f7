"""Expressions in polars' form are read into our tree: see ``polars_tree``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .polars_forms import (
    FAMILIES,
    LISTS,
    OPERATORS,
    SQL_OPERATORS,
    STRUCTS,
    Form,
    aggregate_forms,
    function_forms,
    structure_forms,
)
from .polars_values import CODECS, UnknownFormError, frozen, literal_of, selector_of, shortened, single
from .tree import Aggregate, Alias, Call, Cast, Column, Element, Field, Nested, Node, Option, Over, Rename


def node_of(body: Any) -> Node:
    """Return the tree of an expression in polars' form.

    Raises:
        UnknownFormError, LostNumberError: the form is unknown, or JSON could not hold a number in it.
    """
    if isinstance(body, str):
        if body not in _BARE:
            raise UnknownFormError(body)
        return _BARE[body]
    name, inner = single(body)
    if name in _READERS:
        return _READERS[name](inner)
    form = structure_forms().get(name)
    if form is None:
        raise UnknownFormError(name)
    inputs: list[Node] = []
    for place in form.inputs:
        inputs += _nodes(inner[place[:-1]]) if place.endswith("*") else (node_of(inner[place]),)
    places = {place.rstrip("*") for place in form.inputs}
    options = {name: value for name, value in inner.items() if name not in places}
    return Call(form.ours, tuple(inputs), _options(form, options))


_BARE: dict[str, Node] = {"Len": Aggregate("len", ()), "Element": Element()}


def _nodes(bodies: Any) -> tuple[Node, ...]:
    return tuple(map(node_of, bodies))


def _options(form: Form, body: Any) -> tuple[tuple[str, Option], ...]:
    """Return the options of a form, checked to be complete and no others."""
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
    form = function_forms().get(path)
    if form is None:
        raise UnknownFormError(f"Function {path}")
    return Call(form.ours, inputs, _options(form, options))


def _aggregate(body: Any) -> Node:
    name, inner = single(body)
    if name == "Quantile":
        inputs = (node_of(inner["expr"]), node_of(inner["quantile"]))
        return Call("quantile", inputs, (("method", CODECS["word"][0](inner["method"])),))
    form = aggregate_forms().get(name)
    if form is None:
        raise UnknownFormError(f"Agg {name}")
    if form.style == "none":
        return Aggregate(form.ours, (node_of(inner),))
    if form.style == "items":
        return Aggregate(form.ours, (node_of(inner[0]),), _options(form, inner[1:]))
    options = {name: value for name, value in inner.items() if name != "input"}
    return Aggregate(form.ours, (node_of(inner["input"]),), _options(form, options))


def _operator(body: Any) -> Node:
    if body["op"] not in OPERATORS:
        raise UnknownFormError(f"BinaryExpr {body['op']}")
    return Call(OPERATORS[body["op"]], (node_of(body["left"]), node_of(body["right"])))


def _cast(body: Any) -> Node:
    return Cast(node_of(body["expr"]), CODECS["type"][0](body["dtype"]), CODECS["word"][0](body["options"]))


def _over(body: Any) -> Node:
    by, order = body["order_by"] or (None, None)
    ordered = None if by is None else node_of(by)
    mapping = CODECS["word"][0](body["mapping"])
    return Over(node_of(body["function"]), _nodes(body["partition_by"]), ordered, frozen(order), mapping)


def _evaluation(body: Any) -> Node:
    variant = body["variant"]
    within = node_of(body["expr"]), (node_of(body["evaluation"]),)
    if isinstance(variant, str) and variant in LISTS:
        return Nested(LISTS[variant], *within)
    kind, options = single(variant)
    if kind == "Array":
        return Nested("arr.eval", *within, (("as_list", options["as_list"]),))
    if kind == "Cumulative":
        return Nested("cumulative_eval", *within, (("min_samples", options["min_samples"]),))
    raise UnknownFormError(f"Eval {shortened(variant)}")


def _struct_evaluation(body: Any) -> Node:
    # Before polars 2.0 there was one variant, without a name.
    variant = body.get("variant", "WithFields")
    if variant not in STRUCTS:
        raise UnknownFormError(f"StructEval {variant}")
    return Nested(STRUCTS[variant], node_of(body["expr"]), _nodes(body["evaluation"]))


def _rename(body: Any) -> Node:
    how, argument = (
        (body["function"], None) if isinstance(body["function"], str) else single(body["function"])
    )
    return Rename(node_of(body["expr"]), CODECS["word"][0](how), frozen(argument))


_READERS: dict[str, Callable[[Any], Node]] = {
    "Agg": _aggregate,
    "Alias": lambda body: Alias(node_of(body[0]), body[1]),
    "BinaryExpr": _operator,
    "Cast": _cast,
    "Column": Column,
    "Eval": _evaluation,
    "Field": lambda body: Field(tuple(body)),
    "Function": _function,
    "KeepName": lambda body: Rename(node_of(body), "keep"),
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
    """Return a hash; before polars 2.0 it had four seeds, and one given seed was written four times."""
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
"""Functions of an older polars, read as the equal expressions of a newer one."""
