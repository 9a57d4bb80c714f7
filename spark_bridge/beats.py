"""A stream of one row per beat of the clock, so that micro-batches come, and time goes on, when no data does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "evercurrent-beats"


def beats(spark: SparkSession, seconds: float) -> DataFrame:
    """A stream with one row whenever so many seconds have gone by, and one for any number of beats that were missed.

    Under ``trigger(availableNow=True)`` it has none: there time goes on with the data. Spark's own "rate" beats every
    second at the least, and makes up for all that was missed row by row.
    """
    spark.dataSource.register(Beats)
    return spark.readStream.format(FORMAT).option("seconds", str(seconds)).load()


class Beats(DataSource):
    """See ``beats``."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> str:
        """One column, the number of the beat."""
        return "beat bigint"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """What beats."""
        return _Clock(float(self.options["seconds"]))


class _Clock(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An offset is the number of beats since 1970, so it goes on across restarts. The first beat comes at once."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._stands_still = False

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        # Asked for more than once in a first micro-batch, so it is no time.
        return {"beat": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        now = start["beat"] if self._stands_still else int(time.time() // self._seconds)
        return {"beat": max(start["beat"], now)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._stands_still = True

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(end["beat"])] if end["beat"] > start["beat"] else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"beat": [partition.value]}, pa.schema([("beat", pa.int64())]))
