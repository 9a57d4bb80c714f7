"""How a source's watermark follows from its rows and from processing time: specifications, without state.

The watermark W asserts that no more rows with an event time below W will come. It is an estimate, except where the
source knows better: what is on time, and when, depends on it, and final results (within the allowed lateness) do not.

A specification is plain data, compared by value. What it has to remember is immutable too: it is handed in and a
new one is handed back, so an epoch that fails leaves no trace.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from ...columns.kernels import Ints, Mask, keep
from ...data.clock import START_OF_TIME
from ...data.errors import PlanError
from ...data.instants import resolution, shown, spelled
from ...data.schema import require_columns
from ...data.tags import tagged
from ...state.snapshot import NOTHING, Saved


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """What one epoch says about event time: the rows that were added, in the order in which they came.

    Retractions and rows beyond the future limit are left out: ``frame`` has all rows with their diffs, ``added``
    tells those that count, None being all; ``times`` and ``counts`` are of these only. ``highest_before`` is the
    highest event time up to the epoch before, ``instant`` the epoch's processing time.
    """

    where: str
    frame: pl.DataFrame
    added: Mask | None
    times: Ints
    counts: Ints
    instant: int
    highest_before: int
    dtype: pl.DataType

    @property
    def highest(self) -> int:
        """The highest event time of all rows so far."""
        return max(self.highest_before, int(self.times.max())) if len(self.times) else self.highest_before

    @property
    def rows(self) -> pl.DataFrame:
        """The data columns."""
        rows = pl.DataFrame(self.frame.get_columns()[:-1])
        return rows if self.added is None else keep(rows, self.added)

    def column(self, name: str) -> pl.Series:
        """One of the data columns."""
        column = self.frame.get_column(name)
        return column if self.added is None else column.filter(pl.Series(self.added))


@tagged("core.eventtime.watermarks:Watermark")
@dataclass(frozen=True)
class Watermark(ABC):
    """How a watermark is made. Rows dated more than ``future_limit`` after their batch do not move it."""

    future_limit: int | None = field(default=None, kw_only=True)

    @property
    def follows_processing_time(self) -> bool:
        """Whether the watermark may move in an epoch that brings no rows."""
        return True

    @property
    def heeds_order(self) -> bool:
        """Whether it matters in which order the rows of an epoch come."""
        return False

    def start(self) -> Any:
        """What is remembered before any row."""
        return None

    @abstractmethod
    def advanced(self, memory: Any, arrived: Arrived) -> tuple[Any, int]:
        """What is remembered after these rows, and the watermark; a lower one than before counts for nothing."""

    @abstractmethod
    def described(self, memory: Any, highest: int, instant: int) -> list[str]:
        """In words, line by line: what the watermark is and what holds it at this processing time."""

    def require(self, where: str, schema: pl.Schema, *, appends: bool) -> None:
        """Check that a source with these columns can have this watermark; ``appends``: rows are only ever added.

        Raises:
            PlanError: names the column and the way out.
        """
        return

    def held(self, memory: Any) -> tuple[int, int]:
        """How many entries are remembered, and their bytes."""
        return 0, 0

    def memory_saved(self, where: str, memory: Any) -> Saved:
        """What is kept of the memory between processes: pieces, and plain facts.

        Raises:
            InputError: it cannot be kept; names ``where``.
        """
        return NOTHING

    def memory_restored(self, saved: Saved) -> Any:
        """The inverse of ``memory_saved``; of nothing, what is remembered before any row."""
        return self.start()

    def columns_of(self, piece: Any) -> pl.DataFrame:
        """A piece of the memory as columns, to be written."""
        raise AssertionError(f"{type(self).__name__} remembers no pieces")

    def piece_of(self, columns: pl.DataFrame) -> Any:
        """The piece that these are the columns of."""
        raise AssertionError(f"{type(self).__name__} remembers no pieces")


@tagged("core.eventtime.watermarks:ByHand")
@dataclass(frozen=True)
class ByHand(Watermark):
    """Moved by whoever pushes, and by nothing else."""

    @property
    def follows_processing_time(self) -> bool:
        """Only by hand."""
        return False

    def advanced(self, memory: Any, arrived: Arrived) -> tuple[Any, int]:
        """No row says anything."""
        return None, START_OF_TIME

    def described(self, memory: Any, highest: int, instant: int) -> list[str]:
        """That it waits for a hand."""
        return ["it is only moved by hand: push(..., watermark=...) or advance(...)"]


@tagged("core.eventtime.watermarks:BoundedDelay")
@dataclass(frozen=True)
class BoundedDelay(Watermark):
    """W = highest event time so far - delay: rows are at most ``delay`` out of order."""

    delay: int = 0

    @property
    def follows_processing_time(self) -> bool:
        """Only rows move it."""
        return False

    def advanced(self, memory: Any, arrived: Arrived) -> tuple[Any, int]:
        """The highest event time less the delay."""
        return None, self.of(arrived.highest)

    def marks(self, arrived: Arrived) -> Ints:
        """What each row says: its event time."""
        return arrived.times

    def of(self, mark: int) -> int:
        """The watermark, given the highest mark."""
        return mark - self.delay if mark > START_OF_TIME else START_OF_TIME

    def described(self, memory: Any, highest: int, instant: int) -> list[str]:
        """The highest event time and the delay."""
        if highest == START_OF_TIME:
            return [f"it follows the highest event time by {spelled(self.delay)}, and no row has come yet"]
        return [f"it is {spelled(self.delay)} behind the highest event time so far, {shown(highest)}"]


@tagged("core.eventtime.watermarks:Perfect")
@dataclass(frozen=True)
class Perfect(Watermark):
    """W = highest event time so far, and a row behind it is an error: the source is known to be in order."""

    @property
    def follows_processing_time(self) -> bool:
        """Only rows move it."""
        return False

    def advanced(self, memory: Any, arrived: Arrived) -> tuple[Any, int]:
        """The highest event time."""
        return None, arrived.highest

    def described(self, memory: Any, highest: int, instant: int) -> list[str]:
        """The highest event time."""
        if highest == START_OF_TIME:
            return ["it is the highest event time, and no row has come yet"]
        return [f"it is the highest event time so far, {shown(highest)}; a row behind it is an error"]


@tagged("core.eventtime.watermarks:BehindProcessingTime")
@dataclass(frozen=True)
class BehindProcessingTime(Watermark):
    """W = processing time - delay, whatever the rows say: it moves without rows too."""

    delay: int = 0

    def advanced(self, memory: Any, arrived: Arrived) -> tuple[Any, int]:
        """The processing time less the delay."""
        return None, arrived.instant - self.delay

    def described(self, memory: Any, highest: int, instant: int) -> list[str]:
        """The processing time and the delay."""
        return [f"it is {spelled(self.delay)} behind processing time, {shown(instant)}"]


@tagged("core.eventtime.watermarks:IngressTime")
@dataclass(frozen=True)
class IngressTime(Watermark):
    """Event time is the processing time of the batch, stamped on each row; so W is, and no row is ever late."""

    def advanced(self, memory: Any, arrived: Arrived) -> tuple[Any, int]:
        """The processing time, as precisely as the column of event time has it."""
        return None, arrived.instant - arrived.instant % resolution(arrived.dtype)

    def described(self, memory: Any, highest: int, instant: int) -> list[str]:
        """The processing time."""
        return [f"it is processing time, {shown(instant)}, and rows are stamped with it"]

    def require(self, where: str, schema: pl.Schema, *, appends: bool) -> None:
        """Rows may only be added: a retraction would be stamped with another time than its row."""
        if not appends:
            raise PlanError(
                f"{where}: watermark=ingress_time() stamps each row with the processing time of its batch, so a "
                "retraction never finds the row that it takes back; use kind='append', or a column of event time"
            )


@tagged("core.eventtime.watermarks:Punctuated")
@dataclass(frozen=True)
class Punctuated(Watermark):
    """W = the highest event time among rows in which ``column`` is true: each is a promise."""

    column: str = ""

    @property
    def follows_processing_time(self) -> bool:
        """Only rows move it."""
        return False

    def start(self) -> int:
        """Nothing promised."""
        return START_OF_TIME

    def advanced(self, memory: int, arrived: Arrived) -> tuple[int, int]:
        """The latest promise."""
        promised = max(memory, int(self.marks(arrived).max(initial=START_OF_TIME)))
        return promised, promised

    def marks(self, arrived: Arrived) -> Ints:
        """What each row says: its event time if it is a promise, else nothing."""
        flags = arrived.column(self.column)
        promises: Mask = (flags.fill_null(False) if flags.has_nulls() else flags).to_numpy()
        return np.where(promises, arrived.times, START_OF_TIME)

    def of(self, mark: int) -> int:
        """The watermark, given the highest mark."""
        return mark

    def memory_saved(self, where: str, memory: int) -> Saved:
        """The latest promise."""
        return Saved((), {"promised": memory})

    def memory_restored(self, saved: Saved) -> int:
        """The latest promise."""
        promised: int = saved.facts.get("promised", START_OF_TIME)
        return promised

    def described(self, memory: int, highest: int, instant: int) -> list[str]:
        """The latest promise."""
        if memory == START_OF_TIME:
            return [f"it waits for a row in which {self.column!r} is true"]
        return [f"it is the highest event time of the rows in which {self.column!r} is true, {shown(memory)}"]

    def require(self, where: str, schema: pl.Schema, *, appends: bool) -> None:
        """The column is there and Boolean."""
        require_columns(f"{where}: watermark=punctuated()", schema, [self.column])
        if schema[self.column] != pl.Boolean:
            raise PlanError(
                f"{where}: watermark=punctuated({self.column!r}): the column is {schema[self.column]}; it must be "
                "pl.Boolean, true in a row whose event time is a watermark"
            )
