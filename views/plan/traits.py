"""The traits of plan nodes: what follows from an operation for its rows, its operator, its states and messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import polars as pl

from evercurrent.core.circuit.placement import ANYWHERE, Placement
from evercurrent.core.operators.group.aggregates import Column
from evercurrent.core.state.operator_contract import Operator
from evercurrent.core.state.protocol import State

from .shapes import Same, Shape

Place = TypeVar("Place")


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """The one operator that an operation becomes, the states that it keeps for itself, and where it may run."""

    operator: Operator
    states: Sequence[State] = ()
    placement: Placement = ANYWHERE


class Traits:
    """The traits of an operation's rows. The defaults are those of an operation that computes row by row."""

    __slots__ = ()

    is_grouping: ClassVar[bool] = False
    """Whether its rows are those of groups, whose number does not grow with the rows of the input."""

    keeps_last: ClassVar[bool] = False
    """Whether it keeps the last row of each key and window of its input."""

    may_keep_less: ClassVar[bool] = False
    """Whether it keeps less of an input that never retracts than earlier versions did, under a name of its own."""

    def made(self, where: str, schema: pl.Schema) -> Made | None:
        """Return the operator that it becomes, whose rows have this schema; ``where`` is the beginning of messages.

        Return None if the compiler has more to do, such as arranging rows by a key, which others may share.
        """
        return None

    @property
    def shape(self) -> Shape:
        """Return how its rows follow from those of its inputs."""
        return Same()

    def keys_of_rows(self, schema: pl.Schema, *, last_only: bool = False) -> tuple[str, ...]:
        """Return the key columns of its rows, or with ``last_only`` of the last rows; none where rows have no keys."""
        return ()

    def counts_again(self, place: Place, before: Sequence[Place]) -> Place | None:
        """Return the grouping whose panes repeat what earlier panes held, if rows of the operation at this place may.

        ``before`` are the groupings whose panes repeat in the rows of its inputs.
        """
        return before[0] if before else None

    def may_retract(self, inputs_do: bool) -> bool:
        """Return whether its rows may be retracted, given whether those of its inputs may."""
        return inputs_do

    def may_go_below_zero(self, may_retract: bool) -> bool:
        """Return whether it may produce negative counts of rows where its inputs have none."""
        return False

    def hands_on_below_zero(self, inputs: Sequence[Place]) -> Sequence[Place]:
        """Return the inputs whose negative counts of rows become negative counts of its own rows."""
        return inputs

    def why_below_zero(self, source: str) -> str:
        """Return the reason why it produces negative counts of rows of its input, which has this name in messages."""
        raise AssertionError(f"{self} produces none")

    @property
    def grouped_by(self) -> tuple[str, ...] | None:
        """Return the keys whose groups its rows are; None if it does not aggregate."""
        return None

    @property
    def prepared(self) -> tuple[Column, ...]:
        """Return the columns that it computes of its input's rows under names of its own, as for aggregates."""
        return ()

    def state_label(self, label: str, role: str | None) -> str:
        """Return the label in displays of a state with this role, in a node with this label."""
        return label if role is None else f"{label}: {role}"


class GroupTraits(Traits):
    """The traits of an operation whose rows are those of groups."""

    __slots__ = ()

    is_grouping: ClassVar[bool] = True

    def may_retract(self, inputs_do: bool) -> bool:
        """Return True: rows may be retracted whatever the inputs do."""
        return True

    def hands_on_below_zero(self, inputs: Sequence[Place]) -> Sequence[Place]:
        """Return none, as its rows have no negative counts."""
        return ()
