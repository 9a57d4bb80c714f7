"""The Python process in which Spark runs a source of a query, as the heartbeat, may end beneath the query.

Spark then reads the end of a socket where a number should be, and ends the query with an error without a text, or with one about
the connection: only the place in its code shows which process that was.
"""

from __future__ import annotations

import re

from evercurrent.core.data import errors
from evercurrent.core.data.errors import EvercurrentError

PLACE = "PythonStreamingSourceRunner"
"""The class of Spark's that exchanges bytes with such a process."""

LOST = (
    "java.io.EOFException",
    "java.net.SocketException",
    "java.nio.channels.ClosedChannelException",
    "java.io.IOException: Broken pipe",
    "java.io.IOException: Connection reset",
)
"""The errors of a connection whose other end is gone."""

OWN = re.compile(
    r"\[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR\] [^\n]*?evercurrent\.core\.data\.errors\.(\w+): ([^\n]*)"
)
"""An error of this package in a source of Spark, as the deltas of a view that are no longer retained."""

STACKS = ("_stackTrace", "_stacktrace", "_server_stacktrace")
"""The attributes in which errors of PySpark have Java's stack, in a classic session and under Spark Connect."""


CONNECTED = re.compile(r"terminated with exception:\s+(?:Connection reset\s+|Broken pipe\s+)?SQLSTATE")
"""The error under Spark Connect, where the server does not send the place: no other one has so little text: an end of the connection has none."""


class SourceEndedError(EvercurrentError, ConnectionError):
    """The Python process in which Spark runs a source has ended beneath a query; it names what is left, and how to go on."""


def has_lost_source(error: BaseException | None) -> bool:
    """Return whether a query has ended with this error of Spark as the process of a source is gone."""
    if error is not None and CONNECTED.search(str(error)) and "PythonMicroBatchStream" in str(error):
        return True
    while error is not None:
        text = "\n".join(str(getattr(error, each, "")) for each in STACKS)
        at = text.find(PLACE)
        if at >= 0 and any(lost in text[:at] for lost in LOST):
            return True
        error = getattr(error, "_cause", None) or error.__cause__
    return False


def of_source(error: BaseException | None, where: str) -> EvercurrentError | None:
    """Return the error of a query that has ended with this error of Spark because of a source, as one sentence; None if another
    part has failed. ``where`` is the place of its checkpoint.

    >>> of_source(RuntimeError("[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed: evercurrent.core.data.errors.InputError: mine"), "")
    InputError('mine')
    """
    if error is None:
        return None
    if (own := OWN.search(str(error))) is not None:
        kind = getattr(errors, own[1], EvercurrentError)
        return EvercurrentError(own[2]) if not issubclass(kind, EvercurrentError) else kind(own[2])
    return source_ended(where) if has_lost_source(error) else None


def source_ended(where: str) -> SourceEndedError:
    """Return the error of a query one of whose sources has lost its process, with the place of its checkpoint."""
    return SourceEndedError(
        "a Python process in which Spark runs a source of the query, as that of heartbeat_seconds=, has ended, killed or out of memory, "
        f"and with it the query. {where} has all epochs that were committed: start the query again, and it goes on there"
    )
