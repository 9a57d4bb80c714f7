"""Codecs read and write the options, types and constants of expressions in polars' form."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import polars as pl

from .message_pack import Wide
from .tree import Literal, Option, Record, Selector, Values


class UnknownFormError(ValueError):
    """polars wrote an unsupported ``form``."""

    def __init__(self, form: str) -> None:
        super().__init__(form)
        self.form = form


class LostNumberError(ValueError):
    """A number was written as null, as JSON has no NaN and no infinity."""


def dumped(structure: Any) -> str:
    """Return the JSON of a structure that may contain bytes."""
    return json.dumps(structure, default=list)


def single(body: Any) -> tuple[str, Any]:
    """Return the single name in a dictionary, and its value."""
    if not isinstance(body, dict) or len(body) != 1:
        raise UnknownFormError(f"{shortened(body)} for one name")
    ((name, inner),) = body.items()
    return name, inner


def shortened(body: Any) -> str:
    """Return a structure for messages."""
    text = dumped(body)
    return text if len(text) <= 80 else text[:77] + "..."


# Options


def frozen(value: Any) -> Option:
    """Return a structure as an immutable, hashable one."""
    if isinstance(value, dict):
        return Record((name, frozen(value[name])) for name in sorted(value))
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def thawed(value: Option) -> Any:
    """Return a frozen structure as dicts and lists again."""
    if isinstance(value, Record):
        return {name: thawed(body) for name, body in value}
    if isinstance(value, Values):
        return value.stream
    return list(map(thawed, value)) if isinstance(value, tuple) else value


def _word(value: Any) -> Option:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", value).lower() if isinstance(value, str) else frozen(value)


def _unworded(value: Option) -> Any:
    return (
        "".join(part.capitalize() for part in value.split("_")) if isinstance(value, str) else thawed(value)
    )


def number(value: Any) -> float:
    """Return a float that was written; raise if JSON lost it."""
    if value is None:
        raise LostNumberError
    return float(value)


def _number(value: Any) -> Option:
    return number(value)


def _numbers(values: Any) -> Option:
    return tuple(map(number, values))


def _zone(value: Any) -> Option:
    return value if value is None else value["inner"]


def _unzoned(value: Option) -> Any:
    return None if value is None else {"inner": value}


def _variant(value: Any) -> Option:
    """Return one of several variants, alone or with its parameters."""
    if not isinstance(value, dict):
        return _word(value)
    name, inner = single(value)
    return Record(((_word(name), frozen(inner)),))


def _unvaried(value: Option) -> Any:
    if not isinstance(value, Record):
        return _unworded(value)
    ((name, inner),) = value
    return {_unworded(name): thawed(inner)}


def _ranked(value: Any) -> Option:
    return frozen({**value, "method": _word(value["method"])})


def _unranked(value: Option) -> Any:
    return {**thawed(value), "method": _unworded(value["method"])}


def _bins(value: Any) -> Option:
    """Return the method of bins: by given values, which are a column, or by a count or fractions."""
    kind, how = single(value)
    method, values = single(how["spec"])
    spec = Record(((_word(method), Values(as_bytes(values)) if method == "Breaks" else frozen(values)),))
    others = {name: frozen(each) for name, each in how.items() if name != "spec"}
    return Record(((_word(kind), Record(sorted({**others, "spec": spec}.items()))),))


def _unbinned(value: Option) -> Any:
    ((kind, how),) = value
    others = {name: thawed(each) for name, each in how if name != "spec"}
    return {_unworded(kind): {**others, "spec": _unvaried(how["spec"])}}


def as_bytes(value: Any) -> bytes:
    """Return bytes, which JSON writes as a list of numbers."""
    return bytes(value)


# Types

_PLAIN_TYPES: dict[str, pl.DataType] = {
    name: getattr(pl, name)()
    for name in (
        "Binary", "Boolean", "Date", "Float32", "Float64", "Int8", "Int16", "Int32", "Int64", "Int128", "Null", "String", "Time",
        "UInt8", "UInt16", "UInt32", "UInt64",
    )
}  # fmt: skip
_PLAIN_NAMES = {dtype: name for name, dtype in _PLAIN_TYPES.items()}


def dtype_of(body: Any) -> pl.DataType:
    """Return the type that polars wrote, by letting polars read it in a cast."""
    if isinstance(body, str) and body in _PLAIN_TYPES:
        return _PLAIN_TYPES[body]
    return _dtype_by_polars(dumped(body))


@lru_cache(500)
def _dtype_by_polars(body: str) -> pl.DataType:
    cast = json.dumps(
        {"Cast": {"expr": {"Column": "x"}, "dtype": {"Literal": json.loads(body)}, "options": "Strict"}}
    )
    try:
        expr = pl.Expr.deserialize(io.StringIO(cast), format="json")
        return pl.Schema({"x": pl.Null()}).to_frame().lazy().select(expr).collect_schema().dtypes()[0]
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise UnknownFormError(f"the type {body[:80]}") from error


def written_dtype(dtype: pl.DataType) -> Any:
    """Return polars' form of a type."""
    return _PLAIN_NAMES.get(dtype) or json.loads(_form_by_polars(dtype))


@lru_cache(500)
def _form_by_polars(dtype: pl.DataType) -> str:
    body = json.loads(pl.col("x").cast(dtype).meta.serialize(format="json"))
    return json.dumps(body["Cast"]["dtype"]["Literal"])


