"""The keeper of epochs over buckets: it commits each epoch, with a record that names the files of all tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from evercurrent.core.data.clock import Now

from ..checkpoint import Commit, CommitLog, DeltaRef, PieceRef, StateRecord
from ..checkpoint.rebucket import TOGETHER
from ..connectors.positions import joined
from .bucket_evaluator import BucketInput, BucketResult
from .clocks import Clocks
from .delta_frames import with_epoch
from .progress import PROGRESS
from .stage_runner import StageRunner
from .tasks import RowBatch

ARRIVED = "arrived"
"""The fact of a commit that has the number of rows in its epoch. Epoch 0, in which no rows can arrive, has no such fact."""

ARRIVED_BYTES = "arrived_bytes"
"""The fact that has the size of these rows as they arrived. Earlier versions did not write it."""

IN_BUCKETS = "in_buckets"
"""The fact that has the number of the last epoch over buckets. An engine that commits later ones carries it on as it is."""


@dataclass(frozen=True, slots=True)
class PartitionedDeltas:
    """The changes of an epoch: for each view that it changed, its delta in parts, with ``_diff`` and without ``_epoch``."""

    epoch: int
    parts: Mapping[str, tuple[RowBatch, ...]]

    @staticmethod
    def of(now: Now, evaluated: BucketResult) -> PartitionedDeltas:
        """Return the changes of an epoch that was evaluated."""
        return PartitionedDeltas(now.epoch, {view: tuple(parts) for view, parts in evaluated.deltas.items()})


class BucketCommits:
    """Commits every epoch. Input is not logged, since its sender offers it again until it is committed.

    ``last`` is the last commit; before the first one it is a commit of epoch -1 with the fields that all commits share.
    """

    def __init__(self, log: CommitLog, runner: StageRunner, clocks: Clocks, last: Commit) -> None:
        self.last = last
        self._log = log
        self._runner = runner
        self._clocks = clocks
        self._common = last
        self._begun: Commit | None = None
        self.measure: Callable[[Commit, BucketResult], Mapping[str, Any]] | None = None
        """Returns the measures of an epoch that is about to be committed, for its record."""

    def log(self, now: Now, taken_input: BucketInput) -> None:
        """See ``Keeper``: there is no log of inputs."""

    def write(self, now: Now, evaluated: BucketResult) -> None:
        """See ``Keeper``. Tasks in other processes have written their files; all that is in this process is written at once."""
        changed = PartitionedDeltas.of(now, evaluated)
        frames = [
            (view, changed.epoch, with_epoch(pl.concat(held) if len(held) > 1 else held[0], changed.epoch))
            for view, parts in changed.parts.items()
            if (held := [part.held for part in parts if isinstance(part.held, pl.DataFrame)])
        ]
        records, refs = self._runner.write({**evaluated.changed, **self._clocks.to_keep()}, frames)
        evaluated.states |= records
        self._clocks.mend(evaluated.states)
        deltas = {
            view: tuple(
                DeltaRef(changed.epoch, part.held) for part in parts if isinstance(part.held, PieceRef)
            )
            for view, parts in changed.parts.items()
        }
        for (view, _, _), ref in zip(frames, refs, strict=True):
            deltas[view] = (*deltas[view], ref)
        commit = self._commit_of(now, evaluated, deltas)
        if self.measure is not None and now.epoch:
            commit = replace(commit, facts={**commit.facts, PROGRESS: self.measure(commit, evaluated)})
        self._begun = commit

    def append(self) -> None:
        """See ``Keeper``."""
        assert self._begun is not None, "an epoch is written before it is committed"
        self._log.append(self._begun)
        self.last, self._begun = self._begun, None

    def discard(self) -> None:
        """See ``Keeper``: no record names what was written."""
        self._begun = None

    def tidy(self) -> None:
        """See ``Keeper``: the caller, which counts the micro-batches, removes files that are no longer needed."""

    def _commit_of(
        self, now: Now, evaluated: BucketResult, deltas: Mapping[str, tuple[DeltaRef, ...]]
    ) -> Commit:
        taken_input, own = evaluated.taken, self._common
        facts: dict[str, Any] = {
            **self.last.facts,
            **taken_input.facts,
            IN_BUCKETS: int(now.epoch),
            TOGETHER: True,
        }
        return Commit(
            epoch=now.epoch,
            buckets=own.buckets,
            plan=own.plan,
            states=evaluated.states,
            deltas=deltas,
            positions=joined(self.last.positions, taken_input.positions),
            readers=self.last.readers,
            epochs=((now.epoch, now.instant, self._clocks.watermarks()),) if now.epoch else (),
            facts=facts | (_arrived(evaluated) if now.epoch else {}),
            writer=own.writer,
            versions=own.versions,
        )


def _arrived(evaluated: BucketResult) -> dict[str, int]:
    return {ARRIVED: evaluated.arrived, ARRIVED_BYTES: evaluated.arrived_bytes}


def bytes_by_bucket(states: Mapping[str, StateRecord]) -> dict[int, int]:
    """Return the size of the states of each bucket that has some, of records by ``"<state id>/<bucket>"``."""
    sizes: dict[int, int] = {}
    for name, record in states.items():
        bucket = name.rpartition("/")[2]
        if bucket.isdecimal():
            sizes[int(bucket)] = sizes.get(int(bucket), 0) + sum(piece.size for piece in record.pieces)
    return sizes


def largest_bucket(commit: Commit | None) -> int:
    """Return the size of the states of the largest bucket of a commit; 0 where there is none."""
    return 0 if commit is None else max(bytes_by_bucket(commit.states).values(), default=0)
