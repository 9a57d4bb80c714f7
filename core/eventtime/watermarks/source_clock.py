"""The clock of a source: event times of rows move it, and rows without event time go to the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ...data.clock import END_OF_TIME, START_OF_TIME, Collect, MovedClock, Now
from ...data.columns.json_texts import shown_row
from ...data.columns.kernels import Ints, Mask, frame_of, keep, series_of
from ...data.delta import Delta
from ...data.errors import InputError
from ...data.instants import (
    can_hold,
    column_of_instants,
    instants_in,
    resolution,
    shown,
    spelled,
    spelled_briefly,
)
from ...data.tags import tagged
from ...state.ledger import Ledger, Refused
from ...state.operator_contract import Operator
from ...state.partitioning import ONE, Route
from ...state.protocol import KeptIn
from ...state.snapshot import Saved
from .kinds import Arrived, Watermark

NO_TIMES = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class _Progress:
    """The progress of a source's event time after one epoch.

    ``highest`` is the highest event time of rows that count, ``ahead`` the number of those beyond the future limit, which
    do not; ``promised`` is the watermark by hand, ``memory`` the memory of the specification.
    """

    memory: Any
    watermark: int = START_OF_TIME
    highest: int = START_OF_TIME
    ahead: int = 0
    promised: int = START_OF_TIME


FACTS = {
    "watermark": "watermark",
    "highest": "highest",
    "ahead": "ahead",
    "promised": "promised",
}
"""The saved facts of a source's event time, without the specification's memory: the fact, and its field."""


class SourceClock(MovedClock):
    """The watermark of a source: before this epoch and after its rows. Never moves back.

        W(after) = max(W(before), the specification's watermark after the rows, the watermark by hand)

    It is a state: the changes of an epoch are staged, and dropped if the epoch fails. It is not a spine, as it has no keys:
    a few numbers, and the memory of the specification.
    """

    route: Route | None = ONE
    kept_in: KeptIn = "driver"

    def __init__(self, source: str, specification: Watermark) -> None:
        self.specification = specification
        self._where = f"source {source!r}"
        self._collect: Collect | None = None
        self._committed = _Progress(specification.start())
        self._staged: _Progress | None = None
        self._promised: int | None = None

    @property
    def before(self) -> int:
        """Return the watermark as of the last commit."""
        self._check("before")
        return self._committed.watermark if self._pinned is None else self._pinned[0]

    @property
    def now(self) -> int:
        """Return the watermark after the rows of this epoch or, between epochs, of the last one."""
        self._check("now")
        return self._latest.watermark if self._pinned is None else self._pinned[1]

    def collect(self, collect: Collect) -> None:
        """See ``MovedClock``: of the rows of an epoch, those are handed on that the specification needs."""
        self._collect = collect

    @property
    def form(self) -> tuple[object, ...]:
        """See ``MovedClock``: its memory is that of the specification."""
        return "clock", self.specification

    @property
    def highest(self) -> int:
        """Return the highest event time of the rows so far that move the watermark."""
        return self._latest.highest

    @property
    def rows_ahead(self) -> int:
        """Return how many rows did not move the watermark, as they are beyond the future limit."""
        return self._latest.ahead

    def skew(self, instant: int) -> int | None:
        """Return processing time less the watermark, in microseconds; None while the watermark is not a time."""
        watermark = self._latest.watermark
        return instant - watermark if START_OF_TIME < watermark < END_OF_TIME else None

    @property
    def wakes_on_time(self) -> bool:
        """Return whether it may move in this epoch without rows, by processing time or by hand."""
        return self._promised is not None or self.specification.follows_processing_time

    def promise(self, watermark: int) -> None:
        """Stage a watermark by hand, to be set after the rows of the epoch; call this before the epoch is evaluated.

        Raises:
            InputError: it would move back; nothing has changed.
        """
        latest = self.before if self._promised is None else max(self.before, self._promised)
        if watermark < latest:
            raise InputError(
                f"{self._where}: the watermark cannot move back from {shown(latest)} to {shown(watermark)}; nothing has "
                "changed. Rows behind it can be pushed all the same, without watermark="
            )
        self._promised = watermark

    def advance(self, now: Now, delta: Delta, times: Ints, dtype: pl.DataType) -> None:
        """Stage the progress by these rows with these event times. Call it once per epoch, with or without rows."""
        if self._collect is not None:
            if len(times):
                self._collect(*self.specification.evidence(now.instant, delta, times))
            return
        assert self._staged is None, "advanced twice in one epoch"
        if not (len(times) or self.wakes_on_time):
            return
        then, instant = self._committed, now.instant
        added, ahead, diffs = None, 0, NO_TIMES
        if len(times):
            diffs = delta.diffs
            added, ahead = self._counting(diffs, times, instant)
        if added is not None:
            times, diffs = times[added], diffs[added]
        arrived = Arrived(self._where, delta, added, times, diffs, instant, then.highest, dtype)
        memory, watermark = self.specification.advanced(then.memory, arrived)
        promised = then.promised if self._promised is None else self._promised
        self._staged = _Progress(
            memory=memory,
            watermark=max(then.watermark, watermark, promised),
            highest=arrived.highest,
            ahead=then.ahead + ahead,
            promised=promised,
        )

    def _counting(self, diffs: Ints, times: Ints, instant: int) -> tuple[Mask | None, int]:
        """Return the entries that move the watermark (None: all), and how many rows do not, as they are too far ahead."""
        added = diffs > 0
        limit, ahead = self.specification.future_limit, 0
        if limit is not None:
            beyond = added & (times > instant + limit)
            ahead = int(diffs[beyond].sum())
            added &= ~beyond
        return (None if added.all() else added), ahead

    def commit(self) -> None:
        """Make what was staged the state."""
        if self._staged is not None:
            self._committed = self._staged
        self.discard()

    def discard(self) -> None:
        """Drop what was staged, watermarks by hand included."""
        self._staged, self._promised = None, None

    @property
    def entries(self) -> int:
        """Return the number of entries in the specification's memory, such as partitions and lags."""
        return self.specification.held(self._committed.memory)[0]

    @property
    def nbytes(self) -> int:
        """Return the bytes of these entries."""
        return self.specification.held(self._committed.memory)[1]

    def saved(self) -> Saved:
        """See ``State``: the facts of the progress, and the pieces of the specification's memory."""
        latest = self._latest
        memory = self.specification.memory_saved(self._where, latest.memory)
        facts = {fact: getattr(latest, field) for fact, field in FACTS.items()}
        return Saved(memory.pieces, {**facts, "memory": memory.facts})

    def restore(self, saved: Saved) -> None:
        """See ``State``."""
        memory = Saved(saved.pieces, saved.facts.get("memory", {}))
        facts = {field: saved.facts[fact] for fact, field in FACTS.items() if fact in saved.facts}
        self._committed = _Progress(self.specification.memory_restored(memory), **facts)
        self.discard()

    def columns_of(self, piece: Any) -> pl.DataFrame:
        """See ``State``."""
        return self.specification.columns_of(piece)

    def piece_of(self, columns: pl.DataFrame) -> Any:
        """See ``State``."""
        return self.specification.piece_of(columns)

    def describe(self, instant: int) -> list[str]:
        """Describe line by line where the watermark is at this processing time, and what holds it there."""
        then = self._committed
        lines = [f"the watermark of {self._where} is at {shown(then.watermark)}{self._behind(instant)}"]
        if then.watermark > START_OF_TIME and then.watermark == then.promised:
            lines.append("it was moved there by hand")
        lines += self.specification.described(then.memory, then.highest, instant)
        if then.ahead:
            assert self.specification.future_limit is not None
            lines.append(
                f"rows dated more than {spelled(self.specification.future_limit)} after the processing time of their batch "
                f"are kept and do not move it; so far {then.ahead}"
            )
        return lines

    def _behind(self, instant: int) -> str:
        skew = self.skew(instant)
        if skew is None:
            return ""
        return f", {spelled_briefly(abs(skew))} {'behind' if skew >= 0 else 'ahead of'} processing time"

    @property
    def _latest(self) -> _Progress:
        return self._committed if self._staged is None else self._staged


@tagged("core.eventtime.arrival:Arrive")
class Arrive(Operator):
    """Moves the clock of a source by the event times of its rows, and passes the rows on.

    A row without event time, or with one too far from 1970 to compute with, is refused into the ledger. Retractions do not
    move the watermark. Some clocks move without rows: those that follow processing time, and any by hand. Cost: the rows,
    and the cost of the specification.
    """

    may_wake = True
    role = "watermark"
    is_replayable = False

    def __init__(
        self, source: str, schema: pl.Schema, event_time: str, ledger: Ledger, clock: SourceClock
    ) -> None:
        self.schema = schema
        self.clock = clock
        self._source = source
        self._event_time = event_time
        self._time_type = schema[event_time]
        self._ledger = ledger

    @property
    def moved_clock(self) -> MovedClock | None:
        """Return the clock of the source."""
        return self.clock

    def move_clock(self, now: Now, delta: Delta | None, times: Ints) -> None:
        """Move the clock by rows that arrived elsewhere."""
        self.clock.advance(now, Delta.empty(self.schema) if delta is None else delta, times, self._time_type)

    def wakes_on_time(self, now: Now) -> bool:
        """Return whether the clock may move without rows."""
        return self.clock.wakes_on_time

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the change without refused rows, and advance the clock by it."""
        (delta,) = deltas
        if now.epoch == 0:
            return delta  # Before any input, no time has passed.
        times = NO_TIMES
        if len(delta):
            delta, times = self._timed(now, delta)
        self.clock.advance(now, delta, times, self._time_type)
        return delta

    def _timed(self, now: Now, delta: Delta) -> tuple[Delta, Ints]:
        """Return the accepted rows, and their event times."""
        if self.clock.specification.stamps_rows:
            delta = self._stamped(now, delta)
        times, usable = instants_in(series_of(delta.column(self._event_time)))
        if usable is not None:
            _refuse_untimed(now, self._source, self._event_time, self._ledger, delta, ~usable)
            delta, times = Delta(keep(delta.frame, usable), delta.is_consolidated), times[usable]
        if self.clock.specification.refuses_rows_behind:
            self._require_in_order(delta, times)
        return delta, times

    def _require_in_order(self, delta: Delta, times: Ints) -> None:
        behind = np.flatnonzero((times < self.clock.before) & (delta.diffs > 0))
        if len(behind):
            place = int(behind[0])
            raise InputError(
                f"source {self._source!r}: column {self._event_time!r}: the row {shown_row(delta.rows, place)} is "
                f"behind the watermark, {shown(self.clock.before)} ({len(behind)} such in this batch), and the source was "
                "declared perfect(); nothing has changed. Leave them out, or declare the source with bounded_delay(...)"
            )

    def _stamped(self, now: Now, delta: Delta) -> Delta:
        """Return the rows with processing time as event time, or with the watermark if processing time went back."""
        instant, step = now.instant, resolution(self._time_type)
        instant -= instant % step
        if instant < self.clock.before < END_OF_TIME:
            instant = -(-self.clock.before // step) * step
        if not can_hold(self._time_type, instant):
            raise InputError(
                f"source {self._source!r}: processing time {shown(instant)} does not fit column {self._event_time!r}, which is "
                f"{self._time_type}; declare it as pl.Datetime('us'). Nothing has changed"
            )
        column = column_of_instants(self._event_time, np.full(len(delta), instant), self._time_type)
        columns = [
            column if name == self._event_time else delta.frame.get_column(name)
            for name in delta.frame.columns
        ]
        return Delta(frame_of(columns))


@tagged("core.eventtime.arrival:RefuseUntimed")
class RefuseUntimed(Operator):
    """Refuses the rows that ``Arrive`` would refuse, before an upsert source, in which they would replace a row.

    Deletions have only their key, and are passed on.
    """

    def __init__(self, source: str, schema: pl.Schema, event_time: str, ledger: Ledger) -> None:
        self.schema = schema
        self._source = source
        self._event_time = event_time
        self._ledger = ledger

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the change without refused rows."""
        (delta,) = deltas
        _, usable = instants_in(series_of(delta.column(self._event_time)))
        refused = None if usable is None else ~usable & (delta.diffs > 0)
        if refused is None or not refused.any():
            return delta
        _refuse_untimed(now, self._source, self._event_time, self._ledger, delta, refused)
        return Delta(keep(delta.frame, ~refused), delta.is_consolidated)


def _refuse_untimed(
    now: Now, source: str, event_time: str, ledger: Ledger, delta: Delta, refused: Mask
) -> None:
    """Enter rows into the ledger: those without event time, and those too far from 1970 to compute with."""
    nulls = refused & delta.frame.get_column(event_time).is_null().to_numpy()
    far = refused & ~nulls
    name = repr(event_time)
    for rows, reason in (
        (
            nulls,
            f"event time {name} is null; give the row a time, for example with .fill_null(...), and push it again",
        ),
        (
            far,
            f"event time {name} is too far from 1970 to count with; mend the time and push the row again",
        ),
    ):
        if rows.any():
            ledger.stage(Refused(now.epoch, source, reason, keep(delta.frame, rows)))
