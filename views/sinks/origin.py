"""Epochs of one number are distinguished: of other checkpoints, of those before a backup was restored, of other views."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from hashlib import sha256

BEFORE_ALL = -1


class Origin:
    """The identity of the epochs of a view in a checkpoint, which distinguishes them from those of the same numbers elsewhere.

    A sink keeps the token of its last epoch beside the number. The number alone does not suffice: a checkpoint that was deleted
    counts from 1 again, one that was restored from a backup repeats the numbers since with other rows, and of a copy and its
    original each continue independently. So each process that opens a checkpoint is another writer, and what an earlier one has
    written counts up to the epoch at which the next one has begun.

    >>> origin = Origin("hits", lambda: [(-1, "first"), (10, "second")])
    >>> origin.has(origin.token(10), 10), origin.has(origin.token(12), 12)
    (True, True)
    >>> origin.has(origin.token(10), 12)  # Written by the first one before the checkpoint was restored as of epoch 10.
    False
    """

    def __init__(self, view: str, writers: Callable[[], Sequence[tuple[int, str]]]) -> None:
        self._view, self._writers = view, writers

    @staticmethod
    def of(token: str, view: str = "") -> Origin:
        """Return the origin of an engine without a checkpoint, which alone writes its epochs."""
        return Origin(view, lambda: [(BEFORE_ALL, token)])

    @property
    def view(self) -> str:
        """Digits that stand for the name of the view."""
        return _digits(self._view)

    def token(self, epoch: int) -> str:
        """Return the token of the writer of an epoch: 15 hexadecimal digits, others for each view."""
        writers = self._writers()
        place = bisect_left([begin for begin, _ in writers], epoch) - 1
        return self._digits(writers[max(0, place)][1])

    def has(self, token: str, epoch: int) -> bool:
        """Return whether this view has had the epoch that was written with this token."""
        writers = self._writers()
        ends = [begin for begin, _ in writers[1:]]
        return any(
            self._digits(writer) == token and (end is None or epoch <= end)
            for (_, writer), end in zip(writers, [*ends, None], strict=True)
        )

    def _digits(self, writer: str) -> str:
        return _digits(f"{writer}/{self._view}")


def _digits(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:15]
