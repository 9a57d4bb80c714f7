"""On a cluster of a master and two workers of one core, whose executors have a Python of their own, shipped as an archive.

The drivers are processes of their own, as a session of this one may be running. ``test_cluster_kills`` kills the other parts.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

pytest.importorskip("pyspark")

from evercurrent.spark_bridge.runtime.java import JavaMissingError
from evercurrent.views.apps.retail_orders import orders_in_batches
from spark.doomed_query import batches
from spark.standalone import StandaloneCluster, command
from spark.test_spark_kill import TESTS, Doomed, long_only

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


def cluster_in(folder: Path) -> StandaloneCluster:
    """A cluster that is not started yet."""
    try:
        return StandaloneCluster(folder)
    except JavaMissingError as missing:
        pytest.skip(str(missing))


def test_on_a_cluster(environment_archive: Path, tmp_path: Path) -> None:
    """A163: output and state are those of the embedded engine, though a Python of an executor is killed on the way."""
    with cluster_in(tmp_path / "cluster") as cluster:
        environment = {"DOOMED_MASTER": cluster.url, "DOOMED_ARCHIVE": str(environment_archive)}
        doomed = Doomed(tmp_path, batches(5, 60), environment, pause=0.05)
        process = doomed.start()
        doomed.await_commits(2, process)
        pythons = [pid for number in (0, 1) for pid in cluster.pythons(number)]
        assert process.poll() is None, doomed.log.read_text()[-4000:]
        assert [len(cluster.executors(number)) for number in (0, 1)] == [1, 1]
        assert pythons
        assert all(b"environment/bin/python" in command(pid) for pid in pythons)
        os.kill(pythons[-1], 9)
        assert doomed.finish(process), doomed.log.read_text()[-4000:]
    doomed.check()


@long_only
def test_executors_without_this_package_are_named_at_once(tmp_path: Path) -> None:
    """By a Python that has nothing but its own library."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    with cluster_in(tmp_path / "cluster") as cluster:
        bare = str(tmp_path / "bare" / "bin" / "python")
        doomed = Doomed(tmp_path, batches(1, 6), {"DOOMED_MASTER": cluster.url, "PYSPARK_PYTHON": bare})
        assert not doomed.finish(doomed.start())
    log = doomed.log.read_text()
    missing = "'evercurrent', 'polars', 'pyarrow', 'numpy' are not installed in"
    assert f"{missing} {bare}, Python " in log, log[-4000:]
    assert "(2 of 2 executors, on " in log
    assert not list((tmp_path / "checkpoint").glob("probes/*"))
    assert "ModuleNotFoundError" not in log


@long_only
@pytest.mark.parametrize("app", ["retail", "visits"])
def test_applications_by_the_command(app: str, environment_archive: Path, tmp_path: Path) -> None:
    """A163: the files that the command leaves are those of the embedded one."""
    arguments = ["run", app]
    if app == "retail":
        orders = tmp_path / "orders.parquet"
        pl.concat(itertools.islice(orders_in_batches(600), 4)).write_parquet(orders)
        arguments += ["--input", f"orders={orders}", "--batch-rows", "600"]
    with cluster_in(tmp_path / "cluster") as cluster:
        evercurrent([*arguments, "--output", str(tmp_path / "here")], {})
        evercurrent(
            [*arguments, "--output", str(tmp_path / "there"), "--on", "spark", "--master", cluster.url],
            {
                "PYSPARK_PYTHON": "./environment/bin/python",
                "PYSPARK_SUBMIT_ARGS": f"--archives {environment_archive}#environment pyspark-shell",
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
        )
    names = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "there").iterdir()) != []
    for name in names:
        own, other = (pl.read_parquet(tmp_path / folder / name) for folder in ("here", "there"))
        assert_frame_equal(own, other, check_row_order=False, check_exact=True)


def evercurrent(arguments: list[str], environment: dict[str, str]) -> None:
    """Run the command in a process of its own."""
    paths = {"PYTHONPATH": str(TESTS.parent / "src"), "POLARS_MAX_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "evercurrent", *arguments],
        env=os.environ | paths | environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
