"""A plan that runs: its circuit, epoch by epoch, with a checkpoint or without."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import polars as pl

from evercurrent.core.clock import Epoch, Now
from evercurrent.core.delta import Delta
from evercurrent.core.errors import CheckpointError, EvercurrentError, InputError
from evercurrent.core.ledger import Ledger

from .builder import Compiled
from .compiling import compile_plan
from .durability import Durability
from .epochs import Offered, Passed, Resumed, Standing
from .history import BEFORE_ALL
from .interrupts import interrupts_deferred
from .plan import Plan
from .run_log import RunLog
from .sources import Source
from .subscriptions import Readers
from .view import View

LEDGER_ROWS = 1_000_000
"""How many refused rows are kept; ``explain`` says how many had to go."""

BEFORE_INPUT = Now(Epoch(0), datetime.fromtimestamp(0, UTC))
"""The epoch in which a group of nothing gets its row."""


class Running:
    """The circuit of an engine's plan, the epoch that it is at, and who is told.

    An epoch is evaluated, written if there is a checkpoint, and then real in memory, or it is discarded. ``epoch``
    and ``positions`` are what they are: whoever wants them of a checkpoint opens it first, with ``current``.
    """

    def __init__(
        self,
        plan: Plan,
        sources: Mapping[str, Source],
        views: Mapping[str, View],
        log: RunLog,
        durability: Durability | None = None,
    ) -> None:
        self.epoch = 0
        self.positions: dict[str, int] = {}
        self.log = log
        self.readers = Readers(views)
        self.durability = durability
        self._plan = plan
        self._sources = sources
        self._views = views
        self._compiled: Compiled | None = None
        self._compiled_size = (0, 0)
        self._read: dict[str, tuple[int, Compiled, pl.DataFrame]] = {}

    def current(self) -> Compiled:
        """The circuit of the plan as it stands; it is final from the first epoch on, or when a checkpoint is opened.

        Raises:
            CheckpointError: the checkpoint cannot be opened; nothing has changed.
        """
        if self.durability is not None:
            if self._compiled is None:
                self._compiled = self._resumed(self.durability)
            return self._compiled
        size = (len(self._plan.nodes), len(self._plan.views))
        if self._compiled is None or (self.epoch == 0 and size != self._compiled_size):
            self._compiled = compile_plan(self._plan, Ledger(LEDGER_ROWS))
            self._compiled_size = size
            for view in self._views.values():
                view._history.clear()
            self.log.clear()
            self._step(self._compiled, BEFORE_INPUT, Offered())
        return self._compiled

    def run(self, offered: Offered, at: datetime | None) -> int:
        """One epoch, and everybody hears of it. Returns its number.

        Raises:
            InputError: processing time without a zone, or what was offered is refused; nothing has changed.
            CheckpointError: it could not be written; nothing has changed, unless it says otherwise.
            SubscriberError: the epoch is done, and a callback raised.
        """
        if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
            raise InputError(f"processing time at={at!r} must be a time with its zone, as datetime.now(UTC)")
        compiled = self.current()
        if self.durability is not None:
            self.durability.require_open()
        now = Now(Epoch(self.epoch + 1), (at or datetime.now(UTC)).astimezone(UTC))
        published = self._step(compiled, now, offered)
        self.readers.tell(now.epoch, published)
        if self.durability is not None:
            self.durability.tidy()
        return self.epoch

    def contents(self, view: str, epoch: int | None) -> pl.DataFrame:
        """All rows of a view now, or after an epoch.

        Raises:
            EpochGoneError: the checkpoint has no commit of that epoch.
            InputError: the epoch is still to come, or there is no checkpoint.
        """
        compiled = self.current()
        if epoch is not None and epoch != self.epoch:
            return self._contents_then(view, epoch)
        known = self._read.get(view)
        if known is None or known[:2] != (self.epoch, compiled):
            known = (self.epoch, compiled, compiled.contents[view].contents())
            self._read[view] = known
        return known[2]

    def flush(self) -> None:
        """Write what is not yet on disk.

        Raises:
            CheckpointError: it could not be written; it can be tried again.
        """
        if self.durability is not None:
            self.current()
            with interrupts_deferred():
                self.durability.flush(self._standing(self.positions, {}))

    def close(self) -> None:
        """Write what is not yet on disk, and let others have the checkpoint.

        Raises:
            CheckpointError: the last epochs could not be written.
        """
        if self.durability is not None:
            with interrupts_deferred():
                self.durability.close(self._standing(self.positions, {}))

    def _resumed(self, durability: Durability) -> Compiled:
        """The circuit as the checkpoint has it. Where that cannot be had, nothing has changed."""
        compiled = compile_plan(self._plan, Ledger(LEDGER_ROWS))
        resumed = durability.open(compiled)
        try:
            for view in self._views.values():
                view._history.go_on(BEFORE_ALL if resumed is None else resumed.epoch, durability.past)
            if resumed is None:
                self._step(compiled, BEFORE_INPUT, Offered())
                return compiled
            self.epoch, self.positions = resumed.epoch, dict(resumed.positions)
            self.readers.remember(resumed.readers)
            self.log.go_on(resumed.last, resumed.rows, durability.past.passed)
            if resumed.logged:
                resumed = self._evaluated_again(durability, compiled, resumed)
            if resumed.filled or resumed.is_computed:
                self._make_real(durability, resumed)
        except BaseException:
            self.epoch, self.positions = 0, {}
            durability.release()
            raise
        return compiled

    def _evaluated_again(self, durability: Durability, compiled: Compiled, resumed: Resumed) -> Resumed:
        """Go on to the last epoch whose input is on disk, and commit. Nobody is told: who has a name will catch up."""
        for logged in resumed.logged:
            heard = {key: at for key, at in logged.heard.items() if key.rpartition("/")[0] in self._views}
            self.readers.remember(heard)
            durability.logged_before()
            try:
                self._step(
                    compiled,
                    logged.now,
                    logged.offered.among(self._sources, compiled.clocks),
                    silent=resumed.filled,
                )
            except EvercurrentError as error:
                if resumed.is_same_plan and logged is resumed.logged[-1]:
                    break  # It was refused before, and there was no time to say so.
                raise CheckpointError(
                    f"epoch {logged.epoch} was done, and is not committed; its input is there, and to evaluate it again "
                    f"fails: {error}"
                ) from error
        last = durability.past.waiting[-1] if durability.past.waiting else None
        durability.flush(self._standing(self.positions, {}))
        if last is None:
            return resumed
        for name in resumed.filled:
            self._views[name]._history.go_on(last.epoch, durability.past)
        filled = {name: compiled.contents[name].contents() for name in resumed.filled}
        return replace(
            resumed,
            epoch=last.epoch,
            rows=self.log.rows_with({}),
            last=(last.epoch, last.instant, last.watermarks),
            filled={
                name: Delta.of(rows, np.ones(rows.height, np.int64)).consolidate()
                for name, rows in filled.items()
            },
        )

    def _step(
        self, compiled: Compiled, now: Now, offered: Offered, silent: Container[str] | None = None
    ) -> dict[str, pl.DataFrame]:
        """One epoch: evaluated, written if there is a checkpoint, then real; or discarded.

        ``silent``: the epoch is evaluated again, and of these views nothing is said.
        """
        circuit, durability = compiled.circuit, self.durability
        changed: dict[str, pl.DataFrame] = {}
        try:
            for source, watermark in offered.watermarks.items():
                compiled.clocks[source].promise(watermark)
            arrived = offered.arrived()
            if durability is not None and now.epoch and silent is None:
                durability.log(now, offered, arrived, self.readers.heard())
            evaluated = circuit.evaluate(now, arrived)
            for name, view in self._views.items():
                if silent is not None and name in silent:
                    continue
                delta = evaluated.deltas[compiled.outputs[view._place]].consolidate()
                if len(delta):
                    changed[name] = view._published(now.epoch, delta.frame)
            rows = self._timed_rows(compiled, evaluated.deltas)
            marks = {name: clock.now for name, clock in compiled.clocks.items()}
            positions = self.positions | offered.positions
            if durability is not None:
                passed = Passed(now.epoch, now.instant, marks, changed)
                durability.write(passed, self._standing(positions, rows))
            with interrupts_deferred():
                if durability is not None:
                    durability.append()
                circuit.commit(evaluated)
                self.epoch, self.positions = now.epoch, positions
                for name, frame in changed.items():
                    self._views[name]._history.append(now.epoch, frame)
                if now.epoch:
                    self.log.note(now.epoch, now.processing_time, marks, rows)
        except BaseException:
            circuit.discard()
            if durability is not None:
                durability.discard()
            raise
        return changed

    def _timed_rows(self, compiled: Compiled, deltas: list[Delta]) -> dict[str, pl.DataFrame]:
        """What came of the sources with event time."""
        places = {name: self._sources[name]._place for name in compiled.clocks}
        return {name: deltas[compiled.outputs[place]].frame for name, place in places.items()}

    def _standing(self, positions: Mapping[str, int], rows: Mapping[str, pl.DataFrame]) -> Standing:
        """What a commit says beside the states: with these positions, and these rows that have come since."""
        return Standing(dict(sorted(positions.items())), self.readers.heard(), self.log.rows_with(rows))

    def _make_real(self, durability: Durability, resumed: Resumed) -> None:
        """An epoch in which views that are new in the program, and are filled already, say what they hold."""
        epoch, (_, instant, marks) = Epoch(resumed.epoch + 1), resumed.last
        changed: dict[str, pl.DataFrame] = {}
        for name, delta in resumed.filled.items():
            if len(delta):
                changed[name] = self._views[name]._published(epoch, delta.frame)
        durability.past.born = {**durability.past.born, **dict.fromkeys(resumed.filled, epoch)}
        durability.write(Passed(epoch, instant, marks, changed), self._standing(self.positions, {}))
        with interrupts_deferred():
            durability.append()
            self.epoch = epoch
            for name, frame in changed.items():
                self._views[name]._history.append(epoch, frame)
            self.log.go_on((epoch, instant, marks), resumed.rows, durability.past.passed)

    def _contents_then(self, view: str, epoch: int) -> pl.DataFrame:
        if isinstance(epoch, bool) or not isinstance(epoch, int):
            raise InputError(f"view {view!r}: epoch={epoch!r}; give the number of an epoch")
        if epoch > self.epoch:
            raise InputError(
                f"view {view!r}: epoch {epoch} is still to come, the engine is at epoch {self.epoch}"
            )
        if self.durability is None:
            raise InputError(
                f"view {view!r}: without a checkpoint only the contents now can be read, after epoch {self.epoch}; "
                "make the engine with Engine(checkpoint=PATH), or keep view.snapshot() where it will be needed"
            )
        return self.durability.past.contents(view, epoch, Ledger(LEDGER_ROWS))
