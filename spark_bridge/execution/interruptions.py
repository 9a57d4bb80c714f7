"""A micro-batch that is interrupted because its query is stopped ends without a long Java stack trace.

Spark recognizes the end of a stopped query by a regular expression over the whole text of the error, which recurses for each
letter: a text of some pages ends its thread by a StackOverflowError, of which it prints a thousand lines.
"""

from __future__ import annotations

from evercurrent.core.data.errors import first_line

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
