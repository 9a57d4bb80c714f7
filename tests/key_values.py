"""Values of every type that a key may have, and their words by the definition, in plain Python: shares no code with the engine.

``tests/data/key_words.json`` has the words of these values for good; it is written anew by running this file. Words of
values that are in it never change: they stand in checkpoints.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import polars as pl

PINNED = Path(__file__).parent / "data" / "key_words.json"

WORD = 2**64
SPREAD, NULL_WORD = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03
MIX_1, MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
DIGITS = Context(prec=60)
EPOCH = datetime(1970, 1, 1)

Value = tuple[int, int]

TEXTS = [
    None,
    "",
    "a",
    "abcdefgh",
    "abcdefghi",
    "Straße 12",
    "abcdefghijkl",
    "abcdefghijklm",
    "x" * 16,
    "x" * 17,
]
TEXTS += ["0123456789" * 30, "\0", "\0\0", "日本語", "user-000000001", "a" * 2100]

NAN, INF = float("nan"), float("inf")

CATALOGUE: list[tuple[pl.DataType, list[Any]]] = [
    (pl.Int8(), [None, 0, 1, -1, 127, -128]),
    (pl.Int16(), [None, 0, 1, -1, 2**15 - 1]),
    (pl.Int32(), [None, 0, 1, -1, -(2**31)]),
    (pl.Int64(), [None, 0, 1, -1, 2**63 - 1, -(2**63), NULL_WORD - WORD]),
    (pl.UInt8(), [None, 0, 255]),
    (pl.UInt32(), [None, 0, 2**32 - 1]),
    (pl.UInt64(), [None, 0, 1, 2**64 - 1, NULL_WORD]),
    (pl.Int128(), [None, 0, -1, 2**100]),
    (pl.Boolean(), [None, True, False]),
    (pl.Float32(), [None, 0.0, -0.0, 1.5, NAN, INF]),
    (pl.Float64(), [None, 0.0, -0.0, 1.5, -2.25, 0.1, NAN, INF, -INF, 5e-324, 1e300]),
    (pl.String(), TEXTS),
    (pl.Binary(), [None, b"", b"\xff" * 8, b"\x00\x01", *(text.encode() for text in TEXTS if text)]),
    (pl.Categorical(), ["b", None, "a", "b", "a longer one than others"]),
    (pl.Enum(["b", "a"]), ["b", None, "a"]),
    (pl.Date(), [None, date(1970, 1, 1), date(2026, 2, 28), date(1, 1, 1)]),
    (pl.Datetime("us"), [None, EPOCH, datetime(2026, 2, 28, 12, 30, 15, 123)]),
    (pl.Datetime("ms"), [None, EPOCH, datetime(2026, 2, 28, 12, 30, 15)]),
    (pl.Time(), [None, time(0), time(23, 59, 59)]),
    (pl.Duration("us"), [None, timedelta(0), timedelta(days=-3, microseconds=1)]),
    (pl.Decimal(10, 2), [None, Decimal("0.00"), Decimal("1.50"), Decimal("-7.25")]),
    (pl.Decimal(38, 2), [None, Decimal("-7.25"), Decimal("123456789012345678901234567.89")]),
    (pl.List(pl.Int32()), [None, [], [0], [None], [1, 2], [2, 1], [1, 2, 0]]),
    (pl.List(pl.String()), [None, [], [""], ["a", "b"], ["ab"], ["x" * 40, None]]),
    (pl.List(pl.List(pl.Float64())), [None, [], [[]], [[0.0], [-0.0, NAN]], [None]]),
    (pl.Array(pl.Int64(), 2), [None, [1, 2], [2, 1], [None, 0]]),
    (pl.Struct({"x": pl.Int64(), "y": pl.String()}), [None, {"x": 1, "y": "a"}, {"x": None, "y": ""}]),
    (pl.List(pl.Struct({"x": pl.Date()})), [None, [], [{"x": date(2026, 1, 1)}, {"x": None}]]),
    (pl.Null(), [None, None]),
]


def words_of_row(values: Sequence[Value], counted: int | None = None) -> Value:
    """The two words of a row, a list, a struct or a text."""
    items = [item(own, place) for place, (own, _) in enumerate(values)]
    first = sum(items) + (len(values) if counted is None else counted)
    second = sum(
        (each + (place + 1) * SPREAD + further) ** 2
        for place, (each, (_, further)) in enumerate(zip(items, values, strict=True))
    )
    return first % WORD, second % WORD


def item(word: int, place: int) -> int:
    word += (place + 1) * SPREAD
    for factor in (MIX_1, MIX_2):
        word = word * factor % WORD
        word ^= word >> 32
    return word


def value_of(value: Any, dtype: pl.DataType) -> Value:
    """The value of a column of this type, as one of a row."""
    match value:
        case None:
            return NULL_WORD, NULL_WORD
        case list():
            assert isinstance(dtype, pl.List | pl.Array)
            return words_of_row([value_of(item, dtype.inner) for item in value], len(value))  # type: ignore[arg-type]
        case dict():
            assert isinstance(dtype, pl.Struct)
            return words_of_row([value_of(value[name], inner) for name, inner in dtype.to_schema().items()])  # type: ignore[arg-type]
        case str():
            return value_of(value.encode(), dtype)
        case bytes():
            words = [int.from_bytes(value[at : at + 8], "little") for at in range(0, len(value), 8)]
            return words_of_row([(word, 0) for word in words], len(value))
        case float():
            plain = NAN if value != value else value + 0.0
            return int.from_bytes(struct.pack("<d", plain), "little"), 0
        case Decimal():
            assert isinstance(dtype, pl.Decimal)
            whole = int(value.scaleb(dtype.scale or 0, DIGITS))
            low = whole % WORD
            beyond = ((whole >> 64) + (low >> 63)) % WORD
            return (low + beyond * SPREAD) % WORD, beyond
        case _ if dtype in (pl.Int128, pl.UInt128):
            return value_of(str(value), dtype)
        case _:
            return _counted(value, dtype) % WORD, 0


def _counted(value: Any, dtype: pl.DataType) -> int:
    """An integer, an instant or a span in the unit of its column."""
    match value:
        case datetime():
            unit = {"us": 1, "ms": 1000}[dtype.time_unit]  # type: ignore[attr-defined]
            return (value - EPOCH) // timedelta(microseconds=unit)
        case date():
            return (value - EPOCH.date()).days
        case timedelta():
            return value // timedelta(microseconds=1)
        case time():
            return ((value.hour * 60 + value.minute) * 60 + value.second) * 10**9 + value.microsecond * 1000
        case _:
            return int(value)


def words_by_type() -> dict[str, list[list[str]]]:
    """The words of a row of one value, in hexadecimal, for every value in the catalogue."""
    return {
        str(dtype): [[f"{word:016x}" for word in words_of_row([value_of(v, dtype)])] for v in values]
        for dtype, values in CATALOGUE
    }


if __name__ == "__main__":
    PINNED.write_text(json.dumps(words_by_type(), indent=1) + "\n")
