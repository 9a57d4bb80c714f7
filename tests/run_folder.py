"""The folder of a run: what tests and the processes that they start put into the machine's temporary folder, which ends with the run.

It is below that folder, not in the checkout, whose settings of tools would hold for what is in there; where the machine has
memory to spare, it is in memory (``place``). Its name has the number of the process that runs the tests: the next run from this
checkout removes what one has left that was killed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from zlib import crc32

ROOT = Path(__file__).resolve().parent.parent
PREFIX = f"ec-{crc32(bytes(ROOT)):08x}-"  # Short: the path of a socket has room for a hundred characters.
IN_A_RUN = re.compile(rb"(^|\0)TMPDIR=[^\0]*/ec-[0-9a-f]{8}-")
"""In the environment of each process that a run has started, from whatever checkout."""

OF_PYTEST = "pytest-of-*"
"""The folders that pytest gives to tests; it retains those of tests that failed."""

UNVERIFIED = "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""The classes of Spark are as its compiler made them: to verify them again is a fifth of the processor time of its start."""

CODE = "-XX:ReservedCodeCacheSize=240m"
"""With one compiler there is a fifth of that, of which a thread looks for what can be thrown away while Spark still needs it."""

IN_MEMORY = Path("/dev/shm")
"""A folder of Linux whose files are nowhere else."""

ROOM = 6 * 2**30
"""Bytes: a run has up to three gigabytes of files, as each Spark of a cluster has a copy of this environment."""

PATIENCE = 20.0
"""Seconds that processes have to end after the tests."""


def java_options(folder: Path | str) -> str:
    """What a Java is started with that leaves nothing outside of this folder, also where it is killed, and that starts soon.

    >>> java_options("/tmp/x").split()[:2]
    ['-Djava.io.tmpdir=/tmp/x', '-XX:-UsePerfData']
    """
    return f"-Djava.io.tmpdir={folder} -XX:-UsePerfData {CODE} {UNVERIFIED}"


def variables(folder: Path | str) -> Mapping[str, str]:
    """The environment of processes that leave nothing outside of this folder: Java minds no ``TMPDIR``."""
    return {
        "TMPDIR": str(folder),
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_SUBMIT_OPTS": java_options(folder),
        # Of the Java that only prints how the next one is started.
        "SPARK_LAUNCHER_OPTS": f"{java_options(folder)} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }


def place() -> Path:
    """Where the folder of a run is: in memory, as the many small files of stores take a tenth less processor time there.

    On the disk it is where ``TMPDIR`` is set, in the long profile, where memory is short, and where programs may not be
    started in memory.
    """
    on_disk = Path(tempfile.gettempdir())
    if "TMPDIR" in os.environ or os.environ.get("EVERCURRENT_TEST_PROFILE") == "long":
        return on_disk
    return IN_MEMORY if has_room(IN_MEMORY) and free_memory() > 2 * ROOM else on_disk


def has_room(folder: Path) -> bool:
    """Whether there is such a folder for the files of a run, programs among them."""
    try:
        system = os.statvfs(folder)
    except (AttributeError, OSError):
        return False
    allows = os.access(folder, os.W_OK | os.X_OK) and not system.f_flag & getattr(os, "ST_NOEXEC", 0)
    return allows and system.f_bavail * system.f_frsize > ROOM


def free_memory() -> int:
    """How many bytes of memory processes could have now; none where Linux does not report it."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def begin() -> Path:
    """Make the folder of this run, for this process and those that it starts; remove those of runs that are over."""
    chosen = place()
    for earlier in [
        each for where in {chosen, Path(tempfile.gettempdir())} for each in where.glob(f"{PREFIX}*")
    ]:
        if not runs(int(earlier.name.removeprefix(PREFIX).partition("-")[0])):
            shutil.rmtree(earlier, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=chosen))
    folder.chmod(0o711)  # Some tests are somebody else for a while.
    os.environ.update(variables(folder))
    tempfile.tempdir = None  # Read from the environment when it is needed next.
    return folder


def end(folder: Path, *, passed: bool) -> None:
    """Remove the folder of this run, all but what pytest retains of tests that failed, once its processes have ended."""
    deadline = time.monotonic() + PATIENCE
    while (processes := list(started_in(folder))) and time.monotonic() < deadline:
        time.sleep(0.05)
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    retained = set() if passed else set(folder.glob(OF_PYTEST))
    for path in set(folder.iterdir()) - retained:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def started_in(folder: Path) -> Iterator[int]:
    """The processes whose temporary folder this is, on Linux."""
    variable = f"TMPDIR={folder}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        # Those of others cannot be read, and some end meanwhile.
        with suppress(OSError):
            if variable in (process / "environ").read_bytes().split(b"\0"):
                yield int(process.name)


def runs(process: int) -> bool:
    """Whether there is such a process.

    >>> runs(os.getpid())
    True
    """
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
