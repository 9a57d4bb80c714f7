"""Views that are added, replaced and dropped at random epochs are those that were declared from the start, on all drivers.

Fills fail, and processes are killed in the middle of fills; then a program is started again, with what was being declared or without
it, and with another driver: an engine with any number of workers, or a query in buckets.
"""

from __future__ import annotations

import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import assume, event, example, given

import evercurrent as ec
from evercurrent.core.data.errors import ArithmeticRefusedError
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.checkpoint.rebucket import rebucket
from evercurrent.views.durability.piecewise_fill import PiecewiseFill
from evercurrent.views.durability.time_travel import BORN, delta_files
from evercurrent.views.epochs.history import BEFORE_ALL
from evercurrent.views.partitioned import workers as workers_module
from evercurrent.views.partitioned.bucket_states import BucketStates
from evercurrent.views.store import LocalStore, Store
from failing_store import FailingStore, InjectedError, Killed
from harness import Running, contents, frame_of_entries, summed
from laws.test_declared_later import ARRANGED, HEADS
from oracle import Bag, TooLargeError
from spark.offered import Offering
from spark.test_filled_in_buckets import frozen, held
from spark.twins import counted
from strategies import Case, Draw, Epoch, Program, cases, of_profile

Where = tuple[str, int]
"""A kind of driver, and its workers or buckets."""

WHERES: list[Where] = [
    ("engine", 1),
    ("engine", 2),
    ("engine", 3),
    ("buckets", 1),
    ("buckets", 2),
    ("elsewhere", 3),
]
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = tuple(f"view {number}" for number in range(3))


@dataclass(frozen=True)
class Step:
    """What is done. ``fails_at`` is a step of a fill or, from 100 on, an operation of the store."""

    what: str
    view: int = 0
    line: int = 0
    fails_at: int = 0
    where: Where = ("engine", 1)
    is_kept: bool = True


WHAT = ["add", "add", "add", "drop", "restart", "fail", "kill"]


@st.composite
def plans(draw: Draw) -> list[list[Step]]:
    """What is done before the first epoch, and after each of them."""
    one = st.builds(
        Step,
        what=st.sampled_from(WHAT),
        view=st.integers(0, 2),
        line=st.integers(0, 3),
        fails_at=st.integers(0, 9) | st.integers(100, 116),
        where=st.sampled_from(WHERES),
        is_kept=st.booleans(),
    )
    return [draw(st.lists(one, min_size=1, max_size=4)) for _ in range(4)]


@contextmanager
def failing(number: int, error: type[BaseException]) -> Iterator[None]:
    """Raise an error in a step of a fill."""
    left = [number]
    with pytest.MonkeyPatch.context() as patched:
        for filling, name in ((PiecewiseFill, "_step"), (BucketStates, "_stage")):
            step = getattr(filling, name)

            def stepped(*given: Any, step: Any = step) -> Any:
                if left[0] == 0:
                    left[0] -= 1
                    raise error("in a step of a fill")
                left[0] -= 1
                return step(*given)

            patched.setattr(filling, name, stepped)
        yield


def lines_with(program: Program, sources: Collection[str]) -> tuple[str, ...]:
    """The lines of a program that need these sources only."""
    missing, lines = {*program.sources} - {*sources}, []
    for line in program.lines:
        name, text = line.split(" = ", 1)
        if missing.intersection(re.findall(r"\w+", text)):
            missing.add(name)
        else:
            lines.append(line)
    return tuple(lines)


class Driver(ABC):
    """What runs the views of a program."""

    retained = True
    """Whether the sources retain their rows."""
    there: tuple[str, ...] | None = None
    """The sources that are declared by now; None: all of the program."""

    def __init__(self, case: Case, shown: Mapping[str, str], store: Store | None, size: int) -> None:
        self.case, self.shown, self.store, self.size = case, dict(shown), store, size

    def declared(self, shown: Mapping[str, str], **options: Any) -> tuple[ec.Engine, Any]:
        engine = ec.Engine(**options)
        sources = {
            name: engine.source(name, columns, kind="diffs", retained=self.retained)
            for name, columns in self.case.program.sources.items()
            if self.there is None or name in self.there
        }
        lines = self.lines_over(sources)
        for name, line in shown.items():
            engine.view(name, lines[line])
        return engine, lines

    def lines_over(self, sources: Mapping[str, Any]) -> dict[str, Any]:
        """The lines of the program that need no other sources."""
        program = self.case.program
        return replace(program, lines=lines_with(program, list(sources))).run(sources)

    @abstractmethod
    def source(self, name: str) -> None: ...

    @abstractmethod
    def add(self, name: str, line: str) -> None: ...

    @abstractmethod
    def drop(self, name: str) -> None: ...

    @abstractmethod
    def push(self, rows: Mapping[str, pl.DataFrame], number: int) -> None: ...

    @abstractmethod
    def contents(self, name: str) -> dict[Any, int]: ...

    @abstractmethod
    def deltas(self, name: str) -> dict[Any, int]: ...

    @abstractmethod
    def close(self) -> None: ...


