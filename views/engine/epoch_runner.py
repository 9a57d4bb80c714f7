"""The runner of a plan: it evaluates the circuit epoch by epoch, with a checkpoint or without."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.durations import processing_time
from evercurrent.core.data.errors import InputError
from evercurrent.core.state.ledger import Ledger

from ..checkpoint.origin import note_writer
from ..compiler.builder import Compiled
from ..compiler.compiler import compile_plan
from ..concurrency.interrupts import interruptible, interrupts_deferred
from ..concurrency.teams import Team
from ..concurrency.turns import Turn
from ..connectors.positions import Position, joined
from ..dataframe.source import Source
from ..durability.durability import Durability
from ..epochs.choreography import Choreography
from ..epochs.history import BEFORE_ALL
from ..epochs.merge_events import MergeEvents
from ..epochs.records import CommitMetadata, EpochInput, RestorePoint
from ..epochs.refused_rows import LEDGER_ROWS
from ..epochs.run_events import LOG, Begun, RunEvents
from ..epochs.run_log import RunRecorder
from ..epochs.subscriptions import Readers
from ..epochs.view_deltas import ViewDelta
from ..plan.plan import Plan
from .epoch_reads import EpochReads
from .fill_reports import FillReports
from .fills import Fills
from .publisher import Publisher
from .reopening import Reopening
from .roles import CircuitEvaluator, EpochResult, FilledViews, InputLog, OnDisk, TakenInput
from .view import View
from .view_driver import ViewDriver, require_no_driver

if TYPE_CHECKING:
    from .refusing_engine import RefusingEngine
    from .worker_evaluator import WorkerEvaluator

BEFORE_INPUT = Now(Epoch(0), datetime.fromtimestamp(0, UTC))
"""The epoch in which a group of nothing gets its row."""


class Running(EpochReads):
    """The circuit of an engine's plan, its current epoch, and its subscriptions.

    Epochs run in the order of ``Choreography``, in which this is the audience. A caller of a method that changes anything has
    to hold the ``turn``. Readers use the ``published`` object of the last epoch, without waiting.
    """

    def __init__(
        self,
        plan: Plan,
        sources: dict[str, Source],
        views: dict[str, View],
        log: RunRecorder,
        turn: Turn,
        durability: Durability | None = None,
        workers: int = 1,
    ) -> None:
        super().__init__(turn, Publisher(views, log, durability))
        self.log = log
        self.readers = Readers(views)
        self.durability = durability
        self._plan, self._sources, self._views = plan, sources, views
        self._compiled_size = (0, 0)
        self._workers = workers
        self._team = Team(workers, turn)
        self._evaluator: CircuitEvaluator | WorkerEvaluator | None = None
        self._refusing: tuple[object, RefusingEngine] | None = None
        """The evaluator of epochs in which bad rows are refused, and the one that it uses."""
        keeper = (
            None if durability is None else OnDisk(durability, self._commit_metadata, self.readers.delivered)
        )
        self._choreography = Choreography[TakenInput, EpochResult](keeper, self)
        self.events = RunEvents()
        self._merges = MergeEvents()
        self._is_begun = False
        """Whether there are states before the first epoch, while declarations change."""
        self._declaring_from = 0.0
        """When the last change of declarations was begun, by the clock of the machine that measures durations."""
        self.untouched: set[str] = set()
        """The sources that have had no input so far, as far as that is known."""
        self.fills = Fills()
        """The views that are being filled while epochs go on."""
        self.reports = FillReports()
        """The views that are being filled while the checkpoint is opened, or by a driver."""
        self.drivers: list[ViewDriver] = []
        """The driver that runs, or has run, the views in place of this engine."""

    @property
    def _is_outdated(self) -> bool:
        """Return whether more was declared since the plan was compiled."""
        if self.durability is not None or self.epoch > 0 or self._is_begun:
            return False
        return (self._plan.added, self._plan.edits) != self._compiled_size

    def current(self) -> Compiled:
        """Return the circuit of the plan declared so far; it is final from the first epoch or the opening of a checkpoint on.

        Raises:
            CheckpointError: the checkpoint cannot be opened; nothing has changed.
        """
        if self.durability is not None:
            if self._compiled is None:
                self._declaring_from = time.perf_counter()
                with self.reports.ending():
                    with interruptible():
                        compiled, filled = self._resumed(self.durability)
                    self._publish(compiled)
                    self._compiled = compiled
                if filled is not None:
                    self._report(filled)
            return self._compiled
        if self._compiled is None or self._is_outdated:
            size = (self._plan.added, self._plan.edits)
            # States that never leave the memory of this process may be any objects.
            with interruptible():
                compiled = compile_plan(self._plan, Ledger(LEDGER_ROWS), allow_pickle=True)
            for view in self._views.values():
                view._history.clear()
            self.log.clear()
            self._step(compiled, BEFORE_INPUT, EpochInput())
            self._compiled, self._compiled_size = compiled, size
            self.untouched = set(self._sources)
        return self._compiled

    def run(self, epoch_input: EpochInput, at: datetime | str | None) -> int:
        """Run one epoch, deliver it to subscribers, and return its number. The caller has the turn and is ``giving_way``.

        Raises:
            InputError: processing time has no zone, the input is refused, or a driver runs the views; nothing has changed.
            CheckpointError: it could not be written; nothing has changed, unless the message states otherwise.
            SubscriberError: the epoch is done, and a callback raised.
        """
        if self._is_declaring:
            raise InputError(
                "a view is being filled: a function that it uses, or the iterator of its backfill=, cannot push; push from a subscriber"
            )
        if self.drivers:
            require_no_driver(self.drivers)
        instant = None if at is None else processing_time(at)
        compiled = self.current()
        if self.durability is not None:
            self.durability.require_open()
        now = Now(Epoch(self.epoch + 1), (instant or datetime.now(UTC)).astimezone(UTC))
        if self.events.is_reporting:
            self.events.require_none_reported("push; push from a subscriber")
        begun = Begun(time.perf_counter(), compiled.ledger.entries + compiled.ledger.forgotten)
        try:
            evaluated = self._step(compiled, now, epoch_input)
        except BaseException as error:
            self.events.failed(now, error)
            raise
        self.events.end(begun, now, epoch_input, evaluated.epoch, compiled.ledger)
        if self._merges.runs or LOG.isEnabledFor(logging.INFO):
            self._merges.report(int(now.epoch), compiled.circuit.nodes)
        if self.untouched:
            self.untouched.difference_update(epoch_input.deltas, epoch_input.watermarks)
        try:
            self._choreography.follow_up(partial(self.readers.notify, evaluated.epoch, evaluated.touched))
        finally:
            if self.durability is not None and self.durability.maps_states:
                # A subscriber may have declared views, which made another circuit.
                self._publish(self.current())
        return now.epoch

    def flush(self) -> None:
        """Write what is not yet on disk.

        Raises:
            CheckpointError: it could not be written; it can be tried again.
        """
        if self.durability is not None:
            compiled = self.current()
            with interrupts_deferred():
                self.durability.flush(self._commit_metadata({}, {}))
                self._publish(compiled)
                self.readers.committed()

    def close(self) -> None:
        """Write what is not yet on disk, release the checkpoint, and end the threads of workers.

        Raises:
            CheckpointError: the last epochs could not be written.
        """
        with interrupts_deferred():
            self._team.close()
            if self.durability is not None:
                self.durability.close(self._commit_metadata({}, {}))

    def exchange(self, compiled: Compiled, changes: Mapping[str, ViewDelta] | None) -> EpochResult | None:
        """Continue with another circuit that has the same states, in an epoch in which these deltas of views are published.

        Without ``changes`` there is no epoch, and None is returned. If this fails, nothing has changed. The epoch has the
        processing time of the last one, as it has no input. ``follow_up`` has to be called after it.
        """
        before = self._compiled, self._evaluator
        evaluator = self._evaluator_of(compiled)
        self._compiled, self._evaluator = compiled, evaluator
        try:
            if changes is None:
                self._changes += 1
                try:
                    self._publish(compiled)
                finally:
                    self._changes += 1
                return None
            last = self.log.now().last
            instant = 0 if last is None else Now(Epoch(last[0]), last[1]).instant
            now = Now.at(Epoch(self.epoch + 1), instant)
            marks = {name: clock.before for name, clock in compiled.clocks.items()}
            return self._choreography.make_real(FilledViews(changes, marks), now, TakenInput())
        except BaseException:
            self._compiled, self._evaluator = before
            raise

    def follow_up(self, evaluated: EpochResult) -> None:
        """Report an epoch of declarations that is real to watchers, notify subscribers, and tidy.

        Raises:
            SubscriberError: the epoch is done, and a callback raised.
        """
        self._report(evaluated)
        self._choreography.follow_up(partial(self.readers.notify, evaluated.epoch, evaluated.touched))

    def _report(self, evaluated: EpochResult) -> None:
        """Report an epoch without input to watchers."""
        assert self._compiled is not None, "there are states"
        ledger = self._compiled.ledger
        refused = ledger.entries + ledger.forgotten
        begun = Begun(self._declaring_from, refused)
        self.events.end(begun, evaluated.epoch.now, EpochInput(), evaluated.epoch, ledger)

    @property
    def has_begun(self) -> bool:
        """Whether there are states: then sources and views that are declared have to be filled."""
        is_open = self.durability is not None and self._compiled is not None
        return self.epoch > 0 or is_open or self._is_begun

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Have states inside the block, before the first epoch too, so that what is declared there is a step after them."""
        self.current()
        self._is_begun = True
        try:
            yield
        finally:
            self._is_begun = False

    def begin_with(
        self, compiled: Compiled, epoch: int, positions: Mapping[str, Position], untouched: Iterable[str]
    ) -> None:
        """Start with a circuit that has states, after an epoch of another engine."""
        self.epoch, self.positions, self.untouched = epoch, dict(positions), set(untouched)
        self._compiled, self._compiled_size = compiled, (self._plan.added, self._plan.edits)
        self._publish(compiled)

    @property
    def parts(self) -> tuple[Plan, dict[str, Source], dict[str, View]]:
        """The plan, the sources and the views."""
        return self._plan, self._sources, self._views

    def require_between_epochs(self, what: str = "fork the engine; fork it from a subscriber") -> None:
        """Check that the states are those of an epoch as a whole.

        Raises:
            InputError: an epoch is being evaluated, or declarations change, in this thread; names ``what`` cannot be done.
        """
        if self._is_declaring or self._choreography.is_running:
            raise InputError(f"an epoch is being evaluated: a function that a view uses cannot {what}")

    @contextmanager
    def declaring(self) -> Iterator[None]:
        """Yield while declarations change: what reads the plan and the states waits for the end.

        Raises:
            InputError: an epoch is being evaluated, or other declarations change, in this thread.
        """
        what = "declare anything; declare it from a subscriber"
        self.require_between_epochs(what)
        self.events.require_none_reported(what)
        self._declaring_from = time.perf_counter()
        if self.durability is not None:
            self.durability.require_open()
        self._is_declaring = True
        try:
            with self.giving_way:
                yield
        finally:
            self._changes += 2
            self._is_declaring = False

    def _resumed(self, durability: Durability) -> tuple[Compiled, EpochResult | None]:
        """Return the circuit with the states of the checkpoint, and the epoch in which new views were filled, if there is one.

        If that fails, nothing has changed.
        """
        filled = None
        compiled = compile_plan(self._plan, Ledger(LEDGER_ROWS), allow_pickle=durability.allow_pickle)
        resumed = durability.open(compiled, self.reports.read)
        try:
            self._publisher.is_held = True
            for view in self._views.values():
                view._history.go_on(BEFORE_ALL if resumed is None else resumed.epoch, durability.past)
            if resumed is None:
                self._step(compiled, BEFORE_INPUT, EpochInput())
                self.untouched = set(self._sources)
                return compiled, None
            self.epoch, self.positions = resumed.epoch, dict(resumed.positions)
            self.readers.remember(resumed.readers, resumed.replaced)
            self.log.go_on(resumed.last, resumed.rows, durability.past.past_epochs)
            if resumed.logged:
                reopening = Reopening(
                    durability, compiled, self._sources, self._views, self.readers, self.log
                )
                resumed = reopening.evaluated_again(
                    resumed, partial(self._step, compiled), self._commit_metadata
                )
            note_writer(durability.store, resumed.epoch)
            if resumed.filled or resumed.is_changed:
                filled = self._make_real(durability, resumed)
        except BaseException:
            self.epoch, self.positions = 0, {}
            durability.release()
            raise
        finally:
            self._publisher.is_held = False
        return compiled, filled

    def _step(
        self, compiled: Compiled, now: Now, epoch_input: EpochInput, silent: Container[str] | None = None
    ) -> EpochResult:
        """Run one epoch, see ``Choreography.make_real``.

        ``silent``: the epoch is evaluated again, and the deltas of these views are not published.
        """
        log: InputLog = "written" if silent is not None else "to write" if now.epoch else "none"
        taken_input = TakenInput(epoch_input, epoch_input.arrived(), log, () if silent is None else silent)
        if self._evaluator is None or self._evaluator.compiled is not compiled:
            self._evaluator = self._evaluator_of(compiled)
        if not epoch_input.refuses_rows:
            return self._choreography.make_real(self._evaluator, now, taken_input)
        if self._refusing is None or self._refusing[0] is not self._evaluator:
            from .refusing_engine import RefusingEngine  # Imported here: few epochs have bad rows.

            self._refusing = self._evaluator, RefusingEngine(self._plan, compiled, self._evaluator)
        return self._choreography.make_real(self._refusing[1], now, taken_input)

    def _evaluator_of(self, compiled: Compiled) -> CircuitEvaluator | WorkerEvaluator:
        if self._workers == 1 or not compiled.circuit.gains_by_buckets:
            return CircuitEvaluator(compiled, self.fills)
        from .worker_evaluator import WorkerEvaluator  # Imported here, as only workers need it.

        before = self._evaluator if isinstance(self._evaluator, WorkerEvaluator) else None
        return WorkerEvaluator(self._plan, compiled, self._team, self._workers, self.fills, before)

    # The audience of epochs

    def publish(self, now: Now, evaluated: EpochResult, commit: Callable[[EpochResult], None]) -> None:
        """See ``Audience``: ``steadily`` notices that states change."""
        self._changes += 1
        try:
            commit(evaluated)
            self.epoch = now.epoch
            if evaluated.positions:
                self.positions = joined(self.positions, evaluated.positions)
            compiled = None if self._evaluator is None else self._evaluator.compiled
            self._publisher.publish(compiled, now.epoch, self.positions, evaluated)
        finally:
            self._changes += 1

    def _publish(self, compiled: Compiled) -> None:
        self._publisher.publish(compiled, self.epoch, self.positions)

    def _commit_metadata(
        self, positions: Mapping[str, Position], rows: Mapping[str, pl.DataFrame]
    ) -> CommitMetadata:
        """Return the metadata of a commit with these positions joined to those so far, and these numbers of rows that have come since."""
        positions = joined(self.positions, positions)
        return CommitMetadata(
            dict(sorted(positions.items())), self.readers.delivered(), self.log.rows_with(rows)
        )

    def _make_real(self, durability: Durability, resumed: RestorePoint) -> EpochResult:
        """Run an epoch that records what else the program declares, and publishes the rows of views that are new and already filled."""
        _, instant, watermarks = resumed.last
        now = Now.at(Epoch(resumed.epoch + 1), instant)
        durability.bear(resumed.filled, now.epoch)
        filled = FilledViews(resumed.filled, watermarks)
        evaluated = self._choreography.make_real(filled, now, TakenInput())
        self.readers.remember({}, durability.replaced)
        self.log.go_on((now.epoch, instant, watermarks), resumed.rows, durability.past.past_epochs)
        return evaluated
