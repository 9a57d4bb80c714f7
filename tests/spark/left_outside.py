"""What a Spark has left in the machine's temporary folder, outside of the folder of the run, though it was killed."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from run_folder import IN_A_RUN
from spark.standalone import command

OF_JAVA = Path("/tmp")
"""The temporary folder of a Java on Linux, unless an option names another."""

OF_SPARK = re.compile(
    r"(spark-|artifacts-|blockmgr-|snappy-|liblz4-|libzstd|librocksdb|evercurrent-(java|python)-).*"
)
"""Names that Spark, what it loads, and we give to what is temporary."""


def left_there() -> set[Path]:
    """What there is of any Spark."""
    return {path for path in OF_JAVA.iterdir() if OF_SPARK.fullmatch(path.name)}


def left_since(before: set[Path]) -> set[Path]:
    """What has come since, unless there is a Spark that no tests have started: then it is unknown whose it is."""
    return set() if of_others() else left_there() - before


def of_others() -> list[int]:
    """The processes of Spark that no tests have started, on Linux."""
    processes = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    return [
        process
        for process in processes
        if b"org.apache.spark" in command(process) and not IN_A_RUN.search(environment(process))
    ]


def environment(process: int) -> bytes:
    """The environment with which a process was started; empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{process}/environ").read_bytes()
    return b""
