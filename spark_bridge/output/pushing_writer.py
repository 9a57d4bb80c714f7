"""A stream of Spark is pushed into a source of an engine: each micro-batch an epoch, once.

    stream.writeStream.format("evercurrent").option("path", "hits.checkpoint").option("app", "my_views").option("source", "hits")

Tasks write their rows to files of the store, which are swept if they are not used, and return their names. The commit of the
micro-batch opens the engine that the module declares, pushes the rows with the number of the micro-batch as their position, and
closes it. A micro-batch that Spark repeats is known by that position, which the query's own checkpoint numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import polars as pl
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import DIFF, listed
from evercurrent.views.checkpoint.marker import EXCHANGE
from evercurrent.views.cli.applications import durable, load
from evercurrent.views.engine.engine import Engine
from evercurrent.views.store import store_at
from evercurrent.views.store.repeated_puts import put_own

from ..runtime.sentences import in_a_sentence
from ..runtime.spark_types import rows_from_arrow
from .delta_options import FORMAT, WRITER_OPTIONS

QUERY = "sql.streaming.queryId"
"""The property of a task that has the id of its query, which the query keeps when it is started again."""


@dataclass(frozen=True)
class Pushed(WriterCommitMessage):
    """The rows of a task: the file that has them, None if there are none; and the query."""

    partition: int
    file: str | None
    query: str


class PushingWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches into a source."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._path, self._app, self._source = (options[name] for name in WRITER_OPTIONS)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task to a file, in an executor."""
        with in_a_sentence():
            batches = [batch for batch in iterator if batch.num_rows]
            context = TaskContext.get()
            assert context is not None, "this runs in a task"
            query = str(context.getLocalProperty(QUERY))
            if not batches:
                return Pushed(context.partitionId(), None, query)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batches[0].schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            name = f"{EXCHANGE}pushed-{uuid4().hex}.arrow"
            put_own(store_at(self._path), name, [memoryview(sink.getvalue())])
            return Pushed(context.partitionId(), name, query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Push the rows of all tasks as an epoch, unless that was done before."""
        with in_a_sentence():
            tasks = sorted(
                (each for each in messages if isinstance(each, Pushed)), key=lambda each: each.partition
            )
            files = [each.file for each in tasks if each.file is not None]
            if not files:
                return
            application = load(self._app, again=True)
            with durable(application, self._path):
                self._push(application.engine, files, tasks[0].query, batchId)
            store_at(self._path).delete_all(files)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Delete the files of the tasks that were done."""
        files = [each.file for each in messages if isinstance(each, Pushed) and each.file is not None]
        store_at(self._path).delete_all(files)

    def _push(self, engine: Engine, files: Sequence[str], query: str, batch: int) -> None:
        if self._source not in engine.sources:
            raise InputError(
                f"format {FORMAT!r}: {self._app} declares no source {self._source!r}; there are {listed(engine.sources)}"
            )
        source = engine.sources[self._source]
        positions: Any = engine.positions.get(self._source) or {}
        if not isinstance(positions, Mapping):
            raise InputError(
                f"format {FORMAT!r}: source {self._source!r} has the position {positions!r} of other input; write into a source of "
                "its own"
            )
        if batch <= positions.get(query, -1):
            return
        store = store_at(self._path)
        tables = [pa.ipc.open_stream(pa.py_buffer(store.read(name))).read_all() for name in files]
        table = pa.concat_tables(tables)
        schema = {**source.schema, **({DIFF: pl.Int64()} if DIFF in table.column_names else {})}
        if missing := [name for name in schema if name not in table.column_names]:
            raise InputError(
                f"format {FORMAT!r}: the stream lacks columns {listed(missing)} of source {self._source!r}; it has "
                f"{listed(table.column_names)}"
            )
        rows = rows_from_arrow(table.select(list(schema)), schema, f"source {self._source!r}")
        engine.push(self._source, rows, position={query: batch})
