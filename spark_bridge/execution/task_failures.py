"""A row that cannot be computed is returned as the result of its task, so that the driver gets one sentence and no Java stack
trace.

A row that does not fit is a failure at once. Where a user's function raises, another attempt may succeed, so that the error is
raised and Spark runs the task again; the last attempt returns it. All other errors are raised: a store that fails, for example.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path

from polars.exceptions import PolarsError

from evercurrent.core.data import errors
from evercurrent.core.data.errors import InputError


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """A failure of a task that repeating it cannot help: the message, the place, and the traceback.

    ``kind`` is the name of the error's class.
    """

    sentence: str
    where: str
    trace: str
    kind: str = InputError.__name__

    @staticmethod
    def of(error: InputError, where: str) -> TaskFailure:
        """Return the failure of a task by its error."""
        return TaskFailure(str(error), where, user_trace(error), type(error).__name__)

    @staticmethod
    def at_last(error: InputError, where: str, attempts: int) -> TaskFailure:
        """Return the failure of a task, unless a user's function has raised and Spark would run the task again.

        Raises:
            InputError: another attempt follows.
        """
        from pyspark import TaskContext

        context = TaskContext.get()
        attempt = 0 if context is None else context.attemptNumber()
        is_of_function = error.__cause__ is not None and not isinstance(error.__cause__, PolarsError)
        if is_of_function and attempt < attempts - 1:
            raise error
        return TaskFailure.of(error, where)

    def error(self) -> InputError:
        """Return the error for the driver, with the traceback as a note."""
        kind = getattr(errors, self.kind, InputError)
        error: InputError = kind(f"{self.sentence} ({self.where})")
        if self.trace:
            error.add_note(self.trace)
        return error


def user_trace(error: BaseException) -> str:
    """Return the traceback of a user's function that an error was raised from, without lines of this package; or nothing."""
    cause = error.__cause__
    if cause is None or cause.__traceback__ is None:
        return ""
    package = str(Path(errors.__file__).parents[2])
    frames = traceback.extract_tb(cause.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(package)]
    lines = traceback.format_list(own) + traceback.format_exception_only(cause)
    return "in the function:\n" + "".join(lines).rstrip()
