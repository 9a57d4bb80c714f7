"""A state that is one immutable value: an epoch stages the next value, and the commit replaces the old one by it."""

from __future__ import annotations

from typing import Generic, TypeVar

from .partitioning import Route
from .protocol import KeptIn

V = TypeVar("V")


class StagedValue(Generic[V]):
    """Holds the value of the last commit and, if one is staged, the value that the next commit makes the state."""

    kept_in: KeptIn = "buckets"

    def __init__(self, value: V, route: Route | None) -> None:
        self.route = route
        self._committed = value
        self._staged: V | None = None

    @property
    def _latest(self) -> V:
        """Return what is staged, or else the value of the last commit."""
        return self._committed if self._staged is None else self._staged

    def commit(self) -> None:
        """Make what was staged the state."""
        if self._staged is not None:
            self._committed, self._staged = self._staged, None

    def discard(self) -> None:
        """Drop what was staged."""
        self._staged = None
