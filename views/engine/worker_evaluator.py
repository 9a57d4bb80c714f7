"""The evaluator of an engine with several workers: epochs run over states cut into buckets, in threads of this process."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from evercurrent.core.circuit.circuit import NodeId
from evercurrent.core.data.clock import Now
from evercurrent.core.data.columns.kernels import stack
from evercurrent.core.data.columns.key_hash import hashing_by
from evercurrent.core.data.delta import Delta
from evercurrent.core.eventtime.windows.holds import held_at_of
from evercurrent.core.state.partitioning import ONE, in_buckets, of_buckets
from evercurrent.core.state.protocol import State
from evercurrent.core.state.snapshot import NOTHING, Saved
from evercurrent.core.state.spine import Spine

from ..checkpoint import StateRecord
from ..compiler.builder import Compiled
from ..concurrency.teams import Team
from ..durability.plan_match import plan_record, state_ids
from ..epochs.records import EvaluatedEpoch
from ..epochs.view_deltas import ViewDelta, ViewDeltas
from ..partitioned.bucket_evaluator import BucketEvaluator, BucketInput, BucketResult
from ..partitioned.clocks import Clocks
from ..partitioned.held_states import HeldStates, record_of, saved_in
from ..partitioned.workers import Workers
from ..plan.plan import Plan
from .fills import Fills
from .roles import CircuitEvaluator, EpochResult, TakenInput


class WorkerEvaluator:
    """Evaluates epochs over buckets, one for each worker.

    ``compiled`` is the circuit that readers, checkpoints and ``explain`` use. It evaluates no epochs: each epoch replaces
    its states by those of all buckets together, which consist of the same runs and have the same contents as without
    workers. Only its clocks and its ledger are also used by the epochs themselves. It is stepped if an epoch fails, so that
    the error is the one without workers, and nothing of that step is committed.

    ``before`` is the evaluator of the plan before a change of declarations: the states that both have are cut already.
    """

    def __init__(
        self,
        plan: Plan,
        compiled: Compiled,
        team: Team,
        buckets: int,
        fills: Fills | None = None,
        before: WorkerEvaluator | None = None,
    ) -> None:
        # It raises if functions cannot be distinguished: states are identified by what they compute, as in a checkpoint.
        plan_record(plan, compiled)
        self.compiled = compiled
        self._numbers = {view: number for number, view in enumerate(plan.views)}
        """The places of views in the order in which they were declared."""
        self._buckets, self._fills = buckets, Fills() if fills is None else fills
        self._clocks = Clocks(plan, compiled)
        self._states = state_ids(compiled)
        self._key_hash = compiled.circuit.key_hash
        self._workers = Workers(plan, team, self._key_hash, buckets, allow_pickle=compiled.allow_pickle)
        self._inner = BucketEvaluator(
            self._workers, self._clocks, HeldStates(self._key_hash), buckets=buckets
        )
        self._staged: tuple[BucketResult, dict[str, Saved]] | None = None
        for state in self._states.values():
            if isinstance(state, Spine):
                # A run that a reader has merged from those of all buckets belongs to no bucket.
                state.keeps_runs = True
        self._read = self._views_by_state()
        self._inner.states = self._cut(before)

    def promise(self, taken_input: TakenInput) -> None:
        """See ``Evaluator``."""
        self._inner.promise(BucketInput(lambda _: [], taken_input.epoch_input.watermarks))

    def evaluate(self, now: Now, taken_input: TakenInput) -> EpochResult:
        """See ``Evaluator``."""
        arrived = {name: delta.frame for name, delta in taken_input.arrived.items()}
        self._workers.watch(self._fills.places_in(self.compiled))
        bucket_input = BucketInput(
            lambda instant: self._workers.arrive(instant, arrived), fires=taken_input.epoch_input.fires
        )
        try:
            work = self._inner.evaluate(now, bucket_input)
        except (Exception, pl.exceptions.PanicException) as error:
            failure: BaseException = error
        else:
            return self._result(now, taken_input, work)
        self._fail_without_workers(now, taken_input)
        raise failure

    def _result(self, now: Now, taken_input: TakenInput, work: BucketResult) -> EpochResult:
        """Stage what buckets have evaluated, and return the result of the epoch."""
        work.states |= {name: record_of(saved) for name, (_, saved) in work.changed.items()}
        ids = dict.fromkeys(name.rpartition("/")[0] for name in work.changed)
        changed = {name: self._whole(name, work.states) for name in ids if name not in self._clocks.states}
        elsewhere = {id(self._states[name]): saved for name, saved in changed.items()}
        self._staged = work, changed
        epoch = EvaluatedEpoch(now, self._clocks.watermarks(), self._deltas(now, work, taken_input))
        return EpochResult(
            epoch,
            taken_input.epoch_input.positions,
            self._rows(work),
            tuple(
                sorted(
                    {view for name in ids for view in self._read.get(name, ())}, key=self._numbers.__getitem__
                )
            ),
            elsewhere,
        )

    def commit(self, evaluated: EpochResult) -> None:
        """See ``Evaluator``."""
        assert self._staged is not None, "an epoch is evaluated before it is committed"
        work, changed = self._staged
        self._staged = None
        self._inner.commit(work)
        if work.emitted:
            self._fills.took(self.compiled, {place: _added(parts) for place, parts in work.emitted.items()})
        for name, saved in changed.items():
            self._states[name].restore(saved)
        for place, (seconds, rows_in, rows_out) in work.measured:
            node = self.compiled.circuit.nodes[place]
            node.seconds += seconds
            node.rows_in += rows_in
            node.rows_out += rows_out
        for place in {place for place, (_, _, rows_out) in work.measured if rows_out}:
            self.compiled.circuit.nodes[place].epochs += 1

    def discard(self) -> None:
        """See ``Evaluator``."""
        self._staged = None
        self._inner.discard()

    def _fail_without_workers(self, now: Now, taken_input: TakenInput) -> None:
        """Evaluate an epoch that failed over the states as a whole, so that its error is the one without workers.

        A bucket names the first of its own rows, and counts no others. It returns if nothing fails here, as it may be where
        a user's function fails for a part of the rows only.
        """
        self._inner.discard()
        whole = CircuitEvaluator(self.compiled)
        try:
            whole.promise(taken_input)
            whole.evaluate(now, taken_input)
        finally:
            whole.discard()

    def _deltas(self, now: Now, work: BucketResult, taken_input: TakenInput) -> ViewDeltas:
        """Return the deltas of the views that changed; equal rows of several buckets are added up."""
        deltas: dict[str, ViewDelta] = {}
        for view in sorted(work.deltas, key=self._numbers.__getitem__):
            frames = [part.held for part in work.deltas[view] if isinstance(part.held, pl.DataFrame)]
            if not frames or view in taken_input.silent:
                continue
            if (emitted := ViewDelta.of(now.epoch, Delta(stack(frames)))) is not None:
                deltas[view] = emitted
        return ViewDeltas(deltas)

    def _rows(self, work: BucketResult) -> dict[str, pl.DataFrame]:
        """Return how many rows came from sources with event time, as frames without columns."""
        counts: dict[NodeId, int] = {}
        for place, (_, _, rows) in work.measured:
            counts[place] = counts.get(place, 0) + rows
        arrivals = self.compiled.arrivals.items()
        return {name: pl.DataFrame(height=counts[place]) for place, name in arrivals if place in counts}

    # States as a whole, and in buckets

    def _whole(self, name: str, states: Mapping[str, StateRecord]) -> Saved:
        return of_buckets([saved_in(states.get(f"{name}/{bucket}")) for bucket in range(self._buckets)])

    def _cut(self, before: WorkerEvaluator | None) -> dict[str, StateRecord]:
        """Return the records of the states, cut into buckets.

        Cost: the states that are not empty and were not in the evaluator ``before``: those of a checkpoint that is opened, or
        of a view that was filled.
        """
        records: dict[str, StateRecord] = {}
        with hashing_by(self._key_hash):
            for name, state in self._states.items():
                if name in self._clocks.holds:
                    records |= self._held(name, state.saved())
                elif before is not None and before._has(name, state):
                    records |= before._records_of(name)
                elif name not in self._clocks.states:
                    saved = self._bucket_of_each(state)
                    records |= {f"{name}/{at}": record_of(one) for at, one in enumerate(saved) if one.pieces}
        return records

    def _has(self, name: str, state: State) -> bool:
        """Return whether a state of this name has the same pieces here, so that these are in their buckets."""
        own = self._states.get(name)
        if own is None or name in self._clocks.states:
            return False
        ours, theirs = own.saved(), state.saved()
        return ours.facts == theirs.facts and [*map(id, ours.pieces)] == [*map(id, theirs.pieces)]

    def _records_of(self, name: str) -> dict[str, StateRecord]:
        """Return the records of a state in all buckets that have a part of it."""
        names = (f"{name}/{bucket}" for bucket in range(self._buckets))
        return {each: self._inner.states[each] for each in names if each in self._inner.states}

    def _bucket_of_each(self, state: State) -> list[Saved]:
        whole, route = state.saved(), ONE if state.route is None else state.route
        if not whole.pieces or route.kind == "one":
            return [whole, *[NOTHING] * (self._buckets - 1)]
        columns = [state.columns_of(piece) for piece in whole.pieces]
        parts: list[Saved] = []
        for frames, facts in in_buckets(route, [(columns, whole.facts)], self._buckets):
            state.restore(Saved(tuple(map(state.piece_of, frames)), facts))
            parts.append(state.saved())  # With the facts that a cut leaves out.
        state.restore(of_buckets(parts))
        return parts

    def _held(self, name: str, saved: Saved) -> dict[str, StateRecord]:
        """Return a held watermark for every bucket, as it is not known which bucket the holding windows go to."""
        for bucket in range(self._buckets):
            self._clocks.held_at[name, bucket] = held_at_of(saved.facts)
        self._clocks.commit()
        return {f"{name}/{bucket}": record_of(saved) for bucket in range(self._buckets)}

    def _views_by_state(self) -> dict[str, list[str]]:
        """Return the views whose rows are read from each state, by the id of the state."""
        ids, views = {id(state): name for name, state in self._states.items()}, dict[str, list[str]]()
        for view, readable in self.compiled.contents.items():
            for spine in readable.reads:
                views.setdefault(ids[id(spine)], []).append(view)
        return views


def _added(parts: list[Delta]) -> Delta:
    """Return the rows that the buckets of a node have emitted as one delta."""
    return parts[0] if len(parts) == 1 else Delta(stack([part.frame for part in parts]))
