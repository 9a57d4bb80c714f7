"""Plain values as bytes and back: the values of which users' states may be made if they outlive the process.

The bytes are JSON. A value of a type that JSON lacks is an object with one name, that of its type: ``{"tuple": [1, 2]}``.
The list of types is fixed: whatever the bytes contain, reading them makes values of these types and runs no code. Equal
values of one type have the same bytes in every process, so dicts and sets are written, and restored, in the order of their
keys' texts, however they were filled.
"""

from __future__ import annotations

import base64
import io
import json
import math
import re
from collections import Counter, deque
from collections.abc import Callable, Collection
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from json.encoder import encode_basestring_ascii
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

DEEPEST = 100
"""How deep values may be nested in others."""

MANY = 4
"""From this many values on it pays to check whether all are of one type."""

LEAST, MOST = -(1 << 63), (1 << 64) - 1
"""Whole numbers that are written as digits; others are written in base 16, of which Python reads any length."""

NUMPY_TYPE = re.compile(r"[<>|=][biufcmMSU]\d{1,9}(\[\d{0,9}[A-Za-z]{1,2}\])?")
"""The texts of numpy's types whose arrays hold their values and no references."""


class NotPlainError(TypeError):
    """A value that is not plain, or holds one that is not; ``found`` names its type."""

    def __init__(self, type_text: str) -> None:
        super().__init__(f"{type_text} is not a plain value")
        self.found = type_text


def encoded(value: object) -> bytes:
    """Return a plain value as bytes; equal values of one type have equal bytes.

    Plain values are None, bool, int, float, complex, str, bytes, bytearray; list, tuple, dict, set, frozenset, deque and
    Counter of plain values; date, datetime, time, timedelta; Decimal and Fraction; numbers and arrays of numpy; Series
    and DataFrames. A value of a subclass of these is not plain.

    >>> encoded((1, [2.5, None]))
    b'{"tuple":[1,[2.5,null]]}'
    >>> encoded({2: "b", 1: "a"}) == encoded({1: "a", 2: "b"})
    True

    Raises:
        NotPlainError: a value of another type, nested too deep, or containing itself.
    """
    return _json(value, 0).encode()


def decoded(data: bytes) -> Any:
    """Return the value that was encoded, of the same type.

    >>> decoded(encoded((1, {2: float("inf")})))
    (1, {2: inf})

    Raises:
        ValueError: these bytes are not the result of ``encoded``.
    """
    try:
        text = data.decode()
        value, end = DECODER.raw_decode(text)
    except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError, OSError) as error:
        raise ValueError(f"not a plain value ({type(error).__name__}: {error})") from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ValueError(f"not a plain value ({error})") from error
    if end != len(text):
        raise ValueError(f"not a plain value (there is more after character {end})")
    return value


