"""The rows of an engine's epoch, without those with which it fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import polars as pl

from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.columns.kernels import gather
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.halving import Span
from evercurrent.core.state.ledger import Refused

from ..compiler.builder import Compiled
from ..epochs.choreography import Evaluator
from ..epochs.refusing import NOT_COMPUTED, Refusing
from ..partitioned.clocks import Clocks
from ..partitioned.held_states import HeldStates
from ..partitioned.rows_alone import rows_apart
from ..partitioned.stage_runner import StageRunner
from ..partitioned.tasks import Instant
from ..plan.plan import Plan
from .roles import EpochResult, TakenInput


class RefusingEngine(Refusing[TakenInput, EpochResult]):
    """Evaluates epochs of an engine without the rows with which they fail, if the input allows that.

    Rows that did not fit their source are staged for the ledger, too.
    """

    def __init__(self, plan: Plan, compiled: Compiled, evaluator: Evaluator[TakenInput, EpochResult]) -> None:
        super().__init__(evaluator, compiled.ledger)
        self._plan = plan
        self._compiled = compiled

    @cached_property
    def _first_stage(self) -> StageRunner:
        held = HeldStates(self._compiled.circuit.key_hash)
        return StageRunner(self._plan, held, 1, inline_rows=None, allow_pickle=self._compiled.allow_pickle)

    def evaluate(self, now: Now, taken_input: TakenInput) -> EpochResult:
        """See ``Evaluator``."""
        evaluated = super().evaluate(now, taken_input)
        self.stage(now, taken_input.epoch_input.refused)
        return evaluated

    def rows_of(self, now: Now, taken_input: TakenInput) -> RowsPushed:
        """See ``Refusing``."""
        readings = Clocks(self._plan, self._compiled).readings()
        arrived = {name: delta.frame for name, delta in taken_input.arrived.items()}
        good, alone = rows_apart(self._first_stage, Instant(now.epoch, now.instant, readings), arrived)
        return RowsPushed(taken_input, good, alone)


class RowsPushed:
    """The rows of all pushes of an epoch, source by source: see ``Rows``."""

    def __init__(
        self, taken_input: TakenInput, arrived: dict[str, pl.DataFrame], alone: Sequence[Refused]
    ) -> None:
        self.alone = alone
        self._taken_input = taken_input
        self._arrived = arrived

    @property
    def height(self) -> int:
        """See ``Rows``."""
        return sum(frame.height for frame in self._arrived.values())

    def among(self, spans: Sequence[Span]) -> TakenInput:
        """See ``Rows``."""
        is_among = np.zeros(
            self.height, np.bool_
        )  # Spans are many, where bad rows are, and slices cost more.
        for start, end in spans:
            is_among[start:end] = True
        arrived, first = {}, 0
        for name, frame in self._arrived.items():
            arrived[name] = Delta(gather(frame, np.flatnonzero(is_among[first : first + frame.height])))
            first += frame.height
        return replace(self._taken_input, arrived=arrived)

    def refused(self, places: Sequence[int]) -> Sequence[Refused]:
        """See ``Rows``."""
        only = self.among([(place, place + 1) for place in places]).arrived
        return [
            Refused(Epoch(0), name, NOT_COMPUTED, delta.frame) for name, delta in only.items() if delta.height
        ]
