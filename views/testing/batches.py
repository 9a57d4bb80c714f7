"""Histories of input for an engine, epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

from ..engine.engine import Engine

BEGINNING = 1_704_067_200_000_000
"""2024-01-01, when random histories begin."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One epoch of a history: processing time, rows by source, and watermarks that are moved after them.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> def shop() -> ec.Engine:
    ...     engine = ec.Engine()
    ...     _ = engine.view("counts", engine.source("words", {"word": pl.String}).group_by("word").len("n"))
    ...     return engine
    >>> from datetime import UTC, datetime
    >>> from evercurrent import testing
    >>> batch = testing.Batch(datetime(2024, 1, 1, tzinfo=UTC), {"words": pl.DataFrame({"word": ["a", "a"]})})
    >>> batch.push(shop())
    1
    """

    at: datetime
    rows: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    watermarks: Mapping[str, datetime] = field(default_factory=dict)

    def push(self, engine: Engine) -> int:
        """Push it to an engine, and return the number of the epoch."""
        with engine.epoch(at=self.at):
            for source, frame in self.rows.items():
                engine.push(source, frame)
            for source, watermark in self.watermarks.items():
                engine.advance(source, watermark)
        return engine.epoch_number

    def __repr__(self) -> str:
        """Show processing time, rows as tuples, and watermarks."""
        parts = [f"at {self.at:%Y-%m-%d %H:%M:%S}"]
        parts += [f"{source}: {list(map(_shown, frame.to_dicts()))}" for source, frame in self.rows.items()]
        parts += [f"watermark of {source}: {to:%H:%M:%S}" for source, to in self.watermarks.items()]
        return f"Batch({'; '.join(parts)})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the batch for Hypothesis, which shows it in failures."""
        printer.text(repr(self))


History = list[Batch]
"""The input of an engine, epoch by epoch."""


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its times as text."""
    return {name: str(cell) if isinstance(cell, datetime) else cell for name, cell in row.items()}