class OfEngine(Driver):
    """An engine in memory or on disk."""

    def __init__(self, case: Case, shown: Mapping[str, str], store: Store | None, size: int) -> None:
        super().__init__(case, shown, store, size)
        kept = None if store is None else ec.Checkpoint(store, drop=NAMES)  # type: ignore[arg-type]
        self.engine, self.lines = self.declared(shown, workers=size, checkpoint=kept)
        self.engine.ready()

    def source(self, name: str) -> None:
        columns = self.case.program.sources[name]
        self.engine.source(name, columns, kind="diffs", retained=self.retained)
        self.lines = self.lines_over(self.engine.sources)

    def add(self, name: str, line: str) -> None:
        self.engine.view(name, self.lines[line], replace=True)

    def drop(self, name: str) -> None:
        self.engine.drop_view(name)

    def push(self, rows: Mapping[str, pl.DataFrame], number: int) -> None:
        with self.engine.epoch(at=BEGIN + timedelta(seconds=number)):
            for name, frame in rows.items():
                self.engine.push(name, frame)

    def contents(self, name: str) -> dict[Any, int]:
        return frozen(contents(self.engine.views[name]).counts)

    def deltas(self, name: str) -> dict[Any, int]:
        view = self.engine.views[name]
        return frozen(Bag(view.schema, summed(view.deltas())).counts)

    def close(self) -> None:
        self.engine.close()


class InBuckets(Driver):
    """A query, without Spark."""

    def __init__(
        self, case: Case, shown: Mapping[str, str], store: Store, size: int, *, elsewhere: bool
    ) -> None:
        super().__init__(case, shown, store, size)
        if store.list("commits/"):
            rebucket(store, size)
        plan = self.declared(shown)[0].declared
        self.offering = Offering(plan, store, buckets=size, elsewhere=elsewhere, drop=NAMES)

    def source(self, name: str) -> None:
        self.offering = self.offering.redeclared(self.declared(self.shown)[0].declared)

    def _change(self, shown: dict[str, str]) -> None:
        if shown != self.shown:
            self.offering = self.offering.redeclared(self.declared(shown)[0].declared)
            self.shown = shown

    def add(self, name: str, line: str) -> None:
        self._change({**self.shown, name: line})

    def drop(self, name: str) -> None:
        self._change({each: line for each, line in self.shown.items() if each != name})

    def push(self, rows: Mapping[str, pl.DataFrame], number: int) -> None:
        last = self.offering.done
        assert self.offering.offer(0 if last is None else last + 1, rows)

    def contents(self, name: str) -> dict[Any, int]:
        return dict(held(self.offering, name))

    def deltas(self, name: str) -> dict[Any, int]:
        """Of all epochs of its present definition: an engine commits some of them together."""
        epochs = self.offering.epochs
        born = epochs.last.facts.get(BORN, {}).get(name, 0)
        files = delta_files(CommitLog(epochs.log.store), name, BEFORE_ALL, {name: born})
        return dict(counted([epochs.pieces.read_delta(ref).drop("_epoch") for ref in files]))

    def close(self) -> None:
        """Nothing is open."""


