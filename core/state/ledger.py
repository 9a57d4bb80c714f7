"""Every row that was refused, and why."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from ..columns.json_texts import printable
from ..data.clock import Epoch
from ..data.recent import Recent
from .partitioning import ONE, Route
from .snapshot import PAYLOAD, Saved

MISSED = "missed:"
"""Column of a frame of late rows: the windows that a row missed, a list of their bounds, ascending."""

ELSEWHERE = "elsewhere"
"""Column of a piece whose rows are in other windows; pieces of rows that are nowhere do not have it."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Refused:
    """Rows of one source that one epoch did not accept, and why.

    ``watermark`` is the one that they were behind, in microseconds, where that is the reason. Rows that were too late are
    in the frame with the windows that they missed (``MISSED``), where these may be several. ``elsewhere``: the rows are
    in other windows, and are lost to these alone.
    """

    epoch: Epoch
    source: str
    reason: str
    frame: pl.DataFrame
    watermark: int | None = None
    elsewhere: bool = False

    def __repr__(self) -> str:
        """Why, and the rows, whatever is in them."""
        return (
            f"Refused in epoch {self.epoch} of source {self.source!r}: {self.reason}\n{printable(self.frame)}"
        )


class Ledger:
    """Every row that was refused, and why: nothing is lost and nothing is silent.

    Holds the last ``limit`` rows; ``forgotten`` counts those that had to go.
    """

    route: Route | None = ONE

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.refused: Recent[Refused] = Recent()
        self.entries = 0
        self.forgotten = 0
        self._staged: list[Refused] = []

    def stage(self, refused: Refused) -> None:
        """Make ready to enter these rows."""
        self._staged.append(refused)

    @property
    def staged(self) -> tuple[Refused, ...]:
        """What would be entered with this epoch."""
        return tuple(self._staged)

    def commit(self) -> None:
        """Enter what was staged, and forget the oldest rows beyond the limit."""
        for refused in self._staged:
            self.refused.append(refused)
            self.entries += refused.frame.height
        self._staged = []
        while self.entries > self.limit and len(self.refused) > 1:
            gone = self.refused.popleft().frame.height
            self.entries -= gone
            self.forgotten += gone

    def discard(self) -> None:
        """Forget what was staged."""
        self._staged = []

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(int(refused.frame.estimated_size()) for refused in self.refused)

    # What outlives the process

    def saved(self) -> Saved:
        """See ``State``: a piece for every entry."""
        kept, held = [*self.refused, *self._staged], self.entries
        held += sum(refused.frame.height for refused in self._staged)
        gone, first = 0, 0
        while held - gone > self.limit and first < len(kept) - 1:
            gone, first = gone + kept[first].frame.height, first + 1
        return Saved(tuple(kept[first:]), {"forgotten": self.forgotten + gone})

    def restore(self, saved: Saved) -> None:
        """See ``State``."""
        self.refused = Recent(saved.pieces)
        self.entries = sum(refused.frame.height for refused in self.refused)
        self.forgotten = saved.facts.get("forgotten", 0)
        self._staged = []

    def columns_of(self, piece: Refused) -> pl.DataFrame:
        """See ``State``: the rows, and beside each of them what is said of all."""
        said = pl.DataFrame(
            {
                "epoch": [int(piece.epoch)],
                "source": [piece.source],
                "reason": [piece.reason],
                "watermark": pl.Series([piece.watermark], dtype=pl.Int64),
            }
        )
        if piece.elsewhere:
            said = said.with_columns(pl.lit(True).alias(ELSEWHERE))
        rows = [column.alias(PAYLOAD + column.name) for column in piece.frame.get_columns()]
        return pl.DataFrame([*(one.new_from_index(0, piece.frame.height) for one in said), *rows])

    def piece_of(self, columns: pl.DataFrame) -> Refused:
        """See ``State``."""
        said = columns.row(0, named=True)
        rows = [
            column.alias(column.name.removeprefix(PAYLOAD))
            for column in columns.get_columns()
            if column.name.startswith(PAYLOAD)
        ]
        return Refused(
            Epoch(said["epoch"]),
            said["source"],
            said["reason"],
            pl.DataFrame(rows),
            said["watermark"],
            said.get(ELSEWHERE, False),
        )
