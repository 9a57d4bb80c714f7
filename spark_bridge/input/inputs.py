"""Several Spark DataFrames enter as one, so that one micro-batch is one epoch of all sources.

The union of the sources has a column that says which source a row is of, and for each source one column, a struct, that
is null in the rows of the others. One source alone stays as it is, unless a name of its columns has a dot or a backtick,
which ``DataFrame.mapInArrow`` trips over.

Rows of a source are ordered by (partition of the DataFrame, position in it). For a function that makes watermarks, and for the lags of
``percentile_watermark``, that is the order in which they came. Where it would say which row of a key stands, in an
upsert source without ``sequence_by``, only rows of one partition and one file are taken: see ``origins``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from evercurrent.core.columns.lossless import may_hold
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.core.data.schema import DIFF, listed, with_diff

from ..runtime.spark_types import named, nullable, polars_type, rows_from_arrow, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    from evercurrent.views.dataframe.source import Source
    from evercurrent.views.engine.engine import Engine

TAG = "_source"
"""Column of a tagged union: the place of the row's source, an int; ``BEAT`` for a heartbeat."""

BEAT = -1
"""The tag of a row that only advances time."""


def arriving(declared: Mapping[str, Source]) -> dict[str, pl.Schema]:
    """Return the columns in which rows of each source cross from Spark: those declared, and ``_diff`` unless it appends."""
    return {
        name: source.schema if source.kind == "append" else with_diff(source.schema)
        for name, source in declared.items()
    }


# Into one DataFrame.


def tagged(
    sources: Mapping[str, DataFrame],
    declared: Mapping[str, Source],
    *,
    beat: DataFrame | None = None,
) -> DataFrame:
    """Return the sources as one DataFrame, in the order of ``declared``; checked before (``check_sources``).

    Several, or one with a heartbeat, become (``_source``, ``_0``, ``_1`` ...); one alone keeps its own columns.
    """
    from pyspark.sql import functions as F  # noqa: N812 (the name that everybody knows)

    parts = [_selected(sources[name], source) for name, source in declared.items()]
    if len(parts) == 1 and beat is None and not any(set(".`") & set(name) for name in parts[0].columns):
        return parts[0]
    types = [nullable(part.schema) for part in parts]
    packed = [_packed(part, place, types) for place, part in enumerate(parts)]
    beats = [] if beat is None else [beat.select(F.lit(BEAT).alias(TAG), *_nulls(types, range(len(types))))]
    return reduce(lambda above, below: above.union(below), [*packed, *beats])


def _selected(frame: DataFrame, source: Source) -> DataFrame:
    """Return the declared columns in their order; those that may be left out are filled in."""
    from pyspark.sql import functions as F  # noqa: N812

    where = f"source {source.name!r}"
    columns = [
        F.col(_quoted(name))
        if name in frame.columns
        else F.lit(None).cast(spark_type(where, name, dtype)).alias(name)
        for name, dtype in source.schema.items()
    ]
    if source.kind != "append":
        columns.append(F.col(DIFF).cast("bigint").alias(DIFF) if DIFF in frame.columns else _one())
    return frame.select(*columns)


def _one() -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.lit(1).cast("bigint").alias(DIFF)


