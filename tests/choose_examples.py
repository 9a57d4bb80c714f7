"""Choose the examples of the quick profile: ``make examples``, or ``python tests/choose_examples.py tests/laws/test_undo.py``.

Each law runs many random examples. Of each it is noted what it is like: the branches that it took in ``core`` and ``views``, and in
what draws and recomputes examples, where a branch is an operator or a kind of value; how often, by powers of two; what was
drawn, and what after it. Kept are few that together took all branches, those first that add most in their time,
and then, for a share of the time that the law had, those that are least like the others. At last the faults of
``planted.py`` are planted: what as many random examples find as the law has, the chosen ones find too, or get the one that finds it.
So it is with ``--mutants`` more faults, which are drawn from all places of the functions that the law runs.

``--applies`` reports how many of the examples that are kept of each law still apply, and fails if one does not, or, without
``laws``, if a law is gone.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import polars as pl
import pytest
from hypothesis import Phase
from hypothesis.database import choices_to_bytes
from hypothesis.internal.conjecture.data import ConjectureData, Status
from hypothesis.internal.conjecture.engine import ConjectureRunner, ExitReason

from chosen_examples import (
    KEPT,
    Chosen,
    Outcome,
    each_run,
    read,
    run_chosen,
    with_seed,
    with_settings,
    written,
)
from planted import PLANTS, called_by, mutants

ROOT = Path(__file__).resolve().parent.parent
LAYERS = tuple(str(ROOT / "src" / "evercurrent" / layer) + os.sep for layer in ("core", "views"))
TESTS = str(ROOT / "tests") + os.sep
OWN = tuple(TESTS + name for name in ("conftest.py", "choose_examples.py", "chosen_examples.py"))
FAILURES = (Exception, pl.exceptions.PanicException)
LONGEST = 120
"""So many seconds of processor time an example may take before a fault counts as one that never ends."""
FEWEST = 10
"""With fewer examples a law has nothing to choose from."""
FEW = 64
"""Up to so many values of a choice are distinguished."""

Feature = tuple[Hashable, ...]


class Branches:
    """Counts the steps from line to line in the files that matter, of one example at a time."""

    def __init__(self) -> None:
        self._numbers: dict[CodeType, int] = {}
        self._taken: Counter[tuple[int, int, int]] = Counter()

    @contextmanager
    def counted(self) -> Iterator[None]:
        self._taken = Counter()
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(before)

    def _call(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        number = self._numbers.get(frame.f_code)
        if number is None:
            file = frame.f_code.co_filename
            matters = file.startswith(LAYERS) or (file.startswith(TESTS) and not file.startswith(OWN))
            number = self._numbers[frame.f_code] = len(self._numbers) if matters else -1
        if number < 0:
            return None
        taken, last = self._taken, 0

        def step(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
            nonlocal last
            if event == "line":
                taken[number, last, frame.f_lineno] += 1
                last = frame.f_lineno
            return step

        return step

    def taken(self) -> frozenset[Feature]:
        return frozenset(self._taken)

    def how_often(self) -> frozenset[Feature]:
        """Each branch with 1, 2, 4 or 8: so many times, or more."""
        return frozenset((*arc, min(times.bit_length(), 4)) for arc, times in self._taken.items())


def drawn(data: ConjectureData) -> frozenset[Feature]:
    """The choices among few, each alone and with the one before."""
    choices = []
    for node in data.nodes:
        # Another name before Hypothesis 6.131.
        constraints = getattr(node, "constraints", None) or getattr(node, "kwargs", {})
        bounds = constraints.get("min_value"), constraints.get("max_value")
        if node.type == "boolean":
            choices.append(("boolean", node.value))
        elif node.type == "integer" and None not in bounds and bounds[1] - bounds[0] <= FEW:
            choices.append((*bounds, node.value))
    return frozenset(choices) | frozenset((*one, *other) for one, other in pairwise(choices))


@dataclass(frozen=True, eq=False)
class Tried:
    """An example that was run."""

    choices: bytes
    branches: frozenset[Feature]
    features: frozenset[Feature]
    seconds: float


@dataclass(eq=False)
class Choosing:
    """A plugin of pytest that runs many examples of each law, and keeps those that are worth it."""

    seconds: float
    times: int
    share: float
    seed: int
    into: Path = KEPT
    completes: bool = False
    """Choose nothing anew: only look which plants are found."""
    mutants: int = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        law = pyfuncitem.obj
        if not hasattr(law, "_hypothesis_internal_use_settings"):
            return True  # No law: not run.
        own = law._hypothesis_internal_use_settings.max_examples
        if own < FEWEST:
            return True
        names = pyfuncitem._fixtureinfo.argnames
        arguments = {name: pyfuncitem.funcargs[name] for name in names}
        kept = read_if_there(self.into).get(pyfuncitem.nodeid)
        chosen = kept if self.completes else self.chosen_of(pyfuncitem.nodeid, law, arguments, own)
        if chosen is None:
            return True
        self.keep(pyfuncitem.nodeid, chosen)
        finding = self.finding_more(pyfuncitem.nodeid, law, arguments, chosen)
        self.keep(pyfuncitem.nodeid, replace(chosen, examples=chosen.examples + finding))
        return True

    def keep(self, nodeid: str, chosen: Chosen) -> None:
        """Write it down at once: others may choose for other laws meanwhile."""
        self.into.write_text(written(read_if_there(self.into) | {nodeid: chosen}), "utf-8")

    def chosen_of(self, nodeid: str, law: Any, arguments: dict[str, Any], own: int) -> Chosen | None:
        began = time.process_time()
        tried = self.try_many(law, arguments, own * self.times)
        if not tried:
            return None
        usual = own * sum(each.seconds for each in tried) / len(tried)
        chosen = choose(tried, self.share * usual, 1.5 * self.share * usual)
        of_all, of_own, of_chosen = (len(branches_of(some)) for some in (tried, tried[:own], chosen))
        print(
            f"{nodeid}: {len(chosen)} of {len(tried)} examples take {of_chosen / of_all:.1%} of the branches, "
            f"{own} by chance {of_own / of_all:.1%}; in {sum(each.seconds for each in chosen) / usual:.0%} of the time; "
            f"chosen in {time.process_time() - began:.0f} s",
            flush=True,
        )
        return Chosen(tuple(each.choices for each in chosen), max(3, own // 10))

    def finding_more(
        self, nodeid: str, law: Any, arguments: dict[str, Any], chosen: Chosen
    ) -> tuple[bytes, ...]:
        """An example for each plant that is found by as many random ones as the law has, and not by the chosen ones."""
        called = called_by(lambda: run_chosen(law, arguments, Outcome(chosen)))
        finding: list[bytes] = []
        for fault in (*PLANTS, *mutants(called, self.mutants, self.seed)):
            if called.isdisjoint(function.__code__ for function, _ in fault.functions()):
                continue
            with fault.planted(), no_longer_than(LONGEST):
                by_chosen = found_by_chosen(
                    law, arguments, replace(chosen, examples=chosen.examples + tuple(finding))
                )
                by_chance = first_that_fails(law, arguments)
            if by_chance is not None and not by_chosen:
                finding.append(by_chance)
            how = f"chosen {'found' if by_chosen else '-'}, by chance {'-' if by_chance is None else 'found'}"
            print(f"{nodeid}: {fault}: {how}", flush=True)
        # What a fault computed is nowhere kept.
        assert not found_by_chosen(law, arguments, replace(chosen, examples=chosen.examples + tuple(finding)))
        return tuple(dict.fromkeys(finding))

    def try_many(self, law: Any, arguments: dict[str, Any], most: int) -> list[Tried]:
        tried: dict[bytes, Tried] = {}
        of_hypothesis, branches = ConjectureRunner.test_function, Branches()
        until = time.process_time() + self.seconds

        def test_function(runner: ConjectureRunner, data: ConjectureData) -> None:
            began = time.process_time()
            with branches.counted():
                of_hypothesis(runner, data)
            if data.status == Status.VALID:
                choices = choices_to_bytes(data.choices)
                spent = time.process_time() - began
                features = branches.how_often() | drawn(data)
                tried[choices] = Tried(choices, branches.taken(), features, spent)
            if time.process_time() > until:
                runner.exit_with(ExitReason.max_examples)

        ConjectureRunner.test_function = test_function  # type: ignore[method-assign]
        try:
            generating = {"derandomize": False, "database": None, "phases": (Phase.generate,)}
            with with_seed(law, self.seed), with_settings(law, max_examples=most, **generating):
                law(**arguments)
        finally:
            ConjectureRunner.test_function = of_hypothesis  # type: ignore[method-assign]
        return list(tried.values())


@contextmanager
def no_longer_than(seconds: float) -> Iterator[None]:
    """Let what runs longer fail, and again every second if that is caught."""

    def fail(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"{seconds} seconds of processor time are over")

    before = signal.signal(signal.SIGVTALRM, fail)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def found_by_chosen(law: Any, arguments: dict[str, Any], chosen: Chosen) -> bool:
    """Whether the law fails as it runs in the quick profile."""
    try:
        run_chosen(law, arguments, Outcome(chosen), shrinks=False)
        with with_settings(law, max_examples=chosen.generates, phases=(Phase.generate,)):
            law(**arguments)
    except FAILURES:
        return True
    return False


def first_that_fails(law: Any, arguments: dict[str, Any]) -> bytes | None:
    """Of the examples that the law generates where none are chosen, the first that fails."""
    failed: list[bytes] = []

    def observe(data: ConjectureData) -> None:
        if data.status == Status.INTERESTING:
            failed.append(choices_to_bytes(data.choices))

    once = {"phases": (Phase.generate,), "report_multiple_bugs": False}
    with suppress(*FAILURES), each_run(observe), with_settings(law, **once):
        law(**arguments)
    return failed[0] if failed else None


def branches_of(tried: Sequence[Tried]) -> frozenset[Feature]:
    return frozenset().union(*(each.branches for each in tried))


def choose(tried: Sequence[Tried], seconds: float, at_most: float) -> list[Tried]:
    """Few examples that together took all branches, as far as there is time for it; while less than ``seconds`` are spent,
    others too: those that are least like the ones before.
    """
    chosen: list[Tried] = []
    spent = 0.0
    for each in covering(tried, lambda each: each.branches):
        if (spent := spent + each.seconds) > at_most:
            return chosen
        chosen.append(each)
    had = frozenset().union(*(each.features for each in chosen))
    while rest := [each for each in tried if each not in chosen and each.features]:
        for each in covering(rest, lambda each: each.features, had):
            if (spent := spent + each.seconds) > seconds:
                return chosen
            chosen.append(each)
        had = frozenset()  # All that can be had is there once: once more.
    return chosen


def covering(
    tried: Sequence[Tried],
    features_of: Callable[[Tried], frozenset[Feature]],
    had: frozenset[Feature] = frozenset(),
) -> list[Tried]:
    """Examples that together have all features but those that are had: first what adds most in its time."""
    found: list[Tried] = []
    lacking = set().union(*map(features_of, tried)) - had
    worth = {each: len(features_of(each)) / each.seconds for each in tried}
    while lacking:
        # What an example adds only shrinks: one that is still the first when it is looked at anew is the best.
        while True:
            best = max(worth, key=worth.__getitem__)
            added = len(features_of(best) & lacking) / best.seconds
            if added >= worth[best]:
                break
            worth[best] = added
        found.append(best)
        lacking -= features_of(best)
        del worth[best]
    return found


@dataclass(eq=False)
class Applying:
    """A plugin of pytest that runs the examples that are kept, and nothing else."""

    of: Path = KEPT
    is_all: bool = False
    """Whether all laws run that have examples."""
    lapsed: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        chosen = read_if_there(self.of).get(pyfuncitem.nodeid)
        if chosen is not None:
            outcome = Outcome(chosen)
            names = pyfuncitem._fixtureinfo.argnames
            run_chosen(pyfuncitem.obj, {name: pyfuncitem.funcargs[name] for name in names}, outcome)
            print(f"{pyfuncitem.nodeid}: {len(outcome.applied)} of {len(chosen.examples)} apply", flush=True)
            self.lapsed += [pyfuncitem.nodeid] * bool(outcome.lapsed)
        return True

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if self.is_all:
            there = {item.nodeid for item in session.items}
            self.gone = [each for each in sorted(read_if_there(self.of)) if each not in there]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.gone:
            print(f"remove from {self.of} what the quick profile does not have: {' '.join(self.gone)}")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self.lapsed:
            print(f"choose anew for {len(self.lapsed)} laws: {' '.join(self.lapsed)}")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60, help="processor time for a law")
    options.add_argument("--share", type=float, default=0.4, help="of the time of its own number of examples")
    options.add_argument(
        "--times", type=int, default=10, help="as many examples as it has in the quick profile, times this"
    )
    options.add_argument("--mutants", type=int, default=0, help="as many faults are drawn for each law")
    options.add_argument("--seed", type=int, default=0, help="of the random examples and faults")
    options.add_argument("--into", type=Path, default=KEPT, help="where they are kept")
    options.add_argument(
        "--plants", action="store_true", help="choose nothing anew, only look which plants are found"
    )
    options.add_argument(
        "--applies",
        action="store_true",
        help="choose nothing, only report how many of those kept still apply",
    )
    options.add_argument(
        "laws",
        nargs=argparse.REMAINDER,
        help="files and tests, and options of pytest; else all that have some",
    )
    given = options.parse_args()
    os.environ |= {"EVERCURRENT_TEST_PROFILE": "quick", "EVERCURRENT_TEST_EXAMPLES": "random"}
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    os.chdir(ROOT)
    plugin: Applying | Choosing = Applying(given.into, is_all=not given.laws)
    if not given.applies:
        plugin = Choosing(
            given.seconds, given.times, given.share, given.seed, given.into, given.plants, given.mutants
        )
    # Without parameters: pytest runs nothing at all if a law no longer has those that examples are kept for.
    laws = given.laws or sorted({each.partition("[")[0] for each in read_if_there(given.into)})
    if not laws:
        options.error(f"{given.into} has no examples; name files or laws, such as tests/laws/test_undo.py")
    return int(pytest.main(["-q", "-s", "-p", "no:cacheprovider", *laws], plugins=[plugin]))


def read_if_there(path: Path) -> dict[str, Chosen]:
    return read(path.read_text("utf-8")) if path.exists() else {}


if __name__ == "__main__":
    sys.exit(main())
