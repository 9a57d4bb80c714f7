"""What rows say about the clock of their source, where the clock itself is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from evercurrent.core.clock import Now
from evercurrent.core.delta import Delta
from evercurrent.core.eventtime.arrival import SourceClock
from evercurrent.core.eventtime.custom_watermarks import Custom
from evercurrent.core.eventtime.partition_watermarks import ByPartition
from evercurrent.core.eventtime.percentile_watermarks import Percentile
from evercurrent.core.eventtime.watermarks import Punctuated, Watermark
from evercurrent.core.kernels import Index, Ints, gather
from evercurrent.core.schema import DIFF


@dataclass(frozen=True, slots=True, eq=False)
class Witness:
    """Rows with diffs that may move a clock, in the order in which they came, and their event times."""

    frame: pl.DataFrame
    times: Ints

    @staticmethod
    def together(parts: list[Witness]) -> Witness:
        """What several say, one after the other."""
        return Witness(
            pl.concat([part.frame for part in parts]), np.concatenate([part.times for part in parts])
        )


class Witnessing:
    """Stands in for a source's clock where rows arrive: keeps what they say, for whoever has the clock."""

    def __init__(self, clock: SourceClock) -> None:
        self.clock = clock
        self.specification = clock.specification
        self.told: Witness | None = None

    @property
    def before(self) -> int:
        """The watermark as of the last commit."""
        return self.clock.before

    @property
    def now(self) -> int:
        """The watermark after the rows of this epoch, once it is known."""
        return self.clock.now

    def advance(self, now: Now, delta: Delta, times: Ints, dtype: pl.DataType) -> None:
        """Keep what these rows say."""
        self.told = _telling(self.specification, now, delta, times) if len(times) else None


def _telling(specification: Watermark, now: Now, delta: Delta, times: Ints) -> Witness:
    """The rows that may move the clock: of most specifications the one with the highest event time tells all."""
    frame = delta.frame
    if isinstance(specification, Custom):
        return Witness(frame, times)
    columns = [frame.get_column(name) for name in _columns_read(specification)]
    told = pl.DataFrame([*columns, frame.get_column(DIFF)])
    if isinstance(specification, Percentile | Punctuated | ByPartition):
        return Witness(told, times)
    places = _highest(specification, now, delta.diffs, times)
    return Witness(gather(told, places), times[places])


def _columns_read(specification: Watermark) -> list[str]:
    match specification:
        case ByPartition(column=column, inner=inner):
            return list(dict.fromkeys([column, *_columns_read(inner)]))
        case Punctuated(column=column):
            return [column]
        case _:
            return []


def _highest(specification: Watermark, now: Now, diffs: Ints, times: Ints) -> Index:
    """The row with the highest event time that counts, and those that are too far ahead to count."""
    added = diffs > 0
    beyond = np.zeros(len(times), np.bool_)
    if specification.future_limit is not None:
        beyond = added & (times > now.instant + specification.future_limit)
    counting = np.flatnonzero(added & ~beyond)
    highest = counting[[np.argmax(times[counting])]] if len(counting) else counting
    return np.sort(np.concatenate([highest, np.flatnonzero(beyond)]))
