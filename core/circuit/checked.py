"""A wrapper that holds an operator to its contract. Tests put it around every node."""

from __future__ import annotations

from collections.abc import Sequence

from ..columns.grouping import consolidated_rows
from ..data.clock import Clock, Now
from ..data.delta import Delta
from ..data.schema import DIFF, with_diff
from ..state.operator_contract import Operator
from ..state.partitioning import Route
from ..state.protocol import State


class ContractError(AssertionError):
    """An operator broke its contract: a bug of ours, never of a user."""


class Checked(Operator):
    """An operator that behaves as the one it wraps, or raises ``ContractError``.

    Asserted of every step: the output has the operator's schema and non-null diffs; an output that claims to
    be consolidated is; no input, no output (after epoch 0), unless it ``emits_without_rows``; the states show the last commit until they are
    committed. Exactness and bounds are laws over whole histories and have tests of their own.
    """

    def __init__(self, name: str, operator: Operator, states: Sequence[State]) -> None:
        self.schema = operator.schema
        self.operator = operator
        self.emits_without_rows = operator.emits_without_rows
        self.may_wake, self.has_timers = operator.may_wake, operator.has_timers
        self.may_combine, self.is_replayable = operator.may_combine, operator.is_replayable
        self.role = operator.role
        self._name = name
        self._states = tuple(states)

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """The wrapped step, checked."""
        before = [state.entries for state in self._states]
        delta = self.operator.step(now, *deltas)
        self._require(
            before == [state.entries for state in self._states], "changed a state before the commit"
        )
        expected = with_diff(self.schema)
        self._require(delta.frame.schema == expected, f"gave {delta.frame.schema}, its schema is {expected}")
        self._require(not delta.frame.get_column(DIFF).has_nulls(), "gave a null diff")
        if now.epoch > 0 and not self.operator.emits_without_rows and not any(map(len, deltas)):
            self._require(not len(delta), "gave rows without any input")
        if delta.is_consolidated and len(delta):
            kept, _ = consolidated_rows(delta.rows, delta.diffs)
            self._require(kept is None, "claims to be consolidated and is not")
        return delta

    def wakes_on_time(self, now: Now) -> bool:
        """What the wrapped operator says of itself."""
        return self.operator.wakes_on_time(now)

    def is_due(self, now: Now) -> bool:
        """What the wrapped operator says of itself."""
        return self.operator.is_due(now)

    @property
    def moved_clock(self) -> Clock | None:
        """The clock that the wrapped operator moves."""
        return self.operator.moved_clock

    @property
    def kept_sums(self) -> tuple[str, ...]:
        """What the wrapped operator says of itself."""
        return self.operator.kept_sums

    def route_of_states(self, columns: tuple[str, ...] | None) -> Route | None:
        """What the wrapped operator says of itself."""
        return self.operator.route_of_states(columns)

    def combine(self, delta: Delta) -> Delta | None:
        """The rows as the wrapped operator adds them up."""
        return self.operator.combine(delta)

    def _require(self, holds: bool, complaint: str) -> None:
        if not holds:
            raise ContractError(f"node {self._name!r} {complaint}")
