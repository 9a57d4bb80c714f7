"""A part of a recording: what happened in a span of event time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import polars as pl

from evercurrent.core.data.clock import END_OF_TIME, START_OF_TIME
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.core.data.instants import instant_in_text, instant_of, shown

from .recording import Recording, instants

Bound = date | str | None
"""An end of a span as a user gives it: a time, a text of one, or None for the end of the run."""


@dataclass(frozen=True, slots=True)
class Span:
    """Event time from ``start``, included, to ``end``, excluded; in microseconds, at the ends of time where none is given."""

    start: int = START_OF_TIME
    end: int = END_OF_TIME

    @property
    def is_bounded(self) -> bool:
        """Return whether anything can lie outside."""
        return self.start > START_OF_TIME or self.end < END_OF_TIME

    def part_of(self, recording: Recording) -> Recording:
        """Return the rows in this span, and the panes whose windows have an instant in common with it."""
        if not self.is_bounded:
            return recording
        times = instants(recording.rows["event_time"])
        starts = instants(recording.panes["window_start"])
        ends = instants(recording.panes["window_end"], END_OF_TIME)
        return replace(
            recording,
            rows=recording.rows.filter((times >= self.start) & (times < self.end)),
            panes=recording.panes.filter((starts < self.end) & (ends > self.start)),
        )

    def meets(self) -> pl.Expr:
        """Return whether windows, from ``start`` to ``end`` in microseconds, have an instant in common with this span."""
        return (pl.col("start") < self.end) & (pl.col("end") > self.start)

    def held(self, first: int, last: int) -> tuple[int, int]:
        """Return the ends of an axis from ``first`` to ``last``, moved to a little outside of this span where it is bounded.

        The margin is room for the dots at its ends.
        """
        low = self.start if self.start > START_OF_TIME else min(first, self.end - 1)
        high = self.end if self.end < END_OF_TIME else max(last, self.start + 1)
        margin = max((high - low) // 60, 1)
        return (
            low - margin if self.start > START_OF_TIME else low,
            high + margin if self.end < END_OF_TIME else high,
        )


WHOLE = Span()
"""The span of a whole run."""


def span_of(where: str, start: Bound, end: Bound, event_time: pl.DataType) -> Span:
    """Return the span that a user gives beside a column of event time of this type, by the rule for watermarks.

    Raises:
        InputError: a bound is no time, or has no zone where the column has one.
        PlanError: the span is empty.
    """
    span = Span(
        START_OF_TIME if start is None else _instant(f"{where}: start", start, event_time),
        END_OF_TIME if end is None else _instant(f"{where}: end", end, event_time),
    )
    if span.start >= span.end:
        raise PlanError(
            f"{where}: start {shown(span.start)} is not before end {shown(span.end)}; give an earlier start"
        )
    return span


def _instant(where: str, bound: Any, event_time: pl.DataType) -> int:
    moment = instant_in_text(where, bound, event_time) if isinstance(bound, str) else bound
    if not isinstance(moment, date):
        raise InputError(
            f"{where}={bound!r} is not a time; give a datetime or a text such as '2026-01-31 12:00'"
        )
    return instant_of(where, moment, event_time)
