"""The Java process in which Spark runs may end beneath a query, as where it lacks memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evercurrent.core.data.errors import EvercurrentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkEndedError(EvercurrentError, ConnectionError):
    """The Java process in which Spark runs has ended beneath a query; it names what is left, and how to go on."""


def has_ended(session: SparkSession) -> bool:
    """Return whether the Java process of a session has ended; False under Spark Connect, where it belongs to a server."""
    context = getattr(session, "_sc", None)
    if context is None:
        return False
    try:
        context._jvm.java.lang.System.nanoTime()
    except Exception:  # Py4J's, which is no library of ours. Nothing else can fail there.
        return True
    return False


def ended(where: str) -> SparkEndedError:
    """Return the error of a query whose Java process has ended, with the place of its checkpoint."""
    return SparkEndedError(
        f"the Java process in which Spark runs has ended, killed or out of memory (spark.driver.memory), and with it the query. {where} "
        "has all epochs that were committed: start the program again, and the query goes on there"
    )
