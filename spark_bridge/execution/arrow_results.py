"""The rows of a DataFrame as an Arrow table, without a wait that never ends.

Spark's Java sends the rows through a socket of its own, on which it accepts one connection and waits 10 seconds for its secret.
If this process is late, as on a machine that is busy or was suspended, that thread of Java ends, and what PySpark waits for then,
the result of the thread, is never there: ``toArrow`` does not return. So the wait is limited here. Nothing has run in that case,
since the job begins after the secret, and it is tried again.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from evercurrent.core.data.errors import first_line

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

PATIENCE = "60 seconds"
"""How long Java has to end a job after its last row was read here, or after no row could be read."""

ATTEMPTS = 3
"""How often it is tried to connect to Java."""


class UnansweredError(ConnectionError):
    """Java waits for no connection any more, and has no result either."""


def arrow_table(rows: DataFrame) -> pa.Table:
    """Return all rows.

    Raises:
        UnansweredError: the connection to Java has failed several times.
    """
    untyped: Any = rows
    if not hasattr(untyped, "_jdf"):
        return rows.toArrow()  # Spark Connect has another way.
    for attempt in range(1, ATTEMPTS + 1):
        same = type(untyped)(_Answering(untyped._jdf, untyped.sparkSession), untyped.sparkSession)
        try:
            return same.toArrow()
        except UnansweredError:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


class _Answering:
    """The DataFrame of Java, whose jobs end in a limited time after their last row; otherwise as it is."""

    def __init__(self, java: Any, session: Any) -> None:
        self._java = java
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._java, name)

    def collectAsArrowToPython(self) -> tuple[Any, Any, _Served]:  # noqa: N802 (PySpark's name)
        """Start to serve the rows: return the place and the secret of the socket, and the thread that serves them."""
        place, secret, server = self._java.collectAsArrowToPython()
        return place, secret, _Served(server, _patience(self._session.sparkContext, PATIENCE))


class _Served:
    """The thread of Java that sends rows."""

    def __init__(self, server: Any, patience: Any) -> None:
        self._server = server
        self._patience = patience

    def getResult(self) -> Any:  # noqa: N802 (PySpark's name)
        """Wait for its end.

        Raises:
            UnansweredError: it does not come.
        """
        try:
            return self._server.getResult(self._patience)
        except Exception as error:  # Py4J's, which is no library of ours.
            if "TimeoutException" not in str(error):
                raise
            raise UnansweredError(
                f"Spark's Java sent no rows to this process, and has not ended the job after {PATIENCE}: {first_line(error)}"
            ) from error


@lru_cache(maxsize=1)
def _patience(context: Any, text: str) -> Any:
    """Return a duration in Java, once for a session: a look at a class of Java is several calls."""
    return context._jvm.scala.concurrent.duration.Duration.create(text)
