"""A clock that stands still until it is moved by hand: processing time for tests."""

from __future__ import annotations

from datetime import datetime, timedelta

from evercurrent.core.data.errors import InputError

from .times import Times, as_datetime, midnight


class HandClock:
    """Processing time that a test sets: ``engine.push("hits", rows, at=clock.now)``.

    >>> clock = HandClock("2024-05-01T12:00Z")
    >>> clock.advance("1m30s").isoformat()
    '2024-05-01T12:01:30+00:00'
    >>> clock.set("12:05").isoformat()
    '2024-05-01T12:05:00+00:00'
    """

    def __init__(self, start: datetime | str = "2024-01-01T00:00Z") -> None:
        self.instant: int = Times().instant(start)
        self._times = Times(day=midnight(self.instant))

    @property
    def now(self) -> datetime:
        """The time of the clock, in UTC."""
        return as_datetime(self.instant)

    def advance(self, by: timedelta | str) -> datetime:
        """Advance by a duration ("250ms", "1m30s" or a timedelta), and return the new time."""
        return self._move(self.instant + self._times.duration(by))

    def set(self, to: datetime | str) -> datetime:
        """Advance to a time, and return it; "12:05" is a time of the day on which the clock began.

        Raises:
            InputError: the clock shows a later time, and processing time does not go back.
        """
        return self._move(self._times.instant(to))

    def _move(self, instant: int) -> datetime:
        then = as_datetime(instant)
        if instant < self.instant:
            raise InputError(
                f"the clock shows {self.now.isoformat()}, and processing time does not go back to {then.isoformat()}"
            )
        self.instant = instant
        return then

    def __repr__(self) -> str:
        """Show the time."""
        return f"HandClock({self.now.isoformat()!r})"
