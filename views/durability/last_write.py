"""What became of the last write of an engine: where that is unknown, nothing more is written before it is known."""

from __future__ import annotations

from collections.abc import Callable

from evercurrent.core.data.errors import CheckpointError

from ..store.refusals import refusal
from .input_log import InputLog

FINDS_OUT = "then push again, which finds out (a new engine goes on from what is on disk, and skips batches with a position that was taken)"
"""The remedy if it is unknown what became of a write."""


class UnknownError(CheckpointError):
    """It is unknown what became of a write, as the store can neither be written nor read; later it may be known."""


class LastWrite:
    """The last write of an engine: done, or unknown for now, or such that the engine cannot go on."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ended: str | None = None
        self._find_out: Callable[[], bool] | None = None

    def require_known(self) -> None:
        """Find out what became of the last write, if that is unknown.

        Raises:
            UnknownError: it still is.
            CheckpointError: the engine cannot go on.
        """
        if self._find_out is not None and self.attempt(self._find_out):
            self._ended = (
                f"{self._url}: the epoch of which that was unknown is committed; make a new engine, which goes on from there and "
                "skips batches with a position that was taken"
            )
        if self._ended is not None:
            raise CheckpointError(self._ended)

    def allows_another(self, *, is_owed: bool) -> bool:
        """Return whether the engine can write.

        Raises:
            UnknownError: that is unknown, and epochs that are done are owed.
        """
        try:
            self.require_known()
        except UnknownError:
            if is_owed:
                raise
            return False
        except CheckpointError:
            return False  # That was raised when it ended.
        return True

    def attempt(self, find_out: Callable[[], bool]) -> bool:
        """Return whether a write is there, as ``find_out`` returns it, now or, where that is unknown, before the next one.

        Raises:
            UnknownError: as ``find_out``, which is to be called again.
            CheckpointError: as ``find_out``; the engine cannot go on.
        """
        self._find_out = (
            find_out  # It is called again as well if it ends with any other error, as that of an interrupt.
        )
        try:
            is_there = find_out()
        except UnknownError:
            raise
        except CheckpointError as end:
            self._ended, self._find_out = str(end), None
            raise
        self._find_out = None
        return is_there


def is_left(inputs: InputLog, url: str, epoch: int) -> bool:
    """Return whether the input of a discarded epoch is still in the log: it is removed, so it is not.

    Raises:
        UnknownError: it may be there still.
    """
    try:
        inputs.take_back()
    except OSError as error:
        why = str(refusal(error, url, "the log of inputs", "written")).removeprefix(f"{url}: ")
        raise UnknownError(
            f"{url}: it is unknown whether the input of epoch {epoch}, which was refused, is on disk: {why}; {FINDS_OUT}"
        ) from error
    return False
