"""A wrapper that asserts the contract of an operator. Tests put it around every node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import polars as pl

from ..data.clock import MovedClock, Now, OwnClock, bases
from ..data.columns.grouping import consolidated_rows
from ..data.columns.kernels import Ints, Keys
from ..data.delta import Delta
from ..data.schema import DIFF, with_diff
from ..state.channels import Channel, Finding
from ..state.operator_contract import Operator
from ..state.partitioning import Route
from ..state.protocol import State
from ..state.readable import Readable, UserState


class ContractError(AssertionError):
    """A violation of an operator's contract, which is a bug of this library and never a user's."""


_READER: ContextVar[tuple[Checked, Now] | None] = ContextVar("_READER", default=None)
"""The operator that steps now, with the epoch for which it does; None between steps."""


@dataclass(slots=True, eq=False)
class _Guard:
    """Asserts that readers of a channel have declared it; those of a finding must read it in the epoch ``found_in``."""

    giver: str
    channel: Channel
    found_in: int | None = None

    def __call__(self) -> None:
        """Check the operator that steps now and reads the channel; a read between steps is not an operator's."""
        reading = _READER.get()
        if reading is None:
            return
        reader, now = reading
        what = f"{self.channel.kind} of node {self.giver!r}"
        declared = (*reader.looks_at, *reader.gives)
        reader.require(
            any(each is self.channel for each in declared), f"reads {what}, which is not in its looks_at"
        )
        if isinstance(self.channel, Finding) and self.channel.is_set:
            reader.require(self.found_in == now.epoch, f"reads {what} in epoch {now.epoch}, found in another")


@dataclass(slots=True, eq=False)
class _ClockGuard:
    """Holds readers of a clock to what they declared."""

    mover: str
    clock: OwnClock

    def __call__(self, moment: str) -> None:
        """Check whoever steps now and reads the clock: the node that moves it, or one that has it among its clocks."""
        reading = _READER.get()
        if reading is None:
            return
        reader, _ = reading
        declared = any(base is self.clock for clock in reader.clocks for base in bases(clock))
        moves: object = reader.moved_clock
        what = f"reads the watermark of node {self.mover!r}"
        reader.require(declared or moves is self.clock, f"{what}, which is not among its clocks")
        if moment == "now" and declared:
            reader.require(reader.awaits_clocks, f"{what} after the rows of the epoch and does not await it")


class Checked(Operator):
    """An operator that behaves as the one it wraps, or raises ``ContractError``.

    Each step is checked: the output has the operator's schema and non-null diffs; an output that claims to be consolidated
    is; no input gives no output (after epoch 0), unless the operator ``emits_without_rows``; states show the last commit
    until they are committed. Its channels are checked: a finding is reset when its epoch is over, and only operators that
    declare a finding or a look-up read it, as far as they are wrapped too. Exactness and bounds are laws over whole
    histories and have tests of their own.
    """

    def __init__(self, name: str, operator: Operator, states: Sequence[State]) -> None:
        self.schema = operator.schema
        self.operator = operator
        self.emits_without_rows = operator.emits_without_rows
        self.may_wake, self.has_timers = operator.may_wake, operator.has_timers
        self.may_combine, self.is_replayable = operator.may_combine, operator.is_replayable
        self.passes_input = operator.passes_input
        self.role, self.other_roles = operator.role, operator.other_roles
        self.gives, self.looks_at = operator.gives, operator.looks_at
        self.clocks, self.awaits_clocks = operator.clocks, operator.awaits_clocks
        self.keeps_input, self.counts_rows = operator.keeps_input, operator.counts_rows
        self.is_rekeyable = operator.is_rekeyable
        self._name = name
        self._columns = with_diff(operator.schema)
        self._states = tuple(states)
        self._guards = [_Guard(name, channel) for channel in operator.gives]
        for guard in self._guards:
            guard.channel.guard = guard
        for state in states:
            if isinstance(state, OwnClock):
                state.guard = _ClockGuard(name, state)

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Run the wrapped step, and check it."""
        for finding in self._findings:
            self.require(not finding.is_set, f"still has {finding.kind} of an epoch before")
        before = [state.entries for state in self._states]
        delta = self._stepped(now, deltas)
        self.require(before == [state.entries for state in self._states], "changed a state before the commit")
        frame = delta.frame
        if (
            frame.schema != self._columns
        ):  # Schemas are put into words only where they differ: there are many steps.
            self.require(False, f"gave {frame.schema}, its schema is {self._columns}")
        self.require(not frame.get_column(DIFF).has_nulls(), "gave a null diff")
        if now.epoch > 0 and not self.operator.emits_without_rows and not any(map(len, deltas)):
            self.require(not len(delta), "gave rows without any input")
        if delta.is_consolidated and len(delta):
            entries, _ = consolidated_rows(delta.rows, delta.diffs)
            self.require(entries is None, "claims to be consolidated and is not")
        return delta

    @property
    def _findings(self) -> list[Finding[Any]]:
        return [channel for channel in self.gives if isinstance(channel, Finding)]

    def _stepped(self, now: Now, deltas: Sequence[Delta]) -> Delta:
        """Run the wrapped step; reads of other nodes meanwhile are this operator's, and findings are of this epoch."""
        for guard in self._guards:
            guard.found_in = now.epoch
        reading = _READER.set((self, now))
        try:
            return self.operator.step(now, *deltas)
        finally:
            _READER.reset(reading)

    def wakes_on_time(self, now: Now) -> bool:
        """See the wrapped operator."""
        return self.operator.wakes_on_time(now)

    def is_due(self, now: Now) -> bool:
        """See the wrapped operator."""
        return self.operator.is_due(now)

    @property
    def moved_clock(self) -> MovedClock | None:
        """Return the clock that the wrapped operator moves."""
        return self.operator.moved_clock

    def move_clock(self, now: Now, delta: Delta | None, times: Ints) -> None:
        """See the wrapped operator."""
        self.operator.move_clock(now, delta, times)

    @property
    def readable(self) -> Readable | None:
        """See the wrapped operator."""
        return self.operator.readable

    @property
    def user_states(self) -> Sequence[UserState]:
        """See the wrapped operator."""
        return self.operator.user_states

    @property
    def key_types(self) -> pl.Schema:
        """See the wrapped operator."""
        return self.operator.key_types

    def words(self, frame: pl.DataFrame) -> Keys:
        """See the wrapped operator."""
        return self.operator.words(frame)

    @property
    def kept_sums(self) -> tuple[str, ...]:
        """See the wrapped operator."""
        return self.operator.kept_sums

    def taken_over(self, other: Operator, sums: Mapping[str, Ints]) -> Mapping[str, Ints] | None:
        """See the wrapped operator."""
        return self.operator.taken_over(other, sums)

    @property
    def read_sums(self) -> tuple[tuple[str, ...], ...]:
        """See the wrapped operator."""
        return self.operator.read_sums

    def route_of_states(self, columns: tuple[str, ...] | None) -> Route | None:
        """See the wrapped operator."""
        return self.operator.route_of_states(columns)

    def combine(self, delta: Delta) -> Delta | None:
        """Return the rows as the wrapped operator combines them."""
        return self.operator.combine(delta)

    def require(self, holds: bool, complaint: str) -> None:
        """Check that a property of the operator holds.

        Raises:
            ContractError: it does not hold; names the node.
        """
        if not holds:
            raise ContractError(f"node {self._name!r} {complaint}")
