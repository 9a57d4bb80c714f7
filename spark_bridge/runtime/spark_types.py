"""Converts types and rows between polars and Spark, by way of Arrow.

For Spark, a type becomes the next wider one that Spark has; from Spark, a column becomes exactly what was declared, or the
rows are refused. `SPARK_NAMES` and `spark_type` define the mapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from evercurrent.core.data.columns.lossless import LossyValueError, exactly, may_hold
from evercurrent.core.data.columns.polars_versions import MAP, importable_rows, is_map
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.core.data.schema import EPOCH
from evercurrent.views.connectors.arrow_tables import as_table

from .list_offsets import with_offsets
from .spark_times import require_times_fit

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

SPARK_NAMES: Mapping[type[pl.DataType], str] = {
    pl.Boolean: "boolean",
    pl.Int8: "tinyint",
    pl.Int16: "smallint",
    pl.Int32: "int",
    pl.Int64: "bigint",
    pl.UInt8: "smallint",
    pl.UInt16: "int",
    pl.UInt32: "bigint",
    pl.UInt64: "decimal(20,0)",
    pl.Float16: "float",
    pl.Float32: "float",
    pl.Float64: "double",
    pl.String: "string",
    pl.Categorical: "string",
    pl.Enum: "string",
    pl.Binary: "binary",
    pl.Date: "date",
    pl.Null: "void",
}
"""The names of the Spark types that hold all values of types without parameters."""

_ARROW: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "decimal(20,0)": pa.decimal128(20, 0),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "void": pa.null(),
}

SLICE_BYTES = 1 << 30
"""Frames beyond this are handed over in slices: offsets of Spark's strings have 32 bits."""


def spark_schema(where: str, schema: Mapping[str, pl.DataType]) -> StructType:
    """Return the Spark schema of columns: every column nullable, ``_epoch`` a bigint.

    Raises:
        PlanError: a column has a type for which Spark has none; names the column and the remedy.
    """
    from pyspark.sql.types import LongType, StructField, StructType

    return StructType(
        [
            StructField(name, LongType() if name == EPOCH else spark_type(where, name, dtype))
            for name, dtype in schema.items()
        ]
    )


