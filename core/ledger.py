"""Every row that was refused, and why."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import polars as pl

from .clock import Epoch


@dataclass(frozen=True, slots=True)
class Refused:
    """Rows of one source that one epoch did not accept, and why.

    ``watermark`` is the one that they were behind, in microseconds, where that is the reason.
    """

    epoch: Epoch
    source: str
    reason: str
    frame: pl.DataFrame
    watermark: int | None = None


class Ledger:
    """Every row that was refused, and why: nothing is lost and nothing is silent.

    Holds the last ``limit`` rows; ``forgotten`` counts those that had to go.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.refused: deque[Refused] = deque()
        self.entries = 0
        self.forgotten = 0
        self._staged: list[Refused] = []

    def stage(self, refused: Refused) -> None:
        """Make ready to enter these rows."""
        self._staged.append(refused)

    def commit(self) -> None:
        """Enter what was staged, and forget the oldest rows beyond the limit."""
        for refused in self._staged:
            self.refused.append(refused)
            self.entries += refused.frame.height
        self._staged = []
        while self.entries > self.limit and len(self.refused) > 1:
            gone = self.refused.popleft().frame.height
            self.entries -= gone
            self.forgotten += gone

    def discard(self) -> None:
        """Forget what was staged."""
        self._staged = []

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(int(refused.frame.estimated_size()) for refused in self.refused)