class Lives:
    """A program that is started again and again, beside an engine in which all views were declared from the start."""

    def __init__(
        self, case: Case, where: Where, folder: str | None, shown: Mapping[str, str] | None = None
    ) -> None:
        self.case, self.folder, self.number = case, folder, 0
        self.truth = Running(case, is_checked=False)
        self.names = list(self.truth.views)
        self.shown: dict[str, str] = dict(shown or {})
        self.driver = self._started(where, self.shown, self._store())

    def _store(self) -> Store | None:
        return None if self.folder is None else LocalStore(Path(self.folder))

    def _started(self, where: Where, shown: Mapping[str, str], store: Store | None) -> Driver:
        kind, size = where
        if kind == "engine" or store is None:
            return OfEngine(self.case, shown, store, size)
        return InBuckets(self.case, shown, store, size, elsewhere=kind == "elsewhere")

    def do(self, step: Step) -> None:
        name, line = NAMES[step.view], self.names[step.line % len(self.names)]
        if step.what == "add" or (not Driver.retained and step.what in ("fail", "kill")):
            self._add(name, line)
        elif step.what == "drop" and name in self.shown:
            self.driver.drop(name)
            del self.shown[name]
        elif step.what == "fail":
            self._fail(name, line, step.fails_at % 10)
        elif step.what == "restart" and self.folder is not None:
            self.driver.close()
            self.driver = self._started(step.where, self.shown, self._store())
        elif step.what == "kill" and self.folder is not None:
            self._kill(name, line, step)
        self.check()

    def _add(self, name: str, line: str) -> None:
        refusal = ""
        try:
            self.driver.add(name, line)
            self.shown[name] = line
        except ec.EvercurrentError as error:
            refusal = str(error)
        assert not refusal or (not Driver.retained and "does not retain its rows" in refusal), refusal

    def _fail(self, name: str, line: str, number: int) -> None:
        """A fill fails, and the program goes on."""
        with failing(number, InjectedError):
            try:
                self.driver.add(name, line)
            except (ec.EvercurrentError, InjectedError):
                event("a fill has failed")
            else:
                self.shown[name] = line

    def _kill(self, name: str, line: str, step: Step) -> None:
        """The process ends in the middle of a fill, which begins when it is started or while it runs."""
        self.driver.close()
        declared = {**self.shown, name: line}
        in_store = step.fails_at >= 100
        store = FailingStore(LocalStore(Path(self.folder or "")), None, "torn", error=Killed)
        driver: Driver | None = None
        with failing(-1 if in_store else step.fails_at, Killed):
            try:
                if step.view % 2:
                    store.fail_at = step.fails_at - 100 if in_store else None
                    driver = self._started(step.where, declared, store)
                else:
                    driver = self._started(step.where, self.shown, store)
                    store.fail_at = len(store.done) + step.fails_at - 100 if in_store else None
                    driver.add(name, line)
            except Killed:
                event(f"{step.where[0]} was killed in {'the store' if in_store else 'a step'}")
                store.has_failed = True
                with suppress(Killed, ec.EvercurrentError):
                    if driver is not None:
                        driver.close()
            else:
                driver.close()
        del driver
        if step.is_kept:
            self.shown = declared
        self.driver = self._started(step.where, self.shown, self._store())

    def push(self, epoch: Epoch) -> None:
        columns = self.case.program.sources
        self.truth.push(epoch)
        self.number += 1
        rows = {name: frame_of_entries(columns[name], epoch.get(name, [])) for name in columns}
        self.driver.push(rows, self.number)
        self.check()

    def check(self) -> None:
        for name, line in self.shown.items():
            view = self.truth.views[line]
            assert self.driver.contents(name) == frozen(contents(view).counts), (name, line)
            whole = Bag(view.schema, summed(view.deltas()))
            assert self.driver.deltas(name) == frozen(whole.counts), (name, line)


KILLED = [
    [Step("add", 0, 0)],
    [Step("kill", 1, 1, 3, ("buckets", 2)), Step("fail", 2, 2, 4)],
    [Step("kill", 0, 1, 104, ("engine", 2), is_kept=False), Step("restart", where=("elsewhere", 3))],
    [Step("drop", 0), Step("add", 0, 2), Step("kill", 2, 0, 110, ("elsewhere", 3))],
]
TOGETHER = [[Step("add", 0, 0)], [], [Step("restart", where=("buckets", 1))]]
"""Several epochs are one commit when the driver changes."""


ADDED = [[Step("add", 0, 0)], [Step("add", 1, 1), Step("add", 0, 2)], [Step("drop", 1)]]
"""In ``ARRANGED`` each can be filled from the arrangement of the first."""


@of_profile(0.2, quick=10)
@given(case=cases(trusted=False), plan=plans(), where=st.sampled_from(WHERES), durable=st.booleans())
@example(ARRANGED, ADDED, ("engine", 1), True)
@example(ARRANGED, ADDED, ("buckets", 2), True)
@example(ARRANGED, ADDED, ("elsewhere", 3), True)
def test_views_over_rows_that_only_states_have(
    case: Case, plan: list[list[Step]], where: Where, durable: bool
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Driver, "retained", False)
        test_views_at_any_epoch.hypothesis.inner_test(case, plan, where, durable)


@of_profile(0.2, quick=15)
@given(
    case=cases(trusted=False),
    plan=plans(),
    where=st.sampled_from(WHERES),
    durable=st.sampled_from([True, True, False]),
)
@example(HEADS, KILLED, ("engine", 1), True)
@example(HEADS, KILLED, ("buckets", 2), True)
@example(HEADS, KILLED, ("engine", 3), False)
@example(HEADS, TOGETHER, ("engine", 1), True)
def test_views_at_any_epoch(case: Case, plan: list[list[Step]], where: Where, durable: bool) -> None:
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as folder:
        patched.setattr(workers_module, "FEW_ROWS", 0)
        try:
            lives = Lives(case, where, folder if durable else None)
            for step in plan[0]:
                lives.do(step)
            for number, epoch in enumerate(case.epochs, 1):
                lives.push(epoch)
                for step in plan[number] if number < len(plan) else ():
                    lives.do(step)
            lives.driver.close()
        except (ArithmeticRefusedError, TooLargeError):
            assume(False)


@pytest.mark.parametrize("where", WHERES, ids=str)
def test_an_arrangement_fills_on_every_driver(
    where: Where, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Driver, "retained", False)
    lives = Lives(ARRANGED, where, str(tmp_path), {"view 0": "v1"})
    for epoch, step in zip(
        ARRANGED.epochs, (Step("add", 1, 1), Step("add", 2, 2), Step("check")), strict=True
    ):
        lives.push(epoch)
        lives.do(step)
    assert lives.shown == {"view 0": "v1", "view 1": "v2", "view 2": "v3"}
    lives.driver.close()
