"""What happened to an engine, epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl

from ..engine import Engine

BEGINNING = 1_704_067_200_000_000
"""2024-01-01, when random histories begin."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One epoch of a history: processing time, rows by source, and where watermarks move after them."""

    at: datetime
    rows: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    watermarks: Mapping[str, datetime] = field(default_factory=dict)

    def push(self, engine: Engine) -> int:
        """Give it to an engine; returns the number of the epoch."""
        with engine.epoch(at=self.at):
            for source, frame in self.rows.items():
                engine.push(source, frame)
            for source, watermark in self.watermarks.items():
                engine.advance(source, watermark)
        return engine.epoch_number

    def __repr__(self) -> str:
        """As Hypothesis prints it."""
        rows = {source: frame.rows() for source, frame in self.rows.items()}
        return f"Batch(at={self.at}, rows={rows}, watermarks={dict(self.watermarks)})"


History = list[Batch]
"""What happened to an engine, epoch by epoch."""
