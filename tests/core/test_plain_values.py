"""Plain values as bytes: type and value come back, equal values are equal bytes, and nothing else is taken."""

from __future__ import annotations

import enum
import json
import math
import pickle
import struct
from collections import Counter, OrderedDict, deque, namedtuple
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal, assert_series_equal

from evercurrent.core.data.columns.plain_values import NotPlainError, decoded, encoded

ZONES = st.sampled_from(
    [None, UTC, timezone(timedelta(hours=-3, seconds=7), "here"), ZoneInfo("Europe/Berlin")]
)
NUMPY = st.sampled_from(
    [np.float64(0.1), np.float32("nan"), np.int8(-3), np.bool_(True), np.datetime64("2020-01-01", "us")]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(1 << 90), 1 << 90), st.floats(allow_nan=True), st.complex_numbers(),
    st.text(st.characters()), st.binary(), st.binary().map(bytearray), st.dates(), st.datetimes(timezones=ZONES, allow_imaginary=False),
    st.times(timezones=st.none()), st.timedeltas(), st.decimals(allow_nan=True), st.fractions(), NUMPY,
)  # fmt: skip
KEYS = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(), st.binary(), st.dates(), st.booleans()),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.lists(inner, max_size=4).map(lambda values: deque(values, 7)),
        st.dictionaries(KEYS, inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=4).map(Counter),
        st.sets(KEYS, max_size=4),
        st.frozensets(KEYS, max_size=4),
    ),
    max_leaves=12,
)


def same(one: Any, other: Any) -> bool:
    """Whether type and value are the same, NaN being the same as NaN and -0.0 not as 0.0."""
    if type(one) is not type(other):
        return False
    match one:
        case float():
            return struct.pack("d", one) == struct.pack("d", other) or (math.isnan(one) and math.isnan(other))
        case complex():
            return same(one.real, other.real) and same(one.imag, other.imag)
        case list() | tuple() | deque():
            ends = (one.maxlen, other.maxlen) if isinstance(one, deque) else (0, 0)
            return ends[0] == ends[1] and len(one) == len(other) and all(map(same, one, other))
        case dict():
            return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
        case Decimal():
            return one.as_tuple() == other.as_tuple()
        case datetime() | time():
            return (repr(one), one.fold) == (repr(other), other.fold)
        case np.generic():
            return one.dtype == other.dtype and one.tobytes() == other.tobytes()
        case _:
            return bool(one == other)


@given(VALUES)
@example(10**5000)
@example([-0.0, math.nan, math.inf, -math.inf, 5e-324])
@example("\ud800")
@example({1: "a", "1": "b", (1,): "c", None: "d", b"1": "e"})
@example(datetime(2020, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1))
@example([date.min, date.max, datetime.min, datetime.max, timedelta.min, timedelta.max])
@example(Decimal("-sNaN123"))
def test_what_was_written_comes_back_with_its_type(value: Any) -> None:
    data = encoded(value)
    assert same(decoded(data), value)
    assert encoded(decoded(data)) == data
    json.loads(data)


@given(st.dictionaries(KEYS, SCALARS, max_size=6), st.randoms())
def test_equal_values_are_equal_bytes_however_they_were_filled(value: dict[Any, Any], random: Any) -> None:
    items = list(value.items())
    random.shuffle(items)
    assert encoded(dict(items)) == encoded(value)
    assert encoded(set(value)) == encoded({key for key, _ in items})


def test_columns_and_arrays_come_back() -> None:
    series = pl.Series("x", [[1, None], None, []], dtype=pl.List(pl.Int16))
    assert_series_equal(decoded(encoded(series)), series)
    frame = pl.DataFrame({"a": [1.5, math.nan], "b": [b"x", None]})
    assert_frame_equal(decoded(encoded({"kept": frame}))["kept"], frame)
    array = np.arange(6, dtype=">i2").reshape(2, 3)
    back = decoded(encoded(array))
    assert back.dtype == array.dtype
    assert (back == array).all()
    back += 1  # It can be written to, as any array.


class Named(dict[str, int]):
    """A dict of another type."""


class Colour(enum.IntEnum):
    RED = 1


Point = namedtuple("Point", "x")
HOLDS_ITSELF: list[Any] = []
HOLDS_ITSELF.append(HOLDS_ITSELF)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "object"),
        (len, "builtin_function_or_method"),
        (Named(a=1), "test_plain_values.Named"),
        (Point(1), "test_plain_values.Point"),
        (Colour.RED, "test_plain_values.Colour"),
        (OrderedDict(a=1), "collections.OrderedDict"),
        ([1, {"a": (object(),)}], "object"),
        (HOLDS_ITSELF, "holds itself"),
        (np.array([object()]), "numpy.ndarray of numpy's type object"),
        (pl.Series([object()], dtype=pl.Object), "Series of Object"),
    ],
    ids=range(10),
)
def test_anything_else_is_refused_by_its_type(value: Any, message: str) -> None:
    with pytest.raises(NotPlainError, match=message):
        encoded(value)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xff", b"{", b"[1", b"NaN", b"{}", b'{"a":1}', b'{"tuple":[1],"list":[]}', b'{"tuple":5}', b'{"eval":"1"}',
        b'{"ndarray":["|O8",[1],"AAAAAAAAAAA="]}', b'{"number":["O","AAAA"]}', b'{"DataFrame":"AAAA"}', b'{"datetime":["x",null,0]}',
        b'{"datetime":["2020-01-01T00:00:00","../../etc/passwd",0]}', b'{"set":[[1]]}', b'{"Decimal":"x"}', b"[" * 100_000,
        pickle.dumps([1]),
    ],
    ids=lambda data: repr(data[:40]),
)  # fmt: skip
def test_other_bytes_are_no_value(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a plain value"):
        decoded(data)
