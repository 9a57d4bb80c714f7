"""kill -9 at any moment and at every operation of the store; restarts until the input ends; nothing of it can be seen."""

from __future__ import annotations

import os
import random
import signal
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

import bank
from durability import doomed
from durability.observing import all_of, differences
from forked import forked

LONG = os.environ.get("EVERCURRENT_TEST_PROFILE") == "long"
A_RUN = 300.0
"""Seconds in which the program ends, whatever else the machine does."""


def begin(folder: Path, every: int, last: int) -> ForkServerProcess:
    process, receiving = forked(doomed.main_of_a_process, folder, every, last)
    assert receiving.recv() == "begun"
    return process


def end(process: ForkServerProcess) -> int | None:
    """Wait for the end of the process, and return its code."""
    process.join(A_RUN)
    return process.exitcode


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, list[bytes]]]:
    """What an engine shows, and the delta files that it writes, if nobody kills it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with doomed.opened(folder) as engine:
        doomed.run(engine)
        seen = all_of(engine)
    return seen, doomed.delta_files(folder)


def check(folder: Path, undisturbed: tuple[dict[str, Any], dict[str, list[bytes]]]) -> None:
    seen, files = undisturbed
    assert doomed.delta_files(folder / "checkpoint") == files
    with doomed.opened(folder / "checkpoint") as engine:
        assert differences(seen, all_of(engine)) == []
        rows = doomed.bank.transfers(doomed.TRANSFERS)
        assert bank.wrong({name: engine.views[name].deltas() for name in bank.VIEWS}, rows) == []
        # Each delta is delivered to a sink at least once; as the epoch is in it, the sink can keep it exactly once.
        lines = (folder / doomed.DELIVERIES).read_text().splitlines()
        for view in ("total", "rounds"):
            expected = [
                f"{frame['_epoch'][0]} {sorted(frame.drop('_epoch').rows())}"
                for frame in engine.views[view].deltas()
            ]
            delivered = [line for line in dict.fromkeys(lines) if line in expected]
            assert delivered == expected, view
        assert set(lines) <= {
            f"{frame['_epoch'][0]} {sorted(frame.drop('_epoch').rows())}"
            for view in ("total", "rounds")
            for frame in engine.views[view].deltas()
        }


@pytest.mark.parametrize("every", [1, 5])
def test_killed_at_random_times(
    every: int, tmp_path: Path, undisturbed: tuple[dict[str, Any], dict[str, list[bytes]]]
) -> None:
    """A163: output and state are those of a run that nothing has disturbed."""
    draw, kills = random.Random(every), 0
    for _ in range(100):
        process = begin(tmp_path, every, -1)
        if kills < (30 if LONG else 4):
            deadline = time.monotonic() + draw.uniform(0, 1)
            process.join(deadline - time.monotonic())
            if process.exitcode is None:
                process.kill()
                kills += 1
        if end(process) == 0:
            break
    assert process.exitcode == 0
    check(tmp_path, undisturbed)


@pytest.mark.parametrize("operation", range(120) if LONG else (0, 5, 13, 34))
def test_killed_in_the_middle_of_an_operation(
    operation: int, tmp_path: Path, undisturbed: tuple[dict[str, Any], dict[str, list[bytes]]]
) -> None:
    """At all operations of a run but the last few; the second and the third have less to do, and may come to the end."""
    ends = [end(begin(tmp_path, 1, operation)) for _ in range(3)]
    assert ends[0] == -signal.SIGKILL
    assert set(ends) <= {-signal.SIGKILL, 0}
    doomed.main(tmp_path, 1, -1)  # As a process of its own does that nobody kills.
    check(tmp_path, undisturbed)