def nullable(schema: StructType) -> StructType:
    """Return the same columns, any of which may be null at any depth."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(field.name, nullable_type(field.dataType)) for field in schema.fields])


def nullable_type(dtype: DataType) -> DataType:
    """Return the same type, of which any part may be null."""
    from pyspark.sql import types as spark

    if isinstance(dtype, spark.StructType):
        return nullable(dtype)
    if isinstance(dtype, spark.ArrayType):
        return spark.ArrayType(nullable_type(dtype.elementType))
    if isinstance(dtype, spark.MapType):
        return spark.MapType(nullable_type(dtype.keyType), nullable_type(dtype.valueType))
    return dtype


def spark_type(where: str, column: str, dtype: pl.DataType) -> DataType:
    """Return the Spark type that holds all values of a polars type.

    Raises:
        PlanError: there is none; names the column and the remedy.
    """
    from pyspark.sql import types as spark

    if isinstance(dtype, pl.Datetime | pl.Duration):
        if dtype.time_unit == "ns":
            raise PlanError(
                f"{where}: column {column!r} is {dtype}, and Spark counts microseconds; "
                f"use .dt.cast_time_unit('us') or declare it with time_unit='us'"
            )
        if isinstance(dtype, pl.Duration):
            return spark.DayTimeIntervalType()
        return spark.TimestampNTZType() if dtype.time_zone is None else spark.TimestampType()
    if isinstance(dtype, pl.Decimal):
        return spark.DecimalType(dtype.precision, dtype.scale)
    if isinstance(dtype, pl.List) or (isinstance(dtype, pl.Array) and len(dtype.shape) == 1):
        return spark.ArrayType(spark_type(where, f"{column}[]", _inner(dtype)))
    if is_map(dtype):
        return spark.MapType(
            spark_type(where, f"{column}.key", _plain(dtype.key)),
            spark_type(where, f"{column}.value", _plain(dtype.value)),
        )
    if isinstance(dtype, pl.Struct) and dtype.fields:
        return spark.StructType(
            [
                spark.StructField(
                    field.name, spark_type(where, f"{column}.{field.name}", _plain(field.dtype))
                )
                for field in dtype.fields
            ]
        )
    spark_name = SPARK_NAMES.get(type(dtype))
    if spark_name is None:
        raise PlanError(
            f"{where}: column {column!r} is {dtype}, for which Spark has no type; {_way_out(dtype)}"
        )
    return _of_name(spark_name)


def _of_name(name: str) -> DataType:
    from pyspark.sql import types as spark

    if name == "decimal(20,0)":
        return spark.DecimalType(20, 0)
    simple: dict[str, Any] = {
        "boolean": spark.BooleanType,
        "tinyint": spark.ByteType,
        "smallint": spark.ShortType,
        "int": spark.IntegerType,
        "bigint": spark.LongType,
        "float": spark.FloatType,
        "double": spark.DoubleType,
        "string": spark.StringType,
        "binary": spark.BinaryType,
        "date": spark.DateType,
        "void": spark.NullType,
    }
    instance: DataType = simple[name]()
    return instance


def _way_out(dtype: pl.DataType) -> str:
    if isinstance(dtype, pl.Time):
        return "use .cast(pl.Int64), nanoseconds since midnight, or .cast(pl.String)"
    if isinstance(dtype, pl.Array):
        return "cast it to a pl.List of pl.List"  # polars 2.1 cannot convert that back to an array if one is null
    if isinstance(dtype, pl.Struct):
        return "give the struct a field or drop the column"
    if dtype.is_integer():
        return "cast it to pl.Int64, pl.Decimal(38, 0) or pl.String"
    return "cast it to a plain type"


def arrow_type(dtype: pl.DataType) -> pa.DataType:
    """Return the Arrow type as which Spark gets a column of a polars type; its zone is always UTC."""
    if isinstance(dtype, pl.Datetime):
        return pa.timestamp("us", tz=None if dtype.time_zone is None else "UTC")
    if isinstance(dtype, pl.Duration):
        return pa.duration("us")
    if isinstance(dtype, pl.Decimal):
        return pa.decimal128(dtype.precision, dtype.scale)
    if isinstance(dtype, pl.List | pl.Array):
        return pa.list_(pa.field("element", arrow_type(_inner(dtype))))
    if is_map(dtype):
        return pa.map_(arrow_type(_plain(dtype.key)), arrow_type(_plain(dtype.value)))
    if isinstance(dtype, pl.Struct):
        return pa.struct([(field.name, arrow_type(_plain(field.dtype))) for field in dtype.fields])
    return _ARROW[SPARK_NAMES[type(dtype)]]


def arrow_schema(schema: Mapping[str, pl.DataType]) -> pa.Schema:
    """Return the Arrow schema as which Spark gets columns, as ``spark_schema`` names them."""
    return pa.schema(
        [(name, pa.int64() if name == EPOCH else arrow_type(dtype)) for name, dtype in schema.items()]
    )


def frame_to_spark_arrow(frame: pl.DataFrame, where: str = "rows for Spark") -> pa.Table:
    """Return rows as Arrow for Spark, with the types of ``arrow_schema``. Strings are copied, numbers shared.

    A gigabyte or more comes in several pieces.

    Raises:
        InputError: a time is further away than Spark's reach; names ``where``, the column and the value.
    """
    require_times_fit(where, frame)
    target = arrow_schema(frame.schema)
    plain = frame.cast(
        {
            name: dtype_in_spark
            for name, dtype in frame.schema.items()
            if (dtype_in_spark := pl.Int64() if name == EPOCH else _widened(dtype)) != dtype
        }
    )
    pieces = 1 + int(plain.estimated_size()) // SLICE_BYTES
    rows = 1 + plain.height // pieces
    tables = [as_table(part, pl.CompatLevel.oldest()).cast(target) for part in plain.iter_slices(rows)]
    return pa.concat_tables(tables) if tables else target.empty_table()


def rows_from_arrow(
    rows: pa.Table | pa.RecordBatch, schema: Mapping[str, pl.DataType], where: str = "rows from Spark"
) -> pl.DataFrame:
    """Return rows from Spark's Arrow, with exactly these columns in this order and these polars types.

    Raises:
        InputError: a value does not fit its column, such as a negative number in a pl.UInt8; names both.
    """
    frame = frame_from_arrow(rows, schema)
    return pl.DataFrame(
        [_exactly(where, frame.get_column(name), _plain(dtype)) for name, dtype in schema.items()],
        height=frame.height,
    )


def frame_from_arrow(
    rows: pa.Table | pa.RecordBatch, schema: Mapping[str, pl.DataType], where: str = "rows from Spark"
) -> pl.DataFrame:
    """Return these columns of rows from Spark's Arrow, with the types that polars has for those of Spark."""
    selected = rows.select(list(schema))
    table = pa.Table.from_batches([selected]) if isinstance(selected, pa.RecordBatch) else selected
    return pl.DataFrame(pl.from_arrow(importable_rows(with_offsets(table))))


