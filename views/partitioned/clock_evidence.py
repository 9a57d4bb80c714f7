"""The rows that may move the clock of their source, collected where the clock itself is in another process."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from evercurrent.core.data.clock import MovedClock
from evercurrent.core.data.columns.kernels import Ints


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
    """Keeps the rows that may move a clock where rows arrive, for the driver, which has the clock that moves."""

    def __init__(self, clock: MovedClock) -> None:
        self.clock = clock
        self.evidence: ClockEvidence | None = None
        clock.collect(self._collect)

    def _collect(self, frame: pl.DataFrame, times: Ints) -> None:
        self.evidence = ClockEvidence(frame, times)
