"""DuckDB in memory: after each file, its rows are inserted and the whole chain is evaluated again over all rows.

Measured: opening the database, reading each file once, one query per file and its rows in Python. Not
measured: start of the process, imports.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import duckdb

from bench.reply import send

CHAIN = """
SELECT n, count(*) AS keys, sum(total)::BIGINT AS total
FROM (SELECT key, count(*) AS n, sum(value) AS total FROM rows GROUP BY key)
GROUP BY n ORDER BY n
"""


def main(folder: Path) -> None:
    started = time.perf_counter()
    database = duckdb.connect()
    database.execute("CREATE TABLE rows (key BIGINT, value BIGINT)")
    steps = []
    for file in sorted(folder.glob("*.csv")):
        database.execute(
            "INSERT INTO rows SELECT * FROM read_csv(?, header = true,"
            " columns = {'key': 'BIGINT', 'value': 'BIGINT'})",
            [str(file)],
        )
        steps.append([list(row) for row in database.execute(CHAIN).fetchall()])
    seconds = time.perf_counter() - started
    send(seconds=seconds, histogram=steps[-1], steps=steps, version=duckdb.__version__)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
