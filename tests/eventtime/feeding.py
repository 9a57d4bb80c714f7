"""A source with its clock and nothing behind it, epoch by epoch, every node held to its contract."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from evercurrent.core.circuit.checked import Checked
from evercurrent.core.circuit.circuit import Circuit
from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.durations import instant
from evercurrent.core.eventtime.watermarks.source_clock import Arrive, SourceClock
from evercurrent.core.operators.source_rows import Append
from evercurrent.core.state.ledger import Ledger
from evercurrent.views.dataframe.watermarks import declared_watermark

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
COLUMNS = {"at": pl.Datetime("us"), "v": pl.Int64()}


def minute(number: float) -> datetime:
    """So many minutes past noon, without a zone, as it stands in the rows."""
    return (NOON + timedelta(minutes=number)).replace(tzinfo=None)


def us(number: float) -> int:
    """The instant so many minutes past noon."""
    return instant("test", minute(number), pl.Datetime("us"))


class Feed:
    """Pushes batches of rows, with times in minutes past noon, and shows what comes out and where the clock is."""

    def __init__(self, watermark: Any = None, columns: dict[str, Any] | None = None) -> None:
        self.schema = pl.Schema(columns or COLUMNS)
        declared = declared_watermark("source 's'", watermark, self.schema, "at", appends=True)
        assert declared is not None
        self.ledger = Ledger(1000)
        self.clock = SourceClock("s", declared)
        self.circuit = Circuit()
        source = self.circuit.add("s", Append(self.schema))
        arrive = Arrive("s", self.schema, "at", self.ledger, self.clock)
        self.last = self.circuit.add("arrive", arrive, source, states=[self.clock, self.ledger])
        self._checked = 0
        self.epoch = 0
        self.instant = us(0)
        self.shown: list[int] = []

    def frame(self, rows: Sequence[Sequence[Any]], diffs: Sequence[int] | None = None) -> pl.DataFrame:
        """Rows whose column ``at`` is in minutes past noon."""
        place = list(self.schema).index("at")
        dated = [
            [
                minute(cell) if number == place and isinstance(cell, int | float) else cell
                for number, cell in enumerate(row)
            ]
            for row in rows
        ]
        columns = list(zip(*dated, strict=True)) or [()] * len(self.schema)
        data = [
            pl.Series(name, list(cells), dtype=pl.Datetime("us") if name == "at" else dtype).cast(dtype)
            for (name, dtype), cells in zip(self.schema.items(), columns, strict=True)
        ]
        return pl.DataFrame([*data, pl.Series("_diff", list(diffs or [1] * len(rows)), dtype=pl.Int64)])

    def push(
        self,
        rows: Sequence[Sequence[Any]] = (),
        at: float = 0,
        *,
        diffs: Sequence[int] | None = None,
        watermark: float | None = None,
        promised: int | None = None,
    ) -> pl.DataFrame:
        """One epoch, committed, or discarded if it fails. Returns the delta of the last node."""
        try:
            if watermark is not None or promised is not None:
                self.clock.promise(us(watermark) if watermark is not None else promised)
            evaluated = self.evaluate(self.frame(rows, diffs), at)
        except BaseException:
            self.circuit.discard()
            raise
        self.circuit.commit(evaluated)
        self.epoch += 1
        self.instant = us(at)
        self.shown.append(self.clock.now)
        return evaluated.deltas[self.last].frame

    def evaluate(self, frame: pl.DataFrame, at: float) -> Any:
        """The first phase of an epoch."""
        for node in self.circuit.nodes[self._checked :]:
            node.operator = Checked(node.name, node.operator, node.states)
        self._checked = len(self.circuit.nodes)
        now = Now(Epoch(self.epoch + 1), NOON + timedelta(minutes=at))
        return self.circuit.evaluate(now, {"s": Delta(frame)})

    @property
    def skew(self) -> int | None:
        """Processing time less the watermark after the last epoch."""
        return self.clock.skew(self.instant)

    def described(self) -> list[str]:
        """The watermark in words, after the last epoch."""
        return self.clock.describe(self.instant)

    @property
    def at(self) -> float:
        """The watermark in minutes past noon."""
        return (self.clock.now - us(0)) / 60_000_000
