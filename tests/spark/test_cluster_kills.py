"""kill -9 of what a cluster is made of, at random times, with slow tasks run twice; the driver is started again where it ends.

Only with ``EVERCURRENT_TEST_PROFILE=long``. ``EVERCURRENT_TEST_KILLS`` says how often of each kind.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from spark.doomed_query import batches
from spark.standalone import StandaloneCluster
from spark.test_spark_kill import Doomed, long_only, on_linux

KILLS = int(os.environ.get("EVERCURRENT_TEST_KILLS", "4"))
MOST_STARTS = 10

Kill = Callable[[StandaloneCluster, random.Random, "subprocess.Popen[bytes]"], None]


def end(pids: list[int], draw: random.Random) -> None:
    """Kill one of these processes, if there are any."""
    if pids:
        with suppress(ProcessLookupError):
            os.kill(draw.choice(pids), signal.SIGKILL)


def kill_executor(cluster: StandaloneCluster, draw: random.Random, driver: subprocess.Popen[bytes]) -> None:
    """Its worker starts another one."""
    end([pid for number in (0, 1) for pid in cluster.executors(number)], draw)


def kill_python(cluster: StandaloneCluster, draw: random.Random, driver: subprocess.Popen[bytes]) -> None:
    """Its tasks fail, and are run again."""
    end([pid for number in (0, 1) for pid in cluster.pythons(number)], draw)


def kill_worker(cluster: StandaloneCluster, draw: random.Random, driver: subprocess.Popen[bytes]) -> None:
    """A machine is lost with its executor, and another one comes."""
    cluster.kill_worker(len(cluster.workers) - 1)
    cluster.start_worker()


def kill_master(cluster: StandaloneCluster, draw: random.Random, driver: subprocess.Popen[bytes]) -> None:
    """The next one finds workers and applications."""
    cluster.kill_master()
    time.sleep(draw.uniform(0, 1))
    cluster.start_master()


def kill_driver(cluster: StandaloneCluster, draw: random.Random, driver: subprocess.Popen[bytes]) -> None:
    """With its Java and its locks."""
    with suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)


@long_only
@on_linux
@pytest.mark.parametrize("kill", [kill_executor, kill_python, kill_worker, kill_master, kill_driver])
def test_killed_on_a_cluster(kill: Kill, environment_archive: Path, tmp_path: Path) -> None:
    draw = random.Random(kill.__name__)
    with StandaloneCluster(tmp_path / "cluster") as cluster:
        environment = {"DOOMED_MASTER": cluster.url, "DOOMED_ARCHIVE": str(environment_archive)}
        doomed, kills = Doomed(tmp_path, batches(4 * KILLS, 60, lull=4), environment), 0
        while True:
            process = doomed.start()
            while process.poll() is None and kills < KILLS:
                doomed.await_commits(draw.randrange(1, 4), process)
                time.sleep(draw.uniform(0, 0.5))
                if process.poll() is None:
                    kill(cluster, draw, process)
                    kills += 1
            if doomed.finish(process):
                break
            assert doomed.starts < MOST_STARTS, doomed.log.read_text()[-4000:]
    assert kills == KILLS
    print(f"{kills} kills by {kill.__name__}, {doomed.starts} starts, {doomed.commits() - 1} epochs")
    doomed.check()
