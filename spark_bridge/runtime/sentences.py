"""Errors of this package that are raised for Spark are shown as their sentence, without the traceback of Spark's process."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from evercurrent.core.data.errors import EvercurrentError

HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""The environment variable that has a process of PySpark show an error without its traceback."""


@contextmanager
def in_a_sentence() -> Iterator[None]:
    """Hide the traceback of an error of this package that leaves this context, for as long as the error exists.

    PySpark formats it in the same process, in which later errors of others have their tracebacks again.
    """
    try:
        yield
    except EvercurrentError as error:
        if HIDE_TRACEBACK not in os.environ:
            os.environ[HIDE_TRACEBACK] = "1"
            weakref.finalize(error, os.environ.pop, HIDE_TRACEBACK, None)
        raise
