"""The driver of epochs over states cut into buckets: it opens the checkpoint, and runs epochs on it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from evercurrent.core.circuit.stages import Cut
from evercurrent.core.data.clock import Epoch, Now

from ..checkpoint import Commit, CommitLog, Pieces, Saver
from ..checkpoint.origin import note_writer
from ..checkpoint.pending import require_committed
from ..checkpoint.reader_offsets import read_note
from ..durability.digest_schemes import EarlierNames
from ..durability.plan_diff import (
    PlanMatch,
    require_all_states,
    require_same_buckets,
    warn_of_unclaimed,
)
from ..durability.plan_match import check_plan, plan_record
from ..epochs.choreography import Choreography
from ..epochs.run_events import LOG
from ..plan.plan import Plan
from .bucket_commits import ARRIVED, ARRIVED_BYTES, BucketCommits, PartitionedDeltas
from .bucket_evaluator import Arrival, BucketEvaluator, BucketInput, BucketResult, Executors
from .bucket_fill import BucketFill
from .clocks import Clocks
from .limits import DRIVER_BYTES, DriverLimits
from .progress import EpochProgress, progress_of
from .stage_runner import StageRunner
from .tasks import FireRequest

PROGRESS = 100
"""Of so many epochs the measures are kept."""


class Epochs:
    """Drives the epochs of a partitioned plan: the counterpart of the engine's step, over buckets on files.

    ``driver_rows`` and ``driver_bytes`` are the limits within which stages run in this process, without a job: see
    ``DriverLimits``. ``on_filled`` is called with the first deltas of views that are new to the checkpoint, before they are
    committed.
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
    ) -> None:
        self._on_filled = on_filled
        self.log = log
        self.pieces = pieces
        self.runner: StageRunner = StageRunner(
            plan, pieces, buckets, inline_rows=inline_rows, allow_pickle=allow_pickle
        )
        self.cut: Cut = self.runner.cut
        self.clocks: Clocks = Clocks(plan)
        self._evaluator = BucketEvaluator(
            self.runner, self.clocks, pieces, buckets=buckets, limits=DriverLimits(driver_rows, driver_bytes)
        )
        self.executors = executors
        self._saver = Saver(pieces)
        self.progress: deque[EpochProgress] = deque(maxlen=PROGRESS)
        """The measures of the last epochs of this process."""
        self._evaluated: BucketResult | None = None
        self._drop = tuple(drop)
        self._plan = plan
        self._earlier = EarlierNames(plan)
        self._on_deltas: Callable[[PartitionedDeltas], None] | None = None
        nothing = Commit(
            epoch=-1, buckets=buckets, plan=plan_record(plan, self.runner.compiled), states={}, deltas={},
            positions={}, readers={}, epochs=(), facts={}, writer=writer, versions=versions,
        )  # fmt: skip
        self._commits = BucketCommits(log, self.runner, self.clocks, nothing)
        self._choreography = Choreography[BucketInput, BucketResult](self._commits, self)
        self._open()

    @property
    def last(self) -> Commit:
        """Return the last commit."""
        return self._commits.last

    @property
    def executors(self) -> Executors | None:
        """Return what runs the tasks of large stages; None if they run in this process."""
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
            commit, match = self._of_this_plan(last)
            if match.to_fill:
                self._fill(commit, match)
            else:
                self._go_on_from(commit)
            note_writer(self.log.store, last.epoch)

    def _fill(self, last: Commit, match: PlanMatch) -> None:
        """Fill the views that are new to the checkpoint, and commit them as an epoch without input.

        Raises:
            CheckpointError: one cannot be filled; names it and what would fill it.
        """
        filling = BucketFill(self._plan, self.pieces, self.runner, self.clocks, last, match)
        self._go_on_from(last)
        self._on_deltas = self._on_filled
        instant = last.epochs[-1][1] if last.epochs else 0
        now = Now.at(Epoch(last.epoch + 1), instant)
        choreography = Choreography[BucketInput, BucketResult](self._commits, self)
        choreography.make_real(filling, now, BucketInput(lambda _: []))
        self._go_on_from(self.last)

    def _go_on_from(self, last: Commit) -> None:
        self.clocks.restore(self._saver, last)
        self._commits.last = last
        self._evaluator.states, self._evaluator.looks_at_all = last.states, True

    def refresh(self) -> None:
        """Load the last commit of another process, such as one that has run the query."""
        last = self.log.refresh()
        if last is not None and last.epoch != self.last.epoch:
            self._go_on_from(self._earlier.renewed(last))

    def _of_this_plan(self, last: Commit) -> tuple[Commit, PlanMatch]:
        """Return the commit without dropped views and sources, with the epochs last delivered to its readers, and what is new.

        Raises:
            CheckpointError: it is of another plan; or it is followed by epochs of which only the input is on disk.
        """
        require_committed(self.log.store, last)
        last = self._earlier.renewed(last)
        match = check_plan(last.plan, self._plan, self.runner.compiled, self._drop)
        require_all_states(self.log.store.url, match)
        warn_of_unclaimed(self.log.store.url, match)
        states = {
            name: record for name, record in last.states.items() if name.rpartition("/")[0] not in match.gone
        }
        require_same_buckets(self.log.store.url, states, self.runner.routes)
        delivered = read_note(self.log.store, last.epoch)
        commit = replace(
            last,
            states=states,
            positions=match.positions(last.positions),
            readers=match.readers(
                last.readers if delivered is None else delivered, self._plan.views, last.epoch
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
    ) -> Commit:
        """Run one epoch: all stages, then the commit.

        ``arrive`` runs the first stage, ``at`` is the processing time in microseconds, ``on_deltas`` is called with the deltas
        before they are committed. ``promised`` are watermarks by hand, ``fires`` windows that are fired. If anything
        raises, nothing has changed.

        Raises:
            CheckpointError: another writer was faster, or the store failed.
        """
        self._on_deltas = on_deltas
        begun = time.perf_counter()
        taken_input = BucketInput(arrive, promised or {}, fires, positions, facts)
        self._choreography.make_real(self._evaluator, Now.at(Epoch(self.last.epoch + 1), at), taken_input)
        self._note_progress(begun)
        return self.last

    def _note_progress(self, begun: float) -> None:
        """Keep and log the measures of the last epoch."""
        evaluated = self._evaluated
        if evaluated is None:
            return
        nodes = {view: node for stage in self.cut.stages for view, node in stage.views.items()}
        seconds = time.perf_counter() - begun
        progress = progress_of(self.last, evaluated, nodes, seconds, self.clocks.watermarks())
        self._evaluated = None
        self.progress.append(progress)
        LOG.info("%s", progress, extra={"event": "epoch", "epoch": self.last.epoch, "progress": progress})

    # The audience of epochs

    def deliver_first(self, now: Now, evaluated: BucketResult) -> None:
        """See ``Audience``: ``on_deltas`` is called for sinks that cannot catch up."""
        if self._on_deltas is not None:
            self._on_deltas(PartitionedDeltas.of(now, evaluated))

    def changing(self) -> AbstractContextManager[None]:
        """See ``Audience``: readers follow the records, and read no state of this process."""
        return nullcontext()

    def publish(self, now: Now, evaluated: BucketResult) -> None:
        """See ``Audience``: the record of the commit is all that readers need."""
        self._evaluated = evaluated

    def notify(self, now: Now, evaluated: BucketResult) -> None:
        """See ``Audience``: nobody subscribes to this process."""
