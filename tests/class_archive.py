"""The archive of Spark's classes: a Java maps it instead of reading them from jars, and starts in two thirds of the processor time.

A run starts dozens of Javas. The first run of an environment makes the archive, out of the classes that the session of all tests has
loaded when it ends; all later ones use it. A Java that it does not fit ignores it, as does one whose class path is another.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from zlib import crc32

PREFIX = "spark-classes-"
SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Java lists the classes that it leaves out."""


def place() -> Path | None:
    """Where it is, or would be: in the virtual environment, by the versions of Spark and of Java. None if there is none of these."""
    java = program()
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        return None
    if java is None or sys.prefix == sys.base_prefix:
        return None
    made = f"{java} {java.stat().st_mtime_ns}".encode()
    return Path(sys.prefix) / f"{PREFIX}{spark}-{crc32(made):08x}.jsa"


def program() -> Path | None:
    """The Java of this process, through links."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    return None if found is None else Path(found).resolve()


def options() -> str:
    """What a Java is started with that uses it, where it is there.

    >>> options() == "" or options().startswith("-XX:SharedArchiveFile=")
    True
    """
    archive = place()
    return f"-XX:SharedArchiveFile={archive} {SILENT}" if archive is not None and archive.is_file() else ""


@contextmanager
def noted() -> Iterator[Path | None]:
    """Let a Java that is started in the context note its classes, and yield the file to which it writes them when it ends.

    None where the archive is there already, or cannot be.
    """
    archive = place()
    if archive is None or archive.is_file() or not os.access(archive.parent, os.W_OK):
        yield None
        return
    classes = archive.with_suffix(f".{os.getpid()}")
    given = os.environ.get("SPARK_SUBMIT_OPTS")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{given or ''} -XX:ArchiveClassesAtExit={classes} {SILENT}"
    try:
        yield classes
    finally:
        if given is None:
            del os.environ["SPARK_SUBMIT_OPTS"]
        else:
            os.environ["SPARK_SUBMIT_OPTS"] = given


def take(classes: Path | None, *, ended: int | None) -> None:
    """Make what a Java has written the archive, if it has ended well: it has its name once it is whole. It replaces those of other versions."""
    archive = place()
    if archive is None or classes is None or not classes.is_file():
        return
    if ended != 0 or not is_sound(classes):
        classes.unlink()
        return
    for earlier in archive.parent.glob(f"{PREFIX}*.jsa"):
        earlier.unlink(missing_ok=True)
    classes.rename(archive)


def is_sound(classes: Path) -> bool:
    """Whether a Java runs with it: one that is cut off, as by a full disk, ends every Java at its start."""
    java = program()
    leaves_nothing = ("-XX:ErrorFile=/dev/null", "-XX:-CreateCoredumpOnCrash")
    words = [f"-XX:SharedArchiveFile={classes}", *SILENT.split(), *leaves_nothing, "-version"]
    return java is not None and subprocess.run([java, *words], capture_output=True).returncode == 0
