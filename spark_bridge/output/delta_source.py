"""A view's deltas as a source of other Spark queries, each epoch exactly once.

After ``spark_bridge.register(spark)``:

    spark.readStream.format("evercurrent").option("path", "/data/checkpoint").option("view", "depth").load()

streams the view's columns, ``_epoch`` and ``_diff``; ``spark.read`` returns those that are there. Offsets are epochs, and
only committed epochs are read, so a query that is restarted continues from its own checkpoint.

Options: ``path``, a folder or url of a checkpoint, and ``view``; ``since``, the epoch after which to begin (by default with
the first, 0), or ``latest`` for only new epochs, or ``contents`` for the contents and then new epochs, both fixed when the
query's first micro-batch is done; ``until``, for ``spark.read``, the last epoch; ``startingEpoch`` and ``endingEpoch``, the first
and the last epoch; ``changeTypes`` for ``_change_type`` in place of ``_diff``, with ``key`` to recognize updates;
``maxEpochsPerTrigger``, for ``spark.readStream`` of PySpark 4.2 and newer; ``versionAsOf``, for ``spark.read``, an epoch or
``latest``, for contents in place of deltas, with ``app``, the module that declares the view. Other options and epochs that are
still to come are refused.

Of a schema that is given, as by ``spark.read.schema("ip string, _diff bigint")``, only those columns are read: Spark does not
pass to sources in Python which ones a query needs. It passes them conditions on ``_epoch`` from PySpark 4.1 on.

Rows of a micro-batch have no order: ``_epoch`` orders them. An epoch is never in two micro-batches.
"""

from __future__ import annotations

import polars as pl
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)
from pyspark.sql.types import StructType

from evercurrent.core.data.errors import CheckpointError, InputError
from evercurrent.core.data.schema import DIFF, EPOCH, listed
from evercurrent.views.checkpoint import Commit
from evercurrent.views.expressions.dtype_reading import dtype_of_text

from ..runtime.sentences import in_a_sentence
from ..runtime.spark_types import nullable_type, spark_schema
from ..runtime.spark_versions import limits_batches, require_arrow_writers, spark_version
from .change_types import CHANGE_TYPE
from .delta_options import FORMAT, ReadOptions, forbid, read_options, require_writer_options
from .delta_readers import BatchReader, ContentsReader, Reading, UnlimitedReader


class ViewDeltas(DataSource):
    """The deltas of a view in a checkpoint; see the module."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns, as the last commit has them."""
        with in_a_sentence():
            options = read_options(self.options)
            return spark_schema(options.where, columns_of(options))

    def reader(self, schema: StructType | None) -> DataSourceReader:
        """Return the reader of ``spark.read``, which reads the columns of this schema."""
        with in_a_sentence():
            options = read_options(self.options)
            forbid(options.most_epochs, "maxEpochsPerTrigger", "spark.read", "spark.readStream")
            if options.has_contents:
                raise InputError(
                    f"format {FORMAT!r}: option 'since' is 'contents', which is for spark.readStream, and this is spark.read; give "
                    "option 'versionAsOf' with an epoch or 'latest'"
                )
            reading = _reading(options, schema)
            return BatchReader(reading) if options.version is None else ContentsReader(reading)

    def streamReader(self, schema: StructType | None) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """Return the reader of ``spark.readStream``, which reads the columns of this schema."""
        with in_a_sentence():
            options = read_options(self.options)
            forbid(options.until, options.until_name, "spark.readStream", "spark.read")
            forbid(options.version, "versionAsOf", "spark.readStream", "spark.read")
            reading = _reading(options, schema)
            if limits_batches():
                from .limited_deltas import LimitedReader  # It needs PySpark 4.2.

                return LimitedReader(reading)
            if options.most_epochs is not None:
                raise InputError(
                    f"format {FORMAT!r}: option 'maxEpochsPerTrigger' is {options.most_epochs}, and PySpark {spark_version()} reads "
                    "all epochs that are there in each micro-batch; leave the option out, or install PySpark 4.2 or newer"
                )
            return UnlimitedReader(reading)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 (Spark's name)
        """Return the writer of ``writeStream``, which pushes into a source of an engine."""
        with in_a_sentence():
            require_writer_options(self.options)
            if overwrite:
                raise InputError(
                    f"format {FORMAT!r}: a source takes rows once; give .outputMode('append'), or leave it out"
                )
            require_arrow_writers()
            from .pushing_writer import PushingWriter  # It needs PySpark 4.1.

            return PushingWriter(self.options)


def columns_of(options: ReadOptions) -> dict[str, pl.DataType]:
    """Return the columns that are read with these options, with their types.

    Raises:
        CheckpointError: nothing is committed, or there is no such view.
        InputError: an epoch is still to come, or a key is no column.
    """
    view = view_schema(options, options.log().last)
    if missing := [name for name in options.keys if name not in view]:
        raise InputError(
            f"format {FORMAT!r}: option 'key' has {listed(missing)}; {options.where} has {listed(view)}"
        )
    if options.version is not None:
        return dict(view)
    last: dict[str, pl.DataType] = {CHANGE_TYPE: pl.String()} if options.change_types else {DIFF: pl.Int64()}
    return {**view, EPOCH: pl.UInt64(), **last}


def _reading(options: ReadOptions, schema: StructType | None) -> Reading:
    """Return what tasks read: of a schema that the user has given these columns, else all.

    Raises:
        InputError: there is no such column, or it has another type.
    """
    if schema is None:
        return Reading(options, tuple(columns_of(options)))
    there = {field.name: field.dataType for field in spark_schema(options.where, columns_of(options)).fields}
    for field in schema.fields:
        if field.name not in there:
            raise InputError(f"{options.where}: there is no column {field.name!r}; there are {listed(there)}")
        if nullable_type(field.dataType) != there[field.name]:
            raise InputError(
                f"{options.where}: column {field.name!r} is {there[field.name].simpleString()}, and the schema that is given has "
                f"{field.dataType.simpleString()}; correct it, and cast the column in the query"
            )
    return Reading(options, tuple(schema.fieldNames()))


def view_schema(options: ReadOptions, commit: Commit | None) -> pl.Schema:
    """Return the columns of the view.

    Raises:
        CheckpointError: nothing is committed, or there is no such view.
    """
    if commit is None:
        raise CheckpointError(
            f"{options.where}: nothing is committed there; first start the engine or query that writes it, or correct the path"
        )
    views = commit.plan["views"]
    if options.view not in views:
        raise CheckpointError(f"{options.where}: there is no such view; the views are {listed(views)}")
    columns = views[options.view]["columns"]
    return pl.Schema({name: dtype_of_text(text) for name, text in columns.items()})
