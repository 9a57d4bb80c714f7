"""An engine that carries every epoch through buckets too, and compares what both emit."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

import evercurrent as ec
from checkpoint.commits_made import begin_in_format_1
from evercurrent.core.data.clock import Now
from evercurrent.views.checkpoint import CommitLog, Pieces, new_writer, versions
from evercurrent.views.compiler.builder import Compiled
from evercurrent.views.engine.epoch_runner import Running
from evercurrent.views.engine.roles import EpochResult
from evercurrent.views.epochs.records import EpochInput
from evercurrent.views.partitioned.driver import Epochs
from evercurrent.views.partitioned.stage_runner import StageRunner
from evercurrent.views.partitioned.tasks import FireRequest, Instant, Task, TaskResult
from evercurrent.views.store import store_at
from oracle import freeze


@dataclass(frozen=True)
class Way:
    """How a plan is run in buckets.

    In ``parts`` rows arrive. ``elsewhere``: no stage runs in the driver, and all rows go through files. ``reopens``:
    everything is opened anew for every epoch. ``in_format_1``: the checkpoint was begun with keys hashed by polars. Tasks that run
    elsewhere take at most about ``part_bytes`` at a time.
    """

    buckets: int = 4
    parts: int = 2
    elsewhere: bool = False
    reopens: bool = False
    in_format_1: bool = False
    part_bytes: int | None = None


WAYS = (Way(), Way(buckets=1, parts=1), Way(buckets=3, parts=3, elsewhere=True), Way(buckets=2, reopens=True))


class Elsewhere:
    """Runs tasks with a runner of its own, as another process would: one after the other, the last one first."""

    cores = 2

    def __init__(self, runner: StageRunner, attempts: int = 2) -> None:
        self._runner = runner
        self._attempts = attempts
        self.parts = 0
        """The most parts of a task."""

    def run(self, tasks: Sequence[Task]) -> list[TaskResult]:
        return [done for task in reversed(tasks) for done in self._done(task)]

    def _done(self, task: Task) -> list[TaskResult]:
        for _ in range(self._attempts):  # As where the first attempt was lost, or was too slow.
            done = list(self._runner.run_in_parts(task))
        self.parts = max(self.parts, len(done))
        return done


class TwinEngine(ec.Engine):
    """After every epoch the deltas and the contents of all views, the ledger and the watermarks are those of buckets."""

    way = Way()

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._running = TwinRunning(self, self._running)
        self.fires: list[FireRequest] = []
        self.compared = 0

    def fire(self, view: str, key: object, window: object, at: datetime | None) -> int:
        self.fires = [FireRequest(view, key, window)]
        try:
            return super().fire(view, key, window, at)
        finally:
            self.fires = []


class TwinRunning(Running):
    """Steps as the engine does, and then in buckets."""

    def __init__(self, engine: TwinEngine, own: Running) -> None:
        super().__init__(own._plan, own._sources, own._views, own.log, own.turn)
        self._engine = engine
        self._folder: Any = None

    def _step(self, compiled: Compiled, now: Now, epoch_input: EpochInput) -> EpochResult:
        evaluated = super()._step(compiled, now, epoch_input)
        if now.epoch == 0:
            # Views that are declared later have it begin anew.
            self._folder, self._engine.compared = tempfile.TemporaryDirectory(), 0
            if self._engine.way.in_format_1:
                begin_in_format_1(store_at(Path(self._folder.name)))
            self._open()
        else:
            if self._engine.way.reopens:
                self._open()
            self._follow(now, epoch_input)
        self._compare(compiled, now, dict(evaluated.epoch.deltas))
        return evaluated

    def _open(self) -> None:
        way, store = self._engine.way, store_at(Path(self._folder.name))
        pieces, inline = Pieces.of(store), 0 if way.elsewhere else 1000
        self.runner = StageRunner(self._plan, pieces, way.buckets, inline_rows=inline)
        if way.part_bytes is not None:
            self.runner.parts.most_bytes = way.part_bytes
        self.epochs = Epochs(
            self._plan,
            CommitLog(store),
            pieces,
            buckets=way.buckets,
            driver_rows=-1 if way.elsewhere else 1000,
            inline_rows=inline,
            writer=new_writer(),
            versions=versions(),
            executors=Elsewhere(self.runner) if way.elsewhere else None,
        )

    def _follow(self, now: Now, epoch_input: EpochInput) -> None:
        rows = {name: delta.frame for name, delta in epoch_input.arrived().items()}

        def arrive(when: Instant) -> list[TaskResult]:
            parts = range(self._engine.way.parts)
            done = [self.runner.arrive(when, part, self._part(rows, part)) for part in parts]
            return done[::-1]

        fires, promised = self._engine.fires, epoch_input.watermarks
        self.epochs.step(arrive, now.instant, {}, {}, promised=promised, fires=fires)

    def _part(self, rows: dict[str, pl.DataFrame], part: int) -> dict[str, pl.DataFrame]:
        parts, cut = self._engine.way.parts, {}
        for name, frame in rows.items():
            start, end = frame.height * part // parts, frame.height * (part + 1) // parts
            if end > start:
                cut[name] = frame.slice(start, end - start)
        return cut

    def _compare(self, compiled: Compiled, now: Now, changed: dict[str, pl.DataFrame]) -> None:
        last = self.epochs.last
        assert last.epoch == now.epoch
        for name in self._views:
            frames = [self.epochs.pieces.read(ref.piece) for ref in last.deltas.get(name, ())]
            emitted, own = counted(frames), counted([changed[name]] if name in changed else [])
            assert emitted == own, f"epoch {now.epoch}, view {name}: buckets emit {emitted}, the engine {own}"
            held = [self.runner.contents(name, b, last.states) for b in range(self._engine.way.buckets)]
            found = counted([frame for frame in held if frame is not None])
            contents = counted([compiled.contents[name].contents()])
            assert found == contents, f"epoch {now.epoch}, view {name}: buckets {found}, engine {contents}"
        assert entered(self.epochs.clocks.ledger.refused) == entered(compiled.ledger.refused)
        marks = {name: clock.before for name, clock in compiled.clocks.items()}
        assert self.epochs.clocks.watermarks() == marks
        self._engine.compared += 1


def counted(frames: Sequence[pl.DataFrame]) -> Counter[Any]:
    """Rows with their diffs, or each once where there are none."""
    counts: Counter[Any] = Counter()
    for frame in frames:
        diffs = frame["_diff"].to_list() if "_diff" in frame.columns else [1] * frame.height
        rows = frame.select(pl.exclude("_diff")).iter_rows()
        for row, diff in zip(rows, diffs, strict=True):
            counts[tuple(map(freeze, row))] += diff
    return Counter({row: count for row, count in counts.items() if count})


def entered(refused: Any) -> list[str]:
    """The rows of a ledger, in an order of their own."""
    return sorted(
        str((one.epoch, one.source, one.reason, one.watermark, *map(freeze, row)))
        for one in refused
        for row in one.frame.iter_rows()
    )


def require_views(query: Any, truth: ec.Engine) -> None:
    """Check that the views of a query, and the sums of all their deltas, are those of an embedded engine."""
    for name, view in truth.views.items():
        own = query.view(name)
        assert counted([own.read()]) == counted([view.read()]), name
        deltas = counted([delta.drop("_epoch") for delta in own.deltas()])
        assert deltas == counted([view.read()]), name