def _packed(part: DataFrame, place: int, types: Sequence[StructType]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    # The cast says that fields may be null: in the rows of other sources they are, and Arrow would stumble over it.
    own = F.struct(*(F.col(_quoted(name)) for name in part.columns)).cast(types[place]).alias(f"_{place}")
    before, after = _nulls(types, range(place)), _nulls(types, range(place + 1, len(types)))
    return part.select(F.lit(place).alias(TAG), *before, own, *after)


def _nulls(types: Sequence[StructType], places: Iterable[int]) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812

    return [F.lit(None).cast(types[place]).alias(f"_{place}") for place in places]


def _quoted(name: str) -> str:
    """Return a column's name as Spark reads it, dots and all."""
    return f"`{name.replace('`', '``')}`"


def heartbeat(spark: SparkSession, seconds: float = 1.0) -> DataFrame:
    """Return a stream for ``tagged`` that has a row every so many seconds, so that time goes on when no data comes.

    A micro-batch with a beat costs what any other does, some 0.15 s.

    Raises:
        PlanError: it is no number above 0.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise PlanError(f"heartbeat_seconds={seconds!r}; give a number of seconds above 0, or leave it out")
    from .beats import beats

    return beats(spark, seconds)


# And apart again.


def untagged(rows: pa.Table | pa.RecordBatch, columns: Mapping[str, pl.Schema]) -> dict[str, pl.DataFrame]:
    """Return the rows of each source that has some, in order of arrival, with the columns of ``arriving``.

    Raises:
        InputError: a value does not fit its column; names source and column.
    """
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    if not is_tagged(table.column_names, columns):
        ((name, schema),) = columns.items()
        return {name: rows_from_arrow(table, schema, f"source {name!r}")} if table.num_rows else {}
    tags = table.column(TAG).to_numpy()
    apart: dict[str, pl.DataFrame] = {}
    for place, (name, schema) in enumerate(columns.items()):
        own = tags == place
        if own.any():
            packed = table.column(f"_{place}")
            packed = packed if own.all() else packed.filter(pa.array(own))
            apart[name] = rows_from_arrow(_fields(packed, schema), schema, f"source {name!r}")
    return apart


def is_tagged(names: list[str], columns: Mapping[str, pl.Schema]) -> bool:
    """Return whether these are the columns of a tagged union of the sources."""
    return len(columns) > 1 or (names[:2] == [TAG, "_0"] and names != list(next(iter(columns.values()))))


def _fields(packed: pa.ChunkedArray, schema: pl.Schema) -> pa.Table:
    chunks = [pa.RecordBatch.from_struct_array(chunk) for chunk in packed.chunks]
    table = pa.Table.from_batches(chunks, chunks[0].schema)
    assert table.column_names == list(schema), "what was packed is what is unpacked"
    return table


# Checks, before a query starts.


def check_sources(
    engine: Engine, sources: Mapping[str, DataFrame], *, is_streaming: bool | None = None
) -> None:
    """Check that DataFrames fit the declared sources: each given, none too many, columns and types as declared.

    A column of another type is taken if values of it can be those of the declared one; that all are is found row by row. A
    nullable column is accepted everywhere: a null in the key of an upsert source or in event time is found row by
    row. ``_diff``, an integer, may be there where the source is of kind "diffs" or "upsert".

    Raises:
        InputError: naming the source, the column, what was found, what is declared, and what mends it.
    """
    declared = engine.sources
    if not isinstance(sources, Mapping):
        raise InputError(
            f"sources={type(sources).__name__}; give a dictionary, as {{{next(iter(declared), 'name')!r}: DataFrame}}"
        )
    if unknown := [name for name in sources if name not in declared]:
        raise InputError(
            f"source {listed(unknown)} is not declared; there are {listed(declared)}: declare it with engine.source(...)"
        )
    if missing := [name for name in declared if name not in sources]:
        reader = "spark.read" if is_streaming is False else "spark.readStream"
        raise InputError(
            f"source {listed(missing)} has no DataFrame; give one for every declared source, "
            f"as in sources={{{missing[0]!r}: {reader}...}}"
        )
    for name, source in declared.items():
        _check_kind(name, sources[name], is_streaming)
        _check_columns(source, sources[name])


def _check_kind(name: str, frame: Any, is_streaming: bool | None) -> None:
    if not hasattr(frame, "isStreaming") or not hasattr(frame, "schema"):
        found = f"{type(frame).__module__.partition('.')[0]}.{type(frame).__name__}"
        raise InputError(
            f"source {name!r}: expected a Spark DataFrame, got {found.removeprefix('builtins.')}"
        )
    if is_streaming is not None and frame.isStreaming != is_streaming:
        found, wanted = ("a stream", "a batch") if frame.isStreaming else ("a batch", "a stream")
        reader = "spark.readStream" if is_streaming else "spark.read"
        raise InputError(f"source {name!r}: the DataFrame is {found}, and {wanted} is needed; use {reader}")


def _check_columns(source: Source, frame: DataFrame) -> None:
    where = f"source {source.name!r}"
    fields = {field.name: field.dataType for field in frame.schema.fields}
    if len(fields) < len(frame.schema.fields):
        twice = [name for name in fields if frame.columns.count(name) > 1]
        raise InputError(f"{where}: column {listed(twice)} appears twice; rename one with .toDF(...)")
    for name, dtype in source.schema.items():
        wanted = spark_type(where, name, dtype)
        if name not in fields:
            if not (source.stamps_rows and name == source.event_time):
                raise InputError(
                    f"{where}: column {name!r} ({dtype}) is missing; {_addition(name, wanted, fields)}"
                )
        elif (found := fields[name].simpleString()) != wanted.simpleString() and not _may_be_taken(
            where, name, fields[name], dtype
        ):
            raise InputError(
                f"{where}: column {name!r} is {found}, but {dtype} is declared, which is {wanted.simpleString()} in Spark; "
                f"{_cast(name, found, wanted.simpleString())}"
            )
    if DIFF in fields:
        _check_diff(where, source, fields[DIFF].simpleString())
    if extra := [name for name in fields if name not in source.schema and name != DIFF]:
        raise InputError(
            f"{where}: column {listed(extra)} is not declared; drop it with .drop({listed(extra)}) or declare it"
        )


def _may_be_taken(where: str, name: str, found: DataType, dtype: pl.DataType) -> bool:
    """Return whether a column has values that its declared type holds; which ones is found out row by row."""
    try:
        return may_hold(dtype, polars_type(where, name, found))
    except InputError:
        return False


def _addition(name: str, wanted: Any, fields: Mapping[str, Any]) -> str:
    alike = next((found for found in fields if found.lower() == name.lower()), None)
    if alike is not None:
        return f"there is {alike!r}: rename it with F.col({alike!r}).alias({name!r})"
    there = named(fields.items())
    return f"there are {there}: add it, as with F.lit(None).cast({wanted.simpleString()!r}).alias({name!r})"


def _cast(name: str, found: str, wanted: str) -> str:
    mended = f"cast it with .withColumn({name!r}, F.col({name!r}).cast({wanted!r}))"
    if {found, wanted} == {"timestamp", "timestamp_ntz"}:
        other = 'pl.Datetime("us", "UTC")' if found == "timestamp" else 'pl.Datetime("us")'
        return f"declare it as {other}, or {mended}, which goes by the time zone of the session"
    return mended


def _check_diff(where: str, source: Source, found: str) -> None:
    if source.kind == "append":
        raise InputError(
            f"{where}: there is a column {DIFF!r}, but the source is declared append; declare it with kind='diffs' "
            f"to retract, or drop it with .drop({DIFF!r})"
        )
    if found not in ("tinyint", "smallint", "int", "bigint"):
        raise InputError(
            f"{where}: column {DIFF!r} is {found}, and must be a whole number; "
            f"cast it with .withColumn({DIFF!r}, F.col({DIFF!r}).cast('bigint'))"
        )
