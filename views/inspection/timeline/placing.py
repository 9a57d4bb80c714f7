"""The placing of labels: at the first place where they cover nothing placed before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle on the drawing; y grows downwards."""

    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def around(cls, x: float, y: float, width: float, height: float) -> Box:
        """Return the box of this size whose middle is at (x, y)."""
        return cls(x - width / 2, y - height / 2, x + width / 2, y + height / 2)

    @property
    def middle(self) -> tuple[float, float]:
        """The point in the middle."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    @property
    def area(self) -> float:
        """Width times height."""
        return (self.right - self.left) * (self.bottom - self.top)


class Placing:
    """The places that are occupied already."""

    def __init__(self) -> None:
        self._edges = np.empty((4, 64))
        """Of each place in its column, the edges in the order of ``Box``."""
        self._count = 0

    def take(self, box: Box) -> None:
        """Mark a place as occupied."""
        if self._count == self._edges.shape[1]:
            self._edges = np.concatenate([self._edges, np.empty_like(self._edges)], axis=1)
        self._edges[:, self._count] = box.left, box.top, box.right, box.bottom
        self._count += 1

    def covered(self, box: Box) -> float:
        """Return the area of occupied places that a box covers, each counted by itself."""
        left, top, right, bottom = self._edges[:, : self._count]
        across = np.minimum(right, box.right) - np.maximum(left, box.left)
        down = np.minimum(bottom, box.bottom) - np.maximum(top, box.top)
        both = (across > 0) & (down > 0)
        # Added up in the order in which they were taken: a drawing stays the same to the last bit.
        areas: list[float] = (across[both] * down[both]).tolist()
        return sum(areas)

    def best(self, candidates: Iterable[Box]) -> tuple[Box, float]:
        """Return the candidate that covers least, the first of equal ones, and the area that it covers."""
        best_so_far: tuple[Box, float] | None = None
        for box in candidates:
            covered = self.covered(box)
            if not covered:
                return box, 0.0
            if best_so_far is None or covered < best_so_far[1]:
                best_so_far = box, covered
        if best_so_far is None:
            raise ValueError("a label without a candidate for its place")
        return best_so_far
