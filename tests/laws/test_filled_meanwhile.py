"""Views that are filled piece by piece, while views come and go and epochs go on, are those that were declared from the start."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import assume, example, given

import evercurrent as ec
from evercurrent.core.data.errors import ArithmeticRefusedError
from evercurrent.views.engine import fills
from evercurrent.views.partitioned import workers as workers_module
from harness import contents
from laws.test_declared_later import HEADS, Live
from strategies import Case, Draw, Epoch, Program, cases, of_profile

Step = tuple[str, int, int]
"""What is done: "fill", "add", "drop", "advance", "complete" or "kill"; the number of a view; a line, or how many pieces."""

DOINGS = ("fill", "fill", "fill", "add", "drop", "advance", "advance", "complete", "kill")


@st.composite
def steps(draw: Draw) -> list[list[Step]]:
    """What is done before the first epoch, and after each of them."""
    one = st.tuples(st.sampled_from(DOINGS), st.integers(0, 2), st.integers(0, 3))
    return [draw(st.lists(one, min_size=1, max_size=5)) for _ in range(5)]


class Filled(Live):
    """Beside what ``Live`` does, views are filled piece by piece, as far as they are ``advanced``."""

    def _open(self) -> None:
        self.pending: dict[str, str] = {}
        super()._open()

    def do(self, what: str, view: int, line: int) -> None:
        names = list(self.lines)
        name, defined = f"view {view}", names[line % len(names)]
        if what == "fill":
            self._fill(name, defined)
        elif what == "advance" and name in self.engine._running.fills:
            for _ in range(line + 1):
                self.engine._running.fills[name].advance()
        elif what == "complete" and name in self.pending:
            self._complete(name)
        elif what == "kill" and self.path is not None and self.shown:
            self._kill()
        elif what in ("add", "drop"):
            was_shown, was_filled = name in self.shown, self.pending.pop(name, None)
            try:
                before = self.engine.epoch_number
                super().do(what, view, line)
            except ec.PlanError as refused:
                if "is being filled from it" not in str(refused) or self.engine.epoch_number != before:
                    raise
                if was_filled is not None:
                    self.pending[name] = was_filled
            else:
                if what == "drop" and was_filled is not None and not was_shown:
                    self.engine.drop_view(name)
        self.check()

    def check(self) -> None:
        # What is added may be what was being filled, and others appear before it.
        for each in self._appeared():
            self.shown[each] = self.pending.pop(each)
        super().check()

    def _fill(self, name: str, defined: str) -> None:
        made = self.engine.view(name, self.lines[defined], replace=True, background=True)
        if made.filling is None:
            self.shown[name] = defined
            self.pending.pop(name, None)
            return
        self.pending[name] = defined
        assert self.engine.filling[name].state == "filling"
        with pytest.raises(ec.NotFilledError, match=r"is being filled: .* wait for it"):
            made.read()

    def _complete(self, name: str) -> None:
        before, fills = self.engine.epoch_number, self.engine._running.fills
        view = fills[name].view
        with self.engine.turn:
            view.wait()
        appeared = self._appeared()
        assert name in appeared, "it appears, after others that read what it replaces"
        assert appeared == [name] or name in self.shown
        assert self.engine.epoch_number == before + len(appeared)
        assert view is self.engine.views[name]
        for each in appeared:
            self.shown[each] = self.pending.pop(each)

    def _appeared(self) -> list[str]:
        """The views that have been filled meanwhile."""
        return [each for each in self.pending if each not in self.engine._running.fills]

    def _kill(self) -> None:
        """The process ends; the program is started again, with the views that were being filled."""
        declared = {**self.shown, **self.pending}
        before = self.engine.epoch_number
        replaced = [name for name in self.pending if name in self.shown]
        self.engine._running.fills.stop_all()
        del self.engine, self.lines
        gc.collect()  # No process ends here.
        for name in replaced:
            declared[name] = self.shown[name]
        self.shown = declared
        self._open()
        assert self.engine.epoch_number in (before, before + 1), "what is new is filled in one epoch"

    def push(self, epoch: Epoch) -> None:
        super().push(epoch)
        for number, name in enumerate(list(self.pending)):
            if number % 2:
                self.engine._running.fills[name].advance()

    def finish(self) -> None:
        while self.pending:
            self._complete(next(iter(self.pending)))
        self.check()


@contextmanager
def in_small_pieces() -> Iterator[None]:
    """No thread: the law sets when a piece is computed, each of them of few rows."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fills.Filling, "start", lambda _: None)
        patched.setattr(fills, "PIECE_ROWS", 1)
        patched.setattr(fills, "FEW_CHANGES", 0)
        patched.setattr(fills, "MOST_ROUNDS", 2)
        yield


