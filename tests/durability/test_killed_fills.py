"""kill -9 in the middle of fills, embedded and in buckets: the views are those of an engine that nobody has killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from durability import doomed_fill
from durability.doomed_fill import STEPS, declared, pushes_before, rows, shown_after
from evercurrent.views.partitioned.checkpoint_reader import CheckpointReader
from evercurrent.views.store import LocalStore
from spark.twins import counted
from started import paths

TESTS = Path(__file__).resolve().parents[1]
LONG = os.environ.get("EVERCURRENT_TEST_PROFILE") == "long"
A_RUN = 300.0
"""Seconds in which the program ends, whatever else the machine does."""

POINTS = {
    "embedded": {"step": range(0, 40, 4) if LONG else (4,), "operation": range(0, 30, 3) if LONG else ()},
    "buckets": {"step": range(0, 60, 5) if LONG else (17,), "operation": range(0, 40, 3) if LONG else (6,)},
}


def killed(folder: Path, driver: str, where: str, number: int) -> bool:
    """Run the program; return whether it was killed."""
    words = [sys.executable, "-W", "ignore", "-m", "durability.doomed_fill"]
    environment = os.environ | {
        "PYTHONPATH": paths(TESTS, TESTS.parent / "src"),
        "POLARS_MAX_THREADS": "1",
    }
    ended = subprocess.run(
        [*words, str(folder), driver, where, str(number)],
        env=environment,
        timeout=A_RUN,
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    return ended.returncode == -signal.SIGKILL


def check(folder: Path) -> None:
    shown = shown_after(len(STEPS))
    engine = declared(shown)
    for number in range(pushes_before(len(STEPS))):
        engine.push("sales", rows(number))
    reader = CheckpointReader(declared(shown).declared, LocalStore(folder / "checkpoint"))
    for name, view in engine.views.items():
        assert counted([reader.snapshot(name).frame]) == counted([view.read()]), name
        deltas = [frame.drop("_epoch") for _, frame in reader.deltas(name, None)]
        assert counted(deltas) == counted([view.read()]), name


@pytest.mark.parametrize(
    ("driver", "where", "number"),
    [
        (driver, where, number)
        for driver, points in POINTS.items()
        for where, numbers in points.items()
        for number in numbers
    ],
)
def test_killed_in_the_middle_of_a_fill(driver: str, where: str, number: int, tmp_path: Path) -> None:
    """Once; long, again and again at other places, until the program ends."""
    draw, kills = random.Random(number), 0
    for _ in range(200):
        if not killed(tmp_path, driver, where, number if not kills else draw.randrange(60)):
            break
        kills += 1
        if not LONG:
            doomed_fill.main(tmp_path, driver, "step", -1)  # As a process of its own does that nobody kills.
            break
    assert kills
    check(tmp_path)
