"""The contents of a view in a checkpoint as partitions of a source of Spark, without an engine in the job that reads.

Where states are what a view is computed from, only its declaration shows how: ``app`` names a module that has it, and buckets
are read side by side. Without it the contents are the sum of all deltas, as long as they are retained from the first one on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from pyspark.sql.datasource import InputPartition

from evercurrent.core.data.columns.kernels import gather, stack
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import EpochGoneError
from evercurrent.core.data.schema import EPOCH
from evercurrent.views.checkpoint import Commit, CommitLog, DeltaRef, Pieces
from evercurrent.views.cli.applications import load
from evercurrent.views.durability.time_travel import BORN, delta_files
from evercurrent.views.epochs.history import BEFORE_ALL
from evercurrent.views.partitioned.checkpoint_reader import CheckpointReader
from evercurrent.views.store import store_at

from ..execution.jobs import Setup
from ..execution.preflight import check_picklable
from .delta_options import LAST, ReadOptions


class Bucket(InputPartition):
    """The contents in one bucket, as the plan of an application computes them."""

    def __init__(self, setup: Setup, view: str, bucket: int, commit: Commit) -> None:
        super().__init__(None)
        self._setup, self._view, self._bucket, self._commit = setup, view, bucket, commit

    def contents(self, options: ReadOptions) -> pl.DataFrame | None:
        """Return the rows; None if there are none."""
        return self._setup.runner().contents(self._view, self._bucket, self._commit.states)


class Summed(InputPartition):
    """The contents as the sum of all deltas."""

    def __init__(self, refs: Sequence[DeltaRef]) -> None:
        super().__init__(None)
        self._refs = tuple(refs)

    def contents(self, options: ReadOptions) -> pl.DataFrame | None:
        """Return the rows; None if there are none."""
        pieces = Pieces.of(store_at(options.path))
        frames = [pieces.read_delta(ref).drop(EPOCH) for ref in self._refs]
        if not frames:
            return None
        summed = Delta(stack(frames)).consolidate()
        return gather(summed.rows, np.repeat(np.arange(len(summed)), summed.diffs))


def contents_partitions(options: ReadOptions, log: CommitLog, epoch: int) -> Sequence[Bucket | Summed]:
    """Return the partitions of the contents as of an epoch; ``LAST`` for the last commit.

    Raises:
        EpochGoneError: without ``app``, deltas are no longer all retained; with it, the commit is not.
        ApplicationError, CheckpointError: the application cannot be loaded, or is not that of the checkpoint.
    """
    return _summed(options, log, epoch) if options.app is None else _in_buckets(options, options.app, epoch)


def _summed(options: ReadOptions, log: CommitLog, epoch: int) -> Sequence[Summed]:
    last = log.last
    born = {} if last is None else last.facts.get(BORN, {})
    try:
        refs = delta_files(log, options.view, BEFORE_ALL, born)
    except EpochGoneError as error:
        raise EpochGoneError(
            f"{options.where}: its contents are the sum of its deltas, which are no longer all retained; name the module that "
            "declares it, as for evercurrent run: .option('app', 'my_views')"
        ) from error
    first = born.get(options.view, 0)
    if epoch != LAST and epoch < first:
        raise EpochGoneError(
            f"{options.where}: its present definition begins at epoch {first}; read a later epoch"
        )
    return [Summed([ref for ref in refs if epoch in (LAST, ref.epoch) or ref.epoch < epoch])]


def _in_buckets(options: ReadOptions, app: str, epoch: int) -> Sequence[Bucket]:
    plan = load(app).engine.declared
    reader = CheckpointReader(plan, store_at(options.path))
    commit = reader.commit(options.view, None if epoch == LAST else epoch)
    setup = Setup(check_picklable(plan, f"the plan of {app}"), options.path, commit.buckets, inline_rows=0)
    return [
        Bucket(setup, options.view, bucket, _of_bucket(commit, bucket)) for bucket in range(commit.buckets)
    ]


def _of_bucket(commit: Commit, bucket: int) -> Commit:
    """Return the part of a commit that a task needs which reads one bucket."""
    states = {name: state for name, state in commit.states.items() if name.endswith(f"/{bucket}")}
    return replace(commit, states=states, deltas={}, readers={}, epochs=(), facts={})
