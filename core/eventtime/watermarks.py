"""How a source's watermark follows from its rows and from processing time: specifications, without state.

The watermark W asserts that no more rows with an event time below W will come. It is an estimate, except where the
source knows better: what is on time, and when, depends on it, and final results (within the allowed lateness) do not.

A specification is plain data, compared by value. What it has to remember is immutable too: it is handed in and a
new one is handed back, so an epoch that fails leaves no trace.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import date, datetime
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from ..clock import END_OF_TIME, START_OF_TIME
from ..errors import InputError, PlanError, first_line
from ..instants import instant_of, resolution, shown, spelled, time_of
from ..kernels import Ints, Mask, keep
from ..saved import NOTHING, Saved, is_plain
from ..schema import require_columns

SHOWN = 100
"""So many characters of a user's state are shown in a message."""


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


@dataclass(frozen=True)
class Watermark(ABC):
    """How a watermark is made. Rows dated more than ``future_limit`` after their batch do not move it."""

    future_limit: int | None = field(default=None, kw_only=True)

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


@dataclass(frozen=True)
class ByHand(Watermark):
    """Moved by whoever pushes, and by nothing else."""

    def advanced(self, memory: Any, arrived: Arrived) -> tuple[Any, int]:
        """No row says anything."""
        return None, START_OF_TIME

    def described(self, memory: Any, highest: int, instant: int) -> list[str]:
        """That it waits for a hand."""
        return ["it is only moved by hand: push(..., watermark=...) or advance(...)"]


@dataclass(frozen=True)
class BoundedDelay(Watermark):
    """W = highest event time so far - delay: rows are at most ``delay`` out of order."""

    delay: int = 0

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


@dataclass(frozen=True)
class Perfect(Watermark):
    """W = highest event time so far, and a row behind it is an error: the source is known to be in order."""

    def advanced(self, memory: Any, arrived: Arrived) -> tuple[Any, int]:
        """The highest event time."""
        return None, arrived.highest

    def described(self, memory: Any, highest: int, instant: int) -> list[str]:
        """The highest event time."""
        if highest == START_OF_TIME:
            return ["it is the highest event time, and no row has come yet"]
        return [f"it is the highest event time so far, {shown(highest)}; a row behind it is an error"]


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


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Lags:
    """A piece: how far the last rows were behind the highest event time before them, the youngest row last."""

    values: Ints

    def __len__(self) -> int:
        """Of how many rows."""
        return len(self.values)


