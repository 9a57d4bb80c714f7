"""Hints on how to repair a column that does not fit its source, as code of the library that the rows came from."""

from __future__ import annotations

from typing import Literal

import polars as pl
import pyarrow as pa

from evercurrent.core.data.columns.lossless import LossyValueError, as_type, may_hold
from evercurrent.core.data.columns.polars_versions import is_map

Origin = Literal["polars", "pandas", "arrow", "python", "spark"]
"""The library that pushed rows come from."""


def refusal(
    origin: Origin,
    name: str,
    foreign_type: str,
    column: pl.Series,
    dtype: pl.DataType,
    lossy: LossyValueError,
) -> str:
    """Return the message for a value that does not fit its declared column, with a remedy; ``foreign_type`` is its foreign type."""
    holds = f"column {name!r} is {foreign_type}, but {dtype} is declared, and it holds {lossy.value} in row {lossy.row}"
    if may_hold(dtype, column.dtype):
        return f"{holds}, which {dtype} cannot hold exactly; {_fitting(origin, name, column.dtype, dtype)}"
    return f"{holds}, which is another kind of value; {cast_hint(origin, name, column.dtype, dtype)}"


def cast_hint(origin: Origin, name: str, source_type: pl.DataType, dtype: pl.DataType) -> str:
    """Return the hint for casting a column to another type."""
    if (
        isinstance(source_type, pl.Datetime)
        and isinstance(dtype, pl.Datetime)
        and dtype.time_zone is not None
    ):
        return _zone_hint(
            origin, name, dtype.time_zone
        )  # The unit alone never needs a cast, nor does a type without a zone.
    match origin:
        case "polars" if isinstance(source_type, pl.String) and isinstance(
            dtype, pl.Date | pl.Datetime | pl.Time
        ):
            return f"read it with .with_columns(pl.col({name!r}).str.to_{type(dtype).__name__.lower()}())"
        case "polars":
            return f"cast it with .with_columns(pl.col({name!r}).cast({spelled(dtype)}))"
        case "pandas" | "arrow" if not _is_in_arrow(dtype):
            return f"declare it {spelled(source_type)}, as {origin} has no {dtype} to cast it to"
        case "pandas":
            return f"cast it with frame[{name!r}] = frame[{name!r}].astype({_pandas_name(dtype)!r})"
        case "arrow":
            at = f"table.schema.get_field_index({name!r})"
            return (
                f"cast it with table.set_column({at}, {name!r}, table[{name!r}].cast({_arrow_name(dtype)}))"
            )
        case "spark":
            return (
                f"cast it with .withColumn({name!r}, F.col({name!r}).cast(...)), or declare it as what it is"
            )
        case "python":
            return f"give values of the type {dtype}"


def _fitting(origin: Origin, name: str, source_type: pl.DataType, dtype: pl.DataType) -> str:
    """Return the hint for changing a column's values to ones that its declared type holds."""
    wider = f"declare it {spelled(source_type)}"
    if isinstance(source_type, pl.Datetime | pl.Duration) and isinstance(dtype, pl.Datetime | pl.Duration):
        unit = dtype.time_unit
        match origin:
            case "pandas":
                return f"round it with frame[{name!r}] = frame[{name!r}].dt.floor({unit!r}), or {wider}"
            case "arrow":
                at = f"table.schema.get_field_index({name!r})"
                cast = f"table[{name!r}].cast({_arrow_name(dtype)}, safe=False)"
                return f"round it with table.set_column({at}, {name!r}, {cast}), or {wider}"
            case "polars":
                return (
                    f"round it with .with_columns(pl.col({name!r}).dt.cast_time_unit({unit!r})), or {wider}"
                )
            case _:
                return f"round it, or {wider}"
    return f"correct the rows, or {wider}"


ZONE_OF_VALUE = (
    "say which zone is meant with value.replace(tzinfo=UTC), or value.replace(tzinfo=ZoneInfo('Europe/Berlin')) for "
    "another one"
)
"""The hint for adding the zone of a ``datetime``."""


