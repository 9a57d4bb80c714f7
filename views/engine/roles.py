"""Two of the roles in an engine's epochs: the evaluator steps the circuit of this process, the keeper writes to a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Literal

import polars as pl

from evercurrent.core.circuit.circuit import EpochDeltas
from evercurrent.core.data.clock import Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.state.snapshot import Saved

from ..compiler.builder import Compiled
from ..connectors.positions import Position
from ..durability.durability import Durability
from ..epochs.records import CommitMetadata, EpochInput, EvaluatedEpoch
from ..epochs.view_deltas import ViewDelta, ViewDeltas
from .fills import Fills

InputLog = Literal["to write", "written", "none"]
"""Whether the input of an epoch is to be logged, is in the log already, or is not logged."""


MetadataOf = Callable[[Mapping[str, Position], Mapping[str, pl.DataFrame]], CommitMetadata]
"""A function that returns the metadata of a commit, given the positions that an epoch moves and the rows that it brings."""


@dataclass(frozen=True, slots=True, eq=False)
class TakenInput:
    """The input of an epoch as it is evaluated. The deltas of views in ``silent`` are not published."""

    epoch_input: EpochInput = field(default_factory=EpochInput)
    arrived: Mapping[str, Delta] = field(default_factory=dict)
    log: InputLog = "none"
    silent: Container[str] = ()


@dataclass(frozen=True, slots=True, eq=False)
class EpochResult:
    """The result of evaluating an epoch: ``epoch`` is the part that is written, the rest is needed by this process only.

    ``positions`` are those that its input has moved, ``rows`` the rows that came from sources with event time, ``untimed``
    those of the others. ``touched`` are the views whose states may have changed. ``elsewhere`` has the contents after this
    epoch of states whose changes are staged in other objects, by the ``id`` of the state.
    """

    epoch: EvaluatedEpoch
    positions: Mapping[str, Position]
    rows: Mapping[str, pl.DataFrame]
    touched: tuple[str, ...]
    elsewhere: Mapping[int, Saved] = field(default_factory=dict)
    untimed: Mapping[str, Delta] = field(default_factory=dict)


class CircuitEvaluator:
    """Evaluates epochs by a circuit whose states are in this process."""

    def __init__(self, compiled: Compiled, fills: Fills | None = None) -> None:
        self.compiled = compiled
        self._fills = Fills() if fills is None else fills
        self._marks: Mapping[str, int] | None = None
        """The watermarks of the sources after the last epoch; None before the first one."""
        self._staged: EpochDeltas | None = None

    def promise(self, taken_input: TakenInput) -> None:
        """See ``Evaluator``."""
        for source, watermark in taken_input.epoch_input.watermarks.items():
            self.compiled.clocks[source].promise(watermark)

    def evaluate(self, now: Now, taken_input: TakenInput) -> EpochResult:
        """See ``Evaluator``."""
        compiled = self.compiled
        staged = self._staged = compiled.circuit.evaluate(now, taken_input.arrived)
        timed, untimed = compiled.timed_rows(staged.deltas), compiled.untimed_rows(staged.deltas)
        touched, marks = tuple(compiled.views_at(staged.deltas)), self._marks
        if marks is None:
            marks = {name: clock.now for name, clock in compiled.clocks.items()}
        elif timed:  # Only the clocks of sources that the epoch visits have moved.
            marks = {**marks, **{name: compiled.clocks[name].now for name in timed}}
        of_views = ViewDeltas.of(now.epoch, compiled.of_views(staged.deltas, taken_input.silent))
        evaluated = EvaluatedEpoch(now, marks, of_views)
        return EpochResult(evaluated, taken_input.epoch_input.positions, timed, touched, untimed=untimed)

    def commit(self, evaluated: EpochResult) -> None:
        """See ``Evaluator``."""
        assert self._staged is not None, "an epoch is evaluated before it is committed"
        self.compiled.circuit.commit(self._staged)
        if self._fills:
            self._fills.took(self.compiled, self._staged.deltas)
        self._marks, self._staged = evaluated.epoch.watermarks, None

    def discard(self) -> None:
        """See ``Evaluator``."""
        self.compiled.circuit.discard()
        self._staged = None


class FilledViews:
    """Evaluates the epoch that publishes the rows of views that are new in the program. The rows are already computed."""

    def __init__(self, filled: Mapping[str, Delta | ViewDelta], watermarks: Mapping[str, int]) -> None:
        self._filled = filled
        self._watermarks = watermarks

    def promise(self, taken_input: TakenInput) -> None:
        """See ``Evaluator``: the epoch has no input."""

    def evaluate(self, now: Now, taken_input: TakenInput) -> EpochResult:
        """See ``Evaluator``."""
        deltas = {
            name: delta if isinstance(delta, ViewDelta) else ViewDelta(now.epoch, delta)
            for name, delta in self._filled.items()
        }
        changed = {name: delta for name, delta in deltas.items() if delta.entries}
        evaluated = EvaluatedEpoch(now, self._watermarks, ViewDeltas(changed))
        return EpochResult(evaluated, {}, {}, tuple(self._filled))

    def commit(self, evaluated: EpochResult) -> None:
        """See ``Evaluator``: the states hold the rows already."""

    def discard(self) -> None:
        """See ``Evaluator``: nothing is staged."""


class OnDisk:
    """Keeps epochs in a checkpoint, with the metadata that ``metadata`` returns.

    ``delivered`` returns the last epochs that were delivered to named subscriptions.
    """

    def __init__(
        self, durability: Durability, metadata: MetadataOf, delivered: Callable[[], Mapping[str, int]]
    ) -> None:
        self._durability = durability
        self._metadata = metadata
        self._delivered = delivered

    def log(self, now: Now, taken_input: TakenInput) -> None:
        """See ``Keeper``."""
        if taken_input.log == "to write":
            self._durability.log(now, taken_input.epoch_input, taken_input.arrived, self._delivered())
        elif taken_input.log == "written":
            self._durability.logged_before()

    def write(self, now: Now, evaluated: EpochResult) -> None:
        """See ``Keeper``."""
        for delta in evaluated.epoch.deltas.unread.values():
            _ = delta.frame  # Now, and not all at once in the commit that writes many epochs.
        metadata = self._metadata(evaluated.positions, evaluated.rows)
        self._durability.write(evaluated.epoch, metadata, evaluated.elsewhere)

    def append(self) -> None:
        """See ``Keeper``."""
        self._durability.append()

    def discard(self) -> None:
        """See ``Keeper``."""
        self._durability.discard()

    def tidy(self) -> None:
        """See ``Keeper``."""
        self._durability.tidy()
