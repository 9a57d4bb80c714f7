"""A stream of one row per beat of the clock, so that micro-batches come, and time goes on, when no data does."""

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
    """Return a stream with one row whenever so many seconds have gone by, and one for any number of beats that were missed.

    Under ``trigger(availableNow=True)`` it has none: there time goes on with the data. Spark's own "rate" beats every
    second at the least, and makes up for all that was missed row by row.
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
        """Return the reader that beats."""
        seconds = float(self.options["seconds"])
        if limits_batches():
            from .bounded_beats import StoppingClock  # It needs what PySpark 4.2 brought.

            return StoppingClock(seconds)
        return RunningClock(seconds)
