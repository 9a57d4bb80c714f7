"""A watermark behind the highest event time by a quantile of the lags of the last rows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl

from ...data.clock import START_OF_TIME
from ...data.columns.kernels import Ints
from ...data.instants import shown, spelled_briefly
from ...data.tags import tagged
from ...state.snapshot import NOTHING, Saved
from .kinds import Arrived, Watermark


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Lags:
    """A piece: how far the last rows were behind the highest event time before them, the newest row last."""

    values: Ints

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.values)


@tagged("core.eventtime.percentile_watermarks:Percentile")
@dataclass(frozen=True)
class Percentile(Watermark):
    """W = highest event time - the lag that a share ``share`` of the last ``window`` rows did not exceed.

        lag of a row = highest event time up to and with this row - its own, rows in the order in which they come
        W = highest - (the ceil(share * n)-th least of the lags of the last n <= window rows)

    So about 1 - share of the rows come late, and stragglers hold nothing back. W is unknown before ``at_least`` rows have
    come. The estimate is made once per epoch. Cost: the rows and ``window``.
    """

    share: float = 1.0
    window: int = 1000
    at_least: int = 1

    columns_read = ()

    @property
    def follows_processing_time(self) -> bool:
        """Return false, as only rows move it."""
        return False

    @property
    def depends_on_order(self) -> bool:
        """Return true, as lags are measured from the rows before."""
        return True

    def start(self) -> Lags:
        """Return the lags of no rows."""
        return Lags(np.zeros(0, np.int64))

    def advanced(self, memory: Lags, arrived: Arrived) -> tuple[Lags, int]:
        """Return the lags of the last rows, and the highest event time less their quantile."""
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
        """Describe the lag, and the number of rows."""
        share, lag = f"{self.share * 100:g} %", self._quantile(memory)
        if lag is None:
            return [f"it waits for {self.at_least} rows to estimate lag by, and {len(memory)} have come"]
        return [
            f"it is {spelled_briefly(lag)} behind the highest event time so far, {shown(highest)}: "
            f"no more than that lagged {share} of the last {len(memory)} rows"
        ]

    def held(self, memory: Lags) -> tuple[int, int]:
        """Return the number and the bytes of the lags."""
        return len(memory), memory.values.nbytes

    def memory_saved(self, where: str, memory: Lags) -> Saved:
        """Return the lags as a piece."""
        return Saved((memory,), {}) if len(memory) else NOTHING

    def memory_restored(self, saved: Saved) -> Lags:
        """Return the lags."""
        return saved.pieces[0] if saved.pieces else self.start()

    def columns_of(self, piece: Lags) -> pl.DataFrame:
        """Return the lags in one column."""
        return pl.DataFrame({"lag": piece.values})

    def piece_of(self, columns: pl.DataFrame) -> Lags:
        """Return the lags of this column."""
        return Lags(columns.get_column("lag").to_numpy())

    def _quantile(self, lags: Lags) -> int | None:
        if len(lags) < max(self.at_least, 1):
            return None
        share = Fraction(str(self.share))
        rank = max(-(-len(lags) * share.numerator // share.denominator), 1)
        return int(np.partition(lags.values, rank - 1)[rank - 1])
