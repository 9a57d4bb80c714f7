"""Threads that read again and again what they have read already, while an epoch is being evaluated.

Python runs one thread at a time. Who reads without pause keeps it to itself for five milliseconds at a stretch, and an
epoch lets go of it a hundred times: four such readers made epochs of 10,000 rows fifteen times as long. What they got for
that was what they had. So who asks for it once more, and only then, sleeps a little before the answer.
"""

from __future__ import annotations

import threading
import time

FIRST, LONGEST = 0.00005, 0.001
"""Seconds of the first pause, and of any: each is twice as long as the one before while there is nothing new."""


class _Seen(threading.local):
    """What a thread has read last, by view, and how long it has slept before that."""

    def __init__(self) -> None:
        self.last: dict[str, tuple[object, float]] = {}


class GivingWay:
    """Lets those who write go on, where others ask for nothing new. Whoever writes does so inside of it."""

    def __init__(self) -> None:
        self._writing: list[int] = []
        self._seen = _Seen()

    def __enter__(self) -> None:
        """This thread writes from now on."""
        self._writing.append(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        """It has written."""
        self._writing.remove(threading.get_ident())

    def before(self, view: str, answer: object) -> None:
        """A thread is about to get this answer about a view; it is the same object for as long as there is nothing new."""
        if not self._writing or threading.get_ident() in self._writing:
            return
        last = self._seen.last
        known = last.get(view)
        if known is None or known[0] is not answer:
            last[view] = answer, FIRST
            return
        time.sleep(known[1])
        last[view] = answer, min(2 * known[1], LONGEST)
