"""Plain values as bytes and back: what users' states may be made of where they outlive the process.

The bytes are JSON. What JSON has not is an object with one name, that of its type: ``{"tuple": [1, 2]}``. There is a
fixed list of types and nothing else: whatever such bytes say, reading them makes values of these types and runs
nothing. Values that are equal and of one type have the same bytes, in every process: so dicts and sets are written, and
come back, in the order of their keys' texts, however they were filled.
"""

from __future__ import annotations

import base64
import io
import json
import math
import re
from collections import Counter, deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

DEEPEST = 100
"""So deep values may be nested in others."""

LEAST, MOST = -(1 << 63), (1 << 64) - 1
"""Whole numbers that are written as digits; others are written in base 16, of which Python reads any length."""

AS_THEY_ARE = frozenset({type(None), bool, str})
"""Types that JSON has."""

NUMPY_TYPE = re.compile(r"[<>|=][biufcmMSU]\d{1,9}(\[\d{0,9}[A-Za-z]{1,2}\])?")
"""The texts of numpy's types that hold their values themselves."""

ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)


class NotPlainError(TypeError):
    """A value that is none of the plain ones, or holds one that is not: ``found`` names its type."""

    def __init__(self, found: str) -> None:
        super().__init__(f"{found} is no plain value")
        self.found = found


def encoded(value: object) -> bytes:
    """A plain value as bytes, the same for the same.

    Plain are None, bool, int, float, complex, str, bytes, bytearray; list, tuple, dict, set, frozenset, deque and Counter
    of plain values; date, datetime, time, timedelta; Decimal and Fraction; numbers and arrays of numpy; Series and
    DataFrames. A subclass of these is another type.

    >>> encoded((1, [2.5, None]))
    b'{"tuple":[1,[2.5,null]]}'
    >>> encoded({2: "b", 1: "a"}) == encoded({1: "a", 2: "b"})
    True

    Raises:
        NotPlainError: a type that is none of these, nested too deep, or in itself.
    """
    return ENCODER.encode(_tree(value, 0)).encode()


def decoded(data: bytes) -> Any:
    """The value that was encoded, of the same type.

    >>> decoded(encoded((1, {2: float("inf")})))
    (1, {2: inf})

    Raises:
        ValueError: these bytes are not what ``encoded`` gives.
    """
    try:
        return DECODER.decode(data.decode())
    except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError, OSError) as error:
        raise ValueError(f"no plain value ({type(error).__name__}: {error})") from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ValueError(f"no plain value ({error})") from error


def type_name(value: object) -> str:
    """The type of a value as messages name it: ``dict``, ``collections.OrderedDict``."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _tree(value: Any, depth: int) -> Any:
    """A value as JSON has it."""
    kind = type(value)
    if kind in AS_THEY_ARE:
        return value
    if kind is int:
        return value if LEAST <= value <= MOST else {"int": f"{value:x}"}
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if depth >= DEEPEST:
        raise NotPlainError(f"a {type_name(value)} that is nested more than {DEEPEST} deep, or holds itself,")
    if kind is list:
        return _trees(value, depth)
    write = WRITE.get(kind)
    if write is None:
        if not isinstance(value, np.generic):
            raise NotPlainError(type_name(value))
        write = _number
    name = "number" if isinstance(value, np.generic) else kind.__name__
    return {name: write(value, depth)}


def _trees(values: Any, depth: int) -> list[Any]:
    """Several values in their order. Those of JSON's own types are taken as they are."""
    kinds = set(map(type, values))
    if kinds <= AS_THEY_ARE:
        return list(values)
    if kinds == {int} and min(values) >= LEAST and max(values) <= MOST:
        return list(values)
    if kinds == {float} and all(map(math.isfinite, values)):
        return list(values)
    return [_tree(value, depth + 1) for value in values]


def _in_order(values: Any, depth: int) -> list[Any]:
    """Several values that have no order, in that of their texts."""
    return sorted((_tree(value, depth + 1) for value in values), key=ENCODER.encode)


def _pairs(values: dict[Any, Any], depth: int) -> list[Any]:
    pairs = ([_tree(key, depth + 1), _tree(value, depth + 1)] for key, value in values.items())
    return sorted(pairs, key=lambda pair: ENCODER.encode(pair[0]))


def _text(data: Any, depth: int = 0) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _number(value: Any, depth: int) -> list[Any]:
    return [_numpy_type(value), _text(value.tobytes())]


def _array(value: Any, depth: int) -> list[Any]:
    return [_numpy_type(value), list(value.shape), _text(value.tobytes())]


