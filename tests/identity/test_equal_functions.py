"""Law: views whose functions are equal, each with one of its own, keep their own states whatever becomes of the others."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from itertools import product
from pathlib import Path
from threading import Event
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.durability.plan_match import state_ids
from evercurrent.views.plan.digest_scheme import FOURTH, SCHEME, written_by
from evercurrent.views.store import store_at
from identity.declaring import compiled_of
from spark.offered import Offering, held
from thinned import pairs_of, some_of

Make = Callable[[Any, int], Any]
"""Declares a view over a source; the number is the one part in which two of its views may differ."""

COLUMNS: dict[str, Any] = {"k": pl.String, "v": pl.Int64, "at": pl.Datetime("us")}
NOON = datetime(2026, 1, 1, 12)


def own_windows() -> Any:
    return ec.custom_windows(
        lambda rows: rows.select(window_start="at", window_end=pl.col("at") + pl.duration(minutes=1)),
        merge=ec.merge_overlapping,
    )


def early(number: int) -> Any:
    return ec.after_watermark(early=ec.after_count(number))


def own_sum() -> Any:
    return ec.aggregate(
        create=lambda: 0,
        add=lambda total, values: total + sum(values),
        merge=lambda one, other: one + other,
        extract=lambda total: total,
        dtype=pl.Int64,
    )


def doubled(source: Any) -> Any:
    return source.map_batches(lambda frame: frame.with_columns(v=frame["v"] * 2))


PIPELINES: dict[str, Make] = {
    "merged windows, other triggers": lambda s, n: (
        s.window(own_windows()).trigger(early(n)).group_by("k").agg(n=pl.len(), v=pl.col("v").sum())
    ),
    "merged windows, one trigger": lambda s, n: (
        s.window(own_windows()).trigger(early(1)).group_by("k").agg(n=pl.len(), v=pl.col("v").sum())
    ),
    "held windows, other triggers": lambda s, n: (
        s.window(own_windows(), timestamp="earliest").trigger(early(n)).group_by("k").agg(n=pl.len())
        .window(ec.fixed("1m")).group_by("k").agg(n=pl.col("n").sum())
    ),
    "merged windows, no trigger": lambda s, n: s.window(own_windows()).group_by("k").agg(n=pl.len() * n),
    "mapped, other triggers": lambda s, n: (
        doubled(s).with_event_time("at").window(ec.fixed("1m")).trigger(early(n)).group_by("k").agg(n=pl.len())
    ),
    "mapped, other groupings": lambda s, n: doubled(s).group_by("k").agg(v=pl.col("v").sum() + n),
    "mapped, other conditions": lambda s, n: (
        doubled(s).group_by("k").agg(v=pl.col("v").sum()).filter(pl.col("v") > n)
    ),
    "mapped, equal": lambda s, n: doubled(s).group_by("k").agg(v=pl.col("v").sum(), m=pl.col("v").max()),
    "mapped, joined with itself": lambda s, n: (
        doubled(s).join(doubled(s).group_by("k").agg(most=pl.col("v").max() + n), on="k")
    ),
    "mapped twice, the first rows": lambda s, n: doubled(doubled(s)).group_by("k").top_k(n, by=["v", "at"]),
    "aggregates, other triggers": lambda s, n: (
        s.window(ec.fixed("1m")).trigger(early(n)).group_by("k").agg(n=own_sum()(pl.col("v")))
    ),
    "aggregates, other conditions": lambda s, n: (
        s.group_by("k").agg(v=own_sum()(pl.col("v"))).filter(pl.col("v") > n)
    ),
    "looked up in another order": lambda s, n: (
        s.filter(pl.col("k").is_in({1: ["a", "b", "d"], 2: ["b", "a", "d"], 3: ["d", "b", "a"]}[n]))
        .group_by("k").agg(v=pl.col("v").sum())
    ),
}  # fmt: skip
SOME = some_of(
    PIPELINES,
    (
        "merged windows, other triggers", "held windows, other triggers", "mapped, other groupings", "mapped, equal",
        "mapped, joined with itself", "aggregates, other triggers", "looked up in another order",
    ),
)  # fmt: skip
"""One of each kind where there is little time."""

pipelines = pytest.mark.parametrize("make", [PIPELINES[name] for name in SOME], ids=SOME)


def source_of(engine: ec.Engine, **options: Any) -> Any:
    return engine.source("rows", COLUMNS, event_time="at", **options)


def batch(number: int) -> dict[str, list[Any]]:
    """Rows that differ from batch to batch; windows merge, and some close."""
    chosen = random.Random(number)
    starts = [NOON + timedelta(seconds=40 * number + chosen.randrange(120)) for _ in range(6)]
    return {
        "k": [chosen.choice("abc") for _ in starts],
        "v": [chosen.randrange(9) for _ in starts],
        "at": starts,
    }


NUMBERS = {"v0": 1, "v1": 3, "v2": 2}


def declared(make: Make, names: tuple[str, ...], engine: ec.Engine, **options: Any) -> ec.Engine:
    source = source_of(engine, **options)
    for name in names:
        engine.view(name, make(source, NUMBERS[name]))
    return engine


def rows_of(engine: ec.Engine, name: str) -> list[Any]:
    return sorted(engine.views[name].read().rows(), key=repr)


def deltas_of(engine: ec.Engine, name: str, since: int) -> list[Any]:
    frames = [frame.drop("_epoch") for frame in engine.views[name].deltas(since)]
    return [sorted(frame.rows(), key=repr) for frame in frames if frame.height]


BATCHES = 8
"""As many as any of the tests pushes."""


@dataclass(frozen=True)
class Undisturbed:
    """What a view is in an engine that never had others, after so many batches, and its deltas of each of them."""

    rows: list[list[Any]]
    deltas: list[list[Any]]


@cache
def undisturbed(make: Make, number: int) -> Undisturbed:
    """Run a view alone, once for all tests of it."""
    engine, after = ec.Engine(), Undisturbed([], [])
    engine.view("v", make(source_of(engine), number))
    after.rows.append(rows_of(engine, "v"))
    for each in range(BATCHES):
        since = engine.views["v"].snapshot().epoch
        engine.push("rows", batch(each))
        after.rows.append(rows_of(engine, "v"))
        after.deltas.append(deltas_of(engine, "v", since))
    return after


def require_equal(make: Make, engine: ec.Engine, names: tuple[str, ...], batches: int) -> None:
    """The views have the contents, and from here on the deltas, of engines that never had others."""
    since = {name: engine.views[name].snapshot().epoch for name in names}
    for name in names:
        assert rows_of(engine, name) == undisturbed(make, NUMBERS[name]).rows[batches], name
    for number in range(batches, batches + 3):
        engine.push("rows", batch(number))
    expected = {
        name: [
            each
            for deltas in undisturbed(make, NUMBERS[name]).deltas[batches : batches + 3]
            for each in deltas
        ]
        for name in names
    }
    for name in names:
        assert rows_of(engine, name) == undisturbed(make, NUMBERS[name]).rows[batches + 3], name
        assert deltas_of(engine, name, since[name]) == expected[name], name
    assert any(expected.values())


@pytest.mark.parametrize(
    ("pipeline", "dropped", "kind"),
    pairs_of(SOME, [*NUMBERS], ["memory", "fork", "workers", "checkpoint"]),
)
def test_any_of_them_can_be_dropped(pipeline: str, dropped: str, kind: str, tmp_path: Path) -> None:
    make = PIPELINES[pipeline]
    options: dict[str, Any] = {"checkpoint": tmp_path} if kind == "checkpoint" else {}
    options |= {"workers": 2} if kind == "workers" else {}
    engine = declared(make, tuple(NUMBERS), ec.Engine(**options))
    for number in range(2):
        engine.push("rows", batch(number))
    changed = engine.fork() if kind == "fork" else engine
    changed.drop_view(dropped)
    left = tuple(name for name in NUMBERS if name != dropped)
    require_equal(make, changed, left, 2)
    for each in (engine, changed):
        each.close()
    if kind == "checkpoint":
        with declared(make, left, ec.Engine(checkpoint=tmp_path)) as engine:
            require_equal(make, engine, left, 5)


ORDERS = [("v1", "v2"), ("v2", "v1"), ("v2",), ("v2", "v1", "v0"), ("v1", "v0", "v2")]
REOPENED = list(product(SOME, ORDERS))
"""In the quick profile an engine opens every second one, and buckets go on with the others."""


@pytest.mark.parametrize(("pipeline", "names"), some_of(REOPENED, REOPENED[::2]))
def test_a_program_is_opened_without_some_or_in_another_order(
    pipeline: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    make = PIPELINES[pipeline]
    with declared(make, tuple(NUMBERS), ec.Engine(checkpoint=tmp_path)) as engine:
        for number in range(2):
            engine.push("rows", batch(number))
    drop = tuple(name for name in NUMBERS if name not in names)
    for batches in (2, 5):
        checkpoint = ec.Checkpoint(tmp_path, drop=drop)
        with declared(make, names, ec.Engine(checkpoint=checkpoint)) as engine:
            require_equal(make, engine, names, batches)


@pytest.mark.parametrize(
    ("pipeline", "names", "is_running"),
    some_of(
        ((*each, is_running) for each in REOPENED for is_running in (False, True)),
        ((*each, number % 2 == 0) for number, each in enumerate(REOPENED[1::2])),
    ),
)
def test_a_query_in_buckets_goes_on_without_some(
    pipeline: str, names: tuple[str, ...], is_running: bool, tmp_path: Path
) -> None:
    make = PIPELINES[pipeline]
    store, drop = store_at(tmp_path), tuple(name for name in NUMBERS if name not in names)
    offering = Offering(declared(make, tuple(NUMBERS), ec.Engine()).declared, store)
    frames = [{"rows": pl.DataFrame(batch(number), schema=COLUMNS)} for number in range(6)]
    for number in range(2):
        offering.offer(number, frames[number])
    plan = declared(make, names, ec.Engine()).declared
    offering = offering.redeclared(plan, drop) if is_running else Offering(plan, store, drop=drop)
    for number in range(2, 6):
        if number == 5:
            offering = Offering(plan, store, drop=drop)
        offering.offer(number, frames[number])
        expected = {name: undisturbed(make, NUMBERS[name]).rows[number + 1] for name in names}
        assert held(plan, store) == expected


def totals(source: Any) -> Any:
    return doubled(source).group_by("k").agg(v=pl.col("v").sum())


GIVEN = {"rows": pl.DataFrame({"k": ["a"], "v": [50], "at": [NOON]}, schema=COLUMNS)}
"""Rows that a user gives for those that came, and that are others."""


def two_histories(engine: ec.Engine) -> ec.Engine:
    """Two equal views, of which the later one was filled with other rows than those that came."""
    source = source_of(engine)
    engine.view("v0", totals(source))
    engine.push("rows", batch(0))
    engine.view("v2", totals(source), backfill=GIVEN)
    engine.push("rows", batch(1))
    assert rows_of(engine, "v0") != rows_of(engine, "v2")
    return engine


@pytest.mark.parametrize("dropped", ["v0", "v2"])
@pytest.mark.parametrize("kind", ["memory", "workers", "checkpoint"])
def test_a_view_keeps_its_own_state_if_an_equal_one_was_filled_with_others(
    dropped: str, kind: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"checkpoint": tmp_path} if kind == "checkpoint" else {}
    options |= {"workers": 2} if kind == "workers" else {}
    (left,) = {"v0", "v2"} - {dropped}
    with two_histories(ec.Engine(**options)) as engine:
        before, epoch = rows_of(engine, left), engine.views[left].snapshot().epoch
        engine.drop_view(dropped)
        assert rows_of(engine, left) == before
        engine.push("rows", batch(2))
        after = rows_of(engine, left)
        if kind == "checkpoint":
            assert sorted(engine.views[left].read(epoch).rows(), key=repr) == before
    reference = two_histories(ec.Engine())
    reference.push("rows", batch(2))
    assert after == rows_of(reference, left)
    if kind == "checkpoint":
        with ec.Engine(checkpoint=tmp_path) as engine:
            engine.view(left, totals(source_of(engine)))
            assert rows_of(engine, left) == after
            assert sorted(engine.views[left].read(epoch).rows(), key=repr) == before


@pytest.mark.parametrize("names", [("v0",), ("v2",), ("v2", "v0"), ("v9", "v2", "v0")], ids=" ".join)
def test_a_view_is_opened_with_its_own_state(names: tuple[str, ...], tmp_path: Path) -> None:
    with two_histories(ec.Engine(checkpoint=tmp_path)) as engine:
        before = {name: rows_of(engine, name) for name in ("v0", "v2")}
        epoch = engine.views["v0"].snapshot().epoch

    def opened(place: ec.Checkpoint | None) -> ec.Engine:
        engine = ec.Engine(checkpoint=place)
        source = source_of(engine)
        for name in names:
            engine.view(name, totals(source))
        return engine

    drop = tuple({"v0", "v2"} - {*names})
    if "v9" in names:
        # A new view is filled, and takes nothing from those that are there.
        with pytest.raises(ec.CheckpointError, match="view 'v9'"):
            opened(ec.Checkpoint(tmp_path, drop=drop)).ready()
        return
    fork = opened(None).fork(ec.Checkpoint(tmp_path)) if not drop else None
    with opened(ec.Checkpoint(tmp_path, drop=drop)) as engine:
        for name in names:
            assert rows_of(engine, name) == before[name], name
            assert fork is None or rows_of(fork, name) == before[name]
        engine.push("rows", batch(2))
        for name in names:
            assert sorted(engine.views[name].read(epoch).rows(), key=repr) == before[name]


def hoisted(engine: ec.Engine, *, is_one: bool) -> Iterator[Any]:
    source = source_of(engine)
    functions = [lambda frame: frame for _ in range(2)]
    for number in range(2):
        mapped = source.map_batches(functions[0 if is_one else number])
        yield mapped.group_by("k").agg(v=pl.col("v").sum()).filter(pl.col("v") > number)


@pytest.mark.filterwarnings("ignore:.*has states that nothing declared uses")
@pytest.mark.parametrize("is_one", [False, True])
def test_one_function_may_become_two_and_two_one(is_one: bool, tmp_path: Path) -> None:
    """The views have equal states as they were declared together, so that either is that of the one function."""
    engines = [(is_one, [0, 1]), (not is_one, [2]), (is_one, [3])]
    expected = ec.Engine()
    for name, each in zip(("v0", "v1"), hoisted(expected, is_one=True), strict=True):
        expected.view(name, each)
    for one, batches in engines:
        with ec.Engine(checkpoint=tmp_path) as engine:
            for name, each in zip(("v0", "v1"), hoisted(engine, is_one=one), strict=True):
                engine.view(name, each)
            for number in batches:
                engine.push("rows", batch(number))
                expected.push("rows", batch(number))
            for name in ("v0", "v1"):
                assert rows_of(engine, name) == rows_of(expected, name)


@pytest.mark.filterwarnings("ignore:.*has states that nothing declared uses")
@pytest.mark.parametrize("is_one", [False, True])
def test_one_function_may_become_two_and_two_one_in_buckets(is_one: bool, tmp_path: Path) -> None:
    expected, store = ec.Engine(), store_at(tmp_path)
    for name, each in zip(("v0", "v1"), hoisted(expected, is_one=True), strict=True):
        expected.view(name, each)
    for one, batches in [(is_one, [0, 1]), (not is_one, [2, 3]), (is_one, [4])]:
        engine = ec.Engine()
        for name, each in zip(("v0", "v1"), hoisted(engine, is_one=one), strict=True):
            engine.view(name, each)
        offering = Offering(engine.declared, store)
        for number in batches:
            offering.offer(number, {"rows": pl.DataFrame(batch(number), schema=COLUMNS)})
            expected.push("rows", batch(number))
        assert held(engine.declared, store) == {name: rows_of(expected, name) for name in ("v0", "v1")}


def test_two_functions_with_other_histories_do_not_become_one(tmp_path: Path) -> None:
    def made(engine: ec.Engine, functions: list[Any]) -> list[Any]:
        source = source_of(engine)
        return [source.map_batches(each).group_by("k").agg(v=pl.col("v").sum()) for each in functions]

    functions = [lambda frame: frame for _ in range(2)]
    with ec.Engine(checkpoint=tmp_path) as engine:
        first, second = made(engine, functions)
        engine.view("v0", first)
        engine.push("rows", batch(0))
        engine.view("v2", second, backfill=GIVEN)
        before = rows_of(engine, "v0"), rows_of(engine, "v2")
    with ec.Engine(checkpoint=tmp_path) as engine:
        for name, each in zip(("v0", "v2"), made(engine, [functions[0]] * 2), strict=True):
            engine.view(name, each)
        with pytest.raises(ec.CheckpointError, match=r"'v0'.*'v2'"):
            engine.ready()
    with ec.Engine(checkpoint=tmp_path) as engine:
        for name, each in zip(("v0", "v2"), made(engine, functions), strict=True):
            engine.view(name, each)
        assert (rows_of(engine, "v0"), rows_of(engine, "v2")) == before


FILLED: dict[str, Callable[[ec.Engine], Any]] = {
    "equal": lambda engine: totals(engine.sources["rows"]),
    "equal, then filtered": lambda engine: totals(engine.sources["rows"]).filter(pl.col("v") > 3),
    "two": lambda engine: totals(engine.sources["rows"]).join(totals(engine.sources["rows"]), on="k"),
    "of one that is there": lambda engine: engine.views["v1"].group_by("v").agg(n=pl.len()),
}


@pytest.mark.parametrize("make", FILLED.values(), ids=FILLED)
@pytest.mark.parametrize("dropped", ["v0", "v2"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_view_is_filled_in_the_background_while_an_equal_one_is_dropped(
    make: Callable[[ec.Engine], Any], dropped: str, workers: int
) -> None:
    engine, alone, is_held, go = ec.Engine(workers=workers), ec.Engine(), Event(), Event()
    for each, names in ((engine, tuple(NUMBERS)), (alone, ("v1",))):
        source = source_of(each, retained=True)
        for name in names:
            each.view(name, totals(source))
        each.push("rows", batch(0))

    def waits(_: ec.FillProgress) -> None:
        is_held.set()
        assert go.wait(20)

    view = engine.view("new", make(engine), background=True, on_progress=waits)
    alone.view("new", make(alone))
    assert is_held.wait(20)
    reads_it = make is FILLED["of one that is there"]
    try:
        if reads_it and dropped == "v0":
            # The node that it reads has another number then.
            with pytest.raises(ec.PlanError, match="view 'new' is being filled from it"):
                engine.drop_view(dropped)
        else:
            engine.drop_view(dropped)
        for each in (engine, alone):
            each.push("rows", batch(1))
    finally:
        go.set()
    view.wait(20)
    for number in (2, 3):
        for each in (engine, alone):
            each.push("rows", batch(number))
        for name in ("v1", "new"):
            assert rows_of(engine, name) == rows_of(alone, name)
    engine.close()


@pipelines
def test_a_checkpoint_of_the_fourth_scheme_opens_as_before(make: Make, tmp_path: Path) -> None:
    with written_by(FOURTH), declared(make, tuple(NUMBERS), ec.Engine(checkpoint=tmp_path)) as engine:
        for number in range(2):
            engine.push("rows", batch(number))
    log = CommitLog(store_at(tmp_path))
    assert log.last is not None
    assert log.last.plan["digests"] == FOURTH
    assert "equal" not in log.last.plan
    with declared(make, tuple(NUMBERS), ec.Engine(checkpoint=tmp_path)) as engine:
        require_equal(make, engine, tuple(NUMBERS), 2)
        engine.drop_view("v0")
        require_equal(make, engine, ("v1", "v2"), 5)
    log.refresh()
    assert log.last.plan["digests"] == SCHEME


@pipelines
def test_nodes_after_equal_ones_have_names_that_do_not_depend_on_these(make: Make) -> None:
    """A state of a node that is no other's equal has one name, whichever views are declared beside it."""
    together = set(state_ids(compiled_of(declared(make, tuple(NUMBERS), ec.Engine()))))
    for name in NUMBERS:
        assert set(state_ids(compiled_of(declared(make, (name,), ec.Engine())))) <= together


