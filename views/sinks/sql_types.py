"""The type of SQL for each type of polars, and its values in Python as the database takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from evercurrent.core.data.errors import SinkError

from .held_values import YEARS, remedy, require_times

if TYPE_CHECKING:
    import sqlalchemy as sa

_WHOLE = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)


def sql_type(place: str, column: str, dtype: pl.DataType, dialect: str) -> sa.types.TypeEngine[Any]:
    """Return the type of a column of a table.

    Raises:
        SinkError: the database has no type that holds each value exactly; it names what to cast it to.
    """
    import sqlalchemy as sa

    if isinstance(dtype, _WHOLE):
        return sa.BigInteger()
    if isinstance(dtype, pl.Decimal) and dialect != "sqlite":
        return sa.Numeric(dtype.precision, dtype.scale)
    if isinstance(dtype, pl.Datetime) and dtype.time_unit != "ns":
        return sa.DateTime(timezone=dtype.time_zone is not None)
    simple: dict[Any, Any] = {
        pl.Float32: sa.Double(), pl.Float64: sa.Double(), pl.Boolean: sa.Boolean(), pl.Date: sa.Date(),
        pl.String: sa.Text(), pl.Categorical: sa.Text(), pl.Enum: sa.Text(), pl.Binary: sa.LargeBinary(),
    }  # fmt: skip
    kind = simple.get(type(dtype))
    if kind is None:
        raise SinkError(
            f"{place}: column {column!r} is {dtype}, which no column of {dialect} holds exactly; "
            f"{remedy(column, dtype)}"
        )
    kind_of_sql: sa.types.TypeEngine[Any] = kind
    return kind_of_sql


def sql_values(place: str, rows: pl.DataFrame, dialect: str) -> list[dict[str, Any]]:
    """Return rows as dictionaries of Python's values, by ``c0``, ``c1`` and so on, as names of columns may be anything.

    Raises:
        SinkError: a value that the database would change, as a NaN in SQLite, which becomes null, or that Python does not hold.
    """
    require_times(place, rows, YEARS)
    for column in rows.get_columns():
        if dialect == "sqlite" and column.dtype.is_float() and column.is_nan().any():
            raise SinkError(
                f"{place}: column {column.name!r} has a NaN, which SQLite would turn into null; write "
                f".with_columns(pl.col({column.name!r}).fill_nan(None)) in the view if that is meant"
            )
    moments = [
        pl.col(name).dt.convert_time_zone("UTC")
        for name, dtype in rows.schema.items()
        if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None
    ]
    numbered = rows.with_columns(moments)
    numbered.columns = [f"c{place}" for place in range(rows.width)]
    return numbered.to_dicts()


def sql_kind(of: sa.types.TypeEngine[Any]) -> str:
    """Return the kind of a type, which is the same as it is declared and as the database shows it."""
    import sqlalchemy as sa

    # Some databases have no Boolean, and some no Double: they show what they take in its place.
    kinds: dict[Any, str] = {
        sa.Boolean: "whole", sa.Integer: "whole", sa.Float: "number", sa.Numeric: "number",
    }  # fmt: skip
    affinity = of._type_affinity
    return kinds.get(affinity, str(affinity))
