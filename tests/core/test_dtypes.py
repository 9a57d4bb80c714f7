"""Every type that polars has passes through a source, a view and the state as a value."""

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import inf, nan
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.columns import value_words
from harness import contents
from oracle import Bag, counted

VALUES: list[tuple[pl.DataType, list[Any]]] = [
    *((dtype(), [0, 1, 127]) for dtype in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128)),
    (pl.Int64(), [2**63 - 1, -(2**63), -1]),
    (pl.UInt64(), [2**64 - 1, 2**63, 0]),
    *((dtype(), [0, 1, 255]) for dtype in (pl.UInt8, pl.UInt16, pl.UInt32)),
    (pl.Float32(), [0.5, nan, -inf]),
    (pl.Float64(), [0.1, nan, inf, -5e-324]),
    (pl.Boolean(), [True, False]),
    (pl.String(), ["", "a", "ä\0", "x" * 40]),
    (pl.Binary(), [b"", b"\0", b"\xff" * 40]),
    (pl.Decimal(38, 2), [Decimal("0.00"), Decimal("-1.10"), Decimal("999999999999999999999.99")]),
    (pl.Date(), [date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31)]),
    (pl.Time(), [time(0), time(23, 59, 59, 999_999)]),
    *(
        (pl.Datetime(unit), [datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59)])
        for unit in ("ms", "us", "ns")
    ),
    (pl.Datetime("us", "Europe/Vienna"), [datetime(2024, 3, 31, 1), datetime(1970, 1, 1)]),
    *((pl.Duration(unit), [timedelta(0), timedelta(days=-1, milliseconds=5)]) for unit in ("ms", "us", "ns")),
    (pl.Enum(["z", "a"]), ["z", "a"]),
    (pl.Categorical(), ["z", "a", ""]),
    (pl.List(pl.Int64), [[], [1], [1, None], [None], [2, 1]]),
    (pl.List(pl.List(pl.String)), [[], [[]], [["a"], None], [None]]),
    (pl.List(pl.Float64), [[nan], [0.0, inf], [None]]),
    (pl.Array(pl.Int64, 2), [[1, 2], [2, 1], [None, 1]]),
    (
        pl.Struct({"p": pl.Int64, "q": pl.String}),
        [{"p": 1, "q": "a"}, {"p": None, "q": "a"}, {"p": 1, "q": None}],
    ),
    (pl.Struct({"p": pl.List(pl.Int64)}), [{"p": []}, {"p": [1]}, {"p": None}]),
    (pl.List(pl.Struct({"p": pl.Int64})), [[], [{"p": 1}], [{"p": None}]]),
    (pl.Null(), []),
]

every_type = pytest.mark.parametrize(
    ("dtype", "values"), [pytest.param(dtype, values, id=f"{dtype!r}") for dtype, values in VALUES]
)


def column(dtype: pl.DataType, values: list[Any]) -> pl.Series:
    """Each value, and null, twice."""
    if isinstance(dtype, pl.Datetime) and dtype.time_zone:
        naive = pl.Series("x", [*values, None] * 2, dtype=pl.Datetime(dtype.time_unit))
        return naive.dt.replace_time_zone("UTC").dt.convert_time_zone(dtype.time_zone)
    return pl.Series("x", [*values, None] * 2, dtype=dtype)


