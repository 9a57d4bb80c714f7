"""What a state is: what outlives an epoch, and how it outlives the process."""

from typing import Any, Protocol

import polars as pl

from .partitioning import Route
from .snapshot import Saved


class State(Protocol):
    """What outlives the epoch. All that can fail happens while staging: a commit only moves a pointer.

    ``route`` says in which bucket its entries are, if it is cut into some; None if whoever cuts has to know.
    """

    route: Route | None

    def commit(self) -> None:
        """Make what was staged the state. Must not fail."""
        ...

    def discard(self) -> None:
        """Forget what was staged: the state is that of the last commit."""
        ...

    @property
    def entries(self) -> int:
        """How many entries are kept."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes held, without Python's own overhead."""
        ...

    # What outlives the process

    def saved(self) -> Saved:
        """What is to be kept of it: as staged if something is, else as committed. Pieces of before are the same objects.

        Cost: the number of pieces.

        Raises:
            InputError: a user's own state cannot be kept: names it, and the way out.
        """
        ...

    def restore(self, saved: Saved) -> None:
        """Be what was saved, and forget what was staged. Of ``Saved((), {})``: be empty. Cost: the number of pieces."""
        ...

    def columns_of(self, piece: Any) -> pl.DataFrame:
        """A piece as columns, to be written."""
        ...

    def piece_of(self, columns: pl.DataFrame) -> Any:
        """The piece that these are the columns of, which may be mapped from a file: they are not copied."""
        ...
