"""What an operator is, and what a state is. Everything else about a node wraps these two."""

from typing import Any, Protocol, runtime_checkable

import polars as pl

from ..data.clock import Now
from ..data.delta import Delta
from ..state.partitioning import Route
from ..state.snapshot import Saved


class Operator(Protocol):
    """A node: one delta per input in, one delta out, once per epoch.

    Contract, asserted by ``evercurrent.core.circuit.checked`` around every node in every test:

    1. Exact.        After each epoch, the sum of the outputs is the operator applied to the sum of the inputs.
    2. Staged.       ``step`` changes nothing by itself. What must outlive the epoch is staged in a ``State``
                     given at construction; reads show the last commit.
    3. Quiet.        No input rows, no output rows; unless time alone makes rows come: then it says ``heeds_time``.
    4. Consolidated. An output that claims to be consolidated is: each row once, no zero diff.
    5. Bounded.      Work follows the deltas and the keys that they touch, not the history.
    """

    schema: pl.Schema
    """The data columns of the output, without ``_diff``."""

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """The change of the output that the changes of the inputs cause."""
        ...


@runtime_checkable
class Waking(Protocol):
    """An operator that may have something to do in an epoch that brings it no rows.

    An operator that is none of these is visited only in epochs that bring it rows, or in which a node that it reads is
    visited. What a waking one has found in an epoch, for those that read it, counts for that epoch alone: if it had
    anything to do, it is visited in the epoch after as well, once.
    """

    def wakes_on_time(self, now: Now) -> bool:
        """Whether a step without rows would do anything; asked when all nodes before it have stepped.

        If not, such a step would return no rows and stage nothing.
        """
        ...


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
