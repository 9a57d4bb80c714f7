"""A case run at processing times that follow from the number of the epoch, so that two runs can be compared."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from harness import Running, frame_of_entries
from strategies import Epoch

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


def moment(epoch: int) -> datetime:
    """The processing time of an epoch."""
    return BEGIN + timedelta(minutes=epoch)


class Timed(Running):
    """An engine with the sources and views of a case; ``numbered``: pushes give their positions in the input."""

    def __init__(self, case: Any, *, numbered: bool = False, **options: Any) -> None:
        self.numbered = numbered
        super().__init__(case, **options)

    def push(self, epoch: Epoch, number: int | None = None) -> int:
        """All sources' entries as one epoch, which is number so many of the input."""
        columns = self.case.program.sources
        before = self.engine.epoch_number
        position = before + 1 if number is None else number
        with self.engine.epoch(at=moment(position)):
            for name in columns:
                frame = frame_of_entries(columns[name], epoch.get(name, []))
                self.engine.push(name, frame, position=position if self.numbered else None)
        return self.engine.epoch_number
