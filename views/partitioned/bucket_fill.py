"""Views that are new to a checkpoint in buckets are filled bucket by bucket, as the embedded engine fills them.

What is kept is read with the runner of the plan. What has to be computed goes through a runner of its own, whose states are
empty: stage after stage, since a node takes rows of all buckets of the stage before. The new states are written, and one epoch
without input commits them together with all rows of the new views as their first deltas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl

from evercurrent.core.circuit.circuit import NodeId
from evercurrent.core.circuit.stages import Exchange, Stage
from evercurrent.core.columns.kernels import stack
from evercurrent.core.columns.key_hash import hashing_by
from evercurrent.core.data.clock import Now
from evercurrent.core.data.delta import Delta

from ..checkpoint import Commit, Pieces, StateRecord
from ..durability.backfill import AT_OPENING, NodesToFill
from ..durability.kept_rows import KeptRows
from ..durability.plan_match import PlanMatch
from ..durability.time_travel import BORN
from ..plan.plan import Plan
from .bucket_evaluator import BucketInput, BucketResult
from .clocks import Clocks
from .stage_runner import ChangedStates, StageRunner
from .tasks import Instant, Parts, RowBatch, Task, TaskResult


@dataclass(slots=True, eq=False)
class _Filled:
    """What one pass over the stages gives: rows between stages, states that changed, and how windows hold watermarks back."""

    rows: dict[Exchange, dict[int, list[RowBatch]]] = field(default_factory=dict)
    kept: ChangedStates = field(default_factory=dict)
    held_at: dict[tuple[str, int], int] = field(default_factory=dict)


class BucketFill:
    """Evaluates the epoch in which views that are new to a checkpoint get their rows. It has no input.

    ``runner`` runs the plan, ``last`` is the commit that the states are of, without those that are gone.

    Raises:
        CheckpointError: a view cannot be filled; names it and what would fill it.
    """

    def __init__(
        self,
        plan: Plan,
        pieces: Pieces,
        runner: StageRunner,
        clocks: Clocks,
        last: Commit,
        match: PlanMatch,
    ) -> None:
        self._runner, self._clocks, self._last, self._match = runner, clocks, last, match
        self._nodes = NodesToFill(plan, runner.compiled, match, runner.compiled.retained, {}, AT_OPENING)
        self._nodes.require_fillable()
        self._fresh = runner.another(plan, pieces)
        self._pieces = pieces
        self._cut = runner.cut
        self._cut_again: dict[NodeId, dict[int, list[pl.DataFrame]]] = {}
        """Rows that are kept in other buckets than those of their node."""
        self._kept_in = {place: self._keeper(place, rows) for place, rows in self._nodes.given.items()}

    def _keeper(self, place: NodeId, rows: KeptRows) -> NodeId | None:
        """Return the node that keeps the rows of a node; None if there are none."""
        if not rows.spines:
            return None
        nodes = enumerate(self._runner.circuit.nodes)
        return next(NodeId(at) for at, node in nodes if any(rows.spines[0] is each for each in node.states))

    # The epoch

    def promise(self, taken_input: BucketInput) -> None:
        """See ``Evaluator``: the epoch has no input."""

    def evaluate(self, now: Now, taken_input: BucketInput) -> BucketResult:
        """See ``Evaluator``."""
        states: dict[str, StateRecord] = {}
        filled = _Filled()
        for epoch in (0, 1):  # A group of nothing gets its row in the epoch before any input.
            filled = self._pass(epoch, states)
            states |= self._fresh.write(filled.kept)[0]
        states = {
            name: record for name, record in states.items() if name.rpartition("/")[0] in self._match.new
        }
        self._clocks.held_at |= {
            (name, bucket): at for (name, bucket), at in filled.held_at.items() if name in self._match.new
        }
        every = {**self._last.states, **states}
        deltas = {view: list(self._rows_of(view, every, now)) for view in self._match.to_fill}
        born = {
            **self._last.facts.get(BORN, {}),
            **dict.fromkeys(self._match.to_fill, int(now.epoch)),
        }
        taken_input = BucketInput(taken_input.arrive, facts={BORN: born})
        return BucketResult(
            taken_input, every, deltas={view: parts for view, parts in deltas.items() if parts}
        )

    def commit(self, evaluated: BucketResult) -> None:
        """See ``Evaluator``."""
        self._clocks.commit()

    def discard(self) -> None:
        """See ``Evaluator``."""
        self._clocks.discard()

    def _pass(self, epoch: int, states: Mapping[str, StateRecord]) -> _Filled:
        """Run all stages once, in epoch 0 without rows."""
        filled = _Filled()
        for stage in self._cut.stages:
            for bucket in range(self._last.buckets):
                result = self._stage(stage, bucket, epoch, states, filled)
                if result is None:
                    continue
                for exchange, parts in result.rows.items():
                    for to, part in parts.items():
                        filled.rows.setdefault(exchange, {}).setdefault(to, []).append(part)
                for name, at in result.held_at.items():
                    filled.held_at[name, bucket] = at
        return filled

    def _stage(
        self,
        stage: Stage,
        bucket: int,
        epoch: int,
        states: Mapping[str, StateRecord],
        filled: _Filled,
    ) -> TaskResult | None:
        """Run the nodes of a stage that are to be filled in one bucket; None if nothing comes to them."""
        places = stage.in_bucket(bucket if stage.number else 0)
        stepped = [place for place in places if place in self._nodes.stepped]
        emitted = {place: self._emitted(place, bucket, epoch) for place in places if place in self._kept_in}
        rows: dict[Exchange, Parts] = {
            exchange: tuple(filled.rows[exchange][bucket])
            for exchange in stage.takes
            if bucket in filled.rows.get(exchange, {})
        }
        has_rows = bool(rows) or any(len(delta) for delta in emitted.values())
        if not has_rows and (epoch or bucket or not stepped):
            return None
        of_bucket = {name: record for name, record in states.items() if name.endswith(f"/{bucket}")}
        task = Task(stage.number, bucket, Instant(epoch, 0, {}), of_bucket, rows)
        return self._fresh.fill(task, emitted, stepped, filled.kept)

    def _emitted(self, place: NodeId, bucket: int, epoch: int) -> Delta:
        """Return what a node whose rows are kept has emitted so far in a bucket."""
        keeper, stage_of = self._kept_in[place], self._cut.stage_of
        nothing = Delta.empty(self._runner.circuit.nodes[place].operator.schema)
        if keeper is None or not epoch:
            return nothing
        if stage_of[place] in (0, stage_of[keeper]):
            return self._kept(place, keeper, bucket) or nothing
        # They are kept in the buckets of a later stage.
        columns = self._cut.cut_by[place]
        if columns is None and place not in self._cut.stages[stage_of[place]].single:
            return self._kept(place, keeper, bucket) or nothing
        parts = self._cut_again.get(place)
        if parts is None:
            parts = self._cut_again[place] = {}
            for other in range(self._last.buckets):
                rows = self._kept(place, keeper, other)
                for to, frame in (
                    self._runner.leaving.by_bucket(columns or (), rows) if rows is not None else ()
                ):
                    parts.setdefault(to, []).append(frame)
        frames = parts.get(bucket)
        return Delta(stack(frames)) if frames else nothing

    def _kept(self, place: NodeId, keeper: NodeId, bucket: int) -> Delta | None:
        """Return the rows of a node that are kept in a bucket; None if there are none."""
        if not self._runner.put_for(keeper, bucket, self._last.states):
            return None
        with hashing_by(self._pieces.key_hash):
            delta = self._nodes.given[place].all()
        return delta if len(delta) else None

    def _rows_of(self, view: str, states: Mapping[str, StateRecord], now: Now) -> Iterator[RowBatch]:
        """Yield all rows of a view, bucket by bucket, as its first delta."""
        kept_at = self._runner.compiled.kept_at[view]
        for bucket in range(self._last.buckets):
            if self._runner.put_for(kept_at, bucket, states):
                with hashing_by(self._pieces.key_hash):
                    delta = self._runner.compiled.contents[view].emitted().consolidate()
                if len(delta):
                    yield self._runner.leaving.row_batch(view, int(now.epoch), delta.frame)