FILLED = [
    [("add", 0, 0)],
    [("fill", 1, 1), ("advance", 1, 1), ("fill", 2, 2)],
    [("drop", 0, 0), ("kill", 0, 0)],
]
REPLACED = [[("add", 0, 0)], [("fill", 0, 1), ("advance", 0, 0)], [("fill", 1, 1), ("complete", 0, 0)]]
READ_BY_A_FILL = [[("add", 0, 0)], [("fill", 1, 0), ("add", 0, 1)]]
SWAPPED = [
    [("fill", 2, 0), ("add", 1, 1)],
    [("fill", 2, 1), ("fill", 1, 0)],
    [("complete", 1, 0)],
]
TAKEN = Case(
    Program({"b": {"k": pl.Int64()}}, ("v1 = b.negate()", "v2 = b.with_columns(u=pl.col('k'))")),
    [{"b": []}, {"b": [((0,), 3)]}],
    trusted=False,
)
"""Rows that are there less than no times."""
NEW_AFTER_A_KILL = [[("add", 0, 0)], [("fill", 1, 0)], [("kill", 0, 0)]]
ADDED_WHILE_FILLED = [[("add", 0, 0)], [("fill", 1, 0), ("fill", 0, 1), ("add", 0, 1)]]


@of_profile(0.6, quick=25)
@given(case=cases(), plan=steps(), durable=st.booleans())
@example(HEADS, FILLED, True)
@example(HEADS, REPLACED, False)
@example(HEADS, READ_BY_A_FILL, False)
@example(HEADS, ADDED_WHILE_FILLED, False)
@example(TAKEN, SWAPPED, False)
@example(TAKEN, NEW_AFTER_A_KILL, True)
def test_views_that_are_filled_meanwhile(case: Case, plan: list[list[Step]], durable: bool) -> None:
    run(case, plan, durable=durable, workers=1)


@of_profile(0.4, quick=15)
@given(case=cases(), plan=steps(), durable=st.booleans(), workers=st.integers(2, 3))
@example(HEADS, FILLED, True, 2)
@example(HEADS, REPLACED, False, 3)
@example(TAKEN, SWAPPED, False, 2)
@example(TAKEN, NEW_AFTER_A_KILL, True, 2)
def test_views_that_are_filled_while_workers_run(
    case: Case, plan: list[list[Step]], durable: bool, workers: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(workers_module, "FEW_ROWS", 0)
        run(case, plan, durable=durable, workers=workers)


def run(case: Case, plan: list[list[Step]], *, durable: bool, workers: int) -> None:
    with in_small_pieces(), ExitStack() as kept_open:
        path = kept_open.enter_context(tempfile.TemporaryDirectory()) if durable else None
        try:
            live = Filled(case, path, workers)
            for step in plan[0]:
                live.do(*step)
            for number, epoch in enumerate(case.epochs, 1):
                live.push(epoch)
                for step in plan[number] if number < len(plan) else ():
                    live.do(*step)
            live.finish()
            assert {name: contents(view) for name, view in live.engine.views.items()} == {
                name: contents(live.truth.views[line]) for name, line in live.shown.items()
            }
            live.engine.close()
        except ArithmeticRefusedError:
            assume(False)