@pytest.mark.parametrize(
    ("seed", "workers"), some_of(product(range(12), (1, 2)), ((seed, 1 + seed % 2) for seed in range(12)))
)
def test_views_come_and_go_and_the_program_starts_again(seed: int, workers: int, tmp_path: Path) -> None:
    """Random drops, new views, restarts in any order: each view is as in an engine that has it alone."""
    chosen = random.Random(seed)
    makes = [chosen.choice([*PIPELINES.values()]) for _ in range(2)]
    views = {
        f"{letter}{number}": (make, number)
        for letter, make in zip("xy", makes, strict=True)
        for number in (1, 2, 3)
    }
    there = chosen.sample([*views], 4)

    def opened(names: list[str], drop: tuple[str, ...] = ()) -> ec.Engine:
        engine = ec.Engine(checkpoint=ec.Checkpoint(tmp_path, drop=drop), workers=workers)
        source = source_of(engine)
        for name in names:
            make, number = views[name]
            engine.view(name, make(source, number))
        return engine

    engine = opened(there)
    for pushed in range(7):
        engine.push("rows", batch(pushed))
        step = chosen.choice(["drop", "restart", "restart without", "push"])
        if step == "drop" and len(there) > 1:
            engine.drop_view(there.pop(chosen.randrange(len(there))))
        elif step.startswith("restart"):
            drop: tuple[str, ...] = ()
            if step == "restart without" and len(there) > 1:
                drop = (there.pop(chosen.randrange(len(there))),)
            engine.close()
            chosen.shuffle(there)
            engine = opened(there, drop)
        for name in there:
            assert rows_of(engine, name) == undisturbed(*views[name]).rows[pushed + 1], (name, step)
    engine.close()
