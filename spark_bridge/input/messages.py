"""DataFrames of change messages: the columns of a format, of whatever else is in a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import columns_are, listed

from ..runtime.spark_types import may_be_taken, quoted, spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from evercurrent.views.connectors.change_formats import ChangeFormat
    from evercurrent.views.dataframe.source import Source


def message_columns(frame: DataFrame, source: Source) -> DataFrame:
    """Return the columns of messages in their order, null where one is left out; texts become bytes where messages are."""
    from pyspark.sql import functions as F  # noqa: N812 (the usual name)

    where = f"source {source.name!r}"
    there = {field.name: field.dataType for field in frame.schema.fields}
    columns = []
    for name, dtype in source.arriving.items():
        column = F.col(quoted(name)) if name in there else F.lit(None)
        if name not in there or dtype == pl.Binary:
            column = column.cast(spark_type(where, name, dtype))
        columns.append(column.alias(name))
    return frame.select(*columns)


def check_messages(source: Source, format: ChangeFormat, frame: DataFrame) -> None:
    """Check that a DataFrame has the columns of messages.

    Raises:
        InputError: one is missing, of another type, or no part of a message; names it and the remedy.
    """
    where, expected = f"source {source.name!r}", source.arriving
    fields = {field.name: field.dataType for field in frame.schema.fields}
    if missing := [name for name in expected if name not in fields and not format.is_optional(name)]:
        raise InputError(
            f"{where}: {columns_are(missing)} missing, in which messages come; there are {listed(fields)}: {format.way_out}"
        )
    for name, dtype in expected.items():
        actual = fields[name].simpleString() if name in fields else None
        if actual is None or (dtype == pl.Binary and actual in ("string", "binary")):
            continue
        if actual != spark_type(where, name, dtype).simpleString() and not may_be_taken(
            where, name, fields[name], dtype
        ):
            raise InputError(
                f"{where}: column {name!r} is {actual}, and messages have {dtype} there; cast it"
            )
    if extra := [name for name in fields if name not in expected and not format.is_ignored(name)]:
        raise InputError(
            f"{where}: {columns_are(extra)} no part of a message; drop it with .drop({listed(extra)})"
        )
