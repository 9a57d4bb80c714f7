"""A query that ends with an error of this package leaves one entry of a few lines in Spark's log.

Spark's own entry has the Python traceback twice, each within a Java stack trace, and no setting shortens it. So its logger
is off from the moment at which a micro-batch fails until its query has ended.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

from evercurrent.core.data.errors import EvercurrentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MOST_LINES = 8
"""The most lines of an entry: of a function's traceback the last ones, where it raises."""

_guard = Lock()
_ending: dict[str, int] = {}
"""How many queries are ending, by the name of the logger that is off meanwhile."""


class ShortLog:
    """The entry of a query in Spark's log, if it ends with an error of this package.

    Under Spark Connect there is no log to write to."""

    def __init__(self) -> None:
        self._logger: str | None = None
        self._java: Any = None
        self._is_off = False

    def follow(self, query: StreamingQuery, spark: SparkSession) -> None:
        """Prepare for the end of a query, which has started."""
        untyped: Any = query
        if hasattr(untyped, "_jsq"):
            untyped_spark: Any = spark
            self._java = untyped_spark._jvm.org.apache.logging.log4j
            self._logger = str(untyped._jsq.streamingQuery().getClass().getName())

    def failed(self, error: Exception, batch: int) -> None:
        """Write the entry, after which Spark writes none."""
        if self._logger is None or not isinstance(error, EvercurrentError):
            return
        lines = entry(error, batch)
        self._java.LogManager.getLogger("evercurrent").error("\n".join(lines))
        with _guard:
            _ending[self._logger] = _ending.get(self._logger, 0) + 1
            self._is_off = True
            self._set("OFF")

    def ended(self) -> None:
        """Let Spark write again, once the query has ended; may be called twice."""
        with _guard:
            if not self._is_off or self._logger is None:
                return
            self._is_off = False
            _ending[self._logger] -= 1
            if not _ending[self._logger]:
                self._set(None)

    def _set(self, level: str | None) -> None:
        """Set the level of Spark's logger; None: that of the loggers above it."""
        configured = self._java.core.config.Configurator
        configured.setLevel(self._logger, None if level is None else self._java.Level.valueOf(level))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, which has no log to write to."""
        return {"_logger": None, "_java": None, "_is_off": False}


def entry(error: Exception, batch: int) -> list[str]:
    """Return the lines of an entry.

    >>> entry(EvercurrentError("source 'hits': primary key 'ip' is null in row 3"), 7)
    ["micro-batch 7 ends its query: source 'hits': primary key 'ip' is null in row 3"]
    """
    first, *others = str(error).splitlines() or [type(error).__name__]
    notes = [line for note in getattr(error, "__notes__", ()) for line in note.splitlines()]
    return [f"micro-batch {batch} ends its query: {first}", *[*others, *notes][-(MOST_LINES - 1) :]]
