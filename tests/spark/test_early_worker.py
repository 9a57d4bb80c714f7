"""Spark waits 10 seconds for a worker that it starts by itself: so the worker connects first, and imports then."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from evercurrent.spark_bridge.runtime.early_worker import PORT, SECRET, SOCKET, as_program
from evercurrent.spark_bridge.runtime.session import patient_workers
from evercurrent.spark_bridge.runtime.spark_versions import version_numbers
from evercurrent.spark_bridge.runtime.worker_sockets import FIRST

SLOW = """
import time
from pathlib import Path

for _ in range(6000):
    if Path("go").exists():
        break
    time.sleep(0.05)

try:
    from pyspark.worker_util import get_sock_file_to_executor

    with get_sock_file_to_executor(timeout=None) as file:
        file.write(b"here")
except ImportError:  # as workers of PySpark 4.0 and 4.1 do it
    import os
    from pyspark.serializers import write_int
    from pyspark.util import local_connect_and_auth

    place = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH") or int(os.environ["PYTHON_WORKER_FACTORY_PORT"])
    (file, _) = local_connect_and_auth(place, os.environ.get("PYTHON_WORKER_FACTORY_SECRET"))
    write_int(os.getpid(), file)
    file.write(b"here")
    file.close()
"""

SOON = 300.0
"""Seconds after which something hangs, however busy the machine is."""


@pytest.mark.parametrize("family", ["tcp", "unix"])
def test_a_worker_connects_before_it_imports_what_takes_long(
    family: str, tmp_path: Path, socket_path: str
) -> None:
    pytest.importorskip("pyspark")
    if family == "unix" and version_numbers() < FIRST:
        pytest.skip("a Spark without such sockets")
    (tmp_path / "slow.py").write_text(SLOW)
    with _server(family, socket_path) as server:
        server.settimeout(SOON)
        if family == "tcp":
            variables = {PORT: str(server.getsockname()[1]), SECRET: "secret", "SPARK_PREFER_IPV6": "false"}
        else:
            variables = {SOCKET: socket_path}
        command = [as_program(str(tmp_path)), "-m", "slow"]
        worker = subprocess.Popen(command, cwd=tmp_path, env=os.environ | variables)
        try:
            connection, _ = server.accept()
            connection.settimeout(SOON)
            with connection, connection.makefile("rwb") as file:
                if family == "tcp":
                    assert file.read(4 + len("secret")) == b"\0\0\0\x06secret"
                    file.write(b"\0\0\0\x02ok")
                    file.flush()
                (tmp_path / "go").touch()
                assert int.from_bytes(file.read(4), "big") == worker.pid
                assert file.read() == b"here"
            assert worker.wait(SOON) == 0
        finally:
            worker.kill()
            worker.wait()


def _server(family: str, path: str) -> socket.socket:
    if family == "tcp":
        return socket.create_server(("127.0.0.1", 0))
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    return server


def test_whatever_is_no_such_worker_is_run_as_it_is(tmp_path: Path) -> None:
    program = as_program(str(tmp_path))
    for environment in (dict(os.environ), os.environ | {PORT: "1"}):
        command = [program, "-c", "import sys; print(sys.executable)"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SOON)
        assert done.stdout.split() == [sys.executable], done.stderr


def test_workers_import_the_package_and_not_the_archive_of_its_sources(tmp_path: Path) -> None:
    """Which each process would compile anew; of the path all else stays, and so does a Spark that is somewhere else."""
    package = Path(pytest.importorskip("pyspark").__file__).parent
    program = as_program(str(tmp_path))
    show = "import os, pyspark; print(os.environ['PYTHONPATH'], pyspark.__file__)"

    def started_with(*folders: Path | str) -> tuple[list[str], Path]:
        path = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))}
        done = subprocess.run([program, "-c", show], env=path, capture_output=True, text=True, check=True)
        left, found = done.stdout.split()
        return left.split(os.pathsep), Path(found)

    archives = (
        package / "python" / "lib" / "pyspark.zip",
        *(package / "python" / "lib").glob("py4j-*-src.zip"),
    )
    assert len(archives) == 2
    end, own = str(package.parent), package / "__init__.py"
    assert started_with(*archives, "/own") == (["/own", end], own)
    assert started_with("/own", *archives, "/jar", *archives, "/too") == (["/own", "/jar", "/too", end], own)
    elsewhere = ("/spark/python/lib/pyspark.zip", "/spark/python/lib/py4j-1-src.zip", "/own")
    assert started_with(*elsewhere) == (list(elsewhere), own)


def test_a_python_that_somebody_has_named_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/another")
    with patient_workers():
        assert os.environ["PYSPARK_PYTHON"] == "/usr/bin/another"
    monkeypatch.delenv("PYSPARK_PYTHON")
    with patient_workers():
        program = Path(os.environ["PYSPARK_PYTHON"])
        assert program.name == "python"
        assert "early_worker" in program.read_text()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
