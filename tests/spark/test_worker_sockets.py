"""Java and workers exchange bytes by Unix domain sockets, in folders whose paths are short enough."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from evercurrent.spark_bridge.runtime import worker_sockets
from evercurrent.spark_bridge.runtime.session import cluster_settings, local_session, local_settings, session
from evercurrent.spark_bridge.runtime.spark_versions import version_numbers
from evercurrent.spark_bridge.runtime.worker_folder import delete, delete_left, worker_folder
from evercurrent.spark_bridge.runtime.worker_sockets import FIRST, LONGEST, delete_socket, socket_settings

pytest.importorskip("pyspark")
if version_numbers() < FIRST:
    pytest.skip("a Spark without such sockets", allow_module_level=True)
ENABLED, FOLDER = "spark.python.unix.domain.socket.enabled", "spark.python.unix.domain.socket.dir"


def families() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that yields how the daemon of its worker listens, pickled with its code."""

    def in_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        import pyarrow as pa

        for _ in batches:
            folder = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_DIR", "by TCP")
            yield pa.RecordBatch.from_arrays([pa.array([folder])], ["folder"])

    return in_worker


def test_workers_of_a_local_session_use_the_folder_of_its_process(spark: Any) -> None:
    rows = spark.range(0, 2, 1, 2).mapInArrow(families(), "folder string").toArrow()
    assert rows.column("folder").unique().to_pylist() == [worker_folder()]


def test_a_folder_with_a_long_path_gives_way_to_that_of_every_unix(spark: Any) -> None:
    longest = "/" + "é" * ((LONGEST - 2) // 2)
    assert socket_settings(longest) == {ENABLED: "true", FOLDER: longest}
    assert socket_settings(longest + "/é") == {ENABLED: "true", FOLDER: "/tmp"}
    # Spark refuses a folder that is longer, by a limit of its own.
    entry = getattr(spark._jvm.org.apache.spark.internal.config, "Python$")
    entry = getattr(entry, "MODULE$").PYTHON_UNIX_DOMAIN_SOCKET_DIR()
    conf = spark._jvm.org.apache.spark.SparkConf(False)
    conf.set(FOLDER, "/" * LONGEST).get(entry)
    with pytest.raises(Exception, match=str(LONGEST)):
        conf.set(FOLDER, "/" * (LONGEST + 1)).get(entry)


def test_executors_elsewhere_have_them_in_the_folder_of_every_unix() -> None:
    assert cluster_settings().items() >= {ENABLED: "true", FOLDER: "/tmp"}.items()
    assert local_settings().items() >= {ENABLED: "true", FOLDER: worker_folder()}.items()


@pytest.mark.parametrize(("name", "version"), [("posix", "4.0.5"), ("nt", "4.3.0")])
def test_a_spark_and_a_system_without_them_stay_as_they_are(
    name: str, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evercurrent.spark_bridge.runtime.spark_versions.spark_version", lambda: version)
    monkeypatch.setattr(worker_sockets, "os", type("System", (), {"name": name, "fsencode": os.fsencode}))
    assert socket_settings() == {}


OWNER = """
from evercurrent.spark_bridge.runtime.worker_folder import worker_folder

print(worker_folder(), flush=True)
input()
"""


def test_the_folder_is_locked_while_its_process_lives_and_deleted_at_its_end() -> None:
    """Services that delete old temporary files leave out what is locked."""
    fcntl = pytest.importorskip("fcntl")
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        held = os.open(folder, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        owner.communicate("\n", timeout=300)
    assert owner.returncode == 0
    os.close(held)
    assert not folder.exists()


def test_a_process_that_was_killed_leaves_its_folder_to_the_next_one(tmp_path: Path) -> None:
    """The folder of a process that lives, and one that is too new to be locked yet, are left alone."""
    pytest.importorskip("fcntl")
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    killed, lives = (
        subprocess.Popen(
            [sys.executable, "-c", OWNER],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )
        for _ in range(2)
    )  # fmt: skip
    with killed, lives:
        assert killed.stdout is not None
        assert lives.stdout is not None
        folders = [Path(process.stdout.readline().strip()) for process in (killed, lives)]
        killed.kill()
        killed.wait(timeout=300)
        delete_left(tmp_path)
        assert all(folder.is_dir() for folder in folders)
        for folder in folders:
            os.utime(folder, (0, 0))
        delete_left(tmp_path)
        assert [folder.is_dir() for folder in folders] == [False, True]
        lives.communicate("\n", timeout=300)
    assert not list(tmp_path.iterdir())


def test_a_fork_that_ends_leaves_the_folder_to_its_owner(tmp_path: Path) -> None:
    delete(str(tmp_path), os.getpid() + 1)
    assert tmp_path.is_dir()
    delete(str(tmp_path), os.getpid())
    assert not tmp_path.exists()


WITHOUT_STOP = """
import sys
from types import SimpleNamespace
from pyspark.accumulators import AccumulatorUnixServer, UpdateRequestHandler
from evercurrent.spark_bridge.runtime.worker_sockets import delete_at_end

server = AccumulatorUnixServer(sys.argv[1], UpdateRequestHandler)
delete_at_end(SimpleNamespace(_jsc=None, sparkContext=SimpleNamespace(_accumulatorServer=server)))
print("listening", flush=True)
input()
"""


def test_a_program_that_does_not_stop_its_session_leaves_no_socket(spark: Any, socket_path: str) -> None:
    """Each process would leave one, in ``/tmp`` if its own folder has a long path."""
    own = spark.sparkContext._accumulatorServer.server_address
    assert Path(own).is_socket()
    assert str(Path(own).parent) == worker_folder()
    with subprocess.Popen(
        [sys.executable, "-c", WITHOUT_STOP, socket_path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        assert program.stdout is not None
        program.stdout.readline()
        assert Path(socket_path).is_socket()
        program.communicate("\n", timeout=300)
    assert program.returncode == 0
    assert not Path(socket_path).exists()


def test_a_fork_that_ends_leaves_the_socket_to_its_owner(tmp_path: Path) -> None:
    (tmp_path / "socket").touch()
    delete_socket(str(tmp_path / "socket"), os.getpid() + 1)
    assert (tmp_path / "socket").exists()
    delete_socket(str(tmp_path / "socket"), os.getpid())
    assert not (tmp_path / "socket").exists()


def test_each_session_that_starts_has_its_socket_deleted_at_the_end(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    monkeypatch.setattr("evercurrent.spark_bridge.runtime.session.delete_at_end", started.append)
    monkeypatch.setattr(type(spark), "getActiveSession", classmethod(lambda cls: None))
    monkeypatch.setattr(type(spark).Builder, "getOrCreate", lambda self: spark)
    assert local_session() is spark
    assert session(master="local[2]") is spark
    assert started == [spark, spark]
