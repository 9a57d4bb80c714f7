"""Types and values that a place does not hold: refused in one sentence, whose remedy works as it stands."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.columns.polars_versions import MAP

AT = datetime(2026, 1, 2, 3, 4, 5, 678901)

FAR_MS, FAR_US, FAR_DAYS = 2**62, 300_000_000_000_000_000, 3_472_222

TYPES: dict[str, tuple[Any, Any]] = {
    "Int128": (pl.Int128, 5), "UInt128": (pl.UInt128, 2**127), "Time": (pl.Time, time(1)), "Duration": (pl.Duration("ms"), timedelta(1)),
    "nanoseconds": (pl.Datetime("ns"), AT), "Null": (pl.Null, None), "list": (pl.List(pl.UInt128), [2**127, None]),
    "array": (pl.Array(pl.Time, 2), [time(1), None]), "list of durations": (pl.List(pl.Duration("us")), [timedelta(1)]),
    "no fields": (pl.Struct({}), {}), "no fields in a list": (pl.List(pl.Struct({})), [{}]),
}  # fmt: skip

ONLY_SQL: dict[str, tuple[Any, Any]] = {
    "UInt64": (pl.UInt64, 2**64 - 1), "numbers": (pl.List(pl.Int64), [1, None]), "pair": (pl.Array(pl.Int64, 2), [1, None]),
    "struct": (pl.Struct({"x": pl.Date}), {"x": AT.date()}),
}  # fmt: skip
if MAP is not None:
    ONLY_SQL["map"] = (MAP(pl.String, pl.Int64), {"a": 1})  # type: ignore[call-arg]


def rows_of(kind: str, folder: Path) -> pl.DataFrame:
    if kind == "delta":
        return pl.read_delta(str(folder / "t"))
    return pl.DataFrame(catalog(folder).load_table("n.t").scan().to_arrow())


def catalog(folder: Path) -> Any:
    (folder / "w").mkdir(exist_ok=True)
    return pytest.importorskip("pyiceberg.catalog").load_catalog(
        "t", type="sql", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/w"
    )


def written(kind: str, view: ec.View, folder: Path, key: str = "k") -> ec.Delivery:
    retry = ec.Retry(first_seconds=0.02)
    if kind == "sql":
        pytest.importorskip("sqlalchemy")
        return view.to_sql(f"sqlite:///{folder}/x.db", "t", key=key, retry=retry)
    if kind == "delta":
        pytest.importorskip("deltalake")
        return view.to_delta(folder / "t", key=key, retry=retry)
    if kind == "iceberg":
        return view.to_iceberg("n.t", catalog(folder), key=key, retry=retry)
    return view.to_parquet(folder / "p", retry=retry)


def remedied(message: str, source: ec.Source) -> Any:
    """The rows of a source, changed by the remedy of a message."""
    if expression := re.search(r"with \.with_columns\((.*)\)$", message):
        return source.with_columns(eval(expression[1], {"pl": pl}))
    dtype = re.search(r"cast (?:it|the column) to (pl\.\w+(?:\('us'\))?)", message)
    assert dtype, message
    return source.with_columns(pl.col("v").cast(eval(dtype[1], {"pl": pl})))


def declared(dtype: Any, values: list[Any]) -> tuple[ec.Engine, ec.Source, Callable[[], int]]:
    engine = ec.Engine()
    source = engine.source("s", {"k": pl.Int64, "v": dtype})
    frame = pl.DataFrame({"k": range(len(values)), "v": pl.Series(values, dtype=dtype)}, schema=source.schema)
    return engine, source, lambda: engine.push("s", frame)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((kind, name) for kind in ("sql", "delta", "iceberg") for name in TYPES),
        *(("sql", name) for name in ONLY_SQL),
        *(("parquet", name) for name in TYPES if "no fields" in name),
    ],
)  # fmt: skip
def test_a_type_is_refused_at_the_call_with_a_remedy_that_works(kind: str, name: str, tmp_path: Path) -> None:
    dtype, value = {**TYPES, **ONLY_SQL}[name]
    engine, source, push = declared(dtype, [value, None])
    view = engine.view("v", source)
    with pytest.raises(ec.SinkError, match=r"column 'v' is ") as refused:
        written(kind, view, tmp_path)
    assert view.subscriptions == ()
    other = engine.view("other", remedied(str(refused.value), source))
    delivery = written(kind, other, tmp_path)
    push()
    assert delivery.join(20)


@pytest.mark.parametrize("dtype", [pl.List(pl.Int64), pl.Array(pl.Int64, 2), pl.Struct({"x": pl.Int64})])
def test_iceberg_has_no_nested_keys(dtype: Any, tmp_path: Path) -> None:
    engine, source, push = declared(dtype, [None])
    with pytest.raises(ec.SinkError, match=r"the key 'v' is .*, by which Iceberg finds no rows") as refused:
        written("iceberg", engine.view("v", source), tmp_path, "v")
    other = engine.view("other", remedied(str(refused.value), source))
    delivery = written("iceberg", other, tmp_path, "v")
    push()
    assert delivery.join(20)


@pytest.mark.parametrize(
    ("kind", "dtype", "number", "text"),
    [
        ("sql", pl.Datetime("us"), FAR_US, r"\+11476-08-15 05:20:00, and the table holds the years 1 to 9999"),
        ("sql", pl.Datetime("ms", "Europe/Paris"), FAR_MS, r"\+146140482-"),
        ("sql", pl.Date, FAR_DAYS, r"\+11476-08-15, "),
        ("sql", pl.Date, -900_000, "-0495-11-20, "),
        ("delta", pl.Datetime("ms"), FAR_MS, r"\+146140482-.*holds times within 64 bits of microseconds"),
        ("delta", pl.Datetime("ms", "UTC"), -FAR_MS, "-146136543-"),
        ("delta", pl.Date, FAR_DAYS, r"\+11476-08-15, "),
        ("iceberg", pl.Datetime("us"), FAR_US, r"\+11476-08-15 05:20:00, "),
        ("iceberg", pl.Datetime("ms"), FAR_MS, r"\+146140482-"),
        ("iceberg", pl.Date, -900_000, "-0495-11-20, "),
    ],
)  # fmt: skip
@pytest.mark.parametrize("later", [False, True])
def test_a_time_out_of_range_is_named(
    kind: str, dtype: Any, number: int, text: str, later: bool, tmp_path: Path
) -> None:
    engine = ec.Engine()
    source = engine.source("s", {"k": pl.Int64, "v": dtype})
    view = engine.view("v", source)
    frame = pl.DataFrame({"k": [1, 2], "v": pl.Series([None, number], dtype=pl.Int64).cast(dtype)})
    if not later:
        source.push(frame)
    delivery = written(kind, view, tmp_path)
    if later:
        assert delivery.join(20)
        source.push(frame)
    with pytest.raises(
        ec.SinkError, match=rf"column 'v' has {text}.*leave such rows out, or cast"
    ) as refused:
        delivery.join(20)
    other = engine.view("other", remedied(str(delivery.error), source))
    (tmp_path / "other").mkdir()
    delivery = written(kind, other, tmp_path / "other")
    assert delivery.join(20), refused
    source.push(frame.with_columns(pl.col("k") + 2))
    assert delivery.join(20)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("dtype", [pl.List(pl.Datetime("ms")), pl.Struct({"x": pl.Datetime("ms")})])
def test_a_time_out_of_range_is_found_in_nested_columns(kind: str, dtype: Any, tmp_path: Path) -> None:
    engine, source, _ = declared(dtype, [])
    delivery = written(kind, engine.view("v", source), tmp_path)
    leaf = pl.Series([FAR_MS]).cast(pl.Datetime("ms"))
    column = leaf.implode() if isinstance(dtype, pl.List) else pl.DataFrame({"x": leaf}).to_struct()
    source.push(pl.DataFrame({"k": pl.Series([1]), "v": column}))
    with pytest.raises(ec.SinkError, match=r"column 'v' has \+146140482-"):
        delivery.join(20)


@pytest.mark.parametrize("kind", ["sql", "delta", "iceberg"])
@pytest.mark.parametrize("unit", ["ms", "us"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris"])
def test_the_first_and_the_last_times_come_back(
    kind: str, unit: Any, zone: str | None, tmp_path: Path
) -> None:
    milli = 1000 if unit == "ms" else 1
    ends = [
        datetime.min,
        datetime.max.replace(microsecond=999_999 // milli * milli),
        AT.replace(microsecond=0),
    ]
    values = (
        pl.Series([end.replace(tzinfo=UTC) for end in ends])
        .dt.replace_time_zone(None)
        .cast(pl.Datetime(unit))
    )
    if zone is not None:
        values = values.dt.replace_time_zone("UTC").cast(pl.Datetime(unit, zone))
    engine = ec.Engine()
    source = engine.source("s", {"k": pl.Int64, "v": values.dtype, "d": pl.Date})
    delivery = written(kind, engine.view("v", source), tmp_path)
    source.push(pl.DataFrame({"k": [0, 1, 2], "v": values, "d": [date.min, date.max, None]}))
    assert delivery.join(20)
    if kind != "sql":
        rows = rows_of(kind, tmp_path).sort("k")
        assert rows["v"].to_physical().to_list() == (values.to_physical() * milli).to_list()
        assert rows["d"].to_list() == [date.min, date.max, None]
        assert rows["v"].dtype == pl.Datetime("us", None if zone is None else "UTC")


NULL_LISTS: dict[str, tuple[Any, Any]] = {
    "list": (pl.List(pl.Struct({"x": pl.Int64})), None),
    "array": (pl.Array(pl.Struct({"x": pl.Int64}), 1), None),
    "list in a struct": (pl.Struct({"l": pl.List(pl.Struct({"x": pl.Int64}))}), {"l": None}),
    "list in a list": (pl.List(pl.List(pl.Struct({"x": pl.Int64}))), [None]),
}


@pytest.mark.parametrize("name", NULL_LISTS)
def test_iceberg_takes_no_null_list_of_structs_for_an_empty_one(name: str, tmp_path: Path) -> None:
    dtype, value = NULL_LISTS[name]
    engine, source, push = declared(dtype, [value])
    delivery = written("iceberg", engine.view("v", source), tmp_path)
    assert delivery.join(20)
    push()
    with pytest.raises(ec.SinkError, match="column 'v' has a null in place of a list of structs"):
        delivery.join(20)
    changed = [remedied(str(delivery.error), source)]
    if "fill_null" in str(delivery.error):
        changed.append(source.with_columns(pl.col("v").fill_null([])))
    for number, rows in enumerate(changed):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert written("iceberg", engine.view(f"other {number}", rows), folder).join(20)
    assert ("fill_null" in str(delivery.error)) == (name == "list")


HELD: dict[str, tuple[Any, list[Any]]] = {
    "lists of structs": (pl.List(pl.Struct({"x": pl.Int64})), [[{"x": 1}, None, {"x": None}], []]),
    "in a null struct": (pl.Struct({"l": pl.List(pl.Struct({"x": pl.Int64}))}), [None, {"l": [{"x": 1}]}]),
    "a null list of lists": (pl.List(pl.List(pl.Struct({"x": pl.Int64}))), [None, [[{"x": 1}], []]]),
    "floats of 16 bits": (pl.Float16, [1.5, None]),
    "lists of them": (pl.List(pl.Float16), [[1.5, None], None]),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("name", HELD)
def test_what_is_held_comes_back(kind: str, name: str, tmp_path: Path) -> None:
    dtype, values = HELD[name]
    engine, source, push = declared(dtype, values)
    delivery = written(kind, engine.view("v", source), tmp_path)
    assert delivery.join(20)
    push()
    assert delivery.join(20)
    assert rows_of(kind, tmp_path).sort("k")["v"].to_list() == values