@dataclass(frozen=True)
class Percentile(Watermark):
    """W = highest event time - the lag that a share ``share`` of the last ``window`` rows did not exceed.

        lag of a row = highest event time up to and with this row - its own, rows in the order in which they come
        W = highest - (the ceil(share * n)-th least of the lags of the last n <= window rows)

    So about 1 - share of the rows come late, and stragglers hold nothing back. Nothing is said before
    ``at_least`` rows have come. The estimate is made once per epoch. Cost: the rows and ``window``.
    """

    share: float = 1.0
    window: int = 1000
    at_least: int = 1

    @property
    def heeds_order(self) -> bool:
        """Lags are behind the rows before."""
        return True

    def start(self) -> Lags:
        """The lags of no rows."""
        return Lags(np.zeros(0, np.int64))

    def advanced(self, memory: Lags, arrived: Arrived) -> tuple[Lags, int]:
        """The lags of the last rows, and the highest event time less their quantile."""
        if not len(arrived.times):
            return memory, START_OF_TIME
        highest = np.maximum(np.maximum.accumulate(arrived.times), arrived.highest_before)
        lags = (highest - arrived.times)[-self.window :]
        # A row with diff n is n rows; of them all only the last `window` are kept.
        counts = arrived.counts[-self.window :]
        younger = np.cumsum(counts[::-1])[::-1] - counts
        lags = np.repeat(lags, np.clip(self.window - younger, 0, counts))
        memory = Lags(np.concatenate((memory.values, lags))[-self.window :])
        lag = self._quantile(memory)
        return memory, START_OF_TIME if lag is None else arrived.highest - lag

    def described(self, memory: Lags, highest: int, instant: int) -> list[str]:
        """The lag, and of how many rows."""
        share, lag = f"{self.share * 100:g} %", self._quantile(memory)
        if lag is None:
            return [f"it waits for {self.at_least} rows to estimate lag by, and {len(memory)} have come"]
        return [
            f"it is {spelled(lag)} behind the highest event time so far, {shown(highest)}: "
            f"no more than that lagged {share} of the last {len(memory)} rows"
        ]

    def held(self, memory: Lags) -> tuple[int, int]:
        """The lags."""
        return len(memory), memory.values.nbytes

    def memory_saved(self, where: str, memory: Lags) -> Saved:
        """The lags."""
        return Saved((memory,), {}) if len(memory) else NOTHING

    def memory_restored(self, saved: Saved) -> Lags:
        """The lags."""
        return saved.pieces[0] if saved.pieces else self.start()

    def columns_of(self, piece: Lags) -> pl.DataFrame:
        """The lags, in one column."""
        return pl.DataFrame({"lag": piece.values})

    def piece_of(self, columns: pl.DataFrame) -> Lags:
        """The lags of this column."""
        return Lags(columns.get_column("lag").to_numpy())

    def _quantile(self, lags: Lags) -> int | None:
        if len(lags) < max(self.at_least, 1):
            return None
        share = Fraction(str(self.share))
        rank = max(-(-len(lags) * share.numerator // share.denominator), 1)
        return int(np.partition(lags.values, rank - 1)[rank - 1])


@dataclass(frozen=True)
class Punctuated(Watermark):
    """W = the highest event time among rows in which ``column`` is true: each is a promise."""

    column: str = ""

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
                "pl.Boolean, true in a row whose event time is a promise"
            )


WatermarkFunction = Callable[[Any, pl.DataFrame, datetime], tuple[Any, date | int | None]]
"""(state, rows added, processing time) -> (new state, watermark or None for "nothing new")."""


@dataclass(frozen=True, eq=False)
class Custom(Watermark):
    """W = what a user's function says, which is called once per epoch; equal only to itself."""

    function: WatermarkFunction
    state: Any = None

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def heeds_order(self) -> bool:
        """The function may look at the first rows, or the last."""
        return True

    def start(self) -> tuple[Any, int]:
        """The user's state, and that nothing was said."""
        return self.state, START_OF_TIME

    def advanced(self, memory: tuple[Any, int], arrived: Arrived) -> tuple[tuple[Any, int], int]:
        """What the function says now, or said last."""
        state, said = memory
        processing_time = time_of(arrived.instant)
        assert processing_time is not None, "it was a datetime"
        where = f"{arrived.where}: the watermark function"
        try:
            # A copy, as the function may change what it is given and the epoch may fail.
            given = self.function(deepcopy(state), arrived.rows, processing_time)
        except Exception as error:
            raise InputError(
                f"{where} raised {type(error).__name__}: {first_line(error)}; nothing has changed"
            ) from error
        if not (isinstance(given, tuple) and len(given) == 2):
            raise InputError(f"{where} gave {given!r}; it must return (new state, watermark or None)")
        state, watermark = given
        if watermark is None:
            return (state, said), said
        if isinstance(watermark, date):
            watermark = instant_of(where, watermark, arrived.dtype)
        elif watermark != END_OF_TIME or isinstance(watermark, bool):
            raise InputError(
                f"{where} gave the watermark {watermark!r}; it must be a datetime, END_OF_TIME or None"
            )
        if watermark < said:
            raise InputError(
                f"{where} moved back from {shown(said)} to {shown(watermark)}; a watermark never does: "
                "keep the highest in the state, and return None if there is nothing new"
            )
        return (state, watermark), watermark

    def described(self, memory: tuple[Any, int], highest: int, instant: int) -> list[str]:
        """The function, and what it said last."""
        name = getattr(self.function, "__name__", repr(self.function))
        return [f"it is what {name} says, last {shown(memory[1])}"]

    def memory_saved(self, where: str, memory: tuple[Any, int]) -> Saved:
        """The user's state and what was said last; the state has to be one that JSON can hold."""
        state, said = memory
        if not is_plain(state):
            raise InputError(
                f"{where}: the state of the watermark function is {_shortened(state)}, which a checkpoint cannot keep; nothing "
                "has changed. Keep finite numbers, texts, lists and dicts with texts for keys in the state"
            )
        return Saved((), {"state": state, "said": said})

    def memory_restored(self, saved: Saved) -> tuple[Any, int]:
        """The user's state and what was said last."""
        facts = saved.facts
        return (facts["state"], facts["said"]) if "said" in facts else self.start()


def _shortened(value: object) -> str:
    said = repr(value)
    return said if len(said) <= SHOWN else f"{said[:SHOWN]}..."