def _numpy_type(value: Any) -> str:
    text: str = value.dtype.str
    if NUMPY_TYPE.fullmatch(text) is None:
        raise NotPlainError(f"a {type_name(value)} of numpy's type {value.dtype}")
    return text


def _numpy(kind: str, data: str) -> Any:
    if NUMPY_TYPE.fullmatch(kind) is None:
        raise ValueError(f"{kind!r} is no type of numbers")
    return np.frombuffer(_bytes(data), np.dtype(kind)).copy()


def _columns(value: Any, depth: int) -> str:
    """Columns as Arrow has them."""
    file = io.BytesIO()
    frame = value if isinstance(value, pl.DataFrame) else pl.DataFrame([value])
    try:
        frame.rechunk().write_ipc(file)
    except pl.exceptions.PolarsError as error:
        raise NotPlainError(f"a {type_name(value)} of {', '.join(map(str, frame.dtypes))}") from error
    return _text(file.getbuffer())


def _frame(text: str) -> pl.DataFrame:
    return pl.read_ipc(_bytes(text))


def _zone(zone: tzinfo | None) -> Any:
    """A time zone: none, one with a name, or so far from UTC."""
    if zone is None:
        return None
    if type(zone) is timezone:
        name = zone.tzname(None)
        offset = zone.utcoffset(None)
        return [offset // _MICROSECOND, None if timezone(offset).tzname(None) == name else name]
    if type(zone) is ZoneInfo and zone.key is not None:
        return zone.key
    raise NotPlainError(f"a time in a zone of {type_name(zone)}")


def _zone_of(said: Any) -> tzinfo | None:
    if said is None or isinstance(said, str):
        return None if said is None else ZoneInfo(said)
    offset, name = timedelta(microseconds=said[0]), said[1]
    return timezone(offset) if name is None else timezone(offset, name)


_MICROSECOND = timedelta(microseconds=1)


def _instant(value: datetime | time, depth: int) -> list[Any]:
    return [value.replace(tzinfo=None).isoformat(), _zone(value.tzinfo), value.fold]


def _queue(value: deque[Any], depth: int) -> list[Any]:
    return [value.maxlen, _trees(value, depth)]


WRITE: dict[type, Callable[[Any, int], Any]] = {
    tuple: _trees,
    dict: _pairs,
    Counter: _pairs,
    set: _in_order,
    frozenset: _in_order,
    deque: _queue,
    bytes: _text,
    bytearray: _text,
    complex: lambda value, depth: [_tree(value.real, depth), _tree(value.imag, depth)],
    date: lambda value, depth: value.isoformat(),
    datetime: _instant,
    time: _instant,
    timedelta: lambda value, depth: [value.days, value.seconds, value.microseconds],
    Decimal: lambda value, depth: str(value),
    Fraction: lambda value, depth: [_tree(value.numerator, depth), _tree(value.denominator, depth)],
    np.ndarray: _array,
    pl.Series: _columns,
    pl.DataFrame: _columns,
}
"""What is written of a value, under the name of its type."""

READ: dict[str, Callable[[Any], Any]] = {
    "int": lambda text: int(text, 16),
    "float": lambda text: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[text],
    "tuple": tuple,
    "dict": dict,
    "Counter": lambda pairs: Counter(dict(pairs)),
    "set": set,
    "frozenset": frozenset,
    "deque": lambda said: deque(said[1], said[0]),
    "bytes": _bytes,
    "bytearray": lambda text: bytearray(_bytes(text)),
    "complex": lambda parts: complex(*parts),
    "date": date.fromisoformat,
    "datetime": lambda said: datetime.fromisoformat(said[0]).replace(tzinfo=_zone_of(said[1]), fold=said[2]),
    "time": lambda said: time.fromisoformat(said[0]).replace(tzinfo=_zone_of(said[1]), fold=said[2]),
    "timedelta": lambda parts: timedelta(*parts),
    "Decimal": Decimal,
    "Fraction": lambda parts: Fraction(*parts),
    "number": lambda said: _numpy(*said)[0],
    "ndarray": lambda said: _numpy(said[0], said[2]).reshape(said[1]),
    "Series": lambda text: _frame(text).to_series(),
    "DataFrame": _frame,
}
"""What is made of what was written, by the name of its type."""


def _made(said: dict[str, Any]) -> Any:
    ((name, content),) = said.items()
    return READ[name](content)


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} stands for no number here")


DECODER = json.JSONDecoder(object_hook=_made, parse_constant=_no_number)
