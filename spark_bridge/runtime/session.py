"""A Spark session on this machine or on a cluster, with settings for small micro-batches."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evercurrent.core.data.errors import EvercurrentError, PlanError
from evercurrent.core.data.release import install_command

from .file_managers import quick_file_manager
from .java import ensure_java, require_readable_folder
from .session_arguments import require_app_name, require_cluster, require_cores, require_settings
from .spark_versions import OLDEST, spark_version
from .worker_folder import worker_folder, worker_program
from .worker_sockets import delete_at_end, socket_settings

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
        **cluster_settings(),
        **quick_file_manager(),
        **socket_settings(worker_folder()),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.ui.enabled": "false",
    }


def cluster_settings() -> dict[str, str]:
    """Return the settings of a session on a cluster, by name: those of ``local_settings`` that do not depend on a machine."""
    return {
        **socket_settings(),
        # How long a worker and Spark wait for each other: on a busy machine the default of 15 seconds can be too short.
        "spark.python.authenticate.socketTimeout": "600s",
        "spark.python.worker.reuse": "true",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


ENVIRONMENT = "environment"
"""The folder in which executors find an unpacked archive."""


def session(
    app_name: str = "evercurrent",
    *,
    master: str | None = None,
    archive: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    **conf: Any,
) -> SparkSession:
    """Return a Spark session on a cluster, or the one that is running already. This process is its driver.

    ``archive`` is shipped to the executors, which run the Python in it: ``deploy.archive`` makes one; a url of a file that is
    in the cluster's storage serves too. Without it executors run the program that ``PYSPARK_PYTHON`` names, or this
    process's path of Python. Before the first micro-batch ``run`` checks that it fits.

    >>> from evercurrent import spark_bridge
    >>> from evercurrent.spark_bridge import deploy
    >>> archive = deploy.archive("environment.tar.gz")  # doctest: +SKIP
    >>> spark = spark_bridge.session(master="spark://host:7077", archive=archive)  # doctest: +SKIP

    Args:
        app_name: the name of the application, as Spark shows it.
        master: the cluster: "spark://host:7077", "yarn", "k8s://..."; by default that of Spark's own configuration.
        archive: a .tar.gz or .tgz with ``bin/python`` in it.
        settings: Spark's settings, which override ``cluster_settings``; keywords are settings, too.

    Raises:
        SparkMissingError: pyspark is not installed.
        JavaMissingError: there is no Java on which Spark runs.
        PlanError: there is no such archive, or no use for one; or an argument is not valid.
    """
    require_app_name(app_name)
    require_cluster(master, archive)
    require_settings("session", settings, conf)
    require_spark()
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    chosen = {**cluster_settings(), **_shipped(master, archive), **(settings or {}), **conf}
    ensure_java()
    require_readable_folder()
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in chosen.items():
        builder = builder.config(name, _setting(value))
    # Read from the environment when the session starts.
    with _python_of_workers(sys.executable if archive is None else f"./{ENVIRONMENT}/bin/python", archive):
        started = builder.getOrCreate()
    delete_at_end(started)
    return started


def _shipped(master: str | None, archive: str | Path | None) -> dict[str, str]:
    """Return the settings that ship an archive.

    Raises:
        PlanError: there is no such archive, or executors are this process.
    """
    if archive is None:
        return {}
    if is_local(master):
        raise PlanError(f"archive={str(archive)!r}: on {master} executors are this process; leave it out")
    if "://" not in str(archive) and not Path(archive).is_file():
        raise PlanError(
            f"archive={str(archive)!r} is not a file; write it with spark_bridge.deploy.archive({str(archive)!r})"
        )
    where = str(archive) if "://" in str(archive) else str(Path(archive).absolute())
    return {"spark.archives": f"{where}#{ENVIRONMENT}"}


def is_local(master: str | None) -> bool:
    """Return whether executors of this master are the driver's own process.

    >>> is_local("local[2]"), is_local("spark://host:7077"), is_local("local-cluster[2,1,1024]")
    (True, False, False)
    """
    return master is not None and (master == "local" or master.startswith("local["))


@contextmanager
def _python_of_workers(program: str, archive: str | Path | None) -> Iterator[None]:
    """Set the program that executors run, unless the user has; that of an archive is set in any case."""
    before = os.environ.get("PYSPARK_PYTHON")
    if archive is None and before is not None:
        yield
        return
    os.environ["PYSPARK_PYTHON"] = program
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYSPARK_PYTHON"]
        else:
            os.environ["PYSPARK_PYTHON"] = before


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

    >>> from evercurrent import spark_bridge
    >>> spark = spark_bridge.local_session(cores=1)  # doctest: +SKIP
    >>> spark.range(3).count()  # doctest: +SKIP

    Raises:
        SparkMissingError: pyspark is not installed.
        JavaMissingError: there is no Java on which Spark runs.
        PlanError: an argument is not valid.
    """
    require_app_name(app_name)
    require_cores(cores)
    require_settings("local_session", settings, conf)
    require_spark()
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    ensure_java()
    require_readable_folder()
    builder = SparkSession.builder.master(f"local[{cores}]").appName(app_name)
    for name, value in {**local_settings(cores), **(settings or {}), **conf}.items():
        builder = builder.config(name, _setting(value))
    with patient_workers():
        started = builder.getOrCreate()
    delete_at_end(started)
    return started


@contextmanager
def patient_workers() -> Iterator[None]:
    """Make a session that starts within the context wait for its workers without a limit: see ``early_worker``.

    Workers run this Python, unless ``PYSPARK_PYTHON`` names another, which is then used unchanged.
    """
    # Read from the environment when the session starts; without it workers run the first python3 on the PATH.
    if os.environ.setdefault("PYSPARK_PYTHON", sys.executable) != sys.executable:
        yield
        return
    os.environ["PYSPARK_PYTHON"] = worker_program()
    try:
        yield
    finally:
        os.environ["PYSPARK_PYTHON"] = sys.executable


def is_stopped(spark: SparkSession) -> bool:
    """Return whether a session was stopped, by which its Java is gone."""
    if hasattr(spark, "_jsc"):
        return spark.sparkContext._jsc is None
    return bool(getattr(spark, "is_stopped", False))


def _setting(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