def _type(body: Any) -> Option:
    """Return a type, or a type expression in the form in which it was written."""
    if isinstance(body, dict) and set(body) == {"Literal"}:
        return dtype_of(body["Literal"])
    return frozen(body)


def _untyped(value: Option) -> Any:
    return {"Literal": written_dtype(value)} if isinstance(value, pl.DataType) else thawed(value)


def _dtype(body: Any) -> Option:
    return None if body is None else dtype_of(body)


def _undtyped(value: Option) -> Any:
    return None if value is None else written_dtype(value)


# Selectors


def selector_of(body: Any) -> Selector:
    """Return the columns that a selector describes."""
    required: list[str] = []
    _names(body, required)
    literal = isinstance(body, dict) and not {"ByName", "ByIndex"}.isdisjoint(body)
    return Selector(frozen(body), tuple(required), literal)


def _names(body: Any, names: list[str]) -> None:
    if isinstance(body, list):
        for each in body:
            _names(each, names)
    elif isinstance(body, dict):
        for name, inner in body.items():
            if name == "ByName":
                names.extend(inner["names"] if inner["strict"] else ())
            else:
                _names(inner, names)


def _selected(value: Option) -> Any:
    return thawed(value.description)


CODECS: dict[str, tuple[Callable[[Any], Option], Callable[[Option], Any]]] = {
    "plain": (frozen, thawed),
    "word": (_word, _unworded),
    "float": (_number, thawed),
    "floats": (_numbers, thawed),
    "bins": (_bins, _unbinned),
    "rank": (_ranked, _unranked),
    "variant": (_variant, _unvaried),
    "zone": (_zone, _unzoned),
    "type": (_type, _untyped),
    "dtype": (_dtype, _undtyped),
    "selector": (selector_of, _selected),
}
"""The codecs by name: the functions that read and write an option."""


# Constants

_INTEGERS = frozenset(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64, 128))
_UNITS = {"Nanoseconds": "ns", "Microseconds": "us", "Milliseconds": "ms"}


def _whole(value: Any) -> int:
    return int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else value


def literal_of(body: Any) -> Literal:
    """Return the constant of polars' form."""
    kind, inner = single(body)
    if kind == "Series":
        return Literal("series", Values(as_bytes(inner)))
    if kind == "Scalar":
        return _scalar(*single(inner))
    if kind != "Dyn":
        raise UnknownFormError(f"Literal {kind}")
    name, value = single(inner)
    if name == "Int":
        return Literal("int", _whole(value))
    if name == "Float":
        return Literal("float", number(value))
    return Literal(name.lower(), frozen(value))


def _scalar(kind: str, value: Any) -> Literal:
    if kind == "Null":
        return Literal(dtype_of(value), None)
    if kind in _INTEGERS:
        return Literal(dtype_of(kind), _whole(value))
    if kind.startswith("Float"):
        return Literal(dtype_of(kind), number(value))
    if kind in ("Boolean", "String", "Date", "Time"):
        return Literal(_PLAIN_TYPES[kind], value)
    if kind == "Binary":
        return Literal(pl.Binary(), as_bytes(value))
    if kind == "Datetime":
        return Literal(pl.Datetime(_UNITS[value[1]], _zone(value[2])), value[0])  # type: ignore[arg-type]
    if kind == "Duration":
        return Literal(pl.Duration(_UNITS[value[1]]), value[0])  # type: ignore[arg-type]
    if kind == "Decimal":
        return Literal(pl.Decimal(value[1], value[2]), _whole(value[0]))
    if kind == "List":
        return Literal("values", Values(as_bytes(value)))
    if kind == "Array":
        return Literal("array", (Values(as_bytes(value[0])), value[1]))
    if kind == "Struct":
        return Literal("struct", tuple((name, _scalar(*single(each))) for name, each in value))
    if kind == "Categorical":
        of = {name: value[name] for name in ("name", "namespace", "physical")}
        return Literal(dtype_of({"Categorical": of}), value["value"])
    if kind == "Enum":
        return Literal(dtype_of({"Enum": {"strings": value["categories"]}}), value["value"])
    raise UnknownFormError(f"Literal Scalar {kind}")


def written_literal(node: Literal) -> Any:
    """Return polars' form of a constant."""
    dtype, value = node.dtype, node.value
    if dtype == "series":
        return {"Series": value.stream}
    if dtype == "int":
        return {"Dyn": {"Int": Wide(value)}}
    if isinstance(dtype, str) and dtype in ("float", "str", "list"):
        return {"Dyn": {dtype.capitalize(): thawed(value)}}
    return {"Scalar": _written_scalar(dtype, value)}


def _written_scalar(dtype: pl.DataType | str, value: Option) -> Any:
    match dtype:
        case "values":
            return {"List": value.stream}
        case "array":
            return {"Array": [value[0].stream, value[1]]}
        case "struct":
            return {"Struct": [[name, _written_scalar(each.dtype, each.value)] for name, each in value]}
    assert isinstance(dtype, pl.DataType), dtype
    form = written_dtype(dtype)
    if value is None:
        return {"Null": form}
    if isinstance(form, str):
        return {form: Wide(value) if form.endswith("Int128") else value}
    kind, parameters = single(form)
    if kind == "Datetime":
        return {kind: [value, *parameters]}
    if kind == "Duration":
        return {kind: [value, parameters]}
    if kind == "Decimal":
        return {kind: [Wide(value), *parameters]}
    if kind == "Categorical":
        return {kind: {**parameters, "value": value}}
    return {kind: {"categories": bytes(parameters["strings"]), "value": value}}
