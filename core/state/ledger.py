"""The ledger holds every row that was refused, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import polars as pl

from ..data.clock import Epoch
from ..data.columns.json_texts import printable
from ..data.recent import Recent
from .partitioning import ONE, Route
from .protocol import KeptIn
from .snapshot import PAYLOAD, Saved

MISSED = "missed:"
"""Column of a frame of late rows: the windows that a row missed, as a list of their bounds, ascending."""

ELSEWHERE = "elsewhere"
"""Column of a piece whose rows are in other windows; pieces of rows that are in no window do not have it."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Refused:
    """Rows of one source that one epoch did not accept, and why.

    ``watermark`` is the one that they were behind, in microseconds, if that is the reason. Late rows that may be in several
    windows are in the frame with those that they missed (``MISSED``). ``elsewhere``: the rows count in other windows, and
    are missing only from these.
    """

    epoch: Epoch
    source: str
    reason: str
    frame: pl.DataFrame
    watermark: int | None = None
    elsewhere: bool = False

    def __repr__(self) -> str:
        """Return the reason, and the rows, whatever is in them."""
        return (
            f"Refused in epoch {self.epoch} of source {self.source!r}: {self.reason}\n{printable(self.frame)}"
        )


class Ledger:
    """The rows that were refused, and why: no row is dropped silently.

    It is not a spine, as nothing is looked up in it or retracted: epochs are appended, and the oldest forgotten. Holds the last ``limit`` rows; ``forgotten`` counts the older ones that were dropped.
    """

    route: Route | None = ONE
    kept_in: KeptIn = "driver"

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.refused: Recent[Refused] = Recent()
        self.entries: int = 0
        self.forgotten: int = 0
        self.rows_by_source: Counter[str] = Counter()
        """The rows that it holds, by source; sources without any may have a zero."""
        self._staged: list[Refused] = []

    def stage(self, refused: Refused) -> None:
        """Stage these rows for the ledger."""
        self._staged.append(refused)

    @property
    def staged(self) -> tuple[Refused, ...]:
        """Return the entries that this epoch's commit would add."""
        return tuple(self._staged)

    @property
    def height_after(self) -> int:
        """Return how many rows it will have after this epoch's commit. Cost: its entries, if some are staged."""
        if not self._staged:
            return self.entries
        return sum(refused.frame.height for refused in self.saved().pieces)

    def commit(self) -> None:
        """Add the staged entries, and drop the oldest rows beyond the limit."""
        for refused in self._staged:
            self.refused.append(refused)
            self.entries += refused.frame.height
            self.rows_by_source[refused.source] += refused.frame.height
        self._staged = []
        while self.entries > self.limit and len(self.refused) > 1:
            oldest = self.refused.popleft()
            gone = oldest.frame.height
            self.entries -= gone
            self.rows_by_source[oldest.source] -= gone
            self.forgotten += gone

    def discard(self) -> None:
        """Drop what was staged."""
        self._staged = []

    @property
    def nbytes(self) -> int:
        """Return bytes held."""
        return sum(int(refused.frame.estimated_size()) for refused in self.refused)

    # Saving and restoring

    def saved(self) -> Saved:
        """See ``State``: a piece for every entry."""
        batches, held = [*self.refused, *self._staged], self.entries
        held += sum(refused.frame.height for refused in self._staged)
        gone, first = 0, 0
        while held - gone > self.limit and first < len(batches) - 1:
            gone, first = gone + batches[first].frame.height, first + 1
        return Saved(tuple(batches[first:]), {"forgotten": self.forgotten + gone})

    def restore(self, saved: Saved) -> None:
        """See ``State``."""
        self.refused = Recent(saved.pieces)
        self.rows_by_source = Counter()
        for refused in self.refused:
            self.rows_by_source[refused.source] += refused.frame.height
        self.entries = self.rows_by_source.total()
        self.forgotten = saved.facts.get("forgotten", 0)
        self._staged = []

    def columns_of(self, piece: Refused) -> pl.DataFrame:
        """See ``State``; each row has the facts of its entry in further columns."""
        facts = pl.DataFrame(
            {
                "epoch": [int(piece.epoch)],
                "source": [piece.source],
                "reason": [piece.reason],
                "watermark": pl.Series([piece.watermark], dtype=pl.Int64),
            }
        )
        if piece.elsewhere:
            facts = facts.with_columns(pl.lit(True).alias(ELSEWHERE))
        rows = [column.alias(PAYLOAD + column.name) for column in piece.frame.get_columns()]
        return pl.DataFrame([*(one.new_from_index(0, piece.frame.height) for one in facts), *rows])

    def piece_of(self, columns: pl.DataFrame) -> Refused:
        """See ``State``."""
        facts = columns.row(0, named=True)
        rows = [
            column.alias(column.name.removeprefix(PAYLOAD))
            for column in columns.get_columns()
            if column.name.startswith(PAYLOAD)
        ]
        return Refused(
            Epoch(facts["epoch"]),
            facts["source"],
            facts["reason"],
            pl.DataFrame(rows),
            facts["watermark"],
            facts.get(ELSEWHERE, False),
        )
