"""Converts rows in files and in memory to Spark DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from evercurrent.core.data.schema import DIFF, EPOCH
from evercurrent.views.checkpoint import Commit, DeltaRef, PieceRef, Pieces
from evercurrent.views.partitioned.bucket_commits import PartitionedDeltas
from evercurrent.views.partitioned.delta_frames import with_epoch
from evercurrent.views.store import store_at

from ..runtime.sentences import in_a_sentence
from ..runtime.spark_frames import spark_frame
from ..runtime.spark_types import frame_to_spark_arrow, spark_schema
from .jobs import Setup
from .parallelism import cores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def delta_schema(schema: pl.Schema) -> pl.Schema:
    """Return the columns of a view's delta as readers see it."""
    return pl.Schema({**schema, EPOCH: pl.UInt64(), DIFF: pl.Int64()})


def delta_frames(
    spark: SparkSession, setup: Setup, deltas: PartitionedDeltas
) -> Iterator[tuple[str, DataFrame]]:
    """Yield the delta of each view that an epoch changed, as a DataFrame; deltas in files are read by Spark's tasks."""
    for view, parts in deltas.parts.items():
        refs = [DeltaRef(deltas.epoch, part.held) for part in parts if isinstance(part.held, PieceRef)]
        held = [part.held for part in parts if isinstance(part.held, pl.DataFrame)]
        frames = [from_polars(spark, view, with_epoch(pl.concat(held), deltas.epoch))] if held else []
        if refs:
            schema = delta_schema(setup.runner().schema_of(view))
            frames.append(from_files(spark, view, setup.store, refs, schema))
        yield view, frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])


def from_polars(spark: SparkSession, view: str, frame: pl.DataFrame) -> DataFrame:
    """Return a frame as a Spark DataFrame."""
    where = f"view {view!r}"
    return spark_frame(spark, frame_to_spark_arrow(frame, where), spark_schema(where, frame.schema))


@dataclass(frozen=True, slots=True)
class _ReadFiles:
    where: str
    store: str
    refs: tuple[DeltaRef, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pieces = Pieces.of(store_at(self.store))
        with in_a_sentence():
            for number in _numbers(batches):
                yield from frame_to_spark_arrow(pieces.read_delta(self.refs[number]), self.where).to_batches()


def from_files(
    spark: SparkSession, view: str, store: str, refs: Sequence[DeltaRef], schema: pl.Schema
) -> DataFrame:
    """Return the rows of these deltas, read by Spark's tasks."""
    return mapped(spark, view, len(refs), _ReadFiles(f"view {view!r}", store, tuple(refs)), schema)


@dataclass(frozen=True, slots=True)
class _ReadContents:
    setup: Setup
    view: str
    commit: Commit

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        runner = self.setup.runner()
        with in_a_sentence():
            for bucket in _numbers(batches):
                rows = runner.contents(self.view, bucket, self.commit.states)
                if rows is not None and rows.height:
                    yield from frame_to_spark_arrow(rows, f"view {self.view!r}").to_batches()


def contents(spark: SparkSession, setup: Setup, view: str, commit: Commit, schema: pl.Schema) -> DataFrame:
    """Return the rows of a view at a commit, read by Spark's tasks, bucket by bucket."""
    return mapped(spark, view, commit.buckets, _ReadContents(setup, view, commit), schema)


def mapped(
    spark: SparkSession,
    view: str,
    count: int,
    read: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pl.Schema,
) -> DataFrame:
    """Return the rows that a function reads for the numbers up to a count, as a DataFrame with these columns."""
    numbers = spark.range(0, count, 1, max(1, min(count, cores(spark))))
    return numbers.mapInArrow(read, spark_schema(f"view {view!r}", schema))


def _numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()
