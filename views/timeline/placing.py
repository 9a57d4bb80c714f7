"""The placing of labels: at the first place where they cover nothing placed before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


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

    def covers(self, other: Box) -> float:
        """Return the area of the overlap."""
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.bottom, other.bottom) - max(self.top, other.top)
        return across * down if across > 0 and down > 0 else 0.0


class Placing:
    """The places that are occupied already."""

    def __init__(self) -> None:
        self._taken: list[Box] = []

    def take(self, box: Box) -> None:
        """Mark a place as occupied."""
        self._taken.append(box)

    def best(self, candidates: Iterable[Box]) -> tuple[Box, float]:
        """Return the candidate that covers least, the first of equal ones, and the area that it covers."""
        best_so_far: tuple[Box, float] | None = None
        for box in candidates:
            covered = sum(box.covers(other) for other in self._taken)
            if not covered:
                return box, 0.0
            if best_so_far is None or covered < best_so_far[1]:
                best_so_far = box, covered
        if best_so_far is None:
            raise ValueError("a label without a candidate for its place")
        return best_so_far
