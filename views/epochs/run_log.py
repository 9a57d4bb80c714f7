"""The log of a run beside the views: the times of epochs, the watermarks after them, and rows where they are recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import polars as pl

from evercurrent.core.data.clock import START_OF_TIME
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.instants import time_of
from evercurrent.core.data.recent import Recent, Stretch
from evercurrent.core.data.schema import DIFF, EPOCH

from .history import Retain
from .records import EvaluatedEpoch, Noted

TIME = pl.Datetime("us", "UTC")


_Epoch = tuple[int, datetime, Mapping[str, int]]


class _Earlier:
    """The epochs before this process, the latest first, which are read once, when they are first needed."""

    def __init__(self, fetch: Callable[[], Iterable[Noted]] | None) -> None:
        self._fetch = fetch
        self._epochs: list[_Epoch] | None = None

    def last(self, count: int, before: int | None) -> list[_Epoch]:
        """Return the last ``count`` of them before an epoch, the oldest first."""
        if count <= 0 or self._fetch is None:
            return []
        if self._epochs is None:
            noted = sorted(self._fetch(), key=lambda noted: -noted[0])
            self._epochs = [(epoch, _time_of(instant), marks) for epoch, instant, marks in noted if epoch]
        return [entry for entry in self._epochs if before is None or entry[0] < before][:count][::-1]


@dataclass(frozen=True, slots=True, eq=False)
class RunLog:
    """The last epochs up to one of them: processing times, watermarks, and the rows of sources if they are recorded.

    ``unrecorded`` counts, by source, the rows that came and were not recorded. ``complete_from`` is the first epoch from which
    on the rows of all sources are recorded, if ``records_rows``.
    """

    records_rows: bool
    unrecorded: Mapping[str, int]
    _retain: Retain
    _epochs: Stretch[_Epoch]
    _rows: Stretch[tuple[str, pl.DataFrame]]
    _earlier: _Earlier
    complete_from: int = 1

    @property
    def last(self) -> tuple[int, datetime] | None:
        """The last epoch and its processing time."""
        return self._epochs[-1][:2] if len(self._epochs) else None

    def epochs(self) -> pl.DataFrame:
        """Return ``_epoch`` and ``processing_time`` of the last epochs."""
        entries = self._last_epochs()
        numbers = pl.Series(EPOCH, [epoch for epoch, _, _ in entries], pl.UInt64)
        times = pl.Series("processing_time", [at for _, at, _ in entries], TIME)
        return pl.DataFrame([numbers, times])

    def watermarks(self) -> pl.DataFrame:
        """Return ``_epoch``, ``source`` and ``watermark`` from the end of that epoch on; null while there was none."""
        entries = [(epoch, name, at) for epoch, _, marks in self._last_epochs() for name, at in marks.items()]
        instants = np.array([at for _, _, at in entries], np.int64)
        watermarks = pl.Series("watermark", instants).cast(TIME)
        return pl.DataFrame(
            [
                pl.Series(EPOCH, [epoch for epoch, _, _ in entries], pl.UInt64),
                pl.Series("source", [name for _, name, _ in entries], pl.String),
                watermarks.set(pl.Series(instants == START_OF_TIME), None),
            ]
        )

    def rows(self, source: str, schema: pl.Schema) -> pl.DataFrame:
        """Return the recorded rows of a source, with its columns, ``_diff`` and ``_epoch``."""
        frames = [frame for name, frame in self._rows if name == source]
        columns = pl.Schema({**schema, DIFF: pl.Int64(), EPOCH: pl.UInt64()})
        return pl.concat([columns.to_frame(), *frames])

    def _last_epochs(self) -> list[_Epoch]:
        room = max(1, self._retain.epochs) - len(self._epochs)
        first = self._epochs[0][0] if len(self._epochs) else None
        return [*self._earlier.last(room, first), *self._epochs]


class RunRecorder:
    """Records the last epochs and their rows, within the limits of ``retain``.

    ``now`` returns the log at the end of an epoch, which later epochs do not change.
    """

    def __init__(self, retain: Retain, *, records_rows: bool) -> None:
        self.records_rows = records_rows
        self._unrecorded: dict[str, int] = {}
        self._retain = retain
        self._epochs: Recent[_Epoch] = Recent()
        self._rows: Recent[tuple[str, pl.DataFrame]] = Recent()
        self._height = 0
        self._earlier = _Earlier(None)
        self._complete_from = 1
        self._untimed: set[str] = set()
        """The sources without event time, whose rows are recorded too, and not counted."""

    def now(self) -> RunLog:
        """Return the log up to now."""
        unrecorded = dict(self._unrecorded)
        return RunLog(
            self.records_rows,
            unrecorded,
            self._retain,
            self._epochs.present,
            self._rows.present,
            self._earlier,
            self._complete_from,
        )

    def forked(self) -> RunRecorder:
        """Return a log with the same records, which continues independently."""
        other = RunRecorder(self._retain, records_rows=self.records_rows)
        other._epochs, other._rows = Recent(self._epochs), Recent(self._rows)
        other._unrecorded, other._height, other._earlier = dict(self._unrecorded), self._height, self._earlier
        other._complete_from, other._untimed = self._complete_from, set(self._untimed)
        return other

    def note(
        self,
        evaluated: EvaluatedEpoch,
        rows: Mapping[str, pl.DataFrame],
        untimed: Mapping[str, Delta],
    ) -> None:
        """Record an epoch: its processing time, the watermarks after it, and the rows that came, with diffs.

        ``untimed`` are the rows of sources without event time, which are never counted as unrecorded.
        """
        epoch = evaluated.now.epoch
        epochs = self._epochs.append((epoch, evaluated.now.processing_time, evaluated.watermarks))
        for _ in range(epochs - max(1, self._retain.epochs)):
            self._epochs.popleft()
        for source, frame in rows.items():
            if not self.records_rows:
                self._leave_out(source, frame.height)
            elif frame.height:
                self._keep(source, epoch, frame)
        if not self.records_rows:
            self._complete_from = epoch + 1
            return
        for source, delta in untimed.items():
            if delta.height:
                self._untimed.add(source)
                self._keep(source, epoch, delta.frame)

    def go_on(
        self, after: Noted, unrecorded: Mapping[str, int], older: Callable[[], Iterable[Noted]]
    ) -> None:
        """Begin after this epoch; those before it are read from ``older`` when they are needed.

        ``unrecorded`` counts the rows of each source that came before, none of which are recorded here.
        """
        self.clear()
        epoch, instant, marks = after
        if epoch:
            self._epochs.append((epoch, _time_of(instant), dict(marks)))
        self._unrecorded |= unrecorded
        self._earlier = _Earlier(older)
        self._complete_from = epoch + 1

    def rows_with(self, arrived: Mapping[str, pl.DataFrame]) -> dict[str, int]:
        """Return how many rows of each source have come, recorded or not, with these included."""
        counts = dict(self._unrecorded)
        for source, frame in (*self._rows, *arrived.items()):
            if source not in self._untimed:
                counts[source] = counts.get(source, 0) + frame.height
        return counts

    def forget(self, source: str) -> None:
        """Drop the count of a source that was dropped."""
        self._unrecorded.pop(source, None)
        self._untimed.discard(source)

    def clear(self) -> None:
        """Drop all records, since the plan was compiled again before any input."""
        self._epochs.clear()
        self._rows.clear()
        self._height = 0
        self._unrecorded.clear()
        self._untimed.clear()
        self._complete_from = 1

    def _keep(self, source: str, epoch: int, frame: pl.DataFrame) -> None:
        numbers = pl.Series(EPOCH, [epoch], pl.UInt64).new_from_index(0, frame.height)
        self._rows.append((source, pl.DataFrame([*frame.get_columns(), numbers])))
        self._height += frame.height
        while len(self._rows) and self._height > self._retain.rows:
            oldest, gone = self._rows.popleft()
            self._height -= gone.height
            self._complete_from = max(self._complete_from, gone.item(0, EPOCH) + 1)
            if oldest not in self._untimed:
                self._leave_out(oldest, gone.height)

    def _leave_out(self, source: str, rows: int) -> None:
        self._unrecorded[source] = self._unrecorded.get(source, 0) + rows


def _time_of(instant: int) -> datetime:
    """Return a recorded processing time as the datetime that it was."""
    time = time_of(instant)
    assert time is not None
    return time
