"""Time axes: the place of an instant on the drawing, the ticks, and their labels."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

_ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = 1_000_000
_MINUTE, _HOUR, _DAY = 60 * _SECOND, 3600 * _SECOND, 86_400 * _SECOND
_STEPS = (
    *(step * 10**power for power in range(6) for step in (1, 2, 5)),
    *(step * _SECOND for step in (1, 2, 5, 10, 15, 30)),
    *(step * _MINUTE for step in (1, 2, 5, 10, 15, 30)),
    *(step * _HOUR for step in (1, 2, 3, 6, 12)),
    *(step * _DAY for step in (1, 2, 7, 14)),
)
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12_000)
_MONTH = 30 * _DAY


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear map from instants (microseconds) to positions on the drawing."""

    first: int
    last: int
    low: float
    high: float

    def at(self, instant: int) -> float:
        """Return the position of an instant; one outside of the axis is put at its end."""
        share = (instant - self.first) / (self.last - self.first)
        return self.low + min(max(share, 0.0), 1.0) * (self.high - self.low)

    def shows(self, instant: int) -> bool:
        """Whether the instant is on the axis."""
        return self.first <= instant <= self.last


@dataclass(frozen=True, slots=True)
class Tick:
    """An instant that is marked, and its label."""

    instant: int
    text: str


class ClockFace:
    """Instants in the local time of a time zone."""

    def __init__(self, zone: str | None) -> None:
        self.zone = zone
        self._zone = ZoneInfo(zone) if zone else UTC

    def wall(self, instant: int) -> datetime:
        """Return the local time of an instant, without its zone, within the range of a datetime."""
        return (_ORIGIN + timedelta(microseconds=_held(instant))).astimezone(self._zone).replace(tzinfo=None)

    def instant(self, wall: datetime) -> int:
        """Return the instant of this local time."""
        return (wall.replace(tzinfo=self._zone) - _ORIGIN) // timedelta(microseconds=1)

    def text(self, instant: int) -> str:
        """Return date and time, without a fraction of zero.

        >>> ClockFace(None).text(1_500_000)
        '1970-01-01 00:00:01.5'
        """
        wall = self.wall(instant)
        return f"{wall:%Y-%m-%d} {self.time(instant)}"

    def time(self, instant: int) -> str:
        """Return the time of the day, without a fraction of zero."""
        wall = self.wall(instant)
        return f"{wall:%H:%M:%S}" + (f"{wall:.%f}".rstrip("0") if wall.microsecond else "")

    def ticks(self, first: int, last: int, at_most: int) -> list[Tick]:
        """Return round instants from ``first`` to ``last``, at most ``at_most`` (and at least two), with their labels."""
        least_step = max((last - first) / max(at_most, 2), 1)
        place = bisect_left(_STEPS, least_step)
        if place < len(_STEPS):
            step = _STEPS[place]
            instants = list(self._even(first, last, step))
            return [Tick(each, self._short(each, step)) for each in instants]
        months = next((each for each in _MONTHS if each * _MONTH >= least_step), _MONTHS[-1])
        form = "%Y" if months % 12 == 0 else "%b %Y"
        return [Tick(each, f"{self.wall(each):{form}}") for each in self._months(first, last, months)]

    def _even(self, first: int, last: int, step: int) -> Iterator[int]:
        """Yield instants a step apart that are round in local time, in which days begin at midnight."""
        shift = self._shift(first)
        at = -(-(first + shift) // step) * step
        while at - shift <= last:
            if step >= _HOUR:  # the clock may be changed on the way
                shift = self._shift(at - shift)
            yield at - shift
            at += step

    def _shift(self, instant: int) -> int:
        """Return by how much local time is ahead of UTC."""
        return (self.wall(instant) - datetime(1970, 1, 1)) // timedelta(microseconds=1) - _held(instant)

    def _months(self, first: int, last: int, months: int) -> Iterator[int]:
        wall = self.wall(first)
        count = -(-(wall.year * 12 + wall.month - 1) // months) * months
        while count < 12 * 10_000:
            at = self.instant(datetime(count // 12, count % 12 + 1, 1))
            if at > last:
                return
            if at >= first:
                yield at
            count += months

    def _short(self, instant: int, step: int) -> str:
        """Return as much of the time as distinguishes ticks a step apart; a midnight is shown as a date."""
        wall = self.wall(instant)
        if step >= _DAY or (step >= _MINUTE and (wall.hour, wall.minute) == (0, 0)):
            return f"{wall:%b} {wall.day}"
        if step >= _MINUTE:
            return f"{wall:%H:%M}"
        if step >= _SECOND:
            return f"{wall:%H:%M:%S}"
        digits = 6 - min(len(str(step)) - len(str(step).rstrip("0")), 5)
        return f"{wall:%H:%M:%S}.{wall.microsecond:06d}"[: 9 + digits]


def _held(instant: int) -> int:
    """Return the nearest instant that a datetime can hold in any zone."""
    return min(max(instant, -62_135_500_000 * _SECOND), 253_402_200_000 * _SECOND)


def lasting(microseconds: int) -> str:
    """Return a length of time in words, with at most two units.

    >>> lasting(195_000_000), lasting(90 * 60_000_000), lasting(1_500_000), lasting(250), lasting(0)
    ('3 min 15 s', '1 h 30 min', '1.5 s', '250 us', '0 s')
    """
    if microseconds < 0:
        return f"-{lasting(-microseconds)}"
    if microseconds and microseconds < 1000:
        return f"{microseconds} us"
    if microseconds < _SECOND and microseconds:
        return f"{microseconds / 1000:g} ms"
    if microseconds < _MINUTE:
        return f"{microseconds / _SECOND:.3g} s"
    units = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (_SECOND, "s"))
    place = next(i for i, (unit, _) in enumerate(units) if microseconds >= unit)
    parts = []
    for unit, name in units[place : place + 2]:
        count, microseconds = divmod(microseconds, unit)
        parts += [f"{count} {name}"] if count else []
    return " ".join(parts)
