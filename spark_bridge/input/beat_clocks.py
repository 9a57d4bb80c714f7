"""The clocks of a heartbeat, with the interface of every PySpark from 4.0 on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import polars as pl
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition


class Clock(DataSourceStreamReader):
    """An offset is the number of beats since 1970, so it goes on across restarts. The first beat comes at once."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        # Spark calls this more than once in a first micro-batch, so it must not depend on the time.
        return {"beat": 0}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(end["beat"])] if end["beat"] > start["beat"] else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from (
            pl.DataFrame({"beat": [partition.value]}, schema={"beat": pl.Int64}).to_arrow().to_batches()
        )

    def _now(self) -> int:
        return int(time.time() // self._seconds)


class RunningClock(Clock):
    """A clock for any trigger, for PySpark 4.0 and 4.1. If the system's clock is set back, it gives no beats until it has caught up."""

    _latest = 0

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override, unused-ignore]  # noqa: N802
        self._latest = max(self._latest, self._now())
        return {"beat": self._latest}
