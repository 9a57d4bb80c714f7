"""Two Hypothesis profiles: ``quick`` is the same in every run; ``long`` looks further, for nights. One Spark for all.

In ``quick`` a law runs the examples that were chosen of it, and generates few; with ``EVERCURRENT_TEST_EXAMPLES=random`` it
generates all of its number.

``make test-long`` chooses a seed, another in every run, and prints it; ``make test-long SEED=...`` repeats that run.
"""

import atexit
import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings

import forked
import run_folder
from chosen_examples import Outcome, chosen_first, kept
from distribution import rank, together
from evercurrent.core.circuit.circuit import Circuit
from evercurrent.core.data.tags import refuse_untagged
from evercurrent.views.sinks.delivery import _deliveries as deliveries_at_exit
from evercurrent.views.testing.pytest_plugin import TranscriptItem
from transcripts_checked import assert_deltas_are_the_contents, transcripts_held_to_contract

refuse_untagged()

gc.disable()  # Until all tests are collected: of what is loaded nothing is garbage.

TESTS = Path(__file__).resolve().parent
FOLDER, FAILED = pytest.StashKey[Path](), pytest.StashKey[bool]()
CALM = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

settings.register_profile(
    "quick", max_examples=100, deadline=None, derandomize=True, database=None, suppress_health_check=CALM
)
settings.register_profile(
    "long", max_examples=5_000, deadline=None, print_blob=True, suppress_health_check=CALM
)
PROFILE = os.environ.get("EVERCURRENT_TEST_PROFILE", "quick")
settings.load_profile(PROFILE)
CHOSEN = kept() if PROFILE == "quick" and os.environ.get("EVERCURRENT_TEST_EXAMPLES") != "random" else {}
LAPSED = "chosen examples that no longer apply"
BETWEEN_COLLECTIONS = 10_000
"""So many objects more than before, and Python looks for garbage: few of an example are left by then."""

WAIT_FOR_THE_DISK = ("store/", "durability/test_power_failure.py")
"""Tests of what is on the disk when it is reported as written."""


@pytest.fixture(autouse=True)
def no_waits_for_the_disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What dies in tests is a process and not the machine, so nobody waits for the disk: half of what commits cost.

    A file that is no longer open is refused as by the disk. Processes that a test starts wait as they always do.
    """
    place = request.path.relative_to(TESTS).as_posix() if request.path.is_relative_to(TESTS) else ""
    if place.startswith(WAIT_FOR_THE_DISK):
        return
    for name in ("fsync", "fdatasync"):
        if hasattr(os, name):
            monkeypatch.setattr(os, name, is_open)


@pytest.fixture(autouse=True, scope="session")
def every_plan_gains_by_workers() -> Iterator[None]:
    """Tests with several workers are about states in buckets, whatever the plan; users get these where windows merge."""
    with patch.object(Circuit, "gains_by_buckets", True):
        yield


@pytest.fixture(autouse=True)
def deliveries_end_with_their_test() -> Iterator[None]:
    """What a test has left open would write, and log its failures, while the next one counts files and messages.

    Those of engines that several tests share were begun before, and stay.
    """
    before = set(deliveries_at_exit)
    yield
    for delivery in set(deliveries_at_exit) - before:
        delivery.close()


def is_open(descriptor: int) -> None:
    """Stand for a write to the disk."""
    os.fstat(descriptor)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let the run have a folder of its own for what is temporary: workers of pytest-xdist have that of the process that starts them."""
    if not hasattr(config, "workerinput"):
        config.stash[FOLDER] = run_folder.begin()
    # A script's background jobs ignore Ctrl-C, with all that they start; tests interrupt themselves and what they start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove it."""
    folder = config.stash.get(FOLDER, None)
    if folder is not None:
        forked.end()
        run_folder.end(folder, passed=not config.stash.get(FAILED, True))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """With ``--dist loadgroup`` the tests of a file go to one worker, and all that share a session of Spark, or another process.

    What a file computes once is then computed once, and there is little to hand out. Marks would serve as well, but pytest-xdist 3.8
    writes them into names where pytest 9.2 does not look.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class Together(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return together(nodeid)

    config.option.loadscopereorder = False  # By number of tests, which does not show how long they take.
    return Together(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest: the others stay in their order."""
    items.sort(key=lambda item: rank(item.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Hold the engines of our transcripts to what ``check_steps`` checks in every engine: operators, deltas and contents."""
    if not isinstance(item, TranscriptItem):
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        engines = transcripts_held_to_contract(patch)
        yield
    for engine in engines:
        assert_deltas_are_the_contents(engine)
    return None


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Run the examples that were chosen of a law, before the few that it then generates."""
    chosen = CHOSEN.get(pyfuncitem.nodeid)
    if chosen is None or not hasattr(pyfuncitem.obj, "hypothesis"):
        return (yield)
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    outcome = Outcome(chosen)
    with chosen_first(pyfuncitem.obj, arguments, outcome):
        if outcome.lapsed:
            pyfuncitem.user_properties.append((LAPSED, outcome.lapsed))
        return (yield)


def pytest_collection_finish() -> None:
    """Leave the modules and tests that are loaded to themselves, and look for garbage among the rest more seldom than by default.

    Each of the two takes a twentieth of the time otherwise: Hypothesis measures the collections, of which there are thousands.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """What is left when the tests of a file are over stays: after thousands of tests it takes a second to look at all of it."""
    yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Let Python take everything apart at its end, in which libraries in C++ look for what is left.

    No sooner: before, pytest looks for garbage among what tests have left, a few times.
    """
    session.config.stash[FAILED] = exitstatus != pytest.ExitCode.OK
    atexit.register(gc.unfreeze)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print in a line how many tests are skipped in a clone that lacks the folder beside it, and what is to be chosen anew."""
    lapsed = [
        report.nodeid
        for report in terminalreporter.getreports("passed")
        if report.when == "call" and LAPSED in dict(report.user_properties)
    ]
    if lapsed:
        terminalreporter.write_line(
            f"{len(lapsed)} laws have {LAPSED}, and generate others in their place: "
            f'make examples ARGS="{" ".join(sorted({nodeid.partition("::")[0] for nodeid in lapsed}))}"'
        )
    reasons = [
        str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", ()) if report.longrepr
    ]
    cases, data = (sum(name in reason for reason in reasons) for name in ("shared/cases", "shared/data"))
    if cases or data:
        terminalreporter.write_line(
            f"{cases + data} tests are skipped, as these files do not lie beside the repository: "
            f"{cases} of ../shared/cases, {data} of ../shared/data"
        )
