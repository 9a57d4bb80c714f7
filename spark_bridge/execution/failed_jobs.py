"""A job of Spark that fails as a Python worker was killed, or a file cannot be read, ends its query with a sentence.

Spark's own text has Java's stack twice and Python's once, some two hundred lines. Its error stays the cause.
"""

from __future__ import annotations

import re

from evercurrent.core.data.errors import EvercurrentError

WORKER = "Python worker exited unexpectedly"

EXECUTOR = re.compile(r"ExecutorLostFailure \([^)]*\)(?: Reason: ([^\n]*))?")

FILE = re.compile(r"\[FAILED_READ_FILE[.\w]*\] .*?reading file (\S+?)\.?\s")
"""The error of a file that is not there any more, or not whole."""

CAUSE = re.compile(r"^Caused by: [\w.$]+: (.+)$", re.MULTILINE)

AGAIN = "nothing of the micro-batch is committed: start the query again, which repeats it"

MOST_LETTERS = 300


class FailedJobError(EvercurrentError):
    """A job of Spark has failed for a reason outside of the views; it names what that was, and how to go on."""


def as_sentence(error: Exception) -> Exception:
    """Return the error of a micro-batch, as a sentence if a worker, an executor or a file was lost in a job of Spark.

    >>> as_sentence(RuntimeError("SparkException: Python worker exited unexpectedly (crashed)"))
    FailedJobError('a Python worker of Spark has ended within a task, killed or out of memory, and Spark does not run that task again; nothing of the micro-batch is committed: start the query again, which repeats it')
    """
    if isinstance(error, EvercurrentError):
        return error
    text = f"{error}\n{getattr(error, '_stackTrace', '')}"
    reason = _reason(text)
    return error if reason is None else FailedJobError(reason)


def _reason(text: str) -> str | None:
    if (file := FILE.search(text)) is not None:
        # The last cause of the first error is the one with most in it.
        causes = CAUSE.findall(text[file.start() :].partition("Driver stacktrace:")[0])
        why = f" ({causes[-1].strip()[:MOST_LETTERS]})" if causes else ""
        return (
            f"{file[1]}, a file of a source, could not be read{why}; nothing of the micro-batch is committed: put the whole file there, "
            "and start the query again, which repeats it"
        )
    if WORKER in text:
        return (
            "a Python worker of Spark has ended within a task, killed or out of memory, and Spark does not run that task again; "
            f"{AGAIN}"
        )
    if (executor := EXECUTOR.search(text)) is not None:
        why = f" ({executor[1].strip()[:MOST_LETTERS]})" if executor[1] else ""
        return f"an executor of Spark has ended within a task{why}, and Spark does not run that task again; {AGAIN}"
    return None
