"""Rows of other libraries: what means the same is taken, and a refusal names what mends it in their words."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc  # noqa: F401 (the hints use it)
import pytest

import evercurrent as ec
from evercurrent.core.data.columns.polars_versions import MAP

pd = pytest.importorskip("pandas")

DECLARED = {
    "at": pl.Datetime("us"),
    "zoned": pl.Datetime("us", "UTC"),
    "n": pl.Int64,
    "kind": pl.String,
    "ratio": pl.Float64,
    "day": pl.Date,
}
NOON = datetime(2026, 1, 2, 12)
ROW = (NOON, NOON.replace(tzinfo=UTC), 3, "x", 0.5, date(2026, 1, 2))

FRAME = pd.DataFrame(
    {
        "at": pd.to_datetime([NOON, None]),
        "zoned": pd.to_datetime([NOON.replace(tzinfo=UTC), None]).tz_convert("Europe/Berlin"),
        "n": [3, None],
        "kind": pd.Categorical(["x", None]),
        "ratio": np.array([0.5, 0.25], np.float32),
        "day": pd.to_datetime(["2026-01-02", None]),
    }
)


def engine_of(**declared: Any) -> tuple[ec.Engine, ec.View]:
    engine = ec.Engine()
    return engine, engine.view("v", engine.source("s", declared))


@pytest.mark.parametrize(
    "as_frame", [lambda frame: frame, pa.Table.from_pandas, pl.from_pandas], ids=["pandas", "Arrow", "polars"]
)
def test_what_pandas_makes_of_a_table_is_taken(as_frame: Any) -> None:
    engine, view = engine_of(**DECLARED)
    engine.push("s", as_frame(FRAME))
    assert view.schema == pl.Schema(DECLARED)
    assert view.read().sort("ratio", descending=True).rows() == [ROW, (None, None, None, None, 0.25, None)]


def test_a_column_of_nulls_is_of_any_type() -> None:
    engine, view = engine_of(n=pl.Int64, parts=pl.List(pl.Struct({"a": pl.Int8})))
    engine.push("s", pd.DataFrame({"n": [None], "parts": [None]}))
    engine.push("s", pl.DataFrame({"n": pl.Series([None], dtype=pl.String), "parts": [None]}))
    assert view.read().rows() == [(None, None)] * 2


def test_parts_of_lists_and_structs_are_taken_as_columns_are() -> None:
    engine, view = engine_of(
        list=pl.List(pl.Int64), struct=pl.Struct({"a": pl.String, "b": pl.Datetime("us")})
    )
    given = pl.DataFrame(
        {
            "list": pl.Series([[1, None], [], None], dtype=pl.List(pl.Int32)),
            "struct": pl.Series(
                [{"b": NOON, "a": "x"}, None, {"b": None, "a": None}],
                dtype=pl.Struct({"b": pl.Datetime("ns"), "a": pl.Categorical}),
            ),
        }
    )
    engine.push("s", given)
    found = [(row["list"], row["struct"]) for row in view.read().to_dicts()]
    assert len(found) == 3
    for each in [([1, None], {"a": "x", "b": NOON}), ([], None), (None, {"a": None, "b": None})]:
        assert each in found


FAR = 1 << 62
SECONDS = datetime(1970, 1, 1, 0, 1)
TAKEN: dict[str, tuple[Any, Any, list[Any]]] = {
    "run ends": (
        pl.String, pa.table({"x": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", None]))}),
        ["a", "a", None],
    ),
    "views of lists": (
        pl.List(pl.Int64),
        pa.table({"x": pa.ListViewArray.from_arrays([4, 0, 2], [2, 2, 3], pa.array(range(6)), mask=pa.array([False, True, False]))}),
        [[4, 5], None, [2, 3, 4]],
    ),
    "views in columns": (pl.List(pl.Int64), {"x": pa.array([[1], None], pa.large_list_view(pa.int8()))}, [[1], None]),
    "wide decimals": (pl.Decimal(9, 2), pa.table({"x": pa.array([Decimal("1.5"), None], pa.decimal256(50, 3))}), [Decimal("1.5"), None]),
    "decimals of hundreds": (pl.Decimal(9, 0), pa.table({"x": pa.array([Decimal("1500")], pa.decimal128(5, -2))}), [1500]),
    "an extension of Arrow": (
        pl.Array(pl.Int64, 2), pa.table({"x": pa.FixedShapeTensorArray.from_numpy_ndarray(np.array([[1, 2]]))}), [[1, 2]],
    ),
    "seconds": (pl.Datetime("us"), pa.table({"x": pa.array([60], pa.timestamp("s"))}), [SECONDS]),
    "a stream": (
        pl.Int64, pa.table({"x": pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([7]))}).to_reader(), [7],
    ),
    "pandas: seconds": (pl.Datetime("us"), pd.DataFrame({"x": np.array([60], "M8[s]")}), [SECONDS]),
    "pandas: seconds of Arrow": (
        pl.Datetime("us", "UTC"), pd.DataFrame({"x": pd.array([SECONDS], "timestamp[s, tz=UTC][pyarrow]")}),
        [SECONDS.replace(tzinfo=UTC)],
    ),
    "pandas: sparse": (pl.Int64, pd.DataFrame({"x": pd.arrays.SparseArray([0, 1])}), [0, 1]),
    "a column of pandas: nanoseconds": (
        pl.Datetime("us"), {"x": pd.Series([pd.Timestamp(60_000_000_000), None], dtype=object)}, [SECONDS, None],
    ),
    "a column of pandas: sparse": (pl.Int64, {"x": pd.Series(pd.arrays.SparseArray([0, 1]))}, [0, 1]),
    "pandas: wide decimals of Arrow": (
        pl.Decimal(9, 2), pd.DataFrame({"x": pd.array([Decimal("1.5")], pd.ArrowDtype(pa.decimal256(50, 3)))}), [Decimal("1.5")],
    ),
    "numpy: seconds": (pl.Datetime("us"), {"x": np.array([60, "NaT"], "M8[s]")}, [SECONDS, None]),
    "numpy: minutes": (pl.Duration("us"), {"x": np.array([1], "m8[m]")}, [timedelta(minutes=1)]),
    "numpy: months": (pl.Date, {"x": np.array(["1970-02"], "M8[M]")}, [date(1970, 2, 1)]),
    "numpy: objects": (pl.Int64, {"x": np.array([1, None], object)}, [1, None]),
}  # fmt: skip


ARRAYS = pl.Series([[9, 9], [1, 2], None, [3, None]], dtype=pl.Array(pl.Int32, 2)).to_arrow().slice(1)
TAKEN |= {
    f"a part of nullable arrays: {name}": (pl.Array(pl.Int32, 2), given, [[1, 2], None, [3, None]])
    for name, given in {
        "a table": pa.table({"x": ARRAYS}),
        "a batch": pa.RecordBatch.from_arrays([ARRAYS], names=["x"]),
        "a column": {"x": ARRAYS},
        "chunks": {"x": pa.chunked_array([ARRAYS.slice(0, 2), ARRAYS.slice(2)])},
        "pandas": pd.DataFrame({"x": pd.array(ARRAYS, pd.ArrowDtype(ARRAYS.type))}),
    }.items()
}


INFINITE = [float("inf"), -float("inf"), float("nan"), 3.4028234e38, None]


@pytest.mark.parametrize("dtype", [pl.Float32, pl.Float64])
def test_infinities_are_no_numbers_beyond_a_range(dtype: Any) -> None:
    engine, view = engine_of(x=dtype, parts=pl.List(pl.Struct({"a": dtype})))
    engine.push("s", [{"x": x, "parts": [None, {"a": x}]} for x in INFINITE])
    expected = pl.Series("x", INFINITE, dtype).sort()
    assert view.read()["x"].sort().equals(expected, null_equal=True)
    parts = view.read().select(pl.col("parts").list.last().struct.field("a"))["a"]
    assert parts.sort().equals(expected, null_equal=True)


@pytest.mark.parametrize("case", TAKEN)
def test_what_polars_has_no_type_for_is_taken_as_one_that_holds_it(case: str) -> None:
    dtype, given, values = TAKEN[case]
    engine, view = engine_of(x=dtype)
    engine.push("s", given)
    assert sorted(view.read()["x"].to_list(), key=repr) == sorted(values, key=repr)


def test_objects_of_pandas_keep_their_nanoseconds() -> None:
    engine, view = engine_of(x=pl.Datetime("ns"))
    engine.push("s", pd.DataFrame({"x": pd.Series([pd.Timestamp(1001), None], dtype=object)}))
    assert sorted(view.read()["x"].to_physical().to_list(), key=str) == [1001, None]


NS = np.array(["2026-01-02T12:00:00.000000001"], "datetime64[ns]")
REFUSED: dict[str, tuple[Any, Any, str]] = {
    "pandas: finer time": (
        pl.Datetime("us"), pd.DataFrame({"x": NS}),
        r"column 'x' is datetime64\[ns\], .* holds 2026-01-02 12:00:00.000000001 in row 0.*frame\['x'\].dt.floor\('us'\)",
    ),
    "pandas: fraction": (pl.Int64, pd.DataFrame({"x": [1, 1.5]}), r"'x' is float64.* holds 1.5 in row 1"),
    "pandas: text": (pl.Int64, pd.DataFrame({"x": ["1"]}), r"frame\['x'\] = frame\['x'\].astype\('Int64'\)"),
    "pandas: zone": (
        pl.Datetime("us", "UTC"), pd.DataFrame({"x": pd.to_datetime([NOON])}), r"frame\['x'\].dt.tz_localize\('UTC'\)",
    ),
    "Arrow: number": (
        pl.Int8, pa.table({"x": [1, 300]}), r"'x' is int64, but Int8 is declared, and it holds 300 in row 1.*correct the rows",
    ),
    "Arrow: text": (pl.Int64, pa.table({"x": ["1"]}), r"table\['x'\].cast\(pa.int64\(\)\)"),
    "polars: finer time": (
        pl.Datetime("us"), pl.DataFrame({"x": NS}), r"pl.col\('x'\).dt.cast_time_unit\('us'\)",
    ),
    "polars: not in the enum": (pl.Enum(["a"]), pl.DataFrame({"x": ["a", "b"]}), "holds b in row 1"),
    "polars: nested": (pl.List(pl.Int8), pl.DataFrame({"x": [[1], [2, 300]]}), r"holds \[2,300\] in row 1"),
    "rows: text": (pl.Int64, [{"x": 1}, {"x": "1"}], "holds '1' in row 1, which is not of its declared type Int64"),
    "rows: number": (pl.Int8, [{"x": 1}, {"x": 300}], "holds 300 in row 1"),
    "rows: no float": (pl.Float64, [{"x": 1}, {"x": 2**53 + 1}], "holds 9007199254740993 in row 1, which Float64 would round"),
    "rows: beyond floats": (pl.Float32, [{"x": 1.0}, {"x": 1e39}], r"holds 1e\+39 in row 1, which is beyond the range of its declared type Float32; give"),
    "rows: beyond small floats": (pl.Float16, {"x": [-70000.0]}, r"holds -70000.0 in row 0, which is beyond the range"),
    "rows: an integer beyond floats": (pl.Float32, [(-(10**39),)], "holds -1000000000000000000000000000000000000000 in row 0, which is beyond"),
    "rows: beyond floats in lists": (pl.List(pl.Float32), [{"x": None}, {"x": [float("inf"), 1e39]}], r"holds 1e\+39 in row 1, which is beyond"),
    "rows: beyond floats in arrays": (pl.Array(pl.Float32, 1), [{"x": None}, {"x": (-1e39,)}], r"holds -1e\+39 in row 1, which is beyond"),
    "rows: beyond floats in structs": (
        pl.List(pl.Struct({"a": pl.Float32})), [{"x": [None, {"a": 1e39}]}], r"holds 1e\+39 in row 0, which is beyond",
    ),
    "rows: a zone of a time of day": (
        pl.Time, [{"x": time(1)}, {"x": time(1, tzinfo=UTC)}], r"column 'x' holds .*utc\), whose zone .*; use .replace\(tzinfo=None\), .*in row 1",
    ),
    "rows: a zone of a time of day in a list": (pl.List(pl.Time), [{"x": [time(1, tzinfo=UTC)]}], "column 'x' holds .*, whose zone"),
    "rows: no float in a list": (pl.List(pl.Float64), [{"x": [0.5, 2**53 + 1]}], r"holds 9007199254740993 in row 0, which List\(Float64\) would"),
    "rows: no float of numpy": (
        pl.Struct({"a": pl.Float32}), [{"x": None}, {"x": {"a": np.int64(2**24 + 1)}}], r"holds 16777217 in row 1, which Struct\(.*\) would round",
    ),
    "rows: more than a date": (pl.Date, [{"x": NOON}], r"holds 2026-01-02 12:00:00, which is more than a date; use .date\(\)"),
    "rows: a field too many": (pl.Struct({"a": pl.Int8}), [{"x": {"a": 1, "b": 2}}], "a field 'b', which is not declared"),
    "rows: nanoseconds": (pl.Datetime("ns"), [{"x": pd.Timestamp(1001)}], "column 'x' holds 1970.* whose nanoseconds would be lost"),
    "rows: nanoseconds of a duration": (pl.Duration("ns"), [{"x": pd.Timedelta(1001)}], "column 'x' .* nanoseconds would be lost"),
    "rows: a midnight and a nanosecond": (pl.Date, [{"x": pd.Timestamp(1)}], "column 'x' .* nanoseconds would be lost"),
    "pandas: nanoseconds of two zones": (
        pl.Datetime("us", "UTC"),
        pd.DataFrame({"x": pd.Series([pd.Timestamp(1001, tz="UTC"), pd.Timestamp(1, tz="Asia/Tokyo")], dtype=object)}),
        "column 'x' is object, .* row 0, whose nanoseconds would be lost",
    ),
    "pandas: far seconds": (pl.Datetime("us"), pd.DataFrame({"x": np.array([FAR], "M8[s]")}), r"'x' is datetime64\[s\], .*ut of bounds"),
    "pandas: far durations": (pl.Duration("us"), pd.DataFrame({"x": np.array([FAR], "m8[s]")}), r"'x' is timedelta64\[s\], and"),
    "a column of pandas: far seconds": (pl.Datetime("us"), {"x": pd.Series(np.array([FAR], "M8[s]"))}, r"'x' is datetime64\[s\], and"),
    "pandas: far seconds of numpy among objects": (
        pl.Datetime("us"), pd.DataFrame({"x": pd.Series([np.datetime64(FAR, "s")], dtype=object)}), "'x' is object, .* which is a scalar of numpy",
    ),
    "pandas: far seconds in lists of Arrow": (
        pl.List(pl.Datetime("us")),
        pd.DataFrame({"x": pd.Series([[FAR]], dtype=pd.ArrowDtype(pa.list_(pa.int64()))).astype(pd.ArrowDtype(pa.list_(pa.timestamp("s"))))}),
        r"'x' is list<.*timestamp\[s\]>\[pyarrow\], and .*out of bounds",
    ),
    "pandas: complex": (pl.Float64, pd.DataFrame({"y": [1], "x": [1j]}), "column 'x': cannot make a frame of DataFrame.*; cast it"),
    "numpy: far days": (pl.Date, {"x": np.array([1 << 40], "M8[D]")}, "column 'x' is .* 1099511627776 D since 1970 in row 0 is too far"),
    "numpy: far seconds": (pl.Datetime("ms"), {"x": np.array([0, FAR], "M8[s]")}, "column 'x' is .* in row 1 is too far away"),
    "Arrow: far seconds": (pl.Datetime("us"), pa.table({"x": pa.array([FAR], pa.timestamp("s"))}), r"'x' is timestamp\[s\], .*out of bounds"),
    "Arrow: far seconds of lists": (
        pl.List(pl.Duration("us")), pa.table({"x": pa.array([[FAR]], pa.list_(pa.duration("s")))}), "'x' is list<.*out of bounds",
    ),
    "Arrow: a decimal of 40 digits": (
        pl.Decimal(38, 0), pa.table({"x": pa.array([Decimal("1" * 40)], pa.decimal256(50, 0))}), r"'x' is decimal256\(50, 0\), and",
    ),
    "Arrow: months": (pl.Duration("us"), pa.table({"x": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}), "column 'x': cannot make"),
    "rows: nothing": (pl.Null, [{"x": 1}], "its type is Null, which has no values"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_lose_something_is_refused_in_the_words_of_its_library(case: str) -> None:
    dtype, given, words = REFUSED[case]
    engine, view = engine_of(x=dtype)
    with pytest.raises(ec.InputError, match=f"source 's': .*{words}" if "column" not in words else words):
        engine.push("s", given)
    assert (engine.epoch_number, view.read().height) == (0, 0)


@pytest.mark.parametrize(
    "dtype", [pl.Int8, pl.Float32, pl.String, pl.Boolean, pl.Datetime("ms"), pl.Date], ids=str
)
@pytest.mark.parametrize("origin", ["pandas", "arrow", "polars"])
def test_the_cast_that_is_named_mends(dtype: Any, origin: str) -> None:
    made: Any = {"arrow": pa.table, "polars": pl.DataFrame, "pandas": pd.DataFrame}[origin]
    given = {pl.String: b"1", pl.Boolean: 1, pl.Date: "2026-01-02"}.get(
        dtype, 1 if dtype == pl.Datetime("ms") else "1"
    )
    engine, view = engine_of(x=dtype)
    with pytest.raises(ec.InputError) as refused:
        engine.push("s", made({"x": [given]}))
    frame = table = made({"x": [given]})
    call = str(refused.value).replace("read it with", "cast it with").partition("cast it with ")[2]
    if origin == "pandas":
        exec(call, {"frame": frame, "pd": pd})
    else:
        table = eval(
            call if origin == "arrow" else f"frame{call}",
            {"frame": frame, "table": table, "pa": pa, "pl": pl},
        )
    engine.push("s", table)
    assert view.read().height == 1


NESTED = [
    pl.List(pl.Int16),
    pl.List(pl.String),
    pl.Array(pl.Decimal(9, 2), 1),
    pl.Struct({"Of a Shop": pl.List(pl.Float32)}),
    pl.List(pl.Struct({"at": pl.Duration("ms"), "of": pl.Time})),
    *([] if MAP is None else [pl.List(pl.Map(pl.String, pl.List(pl.Int32)))]),
]


@pytest.mark.parametrize("dtype", NESTED, ids=str)
@pytest.mark.parametrize("origin", ["arrow", "polars"])
def test_the_cast_that_is_named_has_the_type_that_is_declared(dtype: Any, origin: str) -> None:
    engine, _ = engine_of(x=dtype)
    wrong = {"x": [[True, False]]}
    with pytest.raises(ec.InputError, match="is another kind of value; cast it with") as refused:
        engine.push("s", pa.table(wrong) if origin == "arrow" else pl.DataFrame(wrong))
    cast = str(refused.value).rpartition(".cast(")[2].removesuffix("))")
    named = eval(cast, {"pa": pa, "pl": pl})
    if origin == "polars":
        assert named == dtype
    else:
        assert pl.Series(pa.array([], named)).dtype == dtype


@pytest.mark.parametrize(
    "dtype", [pl.Int128, pl.List(pl.UInt128), pl.Struct({"f": pl.Array(pl.Int128, 2)})], ids=str
)
@pytest.mark.parametrize("as_frame", [pa.table, pd.DataFrame], ids=["arrow", "pandas"])
def test_a_type_that_a_library_has_not_is_no_remedy(dtype: Any, as_frame: Any) -> None:
    engine, view = engine_of(x=dtype)
    with pytest.raises(
        ec.InputError, match=r"declare it pl\..*, as (arrow|pandas) has no .*Int128.* to cast it to"
    ):
        engine.push(
            "s",
            as_frame(
                {
                    "x": [{"f": [True, True]}]
                    if dtype == pl.Struct
                    else [[True]]
                    if dtype == pl.List
                    else [True]
                }
            ),
        )
    assert (engine.epoch_number, view.read().height) == (0, 0)
