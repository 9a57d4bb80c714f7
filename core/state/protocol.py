"""The protocol of states: what outlives an epoch, and how it is saved and restored."""

from typing import Any, Literal, Protocol

import polars as pl

from .partitioning import Route
from .snapshot import Saved

KeptIn = Literal["buckets", "driver", "both"]
"""Where a state is if rows are cut into buckets: a part in each bucket, one in whoever runs the buckets, or both."""


class State(Protocol):
    """A state outlives the epoch. All that can fail happens while staging: a commit only moves a pointer.

    ``route`` is the rule for the buckets of its entries; None if the caller that cuts it has to supply one.
    """

    route: Route | None
    kept_in: KeptIn

    def commit(self) -> None:
        """Make the staged changes part of the state. It must not fail."""
        ...

    def discard(self) -> None:
        """Drop the staged changes: the state is that of the last commit."""
        ...

    @property
    def entries(self) -> int:
        """Return the number of kept entries."""
        ...

    @property
    def nbytes(self) -> int:
        """Return bytes held, without Python's own overhead."""
        ...

    # Saving and restoring

    def saved(self) -> Saved:
        """Return the state to be saved, staged changes included; unchanged pieces are the same objects as before.

        Cost: the number of pieces.

        Raises:
            InputError: a user's own state cannot be kept; names it, and the remedy.
        """
        ...

    def restore(self, saved: Saved) -> None:
        """Become the saved state and drop what was staged; ``Saved((), {})`` is the empty one. Cost: the number of pieces."""
        ...

    def columns_of(self, piece: Any) -> pl.DataFrame:
        """Return a piece as columns, for writing."""
        ...

    def piece_of(self, columns: pl.DataFrame) -> Any:
        """Return the piece made of these columns, which may be mapped from a file and are not copied."""
        ...