def frames(dtype: pl.DataType, values: list[Any]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows, and the retraction of all but one of each value."""
    x = column(dtype, values)
    rows = pl.DataFrame([x, pl.Series("y", range(len(x)))])
    return rows, rows.tail(len(x) // 2).with_columns(_diff=pl.lit(-1))


@every_type
def test_values_come_out_as_they_went_in(dtype: pl.DataType, values: list[Any]) -> None:
    rows, retraction = frames(dtype, values)
    engine = ec.Engine()
    view = engine.view("v", engine.source("a", rows.schema, kind="diffs"))
    engine.push("a", rows)
    assert view.read().sort("y").equals(rows)
    assert view.read().schema == rows.schema == view.schema
    engine.push("a", retraction)
    assert view.read().sort("y").equals(rows.head(retraction.height))
    assert engine.ledger().is_empty()


@every_type
@pytest.mark.parametrize("plan", ["unique", "group", "pair of keys"])
def test_values_are_keys(dtype: pl.DataType, values: list[Any], plan: str) -> None:
    rows, retraction = frames(dtype, values)
    engine = ec.Engine()
    source = engine.source("a", rows.schema, kind="diffs", trusted=True)
    bag = Bag.of(rows)
    gone = Bag.of(retraction)

    def built(c: Any) -> Any:
        match plan:
            case "unique":
                return c.select("x").unique()
            case "group":
                return c.group_by("x").agg(pl.len(), s=pl.col("y").sum(), m=pl.col("y").max())
        return c.group_by("x", z=pl.col("y") % 2).agg(pl.len())

    view = engine.view("v", built(source))
    engine.push("a", rows)
    assert contents(view) == built(bag)
    engine.push("a", retraction)
    assert contents(view) == built(bag.concat(gone))
    assert view.read().schema["x"] == dtype


@every_type
def test_values_are_aggregated(dtype: pl.DataType, values: list[Any]) -> None:
    rows, retraction = frames(dtype, values)
    aggs = [
        pl.col("x").count().alias("c"),
        pl.col("x").sort_by("y").first().alias("f"),
        pl.col("x").max_by("y").alias("b"),
        pl.col("x").sort_by("y").implode().alias("i"),
    ]
    if not dtype.is_nested():
        aggs += [pl.col("x").n_unique().alias("u"), pl.col("x").min().alias("m")]
    engine = ec.Engine()
    view = engine.view(
        "v", engine.source("a", rows.schema, kind="diffs").group_by(k=pl.col("y") % 2).agg(*aggs)
    )
    engine.push("a", rows)
    expected = rows.group_by(k=pl.col("y") % 2).agg(*aggs)
    assert view.schema == counted(expected.schema, [name for name in ("c", "u") if name in expected.columns])
    assert contents(view) == Bag.of(expected)
    engine.push("a", retraction)
    left = rows.head(retraction.height)
    assert contents(view) == Bag.of(left.group_by(k=pl.col("y") % 2).agg(*aggs))


@every_type
def test_values_are_joined_on_if_polars_can(dtype: pl.DataType, values: list[Any]) -> None:
    rows, retraction = frames(dtype, values)
    try:
        expected = rows.join(rows, on="x", how="left", nulls_equal=True)
    except pl.exceptions.PolarsError:
        pytest.skip("polars does not join on this type")
    engine = ec.Engine()
    source = engine.source("a", rows.schema, kind="diffs")
    view = engine.view("v", source.join(source, on="x", how="left", nulls_equal=True))
    engine.push("a", rows)
    assert contents(view) == Bag.of(expected)
    engine.push("a", retraction)
    left = rows.head(retraction.height)
    assert contents(view) == Bag.of(left.join(left, on="x", how="left", nulls_equal=True))


@every_type
def test_values_ride_along_where_other_columns_decide(dtype: pl.DataType, values: list[Any]) -> None:
    rows, retraction = frames(dtype, values)
    engine = ec.Engine()
    source = engine.source("a", rows.schema, kind="upsert", key="y")
    last = engine.view("last", source.top_k(2, by="y"))
    with_next = engine.view(
        "next", source.join(source.select(z="y", w=pl.col("y") + 1), left_on="y", right_on="w")
    )
    engine.push("a", rows)
    assert last.read().sort("y").equals(rows.tail(2))
    engine.push("a", retraction)
    left = rows.head(retraction.height)
    assert last.read().sort("y").equals(left.tail(2))
    assert with_next.read().drop("z").sort("y").equals(left.tail(-1))


def test_lists_of_nullable_arrays_are_keys_in_any_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of keys are computed block by block, and a block may begin anywhere."""
    monkeypatch.setattr(value_words, "BLOCK", 2)
    values = [[[9, 9]], [[1, 2], None], [[1, 2], None], [None], [], None, [[3, None]]]
    engine = ec.Engine()
    source = engine.source("a", {"x": pl.List(pl.Array(pl.Int32, 2))})
    view = engine.view("v", source.group_by("x").agg(n=pl.len()))
    engine.push("a", {"x": values})
    counts = {repr(row["x"]): row["n"] for row in view.read().to_dicts()}
    assert counts == {repr(value): values.count(value) for value in values}


@pytest.mark.parametrize(
    "dtype", [pl.List(pl.Categorical), pl.Array(pl.Datetime, 1), pl.List(pl.Struct({"a": pl.Categorical}))]
)
def test_a_function_of_frames_returns_a_type_that_was_declared_by_classes(dtype: pl.DataType) -> None:
    engine = ec.Engine()
    source = engine.source("a", {"x": dtype})
    view = engine.view("v", source.map_batches(lambda rows: rows, schema={"x": dtype}))
    rows = pl.DataFrame({"x": [[None], None] if isinstance(dtype, pl.Array) else [[], None]}, {"x": dtype})
    engine.push("a", rows)
    engine.push("a", rows)
    assert view.read().height == 4
