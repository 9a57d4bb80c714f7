"""Several Spark DataFrames enter as one, so that one micro-batch is one epoch of all sources.

The union of the sources has a column with the source of a row, and for each source one column, a struct, which is null in
the rows of the others. A single source is not changed, unless the name of a column has a dot or a backtick, with which
``DataFrame.mapInArrow`` fails.

Rows of a source are ordered by (partition of the DataFrame, position in it). For a function that makes watermarks, and for
the lags of ``percentile_watermark``, that is the order in which they came. Where it would determine which row of a key wins,
in an upsert source without ``sequence_by``, only rows of one partition and one file are accepted: see ``origins``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.core.data.schema import DIFF, columns_are, listed, with_diff

from ..runtime.spark_types import (
    declaration_of,
    may_be_taken,
    named,
    nullable,
    quoted,
    rows_from_arrow,
    spark_type,
)
from .messages import check_messages, message_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    from evercurrent.views.dataframe.source import Source
    from evercurrent.views.engine.engine import Engine

TAG = "_source"
"""Column of a tagged union: the number of the row's source, an int; ``BEAT`` for a heartbeat."""

PLACE = "evercurrent:place"
"""Column with the number of a row: its position in the partition that it is read in, and in the upper bits the partition."""

Read = Callable[[pa.Table, Mapping[str, pl.DataType], str], pl.DataFrame]

SHORTEST_BEAT = 0.001
"""Seconds between beats: a micro-batch takes longer than that, and with fewer no beat would ever be over."""

LONGEST_BEAT = 366 * 86_400
"""Seconds between beats: the number of a beat counts from 1970, and the first has to be above 0."""

BEAT = -1
"""The tag of a row that only advances time."""


def arriving(declared: Mapping[str, Source]) -> dict[str, pl.Schema]:
    """Return the columns in which rows of each source come from Spark: the declared ones, and ``_diff`` unless it appends.

    Changes that have a format come in the columns of their messages.
    """
    return {
        name: source.arriving
        if source.kind == "append" or source.format is not None
        else with_diff(source.schema)
        for name, source in declared.items()
    }


# Several DataFrames to one.


def tagged(
    sources: Mapping[str, DataFrame],
    declared: Mapping[str, Source],
    *,
    beat: DataFrame | None = None,
    beat_at: int | None = None,
) -> DataFrame:
    """Return the sources, which ``check_sources`` has checked, as one DataFrame in the order of ``declared``.

    Several, or one with a heartbeat, have the columns (``_source``, ``_0``, ``_1`` ...); a single one keeps its own. The
    rows of the heartbeat come last, or at the place ``beat_at``.
    """
    from pyspark.sql import functions as F  # noqa: N812 (the usual name)

    parts = [_selected(sources[name], source) for name, source in declared.items()]
    if len(parts) == 1 and beat is None and not any(set(".`") & set(name) for name in parts[0].columns):
        return parts[0]
    types = [nullable(part.schema) for part in parts]
    packed = [_packed(part, place, types) for place, part in enumerate(parts)]
    if beat is not None:
        beats = beat.select(F.lit(BEAT).alias(TAG), *_nulls(types, range(len(types))))
        packed.insert(len(packed) if beat_at is None else beat_at, beats)
    return reduce(lambda above, below: above.union(below), packed)