def _zone_hint(origin: Origin, name: str, zone: str) -> str:
    """Return the hint for adding the zone of a time."""
    match origin:
        case "polars":
            return (
                f"say which zone is meant with .with_columns(pl.col({name!r}).dt.replace_time_zone({zone!r}))"
            )
        case "pandas":
            return f"say which zone is meant with frame[{name!r}] = frame[{name!r}].dt.tz_localize({zone!r})"
        case "arrow":
            at, column = f"table.schema.get_field_index({name!r})", f"table[{name!r}]"
            call = f"pc.assume_timezone({column}, {zone!r})"
            return f"say which zone is meant with table.set_column({at}, {name!r}, {call})"
        case "spark":
            return "declare it without a zone, as Spark's timestamp_ntz has none: pl.Datetime('us')"
        case "python":
            return ZONE_OF_VALUE


def _is_in_arrow(dtype: pl.DataType) -> bool:
    """Return whether Arrow has a type, which it has not for integers of 128 bits, nor for lists and structs of these."""
    try:
        pl.Series([], dtype=dtype).to_arrow()
    except pa.ArrowInvalid:
        return False
    return True


def spelled(dtype: pl.DataType) -> str:
    """Return a type as it is written in a program.

    >>> spelled(pl.List(pl.Struct({"n": pl.Int8})))
    "pl.List(pl.Struct({'n': pl.Int8}))"
    """
    if is_map(dtype):
        return f"pl.Map({spelled(as_type(dtype.key))}, {spelled(as_type(dtype.value))})"
    match dtype:
        case pl.List():
            return f"pl.List({spelled(as_type(dtype.inner))})"
        case pl.Array():
            return f"pl.Array({spelled(as_type(dtype.inner))}, {dtype.size})"
        case pl.Struct():
            fields = [f"{field.name!r}: {spelled(as_type(field.dtype))}" for field in dtype.fields]
            return f"pl.Struct({{{', '.join(fields)}}})"
    return f"pl.{dtype!r}"


def _pandas_name(dtype: pl.DataType) -> str:
    if dtype.is_integer() or isinstance(dtype, pl.Float32 | pl.Float64):
        return str(dtype) if dtype.is_integer() else str(dtype).lower()
    if isinstance(dtype, pl.Datetime):
        zone = "" if dtype.time_zone is None else f", {dtype.time_zone}"
        return f"datetime64[{dtype.time_unit}{zone}]"
    if isinstance(dtype, pl.Duration):
        return f"timedelta64[{dtype.time_unit}]"
    named: dict[type[pl.DataType], str] = {
        pl.Boolean: "boolean",
        pl.String: "string",
        pl.Categorical: "category",
    }
    return named.get(type(dtype), f"{pl.Series([], dtype=dtype).to_arrow().type}[pyarrow]")


def _arrow_name(dtype: pl.DataType) -> str:
    """Return a type of Arrow as it is written in a program."""
    if is_map(dtype):
        return f"pa.map_({_arrow_name(as_type(dtype.key))}, {_arrow_name(as_type(dtype.value))})"
    match dtype:
        case pl.List():
            return f"pa.large_list({_arrow_name(as_type(dtype.inner))})"
        case pl.Array():
            return f"pa.list_({_arrow_name(as_type(dtype.inner))}, {dtype.size})"
        case pl.Struct():
            fields = [f"{field.name!r}: {_arrow_name(as_type(field.dtype))}" for field in dtype.fields]
            return f"pa.struct({{{', '.join(fields)}}})"
        case pl.Decimal():
            return f"pa.decimal128({dtype.precision}, {dtype.scale})"
        case pl.Duration():
            return f"pa.duration({dtype.time_unit!r})"
        case pl.Datetime():
            zone = "" if dtype.time_zone is None else f", {dtype.time_zone!r}"
            return f"pa.timestamp({dtype.time_unit!r}{zone})"
    named: dict[type[pl.DataType], str] = {
        pl.Boolean: "pa.bool_()",
        pl.Date: "pa.date32()",
        pl.Time: "pa.time64('ns')",
        pl.Binary: "pa.binary()",
        pl.Null: "pa.null()",
        pl.String: "pa.string()",
        pl.Categorical: "pa.string()",
        pl.Enum: "pa.string()",
    }
    return named.get(type(dtype), f"pa.{str(dtype).lower()}()")
