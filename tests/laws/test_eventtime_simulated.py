"""The first law of event time: windows, triggers, panes and lateness are those of a brute-force simulator."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from eventtime.both import check
from eventtime.few_instants import few_instants
from eventtime.pipelines import Cells, Epoch, Run, Setup, runs
from strategies import of_profile

INF = float("inf")


@of_profile(0.6, quick=40)
@given(run=runs(appends=True))
def test_any_pipeline_over_rows_that_only_come(run: Run) -> None:
    check(run)


@of_profile(0.6, quick=40)
@given(run=runs(appends=False))
def test_any_pipeline_over_rows_that_come_and_go(run: Run) -> None:
    check(run)


COUNTING = (
    "repeat(after_count(1))",
    "repeat(after_count(3))",
    "after_watermark(early=after_count(4), late=after_count(3))",
    "sequence(after_count(2), repeat(after_count(3)))",
    "repeat(any_of(after_bytes(4), at_period(10)))",
    "repeat(all_of(after_count(2), punctuation()))",
    "sequence(until(repeat(after_count(2)), after_watermark()), repeat(after_count(2)))",
)


@of_profile(0.8, quick=40)
@given(
    data=st.data(),
    trigger=st.sampled_from(COUNTING),
    lateness=st.sampled_from([None, None, 4]),
)
def test_sessions_that_merge_and_split_with_triggers_that_count(
    data: st.DataObject, trigger: str, lateness: int | None
) -> None:
    """One key and little else, so that everything touches everything."""
    run = runs(
        window="sessions(5)",
        mode="retracting",
        trigger=trigger,
        lateness=lateness,
        keys=(),
        aggregates=("n",),
        delay=None,
        always=False,
        info=False,
        appends=False,
    )
    check(data.draw(run))


@of_profile(0.2)
@given(run=runs(mode="discarding"))
def test_panes_that_discard(run: Run) -> None:
    check(run)


@of_profile(0.6, quick=60)
@given(run=few_instants())
def test_windows_that_get_back_or_lose_all_their_rows_between_firings(run: Run) -> None:
    check(run)


def row(t: int, v: int = 1, *, diff: int = 1) -> tuple[Cells, int]:
    """A row, as the histories have it."""
    return (("a", t, v, 1, False), diff)


BUGS: dict[str, Run] = {
    "a new window that ends at 1970-01-01 00:00 was never on time": Run(
        Setup("fixed(10)", "after_watermark()", lateness=0),
        [Epoch([row(1)]), Epoch([], INF)],
        origin=-11,
    ),
    "a session that moved without a new row was not emitted at every epoch": Run(
        Setup("sessions(5)", "every_epoch()", always=True),
        [Epoch([row(16), row(20)]), Epoch([row(16, diff=-1)])],
    ),
    "the pane of a session whose rows are all gone was retracted late, or never": Run(
        Setup("sessions(5)", "repeat(after_count(1))"),
        [Epoch([row(0), row(0)]), Epoch([row(0, diff=-2), row(1)])],
    ),
    "the retraction of a session whose rows are all gone waited for a trigger": Run(
        Setup("sessions(5)", "repeat(at_period(10))"),
        [Epoch([row(0)]), Epoch(at=10), Epoch([row(0, diff=-1)], at=11)],
    ),
    "a deleted row was not counted for the session that began with it": Run(
        Setup("sessions(5)", "repeat(after_count(1))"),
        [Epoch([row(16), row(20)]), Epoch([row(16, diff=-1)])],
    ),
    "a deleted row was counted for the later part of the session that it held together": Run(
        Setup("sessions(5)", "repeat(after_count(1))"),
        [Epoch([row(0), row(4), row(6), row(9), row(13)]), Epoch([row(6, diff=-1)])],
    ),
    "rows that differ in event time alone cancelled, and the session that grew was not emitted": Run(
        Setup("sessions(5)", aggregates=("n",), info=True),
        [Epoch([row(0), row(0)]), Epoch([row(1), row(0, diff=-1)])],
    ),
    "a window without rows was forgotten, and its panes were counted on": Run(
        Setup("fixed(10)", info=True),
        [Epoch([row(0)]), Epoch([row(0, diff=-1)]), Epoch([row(0)]), Epoch([row(0)])],
    ),
    "a discarding pane was lost where as many rows went as came": Run(
        Setup("fixed(10)", mode="discarding", aggregates=("sum", "n")),
        [Epoch([row(0, 1)]), Epoch([row(0, 1, diff=-1), row(0, 5)])],
    ),
    "what the late part of a trigger had counted was left over after a merge": Run(
        Setup("sessions(5)", "after_watermark(early=after_count(9), late=after_count(3))", appends=True),
        [Epoch([row(0)], 5), Epoch([row(0), row(0)]), Epoch([row(8)]), Epoch([row(4)]), Epoch([], 13), Epoch([row(0)])],
    ),
    "what a later part of a sequence had counted was left over after a merge": Run(
        Setup("sessions(5)", "sequence(after_count(2), repeat(after_count(3)))", appends=True),
        [Epoch([row(0), row(0)]), Epoch([row(0), row(0)]), Epoch([row(8)]), Epoch([row(4)]), Epoch([row(0)])],
    ),
    "a signal fired twice under always": Run(
        Setup("fixed(10)", "repeat(all_of(signal()))", always=True, info=True),
        [Epoch([row(0)]), Epoch(fires=True), Epoch([], INF)],
    ),
    "a global window without keys could not be fired on request": Run(
        Setup("global_window()", "repeat(signal())", keys=()),
        [Epoch([row(0)]), Epoch(fires=True)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_stays_mended(bug: str) -> None:
    check(BUGS[bug])
