"""What an operator is. Everything else about a node wraps it and the states that it stages in."""

from typing import Protocol, runtime_checkable

import polars as pl

from ..data.clock import Now
from ..data.delta import Delta


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
