"""What a source takes has exactly the values of what was pushed; what would lose anything is refused, and changes nothing.

The truth is plain Python: a value is a number, a text, a moment, whatever type it stands in; a type holds a value or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, example, given

import evercurrent as ec
from strategies import of_profile

NS = {"ms": 1_000_000, "us": 1_000, "ns": 1}
DAY = 86_400_000_000_000
LIMIT = 1 << 63
WHOLE = [
    0,
    1,
    -1,
    127,
    128,
    -129,
    255,
    65_536,
    (1 << 31) - 1,
    1 << 31,
    (1 << 53) + 1,
    LIMIT - 1,
    1 << 40,
    None,
]
FLOATS = [0.0, 1.0, -3.0, 1.5, 0.1, 300.0, 2.0**63, 1e300, math.nan, math.inf, None]
TEXTS = ["a", "b", "", "1", None]
MOMENTS = [0, 1, 1000, 1_000_000, 86_400_000_000_000, -DAY, 999, 1_700_000_000_000_000_000, None]

LEAVES: list[tuple[pl.DataType, list[Any]]] = [
    *((dtype(), WHOLE) for dtype in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt32, pl.UInt64, pl.Int128)),
    *((dtype(), FLOATS) for dtype in (pl.Float32, pl.Float64)),
    *((pl.Decimal(*size), [Decimal("1.5"), Decimal(7), Decimal("0.25"), None]) for size in ((20, 2), (5, 1), (9, 0))),
    (pl.Boolean(), [True, False, None]),
    (pl.String(), TEXTS),
    (pl.Categorical(), TEXTS),
    (pl.Enum(["a", "b"]), ["a", "b", None]),
    (pl.Binary(), [b"", b"a", None]),
    (pl.Date(), [0, 1, -800, 200_000, None]),
    (pl.Time(), [0, 1_000_000, None]),
    *((pl.Datetime(unit, zone), MOMENTS) for unit in NS for zone in (None, "UTC", "Europe/Berlin")),  # type: ignore[arg-type]
    *((pl.Duration(unit), MOMENTS) for unit in NS),  # type: ignore[arg-type]
    (pl.Null(), [None]),
]  # fmt: skip
"""Types that are not nested, and what columns of them are made of: numbers, or the integers that times are kept as."""


def column_of(name: str, dtype: pl.DataType, values: list[Any]) -> pl.Series:
    """A column of those of these values that the type has."""
    if dtype.is_temporal():
        kept = pl.Series(name, values, pl.Int64)
        return (kept.cast(pl.Int32) if isinstance(dtype, pl.Date) else kept).cast(dtype)
    if dtype.is_integer():
        return pl.Series(name, [each if holds(dtype, each) else 0 for each in values], dtype)
    return pl.Series(name, values, dtype)


def meant(column: pl.Series) -> list[Any]:
    """What the values of a column are, whatever it is of."""
    dtype = column.dtype
    if isinstance(dtype, pl.Struct):
        parts = {field.name: meant(column.struct.field(field.name)) for field in dtype.fields}
        nulls = column.is_null().to_list()
        return [
            None if null else {name: part[at] for name, part in parts.items()}
            for at, null in enumerate(nulls)
        ]
    if isinstance(dtype, pl.List | pl.Array):
        return [None if each is None else meant(each) for each in column]
    if isinstance(dtype, pl.Datetime | pl.Duration):
        what = (
            "duration" if isinstance(dtype, pl.Duration) else "time" if dtype.time_zone is None else "instant"
        )
        return [None if each is None else (what, each * NS[dtype.time_unit]) for each in column.to_physical()]
    if isinstance(dtype, pl.Date):
        return [None if each is None else ("time", each * DAY) for each in column.to_physical()]
    return [as_meant(each) for each in column.to_list()]


def as_meant(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value if math.isinf(value) else Fraction(value)
    return Fraction(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else value


def holds(dtype: pl.DataType, value: Any) -> bool:
    """Whether a type has a value for what is meant."""
    if value is None:
        return True
    match dtype:
        case pl.List() | pl.Array():
            inner: Any = dtype.inner
            fits = isinstance(dtype, pl.List) or len(value) == dtype.size
            return fits and all(holds(inner, each) for each in value)
        case pl.Struct():
            return all(holds(field.dtype, value[field.name]) for field in dtype.fields)  # type: ignore[arg-type]
        case pl.Datetime() | pl.Duration() | pl.Date():
            return isinstance(value, tuple) and is_moment(dtype, *value)
        case pl.String() | pl.Categorical():
            return isinstance(value, str) and value != "NaN"
        case pl.Enum():
            return value in ("a", "b")
        case pl.Boolean():
            return isinstance(value, bool)
        case pl.Binary():
            return isinstance(value, bytes)
        case pl.Float32() | pl.Float64():
            return is_float(dtype, value)
        case pl.Decimal():
            return isinstance(value, Fraction) and is_decimal(dtype, value)
    if dtype.is_integer() and isinstance(value, int | Fraction) and not isinstance(value, bool):
        bits, signed = int("".join(filter(str.isdigit, str(dtype)))), str(dtype).startswith("Int")
        least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        return Fraction(value).denominator == 1 and least <= value <= most
    return False


def is_moment(dtype: pl.DataType, what: str, moment: int) -> bool:
    if isinstance(dtype, pl.Date):
        return what in ("time", "instant") and moment % DAY == 0
    if isinstance(dtype, pl.Duration):
        return (
            what == "duration"
            and moment % NS[dtype.time_unit] == 0
            and -LIMIT <= moment // NS[dtype.time_unit] < LIMIT
        )
    assert isinstance(dtype, pl.Datetime)
    kinds, step = (("time", "instant") if dtype.time_zone is None else ("instant",)), NS[dtype.time_unit]
    return what in kinds and moment % step == 0 and -LIMIT <= moment // step < LIMIT


def as_held(dtype: pl.DataType, value: Any) -> Any:
    """What is meant by a value once a type holds it: an instant in a type without a zone is its time in UTC."""
    if value is None:
        return None
    match dtype:
        case pl.List() | pl.Array():
            inner: Any = dtype.inner
            return [as_held(inner, each) for each in value]
        case pl.Struct():
            return {field.name: as_held(field.dtype, value[field.name]) for field in dtype.fields}  # type: ignore[arg-type]
        case pl.Date() | pl.Datetime(time_zone=None):
            return ("time", value[1])
    return value


def is_float(dtype: pl.DataType, value: Any) -> bool:
    if value in ("NaN", math.inf, -math.inf):
        return not isinstance(value, Fraction)
    if not isinstance(value, Fraction):
        return False
    with np.errstate(over="ignore"):
        kept = float(np.float32(float(value))) if isinstance(dtype, pl.Float32) else float(value)
    return math.isfinite(kept) and Fraction(kept) == value


def is_decimal(dtype: pl.Decimal, value: Fraction) -> bool:
    shifted = value * 10**dtype.scale
    return shifted.denominator == 1 and abs(shifted) < 10 ** (dtype.precision or 38)


@st.composite
def nestings(draw: st.DrawFn) -> Callable[[pl.Series], pl.Series]:
    """A way to put a column into lists, arrays and structs."""
    kinds = draw(st.lists(st.sampled_from(["list", "array", "struct"]), max_size=2))

    def nested(column: pl.Series) -> pl.Series:
        for kind in kinds:
            if kind == "struct":
                column = pl.DataFrame({"f": column}).to_struct(column.name)
            else:
                twice = column.gather(np.repeat(np.arange(len(column)), 2)).reshape((-1, 2))
                column = twice if kind == "array" else twice.arr.to_list()
        return column

    return nested


def pushed(column: pl.Series, origin: str) -> tuple[Any, pl.Series]:
    """A column as another library has it, and what polars makes of that."""
    if origin == "arrow" and "128" not in str(column.dtype):  # Arrow has no integers of 128 bits.
        table = column.to_frame().to_arrow()
        return table, pl.DataFrame(table).to_series()
    return column.to_frame(), column


def refusal_of(engine: ec.Engine, rows: Any) -> str | None:
    """The error with which the source refuses these rows; None if it takes them."""
    try:
        engine.push("s", rows)
    except ec.InputError as error:
        return str(error)
    return None


@of_profile(2)
@given(
    st.sampled_from(LEAVES),
    st.sampled_from(LEAVES),
    st.data(),
    nestings(),
    st.sampled_from(["polars", "arrow"]),
)
def test_what_is_taken_is_what_was_pushed_and_the_rest_changes_nothing(
    given_leaf: tuple[pl.DataType, list[Any]],
    declared_leaf: tuple[pl.DataType, list[Any]],
    data: st.DataObject,
    nested: Callable[[pl.Series], pl.Series],
    origin: str,
) -> None:
    values = data.draw(st.lists(st.sampled_from(given_leaf[1]), min_size=1, max_size=4))
    column = nested(column_of("x", given_leaf[0], values))
    dtype = nested(column_of("x", declared_leaf[0], [None])).dtype
    is_decimal = [isinstance(each[0], pl.Decimal) for each in (given_leaf, declared_leaf)]
    is_binary = [each[0].is_float() for each in (given_leaf, declared_leaf)]
    assume(not (any(is_decimal) and any(is_binary)))  # Fractions of two kinds, of which few are alike.
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"n": pl.Int64, "x": dtype}))
    rows, column = pushed(column, origin)
    numbers = pl.Series("n", range(len(column)))
    given_rows = (
        rows.append_column("n", numbers.to_arrow())
        if isinstance(rows, pa.Table)
        else rows.with_columns(numbers)
    )
    refused = refusal_of(engine, given_rows)
    if refused is not None:
        row = next(at for at, each in enumerate(meant(column)) if not holds(dtype, each))
        assert "source 's': column 'x' is " in refused
        assert f" in row {row}, which" in refused
        assert (engine.epoch_number, view.read().height) == (0, 0)
        return
    assert view.read().sort("n").get_column("x").dtype == dtype
    assert meant(view.read().sort("n").get_column("x")) == [as_held(dtype, each) for each in meant(column)]


@given(st.sampled_from(LEAVES), st.data(), st.sampled_from([list, dict]))
@example((pl.Date(), [18_000]), None, dict)
def test_values_of_python_are_taken_as_they_are_or_refused(
    leaf: tuple[pl.DataType, list[Any]], data: st.DataObject | None, shape: type
) -> None:
    """Of values that Python and polars have alike."""
    values = (
        leaf[1] if data is None else data.draw(st.lists(st.sampled_from(leaf[1]), min_size=1, max_size=4))
    )
    if leaf[0].is_temporal():
        values = [
            each for each in values if each is None or 0 <= each < 1_000_000
        ]  # Python's times are fewer.
    given_values = column_of("x", leaf[0], values).to_list()
    declared = leaf[0] if data is None else data.draw(st.sampled_from(LEAVES))[0]
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"n": pl.Int64, "x": declared}))
    rows = [{"n": at, "x": each} for at, each in enumerate(given_values)]
    refused = refusal_of(engine, rows if shape is list else {"n": list(range(len(rows))), "x": given_values})
    if refused is not None:
        assert "source 's': column 'x'" in refused
        assert "in row" in refused
        assert engine.epoch_number == 0
        return
    found = view.read().sort("n").get_column("x").to_list()
    if declared.is_float() and any(isinstance(each, float) for each in given_values):
        return  # The nearest number: Python has one type of floats only.
    if declared.is_float() and any(isinstance(each, Decimal) for each in given_values):
        shortest = np.float32 if declared == pl.Float32 else float
        found = [each if each is None else Decimal(str(shortest(each))) for each in found]
    # A float is the decimal that Python prints for it, and a text is read as one.
    if isinstance(declared, pl.Decimal):
        given_values = [
            Decimal(str(each)) if isinstance(each, float | str) else each for each in given_values
        ]
    assert [as_meant(each) for each in found] == [as_meant(each) for each in given_values] or all(
        a is b or same_moment(a, b) for a, b in zip(found, given_values, strict=True)
    )


def same_moment(found: Any, pushed: Any) -> bool:
    """Whether a value is the pushed one, or the same time: a date is its midnight, an instant without its zone is in UTC."""
    if isinstance(found, date) and isinstance(pushed, date):
        return (zone_of(found) is None or zone_of(pushed) is not None) and instant_of(found) == instant_of(
            pushed
        )
    return bool(found == pushed)


def zone_of(moment: date) -> Any:
    return moment.tzinfo if isinstance(moment, datetime) else None


def instant_of(moment: date) -> datetime:
    time_of_day = moment if isinstance(moment, datetime) else datetime.combine(moment, time())
    return time_of_day if time_of_day.tzinfo is not None else time_of_day.replace(tzinfo=UTC)


@pytest.mark.parametrize("kind", ["numbers", "times"])
def test_a_list_of_rows_loses_nothing(kind: str) -> None:
    declared = {"numbers": pl.Decimal(10, 1), "times": pl.Datetime("ms")}[kind]
    engine = ec.Engine()
    engine.source("s", {"x": declared})
    value = {"numbers": Decimal("1.25"), "times": datetime(2020, 1, 1, 0, 0, 0, 5)}[kind]
    with pytest.raises(ec.InputError, match=r"column 'x' holds .* \(in row 1\)"):
        engine.push("s", [{"x": None}, {"x": value}])


@pytest.mark.parametrize(
    ("dtype", "with_it"),
    [
        (pl.Float64(), lambda value: value),
        (pl.Struct({"f": pl.Float32}), lambda value: {"f": value}),
        (pl.List(pl.Float64), lambda value: [0.5, None, value]),
        (pl.Array(pl.Float32, 2), lambda value: [value, 0.5]),
        (pl.List(pl.List(pl.Float64)), lambda value: [None, [], [value]]),
        (pl.Struct({"f": pl.List(pl.Float64)}), lambda value: {"f": [value]}),
        (pl.List(pl.Struct({"f": pl.Float64})), lambda value: [None, {"f": value}]),
    ],
    ids=lambda each: str(each) if isinstance(each, pl.DataType) else "",
)
def test_a_decimal_is_the_float_that_is_printed_as_it_or_it_is_refused(
    dtype: pl.DataType, with_it: Callable[[Decimal], Any]
) -> None:
    def rows(value: str) -> list[dict[str, Any]]:
        return [{"x": with_it(Decimal(value))}]

    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"x": dtype}))
    engine.push("s", rows("0.2"))
    for value in ("0.12345678901234567891", "1e400"):
        with pytest.raises(ec.InputError, match=r"column 'x' holds .* which floats round to .* \(in row 0\)"):
            engine.push("s", rows(value))
    assert view.read().height == 1


@pytest.mark.parametrize("dtype", [pl.List(pl.Null), pl.Struct({"f": pl.List(pl.Null)})], ids=str)
def test_lists_of_nulls_only_are_lists_of_nulls(dtype: pl.DataType) -> None:
    def frame(value: int | None) -> pl.DataFrame:
        values = [[None, value], None, []]
        column = pl.Series("f", values, pl.List(pl.Int64))
        return pl.DataFrame({"x": column if isinstance(dtype, pl.List) else column.to_frame().to_struct("x")})

    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"x": dtype}))
    engine.push("s", frame(None))
    with pytest.raises(ec.InputError, match=r"column 'x' is .* in row 0"):
        engine.push("s", frame(1))
    assert view.read().height == 3
