"""The size of a row as an expression of Spark, so that Spark can withhold wide rows from the driver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..runtime.spark_types import quoted

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

PLAIN_BYTES = 8
"""The bytes of a value that is no text: of decimals and intervals it is half, of small numbers twice or more."""


def row_width(schema: StructType) -> str:
    """Return about how many bytes a row of these columns has, as an expression in SQL.

    A text, since each function of PySpark's on columns is several calls of Java: those for four columns took 30 ms, which
    every micro-batch would pay.
    """
    return _sum([_width(quoted(field.name), field.dataType) for field in schema.fields])


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


def _width(value: str, kind: DataType, depth: int = 0) -> str:
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

    if isinstance(kind, StructType):
        return _sum([_width(f"{value}.{quoted(field.name)}", field.dataType, depth) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return _sum_of(value, kind.elementType, depth)
    if isinstance(kind, MapType):
        keys = _sum_of(f"map_keys({value})", kind.keyType, depth)
        return f"({keys} + {_sum_of(f'map_values({value})', kind.valueType, depth)})"
    if isinstance(kind, StringType | BinaryType) or kind.typeName() in ("char", "varchar"):
        return f"CAST(coalesce(octet_length({value}), 0) AS BIGINT)"
    return f"{PLAIN_BYTES}L"


def _sum_of(values: str, kind: DataType, depth: int) -> str:
    if _is_plain(kind):
        return f"(CAST(coalesce(array_size({values}), 0) AS BIGINT) * {PLAIN_BYTES})"
    # Variables of a lambda are seen by those in it.
    total, one = f"total{depth}", f"one{depth}"
    added = f"({total}, {one}) -> {total} + {_width(one, kind, depth + 1)}"
    return f"coalesce(aggregate({values}, 0L, {added}), 0L)"


def _sum(widths: Iterable[str]) -> str:
    return f"({' + '.join(['0L', *widths])})"
