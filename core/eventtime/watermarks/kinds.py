"""Kinds of watermarks: specifications, without state, of how a watermark follows from rows and processing time.

The watermark W asserts that no more rows with an event time below W will come. Unless the source guarantees it, it is an
estimate: the times of panes depend on it, and final results (within the allowed lateness) do not.

A specification is plain data, compared by value. Its memory is immutable too: it is passed in, and a new one is returned,
so an epoch that fails leaves no trace.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import polars as pl

from ...data.clock import START_OF_TIME
from ...data.columns.kernels import Index, Ints, Mask, frame_of, gather, keep, series_of
from ...data.columns.nulls import nulls_as
from ...data.delta import Delta
from ...data.errors import PlanError
from ...data.instants import resolution, shown, spelled
from ...data.schema import DIFF, require_columns
from ...data.tags import tagged
from ...state.snapshot import NOTHING, Saved


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """The rows of one epoch that may move a watermark: those that were added, in the order in which they came.

    Retractions and rows beyond the future limit do not count: ``delta`` has all rows with their diffs, ``added`` selects
    those that count, None being all; ``times`` and ``counts`` are of these only. ``highest_before`` is the
    highest event time up to the epoch before, ``instant`` the epoch's processing time.
    """

    where: str
    delta: Delta
    added: Mask | None
    times: Ints
    counts: Ints
    instant: int
    highest_before: int
    dtype: pl.DataType

    @property
    def highest(self) -> int:
        """Return the highest event time of all rows so far."""
        return max(self.highest_before, int(self.times.max())) if len(self.times) else self.highest_before

    @property
    def rows(self) -> pl.DataFrame:
        """Return the data columns."""
        rows = self.delta.rows
        return rows if self.added is None else keep(rows, self.added)

    def column(self, name: str) -> pl.Series:
        """Return one of the data columns."""
        column = series_of(self.delta.column(name))
        return column if self.added is None else column.filter(pl.Series(self.added))


@tagged("core.eventtime.watermarks:Watermark")
@dataclass(frozen=True)
class Watermark(ABC):
    """The specification of a watermark. Rows dated more than ``future_limit`` after their batch do not move it.

    >>> import evercurrent as ec
    >>> watermark: ec.Watermark = ec.bounded_delay("10 minutes")
    >>> watermark == ec.bounded_delay("600s"), watermark == ec.ascending()
    (True, False)
    """

    future_limit: int | None = field(default=None, kw_only=True)

    is_of_highest: ClassVar[bool] = False
    """Whether the row with the highest event time of those that count alone moves it as all do."""

    has_marks: ClassVar[bool] = False
    """Whether it follows from the highest of the ``marks`` of the rows, and so can be one for each partition."""

    stamps_rows: ClassVar[bool] = False
    """Whether the event time of a row is the processing time of its batch."""

    refuses_rows_behind: ClassVar[bool] = False
    """Whether a row behind the watermark is an error."""

    is_by_hand: ClassVar[bool] = False
    """Whether it is moved by ``push`` and ``advance`` only."""

    @property
    def follows_processing_time(self) -> bool:
        """Return whether the watermark may move in an epoch that brings no rows."""
        return True

    @property
    def depends_on_order(self) -> bool:
        """Return whether the order of the rows of an epoch matters."""
        return False

    @property
    def columns_read(self) -> tuple[str, ...] | None:
        """Return the columns of a row by which it moves, event time aside; None: it may read all."""
        return None

    def evidence(self, instant: int, delta: Delta, times: Ints) -> tuple[pl.DataFrame, Ints]:
        """Return the rows with diffs that may move it, with the columns that it reads, and their event times."""
        frame = rows = delta.frame
        if self.columns_read is not None:
            rows = frame_of([frame.get_column(name) for name in (*self.columns_read, DIFF)])
        if not self.is_of_highest:
            return rows, times
        places = self._highest(instant, delta.diffs, times)
        return gather(rows, places), times[places]

    def _highest(self, instant: int, diffs: Ints, times: Ints) -> Index:
        """Return the row with the highest event time that counts, and those that are too far ahead to count."""
        added = diffs > 0
        beyond = np.zeros(len(times), np.bool_)
        if self.future_limit is not None:
            beyond = added & (times > instant + self.future_limit)
        counting = np.flatnonzero(added & ~beyond)
        highest = counting[[np.argmax(times[counting])]] if len(counting) else counting
        return np.sort(np.concatenate([highest, np.flatnonzero(beyond)]))

    def marks(self, arrived: Arrived) -> Ints:
        """Return the mark of each row, if the watermark ``has_marks``."""
        raise AssertionError(f"{type(self).__name__} has no marks")

    def of(self, mark: int) -> int:
        """Return the watermark, given the highest mark, if it ``has_marks``."""
        raise AssertionError(f"{type(self).__name__} has no marks")

    def start(self) -> Any:
        """Return the memory before any row."""
        return None

    @abstractmethod
    def advanced(self, memory: Any, arrived: Arrived) -> tuple[Any, int]:
        """Return the memory after these rows, and the watermark; one that is lower than before is ignored."""

    @abstractmethod
    def described(self, memory: Any, highest: int, instant: int) -> list[str]:
        """Describe line by line what the watermark is and what holds it at this processing time."""

    def require(self, where: str, schema: pl.Schema, *, appends: bool) -> None:
        """Check that a source with these columns can have this watermark; ``appends``: rows are only ever added.

        Raises:
            PlanError: it cannot; names the column and the remedy.
        """
        return

    def held(self, memory: Any) -> tuple[int, int]:
        """Return the number of entries in the memory, and their bytes."""
        return 0, 0

    def memory_saved(self, where: str, memory: Any) -> Saved:
        """Return the memory in its saved form: pieces, and plain facts.

        Raises:
            InputError: it cannot be kept; names ``where``.
        """
        return NOTHING

    def memory_restored(self, saved: Saved) -> Any:
        """Return the inverse of ``memory_saved``; without anything saved, the memory before any row."""
        return self.start()

    def columns_of(self, piece: Any) -> pl.DataFrame:
        """Return a piece of the memory as columns, to be written."""
        raise AssertionError(f"{type(self).__name__} remembers no pieces")

    def piece_of(self, columns: pl.DataFrame) -> Any:
        """Return the piece with these columns."""
        raise AssertionError(f"{type(self).__name__} remembers no pieces")


@tagged("core.eventtime.watermarks:ByHand")
@dataclass(frozen=True)
class ByHand(Watermark):
    """A watermark that is moved by ``push`` and ``advance`` only."""

    is_by_hand = True
    columns_read = ()
    is_of_highest = True

    @property
    def follows_processing_time(self) -> bool:
        """Return false, as it is moved by hand only."""
        return False

    def advanced(self, memory: Any, arrived: Arrived) -> tuple[Any, int]:
        """Return an unknown watermark, as rows do not move it."""
        return None, START_OF_TIME

    def described(self, memory: Any, highest: int, instant: int) -> list[str]:
        """Describe that it is moved by hand."""
        return ["it is only moved by hand: push(..., watermark=...) or advance(...)"]


@tagged("core.eventtime.watermarks:BoundedDelay")
@dataclass(frozen=True)
class BoundedDelay(Watermark):
    """W = highest event time so far - delay: rows are at most ``delay`` out of order."""

    has_marks = True
    columns_read = ()
    is_of_highest = True

    delay: int = 0

    @property
    def follows_processing_time(self) -> bool:
        """Return false, as only rows move it."""
        return False

    def advanced(self, memory: Any, arrived: Arrived) -> tuple[Any, int]:
        """Return the highest event time less the delay."""
        return None, self.of(arrived.highest)

    def marks(self, arrived: Arrived) -> Ints:
        """Return the mark of each row: its event time."""
        return arrived.times

    def of(self, mark: int) -> int:
        """Return the watermark, given the highest mark."""
        return mark - self.delay if mark > START_OF_TIME else START_OF_TIME

    def described(self, memory: Any, highest: int, instant: int) -> list[str]:
        """Describe the highest event time and the delay."""
        if highest == START_OF_TIME:
            return [f"it follows the highest event time by {spelled(self.delay)}, and no row has come yet"]
        return [f"it is {spelled(self.delay)} behind the highest event time so far, {shown(highest)}"]


@tagged("core.eventtime.watermarks:Perfect")
@dataclass(frozen=True)
class Perfect(Watermark):
    """W = highest event time so far, and a row behind it is an error: the source is known to be in order."""

    refuses_rows_behind = True
    columns_read = ()
    is_of_highest = True

    @property
    def follows_processing_time(self) -> bool:
        """Return false, as only rows move it."""
        return False

    def advanced(self, memory: Any, arrived: Arrived) -> tuple[Any, int]:
        """Return the highest event time."""
        return None, arrived.highest

    def described(self, memory: Any, highest: int, instant: int) -> list[str]:
        """Describe the highest event time."""
        if highest == START_OF_TIME:
            return ["it is the highest event time, and no row has come yet"]
        return [f"it is the highest event time so far, {shown(highest)}; a row behind it is an error"]


@tagged("core.eventtime.watermarks:BehindProcessingTime")
@dataclass(frozen=True)
class BehindProcessingTime(Watermark):
    """W = processing time - delay, whatever the rows hold: it moves without rows too."""

    columns_read = ()
    is_of_highest = True

    delay: int = 0

    def advanced(self, memory: Any, arrived: Arrived) -> tuple[Any, int]:
        """Return the processing time less the delay."""
        return None, arrived.instant - self.delay

    def described(self, memory: Any, highest: int, instant: int) -> list[str]:
        """Describe the processing time and the delay."""
        return [f"it is {spelled(self.delay)} behind processing time, {shown(instant)}"]


@tagged("core.eventtime.watermarks:IngressTime")
@dataclass(frozen=True)
class IngressTime(Watermark):
    """Event time is the processing time of the batch, stamped on each row; W is the same, and no row is ever late."""

    stamps_rows = True
    columns_read = ()
    is_of_highest = True

    def advanced(self, memory: Any, arrived: Arrived) -> tuple[Any, int]:
        """Return the processing time, in the precision of the column of event time."""
        return None, arrived.instant - arrived.instant % resolution(arrived.dtype)

    def described(self, memory: Any, highest: int, instant: int) -> list[str]:
        """Describe the processing time."""
        return [f"it is processing time, {shown(instant)}, and rows are stamped with it"]

    def require(self, where: str, schema: pl.Schema, *, appends: bool) -> None:
        """Check that rows are only added, as a retraction would be stamped with another time than its row."""
        if not appends:
            raise PlanError(
                f"{where}: watermark=ingress_time() stamps each row with the processing time of its batch, so a "
                "retraction never meets the row that it retracts; use kind='append', or a column of event time"
            )


@tagged("core.eventtime.watermarks:Punctuated")
@dataclass(frozen=True)
class Punctuated(Watermark):
    """W = the highest event time among rows in which ``column`` is true, each of which is a punctuation."""

    has_marks = True

    column: str = ""

    @property
    def follows_processing_time(self) -> bool:
        """Return false, as only rows move it."""
        return False

    @property
    def columns_read(self) -> tuple[str, ...]:
        """Return the column of punctuations."""
        return (self.column,)

    def start(self) -> int:
        """Return an unknown watermark."""
        return START_OF_TIME

    def advanced(self, memory: int, arrived: Arrived) -> tuple[int, int]:
        """Return the latest punctuation, as memory and as watermark."""
        promised = max(memory, int(self.marks(arrived).max(initial=START_OF_TIME)))
        return promised, promised

    def marks(self, arrived: Arrived) -> Ints:
        """Return the mark of each row: its event time if it is a punctuation, else the start of time."""
        flags = arrived.column(self.column)
        promises: Mask = nulls_as(False, flags).to_numpy()
        return np.where(promises, arrived.times, START_OF_TIME)

    def of(self, mark: int) -> int:
        """Return the watermark, given the highest mark."""
        return mark

    def memory_saved(self, where: str, memory: int) -> Saved:
        """Return the latest punctuation as a fact."""
        return Saved((), {"promised": memory})

    def memory_restored(self, saved: Saved) -> int:
        """Return the latest punctuation."""
        promised: int = saved.facts.get("promised", START_OF_TIME)
        return promised

    def described(self, memory: int, highest: int, instant: int) -> list[str]:
        """Describe the latest punctuation."""
        if memory == START_OF_TIME:
            return [f"it waits for a row in which {self.column!r} is true"]
        return [f"it is the highest event time of the rows in which {self.column!r} is true, {shown(memory)}"]

    def require(self, where: str, schema: pl.Schema, *, appends: bool) -> None:
        """Check that the column exists and is Boolean."""
        require_columns(f"{where}: watermark=punctuated()", schema, [self.column])
        if schema[self.column] != pl.Boolean:
            raise PlanError(
                f"{where}: watermark=punctuated({self.column!r}): the column is {schema[self.column]}; it must be "
                "pl.Boolean, true in a row whose event time is a watermark"
            )
