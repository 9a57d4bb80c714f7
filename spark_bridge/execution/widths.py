"""The size of a row as an expression of Spark, so that Spark can withhold wide rows from the driver."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from ..runtime.spark_types import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

PLAIN_BYTES = 8
"""The bytes of a value that is no text: of decimals and intervals it is half, of small numbers twice or more."""


def row_width(schema: StructType) -> Column:
    """Return about how many bytes a row of these columns has, as a number in Spark."""
    from pyspark.sql import functions as F  # noqa: N812 (the name that everybody knows)

    widths = [_width(F.col(quoted(field.name)), field.dataType) for field in schema.fields]
    return reduce(lambda total, one: total + one, widths, F.lit(0).cast("bigint"))


def is_narrow(schema: StructType) -> bool:
    """Return whether all rows of these columns are equally wide, but for nulls."""
    return all(_is_plain(field.dataType) for field in schema.fields)


def plain_width(schema: StructType) -> int:
    """Return the bytes of a row of columns that are narrow."""
    from pyspark.sql.types import StructType

    return sum(
        plain_width(field.dataType) if isinstance(field.dataType, StructType) else PLAIN_BYTES
        for field in schema.fields
    )


def _is_plain(kind: DataType) -> bool:
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

    if isinstance(kind, StructType):
        return is_narrow(kind)
    return not isinstance(kind, StringType | BinaryType | ArrayType | MapType) and kind.typeName() not in (
        "char", "varchar", "variant", "geometry", "geography",
    )  # fmt: skip


def _width(value: Column, kind: DataType) -> Column:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

    if isinstance(kind, StructType):
        fields = [_width(value.getField(field.name), field.dataType) for field in kind.fields]
        return reduce(lambda total, one: total + one, fields, F.lit(0).cast("bigint"))
    if isinstance(kind, ArrayType):
        return _sum_of(value, kind.elementType)
    if isinstance(kind, MapType):
        return _sum_of(F.map_keys(value), kind.keyType) + _sum_of(F.map_values(value), kind.valueType)
    if isinstance(kind, StringType | BinaryType) or kind.typeName() in ("char", "varchar"):
        return F.coalesce(F.octet_length(value), F.lit(0)).cast("bigint")
    return F.lit(PLAIN_BYTES).cast("bigint")


def _sum_of(values: Column, kind: DataType) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    none = F.lit(0).cast("bigint")
    if _is_plain(kind):
        return F.coalesce(F.array_size(values), F.lit(0)).cast("bigint") * PLAIN_BYTES
    return F.coalesce(F.aggregate(values, none, lambda total, one: total + _width(one, kind)), none)
