"""States cut into buckets: everything that is kept for a row is in the bucket that the row is sent to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given

import evercurrent as ec
from driven import (
    START,
    Driven,
    Step,
    as_columns,
    counted,
    given_back,
    parts,
    plan_of,
    route_of,
    steps_in,
    steps_of,
)
from eventtime.pipelines import COLUMNS, Run, runs
from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.columns.kernels import Words, key_words
from evercurrent.core.data.schema import DIFF
from evercurrent.core.eventtime.windows.holds import HeldWatermark
from evercurrent.core.state.partitioning import (
    MOST_BUCKETS,
    ONE,
    WORDS,
    KeyColumns,
    Route,
    bucket_of,
    in_buckets,
)
from evercurrent.core.state.protocol import State
from evercurrent.core.state.run_merge import merge
from evercurrent.core.state.spine import Spine
from evercurrent.views.plan.plan import Plan
from harness import Running
from oracle import TooLargeError
from strategies import Case, cases, of_profile

Bucketing = Callable[[pl.DataFrame], Any]
"""The bucket of each row of a source."""


def by_columns(*names: str, buckets: int) -> Bucketing:
    columns = KeyColumns.of(names)
    return lambda frame: bucket_of(columns.words(frame).first, buckets)


# The cut of a state


def cut(driven: Driven, buckets: int, keep_by: Sequence[str] | None = None) -> list[list[Any]]:
    """For every bucket what is kept there of each state."""
    kept = [
        # It is unknown whose windows hold a watermark back: every bucket finds out when it steps next.
        [as_columns(state, state.saved())] * buckets
        if isinstance(state, HeldWatermark)
        else in_buckets(route_of(driven, state, keep_by), [as_columns(state, state.saved())], buckets)
        for state in driven.states
    ]
    return [[of_state[bucket] for of_state in kept] for bucket in range(buckets)]


def together(driven: Driven, buckets: int) -> Driven:
    """A fresh circuit with the states of all buckets, put together again by cutting them into one."""
    fresh = Driven(driven.plan, driven.number)
    of_buckets = cut(driven, buckets)
    for number, (state, old) in enumerate(zip(fresh.states, driven.states, strict=True)):
        (whole,) = in_buckets(route_of(driven, old), [kept[number] for kept in of_buckets], 1)
        given_back(state, whole)
    return fresh


def assert_goes_on_together(plan: Plan, steps: list[Step], stop: int, buckets: int) -> None:
    plain, moved = Driven(plan), Driven(plan)
    for number, step in enumerate(steps):
        if number == stop:
            moved = together(moved, buckets)
        ours, theirs = plain.step(step), moved.step(step)
        for node, one, other in zip(plain.circuit.nodes, ours, theirs, strict=True):
            assert counted([one]) == counted([other]), f"epoch {number + 1}, node {node.name}"


CUTS = st.tuples(st.integers(0, 4), st.integers(1, 7))


@of_profile(0.3)
@given(case=cases(max_epochs=4), at=CUTS)
def test_any_program_goes_on_from_states_that_were_cut(case: Case, at: tuple[int, int]) -> None:
    try:
        case.expected()
    except TooLargeError:
        assume(False)
    assert_goes_on_together(Running(case, is_checked=False).engine._plan, steps_of(case), *at)


@of_profile(0.3)
@given(run=runs(), at=CUTS)
def test_any_windowed_pipeline_goes_on_from_states_that_were_cut(run: Run, at: tuple[int, int]) -> None:
    assert_goes_on_together(plan_of(run), steps_in(run), *at)


# Every bucket on its own


class Buckets:
    """Circuits side by side, each with its part of the states, the rows of its bucket, and the clocks of the whole.

    A bucket without rows steps only if one of its operators is due.
    """

    def __init__(self, whole: Driven, bucket: Bucketing, buckets: int, keep_by: Sequence[str] | None) -> None:
        self._bucket = bucket
        self.parts = [Driven(whole.plan, whole.number) for _ in range(buckets)]
        self.slept = 0
        for driven, kept in zip(self.parts, cut(whole, buckets, keep_by), strict=True):
            for state, columns in zip(driven.states, kept, strict=True):
                given_back(state, columns)

    def step(
        self, step: Step, clocks: dict[str, tuple[int, int]], name: str, *, wakes: bool = False
    ) -> list[pl.DataFrame]:
        """What all buckets emit in a view; ``wakes``: none of them sleeps."""
        emitted = []
        rows = {source: parts(frame, self._bucket, len(self.parts)) for source, frame in step.rows.items()}
        for number, driven in enumerate(self.parts):
            for source, (before, now) in clocks.items():
                driven.compiled.clocks[source].pin(before, now)
            mine = {source: given[number] for source, given in rows.items()}
            has_rows = any(frame.height for frame in mine.values())
            if wakes or has_rows or self._is_due(driven, step):
                emitted.append(driven.output(name, driven.step(Step(mine, {}, step.at, step.fires))))
            else:
                driven.number += 1
                self.slept += 1
        return emitted

    def _is_due(self, driven: Driven, step: Step) -> bool:
        now = Now(Epoch(driven.number + 1), START + timedelta(microseconds=step.at))
        operators = [node.operator for node in driven.circuit.nodes]
        due = any(operator.is_due(now) for operator in operators if hasattr(operator, "is_due"))
        return due or (step.fires and any(len(t.spine.runs) for t in driven.compiled.trackers.values()))


def net_entries(state: State) -> int:
    """How many entries are left when all that cancels is gone."""
    assert isinstance(state, Spine)
    return len(merge(state.layout, state.runs)) if state.runs else 0


def assert_buckets_agree(
    plan: Plan,
    steps: list[Step],
    stop: int,
    bucket: Bucketing,
    buckets: int,
    keep_by: Sequence[str] | None = None,
) -> int:
    """Check that from an epoch on independent buckets together emit what one circuit emits, and hold what it holds."""
    (name,) = plan.views
    whole, split = Driven(plan), None
    last = Step({source: frame.clear() for source, frame in steps[-1].rows.items()}, at=steps[-1].at)
    for number, step in enumerate([*steps, last]):
        if number == stop:
            split = Buckets(whole, bucket, buckets, keep_by)
        before = {source: clock.before for source, clock in whole.compiled.clocks.items()}
        ours = whole.output(name, whole.step(step))
        if split is not None:
            clocks = {source: (before[source], clock.now) for source, clock in whole.compiled.clocks.items()}
            theirs = split.step(step, clocks, name, wakes=step is last)
            assert counted([ours]) == counted(theirs), f"epoch {number + 1}"
    if split is None:
        return 0
    for place, state in enumerate(whole.states):
        if isinstance(state, Spine):
            assert sum(net_entries(part.states[place]) for part in split.parts) == net_entries(state)
    held = pl.concat([part.contents()[0] for part in split.parts])
    assert sorted(held.rows(), key=repr) == sorted(whole.contents()[0].rows(), key=repr)
    return split.slept


def trusted_plan(run: Run) -> Plan:
    """The panes of a pipeline over a source without a state of its own, which would be cut by the whole row."""
    engine, setup = ec.Engine(), run.setup
    kind: Any = "append" if setup.appends else "diffs"
    delay = None if setup.delay is None else ec.bounded_delay(timedelta(seconds=setup.delay))
    source = engine.source(
        "a",
        COLUMNS,
        kind=kind,
        trusted=not setup.appends,
        event_time="at",
        watermark=delay,
        bounded=setup.is_global,
    )
    engine.view("panes", setup.panes(source))
    return engine._plan


@of_profile(0.6)
@given(
    run=st.sampled_from(["sessions(5)", "sessions(3)", "sessions(8)", "global_window()"]).flatmap(
        lambda window: runs(window=window, keys=("k",))
    ),
    at=CUTS,
)
def test_sessions_by_key_in_buckets_of_their_keys(run: Run, at: tuple[int, int]) -> None:
    stop, buckets = at
    by = by_columns("k", buckets=buckets)
    assert_buckets_agree(trusted_plan(run), steps_in(run), stop, by, buckets, ("k",))


@of_profile(0.3)
@given(run=runs(window="fixed(10)", keys=("k",)), at=CUTS)
def test_fixed_windows_in_buckets_of_key_and_window(run: Run, at: tuple[int, int]) -> None:
    stop, buckets = at

    def bucket(frame: pl.DataFrame) -> Any:
        start = pl.col("at").dt.truncate("10s")
        given = frame.select("k", start, end=start + pl.duration(seconds=10, time_unit="us"))
        return bucket_of(key_words(given.get_columns(), frame.height).first, buckets)

    keep_by = ("k", "window_start", "window_end")
    assert_buckets_agree(trusted_plan(run), steps_in(run), stop, bucket, buckets, keep_by)


@of_profile(0.2)
@given(run=runs(window="sessions(5)", keys=()), at=CUTS)
def test_sessions_of_all_rows_are_in_one_bucket(run: Run, at: tuple[int, int]) -> None:
    stop, buckets = at
    by = by_columns(buckets=buckets)
    assert_buckets_agree(trusted_plan(run), steps_in(run), stop, by, buckets, ())


total = ec.aggregate(
    create=lambda: 0,
    add=lambda s, v: s + int(v.sum() or 0),
    remove=lambda s, v: s - int(v.sum() or 0),
    merge=lambda s, t: s + t,
    extract=lambda s: s,
    dtype=pl.Int64(),
)
longest = ec.aggregate(
    create=lambda: 0, add=lambda s, v: max(s, v.len()), merge=max, extract=lambda s: s, dtype=pl.Int64()
)

KEYED: dict[str, Callable[[Any], Any]] = {
    "additive": lambda a: a.group_by("k").agg(n=pl.len(), s=pl.col("v").sum(), m=pl.col("v").var().round(6)),
    "extremes": lambda a: a.group_by("k").agg(low=pl.col("v").min(), high=pl.col("v").max()),
    "distinct": lambda a: a.group_by("k").agg(n=pl.col("v").n_unique(), s=pl.col("size").n_unique()),
    "distinct keys": lambda a: a.group_by("k").agg(n=pl.col("k").n_unique()),
    "quantiles": lambda a: a.group_by("k").agg(m=pl.col("v").median(), q=pl.col("v").quantile(0.2)),
    "inverted": lambda a: a.group_by("k").agg(t=total(pl.col("v"))),
    "recomputed": lambda a: a.group_by("k").agg(t=longest(pl.col("v"))),
    "top": lambda a: a.group_by("k").top_k(2, by=["v", "size"]),
    "joined": lambda a: a.join(a.group_by("k").agg(n=pl.len()), on="k", how="left", nulls_equal=True),
    "full": lambda a: a.filter(pl.col("v") > 1).join(
        a.filter(pl.col("v") < 2), on="k", how="full", coalesce=True
    ),
    "anti": lambda a: a.join(a.filter(pl.col("flag")), on="k", how="anti"),
}


def random_steps(seed: int, epochs: int = 8, keys: int = 9) -> list[Step]:
    """Rows that come, and some of them go again."""
    draw, steps = np.random.default_rng(seed), []
    held: list[pl.DataFrame] = []
    for number in range(epochs):
        size = int(draw.integers(0, 12))
        rows = pl.DataFrame(
            {
                "k": pl.Series(
                    [None if k == 0 else f"k{k}" for k in draw.integers(0, keys, size)], dtype=pl.String
                ),
                "at": pl.Series(draw.integers(0, 40_000_000, size)).cast(pl.Datetime("us")),
                "v": pl.Series(draw.integers(0, 4, size), dtype=pl.Int64),
                "size": pl.Series(draw.integers(0, 2, size), dtype=pl.Int64),
                "flag": pl.Series(draw.random(size) < 0.5),
                DIFF: pl.Series(np.ones(size), dtype=pl.Int64),
            }
        )
        gone = [held.pop(0).with_columns(pl.lit(-1, pl.Int64).alias(DIFF))] if number % 3 == 2 else []
        held.append(rows)
        steps.append(Step({"a": pl.concat([rows, *gone])}, at=number))
    return steps


@pytest.mark.filterwarnings("ignore::evercurrent.GrowthWarning")
@pytest.mark.parametrize("name", KEYED)
@pytest.mark.parametrize("buckets", [2, 3, 7])
def test_what_is_kept_by_key_is_in_the_bucket_of_the_key(name: str, buckets: int) -> None:
    engine = ec.Engine()
    source = engine.source("a", COLUMNS, kind="diffs", trusted=True, event_time="at", bounded=True)
    view = engine.view(name, KEYED[name](source))
    keep_by = ("k",) if "k" in view.schema else None
    for seed in range(3):
        by = by_columns("k", buckets=buckets)
        assert_buckets_agree(engine._plan, random_steps(seed), 3 + seed, by, buckets, keep_by)


def test_rows_that_are_identified_as_a_whole_are_in_the_bucket_of_the_row() -> None:
    """Distinct rows, and rows of a source whose retractions are checked, are in the bucket of the hash of the whole row."""
    for made in (lambda a: a.unique(), lambda a: a.filter(pl.col("v") > 0)):
        engine = ec.Engine()
        source = engine.source("a", COLUMNS, kind="diffs", event_time="at")
        engine.view("v", made(source))
        assert_buckets_agree(engine._plan, random_steps(5), 4, by_columns(*COLUMNS, buckets=5), 5)


def test_upserts_are_in_the_bucket_of_their_key() -> None:
    engine = ec.Engine()
    columns = {"k": pl.Int64(), "v": pl.Int64()}
    engine.view("v", engine.source("a", columns, kind="upsert", key="k"))
    draw, steps = np.random.default_rng(2), []
    for number in range(9):
        diff = [1 if number % 3 else -1] * 6
        frame = pl.DataFrame({"k": draw.integers(0, 20, 6), "v": draw.integers(0, 9, 6), DIFF: diff})
        steps.append(Step({"a": frame.cast({**columns, DIFF: pl.Int64})}))
    assert_buckets_agree(engine._plan, steps, 4, by_columns("k", buckets=3), 3, ("k",))


def test_buckets_in_which_nothing_is_due_sleep() -> None:
    engine = ec.Engine()
    source = engine.source("a", COLUMNS, event_time="at", watermark=ec.bounded_delay("2s"))
    windows = source.window(ec.sessions("4s")).trigger(
        ec.after_watermark(early=ec.repeat(ec.at_period("3s")), late=ec.every_epoch())
    )
    engine.view("v", windows.lateness("5s").group_by("k").agg(n=pl.len()))
    steps = [
        Step({"a": step.rows["a"].filter(pl.col(DIFF) > 0).with_columns(pl.col("at") + timedelta(seconds=9 * n))}, at=step.at * 1_000_000)
        for n, step in enumerate(random_steps(1, epochs=20, keys=4))
    ]  # fmt: skip
    slept = assert_buckets_agree(engine._plan, steps, 2, by_columns("k", buckets=5), 5, ("k",))
    assert slept > 20


def assert_holds_agree(plan: Plan, steps: list[Step], stop: int, buckets: int) -> None:
    """Check that the buckets together hold the watermark back exactly as far as one circuit does."""
    (name,) = plan.views
    whole, split = Driven(plan), None
    (grouping,) = whole.compiled.trackers
    hold = whole.compiled.trackers[grouping].hold
    hold.is_read = True
    for number, step in enumerate(steps):
        if number == stop:
            split = Buckets(whole, by_columns("k", buckets=buckets), buckets, ("k",))
            for part in split.parts:
                part.compiled.trackers[grouping].hold.is_read = True
        held, before = hold.now, whole.compiled.clocks["a"].before
        whole.step(step)
        if split is not None:
            now = whole.compiled.clocks["a"].now
            split.step(step, {"a": (before, now)}, name, wakes=number == stop)
            held_at = min(part.compiled.trackers[grouping].hold.held_at for part in split.parts)
            assert max(held, min(now, held_at)) == hold.now, f"epoch {number + 1}"


@of_profile(0.3)
@given(run=runs(window="sessions(5)", keys=("k",), always=False), at=CUTS)
def test_what_the_buckets_hold_back_is_what_the_whole_holds_back(run: Run, at: tuple[int, int]) -> None:
    plan = trusted_plan(run)
    assume(Driven(plan).compiled.trackers)
    assert_holds_agree(plan, steps_in(run), *at)


def test_a_bucket_that_sleeps_holds_back_what_the_clock_reaches_then() -> None:
    """The watermark of sessions that are dated by their starts is held back by a bucket that did not step, as by one circuit."""
    engine = ec.Engine()
    source = engine.source("a", COLUMNS, event_time="at")
    windows = (
        source.window(ec.sessions("50s"), timestamp="start").trigger(ec.after_watermark()).lateness("0s")
    )
    engine.view("v", windows.group_by("k").agg(n=pl.len()))
    steps = [
        Step({"a": one_row(key, at)}, {"a": 1_000_000 * watermark})
        for key, at, watermark in [
            ("a", 10, 0),
            ("b", 20, 5),
            ("b", 30, 15),
            ("c", 40, 38),
            ("c", 44, 70),
            ("c", 99, 95),
        ]
    ]
    assert len(np.unique(by_columns("k", buckets=50)(pl.DataFrame({"k": ["a", "b", "c"]})))) == 3
    assert_holds_agree(engine._plan, steps, 0, 50)


def one_row(key: str, seconds: int) -> pl.DataFrame:
    at = pl.Series([seconds * 1_000_000]).cast(pl.Datetime("us"))
    return pl.DataFrame({"k": [key], "at": at, "v": [1], "size": [1], "flag": [False], DIFF: [1]})


# Routes themselves


def test_cutting_again_is_the_same_as_cutting_at_once() -> None:
    engine = ec.Engine()
    source = engine.source("a", COLUMNS, event_time="at", watermark=ec.bounded_delay("2s"))
    windows = (
        source.window(ec.sessions("4s")).lateness("50s").group_by("k").agg(n=pl.len(), m=pl.col("v").max())
    )
    engine.view("v", windows)
    driven = Driven(engine._plan)
    for step in random_steps(3):
        driven.step(Step({"a": step.rows["a"].filter(pl.col(DIFF) > 0)}, at=step.at))
    kinds = set()
    for state in driven.states:
        route, kept = route_of(driven, state, ("k",)), as_columns(state, state.saved())
        kinds.add(route.kind)
        at_once = in_buckets(route, [kept], 3)
        again = in_buckets(route, in_buckets(route, [kept], 8), 3)
        for (one, _), (other, _) in zip(at_once, again, strict=True):
            assert sum(frame.height for frame in one) == sum(frame.height for frame in other)
            if one:
                rows = [pl.concat(pieces, how="diagonal").sort(one[0].columns) for pieces in (one, other)]
                assert rows[0].select(sorted(rows[0].columns)).equals(rows[1].select(sorted(rows[1].columns)))
    assert kinds == {"cells", "columns", "cell timers", "prefix", "one"}


def test_buckets_are_ranges_of_even_size() -> None:
    words = np.random.default_rng(1).integers(0, 2**64, 100_000, dtype=np.uint64)
    words.sort()
    for buckets in (1, 2, 3, 200, 1000):
        found = bucket_of(words, buckets)
        assert (np.diff(found) >= 0).all()
        counts = np.bincount(found, minlength=buckets)
        assert len(counts) == buckets
        assert counts.max() < 2 * 100_000 / buckets + 50
    with pytest.raises(AssertionError, match="cannot tell so many buckets apart"):
        bucket_of(words, MOST_BUCKETS + 1)


def test_a_prefix_gives_the_bucket_of_the_first_columns() -> None:
    rows = pl.DataFrame({"a": range(1000), "b": ["x", None] * 500, "c": range(1000)})
    for names in (("a",), ("a", "b")):
        keyed = KeyColumns.of(("a", "b", "c"), names)
        words = keyed.words(rows)
        assert words.second is not None
        columns = pl.DataFrame({"key": words.first, "second": words.second})
        by_name: Words = KeyColumns.of(names).words(rows).first
        for buckets in (3, 64, 999, MOST_BUCKETS):
            np.testing.assert_array_equal(
                bucket_of(keyed.route.words(columns), buckets), bucket_of(by_name, buckets)
            )


def test_key_columns_have_their_route() -> None:
    assert KeyColumns.of(["a", "b"]).route is WORDS
    assert KeyColumns.of(["a", "b"], ["a", "b"]).route is WORDS
    assert KeyColumns.of(["a", "b"], ["a"]).route == Route("prefix")
    assert KeyColumns.of(["a", "b"], []).route is ONE
    with pytest.raises(AssertionError, match="routed by the first"):
        KeyColumns.of(["a", "b"], ["b"])


@pytest.mark.parametrize(
    "route", [WORDS, ONE, Route("prefix"), Route("columns", ("a", "b")), Route("cells", gap=5), Route("cell timers", gap=5, lateness=7)]
)  # fmt: skip
def test_a_route_comes_back_from_json(route: Route) -> None:
    assert Route.from_json(route.as_json()) == route
