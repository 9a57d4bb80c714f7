"""The place of Spark's own checkpoint, inside of ours: Spark reaches it by Hadoop, whose names of stores differ from fsspec's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evercurrent.core.data.errors import CheckpointError

from .offset_log import FOLDER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OTHER_NAMES = {"s3": "s3a", "gcs": "gs"}
"""The scheme of Hadoop's own file system, by that of fsspec, where a platform has not set one for the same scheme."""

MISSING = ("UnsupportedFileSystemException", "ClassNotFoundException")
"""The exceptions of Hadoop if a scheme has no file system, or one whose package is missing, by their classes in Java."""

PACKAGES = {"s3a": "org.apache.hadoop:hadoop-aws"}
"""The packages of Java that have a file system."""


def location_in_spark(spark: SparkSession, url: str, name: str = FOLDER) -> str:
    """Return the folder or url of Spark's own checkpoint, the one of this name in that of a store.

    Raises:
        CheckpointError: Spark has no file system for it; names the package that has one.
    """
    folder = f"{url.rstrip('/')}/{name}"
    untyped: Any = spark
    # Under Spark Connect the server's Hadoop is not seen from here.
    if "://" not in url or not hasattr(untyped, "_jsc"):
        return folder
    scheme, _, rest = folder.partition("://")
    for other in (scheme, OTHER_NAMES.get(scheme)):
        if other is not None and _has_file_system(untyped, other):
            return f"{other}://{rest}"
    own = OTHER_NAMES.get(scheme, scheme)
    package = PACKAGES.get(own)
    settings = f"spark.jars.packages={package}:VERSION, that of Spark's Hadoop, or " if package else ""
    raise CheckpointError(
        f"checkpoint {url}: Spark's own checkpoint is put there too, and Spark has no file system for {own}://; start the session "
        f"with {settings}spark.hadoop.fs.{scheme}.impl, or choose a folder that all machines share"
    )


def _has_file_system(spark: Any, scheme: str) -> bool:
    hadoop = spark._jvm.org.apache.hadoop.fs.FileSystem
    try:
        hadoop.getFileSystemClass(scheme, spark._jsc.hadoopConfiguration())
    except Exception as error:  # Py4J's, which is no library of ours.
        if not any(name in str(error) for name in MISSING):
            raise
        return False
    return True
