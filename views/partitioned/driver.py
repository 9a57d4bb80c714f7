"""The driver of epochs over states cut into buckets: it makes the tasks, moves the clocks, and commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import polars as pl

from evercurrent.core.circuit.circuit import NodeId
from evercurrent.core.circuit.stages import Exchange, Stage
from evercurrent.core.columns.kernels import Keys
from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.errors import CheckpointError
from evercurrent.core.data.instants import time_of
from evercurrent.core.data.schema import listed

from ..checkpoint import Commit, CommitLog, DeltaRef, PieceRef, Pieces, Saver, StateRecord
from ..checkpoint.pending import require_committed
from ..checkpoint.reader_offsets import read_note
from ..connectors.positions import joined
from ..durability.digest_schemes import EarlierNames
from ..durability.plan_diff import require_all_states, warn_of_unclaimed
from ..durability.plan_match import check_plan, plan_record
from ..plan.plan import Plan
from .clocks import Clocks
from .stage_runner import ChangedStates, StageRunner, with_epoch
from .tasks import FireRequest, Instant, RowBatch, Task, TaskResult


class Executors(Protocol):
    """Runs the tasks of a stage in other processes."""

    def run(self, tasks: Sequence[Task]) -> list[TaskResult]:
        """Run the tasks, of one stage and one epoch."""
        ...


ARRIVED = "arrived"
"""The fact of a commit with the number of rows in its epoch. Epoch 0, in which no rows can come, is without it."""

Arrival = Callable[[Instant], list[TaskResult]]
"""Runs the first stage over the rows of an epoch, given the time."""


@dataclass(frozen=True, slots=True)
class PartitionedDeltas:
    """The changes of an epoch: for each view that it changed, its delta in parts, with ``_diff`` and without ``_epoch``."""

    epoch: int
    parts: Mapping[str, tuple[RowBatch, ...]]


class Epochs:
    """The driver of a partitioned plan: the counterpart of the engine's step, over buckets on files.

    ``driver_rows``: stages with at most this many rows run in this process, without a job.
    """

    def __init__(
        self,
        plan: Plan,
        log: CommitLog,
        pieces: Pieces,
        *,
        buckets: int,
        driver_rows: int,
        inline_rows: int,
        writer: str,
        versions: Mapping[str, str],
        executors: Executors | None = None,
        drop: Sequence[str] = (),
        allow_pickle: bool = False,
    ) -> None:
        self.log = log
        self.runner = StageRunner(plan, pieces, buckets, inline_rows=inline_rows, allow_pickle=allow_pickle)
        self.cut = self.runner.cut
        self.clocks = Clocks(plan)
        self.pieces = pieces
        self._saver = Saver(pieces)
        self._buckets = buckets
        self._driver_rows = driver_rows
        self.executors = executors
        self._writer = writer
        self._versions = versions
        self._plan = plan_record(plan, self.runner.compiled)
        self._drop = tuple(drop)
        self._given_plan = plan
        self._earlier = EarlierNames(plan)
        self._looks_at_all = True
        self.ran_elsewhere = 0
        self.last = self._opened()

    def _opened(self) -> Commit:
        """The last commit, or that of epoch 0."""
        last = self.log.refresh()
        if last is None:
            nothing = Commit(
                epoch=-1, buckets=self._buckets, plan=self._plan, states={}, deltas={}, positions={}, readers={},
                epochs=(), facts={}, writer=self._writer, versions=self._versions,
            )  # fmt: skip
            self.last = nothing
            self.step(lambda instant: [self.runner.arrive(instant, 0, {})], 0, {}, {})
            return self.last
        last = self._of_this_plan(last)
        self.clocks.restore(self._saver, last)
        return last

    def refresh(self) -> None:
        """Load what others have committed, such as another process that has run the query."""
        last = self.log.refresh()
        if last is not None and last.epoch != self.last.epoch:
            last = self._earlier.renewed(last)
            self.clocks.restore(self._saver, last)
            self.last, self._looks_at_all = last, True

    def _of_this_plan(self, last: Commit) -> Commit:
        """Return the commit without dropped views and sources, with the epochs last delivered to its readers.

        Raises:
            CheckpointError: it is of another plan, or this one has new views, which are not filled here; or it is followed
                by epochs of which only the input is on disk.
        """
        require_committed(self.log.store, last)
        last = self._earlier.renewed(last)
        match = check_plan(last.plan, self._given_plan, self.runner.compiled, self._drop)
        # A view that is only renamed has all its states, but not the deltas that add up to them.
        if match.to_fill:
            raise CheckpointError(
                f"view {listed(match.to_fill)} is new to the checkpoint, and only the embedded engine can fill it from "
                "earlier rows: open it once with Engine(checkpoint=...) and the same Checkpoint, which fills views from what is "
                "retained, and then start the query"
            )
        require_all_states(self.log.store.url, match)
        warn_of_unclaimed(self.log.store.url, match)
        kept = {
            name: record for name, record in last.states.items() if name.rpartition("/")[0] not in match.gone
        }
        heard = read_note(self.log.store, last.epoch)
        return replace(
            last,
            states=kept,
            positions=match.positions(last.positions),
            readers=match.readers(
                last.readers if heard is None else heard, self._given_plan.views, last.epoch
            ),
        )

    @property
    def arrived(self) -> int | None:
        """The number of rows in the last epoch of this driver; None before the first."""
        arrived: int | None = self.last.facts.get(ARRIVED)
        return arrived

    def step(
        self,
        arrive: Arrival,
        at: int,
        positions: Mapping[str, Any],
        facts: Mapping[str, Any],
        *,
        tell: Callable[[PartitionedDeltas], None] | None = None,
        promised: Mapping[str, int] | None = None,
        fires: Sequence[FireRequest] = (),
    ) -> Commit:
        """Run one epoch: all stages, then the commit.

        ``arrive`` runs the first stage, ``at`` is the processing time in microseconds, ``tell`` is called with the deltas
        before they are committed. ``promised`` are watermarks by hand, ``fires`` windows that are fired. If anything
        raises, nothing has changed.

        Raises:
            CheckpointError: another writer was faster, or the store failed.
        """
        epoch = self.last.epoch + 1
        now = Now(Epoch(epoch), time_of(at))  # type: ignore[arg-type]
        work = _Epoch(dict(self.last.states))
        try:
            for source, watermark in (promised or {}).items():
                self.clocks.compiled.clocks[source].promise(watermark)
            work.signals = self._signals(fires)
            for stage in self.cut.stages:
                instant = Instant(epoch, at, self.clocks.said())
                done = arrive(instant) if stage.number == 0 else self._stage(stage, instant, work)
                done.sort(key=lambda one: one.place)
                self._collect(done, work)
                self.clocks.advance(stage.number, now, done)
            told = PartitionedDeltas(epoch, {view: tuple(parts) for view, parts in work.deltas.items()})
            if tell is not None:
                tell(told)
            commit = self._commit(at, work, told, positions, facts)
            self.log.append(commit)
        except BaseException:
            self.clocks.discard(self.last)
            raise
        self.clocks.commit()
        self._looks_at_all = False
        self.last = commit
        return commit

    # Stages

    def _stage(self, stage: Stage, instant: Instant, work: _Epoch) -> list[TaskResult]:
        tasks = []
        for bucket in range(self._buckets):
            given = _given(stage, bucket, work.rows)
            told = {node: keys for node, keys in work.signals.get(bucket, {}).items() if node in stage.owned}
            if given or told or self._is_due(stage, bucket, instant):
                known = self._states_of(stage, bucket)
                tasks.append(Task(stage.number, bucket, instant, known, given, told))
        if not tasks:
            return []
        if self.executors is None or sum(task.size for task in tasks) <= self._driver_rows:
            return self.runner.run(tasks, work.kept)
        self.ran_elsewhere += 1
        return self.executors.run(self._on_files(tasks))

    def _signals(self, fires: Sequence[FireRequest]) -> dict[int, dict[NodeId, Keys]]:
        """Return the windows that are fired, by bucket and by the node that tracks them."""
        signals: dict[int, dict[NodeId, Keys]] = {}
        for fire in fires:
            for bucket in range(self._buckets):
                node, keys = self.runner.windows(fire, bucket, self.clocks.said(), self.last.states)
                if len(keys):
                    told = signals.setdefault(bucket, {})
                    told[node] = Keys.concat([told[node], keys]) if node in told else keys
        return signals

    def _is_due(self, stage: Stage, bucket: int, instant: Instant) -> bool:
        """Return whether a bucket has work to do although it has no rows."""
        if instant.epoch == 0:
            return bucket == 0
        if not stage.has_timers:
            return False
        return self._looks_at_all or self.runner.is_due(stage, bucket, instant, self.last.states)

    def _states_of(self, stage: Stage, bucket: int) -> dict[str, StateRecord]:
        names = [f"{name}/{bucket}" for name in self.runner.states_of(stage, bucket)]
        return {name: self.last.states[name] for name in names if name in self.last.states}

    def _on_files(self, tasks: Sequence[Task]) -> list[Task]:
        """Return the same tasks with all their rows in files, for other processes."""
        held = [part for task in tasks for parts in task.rows.values() for part in parts]
        frames = [part.held for part in held if isinstance(part.held, pl.DataFrame)]
        refs = iter(self.pieces.write(frames, folder="exchange"))
        return [
            replace(
                task,
                rows={
                    exchange: tuple(
                        part if isinstance(part.held, PieceRef) else RowBatch(part.rows, next(refs))
                        for part in parts
                    )
                    for exchange, parts in task.rows.items()
                },
            )
            for task in tasks
        ]

    def _collect(self, done: Iterable[TaskResult], work: _Epoch) -> None:
        for one in done:
            work.arrived += one.arrived
            work.states.update(one.states)
            for exchange, parts in one.rows.items():
                for bucket, part in parts.items():
                    work.rows.setdefault(exchange, {}).setdefault(bucket, []).append(part)
            for view, part in one.deltas.items():
                work.deltas.setdefault(view, []).append(part)
            for refused in one.refused:
                self.clocks.ledger.stage(refused)
            for name, at in one.held_at.items():
                self.clocks.held_at[name, one.place] = at

    # The commit

    def _commit(
        self,
        at: int,
        work: _Epoch,
        told: PartitionedDeltas,
        positions: Mapping[str, Any],
        facts: Mapping[str, Any],
    ) -> Commit:
        """Write all that is in this process, at once, and put the record of the epoch."""
        frames = [
            (view, told.epoch, with_epoch(pl.concat(held) if len(held) > 1 else held[0], told.epoch))
            for view, parts in told.parts.items()
            if (held := [part.held for part in parts if isinstance(part.held, pl.DataFrame)])
        ]
        records, refs = self.runner.write({**work.kept, **self.clocks.to_keep()}, frames)
        work.states |= records
        self.clocks.mend(work.states)
        deltas = {
            view: tuple(DeltaRef(told.epoch, part.held) for part in parts if isinstance(part.held, PieceRef))
            for view, parts in told.parts.items()
        }
        for (view, _, _), ref in zip(frames, refs, strict=True):
            deltas[view] = (*deltas[view], ref)
        return Commit(
            epoch=told.epoch,
            buckets=self._buckets,
            plan=self._plan,
            states=work.states,
            deltas=deltas,
            positions=joined(self.last.positions, positions),
            readers=self.last.readers,
            epochs=((told.epoch, at, self.clocks.watermarks()),) if told.epoch else (),
            facts={**self.last.facts, **facts, **({ARRIVED: work.arrived} if told.epoch else {})},
            writer=self._writer,
            versions=self._versions,
        )


@dataclass(slots=True)
class _Epoch:
    """The results of an epoch so far; ``kept`` are states that are still to be written."""

    states: dict[str, StateRecord]
    arrived: int = 0
    kept: ChangedStates = field(default_factory=dict)
    rows: dict[Exchange, dict[int, list[RowBatch]]] = field(default_factory=dict)
    deltas: dict[str, list[RowBatch]] = field(default_factory=dict)
    signals: dict[int, dict[NodeId, Keys]] = field(default_factory=dict)


def _given(
    stage: Stage, bucket: int, rows: Mapping[Exchange, Mapping[int, Sequence[RowBatch]]]
) -> dict[Exchange, tuple[RowBatch, ...]]:
    """Return the rows that the stages before have for this bucket."""
    given = {exchange: rows.get(exchange, {}).get(bucket, ()) for exchange in stage.takes}
    return {exchange: tuple(parts) for exchange, parts in given.items() if parts}
