"""When a checkpoint is opened, epochs of which only the input is on disk are evaluated again."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from evercurrent.core.data.clock import Now
from evercurrent.core.data.errors import CheckpointError, EvercurrentError

from ..compiler.builder import Compiled
from ..dataframe.source import Source
from ..durability.durability import Durability
from ..epochs.reader_keys import view_of
from ..epochs.records import EpochInput, EvaluatedEpoch, RestorePoint
from ..epochs.run_log import RunRecorder
from ..epochs.subscriptions import Readers
from .roles import MetadataOf
from .view import View


class Step(Protocol):
    """Runs one epoch, of which the deltas of ``silent`` views are not published."""

    def __call__(self, now: Now, epoch_input: EpochInput, silent: Container[str] | None = None) -> object:
        """Run it."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Reopening:
    """A checkpoint that an engine opens, with the circuit that has its states."""

    durability: Durability
    compiled: Compiled
    sources: Mapping[str, Source]
    views: Mapping[str, View]
    readers: Readers
    log: RunRecorder

    def evaluated_again(self, resumed: RestorePoint, step: Step, metadata: MetadataOf) -> RestorePoint:
        """Evaluate the epochs again whose input is on disk, and commit them; named subscriptions catch up by themselves.

        Raises:
            CheckpointError: one of them fails, although it was done before.
        """
        for logged in resumed.logged:
            delivered = {
                key: at for key, at in logged.delivered.items() if view_of(key, self.views) is not None
            }
            self.readers.remember(delivered)
            try:
                epoch_input = logged.epoch_input.among(self.sources, self.compiled.clocks)
                step(logged.now, epoch_input, silent=resumed.filled)
            except EvercurrentError as error:
                is_last = logged is resumed.logged[-1] and logged.epoch > resumed.acknowledged
                if resumed.is_same_plan and is_last:
                    break  # It was refused before, and the process ended before it could raise the error.
                raise CheckpointError(
                    f"epoch {logged.epoch} was finished and not committed, and evaluating its logged input again "
                    f"failed: {error}"
                ) from error
        last = self.durability.waiting[-1] if self.durability.waiting else None
        self.durability.flush(metadata({}, {}))
        return resumed if last is None else self._after(resumed, last)

    def _after(self, resumed: RestorePoint, last: EvaluatedEpoch) -> RestorePoint:
        """Return the end of the checkpoint after its last epoch was evaluated again."""
        for name in resumed.filled:
            self.views[name]._history.go_on(last.epoch, self.durability.past)
        return replace(
            resumed,
            epoch=last.epoch,
            rows=self.log.rows_with({}),
            last=(last.epoch, last.now.instant, last.watermarks),
            # With their diffs, as some rows may be there less than no times.
            filled={name: self.compiled.contents[name].emitted().consolidate() for name in resumed.filled},
        )
