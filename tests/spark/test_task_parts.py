"""Tasks that have too many rows for memory are run in parts: deltas, contents and ledger are those of the embedded engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
from hypothesis import assume, given
from hypothesis import strategies as st

import evercurrent as ec
from eventtime.pipelines import Both, Run, runs
from evercurrent.views.checkpoint import Pieces
from evercurrent.views.partitioned.stage_runner import StageRunner
from evercurrent.views.partitioned.tasks import Instant
from evercurrent.views.store import LocalStore
from harness import Running
from oracle import TooLargeError
from spark.test_buckets import twins  # noqa: F401
from spark.test_spark_kill import long_only, on_linux
from spark.twins import Elsewhere, TwinEngine, TwinRunning, Way
from started import paths
from strategies import Case, cases, of_profile

WAYS = [Way(buckets=2, elsewhere=True, part_bytes=size) for size in (1, 200, 2_000)]
TESTS = Path(__file__).resolve().parents[1]
MEBIBYTE = 1 << 20


@of_profile(0.1, quick=8)
@given(case=cases(trusted=False), way=st.sampled_from(WAYS))
def test_random_views(case: Case, way: Way) -> None:
    """Of every epoch the twin asserts that both are equal."""
    try:
        case.expected()
    except TooLargeError:
        assume(False)
    TwinEngine.way = way
    running = Running(case, is_checked=False).push_all()
    assert isinstance(running.engine, TwinEngine)
    assert running.engine.compared == len(case.epochs) + 1


@of_profile(0.05, quick=6)
@given(run=runs(), way=st.sampled_from(WAYS))
def test_random_windows(run: Run, way: Way) -> None:
    TwinEngine.way = way
    both = Both(run)
    for epoch in run.epochs:
        both.push(epoch)
    assert isinstance(both.engine, TwinEngine)
    assert both.engine.compared == len(run.epochs) + 1


def test_a_task_has_many_parts() -> None:
    """Here of rows that cannot be combined; float sums of a key are added in the order of its rows."""
    TwinEngine.way = Way(buckets=2, elsewhere=True, part_bytes=2_000)
    engine = ec.Engine()
    rows = engine.source("rows", {"key": pl.Int64, "text": pl.String, "x": pl.Float64})
    engine.view("most", rows.group_by("key").agg(x=pl.col("x").max(), total=pl.col("x").sum()))
    engine.view("pairs", rows.join(rows.select("key", other="text"), on="key"))
    numbers = pl.int_range(600, eager=True)
    frame = pl.DataFrame(
        {"key": numbers % 293, "text": (numbers % 13).cast(pl.String), "x": (numbers % 31) / 10}
    )
    engine.push("rows", frame)
    engine.push("rows", frame.head(100))
    running = engine._running
    assert isinstance(running, TwinRunning)
    executors = running.epochs.executors
    assert isinstance(executors, Elsewhere)
    assert executors.parts > 5


def test_what_a_task_passes_on_in_memory_is_limited_for_all_its_chunks(tmp_path: Path) -> None:
    """So that the driver can hold what all tasks return, however many rows an epoch has."""
    engine = ec.Engine()
    engine.view("rows", engine.source("rows", {"key": pl.Int64}).unique())
    runner = StageRunner(engine.declared, Pieces.of(LocalStore(tmp_path)), 1, inline_rows=1_000)
    chunk = pl.DataFrame({"key": range(100), "_diff": [1] * 100}, schema={"key": pl.Int64, "_diff": pl.Int64})
    runner.leaving.begin(4_000)
    results = [runner.arrive(Instant(1, 0, {}), number, {"rows": chunk}) for number in range(4)]
    held = [part.held for result in results for parts in result.rows.values() for part in parts.values()]
    assert [isinstance(part, pl.DataFrame) for part in held] == [True, True, False, False]


@long_only
@on_linux
def test_memory_does_not_grow_with_the_rows() -> None:
    """Of one process that is driver and worker; only the pages of files are not counted, which the system takes back."""
    few, many = grown(200_000), grown(1_600_000)
    print(f"bytes of rows, and the growth of memory meanwhile: {few}, {many}")
    assert many[0] > 7 * few[0]
    assert many[1] < 1.5 * few[1] + 8 * MEBIBYTE


def grown(rows: int) -> tuple[int, int]:
    """The bytes of so many rows of an epoch, and by how many a process grows that takes them."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "spark.large_epoch", str(rows)],
        env=os.environ | {"PYTHONPATH": paths(TESTS, TESTS.parent / "src"), "POLARS_MAX_THREADS": "1"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    size, growth = map(int, done.stdout.split())
    return size, growth
