"""The types of table formats on files, Delta Lake and Iceberg: signed numbers, microseconds, no dictionaries."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from evercurrent.core.data.errors import SinkError
from evercurrent.core.data.schema import EPOCH

_WIDER: dict[type[pl.DataType], pl.DataType] = {
    pl.UInt8: pl.Int16(),
    pl.UInt16: pl.Int32(),
    pl.UInt32: pl.Int64(),
    pl.UInt64: pl.Decimal(20, 0),
    pl.Categorical: pl.String(),
    pl.Enum: pl.String(),
}

_NOT_HELD = (pl.Time, pl.Duration, pl.Int128, pl.Object, pl.Null)


def lake_type(dtype: pl.DataType) -> pl.DataType:
    """Return the type in which each value of a type is held exactly.

    >>> lake_type(pl.List(pl.UInt8))
    List(Int16)
    """
    if isinstance(dtype, pl.List):
        return pl.List(lake_type(_inner(dtype.inner)))
    if isinstance(dtype, pl.Array):
        return pl.List(lake_type(_inner(dtype.inner)))
    if isinstance(dtype, pl.Struct):
        return pl.Struct({field.name: lake_type(_inner(field.dtype)) for field in dtype.fields})
    return _WIDER.get(type(dtype), dtype)


def require_lake_types(place: str, schema: Mapping[str, pl.DataType]) -> None:
    """Check that a table holds each value of these columns exactly, and distinguishes the columns.

    Raises:
        SinkError: it does not; names the column.
    """
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
                f"{place}: column {name!r} is {dtype}, which the table cannot hold exactly; cast it in the view, as to pl.String, "
                "pl.Int64 or pl.Datetime('us')"
            )


def lake_frame(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows in the types of the table; the number of an epoch as a whole number."""
    dtypes = {name: pl.Int64() if name == EPOCH else lake_type(dtype) for name, dtype in rows.schema.items()}
    return rows.with_columns(pl.col(name).cast(dtype) for name, dtype in dtypes.items())


def _is_held(dtype: pl.DataType) -> bool:
    if isinstance(dtype, (pl.List, pl.Array)):
        return _is_held(_inner(dtype.inner))
    if isinstance(dtype, pl.Struct):
        return all(_is_held(_inner(field.dtype)) for field in dtype.fields)
    if isinstance(dtype, pl.Datetime):
        return dtype.time_unit != "ns"
    return not isinstance(dtype, _NOT_HELD)


def _inner(dtype: object) -> pl.DataType:
    """Return a type inside of another, which polars may hold as a class."""
    return dtype() if isinstance(dtype, type) else dtype  # type: ignore[return-value]
