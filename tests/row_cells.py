"""Values at the edges of every type, as columns, and the frames in which the same rows may come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import inf, nan
from typing import Any

import polars as pl

from evercurrent.core.data.columns.kernels import MANY_ROWS

LONG = [0.1 * k for k in range(300)]
TEXTS = ["", "a", "A b", " pad ", "aé😀", "12", "-7", "1.5", "1e3", "2024-02-29", "2024-02-29 12:30:00", "12:30:01", "[1, 2]",
         '{"a": 1}', "x" * 300, "ab,cd,,e", "0x1f", "deadbeef", "true", None]  # fmt: skip
FLOATS = [0.0, 1.0, 5.0, 7.0, 0.1, 1 / 3, -2.5, 1e16, 123456.789, 5e-324, 1e-310, 1.7976931348623157e308, 1e154, inf, -inf, nan,
          None, 49.0, 86399.999, 3e-5]  # fmt: skip
SINGLES = [
    0.0,
    1.0,
    5.0,
    7.0,
    0.10000000149011612,
    -2.5,
    1.401298464324817e-45,
    3.4028234663852886e38,
    inf,
    -inf,
    nan,
    None,
    49.0,
]
INSTANTS = [datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_000), datetime(2024, 2, 29, 12, 30, 1, 1000),
            datetime(1800, 1, 1, 5), datetime(2261, 12, 31), datetime(2024, 3, 31, 1), datetime(2024, 10, 27, 1, 30), None]  # fmt: skip
SPANS = [
    timedelta(0),
    timedelta(milliseconds=5),
    timedelta(milliseconds=-5),
    timedelta(days=365, seconds=7),
    timedelta(milliseconds=49),
    None,
]


def _whole(bits: int, *, signed: bool) -> list[int | None]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return [0, 1, 2, 5, 7, 49, 100, high, high - 1, low, None, *([-1, -7, low + 1] if signed else [])]


CELLS: dict[pl.DataType, list[Any]] = {
    **{getattr(pl, f"Int{bits}")(): _whole(bits, signed=True) for bits in (8, 16, 32, 64, 128)},
    **{getattr(pl, f"UInt{bits}")(): _whole(bits, signed=False) for bits in (8, 16, 32, 64, 128)},
    pl.Float64(): FLOATS,
    pl.Float32(): SINGLES,
    pl.Decimal(38, 2): [*map(Decimal, ("0.00", "-1.25", "5.00", "49.00", "123456789012345678901234567890123456.78", "0.01")), None],
    pl.Decimal(12, 4): [*map(Decimal, ("0.0000", "-1.2501", "5.0000", "49.0001", "99999999.9999")), None],
    pl.Boolean(): [True, False, None],
    pl.String(): TEXTS,
    pl.Binary(): [*(None if text is None else text.encode() for text in TEXTS), b"\xff\x00\x80", b"12345678"],
    pl.Date(): [date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31), None, date(2024, 12, 30)],
    **{pl.Datetime(unit): INSTANTS for unit in ("ms", "us", "ns")},
    pl.Datetime("us", "Europe/Berlin"): INSTANTS,
    pl.Datetime("ms", "Asia/Kolkata"): INSTANTS,
    **{pl.Duration(unit): SPANS for unit in ("ms", "us", "ns")},
    pl.Time(): [time(0), time(23, 59, 59, 999_999), time(12, 30, 1, 5), None],
    pl.Categorical(): ["a", "b", "", "é" * 5, None],
    pl.Enum(["a", "b", "c"]): ["a", "b", "c", None],
    pl.List(pl.Float64()): [[], [5.0], [0.0], [1.0, 2.5, None], [nan, 1.0], [None], None, LONG, [*LONG[:7], None, *LONG], [1e308, 1e308], [inf, -inf]],
    pl.List(pl.Float32()): [[], [5.0], [0.1, 0.2, 0.3], None, [None, 1.5], [0.1] * 200],
    pl.List(pl.Int64()): [[], [5], [1, 2, 3], [None], None, [2**62, 2**62], [3, 3, 1], [-7]],
    pl.List(pl.Int8()): [[], [5], [100, 100, 100], [None], None],
    pl.List(pl.String()): [[], ["a"], ["b", "a", "a"], [None, "x"], None, [""]],
    pl.List(pl.Boolean()): [[], [True], [False, None], None, [True, False]],
    pl.List(pl.Datetime("us")): [[], [datetime(2024, 1, 1)], [datetime(2024, 1, 1), None, datetime(1960, 1, 1)], None],
    pl.List(pl.Duration("us")): [[], [timedelta(5)], [timedelta(1), timedelta(2)], None],
    pl.List(pl.List(pl.Float64())): [[], [[5.0]], [[1.0, 2.0], []], [None], None],
    pl.List(pl.Struct({"a": pl.Float64(), "b": pl.String()})): [[], [{"a": 5.0, "b": "x"}], [{"a": 0.0, "b": None}, {"a": None, "b": "y"}], None],
    pl.Array(pl.Float64(), 2): [[5.0, 7.0], [0.0, 0.0], [None, 1.0], [nan, inf], None, [1e308, 1e308]],
    pl.Array(pl.Float64(), 1): [[5.0], [0.1], [None], None],
    pl.Array(pl.Float64(), 200): [LONG[:200], [*LONG[:9], None, *LONG[:190]], None],
    pl.Array(pl.Int64(), 2): [[5, 7], [None, 1], None, [2**62, 2**62]],
    pl.Array(pl.String(), 2): [["a", "b"], [None, "x"], None],
    pl.Array(pl.Boolean(), 2): [[True, False], [None, True], None],
    pl.Struct({"a": pl.Float64(), "b": pl.String()}): [{"a": 5.0, "b": "x"}, {"a": 0.0, "b": None}, {"a": None, "b": ""}, None],
    pl.Struct({"a": pl.List(pl.Float64()), "b": pl.Struct({"c": pl.Int64()})}): [{"a": [5.0], "b": {"c": 1}}, {"a": None, "b": None}, None],
}  # fmt: skip

BESIDE: dict[str, tuple[pl.DataType, list[Any]]] = {
    "f": (pl.Float64(), [1.5, 49.0, None, 0.1]),
    "i": (pl.Int64(), [1, 2, 0, -1, 3, None]),
    "s": (pl.String(), ["a", "", "2", "b", None]),
    "b": (pl.Boolean(), [True, False, None]),
    "d": (pl.Date(), [date(1970, 1, 1), date(2024, 2, 29), None, date(1969, 12, 31)]),
    "t": (pl.Duration("us"), SPANS),
}
"""Columns that stand beside the one under test, so that functions of several can be called."""


def column(name: str, values: Sequence[Any], dtype: pl.DataType) -> pl.Series:
    if isinstance(dtype, pl.Datetime) and dtype.time_zone:
        plain = pl.Series(name, values, pl.Datetime(dtype.time_unit))
        return plain.dt.replace_time_zone("UTC").dt.convert_time_zone(dtype.time_zone)
    return pl.Series(name, values, dtype)


def rows_of(dtype: pl.DataType) -> pl.DataFrame:
    """A row for each value of a type, with another value of it and values of the plain types beside."""
    values = CELLS[dtype]
    places = range(len(values))
    return pl.DataFrame(
        [
            column("x", values, dtype),
            column("y", [values[(2 * place + 1) % len(values)] for place in places], dtype),
            *(column(name, [some[place % len(some)] for place in places], kind) for name, (kind, some) in BESIDE.items()),
        ]
    )  # fmt: skip


def bits(values: pl.Series) -> list[str]:
    """Each value written down so that what differs looks different: 0.0 and -0.0 do, NaN is one value."""
    if "Categorical" in str(values.dtype) or "Enum" in str(values.dtype):
        return list(map(repr, values.to_list()))
    return list(map(repr, values.to_physical().to_list()))


def companies(rows: pl.DataFrame, *, quick: bool = False) -> Iterator[tuple[str, pl.DataFrame, list[int]]]:
    """The frames in which the rows come, each with what it is, and the numbers of its rows; fewer of them, where quick."""
    height = rows.height
    every = list(range(height))
    yield from ((f"row {place} alone", rows.slice(place, 1), [place]) for place in every)
    yield from (
        (f"row {place} twice", rows[[place, place]], [place] * 2) for place in every[: 1 if quick else 4]
    )
    for size in (3,) if quick else (2, 3, 7):
        step = 2 * size if quick else size - 1
        yield from (
            (f"{size} from row {start}", rows.slice(start, size), every[start : start + size])
            for start in range(0, height - size + 1, step)
        )
    for size in (65,) if quick else (64, 65, 5000):
        places = [place * 5 % height if height % 5 else place % height for place in range(size)]
        yield f"{size} rows", rows[places], places
    yield "chunks of one row", pl.concat([rows.slice(place, 1) for place in every], rechunk=False), every
    times = _most_rows(rows.schema["x"], quick=quick) // height + 1
    yield "many chunks", pl.concat([rows] * times, rechunk=False), every * times
    full = [place for place in every if rows["x"][place] is not None]
    if not full:
        return
    yield "no nulls", rows[full], full
    yield (
        "no bitmap",
        rows[full].with_columns(column("x", rows["x"][full].to_list(), rows.schema["x"]))
        if _plain(rows.schema["x"])
        else rows[full],
        full,
    )
    try:
        order = rows["x"].arg_sort().to_list()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return
    by_value = rows[order]
    yield "sorted", by_value, order
    yield "sorted, and marked so", by_value.with_columns(by_value["x"].set_sorted()), order


def _most_rows(dtype: pl.DataType, *, quick: bool) -> int:
    """How many rows come at least: more than are computed in one thread, but for wide arrays where quick, as for the narrow ones."""
    if not quick:
        return 5000
    return 500 if isinstance(dtype, pl.Array) and dtype.shape[0] > 2 else MANY_ROWS


def _plain(dtype: pl.DataType) -> bool:
    return not isinstance(dtype, pl.Datetime)
