"""Sources that are declared at random epochs, with views on them, are those that were declared from the start, on all drivers.

They are declared while a program runs, when it is started again, or in a process that is killed meanwhile.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import assume, event, example, given

import evercurrent as ec
from evercurrent.core.data.errors import ArithmeticRefusedError
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.partitioned import workers as workers_module
from evercurrent.views.store import LocalStore
from failing_store import FailingStore, Killed
from harness import frame_of_entries
from laws.test_views_at_any_epoch import WHERES, Driver, Lives, Step, Where, lines_with, plans
from oracle import TooLargeError
from strategies import Case, Draw, Entries, Epoch, Program, cases, of_profile

How = Literal["running", "restarted", "killed"]


@dataclass(frozen=True)
class Coming:
    """How a source comes, and after which epoch. ``fails_at`` is the operation of the store in which the process is killed."""

    epoch: int
    how: How
    where: Where
    fails_at: int = 0
    is_kept: bool = True


@st.composite
def comings(draw: Draw) -> list[Coming]:
    """How each source but the first comes."""
    one = st.builds(
        Coming,
        epoch=st.integers(0, 3),
        how=st.sampled_from(["running", "running", "restarted", "killed"]),
        where=st.sampled_from(WHERES),
        fails_at=st.integers(0, 12),
        is_kept=st.booleans(),
    )
    return [draw(one) for _ in range(3)]


class Growing(Lives):
    """A program whose sources come later: their rows of before come in the next epoch."""

    def __init__(self, case: Case, where: Where, folder: str | None) -> None:
        self.waiting: dict[str, Entries] = {}
        super().__init__(case, where, folder)

    def declare(self, name: str, coming: Coming) -> None:
        before = Driver.there or ()
        if coming.how == "killed" and self.folder is not None:
            self._killed(name, coming)
        elif coming.how == "restarted" and self.folder is not None:
            self.driver.close()
            Driver.there = (*before, name)
            self.driver = self._started(coming.where, self.shown, self._store())
        else:
            Driver.there = (*before, name)
            self.driver.source(name)
        self.check()

    def _killed(self, name: str, coming: Coming) -> None:
        """The process ends while the source is declared; it is started again with the source, or declares it later."""
        before = Driver.there or ()
        self.driver.close()
        store = FailingStore(LocalStore(Path(self.folder or "")), None, "torn", error=Killed)
        driver = self._started(coming.where, self.shown, store)
        store.fail_at = len(store.done) + coming.fails_at
        Driver.there = (*before, name)
        try:
            driver.source(name)
        except Killed:
            event("killed while a source is declared")
            store.has_failed = True
        else:
            coming = Coming(coming.epoch, "killed", coming.where)
        with suppress(Killed, ec.EvercurrentError):
            driver.close()
        del driver
        last = CommitLog(LocalStore(Path(self.folder or ""))).last
        if not coming.is_kept and (last is None or name not in last.plan["sources"]):
            Driver.there = before
        self.driver = self._started(coming.where, self.shown, self._store())
        if name not in Driver.there:
            Driver.there = (*before, name)
            self.driver.source(name)

    def do(self, step: Step) -> None:
        """As before, with one of the lines that the sources allow."""
        program = self.case.program
        able = [line.split(" = ", 1)[0] for line in lines_with(program, Driver.there or ())]
        if not able:
            return
        every, self.names = self.names, able
        try:
            super().do(step)
        finally:
            self.names = every

    def push(self, epoch: Epoch) -> None:
        columns = self.case.program.sources
        for name, rows in epoch.items():
            self.waiting.setdefault(name, []).extend(rows)
        now = {name: self.waiting.pop(name, []) for name in Driver.there or ()}
        self.truth.push(now)
        self.number += 1
        self.driver.push(
            {name: frame_of_entries(columns[name], rows) for name, rows in now.items()}, self.number
        )
        self.check()


TWO = Case(
    Program(
        {"a": {"k": pl.Int64(), "x": pl.Int64()}, "b": {"k": pl.Int64(), "y": pl.Int64()}},
        (
            "v1 = a.group_by('k').agg(n=pl.len(), x=pl.col('x').sum())",
            "v2 = v1.join(b, on='k', how='left')",
            "v3 = v2.group_by('y').agg(rows=pl.len())",
        ),
    ),
    [
        {"a": [((1, 1), 1), ((2, 5), 1)]},
        {"a": [((1, 2), 1)], "b": [((1, 7), 1)]},
        {"a": [((2, 5), -1)], "b": [((1, 7), -1), ((2, 8), 2)]},
    ],
)
ADDED = [[Step("add", 0, 0)], [Step("add", 1, 1)], [Step("add", 2, 2)]]


@of_profile(0.3, quick=15)
@given(
    case=cases(trusted=False),
    plan=plans(),
    coming=comings(),
    where=st.sampled_from(WHERES),
    durable=st.sampled_from([True, True, False]),
)
@example(TWO, ADDED, [Coming(1, "running", ("engine", 1))], ("engine", 1), True)
@example(TWO, ADDED, [Coming(1, "killed", ("buckets", 2), 3, is_kept=False)], ("buckets", 2), True)
@example(TWO, ADDED, [Coming(1, "restarted", ("elsewhere", 3))], ("engine", 2), True)
def test_sources_at_any_epoch(
    case: Case, plan: list[list[Step]], coming: list[Coming], where: Where, durable: bool
) -> None:
    first, *later = case.program.sources
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as folder:
        patched.setattr(workers_module, "FEW_ROWS", 0)
        patched.setattr(Driver, "there", (first,))
        try:
            lives = Growing(case, where, folder if durable else None)
            for number in range(len(case.epochs) + 1):
                if number:
                    lives.push(case.epochs[number - 1])
                for name, each in zip(later, coming, strict=False):
                    if each.epoch == number:
                        lives.declare(name, each)
                for step in plan[number] if number < len(plan) else ():
                    lives.do(step)
            lives.driver.close()
        except (ArithmeticRefusedError, TooLargeError):
            assume(False)
