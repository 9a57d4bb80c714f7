"""kill -9 of what a cluster is made of, at random times, with slow tasks run twice; the driver is started again where it ends.

Only with ``EVERCURRENT_TEST_PROFILE=long``. ``EVERCURRENT_TEST_KILLS`` sets how often of each kind.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import bank
from evercurrent.spark_bridge import deploy
from evercurrent.views.store import FsspecStore, Store
from s3_server import ACCOUNT, options_for, s3_server
from spark.doomed_query import batches
from spark.offered import declared, held
from spark.standalone import StandaloneCluster
from spark.test_bank_in_buckets import frames_of, nothing_is_remembered  # noqa: F401
from spark.test_spark_kill import TESTS, Doomed, long_only, on_linux

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


def stop_python(cluster: StandaloneCluster, draw: random.Random, driver: subprocess.Popen[bytes]) -> None:
    """A task stands still, as where its disk does; another one may be started in its place, and then it goes on after all."""
    stand_still([pid for number in (0, 1) for pid in cluster.pythons(number)], draw)


def stop_executor(cluster: StandaloneCluster, draw: random.Random, driver: subprocess.Popen[bytes]) -> None:
    """A machine does not answer for a while."""
    stand_still([pid for number in (0, 1) for pid in cluster.executors(number)], draw)


def stand_still(pids: list[int], draw: random.Random) -> None:
    """Stop one of these processes for some seconds, if there are any."""
    if pids:
        chosen = draw.choice(pids)
        with suppress(ProcessLookupError):
            os.kill(chosen, signal.SIGSTOP)
            time.sleep(draw.uniform(0.5, 4))
            os.kill(chosen, signal.SIGCONT)


def fail_disk(cluster: StandaloneCluster, draw: random.Random, driver: subprocess.Popen[bytes]) -> None:
    """Tasks and driver can neither write rows for other tasks nor read them; a moment later they can, and what was there is."""
    folder = cluster.folder.parent / "checkpoint" / "exchange"
    aside = folder.with_name("aside")
    if not folder.is_dir():
        return
    folder.rename(aside)
    with suppress(FileExistsError):  # Somebody has made it once more.
        folder.touch(exist_ok=False)
    time.sleep(draw.uniform(0, 1))
    while folder.is_dir():
        for file in folder.iterdir():
            file.rename(aside / file.name)
        with suppress(OSError):
            folder.rmdir()
    folder.unlink(missing_ok=True)
    for file in aside.iterdir():
        folder.mkdir(exist_ok=True)
        file.rename(folder / file.name)
    aside.rmdir()


KINDS = [
    kill_executor, kill_python, kill_worker, kill_master, kill_driver, stop_python, stop_executor, fail_disk
]  # fmt: skip


def disturbed(doomed: Doomed, cluster: StandaloneCluster, kill: Kill, draw: random.Random) -> None:
    """Run the program until it has read everything, with so many kills of this kind in that time."""
    kills = 0
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
        # A driver that is killed ends of nothing else, and then there is a cause to be found at once.
        assert kill is not kill_driver or doomed.ends[-1] == -signal.SIGKILL, doomed.log.read_text()[-4000:]
        assert doomed.starts < MOST_STARTS, doomed.log.read_text()[-4000:]
    print(f"{kills} kills by {kill.__name__}, {doomed.starts} starts, {doomed.commits() - 1} epochs")
    assert kills == KILLS


@long_only
@on_linux
@pytest.mark.parametrize("kill", KINDS)
def test_killed_on_a_cluster(kill: Kill, environment_archive: Path, tmp_path: Path) -> None:
    with StandaloneCluster(tmp_path / "cluster") as cluster:
        doomed = Doomed(tmp_path, batches(4 * KILLS, 60, lull=4), on_cluster(cluster, environment_archive))
        disturbed(doomed, cluster, kill, random.Random(kill.__name__))
    doomed.check()


@long_only
@on_linux
def test_on_a_slow_disk(environment_archive: Path, tmp_path: Path) -> None:
    """Of driver and executors, while Pythons of these are killed."""
    with StandaloneCluster(tmp_path / "cluster") as cluster:
        slow = {"DOOMED_PATH": str(TESTS / "spark" / "slow_disk"), "PYTHONPATH": paths_of_a_slow_disk()}
        environment = {**on_cluster(cluster, environment_archive), **slow}
        doomed = Doomed(tmp_path, batches(4 * KILLS, 60, lull=4), environment)
        disturbed(doomed, cluster, kill_python, random.Random(1))
    doomed.check()


@long_only
@on_linux
@pytest.mark.parametrize("kill", [kill_python, kill_driver])
def test_the_bank_on_a_cluster(kill: Kill, environment_archive: Path, tmp_path: Path) -> None:
    """A007: money is neither made nor lost at any epoch."""
    rows = bank.transfers(160 * KILLS, simplified=True)
    with StandaloneCluster(tmp_path / "cluster") as cluster:
        environment = on_cluster(cluster, environment_archive)
        doomed = Doomed(tmp_path, list(bank.batches(rows, 40)), environment, "spark.doomed_bank")
        disturbed(doomed, cluster, kill, random.Random(kill.__name__))
    checkpoint = tmp_path / "checkpoint"
    assert bank.wrong(dict(frames_of(checkpoint)), rows, simplified=True) == []
    assert held(declared(bank.declare), checkpoint)["total"] == [(0,)]


@dataclass
class InBucket(Doomed):
    """With its checkpoint in a bucket of a server with the API of S3."""

    endpoint: str = ""
    url: str = ""

    @cached_property
    def store(self) -> Store:  # type: ignore[override]
        return FsspecStore(self.url, options=options_for(self.endpoint))

    @property
    def of_spark(self) -> Path:
        return self.folder / "of-spark" / "spark"


@long_only
@on_linux
@pytest.mark.parametrize("kill", [kill_python, kill_driver])
def test_a_checkpoint_on_an_object_store(kill: Kill, tmp_path: Path) -> None:
    """Which driver and executors reach by its name alone, as they share no folder.

    Spark's own checkpoint has the same name, for which Hadoop has a table that leads to a folder: the file system of Hadoop for
    S3 is no part of PySpark.
    """
    archive = deploy.archive(tmp_path / "environment.tar.gz", include=["s3fs"], level=0)
    own = tmp_path / "of-spark"
    own.mkdir()
    table, name = "spark.hadoop.fs.viewfs", kill.__name__
    settings = {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
        f"{table}.overload.scheme.target.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
        f"{table}.mounttable.bucket.link./{name}": own.as_uri(),
    }
    with s3_server() as endpoint, StandaloneCluster(tmp_path / "cluster") as cluster:
        environment = {
            **on_cluster(cluster, archive),
            "AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": ACCOUNT, "AWS_SECRET_ACCESS_KEY": ACCOUNT,
            "DOOMED_CHECKPOINT": f"s3://bucket/{name}", "DOOMED_SETTINGS": json.dumps(settings),
        }  # fmt: skip
        doomed = InBucket(
            tmp_path, batches(4 * KILLS, 60, lull=4), environment, pause=0.1, endpoint=endpoint,
            url=environment["DOOMED_CHECKPOINT"],
        )  # fmt: skip
        disturbed(doomed, cluster, kill, random.Random(kill.__name__))
        doomed.check()


def on_cluster(cluster: StandaloneCluster, archive: Path) -> dict[str, str]:
    """The environment of a driver on a cluster whose executors get this archive."""
    return {"DOOMED_MASTER": cluster.url, "DOOMED_ARCHIVE": str(archive)}


def paths_of_a_slow_disk() -> str:
    """The ``PYTHONPATH`` of a driver that waits for its disk."""
    return os.pathsep.join(map(str, (TESTS / "spark" / "slow_disk", TESTS, TESTS.parent / "src")))
