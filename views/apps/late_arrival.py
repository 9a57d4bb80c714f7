"""Simulated delays: each row arrives some time after its event time, so that rows overtake each other."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from ..connectors.files import cut

ARRIVAL = "_arrival"

BEFORE_ALL = datetime(1970, 1, 1, tzinfo=UTC)


def arriving_late(
    frames: Iterable[pl.DataFrame],
    batch_rows: int,
    *,
    time: str,
    within: timedelta,
    slack: timedelta,
    seed: int,
) -> Iterator[tuple[pl.DataFrame, datetime]]:
    """Yield the same rows in the order of their arrival, in frames of this many, each with the arrival of its last row.

    A row arrives at its ``time`` plus a random part of ``within``. The random numbers follow the order of the given rows:
    how these are cut into frames does not matter. Rows wait until no other can overtake them, where the given rows may be
    out of order by ``slack``; a row that is even later, or has no time, arrives when it is given.
    """
    arrived = _in_order(frames, time, within, slack, np.random.default_rng(seed))
    for frame in cut(arrived, batch_rows):
        yield frame.drop(ARRIVAL), frame[ARRIVAL][-1]


def _in_order(
    frames: Iterable[pl.DataFrame],
    time: str,
    within: timedelta,
    slack: timedelta,
    random: np.random.Generator,
) -> Iterator[pl.DataFrame]:
    """Yield the rows by ``ARRIVAL``, as soon as no other row can overtake them."""
    waiting: list[pl.DataFrame] = []
    latest: datetime | None = None
    past: datetime | None = None
    for frame in (frame for frame in frames if frame.height):
        happened = frame[time].fill_null(BEFORE_ALL)
        arrival = happened + pl.Series(random.random(frame.height)) * within
        if past is not None:
            arrival = arrival.clip(lower_bound=past)
        waiting.append(frame.with_columns(arrival.alias(ARRIVAL)))
        last = happened.max()
        assert isinstance(last, datetime)
        latest = last if latest is None else max(latest, last)
        waiting_rows = pl.concat(waiting)
        is_due = waiting_rows[ARRIVAL] < latest - slack
        waiting = [waiting_rows.filter(~is_due)]
        if is_due.any():
            due = waiting_rows.filter(is_due).sort(ARRIVAL, maintain_order=True)
            past = due[ARRIVAL][-1]
            yield due
    if waiting:
        yield pl.concat(waiting).sort(ARRIVAL, maintain_order=True)
