"""The rows that may move the clock of their source, collected where the clock itself is in another process."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from evercurrent.core.columns.kernels import Index, Ints, gather
from evercurrent.core.data.clock import Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.schema import DIFF
from evercurrent.core.eventtime.watermarks.kinds import Watermark
from evercurrent.core.eventtime.watermarks.source_clock import SourceClock


@dataclass(frozen=True, slots=True, eq=False)
class ClockEvidence:
    """Rows with diffs that may move a clock, in the order in which they came, and their event times."""

    frame: pl.DataFrame
    times: Ints

    @staticmethod
    def together(parts: list[ClockEvidence]) -> ClockEvidence:
        """Concatenate the evidence of several parts."""
        return ClockEvidence(
            pl.concat([part.frame for part in parts]), np.concatenate([part.times for part in parts])
        )


class EvidenceCollector:
    """Keeps the rows that may move a source's clock where rows arrive, for the driver, which has the clock that moves."""

    def __init__(self, clock: SourceClock) -> None:
        self.clock = clock
        self.evidence: ClockEvidence | None = None
        clock.collect(self._collect)

    def _collect(self, now: Now, delta: Delta, times: Ints) -> None:
        self.evidence = _evidence_of(self.clock.specification, now, delta, times) if len(times) else None


def _evidence_of(specification: Watermark, now: Now, delta: Delta, times: Ints) -> ClockEvidence:
    """Return the rows that may move the clock, with the columns that the watermark reads."""
    frame = rows = delta.frame
    if specification.columns_read is not None:
        columns = [frame.get_column(name) for name in specification.columns_read]
        rows = pl.DataFrame([*columns, frame.get_column(DIFF)])
    if not specification.is_of_highest:
        return ClockEvidence(rows, times)
    places = _highest(specification, now, delta.diffs, times)
    return ClockEvidence(gather(rows, places), times[places])


def _highest(specification: Watermark, now: Now, diffs: Ints, times: Ints) -> Index:
    """Return the row with the highest event time that counts, and those that are too far ahead to count."""
    added = diffs > 0
    beyond = np.zeros(len(times), np.bool_)
    if specification.future_limit is not None:
        beyond = added & (times > now.instant + specification.future_limit)
    counting = np.flatnonzero(added & ~beyond)
    highest = counting[[np.argmax(times[counting])]] if len(counting) else counting
    return np.sort(np.concatenate([highest, np.flatnonzero(beyond)]))
