"""Rows pushed in this process enter a streaming query through files: one file, one micro-batch, one epoch.

A file has the rows of all sources (see ``tagged``), so that no micro-batch has those of one without those of another,
and the epoch's metadata: its processing time and the positions that are reached with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
from pyarrow import parquet

from evercurrent.core.data.errors import NameTakenError, PlanError, first_line
from evercurrent.views.dataframe.source import Source
from evercurrent.views.store import Store
from evercurrent.views.store.repeated_puts import put_own

from ..input.inputs import TAG, arriving
from ..runtime.spark_types import arrow_schema, frame_to_spark_arrow, spark_schema
from .options import Planned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ARRIVALS = "arrivals/"
"""Folder of the checkpoint."""

BEGUN = "_begun"
"""A file that creates the folder, which Spark needs; Spark skips names that begin with an underscore."""

PLANNED = b"evercurrent.planned"
"""Key of the file's metadata that holds the epoch's processing time and positions."""

KEPT = 2
"""How many files are kept: Spark reads those of the last finished batch and of the current one."""


class Arrivals:
    """The files of a query, by the numbers of its micro-batches.

    Raises:
        PlanError: a column has a type that cannot be written.
    """

    def __init__(self, store: Store, sources: Mapping[str, Source]) -> None:
        self._store = store
        self._columns = arriving(sources)
        types = [pa.struct(list(arrow_schema(schema))) for schema in self._columns.values()]
        parts = [pa.field(f"_{place}", kind) for place, kind in enumerate(types)]
        self._schema = pa.schema([pa.field(TAG, pa.int32()), *parts])
        try:
            _parquet(self._schema.empty_table())
        except pa.ArrowException as error:
            raise PlanError(
                f"a source has a column that cannot be handed to Spark in a file: {first_line(error)}; declare it with "
                "a plainer type"
            ) from error

    def put(self, batch: int, rows: Mapping[str, pl.DataFrame], planned: Planned) -> None:
        """Write these rows as the next micro-batch."""
        tables = [self._tagged(name, frame) for name, frame in rows.items()]
        table = pa.concat_tables([self._schema.empty_table(), *tables])
        metadata = json.dumps({"at": planned.at, "positions": dict(planned.positions)})
        put_own(self._store, _name(batch), [_parquet(table.replace_schema_metadata({PLANNED: metadata}))])

    def has(self, batch: int) -> bool:
        """Return whether there are rows for a micro-batch."""
        return bool(self._store.list(_name(batch)))

    def planned(self, batch: int) -> Planned:
        """Return the metadata of a micro-batch that was written with its rows."""
        schema = parquet.read_schema(pa.BufferReader(self._store.read(_name(batch))))
        metadata = json.loads(schema.metadata[PLANNED])
        return Planned(metadata["at"], metadata["positions"])

    def withdraw(self, batch: int) -> None:
        """Remove the rows of a micro-batch that fails with them."""
        at = self.planned(batch).at
        self._store.delete(_name(batch))
        self.put(batch, {}, Planned(at, {}))

    def forget(self, batch: int) -> None:
        """Delete the files that are no longer read once a micro-batch is done."""
        needed = _name(batch - KEPT + 1)
        names = [file.name for file in self._store.list(ARRIVALS) if file.name < needed]
        if names:
            self._store.delete_all(names)

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the rows as a stream, a file at a time."""
        from pyspark.sql.types import IntegerType, StructField, StructType

        types = [spark_schema(f"source {name!r}", schema) for name, schema in self._columns.items()]
        parts = [StructField(f"_{place}", kind) for place, kind in enumerate(types)]
        reader = spark.readStream.schema(StructType([StructField(TAG, IntegerType()), *parts]))
        with suppress(NameTakenError):
            self._store.put(f"{ARRIVALS}{BEGUN}", [b""])
        folder = f"{self._store.url.rstrip('/')}/{ARRIVALS}"
        return reader.option("maxFilesPerTrigger", 1).parquet(folder)

    def _tagged(self, name: str, frame: pl.DataFrame) -> pa.Table:
        own = list(self._columns).index(name)
        rows = frame_to_spark_arrow(frame.select(list(self._columns[name])), f"source {name!r}")
        # Not rows.to_struct_array(): pyarrow 18 has none of a table without rows.
        structs = [batch.to_struct_array() for batch in rows.to_batches()]
        packed = pa.chunked_array(structs, pa.struct(list(rows.schema)))
        columns = {TAG: pa.repeat(pa.scalar(own, pa.int32()), frame.height)}
        for place in range(len(self._columns)):
            kind = self._schema.field(f"_{place}").type
            columns[f"_{place}"] = packed if place == own else pa.nulls(frame.height, kind)
        return pa.table(columns, self._schema)


def _name(batch: int) -> str:
    return f"{ARRIVALS}{batch:012}.parquet"


def _parquet(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    # One row group is read as one partition; with several, Spark would not keep the order of rows.
    parquet.write_table(table, sink, compression="lz4", row_group_size=max(1, table.num_rows))
    return sink.getvalue()
