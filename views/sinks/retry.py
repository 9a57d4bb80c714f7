"""How long a sink that failed is left alone."""

from __future__ import annotations

from dataclasses import dataclass

from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.tags import tagged


@tagged("views.sinks:Retry")
@dataclass(frozen=True, slots=True)
class Retry:
    """How long a sink that failed is left alone: first so many seconds, then twice as long each time, at most so many.

    >>> [Retry(first_seconds=1, most_seconds=5).pause(failures) for failures in (1, 2, 3, 4)]
    [1.0, 2.0, 4.0, 5]
    """

    first_seconds: float = 0.5
    most_seconds: float = 60.0

    def __post_init__(self) -> None:
        for name, seconds in (("first_seconds", self.first_seconds), ("most_seconds", self.most_seconds)):
            if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < 1e6:
                raise PlanError(f"Retry: {name}={seconds!r}; give seconds above 0")

    @staticmethod
    def of(retry: object) -> Retry:
        """Return what was given, or the default for None.

        Raises:
            PlanError: it is something else.
        """
        if retry is not None and not isinstance(retry, Retry):
            raise PlanError(f"retry={retry!r}; give ec.Retry(first_seconds=..., most_seconds=...)")
        return retry or Retry()

    def pause(self, failures: int) -> float:
        """Return the seconds after so many failures one after the other."""
        return min(self.most_seconds, self.first_seconds * 2.0 ** min(failures - 1, 60))