def _selected(frame: DataFrame, source: Source) -> DataFrame:
    """Return the declared columns in their order; those that may be left out are filled in."""
    if source.format is not None:
        return message_columns(frame, source)
    from pyspark.sql import functions as F  # noqa: N812

    where = f"source {source.name!r}"
    columns = [
        F.col(quoted(name))
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

    # The cast makes fields nullable: they are null in the rows of other sources, and Arrow would fail otherwise.
    own = F.struct(*(F.col(quoted(name)) for name in part.columns)).cast(types[place]).alias(f"_{place}")
    before, after = _nulls(types, range(place)), _nulls(types, range(place + 1, len(types)))
    return part.select(F.lit(place).alias(TAG), *before, own, *after)


def _nulls(types: Sequence[StructType], places: Iterable[int]) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812

    return [F.lit(None).cast(types[place]).alias(f"_{place}") for place in places]


def heartbeat(spark: SparkSession, seconds: float = 1.0) -> DataFrame:
    """Return a stream for ``tagged`` with a row per this many seconds, so that time advances when no data comes.

    A micro-batch with a beat costs what any other does, some 0.15 s.

    Raises:
        PlanError: it is not a number of seconds between ``SHORTEST_BEAT`` and ``LONGEST_BEAT``.
    """
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not (is_number and SHORTEST_BEAT <= seconds <= LONGEST_BEAT):
        raise PlanError(
            f"heartbeat_seconds={seconds!r}; give a number of seconds from {SHORTEST_BEAT} to {LONGEST_BEAT}, or leave it out"
        )
    require_python_of_workers("heartbeat_seconds=")
    from .beats import beats

    return beats(spark, seconds)


def require_python_of_workers(what: str) -> None:
    """Check that the driver has the Python of the workers too, which Spark runs beside it for a source written in Python.

    Raises:
        PlanError: it is a path of the executors, in an archive.
    """
    program = os.environ.get("PYSPARK_PYTHON", "")
    if program.startswith(".") and not os.path.exists(program):
        raise PlanError(
            f"{what} is a source in Python, for which Spark runs {program} in the driver's folder {os.getcwd()}, too, and it "
            "is not there; unpack the archive there: mkdir environment && tar -xzf environment.tar.gz -C environment"
        )


# One DataFrame back to several.


def untagged(
    rows: pa.Table | pa.RecordBatch, columns: Mapping[str, pl.Schema], read: Read = rows_from_arrow
) -> dict[str, pl.DataFrame]:
    """Return the rows of each source that has some, in order of arrival, with the columns of ``arriving``.

    ``read`` is ``rows_from_arrow``, or ``frame_from_arrow``, which checks no values.

    Raises:
        InputError: a value does not fit its column; names source and column.
    """
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    if not is_tagged(table.column_names, columns):
        ((name, schema),) = columns.items()
        return {name: read(table, schema, f"source {name!r}")} if table.num_rows else {}
    tags = table.column(TAG).to_numpy()
    apart: dict[str, pl.DataFrame] = {}
    for place, (name, schema) in enumerate(columns.items()):
        own = tags == place
        if own.any():
            packed = table.column(f"_{place}")
            packed = packed if own.all() else packed.filter(pl.Series(own).to_arrow())
            apart[name] = read(_fields(packed, schema), schema, f"source {name!r}")
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
    """Check that DataFrames fit the declared sources: each is given, none is unknown, columns and types are as declared.

    A column of another type is accepted if it can hold values of the declared one; whether all values fit is checked row by
    row. Nullable columns are accepted everywhere: nulls in the key of an upsert source or in event time are checked row by
    row. ``_diff``, an integer, may be there if the source is of kind "diffs" or "upsert".

    Raises:
        InputError: one does not fit; names the source, the column, its type, the declared type, and the remedy.
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
    check_streams(declared, sources, is_streaming=is_streaming)


def check_streams(
    declared: Mapping[str, Source], sources: Mapping[str, DataFrame], *, is_streaming: bool | None = None
) -> None:
    """Check that the DataFrame of each declared source fits it.

    Raises:
        InputError: one does not, as for ``check_sources``.
    """
    for name, source in declared.items():
        _check_kind(name, sources[name], is_streaming)
        _check_names(source, sources[name])
        if source.format is None:
            _check_columns(source, sources[name])
        else:
            check_messages(source, source.format, sources[name])


def _check_kind(name: str, frame: Any, is_streaming: bool | None) -> None:
    if not hasattr(frame, "isStreaming") or not hasattr(frame, "schema"):
        class_name = f"{type(frame).__module__.partition('.')[0]}.{type(frame).__name__}"
        raise InputError(
            f"source {name!r}: expected a Spark DataFrame, got {class_name.removeprefix('builtins.')}"
        )
    if is_streaming is not None and frame.isStreaming != is_streaming:
        actual, expected = ("a stream", "a batch") if frame.isStreaming else ("a batch", "a stream")
        reader = "spark.readStream" if is_streaming else "spark.read"
        raise InputError(
            f"source {name!r}: the DataFrame is {actual}, and {expected} is needed; use {reader}"
        )


def _check_names(source: Source, frame: DataFrame) -> None:
    """Check that Spark can distinguish the columns and name them.

    Raises:
        InputError: names differ only in case, or one is empty.
    """
    where = f"source {source.name!r}"
    if "" in source.schema:
        raise InputError(
            f"{where}: a column has an empty name, which Spark cannot select; give it another name"
        )
    if frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true":
        return
    by_lower: dict[str, str] = {}
    for name in source.schema:
        other = by_lower.setdefault(name.lower(), name)
        if other != name:
            raise InputError(
                f"{where}: columns {other!r} and {name!r} differ only in case, which Spark does not tell apart; rename one, or "
                "set spark.sql.caseSensitive to true"
            )


def _check_columns(source: Source, frame: DataFrame) -> None:
    where = f"source {source.name!r}"
    fields = {field.name: field.dataType for field in frame.schema.fields}
    if len(fields) < len(frame.schema.fields):
        twice = [name for name in fields if frame.columns.count(name) > 1]
        raise InputError(f"{where}: column {listed(twice)} appears twice; rename one with .toDF(...)")
    for name, dtype in source.schema.items():
        expected = spark_type(where, name, dtype)
        if name not in fields:
            if not (source.stamps_rows and name == source.event_time):
                raise InputError(
                    f"{where}: column {name!r} ({dtype}) is missing; {_addition(name, expected, fields)}"
                )
        elif (actual := fields[name].simpleString()) != expected.simpleString() and not may_be_taken(
            where, name, fields[name], dtype
        ):
            raise InputError(
                f"{where}: column {name!r} is {actual}, but {dtype} is declared, which is {expected.simpleString()} in Spark; "
                f"{_cast(frame, name, fields[name], expected)}"
            )
    if DIFF in fields:
        _check_diff(where, source, fields[DIFF].simpleString())
    if extra := [name for name in fields if name not in source.schema and name != DIFF]:
        raise InputError(
            f"{where}: {columns_are(extra)} not declared; drop it with .drop({listed(extra)}) or declare it"
        )


def _addition(name: str, expected: Any, fields: Mapping[str, Any]) -> str:
    alike = next((column for column in fields if column.lower() == name.lower()), None)
    if alike is not None:
        return f"there is {alike!r}: rename it with F.col({alike!r}).alias({name!r})"
    there = named(fields.items())
    return f"there are {there}: add it, as with F.lit(None).cast({expected.simpleString()!r}).alias({name!r})"


def _cast(frame: DataFrame, name: str, actual: DataType, expected: DataType) -> str:
    if not _is_castable(frame, actual, expected):
        return f"Spark has no cast from one to the other: {declaration_of(actual)}"
    mended = f"cast it with .withColumn({name!r}, F.col({name!r}).cast({expected.simpleString()!r}))"
    if (actual.simpleString(), expected.simpleString()) == ("timestamp_ntz", "timestamp"):
        return f'declare it as pl.Datetime("us"), or {mended}, which goes by the time zone of the session'
    return mended


def _is_castable(frame: DataFrame, actual: DataType, expected: DataType) -> bool:
    """Return whether Spark has a cast; under Spark Connect, where Spark would log an error for the look, that it has."""
    if not hasattr(frame, "_jdf"):
        return True
    untyped: Any = frame.sparkSession
    spark = untyped._jvm.org.apache.spark.sql
    of, to = (spark.types.DataType.fromJson(dtype.json()) for dtype in (actual, expected))
    return bool(spark.catalyst.expressions.Cast.canAnsiCast(of, to))


def _check_diff(where: str, source: Source, actual: str) -> None:
    if source.kind == "append":
        raise InputError(
            f"{where}: there is a column {DIFF!r}, but the source is declared append; declare it with kind='diffs' "
            f"to retract, or drop it with .drop({DIFF!r})"
        )
    if actual not in ("tinyint", "smallint", "int", "bigint"):
        raise InputError(
            f"{where}: column {DIFF!r} is {actual}, and must be a whole number; "
            f"cast it with .withColumn({DIFF!r}, F.col({DIFF!r}).cast('bigint'))"
        )
