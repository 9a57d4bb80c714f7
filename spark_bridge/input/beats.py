"""A stream of one row per beat of a clock, so that micro-batches run, and time advances, when no data comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from ..runtime.spark_versions import limits_batches
from .beat_clocks import RunningClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "evercurrent-beats"


def beats(spark: SparkSession, seconds: float) -> DataFrame:
    """Return a stream with one row per this many seconds, and only one row for any number of missed beats.

    Under ``trigger(availableNow=True)`` it has none: there time advances with the data. Spark's own "rate" source has at
    least one row per second, and makes up for missed ones row by row.
    """
    spark.dataSource.register(Beats)
    return spark.readStream.format(FORMAT).option("seconds", str(seconds)).load()


class Beats(DataSource):
    """See ``beats``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return one column, the number of the beat."""
        return "beat bigint"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """Return the reader of the beats."""
        seconds = float(self.options["seconds"])
        if limits_batches():
            from .bounded_beats import StoppingClock  # It needs PySpark 4.2.

            return StoppingClock(seconds)
        return RunningClock(seconds)
