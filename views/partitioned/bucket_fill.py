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
from ..durability.kept_rows import KeptRows
from ..durability.nodes_to_fill import NodesToFill, OnRead, Remedies
from ..durability.plan_match import PlanMatch
from ..durability.time_travel import BORN
from ..plan.plan import Plan
from .bucket_evaluator import BucketInput, BucketResult
from .clocks import Clocks
from .stage_runner import ChangedStates, StageRunner
from .tasks import Instant, Parts, RowBatch, Task, TaskResult


@dataclass(frozen=True, slots=True, eq=False)
class Replaced:
    """The ``views`` that take the place of others with the same columns, and the plan and the commit that these are of."""

    views: tuple[str, ...]
    runner: StageRunner
    last: Commit


@dataclass(slots=True, eq=False)
class _Filled:
    """What one pass over the stages gives: rows between stages, states that changed, and how windows hold watermarks back."""

    rows: dict[Exchange, dict[int, list[RowBatch]]] = field(default_factory=dict)
    kept: ChangedStates = field(default_factory=dict)
    held_at: dict[tuple[str, int], int] = field(default_factory=dict)


class BucketFill:
    """Evaluates the epoch in which views that are new to a checkpoint get their rows. It has no input.

    ``runner`` runs the plan, ``last`` is the commit that the states are of, without those that are gone. A view that has
    ``replaced`` one goes on with the difference. ``on_read`` is called for each bucket of rows that is read, and may raise to end
    the fill.

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
        remedies: Remedies,
        replaced: Replaced | None = None,
        on_read: OnRead | None = None,
    ) -> None:
        self._runner, self._clocks, self._last, self._match = runner, clocks, last, match
        self._replaced, self._on_read = replaced, on_read
        self._nodes = NodesToFill(plan, runner.compiled, match, runner.compiled.retained, {}, remedies)
        self._nodes.require_fillable()
        self._fresh = runner.another(plan, pieces)
        self._pieces = pieces
        self._cut = runner.cut
        self._cut_again: dict[NodeId, dict[int, list[pl.DataFrame]]] = {}
        """Rows that are kept in other buckets than those of their node."""
        self._kept_in = {place: self._keeper(place, rows) for place, rows in self._nodes.given.items()}
        self._read_entries = 0
        self._entries = 0 if on_read is None else sum(self._entries_by_bucket())

    def _keeper(self, place: NodeId, rows: KeptRows) -> NodeId | None:
        """Return the node that keeps the rows of a node; None if there are none."""
        if not rows.spines:
            return None
        nodes = enumerate(self._runner.circuit.nodes)
        return next(NodeId(at) for at, node in nodes if any(rows.spines[0] is each for each in node.states))

    def _entries_by_bucket(self) -> Iterator[int]:
        """Yield how many entries each node whose rows are read keeps in each bucket. Cost: opening the files of states."""
        for place, keeper in self._kept_in.items():
            for bucket in range(self._last.buckets):
                if keeper is not None and self._runner.put_for(keeper, bucket, self._last.states):
                    yield self._nodes.given[place].entries

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
        replaced = () if self._replaced is None else self._replaced.views
        begun = [view for view in self._match.to_fill if view not in replaced]
        deltas = {view: list(self._rows_of(view, every, now)) for view in begun}
        deltas |= {view: list(self._difference_of(view, every, now)) for view in replaced}
        born = {**self._last.facts.get(BORN, {}), **dict.fromkeys(begun, int(now.epoch))}
        born = {view: epoch for view, epoch in born.items() if view not in self._match.gone_views}
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
                if epoch and self._on_read is not None:
                    read_entries = min(self._read_entries, self._entries)
                    self._on_read(self._match.to_fill, read_entries, self._entries)
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
                for to, frame in self._runner.by_bucket(columns or (), rows) if rows is not None else ():
                    parts.setdefault(to, []).append(frame)
        frames = parts.get(bucket)
        return Delta(stack(frames)) if frames else nothing

    def _kept(self, place: NodeId, keeper: NodeId, bucket: int) -> Delta | None:
        """Return the rows of a node that are kept in a bucket; None if there are none."""
        if not self._runner.put_for(keeper, bucket, self._last.states):
            return None
        self._read_entries += self._nodes.given[place].entries
        with hashing_by(self._pieces.key_hash):
            delta = self._nodes.given[place].all()
        return delta if len(delta) else None

    def _rows_of(self, view: str, states: Mapping[str, StateRecord], now: Now) -> Iterator[RowBatch]:
        """Yield all rows of a view, bucket by bucket, as its first delta."""
        for delta in self._contents(self._runner, view, states):
            yield self._runner.row_batch(view, int(now.epoch), delta.frame)

    def _difference_of(self, view: str, states: Mapping[str, StateRecord], now: Now) -> Iterator[RowBatch]:
        """Yield the change from the rows of the view that is replaced, whose rows may be in other buckets."""
        assert self._replaced is not None, "a view is replaced"
        parts: dict[int, list[pl.DataFrame]] = {}
        before = self._contents(self._replaced.runner, view, self._replaced.last.states)
        for delta in (*self._contents(self._runner, view, states), *(each.negate() for each in before)):
            for bucket, frame in self._runner.by_bucket(None, delta):
                parts.setdefault(bucket, []).append(frame)
        for frames in parts.values():
            with hashing_by(self._pieces.key_hash):
                change = Delta(stack(frames)).consolidate()
            if len(change):
                yield self._runner.row_batch(view, int(now.epoch), change.frame)

    def _contents(self, runner: StageRunner, view: str, states: Mapping[str, StateRecord]) -> Iterator[Delta]:
        """Yield the rows of a view, bucket by bucket."""
        kept_at = runner.compiled.kept_at[view]
        for bucket in range(self._last.buckets):
            if runner.put_for(kept_at, bucket, states):
                with hashing_by(self._pieces.key_hash):
                    delta = runner.compiled.contents[view].emitted().consolidate()
                if len(delta):
                    yield delta
