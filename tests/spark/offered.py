"""Micro-batches offered to a plan in buckets, in this process and without Spark: on any store, opened anew at will."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

import evercurrent as ec
from evercurrent.spark_bridge.execution.control_records import require_next
from evercurrent.spark_bridge.execution.jobs import sources_of
from evercurrent.views.checkpoint import CommitLog, Pieces, new_writer, pieces, versions
from evercurrent.views.checkpoint.bounded import Bounded
from evercurrent.views.dataframe.accepted_rows import accepted
from evercurrent.views.partitioned.bucket_states import BucketStates, ComputedStates
from evercurrent.views.partitioned.driver import Epochs, PlanChange
from evercurrent.views.partitioned.stage_runner import StageRunner
from evercurrent.views.partitioned.tasks import Instant, TaskResult
from evercurrent.views.plan.plan import Plan
from evercurrent.views.store import Store, store_at
from spark.twins import Elsewhere

Rows = Mapping[str, pl.DataFrame]


class Offering:
    """Epochs on a store, as a driver has them that has just started; batches are taken or skipped by their numbers.

    ``elsewhere``: no stage runs in the driver, each task is run twice, and all rows go through files.
    """

    def __init__(
        self,
        plan: Plan,
        store: Store,
        *,
        buckets: int = 3,
        elsewhere: bool = False,
        full_every: int = 64,
        drop: Sequence[str] = (),
        change: PlanChange | None = None,
    ) -> None:
        self.plan = plan
        kept, inline = Pieces.of(store), 0 if elsewhere else 1000
        self.runner = StageRunner(plan, kept, buckets, inline_rows=inline)
        self.epochs = Epochs(
            plan,
            CommitLog(store, full_every=full_every),
            kept,
            buckets=buckets,
            driver_rows=-1 if elsewhere else 1000,
            inline_rows=inline,
            writer=new_writer(),
            versions=versions(),
            executors=Elsewhere(self.runner) if elsewhere else None,
            drop=drop,
            change=change,
        )
        self._options: dict[str, Any] = {
            "buckets": buckets, "elsewhere": elsewhere, "full_every": full_every, "drop": tuple(drop)
        }  # fmt: skip

    def redeclared(
        self, plan: Plan, drop: Sequence[str] = (), computed: ComputedStates | None = None
    ) -> Offering:
        """The same query after a change of its plan between two micro-batches."""
        return self._changed(plan, drop, PlanChange("what is declared", self.epochs, computed))

    def planned(
        self, plan: Plan, drop: Sequence[str] = (), computed: ComputedStates | None = None
    ) -> BucketStates | None:
        """What is to be computed for a change of its plan."""
        change = PlanChange("what is declared", self.epochs, computed, is_planned=True)
        return self._changed(plan, drop, change).epochs.filling

    def _changed(self, plan: Plan, drop: Sequence[str], change: PlanChange) -> Offering:
        options = {**self._options, "drop": (*self._options["drop"], *drop)}
        return Offering(plan, self.epochs.log.store, **options, change=change)

    @property
    def done(self) -> int | None:
        """The number of the last batch that is committed."""
        number: int | None = self.epochs.last.facts.get("spark", {}).get("batch")
        return number

    def offer(self, number: int, rows: Rows) -> bool:
        """Run a batch, unless it was committed before. Two partitions, the second one is done first."""
        if not require_next(self.done, number):
            return False
        sources = sources_of(self.plan)
        given = {name: accepted(sources[name], frame).frame for name, frame in rows.items()}

        def arrive(when: Instant) -> list[TaskResult]:
            return [self.runner.arrive(when, part, part_of(given, part)) for part in (1, 0)]

        self.epochs.step(arrive, 1_700_000_000_000_000 + number, {}, {"spark": {"batch": number}})
        return True


def part_of(rows: Rows, part: int) -> dict[str, pl.DataFrame]:
    """One of two parts of the rows of a batch."""
    cut = {name: frame.slice(*((0, n // 2) if part == 0 else (n // 2, n))) for name, frame in rows.items()
           for n in [frame.height]}  # fmt: skip
    return {name: frame for name, frame in cut.items() if frame.height}


def forget_everything() -> None:
    """What a new process remembers of files: nothing."""
    pieces._SHARED = Bounded(pieces.STORES)
    pieces._DECODED = Bounded(pieces.MOST_DECODED, pieces.MOST_DECODED_BYTES)


# What is in a checkpoint, for whoever looks


def emitted_deltas(where: str | Path | Store, views: Any, since: int = -1) -> dict[str, dict[int, list[Any]]]:
    """The deltas of views by epoch, as the commits name their files; the rows of each epoch sorted."""
    store = store_at(where)
    log, pieces = CommitLog(store), Pieces(store)
    deltas: dict[str, dict[int, list[Any]]] = {}
    for view in views:
        epochs: dict[int, list[Any]] = {}
        for ref in log.deltas(view, since):
            frame = pieces.read(ref.piece)
            assert frame["_epoch"].unique().to_list() == [ref.epoch]
            epochs.setdefault(ref.epoch, []).extend(frame.rows())
        deltas[view] = {epoch: sorted(rows, key=repr) for epoch, rows in epochs.items()}
    return deltas


def held(
    plan: Plan, where: str | Path | Store, epoch: int | None = None, *, runner: StageRunner | None = None
) -> dict[str, list[Any]]:
    """The contents of all views, sorted, as of an epoch, by default the last."""
    store = store_at(where)
    log = CommitLog(store)
    commit = log.last if epoch is None else log.at(epoch)
    assert commit is not None
    runner = runner or StageRunner(plan, Pieces(store), commit.buckets, inline_rows=0)
    found: dict[str, list[Any]] = {}
    for view in plan.views:
        frames = [runner.contents(view, bucket, commit.states) for bucket in range(commit.buckets)]
        rows = [row for frame in frames if frame is not None for row in frame.rows()]
        found[view] = sorted(rows, key=repr)
    return found


def declared(declare: Any) -> Plan:
    """The plan of what a function declares."""
    engine = ec.Engine()
    declare(engine)
    return engine.declared
