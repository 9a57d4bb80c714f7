"""A standalone cluster of Spark on this machine: a master and workers, each a process, that listen on loopback only.

    with StandaloneCluster(tmp_path) as cluster:
        spark = session(master=cluster.url)

It is started by ``bin/spark-class`` of pyspark, which is all that a cluster needs. Ports are free ones of this machine.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from evercurrent.spark_bridge.runtime.java import ensure_java
from run_folder import java_options

LOOPBACK = "127.0.0.1"
PATIENCE = 60.0
"""Seconds that a process of the cluster may take to start."""
RECOVERY = 20
"""Seconds after which a new master gives up applications and workers that do not answer; 60 by Spark's default."""


class StandaloneCluster:
    """A master and workers of some cores each, from ``__enter__`` to ``__exit__``. Each has a log in the folder."""

    def __init__(self, folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "1g") -> None:
        ensure_java()
        import pyspark

        self.home = Path(pyspark.__file__).parent
        self.folder = folder
        self.url = ""
        self.master: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self._count, self._cores, self._memory = workers, cores, memory
        self._port = 0
        self._logs: list[IO[bytes]] = []
        self._options = f"{LIGHT} {java_options(folder)}"

    def __enter__(self) -> StandaloneCluster:
        """Start all processes, and return once every worker is registered."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self.start_master()
            for _ in range(self._count):
                self.begin_worker()
            for number in range(self._count):
                self.await_worker(number)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all processes."""
        self.stop()

    def start_master(self) -> None:
        """Start the master, again on the same port if it was killed: it then recovers its applications from its folder."""
        log = self.folder / "master.log"
        begun = log.stat().st_size if log.exists() else 0
        self.master = self._started(
            log,
            "org.apache.spark.deploy.master.Master", "--host", LOOPBACK, "--port", str(self._port), "--webui-port", "0",
            SPARK_DAEMON_JAVA_OPTS=f"{self._options} -Dspark.deploy.recoveryMode=FILESYSTEM "
            f"-Dspark.deploy.recoveryTimeout={RECOVERY} "
            f"-Dspark.deploy.recoveryDirectory={self.folder / 'recovery'}",
        )  # fmt: skip
        found = self._awaited(self.master, log, rb"Starting Spark master at (spark://[\d.]+:(\d+))", begun)
        self.url, self._port = found[1].decode(), int(found[2])
        # With a state to recover it is alive when workers and applications have answered, or were given up.
        self._awaited(self.master, log, rb"New state: ALIVE|Recovery complete", begun)

    def start_worker(self) -> int:
        """Start a further worker, and return its number once it is registered."""
        number = self.begin_worker()
        self.await_worker(number)
        return number

    def await_worker(self, number: int) -> None:
        """Return once a worker is registered."""
        log = self.folder / f"worker{number}.log"
        self._awaited(self.workers[number], log, rb"Successfully registered with master", 0)

    def begin_worker(self) -> int:
        """Start a further worker, and return its number at once."""
        number = len(self.workers)
        log = self.folder / f"worker{number}.log"
        worker = self._started(
            log,
            "org.apache.spark.deploy.worker.Worker", "--host", LOOPBACK, "--webui-port", "0",
            "--cores", str(self._cores), "--memory", self._memory,
            "--work-dir", str(self.folder / f"work{number}"), self.url,
            SPARK_DAEMON_JAVA_OPTS=self._options,
        )  # fmt: skip
        self.workers.append(worker)
        return number

    def kill_master(self) -> None:
        """Kill the master; its workers and applications go on, and register with the next one."""
        assert self.master is not None, "there is a master"
        _kill(self.master)

    def kill_worker(self, number: int) -> None:
        """Kill a worker with the executors that it has started."""
        for pid in [self.workers[number].pid, *descendants(self.workers[number].pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.workers[number].wait()

    def executors(self, number: int) -> list[int]:
        """Return the processes of the executors that a worker has started."""
        return [
            pid for pid in descendants(self.workers[number].pid) if b"CoarseGrainedExecutor" in command(pid)
        ]

    def pythons(self, number: int) -> list[int]:
        """Return the Python processes of a worker's executors."""
        return [pid for pid in descendants(self.workers[number].pid) if b"pyspark.daemon" in command(pid)]

    def stop(self) -> None:
        """End all processes of the cluster. Executors end with their workers."""
        for number, worker in enumerate(self.workers):
            if worker.poll() is None:
                self.kill_worker(number)
        if self.master is not None and self.master.poll() is None:
            _kill(self.master)
        for log in self._logs:
            log.close()

    def _started(self, log: Path, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        file = log.open("ab")
        self._logs.append(file)
        given = {
            **{
                name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))
            },
            "SPARK_HOME": str(self.home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_LOCAL_DIRS": str(self.folder),
            "SPARK_LAUNCHER_OPTS": self._options,
            **environment,
        }
        # Neither this project nor its packages are on the path of the cluster: executors get what is shipped to them.
        given.pop("PYTHONPATH", None)
        return subprocess.Popen(
            [str(self.home / "bin" / "spark-class"), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=given,
            start_new_session=True,
        )

    def _awaited(
        self, process: subprocess.Popen[bytes], log: Path, pattern: bytes, begun: int
    ) -> re.Match[bytes]:
        given_up = time.monotonic() + PATIENCE
        while True:
            text = log.read_bytes()[begun:]
            if found := re.search(pattern, text):
                return found
            if process.poll() is not None or time.monotonic() > given_up:
                raise RuntimeError(f"{log} has no {pattern!r}: {text[-2000:].decode(errors='replace')}")
            time.sleep(0.05)


LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a Java that starts soon and does little."""


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, directly or not, on Linux."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # The name of the program, in brackets, may have spaces and brackets.
            parent = int((folder / "stat").read_bytes().rpartition(b")")[2].split()[1])
            parents.setdefault(parent, []).append(int(folder.name))
    below: list[int] = []
    waiting = [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        below += children
        waiting += children
    return below


def command(pid: int) -> bytes:
    """Return the command line of a process; empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    return b""


def _kill(process: subprocess.Popen[Any]) -> None:
    process.kill()
    process.wait()
