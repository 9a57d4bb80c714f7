"""Flink SQL, streaming mode, local mini-cluster: two chained GROUP BYs, the changelog collected in Python.

Measured: from the declaration of the table to the last change, start of the mini-cluster and of the job
included, because a query cannot be had without them. Not measured: start of the process, imports, start of
the JVM. Flink has no epoch per file; mini-batches (at most 200 ms old, at most as many rows as a file has)
stand for it: without them it would emit and retract for every single row and be slower by far.
"""

from __future__ import annotations

import sys
import time
from importlib.metadata import version
from pathlib import Path

from pyflink.common import RowKind  # type: ignore[import-not-found]
from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

from bench.changes import Changes
from bench.reply import send

CHAIN = """
SELECT n, COUNT(*) AS num, SUM(total) AS total
FROM (SELECT `key`, COUNT(*) AS n, SUM(`value`) AS total FROM lines GROUP BY `key`)
GROUP BY n
"""


def environment(rows_per_file: int, parallelism: int) -> TableEnvironment:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = tables.get_config()
    settings.set("parallelism.default", str(parallelism))
    settings.set("table.exec.mini-batch.enabled", "true")
    settings.set("table.exec.mini-batch.allow-latency", "200 ms")
    settings.set("table.exec.mini-batch.size", str(rows_per_file))
    return tables


def main(folder: Path, rows_per_file: int, parallelism: int) -> None:
    changes = Changes()
    flink = environment(rows_per_file, parallelism)
    started = time.perf_counter()
    flink.execute_sql(
        "CREATE TABLE lines (`key` BIGINT, `value` BIGINT) WITH"
        f" ('connector' = 'filesystem', 'path' = '{folder.resolve().as_uri()}', 'format' = 'csv')"
    )
    standing = (RowKind.INSERT, RowKind.UPDATE_AFTER)
    with flink.execute_sql(CHAIN).collect() as rows:
        for row in rows:
            changes.add(row[0], row[1], row[2], 1 if row.get_row_kind() in standing else -1)
    seconds = time.perf_counter() - started
    send(
        seconds=seconds,
        histogram=changes.histogram(),
        changes=changes.count,
        version=version("apache-flink"),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
