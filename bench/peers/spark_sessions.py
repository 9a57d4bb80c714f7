"""Sessions by hand on Spark's state, as its documentation writes them: `applyInPandasWithState` or `transformWithStateInPandas`.

The state of a key has its sessions: first hit, last hit and number. For the hits of a micro-batch the function of a key emits the
sessions that are no longer with `-1` and the new ones with `+1`, so that somebody downstream can keep a result current; there is
no second stage. Nothing closes. Measured: what Spark reports of each warm micro-batch, from planning to commit. The sink
collects the changes, which are added up afterwards and compared with the truth.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from bench.reply import Histogram, send
from bench.spark_session import hits_of, session, timing

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGES = "key long, start long, n long, diff long"
SESSIONS = "starts array<long>, ends array<long>, counts array<long>"
Session = tuple[int, int, int]


def merged(held: list[Session], hits: list[int], gap: int) -> list[Session]:
    """The sessions of a key with these hits."""
    sessions: list[Session] = []
    for start, end, count in sorted([*held, *((at, at, 1) for at in hits)]):
        if sessions and start - sessions[-1][1] < gap:
            first, last, before = sessions[-1]
            sessions[-1] = (first, max(last, end), before + count)
        else:
            sessions.append((start, end, count))
    return sessions


def changes(key: tuple[int], before: list[Session], after: list[Session]) -> pd.DataFrame:
    """What is no longer, and what is new."""
    diffs = Counter(dict.fromkeys(after, 1))
    diffs.subtract(before)
    rows = [(key[0], start, count, diff) for (start, _, count), diff in diffs.items() if diff]
    return pd.DataFrame(rows, columns=["key", "start", "n", "diff"])


def sessions_in(columns: Any) -> list[Session]:
    """The sessions of a state, which has them as columns."""
    return [] if columns is None else list(zip(*columns, strict=True))


def hits_in(frames: Iterator[pd.DataFrame]) -> list[int]:
    return [at for frame in frames for at in frame["at"].tolist()]


class Sessions(StatefulProcessor):
    """The function of a key for `transformWithStateInPandas`."""

    def __init__(self, gap: int) -> None:
        self.gap = gap

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.held = handle.getValueState("sessions", SESSIONS)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        before = sessions_in(self.held.get() if self.held.exists() else None)
        after = merged(before, hits_in(rows), self.gap)
        self.held.update(tuple(map(list, zip(*after, strict=True))))
        yield changes(key, before, after)

    def close(self) -> None:
        pass


def with_state(hits: DataFrame, gap: int) -> DataFrame:
    """The changes by `applyInPandasWithState`, whose state has no arrays: PySpark cannot read its own schema of them."""

    def sessions(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        before = [(start, end, n) for start, end, n in json.loads(state.get[0])] if state.exists else []
        after = merged(before, hits_in(frames), gap)
        state.update((json.dumps(after),))
        yield changes(key, before, after)

    grouped = hits.groupBy("key")
    return grouped.applyInPandasWithState(sessions, CHANGES, "sessions string", "Update", "NoTimeout")


def histogram_of(tables: list[Any]) -> Histogram:
    """The second stage, from all changes."""
    counts: Counter[int] = Counter()
    for table in tables:
        for n, diff in zip(table.column("n").to_pylist(), table.column("diff").to_pylist(), strict=True):
            counts[n] += diff
    return sorted([n, sessions, n * sessions] for n, sessions in counts.items() if sessions)


def main(way: str, folder: Path, warming: int, gap: int) -> None:
    spark = session(**{"spark.sql.streaming.stateStore.providerClass": ROCKSDB})
    hits = hits_of(spark, folder)
    if way == "apply":
        changed = with_state(hits, gap)
    else:
        changed = hits.groupBy("key").transformWithStateInPandas(Sessions(gap), CHANGES, "Update", "None")
    tables: list[Any] = []
    with tempfile.TemporaryDirectory(prefix="bench-") as checkpoint:
        started = time.perf_counter()
        writer = changed.writeStream.outputMode("update").option("checkpointLocation", checkpoint)
        writer = writer.foreachBatch(lambda batch, _: tables.append(batch.toArrow()))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = time.perf_counter() - started
    send(
        seconds=seconds,
        histogram=histogram_of(tables),
        version=version("pyspark"),
        **timing(query, warming),
    )
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
