"""Half an hour of batches of 100 to 200,000 rows, late rows, closing windows, a heartbeat, and a kill each minute.

Only with ``EVERCURRENT_TEST_PROFILE=long``. ``EVERCURRENT_TEST_SOAK`` sets for how many seconds.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest

pytest.importorskip("pyspark")

import evercurrent as ec
from evercurrent.spark_bridge import views
from spark.soaked_query import declare, put, rows_of
from spark.standalone import command, descendants
from spark.test_spark_kill import TESTS, long_only, on_linux
from started import paths

SECONDS = float(os.environ.get("EVERCURRENT_TEST_SOAK", "1800"))
KILL_EACH = 60.0
SIZES = (100, 1_000, 10_000, 200_000)
MOST_GROWTH = 1.25
"""The most by which the last third may exceed the middle one; the first one warms up."""


@dataclass
class Measures:
    """What was measured of each kind at times."""

    seen: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, kind: str, at: float, amount: float) -> None:
        self.seen.setdefault(kind, []).append((at, amount))

    def thirds(self, kind: str) -> tuple[float, float]:
        """The medians of the middle and of the last third."""
        middle = [amount for at, amount in self.seen[kind] if SECONDS / 3 <= at < 2 * SECONDS / 3]
        last = [amount for at, amount in self.seen[kind] if at >= 2 * SECONDS / 3]
        return statistics.median(middle), statistics.median(last)


@long_only
@on_linux
def test_half_an_hour(tmp_path: Path) -> None:
    draw, measures = random.Random(15), Measures()
    begun, killed, number, kills = time.monotonic(), 0.0, 0, 0
    fed: list[pl.DataFrame] = []
    running = start(tmp_path)
    while (now := time.monotonic() - begun) < SECONDS:
        size = draw.choices(SIZES, weights=(6, 6, 3, 1))[0]
        rows = rows_of(number, size, min(5, size // 100))
        fed.append(rows.drop("at"))
        put(tmp_path / "input", number, rows)
        number += 1
        if now - killed > KILL_EACH:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
            killed, kills, running = now, kills + 1, start(tmp_path)
        assert running.poll() is None, (tmp_path / "log.txt").read_text()[-4000:]
        if now - killed > KILL_EACH / 2:
            measure(measures, now, running.pid, tmp_path / "checkpoint")
        time.sleep(draw.uniform(0.5, 2))
    everything = pl.concat(fed)
    (tmp_path / "ended").write_text(str(everything.height))
    assert running.wait(600) == 0, (tmp_path / "log.txt").read_text()[-4000:]
    grown = {kind: measures.thirds(kind) for kind in measures.seen}
    print(
        f"{number} files, {everything.height} rows, {kills} kills; medians of the middle and the last third: {grown}"
    )
    check(tmp_path, everything)
    for kind, (middle, last) in grown.items():
        assert last <= MOST_GROWTH * middle, (kind, grown)


def check(folder: Path, everything: pl.DataFrame) -> None:
    """The grouping is that of all rows, and each row is in a window or in the ledger."""
    engine = ec.Engine()
    declare(engine)
    there = views(engine, folder / "checkpoint")
    expected = everything.group_by("user").agg(n=pl.len().cast(pl.Int64), x=pl.col("x").sum()).sort("user")
    assert there["users"].read().sort("user").equals(expected)
    depth = expected.group_by("n").agg(users=pl.len().cast(pl.Int64)).sort("n")
    assert there["depth"].read().sort("n").equals(depth)
    assert 0 < there["minutes"].read()["n"].sum() < everything.height


def measure(measures: Measures, now: float, driver: int, checkpoint: Path) -> None:
    """Memory of the driver, its Java and its workers, and the files of the checkpoint, ours and Spark's."""
    pids = {"driver": [driver], "java": [], "workers": []}
    for pid in descendants(driver):
        named = command(pid)
        kind = "java" if b"java" in named.split(b" ")[0] else "workers" if b"pyspark" in named else None
        if kind is not None:
            pids[kind].append(pid)
    for kind, each in pids.items():
        measures.add(kind, now, sum(map(resident, each)) >> 20)
    measures.add("files", now, sum(len(files) for _, _, files in os.walk(checkpoint)))


def resident(pid: int) -> int:
    """Bytes of memory that are a process's own; 0 if it has ended. 0 is this process."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid or 'self'}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0


def start(folder: Path) -> subprocess.Popen[bytes]:
    (folder / "input").mkdir(exist_ok=True)
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "spark.soaked_query", str(folder)],
            env=os.environ | {"PYTHONPATH": paths(TESTS, TESTS.parent / "src"), "POLARS_MAX_THREADS": "1"},
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
