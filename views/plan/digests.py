"""Digests of data, types, expressions and code: 128 bits as text, the same in every process."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from hashlib import blake2b
from pathlib import PurePath
from typing import Any
from uuid import UUID

import numpy as np
import polars as pl

from evercurrent.core.data.tags import PACKAGE, UntaggedError, kept_fields, tag_of

from ..expressions import Expression
from ..expressions.dtype_text import dtype_text
from ..expressions.polars_tree import first_form
from ..expressions.written import expression_bytes, series_parts
from .digest_scheme import FIRST, SECOND, scheme
from .function_digests import UNSEEN_OBJECT, Numbered, parts_of

VERSION = b"1"
"""A part of every digest; it changes when the form of states changes."""

WITH_FULL_REPR = (date, time, timedelta, tzinfo, Decimal, Fraction, UUID, PurePath, range, slice)
"""Types whose ``repr`` is complete."""


def digest_of(*values: object) -> str:
    """Return the digest of these values, as 32 hexadecimal digits, the same in every process.

    Equal data has equal digests, and so have expressions with the same form in polars. Dicts and sets have no order,
    lists and schemas have one; floats count by their bits. A dataclass counts by the fields that it is compared by,
    unless they are ``not_kept``; functions and other objects count by ``parts_of``. Classes of this library count by
    their tags. It never raises.

    >>> digest_of(("a", 1)) == digest_of(("a", 1)), digest_of(1) == digest_of(1.0), digest_of(0.0) == digest_of(-0.0)
    (True, False, False)
    >>> digest_of(pl.col("x") + 1) == digest_of(pl.col("x") + 1)
    True
    """
    return blake2b(VERSION + _Writing({}).of(values), digest_size=16).hexdigest()


def is_covered(*values: object) -> bool:
    """Return whether the digest covers everything in these values, so that values with the same digest are equal."""
    writing = _Writing({})
    writing.of(values)
    return not writing.has_unseen


def kind_of(kind: type) -> str:
    """Return the name of a class in digests of its objects: its tag, or its name where it is a user's.

    Raises:
        UntaggedError: a class of this library has no tag; in tests only.
    """
    tag = tag_of(kind)
    return kind.__qualname__ if tag is None else tag.kind


class _Writing:
    """The writer of values, of which no two have the same bytes; a repeated function or object is written by its number."""

    def __init__(self, numbered: Numbered) -> None:
        self.has_unseen = False
        self._is_first, self._is_second = scheme() == FIRST, scheme() == SECOND
        self._numbered = numbered
        self._within: list[int] = []

    def of(self, value: Any) -> bytes:
        """Return the bytes of one value, preceded by its kind and its length."""
        write = _PLAIN.get(type(value))
        if write is not None:
            return _marked(type(value).__name__, write(value))
        if type(value) not in _COMPOSED:
            plain = _plain(value)
            if plain is not None:
                return plain
        if id(value) in self._within:
            return _marked("again", b"%d" % (len(self._within) - self._within.index(id(value))))
        self._within.append(id(value))
        try:
            return self._made(value)
        finally:
            self._within.pop()

    def each(self, kind: str, values: Iterable[object]) -> bytes:
        """Return the bytes of several values in their order."""
        return _marked(kind, b"".join(map(self.of, values)))

    def _made(self, value: Any) -> bytes:
        if type(value) in _OUR_CLASSES:
            return self._fields(value)
        match value:
            case tuple() | list():
                return self.each("list" if isinstance(value, list) else "tuple", value)
            case Expression(expr=expr):
                return self._expression(expr)
            case pl.Expr():
                return self._expression(value)
            case pl.Schema():
                return self.each(
                    "schema", [part for name in value for part in (name, dtype_text(value[name]))]
                )
            case Mapping():
                keys = sorted(value, key=self._apart)
                return self.each("mapping", [each for key in keys for each in (key, value[key])])
            case set() | frozenset():
                return _marked("set", b"".join(sorted(map(self._apart, value))))
            case pl.Series() | pl.DataFrame() | np.ndarray():
                return self._columns(value)
            case _ if is_dataclass(value) and not isinstance(value, type):
                if _is_ours(type(value)):
                    _OUR_CLASSES.add(type(value))
                    _COMPOSED.add(type(value))
                return self._fields(value)
            case _:
                return self._object(value)

    def _fields(self, value: Any) -> bytes:
        """Return the bytes of a dataclass."""
        return self.each(kind_of(type(value)), [part for field in kept_fields(value) for part in field])

    def _expression(self, expr: pl.Expr) -> bytes:
        if self._is_first:
            return _marked("expression", first_form(expr))
        return _marked("tree", expression_bytes(expr, _plainly, as_given=self._is_second))

    def _object(self, value: Any) -> bytes:
        try:
            parts = parts_of(value, self._numbered)
            self.has_unseen |= parts[0] == UNSEEN_OBJECT
            return self.each("object", parts)
        except UntaggedError:
            raise
        except Exception:
            # Reading users' objects runs their code, and a plan has to be compiled even if that code fails.
            self.has_unseen = True
            return _marked("unseen", kind_of(type(value)).encode())

    def _apart(self, value: object) -> bytes:
        """Return the bytes of one of several unordered values, independent of those before it."""
        writing = _Writing(dict(self._numbered))
        written = writing.of(value)
        self.has_unseen |= writing.has_unseen
        return written

    def _columns(self, value: pl.Series | pl.DataFrame | np.ndarray[Any, Any]) -> bytes:
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                return self.each("objects", (value.shape, value.tolist()))
            return self.each("array", (str(value.dtype), value.shape, value.tobytes()))
        if isinstance(value, pl.Series):
            return _marked("series", self._columns(value.to_frame()))
        if pl.Object in value.dtypes:
            return self.each("frame of objects", (value.schema, *map(list, value.get_columns())))
        if self._is_first:
            file = io.BytesIO()
            value.rechunk().write_ipc(file)
            return self.each("frame", (value.schema, file.getvalue()))
        return _marked("columns", b"".join(_plainly(series_parts(column)) for column in value.get_columns()))


def _plainly(value: Any) -> bytes:
    """Return the bytes of a plain value, or of a tuple of them."""
    if isinstance(value, tuple):
        return _marked("tuple", b"".join(map(_plainly, value)))
    return _marked(type(value).__name__, _PLAIN[type(value)](value))


def _marked(kind: str, content: bytes) -> bytes:
    """Return bytes with their kind and length in front, so that their end is known."""
    return b"%b %d:%b" % (kind.encode(), len(content), content)


_PLAIN: dict[type, Callable[[Any], bytes]] = {
    str: lambda value: value.encode("utf-8", "surrogatepass"),
    bool: lambda value: b"%d" % value,
    int: lambda value: b"%x" % value,
    float: lambda value: struct.pack("<d", value),
    complex: lambda value: struct.pack("<dd", value.real, value.imag),
    bytes: lambda value: value,
    type(None): lambda value: b"",
}
"""The writers of plain values, by type."""


_OUR_CLASSES: set[type] = set()
"""The dataclasses of this library that have been met: they need none of the questions that a user's value needs."""

_COMPOSED: set[type] = {tuple, list, dict, Expression, pl.Schema}
"""Types whose values are no plain ones, with those dataclasses."""


def _is_ours(kind: type) -> bool:
    module = getattr(kind, "__module__", None)  # A user may set it to anything.
    return isinstance(module, str) and module.partition(".")[0] == PACKAGE


def _plain(value: Any) -> bytes | None:
    """Return the bytes of a scalar value of another class than the plain ones; None for other values."""
    match value:
        case Enum():
            return _marked("member", f"{kind_of(type(value))}.{value.name}".encode())
        case np.generic():
            return _marked("number", str(value.dtype).encode() + b" " + value.tobytes())
        case str() | int() | float() | bytes() | bytearray():
            return _marked(kind_of(type(value)), repr(value).encode("utf-8", "surrogatepass"))
        case pl.DataType():
            return _marked("type", dtype_text(value).encode())
        case _ if isinstance(value, WITH_FULL_REPR):
            return _marked(kind_of(type(value)), repr(value).encode())
        case _ if isinstance(value, type) and issubclass(value, pl.DataType):
            return _marked("type", dtype_text(value).encode())
        case _:
            return None
