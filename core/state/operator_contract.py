"""The contract of an operator: its step, and the properties that circuits, buckets and restarts use."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import NewType

import polars as pl

from ..data.clock import Clock, MovedClock, Now
from ..data.columns.kernels import Ints, Keys, key_words
from ..data.delta import Delta
from .channels import Channel
from .partitioning import KeyColumns, Route
from .protocol import State
from .readable import Readable, UserState

NodeId = NewType("NodeId", int)
"""The place of a node in a circuit."""


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

    Any other operator is visited only in epochs that bring it rows, or in which a node that it reads is visited. An
    operator that woke and had something to do is visited once more in the next epoch, together with those that read it,
    which may then have to retract what they emitted.
    """

    has_timers: bool = False
    """Whether it keeps instants at which it acts without rows, so that ``is_due`` may be true."""

    is_replayable: bool = True
    """Whether its output depends on the rows alone, and not on when they arrived."""

    role: str | None = None
    """The name of its state in displays if it is a part of a declared node; None if it is the declared node itself."""

    other_roles: tuple[str, ...] = ()
    """The names of its other states, in their order, as far as they have names of their own."""

    may_combine: bool = False
    """Whether rows of its first input may be pre-aggregated by ``combine`` before they are sent to it.

    Of an operator that passes its input on (``passes_input``) this holds where no other one takes its rows.
    """

    passes_input: bool = False
    """Whether it passes its input on as it comes, equal rows and all, so that what comes must be what was sent."""

    gives: tuple[Channel, ...] = ()
    """The channels that other operators may read, besides its rows and its states."""

    looks_at: tuple[State | Channel, ...] = ()
    """What it reads of other operators besides rows: their states, findings of the epoch, look-ups.

    The nodes that provide these run before this one, in the same place; if one of them is visited, so is this one.
    """

    clocks: tuple[Clock, ...] = ()
    """The clocks that it reads. They are moved by earlier nodes, which may run in another place."""

    awaits_clocks: bool = False
    """Whether it reads its clocks after the rows of the epoch have moved them, and not only as of the last commit.

    If so, the nodes that move them run in an earlier stage.
    """

    keeps_input: bool = False
    """Whether it hands on its input unchanged and keeps it as its first state."""

    counts_rows: bool = False
    """Whether its first state holds only the count of each row, and nothing of the row itself."""

    gains_by_buckets: bool = False
    """Whether large epochs take less time over several buckets, each in a thread. Of all others Python's own part is too large."""

    is_rekeyable: bool = False
    """Whether the entries of its first state can be sorted by other words if a column of its rows changes its type."""

    @property
    def lacks_nulls_in(self) -> tuple[str, ...] | None:
        """Return the columns whose nulls keep rows of its input out of its first state, which holds all other ones.

        None if its first state does not hold the rows of its input.
        """
        return None

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the change of the output that the changes of the inputs cause."""
        raise NotImplementedError

    def wakes_on_time(self, now: Now) -> bool:
        """Return whether a step without rows would do anything; called when all nodes before it have stepped.

        If not, such a step would return no rows and stage nothing.
        """
        return self.is_due(now)

    def is_due(self, now: Now) -> bool:
        """Return whether a timer of its own is due, whatever other nodes do."""
        return False

    @property
    def moved_clock(self) -> MovedClock | None:
        """Return the clock that it moves; None if it moves none."""
        return None

    def move_clock(self, now: Now, delta: Delta | None, times: Ints) -> None:
        """Move its clock by rows that arrived elsewhere, with these event times; without rows, by time alone."""
        raise NotImplementedError

    @property
    def readable(self) -> Readable | None:
        """Return the state from which all rows that it has emitted are read; None if there is none."""
        return None

    @property
    def user_states(self) -> Sequence[UserState]:
        """Return those of its states that users' functions compute."""
        return ()

    @property
    def key_types(self) -> pl.Schema:
        """Return the columns by whose words the entries of its first state are kept; by default all columns."""
        return self.schema

    def words(self, frame: pl.DataFrame) -> Keys:
        """Return the words by which the entries of rows with these columns are kept."""
        return key_words([frame.get_column(name) for name in self.key_types], frame.height)

    @property
    def kept_sums(self) -> tuple[str, ...]:
        """Return the additive columns of its first state, if the operator chooses them."""
        return ()

    def taken_over(self, other: Operator, sums: Mapping[str, Ints]) -> Mapping[str, Ints] | None:
        """Return the additive columns of its first state, converted from those of an operator over narrower columns.

        Return None if they cannot be converted. Cost: the columns that are converted.

        Raises:
            LossyValueError: a value does not fit its type.
        """
        return sums if self.kept_sums == other.kept_sums else None

    @property
    def read_sums(self) -> tuple[tuple[str, ...], ...]:
        """Return the ``kept_sums`` of earlier versions whose states can be read without conversion."""
        return ()

    def route_of_states(self, columns: tuple[str, ...] | None) -> Route | None:
        """Return how its states are cut into buckets if its output is cut by these columns; None for each state's own route."""
        return None

    def combine(self, delta: Delta) -> Delta | None:
        """Return the rows of its first input, pre-aggregated as far as possible; None if that does not reduce them."""
        return None


class KeyedOperator(Operator, ABC):
    """An operator that keeps its rows by some of their columns, which determine where an entry is."""

    is_rekeyable = True

    def __init__(self, schema: pl.Schema, keys: KeyColumns) -> None:
        self.schema = schema
        self._keys = keys

    @property
    def key_types(self) -> pl.Schema:
        """Return the columns by which rows are kept."""
        return pl.Schema({name: self.schema[name] for name in self._keys.names})

    def words(self, frame: pl.DataFrame) -> Keys:
        """Return the words of the keys of these rows."""
        return self._keys.words(frame)
