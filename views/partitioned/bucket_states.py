"""The states of views that are new to a checkpoint in buckets are computed bucket by bucket, as the embedded engine computes them.

What is kept is read with the runner of the plan. What has to be computed goes through a runner of its own, whose states are
empty: stage after stage, since a node takes rows of all buckets of the stage before. The new states are written; no commit names
them yet. As commits never change, that may go on while epochs do: what has changed in the commits since goes the same way after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from evercurrent.core.circuit.circuit import NodeId
from evercurrent.core.circuit.stages import Exchange, Stage
from evercurrent.core.data.columns.kernels import stack
from evercurrent.core.data.columns.key_hash import hashing_by
from evercurrent.core.data.delta import Delta

from ..checkpoint import Commit, PieceRef, Pieces, StateRecord
from ..durability.kept_rows import KeptRows
from ..durability.nodes_to_fill import NodesToFill, Remedies
from ..durability.plan_match import PlanMatch
from ..plan.plan import Plan
from .stage_runner import ChangedStates, StageRunner
from .tasks import Instant, Parts, RowBatch, Task, TaskResult


@dataclass(frozen=True, slots=True, eq=False)
class ComputedStates:
    """States that are computed from the rows of a commit, of the nodes of a circuit, which ``nodes`` identifies.

    ``held_at`` is how far windows hold watermarks back, by clock and bucket.
    """

    last: Commit
    nodes: tuple[str, ...]
    states: Mapping[str, StateRecord]
    held_at: Mapping[tuple[str, int], int]


@dataclass(slots=True, eq=False)
class _Filled:
    """What one pass over the stages gives: rows between stages, states that changed, and how windows hold watermarks back."""

    rows: dict[Exchange, dict[int, list[RowBatch]]] = field(default_factory=dict)
    kept: ChangedStates = field(default_factory=dict)
    held_at: dict[tuple[str, int], int] = field(default_factory=dict)


class BucketStates:
    """Computes the states of the views in ``match.to_fill``, from the rows that the commit ``last`` keeps.

    ``runner`` runs the plan. With ``since`` only what has changed in the kept rows from that commit on is computed, unless these
    are states of another plan.

    Raises:
        CheckpointError: a view cannot be filled; names it and what would fill it.
    """

    def __init__(
        self,
        plan: Plan,
        pieces: Pieces,
        runner: StageRunner,
        last: Commit,
        match: PlanMatch,
        remedies: Remedies,
        since: ComputedStates | None = None,
    ) -> None:
        self.last: Commit = last
        self.match: PlanMatch = match
        self._runner, self._pieces = runner, pieces
        self._nodes = NodesToFill(plan, runner.compiled, match, runner.compiled.retained, {}, remedies)
        self._nodes.require_fillable()
        self._identities = tuple(node.identity for node in runner.circuit.nodes)
        self._since = since if since is not None and since.nodes == self._identities else None
        self._fresh = runner.another(plan, pieces)
        self._cut = runner.cut
        self._cut_again: dict[NodeId, dict[int, list[pl.DataFrame]]] = {}
        """Rows that are kept in other buckets than those of their node."""
        self._kept_in = {place: self._keeper(place, rows) for place, rows in self._nodes.given.items()}
        self._read_entries = 0
        self._states: dict[str, StateRecord] = {}
        self._held_at: dict[tuple[str, int], int] = {}
        self._entries: int | None = None

    @property
    def entries(self) -> int:
        """How many entries are read. Cost: opening the files of states, once."""
        if self._entries is None:
            self._entries = sum(self._entries_by_bucket())
        return self._entries

    @property
    def views(self) -> tuple[str, ...]:
        """The views that are filled."""
        return self.match.to_fill

    def pieces(self) -> Iterator[int]:
        """Compute the states, and yield after each bucket of a stage how many entries were read so far.

        Raises:
            InputError: a value cannot be computed.
        """
        since = self._since
        if since is not None:
            self._states, self._held_at = dict(since.states), dict(since.held_at)
        # A group of nothing gets its row in the epoch before any input.
        for epoch in (0, 1) if since is None else (2,):
            filled = _Filled()
            for _ in self._pass(epoch, filled):
                yield min(self._read_entries, self.entries)
            self._states |= self._fresh.write(filled.kept)[0]
            self._held_at = filled.held_at if since is None else self._held_at | filled.held_at

    def computed(self) -> ComputedStates:
        """Return the states, after all ``pieces``."""
        return ComputedStates(self.last, self._identities, self._states, self._held_at)

    def new_states(self) -> dict[str, StateRecord]:
        """Return the states that the checkpoint does not have, after all ``pieces``."""
        return {name: each for name, each in self._states.items() if self._is_new(name.rpartition("/")[0])}

    def new_holds(self) -> dict[tuple[str, int], int]:
        """Return how far the new windows hold watermarks back, after all ``pieces``."""
        return {place: at for place, at in self._held_at.items() if self._is_new(place[0])}

    def _is_new(self, state: str) -> bool:
        return state in self.match.new

    def _keeper(self, place: NodeId, rows: KeptRows) -> NodeId | None:
        """Return the node that keeps the rows of a node; None if there are none."""
        if not rows.spines:
            return None
        nodes = enumerate(self._runner.circuit.nodes)
        return next(NodeId(at) for at, node in nodes if any(rows.spines[0] is each for each in node.states))

    def _entries_by_bucket(self) -> Iterator[int]:
        """Yield how many entries are read of each node in each bucket. Cost: opening the files of states."""
        for place, keeper in self._kept_in.items():
            for bucket in range(self.last.buckets if keeper is not None else 0):
                for states, _ in self._to_read(place, bucket):
                    if keeper is not None and self._runner.put_for(keeper, bucket, states):
                        yield self._nodes.given[place].entries

    def _pass(self, epoch: int, filled: _Filled) -> Iterator[None]:
        """Run all stages once, in epoch 0 without rows."""
        for stage in self._cut.stages:
            for bucket in range(self.last.buckets):
                result = self._stage(stage, bucket, epoch, self._states, filled)
                if result is None:
                    continue
                for exchange, parts in result.rows.items():
                    for to, part in parts.items():
                        filled.rows.setdefault(exchange, {}).setdefault(to, []).append(part)
                for name, at in result.held_at.items():
                    filled.held_at[name, bucket] = at
                yield

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
            for other in range(self.last.buckets):
                rows = self._kept(place, keeper, other)
                for to, frame in (
                    self._runner.leaving.by_bucket(columns or (), rows) if rows is not None else ()
                ):
                    parts.setdefault(to, []).append(frame)
        frames = parts.get(bucket)
        return Delta(stack(frames)) if frames else nothing

    def _kept(self, place: NodeId, keeper: NodeId, bucket: int) -> Delta | None:
        """Return the rows of a node that are kept in a bucket, or what has changed in them; None if there is nothing."""
        parts: list[Delta] = []
        for states, sign in self._to_read(place, bucket):
            if not self._runner.put_for(keeper, bucket, states):
                continue
            self._read_entries += self._nodes.given[place].entries
            with hashing_by(self._pieces.key_hash):
                delta = self._nodes.given[place].all()
            if len(delta):
                parts.append(delta if sign > 0 else delta.negate())
        if not parts:
            return None
        if self._since is None:
            return parts[0]
        with hashing_by(self._pieces.key_hash):
            return Delta(stack([part.frame for part in parts])).consolidate()

    def _to_read(self, place: NodeId, bucket: int) -> Iterator[tuple[Mapping[str, StateRecord], int]]:
        """Yield the states to be read of a node in a bucket, with the sign of their rows.

        Of what was computed ``since`` a commit, where the runs of the state add up to the rows, only those that are in one of the two
        commits are read; else both states.
        """
        rows, now = self._nodes.given[place], self.last.states
        if self._since is None:
            yield now, 1
            return
        before = self._since.last.states
        names = [f"{self._runner.id_of(spine)}/{bucket}" for spine in rows.spines]
        if all(_pieces_of(before, name) == _pieces_of(now, name) for name in names):
            return
        if rows.is_sum:
            before, now = _apart(names, before, now), _apart(names, now, before)
        yield now, 1
        yield before, -1


def _pieces_of(states: Mapping[str, StateRecord], name: str) -> tuple[PieceRef, ...]:
    record = states.get(name)
    return () if record is None else record.pieces


def _apart(
    names: list[str], states: Mapping[str, StateRecord], others: Mapping[str, StateRecord]
) -> dict[str, StateRecord]:
    """Return states of which these have only the pieces that they do not have elsewhere."""
    only = dict(states)
    for name in names:
        if (record := states.get(name)) is not None:
            there = set(_pieces_of(others, name))
            only[name] = replace(record, pieces=tuple(piece for piece in record.pieces if piece not in there))
    return only
