"""The types of table formats on files, Delta Lake and Iceberg: signed numbers, microseconds, no dictionaries."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from evercurrent.core.data.columns.lossless import as_type
from evercurrent.core.data.errors import SinkError
from evercurrent.core.data.schema import EPOCH

from .held_values import remedy, types_in

_WIDER: dict[type[pl.DataType], pl.DataType] = {
    pl.UInt8: pl.Int16(),
    pl.UInt16: pl.Int32(),
    pl.UInt32: pl.Int64(),
    pl.UInt64: pl.Decimal(20, 0),
    pl.Float16: pl.Float32(),
    pl.Categorical: pl.String(),
    pl.Enum: pl.String(),
}

_NOT_HELD = (pl.Time, pl.Duration, pl.Int128, pl.UInt128, pl.Object, pl.Null)


def lake_type(dtype: pl.DataType) -> pl.DataType:
    """Return the type in which each value of a type is held exactly.

    >>> lake_type(pl.List(pl.UInt8))
    List(Int16)
    """
    if isinstance(dtype, pl.List):
        return pl.List(lake_type(as_type(dtype.inner)))
    if isinstance(dtype, pl.Array):
        return pl.List(lake_type(as_type(dtype.inner)))
    if isinstance(dtype, pl.Struct):
        return pl.Struct({field.name: lake_type(as_type(field.dtype)) for field in dtype.fields})
    if isinstance(dtype, pl.Datetime):
        return pl.Datetime("us", None if dtype.time_zone is None else "UTC")
    return _WIDER.get(type(dtype), dtype)


def require_lake_types(place: str, schema: Mapping[str, pl.DataType]) -> None:
    """Check that a table holds each value of these columns exactly, and distinguishes the columns.

    Raises:
        SinkError: it does not; names the column.
    """
    require_structs_with_fields(place, schema)
    names: dict[str, str] = {}
    for name, dtype in schema.items():
        if not name:
            raise SinkError(f"{place}: a column has an empty name; rename it in the view")
        twin = names.setdefault(name.casefold(), name)
        if twin != name:
            raise SinkError(
                f"{place}: the columns {twin!r} and {name!r} are one to readers that ignore case; rename one in the view"
            )
        if not _is_held(dtype):
            raise SinkError(
                f"{place}: column {name!r} is {dtype}, which the table cannot hold exactly; {remedy(name, dtype)}"
            )


def lake_frame(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows in the types of the table; the number of an epoch as a whole number."""
    dtypes = {name: pl.Int64() if name == EPOCH else lake_type(dtype) for name, dtype in rows.schema.items()}
    return rows.with_columns(pl.col(name).cast(dtype) for name, dtype in dtypes.items())


def require_structs_with_fields(place: str, schema: Mapping[str, pl.DataType]) -> None:
    """Check that Parquet holds these columns: it has no structs without fields.

    Raises:
        SinkError: there is one; names the column.
    """
    for name, dtype in schema.items():
        if any(isinstance(each, pl.Struct) and not each.fields for each in types_in(dtype)):
            raise SinkError(
                f"{place}: column {name!r} is {dtype}, and Parquet has no structs without fields; {remedy(name, dtype)}"
            )


def _is_held(dtype: pl.DataType) -> bool:
    return not any(
        isinstance(each, _NOT_HELD) or (isinstance(each, pl.Datetime) and each.time_unit == "ns")
        for each in types_in(dtype)
    )
