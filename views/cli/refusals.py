"""What a run reports of rows that were refused: how many for each reason, the first of them, and what the views failed with."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Self

import polars as pl

from evercurrent.core.data.schema import DIFF, EPOCH

from ..epochs.run_events import LOG
from .drivers import Driver
from .feeds import LONGEST_EXCERPT


class Failures(logging.Handler):
    """Within its context: the first epoch that is evaluated without the rows with which it fails, and how many there are.

    The ledger has the rows; the error, which names view, column and value, is in the log alone.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.first: str | None = None
        self.epochs = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Take the events of this kind."""
        if getattr(record, "event", None) != "bad rows":
            return
        self.epochs += 1
        if self.first is None:
            self.first = record.getMessage()

    @property
    def lines(self) -> list[str]:
        """Return the first one's error, and the number of the others."""
        if self.first is None:
            return []
        others = f" (and {self.epochs - 1:,} more)" if self.epochs > 1 else ""
        return [f"{self.first}{others}"]

    def __enter__(self) -> Self:
        """Begin to take events."""
        LOG.addHandler(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        LOG.removeHandler(self)


def refusals(driver: Driver, since: int = -1) -> list[str]:
    """Return a line for each source and reason in the ledger, of the epochs after this one: how many rows, and the first.

    Those of most rows come first; which of an epoch's rows comes first in a ledger depends on where the views are run.
    """
    ledger = driver.ledger().filter(pl.col(EPOCH) > since)
    by_reason = ledger.group_by("source", "reason", maintain_order=True).agg(
        pl.col(DIFF).abs().sum(), pl.col("row").first()
    )
    by_reason = by_reason.sort(pl.col(DIFF), "source", "reason", descending=[True, False, False])
    return [
        f"{count:,} of {source}: {reason}; the first is {row[:LONGEST_EXCERPT]}"
        for source, reason, count, row in by_reason.iter_rows()
    ]