def type_name(value: object) -> str:
    """Return the type of a value as messages name it: ``dict``, ``collections.OrderedDict``."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _json(value: Any, depth: int) -> str:
    """Return a value as JSON."""
    kind = type(value)
    write = SCALARS.get(kind)
    if write is not None:
        return write(value)
    if depth >= DEEPEST:
        raise NotPlainError(f"a {type_name(value)} that is nested more than {DEEPEST} deep, or holds itself,")
    if kind is list:
        return _array(value, depth)
    if kind is tuple:
        return f'{{"tuple":{_array(value, depth)}}}'
    nested = NESTED.get(kind)
    if nested is not None:
        return f'{{"{kind.__name__}":{nested(value, depth)}}}'
    if isinstance(value, np.generic):
        return f'{{"number":["{_numpy_type(value)}",{_bytes_text(value.tobytes())}]}}'
    raise NotPlainError(type_name(value))


def _array(values: Any, depth: int) -> str:
    """Return the values of an ordered collection as a JSON array."""
    return f"[{','.join(_texts(values, depth))}]"


def _texts(values: Collection[Any], depth: int) -> list[str]:
    """Return each of several values as JSON; many of one scalar type are written in one call."""
    if len(values) >= MANY:
        kinds = set(map(type, values))
        if kinds == {int} and min(values) >= LEAST and max(values) <= MOST:
            return list(map(int.__repr__, values))
        if kinds == {float} and all(map(math.isfinite, values)):
            return list(map(float.__repr__, values))
        if kinds == {str}:
            return list(map(encode_basestring_ascii, values))
    return [_json(value, depth + 1) for value in values]


def _in_order(values: Any, depth: int) -> str:
    """Return the values of an unordered collection as a JSON array, in the order of their texts."""
    return f"[{','.join(sorted(_texts(values, depth)))}]"


def _pairs(values: dict[Any, Any], depth: int) -> str:
    pairs = sorted(zip(_texts(values.keys(), depth), _texts(values.values(), depth), strict=True))
    return f"[{','.join([f'[{key},{value}]' for key, value in pairs])}]"


def _whole(value: int) -> str:
    return int.__repr__(value) if LEAST <= value <= MOST else f'{{"int":"{value:x}"}}'


def _real(value: float) -> str:
    text = float.__repr__(value)
    return text if value - value == 0 else f'{{"float":"{text}"}}'


def _tagged(name: str, parts: Callable[[Any], Any]) -> Callable[[Any], str]:
    """Return a writer that represents a value by parts that JSON has."""
    return lambda value: f'{{"{name}":{json.dumps(parts(value), separators=(",", ":"))}}}'


def _bytes_text(data: Any) -> str:
    return f'"{base64.b64encode(data).decode()}"'


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _numbers(value: Any, depth: int) -> str:
    return f'["{_numpy_type(value)}",{json.dumps(value.shape)},{_bytes_text(value.tobytes())}]'


def _numpy_type(value: Any) -> str:
    text: str = value.dtype.str
    if NUMPY_TYPE.fullmatch(text) is None:
        raise NotPlainError(f"a {type_name(value)} of numpy's type {value.dtype}")
    return text


def _numpy(kind: str, data: str) -> Any:
    if NUMPY_TYPE.fullmatch(kind) is None:
        raise ValueError(f"{kind!r} is not a type of numbers")
    return np.frombuffer(_bytes(data), np.dtype(kind)).copy()


def _columns(value: Any, depth: int) -> str:
    """Return columns as JSON text of their Arrow bytes."""
    file = io.BytesIO()
    frame = value if isinstance(value, pl.DataFrame) else pl.DataFrame([value])
    try:
        frame.rechunk().write_ipc(file)
    except pl.exceptions.PolarsError as error:
        raise NotPlainError(f"a {type_name(value)} of {', '.join(map(str, frame.dtypes))}") from error
    return _bytes_text(file.getbuffer())


def _frame(text: str) -> pl.DataFrame:
    return pl.read_ipc(_bytes(text))


def _zone(zone: tzinfo | None) -> Any:
    """Return a time zone as JSON: none, a name, or an offset from UTC."""
    if zone is None:
        return None
    if type(zone) is timezone:
        name = zone.tzname(None)
        offset = zone.utcoffset(None)
        return [offset // _MICROSECOND, None if timezone(offset).tzname(None) == name else name]
    if type(zone) is ZoneInfo and zone.key is not None:
        return zone.key
    raise NotPlainError(f"a time in a zone of {type_name(zone)}")


def _zone_of(written: Any) -> tzinfo | None:
    if written is None or isinstance(written, str):
        return None if written is None else ZoneInfo(written)
    offset, name = timedelta(microseconds=written[0]), written[1]
    return timezone(offset) if name is None else timezone(offset, name)


_MICROSECOND = timedelta(microseconds=1)


def _instant(value: datetime | time) -> list[Any]:
    return [value.replace(tzinfo=None).isoformat(), _zone(value.tzinfo), value.fold]


SCALARS: dict[type, Callable[[Any], str]] = {
    type(None): lambda value: "null",
    bool: lambda value: "true" if value else "false",
    str: encode_basestring_ascii,
    int: _whole,
    float: _real,
    bytes: lambda value: f'{{"bytes":{_bytes_text(value)}}}',
    bytearray: lambda value: f'{{"bytearray":{_bytes_text(value)}}}',
    complex: lambda value: f'{{"complex":[{_real(value.real)},{_real(value.imag)}]}}',
    date: _tagged("date", date.isoformat),
    datetime: _tagged("datetime", _instant),
    time: _tagged("time", _instant),
    timedelta: _tagged("timedelta", lambda value: [value.days, value.seconds, value.microseconds]),
    Decimal: _tagged("Decimal", str),
    Fraction: lambda value: f'{{"Fraction":[{_whole(value.numerator)},{_whole(value.denominator)}]}}',
}
"""The writers of values that hold no others, by type."""

NESTED: dict[type, Callable[[Any, int], str]] = {
    dict: _pairs,
    Counter: _pairs,
    set: _in_order,
    frozenset: _in_order,
    deque: lambda value, depth: f"[{json.dumps(value.maxlen)},{_array(value, depth)}]",
    np.ndarray: _numbers,
    pl.Series: _columns,
    pl.DataFrame: _columns,
}
"""The writers of values that may hold others, by type; the text follows the name of the type."""

READ: dict[str, Callable[[Any], Any]] = {
    "int": lambda text: int(text, 16),
    "float": lambda text: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[text],
    "tuple": tuple,
    "dict": dict,
    "Counter": lambda pairs: Counter(dict(pairs)),
    "set": set,
    "frozenset": frozenset,
    "deque": lambda fields: deque(fields[1], fields[0]),
    "bytes": _bytes,
    "bytearray": lambda text: bytearray(_bytes(text)),
    "complex": lambda parts: complex(*parts),
    "date": date.fromisoformat,
    "datetime": lambda fields: datetime.fromisoformat(fields[0]).replace(
        tzinfo=_zone_of(fields[1]), fold=fields[2]
    ),
    "time": lambda fields: time.fromisoformat(fields[0]).replace(tzinfo=_zone_of(fields[1]), fold=fields[2]),
    "timedelta": lambda parts: timedelta(*parts),
    "Decimal": Decimal,
    "Fraction": lambda parts: Fraction(*parts),
    "number": lambda fields: _numpy(*fields)[0],
    "ndarray": lambda fields: _numpy(fields[0], fields[2]).reshape(fields[1]),
    "Series": lambda text: _frame(text).to_series(),
    "DataFrame": _frame,
}
"""The readers of written values, by the name of their type."""


def _made(fields: dict[str, Any]) -> Any:
    ((name, content),) = fields.items()
    return READ[name](content)


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} does not stand for a number here")


DECODER = json.JSONDecoder(object_hook=_made, parse_constant=_no_number)
