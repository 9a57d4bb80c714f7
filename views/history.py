"""The deltas of a view by epoch: what was published, for as long as it is retained."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from evercurrent.core.errors import EpochGoneError, PlanError

BEFORE_ALL = -1
"""Before epoch 0, in which a group of nothing gets its row."""


@dataclass(frozen=True, slots=True)
class Retain:
    """How many deltas a view keeps for readers that come later: the newest, up to both limits.

    ``epochs`` counts epochs that changed the view, ``rows`` the entries of their deltas.
    """

    epochs: int = 1000
    rows: int = 1_000_000

    def __post_init__(self) -> None:
        for name, limit in (("epochs", self.epochs), ("rows", self.rows)):
            if not isinstance(limit, int) or limit < 0:
                raise PlanError(f"Retain: {name}={limit!r}; give a whole number from 0")


class History:
    """The newest deltas of one view, as frames with ``_epoch`` and ``_diff``."""

    def __init__(self, view: str, retain: Retain) -> None:
        self._view = view
        self._retain = retain
        self._frames: deque[tuple[int, pl.DataFrame]] = deque()
        self._rows = 0
        self.complete_since = BEFORE_ALL
        """Deltas of all epochs after this one are here."""

    def append(self, epoch: int, frame: pl.DataFrame) -> None:
        """Add the delta of an epoch; the oldest go when there are too many."""
        self._frames.append((epoch, frame))
        self._rows += frame.height
        while self._frames and (len(self._frames) > self._retain.epochs or self._rows > self._retain.rows):
            self.complete_since, gone = self._frames.popleft()
            self._rows -= gone.height

    def clear(self) -> None:
        """Forget everything: the plan was compiled anew before any input."""
        self._frames.clear()
        self._rows = 0

    def since(self, epoch: int) -> Iterator[pl.DataFrame]:
        """The deltas of all epochs after this one, up to now.

        Raises:
            EpochGoneError: they are no longer all here.
        """
        if epoch < self.complete_since:
            raise EpochGoneError(
                f"view {self._view!r}: the deltas after epoch {epoch} are no longer retained, those after "
                f"{self.complete_since} are; start from view.snapshot(), or retain more with Engine(retain=Retain(...))"
            )
        return iter([frame for at, frame in self._frames if at > epoch])
