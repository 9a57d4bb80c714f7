"""A Spark session on this machine, with settings for small micro-batches."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from evercurrent.core.data.errors import EvercurrentError
from evercurrent.core.data.release import install_command

from .early_worker import as_program
from .java import ensure_java
from .spark_versions import OLDEST, spark_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkMissingError(EvercurrentError, ImportError):
    """pyspark is not installed, or too old."""


def require_spark() -> None:
    """Check that pyspark can be imported, and is not too old.

    Raises:
        SparkMissingError: it cannot, or it is; names what to install.
    """
    try:
        version = spark_version()
    except ImportError as error:
        raise SparkMissingError(
            f"views inside Spark need pyspark ({error}); install it: {install_command('spark')}"
        ) from error
    if tuple(map(int, version.split(".")[:2])) < OLDEST:
        raise SparkMissingError(
            f"views inside Spark need PySpark {'.'.join(map(str, OLDEST))} or newer, and this is {version}; install one: "
            f"{install_command('spark')}"
        )


def local_settings(cores: int = 2) -> dict[str, str]:
    """Return the settings of a local session, by name.

    Each was measured on micro-batches of a few thousand rows: adaptive planning costs 50 ms a job without a benefit, the
    second compiler of the JVM never pays off, and a micro-batch without data would be an empty epoch.
    """
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.log.level": "ERROR",
        # How long a worker and Spark wait for each other: on a busy machine the default of 15 seconds can be too short.
        "spark.python.authenticate.socketTimeout": "600s",
        "spark.python.worker.reuse": "true",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def local_session(
    app_name: str = "evercurrent",
    *,
    cores: int = 2,
    settings: Mapping[str, Any] | None = None,
    **conf: Any,
) -> SparkSession:
    """Return a Spark session in this process, on this many cores, or the one that is running already.

    ``settings`` (or keywords: ``**{"spark.ui.enabled": True}``) override ``local_settings``. ``ensure_java`` finds a Java
    first; workers run this Python unless ``PYSPARK_PYTHON`` names another. Starting takes some 5 seconds.

    Raises:
        SparkMissingError: pyspark is not installed.
        JavaMissingError: there is no Java on which Spark runs.
    """
    require_spark()
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    ensure_java()
    builder = SparkSession.builder.master(f"local[{cores}]").appName(app_name)
    for name, value in {**local_settings(cores), **(settings or {}), **conf}.items():
        builder = builder.config(name, _setting(value))
    with patient_workers():
        return builder.getOrCreate()


@contextmanager
def patient_workers() -> Iterator[None]:
    """Make a session that starts within the context wait for its workers as long as they take: see ``early_worker``.

    Workers run this Python, unless ``PYSPARK_PYTHON`` names another, which is then used unchanged.
    """
    # Read from the environment when the session starts; without it workers run the first python3 on the PATH.
    if os.environ.setdefault("PYSPARK_PYTHON", sys.executable) != sys.executable:
        yield
        return
    folder = tempfile.mkdtemp(prefix="evercurrent-python-")
    # It is deleted when this process ends, as Java may start workers until then.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["PYSPARK_PYTHON"] = as_program(folder)
    try:
        yield
    finally:
        os.environ["PYSPARK_PYTHON"] = sys.executable


def _setting(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
