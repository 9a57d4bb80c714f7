"""The driver of epochs over states cut into buckets: it opens the checkpoint, and runs epochs on it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evercurrent.core.circuit.stages import Cut
from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.errors import CheckpointError

from ..checkpoint import Commit, CommitLog, Pieces, Saver
from ..checkpoint.origin import note_writer
from ..checkpoint.pending import require_committed
from ..checkpoint.reader_offsets import read_note
from ..checkpoint.rebucket import moved
from ..durability.digest_schemes import EarlierNames
from ..durability.grouped_apart import require_together
from ..durability.nodes_to_fill import AT_OPENING, IN_A_QUERY, OnRead
from ..durability.plan_diff import (
    PlanMatch,
    require_all_states,
    require_same_buckets,
    warn_of_unclaimed,
)
from ..durability.plan_match import check_plan, plan_record
from ..durability.redeclared import as_refusal
from ..epochs.choreography import Choreography
from ..epochs.run_events import LOG, warn_of_refused
from ..plan.plan import Plan
from .bucket_commits import ARRIVED, ARRIVED_BYTES, BucketCommits, PartitionedDeltas
from .bucket_evaluator import Arrival, BucketEvaluator, BucketInput, BucketResult, Executors, SomeRows
from .bucket_fill import BucketFill, Replaced
from .bucket_states import BucketStates, ComputedStates
from .clocks import Clocks
from .limits import DRIVER_BYTES, DriverLimits
from .progress import EpochProgress, progress_of
from .refusing_buckets import RefusingBuckets
from .stage_runner import StageRunner
from .tasks import FireRequest

PROGRESS = 100
"""The number of epochs whose measures are kept."""


@dataclass(frozen=True, slots=True, eq=False)
class PlanChange:
    """A plan that changes while epochs run: ``where`` is what was declared, ``before`` drives the epochs up to now.

    ``computed`` are states of the new views, as of an earlier commit. If the change ``is_planned`` alone, nothing is committed, and
    ``filling`` of the new driver has what is to be computed.
    """

    where: str
    before: Epochs
    computed: ComputedStates | None = None
    is_planned: bool = False


class Epochs:
    """Drives the epochs of a partitioned plan: the counterpart of the engine's step, over buckets on files.

    ``driver_rows`` and ``driver_bytes`` are the limits within which stages run in this process, without a job: see
    ``DriverLimits``. ``on_filled`` is called with the first deltas of views that are new to the checkpoint, before they are
    committed, and ``on_read`` as ``BucketFill`` does; ``before_fill`` raises if the epoch after a commit must have input. With
    ``change`` the plan is another one from here on, in an epoch of its own, even if there is nothing to be filled; if this
    raises, nothing has changed. ``facts`` are those of the first commit, and ``untouched`` the sources that have had no rows.
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
        driver_bytes: int = DRIVER_BYTES,
        writer: str,
        versions: Mapping[str, str],
        executors: Executors | None = None,
        drop: Sequence[str] = (),
        allow_pickle: bool = False,
        on_filled: Callable[[PartitionedDeltas], None] | None = None,
        on_read: OnRead | None = None,
        before_fill: Callable[[Commit], None] | None = None,
        change: PlanChange | None = None,
        facts: Mapping[str, Any] | None = None,
        untouched: Collection[str] = (),
    ) -> None:
        self.untouched: frozenset[str] = frozenset(untouched)
        """The sources that have had no rows, as far as that is known: those that were given, and those that are new to the checkpoint."""
        self._on_filled, self._on_read, self._change = on_filled, on_read, change
        self._before_fill = before_fill
        self.log: CommitLog = log
        self.pieces: Pieces = pieces
        self.runner: StageRunner = StageRunner(
            plan, pieces, buckets, inline_rows=inline_rows, allow_pickle=allow_pickle
        )
        self.cut: Cut = self.runner.cut
        self.clocks: Clocks = Clocks(plan)
        self._evaluator = BucketEvaluator(
            self.runner, self.clocks, pieces, buckets=buckets, limits=DriverLimits(driver_rows, driver_bytes)
        )
        self._refusing = RefusingBuckets(self._evaluator, self.clocks.ledger)
        self.executors = executors
        self._saver = Saver(pieces)
        self.progress: deque[EpochProgress] = (
            deque(maxlen=PROGRESS) if change is None else change.before.progress
        )
        """The measures of the last epochs of this process."""
        self.filling: BucketStates | None = None
        self._progress: EpochProgress | None = None
        """The measures of the epoch that is being committed."""
        self._begun = time.perf_counter()
        self._freed = 0, 0
        """The files that were deleted since the epoch before, and their bytes."""
        self._may_be_cut_otherwise = False
        """Whether states may be in other buckets than those of the plan, as they are of a commit of another one."""
        self._drop = tuple(drop)
        self.plan: Plan = plan
        self._earlier = EarlierNames(plan, self.runner.compiled)
        self._on_deltas: Callable[[PartitionedDeltas], None] | None = None
        nothing = Commit(
            epoch=-1, buckets=buckets, plan=plan_record(plan, self.runner.compiled), states={}, deltas={},
            positions={}, readers={}, epochs=(), facts=facts or {}, writer=writer, versions=versions,
        )  # fmt: skip
        self._commits = BucketCommits(log, self.runner, self.clocks, nothing)
        self._commits.measure = self._recorded
        self._choreography = Choreography[BucketInput, BucketResult](self._commits, self, self._deliver_first)
        self._open()
        self._change = None

    @property
    def last(self) -> Commit:
        """Return the last commit."""
        return self._commits.last

    @property
    def last_instant(self) -> int:
        """Return the processing time of the last epoch; 0 before the first."""
        return self.last.epochs[-1][1] if self.last.epochs else 0

    @property
    def executors(self) -> Executors | None:
        """Return the executors of the tasks of large stages; None if these run in this process."""
        return self._evaluator.executors

    @executors.setter
    def executors(self, executors: Executors | None) -> None:
        self._evaluator.executors = executors

    @property
    def ran_elsewhere(self) -> int:
        """Return the number of stages that ``executors`` has run."""
        return self._evaluator.ran_elsewhere

    def _open(self) -> None:
        """Continue from the last commit, or commit epoch 0 if there is none."""
        last = self.log.refresh()
        if last is None:
            self.step(lambda instant: [self.runner.arrive(instant, 0, {})], 0, {}, {})
        else:
            commit, filling = self._prepared(last)
            self.go_on_from(commit)
            if self._change is not None and self._change.is_planned:
                self.filling = filling
                return
            if filling is not None:
                self._fill(filling)
            note_writer(self.log.store, last.epoch)

    def _prepared(self, last: Commit) -> tuple[Commit, BucketStates | None]:
        """Return the commit as ``_of_this_plan`` does, and what fills the views that are new; None if nothing has changed.

        Raises:
            CheckpointError: it is of another plan, or a view cannot be filled; names it and what would fill it.
            PlanError: the same, if the plan changes while epochs run.
        """
        try:
            commit, match = self._of_this_plan(last)
            self.untouched |= {*match.new_sources}
            at_opening = self._change is None
            if match.is_same or (at_opening and not match.to_fill and not match.drops):
                return commit, None
            commit = self._in_their_buckets(commit)
            remedies = AT_OPENING if self._change is None else IN_A_QUERY
            since = None if self._change is None else self._change.computed
            match = replace(match, new_sources=tuple(self.untouched))
            return commit, BucketStates(self.plan, self.pieces, self.runner, commit, match, remedies, since)
        except CheckpointError as error:
            if self._change is None:
                raise
            raise as_refusal(self._change.where, error) from error

    def _fill(self, filling: BucketStates) -> None:
        """Fill the views that are new, and commit the plan as it is now as an epoch without input."""
        try:
            if self._before_fill is not None:
                self._before_fill(self.last)
        except CheckpointError:
            if filling.views or self._change is not None:
                raise
            return  # The epoch that has to be repeated first records what was dropped.
        replaced = self._replaced(filling.match)
        evaluator = BucketFill(self.pieces, self.runner, self.clocks, filling, replaced, self._on_read)
        self._on_deltas = self._on_filled
        now = Now.at(Epoch(self.last.epoch + 1), self.last_instant)
        choreography = Choreography[BucketInput, BucketResult](self._commits, self, self._deliver_first)
        choreography.make_real(evaluator, now, BucketInput(lambda _: []))
        self._progress = None
        self.go_on_from(self.last)

    def _replaced(self, match: PlanMatch) -> Replaced | None:
        """Return the views that continue in place of others with the same columns, if the plan changes while epochs run."""
        if self._change is None:
            return None
        before = self._change.before
        same = [
            name
            for name in match.changed_views
            if list(before.runner.schema_of(name).items()) == list(self.runner.schema_of(name).items())
        ]
        return Replaced(tuple(same), before.runner, before.last)

    def go_on_from(self, last: Commit) -> None:
        """Continue from a commit that is in the log."""
        self.clocks.restore(self._saver, last)
        self._commits.last = last
        self._evaluator.states, self._evaluator.looks_at_all = last.states, True
        self._may_be_cut_otherwise = True

    def _in_their_buckets(self, commit: Commit) -> Commit:
        """Return a commit whose states are cut as the plan is; files that this writes are named when an epoch is committed."""
        return replace(commit, states=moved(self.pieces, commit, self.runner.routes))

    def refresh(self) -> None:
        """Load the last commit of another process, such as one that has run the query."""
        last = self.log.refresh()
        if last is not None and last.epoch != self.last.epoch:
            self.go_on_from(self._earlier.renewed(last))

    def _of_this_plan(self, last: Commit) -> tuple[Commit, PlanMatch]:
        """Return the commit without dropped views and sources, with the epochs last delivered to its readers, and what is new.

        Raises:
            CheckpointError: it is of another plan; or it is followed by epochs of which only the input is on disk.
        """
        require_committed(self.log.store, last, self.log.last_crc)
        last = self._earlier.renewed(last)
        require_together(self.log.store.url, last, self.plan, self._drop)
        match = check_plan(last.plan, self.plan, self.runner.compiled, self._drop)
        require_all_states(self.log.store.url, match)
        warn_of_unclaimed(self.log.store.url, match)
        states = {
            name: record for name, record in last.states.items() if name.rpartition("/")[0] not in match.gone
        }
        require_same_buckets(self.log.store.url, states, self.runner.routes)
        delivered = read_note(self.log.store, last.epoch)
        replaced = self._replaced(match)
        others = [name for name in match.changed_views if replaced is None or name not in replaced.views]
        if (
            replaced is not None
        ):  # By a declaration, and not because a program of another plan names it in drop=.
            match = replace(match, replaced={name: last.plan["views"][name]["columns"] for name in others})
        commit = replace(
            last,
            states=states,
            positions=match.positions(last.positions),
            readers=replace(match, changed_views=tuple(others)).readers(
                last.readers if delivered is None else delivered, self.plan.views, last.epoch
            ),
        )
        return commit, match

    @property
    def arrived(self) -> int | None:
        """Return the number of rows in the last epoch of this driver; None before the first one."""
        arrived: int | None = self.last.facts.get(ARRIVED)
        return arrived

    @property
    def arrived_bytes(self) -> int:
        """Return the size of these rows; 0 if it is not in the record."""
        return int(self.last.facts.get(ARRIVED_BYTES, 0))

    def step(
        self,
        arrive: Arrival,
        at: int,
        positions: Mapping[str, Any],
        facts: Mapping[str, Any],
        *,
        on_deltas: Callable[[PartitionedDeltas], None] | None = None,
        promised: Mapping[str, int] | None = None,
        fires: Sequence[FireRequest] = (),
        rows: Callable[[], SomeRows] | None = None,
    ) -> Commit:
        """Run one epoch: all stages, then the commit.

        ``arrive`` runs the first stage, ``at`` is the processing time in microseconds, ``on_deltas`` is called with the deltas
        before they are committed. ``promised`` are watermarks by hand, ``fires`` windows that are fired. ``rows`` returns the
        rows of the first stage, if those with which the epoch fails are to be refused. If anything raises, nothing has changed.

        Raises:
            CheckpointError: another writer was faster, or the store failed.
        """
        self._on_deltas = on_deltas
        if self._may_be_cut_otherwise:
            self._commits.last = self._in_their_buckets(self.last)
            self._evaluator.states, self._may_be_cut_otherwise = self.last.states, False
        taken_input = BucketInput(arrive, promised or {}, fires, positions, facts, rows)
        self._begun = time.perf_counter()
        self._choreography.make_real(self._refusing, Now.at(Epoch(self.last.epoch + 1), at), taken_input)
        self._note_progress()
        return self.last

    def _measured(self, commit: Commit, evaluated: BucketResult) -> EpochProgress:
        """Return the measures of an epoch, up to now."""
        nodes = {view: node for stage in self.cut.stages for view, node in stage.views.items()}
        seconds, ledger = time.perf_counter() - self._begun, self.clocks.ledger
        refused = sum(refused.frame.height for refused in ledger.staged)
        return progress_of(
            commit,
            evaluated,
            nodes,
            seconds,
            self.clocks.watermarks(),
            refused,
            ledger.height_after,
            self._freed,
        )

    def note_freed(self, files: int, size: int) -> None:
        """Add files that were deleted between epochs to the measures of the next one."""
        self._freed = self._freed[0] + files, self._freed[1] + size

    def _recorded(self, commit: Commit, evaluated: BucketResult) -> Mapping[str, Any]:
        """Return the measures of an epoch for its record, and keep them until it is committed."""
        self._progress = self._measured(commit, evaluated)
        return self._progress.as_record(self.clocks.watermarks())

    def _note_progress(self) -> None:
        """Keep and log the measures of the last epoch."""
        progress, self._progress = self._progress, None
        if progress is None:
            return
        self._freed = 0, 0
        seconds = time.perf_counter() - self._begun
        commit_seconds = progress.commit_seconds + seconds - progress.seconds
        progress = replace(progress, seconds=seconds, commit_seconds=commit_seconds)
        self.progress.append(progress)
        if progress.refused:
            warn_of_refused(self.clocks.ledger, self.last.epoch)
        LOG.info("%s", progress, extra={"event": "epoch", "epoch": self.last.epoch, "progress": progress})

    # The audience of epochs

    def _deliver_first(self, now: Now, evaluated: BucketResult) -> None:
        """See ``Choreography``: ``on_deltas`` is called for sinks that cannot catch up."""
        if self._on_deltas is not None:
            self._on_deltas(PartitionedDeltas.of(now, evaluated))

    def publish(self, now: Now, evaluated: BucketResult, commit: Callable[[BucketResult], None]) -> None:
        """See ``Audience``: readers follow the records, and read no state of this process."""
        commit(evaluated)