def _exactly(where: str, column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Return a column as this type, every value unchanged."""
    try:
        return exactly(column, dtype)
    except LossyValueError as lossy:
        raise InputError(
            f"{where}: column {column.name!r} has values that are not {dtype}: {lossy}; "
            "declare a type that holds them, or correct the rows"
        ) from None


def _widened(dtype: pl.DataType) -> pl.DataType:
    """Return the polars type nearest to Spark's, if Arrow has no cast from one to the other."""
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return pl.String()
    if isinstance(dtype, pl.Datetime):
        return pl.Datetime("us", None if dtype.time_zone is None else "UTC")
    if isinstance(dtype, pl.Duration):
        return pl.Duration("us")
    if isinstance(dtype, pl.UInt64):
        return pl.Decimal(20, 0)
    if isinstance(dtype, pl.List | pl.Array):
        return pl.List(_widened(_inner(dtype)))
    if is_map(dtype):
        return pl.Map(_widened(_plain(dtype.key)), _widened(_plain(dtype.value)))
    if isinstance(dtype, pl.Struct):
        return pl.Struct([pl.Field(field.name, _widened(_plain(field.dtype))) for field in dtype.fields])
    return dtype


def _inner(dtype: pl.List | pl.Array) -> pl.DataType:
    return _plain(dtype.inner)


def _plain(dtype: Any) -> pl.DataType:
    """Return a type as an instance: polars takes classes too."""
    instance: pl.DataType = dtype() if isinstance(dtype, type) else dtype
    return instance


def polars_schema(where: str, schema: StructType) -> pl.Schema:
    """Return the polars types for a Spark schema, with which a source for its rows can be declared.

    Raises:
        InputError: a column has a type for which polars has none; names the column and the remedy.
    """
    return pl.Schema({field.name: polars_type(where, field.name, field.dataType) for field in schema.fields})


def polars_type(where: str, column: str, dtype: DataType) -> pl.DataType:
    """Return the polars type for a Spark type; a timestamp is in UTC.

    Raises:
        InputError: there is none; names the column and the remedy.
    """
    from pyspark.sql import types as spark

    if isinstance(dtype, spark.StringType):
        return pl.String()
    if isinstance(dtype, spark.DecimalType):
        return pl.Decimal(dtype.precision, dtype.scale)
    if isinstance(dtype, spark.TimestampType):
        return pl.Datetime("us", "UTC")
    if isinstance(dtype, spark.TimestampNTZType):
        return pl.Datetime("us")
    if isinstance(dtype, spark.DayTimeIntervalType):
        return pl.Duration("us")
    if isinstance(dtype, spark.ArrayType):
        return pl.List(polars_type(where, f"{column}[]", dtype.elementType))
    if isinstance(dtype, spark.MapType) and MAP is not None:
        return pl.Map(
            polars_type(where, f"{column}.key", dtype.keyType),
            polars_type(where, f"{column}.value", dtype.valueType),
        )
    if isinstance(dtype, spark.StructType) and len(dtype.fields) > 0:
        return pl.Struct(
            {
                field.name: polars_type(where, f"{column}.{field.name}", field.dataType)
                for field in dtype.fields
            }
        )
    if (plain := _POLARS.get(dtype.simpleString())) is not None:
        return plain
    raise InputError(
        f"{where}: column {column!r} is {dtype.simpleString()}, for which polars has no type; {_spark_way_out(dtype)}"
    )


_POLARS: Mapping[str, pl.DataType] = {
    name: _plain(dtype)
    for dtype, name in SPARK_NAMES.items()
    if dtype not in (pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.Float16, pl.Categorical, pl.Enum)
}


def _spark_way_out(dtype: DataType) -> str:
    kind = dtype.typeName()
    if kind == "variant":
        return "use F.variant_get(...) or F.to_json(...)"
    if kind == "map":
        return f"which are in polars since 2.0, and this is {pl.__version__}; use F.map_entries(...)"
    if (
        "interval" in kind and dtype.simpleString() != "interval"
    ):  # That of several units has no cast to a number.
        return "cast it to a number of months"
    return "cast it to a string or drop it"


def declaration_of(dtype: DataType) -> str:
    """Return how a column of a Spark type can be declared, as a remedy.

    >>> from pyspark.sql.types import BinaryType, YearMonthIntervalType
    >>> declaration_of(BinaryType()), declaration_of(YearMonthIntervalType())
    ('declare it as Binary', 'cast it to a number of months')
    """
    try:
        return f"declare it as {polars_type('', '', dtype)}"
    except InputError:
        return _spark_way_out(dtype)


def named(columns: Iterable[tuple[str, DataType]]) -> str:
    """Return columns with their Spark types, as messages show them."""
    return ", ".join(f"{name!r} {dtype.simpleString()}" for name, dtype in columns)


def may_be_taken(where: str, name: str, actual: DataType, dtype: pl.DataType) -> bool:
    """Return whether a column may have values that its declared type holds; each value is checked later."""
    try:
        return may_hold(dtype, polars_type(where, name, actual))
    except InputError:
        return False


def quoted(name: str) -> str:
    """Return a column's name in Spark's quotes, which allow dots."""
    return f"`{name.replace('`', '``')}`"
