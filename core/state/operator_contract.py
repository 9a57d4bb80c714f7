"""The contract of an operator: its step, and the properties that circuits, buckets and restarts use."""

from __future__ import annotations

import polars as pl

from ..data.clock import Clock, Now
from ..data.delta import Delta
from .channels import Channel
from .partitioning import Route
from .protocol import State


class Operator:
    """A node: one delta per input in, one delta out, once per epoch.

    Contract, asserted by ``evercurrent.core.circuit.checked`` around every node in every test:

    1. Exact.        After each epoch, the sum of the outputs is the operator applied to the sum of the inputs.
    2. Staged.       ``step`` changes nothing by itself. What must outlive the epoch is staged in a ``State``
                     given at construction; reads show the last commit.
    3. Quiet.        No input rows, no output rows; unless ``emits_without_rows``.
    4. Consolidated. An output that claims to be consolidated is: each row once, no zero diff.
    5. Bounded.      Work follows the deltas and the keys that they touch, not the history.

    The members below state its other properties. The defaults are those of an operator that acts on the rows of its
    inputs alone.
    """

    schema: pl.Schema
    """The data columns of the output, without ``_diff``."""

    emits_without_rows: bool = False
    """Whether it may emit rows in an epoch that brings it none, because of time or of a state that it reads."""

    may_wake: bool = False
    """Whether it may have something to do in an epoch that brings it no rows: then ``wakes_on_time`` is called.

    An operator that does not is visited only in epochs that bring it rows, or in which a node that it reads is visited.
    A waking one that had anything to do is visited in the epoch after as well, once, and so are those that read it:
    these may have to retract then what was emitted.
    """

    has_timers: bool = False
    """Whether ``is_due`` may be true, since it keeps instants at which it acts without rows."""

    is_replayable: bool = True
    """Whether its output depends on the rows alone, and not on when they arrived."""

    role: str | None = None
    """The name of its state in displays if it is a part of a declared node; None if it is the declared node itself."""

    may_combine: bool = False
    """Whether rows of its first input may be pre-aggregated by ``combine`` before they are sent to it."""

    gives: tuple[Channel, ...] = ()
    """The channels that other operators may read, besides its rows and its states."""

    looks_at: tuple[State | Channel, ...] = ()
    """All that it reads of other operators besides rows: their states, findings of the epoch, look-ups.

    The nodes that give these step before this one, in the same place; if one of them is visited, so is this one.
    """

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the change of the output that the changes of the inputs cause."""
        raise NotImplementedError

    def wakes_on_time(self, now: Now) -> bool:
        """Return whether a step without rows would do anything; called when all nodes before it have stepped.

        If not, such a step would return no rows and stage nothing.
        """
        return False

    def is_due(self, now: Now) -> bool:
        """Return whether a timer of its own is due, whatever other nodes do."""
        return False

    @property
    def moved_clock(self) -> Clock | None:
        """Return the clock that it moves; None if it moves none."""
        return None

    @property
    def kept_sums(self) -> tuple[str, ...]:
        """Return the additive columns of its first state, if the operator chooses them."""
        return ()

    def route_of_states(self, columns: tuple[str, ...] | None) -> Route | None:
        """Return how its states are cut into buckets if its output is cut by these columns; None for each state's own route."""
        return None

    def combine(self, delta: Delta) -> Delta | None:
        """Return the rows of its first input, pre-aggregated as far as possible; None if that does not reduce them."""
        return None
