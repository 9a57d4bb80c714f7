"""What Spark's Java gets from a micro-batch that fails, or is interrupted because its query is stopped.

Spark recognizes the end of a stopped query by a regular expression over the whole text of the error, which recurses for each
letter: a text of some pages ends its thread by a StackOverflowError, of which it prints a thousand lines.

Py4J sends Java an answer if an ``Exception`` is raised. By anything else, as of ``sys.exit``, the thread ends without one, and
Java waits for it for ever: the query neither goes on nor ends, and ``stop`` waits, too.
"""

from __future__ import annotations

from evercurrent.core.data.errors import EvercurrentError, first_line

INTERRUPTED = ("InterruptedException", "InterruptedIOException", "ClosedByInterruptException")
"""Exceptions of Java in a thread that is interrupted."""

CANCELLED = ("SparkException", "cancelled")
"""Words of the error of a job that is cancelled, as jobs of a stopped query are."""

FOR_SPARK = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling Spark, {}: java.lang.InterruptedException"
)
"""The text that Spark recognizes."""


def is_interruption(error: Exception) -> bool:
    """Return whether a micro-batch failed because its thread was interrupted, or its jobs were cancelled.

    >>> is_interruption(RuntimeError("... java.lang.InterruptedException ...")), is_interruption(ValueError("cancelled"))
    (True, False)
    """
    text = str(error)
    return any(name in text for name in INTERRUPTED) or all(word in text for word in CANCELLED)


def interruption(error: Exception) -> InterruptedError:
    """Return the error to raise in place of this one: short, and such that Spark sees that the query was stopped."""
    return InterruptedError(FOR_SPARK.format(first_line(error)[:200]))


def answerable(error: BaseException) -> Exception:
    """Return the error of a micro-batch as one that Py4J sends to Java: itself, unless it would end the thread.

    >>> answerable(SystemExit(3))
    EvercurrentError('SystemExit: 3: on_epoch=, or a function that views are computed with, cannot end the process of a query: it runs in a thread of Spark; let it raise an Exception, which ends the query')
    """
    if isinstance(error, Exception):
        return error
    what = f"{type(error).__name__}: {first_line(error)}"
    if type(error).__name__ == "PanicException":
        return EvercurrentError(
            f"{what}: a library written in Rust, as polars is, has failed within a micro-batch"
        )
    return EvercurrentError(
        f"{what}: on_epoch=, or a function that views are computed with, cannot end the process of a query: it runs in a thread of "
        "Spark; let it raise an Exception, which ends the query"
    )
