"""A view's deltas as a source of other Spark queries, each epoch exactly once.

After ``register(spark)``:

    spark.readStream.format("evercurrent").option("path", "/data/checkpoint").option("view", "depth").load()

streams the view's columns, ``_epoch`` and ``_diff``; ``spark.read`` returns those that are there. Offsets are epochs, and
only committed epochs are read, so a query that is restarted continues from its own checkpoint.

Options: ``path``, a folder or url of a checkpoint, and ``view``; ``since``, the epoch after which to begin (by default with
the first, 0), or ``latest`` for only new epochs, which is fixed when the query's first micro-batch is done; ``until``, for
``spark.read``, the last epoch; ``maxEpochsPerTrigger``, for ``spark.readStream`` of PySpark 4.2 and newer. Other options and
epochs that are still to come are refused.

Rows of a micro-batch have no order: ``_epoch`` orders them. An epoch is never in two micro-batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from evercurrent.core.data.errors import CheckpointError, InputError
from evercurrent.core.data.schema import DIFF, EPOCH, listed
from evercurrent.views.checkpoint import Commit
from evercurrent.views.expressions.dtype_reading import dtype_of_text

from ..runtime.spark_types import spark_schema
from ..runtime.spark_versions import limits_batches, spark_version
from .delta_options import FORMAT, ReadOptions, forbid, read_options
from .delta_readers import BatchReader, UnlimitedReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register the format "evercurrent" with a session. It can be called again."""
    spark.dataSource.register(ViewDeltas)


class ViewDeltas(DataSource):
    """The deltas of a view in a checkpoint; see the module."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the view's columns, ``_epoch`` and ``_diff``, as the last commit has them."""
        options = read_options(self.options)
        types = {**view_schema(options, options.log().last), EPOCH: pl.UInt64(), DIFF: pl.Int64()}
        return spark_schema(options.where, types)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of ``spark.read``."""
        options = read_options(self.options)
        forbid(options.most_epochs, "maxEpochsPerTrigger", "spark.read", "spark.readStream")
        return BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """Return the reader of ``spark.readStream``."""
        options = read_options(self.options)
        forbid(options.until, "until", "spark.readStream", "spark.read")
        if limits_batches():
            from .limited_deltas import LimitedReader  # It needs PySpark 4.2.

            return LimitedReader(options)
        if options.most_epochs is not None:
            raise InputError(
                f"format {FORMAT!r}: option 'maxEpochsPerTrigger' is {options.most_epochs}, and PySpark {spark_version()} reads "
                "all epochs that are there in each micro-batch; leave the option out, or install PySpark 4.2 or newer"
            )
        return UnlimitedReader(options)


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
