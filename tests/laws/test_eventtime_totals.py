"""What windows emit on the way depends on order, batches and triggers; what they come to does not."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
from eventtime import simulated_windows as where
from eventtime import simulator as sim
from eventtime.pipelines import (
    COLUMNS,
    OURS,
    THEIRS,
    Both,
    Cells,
    Epoch,
    Run,
    Setup,
    histories,
    length,
    read_as,
    runs,
    setups,
)
from strategies import Draw, of_profile

INF = float("inf")
Rows = list[tuple[Cells, int]]


def in_the_end(run: Run) -> Counter[Cells]:
    """What the view holds after the last epoch."""
    both = Both(run)
    for epoch in run.epochs:
        both.push(epoch)
    return both.counted(both.view.read(), run.setup.columns)


def of_all(run: Run, rows: Rows) -> Counter[Cells]:
    """The batch evaluation."""
    dated = [
        (dict(zip(COLUMNS, (key, run.origin + t, *rest), strict=True)), diff)
        for (key, t, *rest), diff in rows
    ]
    return sim.batch(run.setup.pipeline(), dated)


def all_rows(run: Run) -> Rows:
    return [entry for epoch in run.epochs for entry in epoch.rows]


def shuffled(rows: Rows, seed: int) -> Rows:
    """Another order, in which no row goes before it has come."""
    draw, held, waiting, order = random.Random(seed), Counter[Cells](), Counter[Cells](), []
    for row, diff in draw.sample(rows, len(rows)):
        if diff < 0 and not held[row]:
            waiting[row] += 1
            continue
        order.append((row, diff))
        held[row] += diff
        if held[row] > 0 and waiting[row]:
            waiting[row] -= 1
            held[row] -= 1
            order.append((row, -1))
    return order


def cut(rows: Rows, seed: int) -> list[Epoch]:
    """The same rows in other batches, some of them empty."""
    draw, epochs, at = random.Random(seed), [Epoch()], 0
    for entry in rows:
        if draw.random() < 0.4:
            at += draw.choice([0, 3, 20])
            epochs.append(Epoch(at=at))
        epochs[-1].rows.append(entry)
    return epochs


@of_profile(0.4)
@given(
    setup=setups(mode="retracting", delay=None, info=False, lateness=20),
    data=st.data(),
    seed=st.integers(0, 2**32),
)
def test_neither_order_nor_batches_change_what_it_comes_to(
    setup: Setup, data: st.DataObject, seed: int
) -> None:
    """No row is too late: no window closes before the end of time, and then every window is emitted."""
    epochs = data.draw(histories(appends=setup.appends, max_epochs=4))
    rows = all_rows(Run(setup, epochs))
    for other in (cut(rows, seed), cut(shuffled(rows, seed), seed), [Epoch(shuffled(rows, seed))]):
        for number, epoch in enumerate(other):
            # Behind the watermark, and within the lateness.
            other[number] = Epoch(epoch.rows, 3 + number, epoch.at)
        run = Run(setup, [*other, Epoch([], INF, 100)])
        assert in_the_end(run) == of_all(run, rows)


@of_profile(0.4)
@given(run=runs(mode="retracting", lateness=4, info=False, ends=True, window="fixed(7, 3)"))
def test_retracting_panes_add_up_to_the_batch_over_the_accepted_rows(run: Run) -> None:
    both = Both(run)
    for epoch in run.epochs:
        both.push(epoch)
    assert both.late is not None
    refused = both.counted(both.late.read(), tuple(COLUMNS))
    gone = both.counted(both.engine.ledger("a"), tuple(COLUMNS))
    assert refused == Counter({row: n for row, n in gone.items() if n > 0})
    since = run.origin
    accepted = [*all_rows(run), *(((k, t - since, *rest), -n) for (k, t, *rest), n in gone.items())]
    summed: Counter[Cells] = Counter()
    for frame in both.view.deltas():
        for row, n in both.counted(frame, run.setup.columns).items():
            summed[row] += n
    expected = of_all(run, accepted)
    assert Counter({row: n for row, n in summed.items() if n}) == expected
    assert both.counted(both.view.read(), run.setup.columns) == expected


@of_profile(0.3)
@given(
    data=st.data(),
    window=st.sampled_from(["fixed(7, 3)", "sessions(5)", "global_window()"]),
)
def test_the_sums_of_discarding_panes_are_the_totals(data: st.DataObject, window: str) -> None:
    """A140: panes are independent, and add up, whatever the triggers."""
    run = data.draw(
        runs(window=window, mode="discarding", lateness=4, info=False, ends=True, aggregates=("sum", "n"))
    )
    both = Both(run)
    for epoch in run.epochs:
        both.push(epoch)
    summed, counted = 0, 0
    for (*_, total, n), times in both.counted(both.view.read(), run.setup.columns).items():
        summed, counted = summed + times * total, counted + times * n
    accepted = Counter[Cells]()
    for (key, t, *rest), diff in all_rows(run):
        accepted[(key, run.origin + t, *rest)] += diff
    accepted.subtract(both.counted(both.engine.ledger("a"), tuple(COLUMNS)))
    assert counted == sum(accepted.values())
    assert summed == sum(n * (row[2] or 0) for row, n in accepted.items())


# Sessions


def sessions_of(rows: Counter[tuple[str, int]], gap: int) -> Counter[tuple[Any, ...]]:
    """The sessions of all rows there are, by sorting."""
    found: Counter[tuple[Any, ...]] = Counter()
    for key in {key for key, _ in rows}:
        times = sorted(t for (k, t), n in rows.items() if k == key for _ in range(n))
        start = 0
        for place in range(1, len(times) + 1):
            if place == len(times) or times[place] - times[place - 1] >= gap:
                found[key, times[start], times[place - 1] + gap, place - start] += 1
                start = place
    return found


@of_profile(0.3)
@given(data=st.data(), gap=st.sampled_from([1, 4, 5, 16]))
def test_sessions_are_those_of_all_rows_after_every_epoch(data: st.DataObject, gap: int) -> None:
    engine = ec.Engine()
    source = engine.source("a", {"k": pl.String, "at": pl.Datetime("us")}, kind="diffs", event_time="at")
    view = engine.view("v", source.window(ec.sessions(length(gap))).group_by("k").agg(n=pl.len()))
    run = Run(Setup(""), [], data.draw(st.sampled_from([0, -30, 1_700_000_000])))
    instants = st.tuples(st.sampled_from("ab"), st.integers(0, 60))
    held: Counter[tuple[str, int]] = Counter()
    for _ in range(data.draw(st.integers(1, 6))):
        came = data.draw(st.lists(instants, max_size=12))
        there = sorted(held.elements())
        gone = data.draw(st.lists(st.sampled_from(there), max_size=8, unique=True)) if there else []
        rows = [(key, run.moment(t).replace(tzinfo=None), 1) for key, t in came]
        rows += [(key, run.moment(t).replace(tzinfo=None), -1) for key, t in gone]
        engine.push("a", pl.DataFrame(rows, {**source.schema, "_diff": pl.Int64}, orient="row"))
        held.update(came)
        held.subtract(gone)
        found = Counter(tuple(map(run.seconds, row)) for row in view.read().iter_rows())
        expected = Counter(
            {(k, run.origin + a, run.origin + b, n): c for (k, a, b, n), c in sessions_of(held, gap).items()}
        )
        assert found == expected


# Chains

MICRO = 1_000_000
STAGES = [
    None,
    "after_watermark(early=at_period(5), late=repeat(after_count(1)))",
    "after_watermark(late=every_epoch())",
    "repeat(any_of(after_count(1), at_period(30)))",
]


def chained(source: Any, first: str, second: Any, third: Any) -> list[Any]:
    """Sizes of windows, how many of each size there are per window, and the greatest such number by size."""

    def triggered(collection: Any, text: str | None) -> Any:
        return collection if text is None else collection.trigger(read_as(OURS, text))

    one = source.window(read_as(OURS, first)).group_by("k").agg(n=pl.len())
    two = triggered(one.window(ec.fixed("10s")), second).group_by("n").agg(m=pl.len())
    three = triggered(two.window(ec.sessions("11s")), third).group_by("m").agg(most=pl.col("n").max())
    return [one, two, three]


def in_micros(window: Any) -> Any:
    """A window of the simulator, its lengths in microseconds."""
    return type(window)(**{name: value * MICRO for name, value in vars(window).items()})


def batch_chain(rows: Rows, first: str, origin: int, second: str = "fixed(10)") -> list[Counter[Cells]]:
    """The same by the simulator, stage by stage, each over all that the one before came to."""
    window, after = in_micros(read_as(THEIRS, first)), in_micros(read_as(THEIRS, second))
    dated = [({"k": key, "at": (origin + t) * MICRO}, diff) for (key, t, *_), diff in rows]
    one = sim.batch(sim.Pipeline(window, {"n": where.length()}, keys=("k",)), dated)
    panes = [({"n": n, "at": end - 1, "of": (key, start)}, 1) for key, start, end, n in one.elements()]
    two = sim.batch(sim.Pipeline(after, {"m": where.length()}, keys=("n",)), panes)
    panes = [({"m": m, "at": end - 1, "n": n}, 1) for n, _, end, m in two.elements()]
    three = sim.batch(
        sim.Pipeline(where.Sessions(11 * MICRO), {"most": where.greatest("n")}, keys=("m",)), panes
    )
    return [one, two, three]


def held_by(view: Any) -> Counter[Cells]:
    """The contents, instants as microseconds."""
    frame = view.read().with_columns(pl.col("window_start", "window_end").to_physical())
    return Counter(frame.iter_rows())


@pytest.mark.parametrize("first", ["sessions(5)", "fixed(10)", "sliding(10, 5)"])
@of_profile(0.15)
@given(data=st.data(), second=st.sampled_from(STAGES), third=st.sampled_from(STAGES))
def test_a_chain_of_three_groupings_comes_to_its_batch(
    first: str, data: st.DataObject, second: str | None, third: str | None
) -> None:
    """A154: retractions flow through windowed groupings by other keys."""
    epochs = data.draw(histories(appends=False, max_epochs=5))
    run = Run(Setup(first), epochs, data.draw(st.sampled_from([0, 1_700_000_003])))
    both = Both(run)
    engine = ec.Engine()
    source = run.setup.source(engine)
    views = [engine.view(f"v{n}", c) for n, c in enumerate(chained(source, first, second, third))]
    rows: Rows = []
    for epoch in epochs:
        engine.push("a", both.frame(epoch), at=run.moment(epoch.at), watermark=run.watermark(epoch))
        rows += epoch.rows
        expected = batch_chain(rows, first, run.origin)
        assert held_by(views[0]) == expected[0]
        if second is None:
            assert held_by(views[1]) == expected[1]
        if second is None and third is None:
            assert held_by(views[2]) == expected[2]
    at = epochs[-1].at
    engine.advance("a", ec.END_OF_TIME, at=run.moment(at))
    for step in (100, 200, 300):
        engine.tick(at=run.moment(at + step))
    assert [held_by(view) for view in views] == batch_chain(rows, first, run.origin)


def test_the_batch_of_a_chain_by_hand() -> None:
    rows: Rows = [(("a", t, 1, 1, False), 1) for t in (0, 3, 20)]
    one, two, three = batch_chain(rows, "sessions(5)", 0)
    assert one == {("a", 0, 8 * MICRO, 2): 1, ("a", 20 * MICRO, 25 * MICRO, 1): 1}
    assert two == {(2, 0, 10 * MICRO, 1): 1, (1, 20 * MICRO, 30 * MICRO, 1): 1}
    assert three == {(1, 10 * MICRO - 1, 21 * MICRO - 1, 2): 1, (1, 30 * MICRO - 1, 41 * MICRO - 1, 1): 1}


# What is held back for


@st.composite
def punctual(draw: Draw) -> list[Epoch]:
    """Rows that are never behind the watermark, though in any order ahead of it."""
    watermark, at, epochs = 0, 0, []
    for _ in range(draw(st.integers(1, 8))):
        ahead = st.tuples(st.sampled_from("ab"), st.integers(0, 9))
        rows = [((key, watermark + t, 1, 1, False), 1) for key, t in draw(st.lists(ahead, max_size=3))]
        watermark += draw(st.sampled_from([0, 0, 3, 8]))
        at += draw(st.sampled_from([0, 1, 7]))
        epochs.append(Epoch(rows, watermark, at))
    return [*epochs, Epoch([], INF, at + 100), Epoch(at=at + 200)]


TRIGGERS = [
    "after_watermark(early=at_period(5), late=repeat(after_count(1)))",
    "after_watermark(early=after_count(2), late=every_epoch())",
    "repeat(at_period(10))",
    "repeat(any_of(after_count(2), at_period(30)))",
    "every_epoch()",
]


@of_profile(0.4, quick=25)
@given(
    epochs=punctual(),
    window=st.sampled_from(["fixed(5)", "sliding(10, 5)", "sessions(5)", "sessions(5)"]),
    trigger=st.sampled_from(TRIGGERS),
    second=st.sampled_from(["fixed(3)", "fixed(10)", "sessions(4)"]),
)
def test_no_pane_is_late_where_no_row_was(
    epochs: list[Epoch], window: str, trigger: str, second: str
) -> None:
    """A105: the watermark behind a grouping waits for panes that are still to be emitted or retracted, so that none of them is late."""
    run = Run(Setup(window, lateness=0), epochs)
    both, engine = Both(run), ec.Engine()
    source = run.setup.source(engine)
    windowed = source.window(read_as(OURS, window)).trigger(read_as(OURS, trigger))
    panes = windowed.lateness("0s").group_by("k").agg(n=pl.len())
    windowed_panes = panes.window(read_as(OURS, second)).lateness("0s")
    view = engine.view("v", windowed_panes.group_by("n").agg(m=pl.len()))
    for epoch in epochs:
        engine.push("a", both.frame(epoch), at=run.moment(epoch.at), watermark=run.watermark(epoch))
        assert engine.ledger().is_empty()
    expected = batch_chain(all_rows(run), window, 0, second)
    assert held_by(view) == expected[1]


def test_what_will_be_taken_back_holds_the_watermark_too() -> None:
    """The session [0, 5) was emitted and is [0, 9) now: as its pane will be retracted, the next window, which ends at 5, stays open."""
    run = Run(Setup("sessions(5)", lateness=0), [])
    both, engine = Both(run), ec.Engine()
    trigger = read_as(OURS, "after_watermark(early=at_period(5), late=every_epoch())")
    source = run.setup.source(engine)
    visits = source.window(ec.sessions("5s")).trigger(trigger).lateness("0s").group_by("k").agg(n=pl.len())
    view = engine.view("v", visits.window(ec.fixed("5s")).lateness("0s").group_by("n").agg(m=pl.len()))
    rows = [(("a", 0, 1, 1, False), 1)], [(("a", 4, 1, 1, False), 1)]
    epochs = (
        Epoch(rows[0], 0),
        Epoch(at=5),
        Epoch(rows[1], at=6),
        Epoch([], 8, 7),
        Epoch([], 9, 8),
        Epoch([], 30, 9),
    )
    for epoch in epochs:
        engine.push("a", both.frame(epoch), at=run.moment(epoch.at), watermark=run.watermark(epoch))
    assert engine.ledger().is_empty()
    assert view.read().select("n", "m").rows() == [(2, 1)]
