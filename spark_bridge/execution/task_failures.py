"""Rows that cannot be computed are a result of their task, so that Spark neither repeats the task nor logs pages of it.

Other errors are raised in the task, as another attempt may succeed: a store that fails, a worker that is killed.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path

from evercurrent.core.data import errors
from evercurrent.core.data.errors import InputError


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """Why a task cannot be done, whatever is repeated: the error's sentence, where it is, and the traceback of what raised."""

    sentence: str
    where: str
    trace: str

    @staticmethod
    def of(error: InputError, where: str) -> TaskFailure:
        """Return the failure of a task by its error."""
        return TaskFailure(str(error), where, user_trace(error))

    def error(self) -> InputError:
        """Return the error for the driver, with the traceback as a note."""
        error = InputError(f"{self.sentence} ({self.where})")
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
