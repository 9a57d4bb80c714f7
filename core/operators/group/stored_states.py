"""The states of users' aggregates that a group operator keeps: an aggregate with an inverse has a state of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
import polars as pl

from ...data.columns.grouping import Groups
from ...data.columns.kernels import Ints, key_words, series_of
from ...data.delta import Delta
from ...state.readable import UserState
from .accumulators import LENGTH
from .aggregate_contract import AggregateState, StoredStates, Sums
from .aggregates import Aggregate
from .group_spec import GroupSpec


class StoredAggregates:
    """The aggregates of a group operator that keep states, each with what it computes."""

    def __init__(self, spec: GroupSpec, aggregates: Iterable[tuple[AggregateState, Aggregate]]) -> None:
        self._spec = spec
        self._stored: list[tuple[StoredStates, Aggregate]] = [
            (own, aggregate) for part, aggregate in aggregates if (own := part.stored_states) is not None
        ]
        self.states = [own for own, _ in self._stored]

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the names of the states."""
        return tuple(f"states of {', '.join(self._spec.shown(aggregate))}" for _, aggregate in self._stored)

    @property
    def user_states(self) -> Sequence[UserState]:
        """Return the states of users' aggregates that are kept."""
        return [
            UserState(own.spine, own.has_pickles, own.convert, partial(self._spec.refusal, aggregate))
            for own, aggregate in self._stored
        ]

    def contributions(self, delta: Delta, diffs: Ints) -> dict[str, Ints]:
        """Return what rows add to the column of each: a sum of row words modulo 2^64, zero when no row is left.

        Diffs that add up to zero do not imply that.
        """
        return {
            own.column: key_words([delta.column(own.input)], len(delta)).first.view(np.int64) * diffs
            for own in self.states
        }

    def stage(self, groups: Groups, delta: Delta, after: Sums) -> None:
        """Stage the states of groups after these rows; ``after`` are the additive columns of the groups by then."""
        nothing = np.zeros(len(groups), np.int64)
        for own, aggregate in self._stored:
            empty = (after.get(LENGTH, nothing) == 0) & (after.get(own.column, nothing) == 0)
            try:
                own.stage(groups, series_of(delta.column(own.input)), delta.diffs, empty)
            except (Exception, pl.exceptions.PanicException) as error:
                raise self._spec.error_of(aggregate, error) from error
