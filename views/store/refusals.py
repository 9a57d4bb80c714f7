"""Errors of file systems are raised with messages that name the failed action, the reason and the remedy."""

import errno
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from evercurrent.core.data.errors import (
    CheckpointError,
    CheckpointWarning,
    EvercurrentError,
    MissingFileError,
    NameTakenError,
    first_line,
)

from .protocol import ACKNOWLEDGED
from .syncing import FULL

REASONS = {
    errno.EROFS: ("the file system is read-only", "choose a place that can be written"),
    errno.ENOTDIR: ("a part of its path is a file and not a folder", "choose another folder"),
    errno.EISDIR: ("it is a folder", "move the folder away"),
    errno.EFBIG: ("the file is bigger than this process may write", "raise the limit (ulimit -f)"),
    errno.ENAMETOOLONG: ("the name is too long", "choose a shorter path, or shorter names of views"),
    errno.EMFILE: ("too many files are open", "raise the limit (ulimit -n)"),
    errno.ENFILE: ("too many files are open on this machine", "close some"),
    errno.EIO: ("the disk or the connection failed", "check its health, then try again"),
    errno.ENOENT: ("there is no such folder or bucket", "make it first"),
}
"""The reason and the remedy by error number."""


def refusal(error: Exception, url: str, name: str, action: str, size: int = 0) -> CheckpointError:
    """Return the error to raise for one of a file system; ``action`` names what failed, as ``written`` does."""
    reason, remedy = _reason_of(error, size)
    return CheckpointError(f"{url}: {name or 'the store'} was not {action}: {reason}; {remedy}")


def missing(url: str, name: str) -> MissingFileError:
    """Return the error for a file that is not there."""
    return MissingFileError(
        f"{url}: {name} is missing; it was deleted, or the copy of the checkpoint is not complete: restore it from a complete copy"
    )


def gone(url: str) -> CheckpointError:
    """Return the error for a folder that is not where it was when it was opened."""
    return CheckpointError(
        f"{url}: the folder was deleted or moved while it was in use; put it back, or choose another one"
    )


def log_gone(url: str, name: str) -> CheckpointError:
    """Return the error for a log that is not where it was opened: it alone is gone, or its folder is, or is another one."""
    if os.path.lexists(f"{url}/{name}") or not os.path.isdir(url):
        return gone(url)
    return CheckpointError(
        f"{url}: {name} was deleted or moved while it was in use; put it back, or close the engine, which commits all epochs that are "
        "done, and make a new one"
    )


def taken(url: str, names: list[str]) -> NameTakenError:
    """Return the error for files that are there already."""
    return NameTakenError(
        f"{url}: {', '.join(names)}: there already, and files of a checkpoint are never overwritten; "
        "another process writes here too"
    )


def not_noted(url: str, error: Exception) -> None:
    """Warn that the note of a writer's progress could not be updated."""
    warnings.warn(
        f"{refusal(error, url, ACKNOWLEDGED, 'written')}; what is committed is safe, but it would go unnoticed if the newest "
        "commit were lost",
        CheckpointWarning,
        stacklevel=4,
    )


@contextmanager
def refusing(url: str, name: str, action: str, size: int = 0) -> Iterator[None]:
    """Raise every error of a file system as ``refusal`` words it; our own errors pass unchanged."""
    try:
        yield
    except EvercurrentError:
        raise
    except Exception as error:
        # Not OSError alone: object stores raise what their clients raise.
        raise refusal(error, url, name, action, size) from error


def _reason_of(error: Exception, size: int) -> tuple[str, str]:
    number = getattr(error, "errno", None)
    if number in FULL:
        of = f" for the {size:,} bytes that were to be written" if size else ""
        return f"there is no room on the disk{of}", "make room, or choose a place on another disk"
    if number in REASONS:
        return REASONS[number]
    if isinstance(error, PermissionError):
        return (
            f"this user lacks permission ({_text(error)})",
            "change the permissions or credentials, or choose another place",
        )
    if isinstance(error, FileNotFoundError):
        return f"{REASONS[errno.ENOENT][0]} ({_text(error)})", REASONS[errno.ENOENT][1]
    return f"{type(error).__name__}: {_text(error)}", "check the store, then try again"


def _text(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or first_line(error))
