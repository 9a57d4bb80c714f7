"""Views that are added, replaced and dropped while the engine runs are those that were declared from the start."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import assume, example, given

import evercurrent as ec
from eventtime.pipelines import COLUMNS, Both, Run, Setup, length, runs
from evercurrent.core.data.errors import ArithmeticRefusedError
from evercurrent.views.partitioned import workers
from harness import Running, contents, frame_of_entries, hold_to_contract, summed
from oracle import Bag
from strategies import Case, Draw, Epoch, Program, cases, of_profile

Step = tuple[str, int, int]
"""What is done: "add", "drop" or "restart"; the number of a view, and that of the line that defines it."""


@st.composite
def steps(draw: Draw) -> list[list[Step]]:
    """What is declared before the first epoch, and after each of them."""
    what = st.sampled_from(["add", "add", "add", "drop", "restart"])
    one = st.tuples(what, st.integers(0, 1), st.integers(0, 3))
    return [draw(st.lists(one, min_size=1, max_size=4)) for _ in range(4)]


class Live:
    """An engine whose views come and go, beside one in which all were declared from the start."""

    def __init__(self, case: Case, path: str | None, workers: int, *, retained: bool = True) -> None:
        self.case = case
        self.path = path
        self.workers = workers
        self.retained = retained
        self.truth = Running(case, is_checked=False)
        self.shown: dict[str, str] = {}
        self._open()

    def _open(self) -> None:
        self.engine = ec.Engine(checkpoint=self.path, workers=self.workers)
        sources = {
            name: self.engine.source(
                name, columns, kind="diffs", trusted=self.case.trusted, retained=self.retained
            )
            for name, columns in self.case.program.sources.items()
        }
        self.lines = self.case.program.run(sources)
        for name, line in self.shown.items():
            self.engine.view(name, self.lines[line])

    def do(self, what: str, view: int, line: int) -> None:
        """One step; a view that is added under a name that is taken replaces the one that is there."""
        names = list(self.lines)
        name, defined = f"view {view}", names[line % len(names)]
        before = self.engine.epoch_number
        if what == "add":
            known = self.engine.views.get(name)
            made, refusal = None, ""
            try:
                made = self.engine.view(name, self.lines[defined], replace=True)
                self.shown[name] = defined
            except ec.PlanError as error:
                refusal = str(error)
                if "is being filled from it" in refusal:
                    raise
            assert ("does not retain its rows" in refusal) if made is None else not refusal
            assert made is not None or not self.retained, refusal
            assert made not in (None, known) or self.engine.epoch_number == before
        elif what == "drop" and name in self.shown:
            self.engine.drop_view(name)
            del self.shown[name]
        elif what == "restart" and self.path is not None and self.shown:
            self.engine.close()
            self._open()
            assert self.engine.epoch_number == before, "nothing is filled again"
        self.check()

    def push(self, epoch: Epoch) -> None:
        """One epoch of both engines, which has to change the views alike."""
        columns = self.case.program.sources
        at = self.truth.push(epoch)
        if self.workers == 1 and self.shown:
            hold_to_contract(self.engine)
        before = self.engine.epoch_number
        with self.engine.epoch():
            for name in columns:
                self.engine.push(name, frame_of_entries(columns[name], epoch.get(name, [])))
        for name, line in self.shown.items():
            found = summed(self.engine.views[name].deltas(before))
            assert found == summed(self.truth.views[line].deltas(at - 1)), (name, line)
        self.check()

    def check(self) -> None:
        """Contents and the sums of all deltas are those of the views that were declared from the start."""
        for name, line in self.shown.items():
            view, truth = self.engine.views[name], self.truth.views[line]
            assert contents(view) == contents(truth), (name, line)
            assert Bag(view.schema, summed(view.deltas())) == Bag(view.schema, summed(truth.deltas())), (
                name,
                line,
            )

    def run(self, plan: list[list[Step]]) -> None:
        for step in plan[0]:
            self.do(*step)
        for number, epoch in enumerate(self.case.epochs, 1):
            self.push(epoch)
            for step in plan[number] if number < len(plan) else ():
                self.do(*step)
        self.engine.close()


@contextmanager
def place(durable: bool) -> Iterator[str | None]:
    if not durable:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        yield folder


def checked(
    case: Case, plan: list[list[Step]], *, durable: bool, workers: int = 1, retained: bool = True
) -> None:
    with place(durable) as path:
        try:
            Live(case, path, workers, retained=retained).run(plan)
        except ArithmeticRefusedError:
            assume(False)


A = {"k": pl.Int64(), "x": pl.Int64()}
HEADS = Case(
    Program(
        {"a": A},
        (
            "v1 = a.group_by('k').agg(u=pl.col('x').min())",
            "v2 = a.group_by('k').agg(u=pl.col('x').median())",
            "v3 = a.group_by().agg(n=pl.len())",
        ),
    ),
    [{"a": [((1, 1), 1), ((1, 5), 1)]}, {"a": [((1, 1), -1), ((2, 2), 1)]}, {"a": [((1, 5), -1)]}],
)


ARRANGED = Case(
    Program(
        {"a": A},
        ("v1 = a.group_by('k').top_k(1, by='x')", *HEADS.program.lines[1:]),
    ),
    HEADS.epochs,
)
"""The first view arranges all rows of its source, and the others can be filled from there."""


REOPENED = [[("add", 0, 2)], [("restart", 0, 0), ("add", 0, 1)], [("add", 1, 0)]]
"""A source of a checkpoint that is opened again has had rows, although this process has seen none."""


@of_profile(0.6, quick=50)
@given(case=cases(), plan=steps(), durable=st.booleans())
@example(HEADS, [[("add", 0, 0)], [("add", 1, 1), ("add", 2, 2)], [("add", 0, 2), ("drop", 1, 0)]], False)
@example(HEADS, [[("add", 0, 0)], [("add", 0, 1), ("restart", 0, 0)], [("add", 0, 2)]], True)
@example(HEADS, REOPENED, True)
def test_views_that_come_and_go(case: Case, plan: list[list[Step]], durable: bool) -> None:
    checked(case, plan, durable=durable)


@of_profile(0.2, quick=15)
@given(case=cases(trusted=False), plan=steps(), durable=st.booleans())
def test_views_that_come_and_go_with_workers(case: Case, plan: list[list[Step]], durable: bool) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(workers, "FEW_ROWS", 0)
        checked(case, plan, durable=durable, workers=2)


@of_profile(0.4, quick=30)
@given(case=cases(), plan=steps(), durable=st.booleans(), workers=st.integers(1, 2))
@example(ARRANGED, [[("add", 0, 0)], [("add", 1, 1), ("add", 0, 2)], [("drop", 1, 0)]], False, 1)
def test_views_that_come_and_go_over_rows_that_only_states_have(
    case: Case, plan: list[list[Step]], durable: bool, workers: int
) -> None:
    checked(case, plan, durable=durable, workers=workers, retained=False)


class Later(Both):
    """A run whose windows are declared later, over rows that are retained."""

    def __init__(self, run: Run, **options: Any) -> None:
        self.run = run
        self.engine = ec.Engine(**options)
        setup = run.setup
        self.source: Any = self.engine.source(
            "a",
            COLUMNS,
            kind="append" if setup.appends else "diffs",
            event_time="at",
            watermark=None if setup.delay is None else ec.bounded_delay(length(setup.delay)),
            bounded=setup.is_global,
            retained=True,
        )

    def declared_or_refused(self) -> Any:
        """The view, or why there is none."""
        try:
            return self.engine.view("panes", self.run.setup.panes(self.source))
        except ec.PlanError as refused:
            return str(refused)


PLAIN: dict[str, Any] = {
    "trigger": None,
    "always": False,
    "mode": "retracting",
    "lateness": None,
    "info": False,
}
"""Windows whose panes follow from the rows alone."""


@of_profile(0.5, quick=60)
@given(run=runs() | runs(**PLAIN), at=st.integers(1, 4), durable=st.booleans())
def test_windows_that_are_declared_later(run: Run, at: int, durable: bool) -> None:
    assume(run.epochs and not any(epoch.fires for epoch in run.epochs))
    at = min(at, len(run.epochs))
    truth = Both(run)
    with place(durable) as path, ExitStack() as kept_open:
        later = Later(run, checkpoint=path)
        kept_open.callback(later.engine.close)
        for epoch in run.epochs[:at]:
            truth.push(epoch)
            later.push(epoch)
        before = later.engine.epoch_number
        view = later.declared_or_refused()
        if isinstance(view, str):
            assert "depends on when rows arrived" in view
            assert later.engine.epoch_number == before
            assert not later.engine.views
            assert is_timely(run.setup)
            for epoch in run.epochs[at:]:
                later.push(epoch)
            return
        assert not is_timely(run.setup) or not any(epoch.rows for epoch in run.epochs[:at])
        for epoch in run.epochs[at:]:
            columns = run.setup.columns
            expected = truth.delta(truth.view, truth.push(epoch), columns)
            assert later.delta(view, later.push(epoch), columns) == expected
        assert contents(view) == contents(truth.view)


def is_timely(setup: Setup) -> bool:
    """Whether the result depends on when rows came."""
    refines = setup.trigger in (None, "every_epoch()") and not setup.always and not setup.info
    return not (refines and setup.mode == "retracting" and setup.lateness is None)
