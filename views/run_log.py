"""What happened in a run, beside the views: when epochs were, how far the watermarks, and the rows if asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

import numpy as np
import polars as pl

from evercurrent.core.clock import START_OF_TIME
from evercurrent.core.instants import time_of
from evercurrent.core.schema import DIFF, EPOCH

from .history import Retain

TIME = pl.Datetime("us", "UTC")


Noted = tuple[int, int, Mapping[str, int]]
"""An epoch that has gone by: its number, its processing time in microseconds, the watermarks after it."""


class RunLog:
    """The last epochs: processing time and watermarks, and the rows of sources if they are recorded.

    Keeps as many epochs and rows as ``retain`` says; ``unrecorded`` counts rows, by source, that came and are not
    here.
    """

    def __init__(self, retain: Retain, *, records_rows: bool) -> None:
        self.records_rows = records_rows
        self.unrecorded: dict[str, int] = {}
        self._retain = retain
        self._epochs: deque[tuple[int, datetime, dict[str, int]]] = deque()
        self._rows: deque[tuple[str, pl.DataFrame]] = deque()
        self._height = 0
        self._older: Callable[[], Iterable[Noted]] | None = None

    def note(
        self, epoch: int, at: datetime, watermarks: Mapping[str, int], rows: Mapping[str, pl.DataFrame]
    ) -> None:
        """An epoch is done: its processing time, the watermarks after it, and the rows that came, with diffs."""
        self._epochs.append((epoch, at, dict(watermarks)))
        while len(self._epochs) > max(1, self._retain.epochs):
            self._epochs.popleft()
        for source, frame in rows.items():
            if not self.records_rows:
                self._leave_out(source, frame.height)
            elif frame.height:
                self._keep(source, epoch, frame)

    def go_on(
        self, after: Noted, unrecorded: Mapping[str, int], older: Callable[[], Iterable[Noted]]
    ) -> None:
        """Begin after this epoch; those before it are asked for when somebody wants to see them.

        ``unrecorded``: how many rows of each source came before, none of which are here.
        """
        self.clear()
        epoch, instant, marks = after
        if epoch:
            self._epochs.append((epoch, _time_of(instant), dict(marks)))
        self.unrecorded |= unrecorded
        self._older = older

    def rows_with(self, arrived: Mapping[str, pl.DataFrame]) -> dict[str, int]:
        """How many rows of each source have come, recorded or not, these included."""
        counts = dict(self.unrecorded)
        for source, frame in (*self._rows, *arrived.items()):
            counts[source] = counts.get(source, 0) + frame.height
        return counts

    def _look_back(self) -> None:
        """Fetch what was before this process, once, as far as there is room for it."""
        if self._older is None:
            return
        first = self._epochs[0][0] if self._epochs else None
        for epoch, instant, marks in sorted(self._older(), key=lambda noted: -noted[0]):
            if len(self._epochs) >= max(1, self._retain.epochs):
                break
            if epoch and (first is None or epoch < first):
                self._epochs.appendleft((epoch, _time_of(instant), dict(marks)))
        self._older = None

    def _keep(self, source: str, epoch: int, frame: pl.DataFrame) -> None:
        numbers = pl.Series(EPOCH, [epoch], pl.UInt64).new_from_index(0, frame.height)
        self._rows.append((source, pl.DataFrame([*frame.get_columns(), numbers])))
        self._height += frame.height
        while self._rows and self._height > self._retain.rows:
            oldest, gone = self._rows.popleft()
            self._height -= gone.height
            self._leave_out(oldest, gone.height)

    def _leave_out(self, source: str, rows: int) -> None:
        self.unrecorded[source] = self.unrecorded.get(source, 0) + rows

    def clear(self) -> None:
        """Forget everything: the plan was compiled anew before any input."""
        self._epochs.clear()
        self._rows.clear()
        self._height = 0
        self.unrecorded.clear()

    @property
    def last(self) -> tuple[int, datetime] | None:
        """The last epoch and its processing time."""
        return self._epochs[-1][:2] if self._epochs else None

    def epochs(self) -> pl.DataFrame:
        """``_epoch`` and ``processing_time`` of the last epochs."""
        self._look_back()
        numbers = pl.Series(EPOCH, [epoch for epoch, _, _ in self._epochs], pl.UInt64)
        times = pl.Series("processing_time", [at for _, at, _ in self._epochs], TIME)
        return pl.DataFrame([numbers, times])

    def watermarks(self) -> pl.DataFrame:
        """``_epoch``, ``source``, ``watermark``: from the end of that epoch on; null where nothing was known."""
        self._look_back()
        entries = [(epoch, name, at) for epoch, _, marks in self._epochs for name, at in marks.items()]
        instants = np.array([at for _, _, at in entries], np.int64)
        known = pl.Series("watermark", instants).cast(TIME)
        return pl.DataFrame(
            [
                pl.Series(EPOCH, [epoch for epoch, _, _ in entries], pl.UInt64),
                pl.Series("source", [name for _, name, _ in entries], pl.String),
                known.set(pl.Series(instants == START_OF_TIME), None),
            ]
        )

    def rows(self, source: str, schema: pl.Schema) -> pl.DataFrame:
        """The recorded rows of a source: its columns, ``_diff`` and ``_epoch``."""
        found = [frame for name, frame in self._rows if name == source]
        columns = pl.Schema({**schema, DIFF: pl.Int64(), EPOCH: pl.UInt64()})
        return pl.concat([columns.to_frame(), *found])


def _time_of(instant: int) -> datetime:
    """A recorded processing time: it was a datetime before."""
    time = time_of(instant)
    assert time is not None
    return time
