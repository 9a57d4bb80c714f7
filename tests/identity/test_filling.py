"""An application is edited between two runs: what stays keeps its state, what is new is filled, as if it had always been there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
from eventtime.pipelines import COLUMNS, Setup, histories, setups
from evercurrent.core.data.errors import CheckpointError, InputError
from evercurrent.core.eventtime.watermarks.kinds import ByHand
from evercurrent.core.state.spine import Spine
from evercurrent.views.durability.backfill import fill
from evercurrent.views.durability.plan_match import check_plan, state_ids
from harness import frame_of_entries
from identity.editing import App, assert_same, edited, entries, matched, rows_of
from strategies import Case, cases, of_profile

ORDERS = {"k": pl.String, "v": pl.Int64}


def orders(app: App, **options: Any) -> Any:
    """The source of most of these tests."""
    return app.source("orders", ORDERS, **{"kind": "diffs", "retained": True, **options})


def first(app: App) -> None:
    """What is edited."""
    source = orders(app)
    totals = app.view("totals", source.group_by("k").agg(n=pl.len(), most=pl.col("v").max()))
    app.view("big", totals.filter(pl.col("n") > 1))


BEFORE = [
    {"orders": {"k": ["a", "b", "a", "c"], "v": [1, 2, 3, None]}},
    {"orders": {"k": ["a", "b"], "v": [3, 5], "_diff": [-1, 1]}},
]
AFTER = [
    {"orders": {"k": ["a", "b", "d"], "v": [7, 2, 1], "_diff": [1, -1, 1]}},
    {"orders": {"k": ["c"], "v": [None], "_diff": [-1]}},
]


def run(declare: Callable[[App], None], epochs: list[Any] = BEFORE) -> App:
    """An application that has taken these epochs."""
    app = App(declare).begin()
    for epoch in epochs:
        app.push(epoch)
    return app


def at_once(declare: Callable[[App], None], old: App, sources: tuple[str, ...] = ("orders",)) -> App:
    """A fresh application that is given in one epoch what an old one has retained."""
    app = App(declare).begin()
    app.push({name: old.compiled.retained[name].changes().frame for name in sources})
    return app


def check(
    declare: Callable[[App], None], drop: tuple[str, ...] = (), old: Callable[[App], None] = first
) -> App:
    """Edit, compare with a fresh application, go on with both and compare again."""
    before = run(old)
    new, _ = edited(before, declare, drop)
    fresh = at_once(declare, before)
    assert_same(new, fresh)
    for epoch in AFTER:
        assert new.push(epoch) == fresh.push(epoch)
    assert_same(new, fresh)
    return new


def test_an_unchanged_plan_is_unchanged() -> None:
    """Covers A150-like restarts: nothing is new, nothing is filled."""
    _, match = edited(run(first), first)
    assert match.is_same
    assert match.unchanged == state_ids(App(first).compiled).keys()
    check(first)


def test_a_view_is_added() -> None:
    def second(app: App) -> None:
        first(app)
        source = app.sources["orders"]
        app.view("least", source.group_by("k").agg(least=pl.col("v").min(), kinds=pl.col("v").n_unique()))
        app.view("rows", source)
        app.view("all", source.group_by().agg(n=pl.len()))

    check(second)


def test_a_view_of_a_grouping_that_is_there_needs_no_source() -> None:
    """What is kept already is read, so that sources need not retain their rows."""

    def old(app: App) -> None:
        source = orders(app, retained=False)
        app.view("big", source.group_by("k").agg(n=pl.len()).filter(pl.col("n") > 1))

    def new(app: App) -> None:
        old(app)
        totals = app.sources["orders"].group_by("k").agg(n=pl.len())
        app.view("totals", totals)
        app.view("histogram", totals.group_by("n").agg(keys=pl.len()))
        app.view("copy", totals.filter(pl.col("n") > 1).with_columns(m=pl.col("n") + 1))

    before = run(old)
    app, match = edited(before, new)
    fresh = App(new).begin()
    for epoch in BEFORE:
        fresh.push(epoch)
    assert_same(app, fresh)
    assert set(match.to_fill) == {"totals", "histogram", "copy"}
    for epoch in AFTER:
        assert app.push(epoch) == fresh.push(epoch)


def test_a_view_is_removed() -> None:
    def second(app: App) -> None:
        totals = orders(app).group_by("k").agg(n=pl.len(), most=pl.col("v").max())
        app.view("big", totals.filter(pl.col("n") > 1))

    with pytest.raises(CheckpointError, match=r"view 'totals' is no longer declared: .*drop=\('totals',\)"):
        matched(run(first), second)
    check(second, drop=("totals",))
    _, match = edited(run(first), second, ("totals",))
    assert match.gone_views == ("totals",)
    assert not match.gone, "the view that is left needs all of the state"


def test_state_that_nobody_needs_any_more_is_gone() -> None:
    def second(app: App) -> None:
        app.view("totals", orders(app).group_by("k").agg(n=pl.len(), most=pl.col("v").max()))

    before = run(first)
    _, match = edited(before, second, ("big",))
    kept = before.compiled.circuit.nodes[before.compiled.kept_at["big"]]
    assert match.gone == {f"{kept.identity}:0"}


def test_a_view_is_renamed_and_keeps_its_state() -> None:
    def second(app: App) -> None:
        totals = app.view("sums", orders(app).group_by("k").agg(n=pl.len(), most=pl.col("v").max()))
        app.view("large", totals.filter(pl.col("n") > 1))

    with pytest.raises(
        CheckpointError,
        match=r"'big' .*view 'large' computes the same now.*\n.*'totals' .*view 'sums' computes the same now",
    ):
        matched(run(first), second)
    _, match = edited(run(first), second, ("totals", "big"))
    assert not match.new
    assert not match.gone
    check(second, drop=("totals", "big"))


def test_a_view_with_a_trigger_may_be_renamed() -> None:
    """Its panes so far are its state: nothing has to be computed."""

    def declare(name: str) -> Callable[[App], None]:
        def declared(app: App) -> None:
            source = app.source("hits", {"t": pl.Datetime("us")}, event_time="t")
            app.view(name, source.window(ec.fixed("1m")).trigger(ec.each_row()).group_by().agg(n=pl.len()))

        return declared

    hits = [
        {"hits": {"t": [datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 2)]}},
        {"hits": {"t": [datetime(2024, 1, 1)]}},
    ]
    before = run(declare("one"), hits)
    new, match = edited(before, declare("two"), ("one",))
    assert not match.new
    assert new.emitted["two"] == before.emitted["one"] == dict.fromkeys(new.emitted["two"], 1)
    assert new.push(hits[0])["two"] == before.push(hits[0])["one"]


def test_an_expression_is_changed() -> None:
    def second(app: App) -> None:
        totals = app.view("totals", orders(app).group_by("k").agg(n=pl.len(), most=pl.col("v").max()))
        app.view("big", totals.filter(pl.col("n") > 0))

    message = r"view 'big' is declared in another way .*under another name, or as before, .*drop=\('big',\)"
    with pytest.raises(CheckpointError, match=message):
        matched(run(first), second)
    new, match = edited(run(first), second, ("big",))
    assert match.changed_views == ("big",)
    assert len(match.new) == len(match.gone) == 1
    assert new.emitted["big"] == new.emitted["totals"]
    check(second, drop=("big",))


def test_an_aggregate_is_added_to_a_grouping() -> None:
    def second(app: App) -> None:
        made = orders(app).group_by("k").agg(n=pl.len(), most=pl.col("v").max(), mean=pl.col("v").mean())
        totals = app.view("totals", made)
        app.view("big", totals.filter(pl.col("n") > 1))

    with pytest.raises(
        CheckpointError, match=r"'big' is declared in another way(.|\n)*'totals' is declared in another way"
    ):
        matched(run(first), second)
    check(second, drop=("totals", "big"))


def test_declarations_change_places() -> None:
    def second(app: App) -> None:
        other = app.source("more", {"x": pl.Float64}, kind="diffs", retained=True)
        app.view("xs", other.group_by("x").agg(n=pl.len()))
        source = orders(app)
        app.view("big", source.group_by("k").agg(n=pl.len(), most=pl.col("v").max()).filter(pl.col("n") > 1))
        app.view("totals", source.group_by("k").agg(n=pl.len(), most=pl.col("v").max()))

    new, match = edited(run(first), second)
    assert match.new_sources == ("more",)
    assert match.new_views == ("xs",)
    assert match.unchanged == state_ids(App(first).compiled).keys()
    check(second)
    assert new.push({"more": {"x": [1.0, 1.0]}})["xs"] == {(1.0, 2): 1}


def test_an_arrangement_that_is_shared_with_a_view_that_goes_is_kept() -> None:
    def old(app: App) -> None:
        source = orders(app)
        app.view("join", source.join(source.filter(pl.col("v") > 1), on="k"))
        app.view("left", source.join(source.filter(pl.col("v") > 1), on="k", how="left"))

    def new(app: App) -> None:
        source = orders(app)
        app.view("left", source.join(source.filter(pl.col("v") > 1), on="k", how="left"))
        app.view("semi", source.join(source.filter(pl.col("v") > 1), on="k", how="semi"))

    before = run(old)
    _, match = edited(before, new, ("join",))
    check(new, drop=("join",), old=old)
    kept = before.compiled.circuit.nodes[before.compiled.kept_at["join"]]
    assert match.gone == {f"{kept.identity}:0"}, "the arrangements are those of the other join"


TIMED = {"k": pl.String, "t": pl.Datetime("us")}


def windows(window: Any, **options: Any) -> Callable[[App], None]:
    def declared(app: App) -> None:
        source = app.source(
            "orders", TIMED, **{"kind": "diffs", "event_time": "t", "retained": True, **options}
        )
        panes = app.view("panes", source.window(window).group_by("k").agg(n=pl.len()))
        app.view("sizes", panes.group_by("n").agg(panes=pl.len()))

    return declared


@pytest.mark.parametrize(
    "window",
    [
        ec.sliding("2m", every="1m"),
        ec.sessions("90s"),
        ec.calendar("1d"),
        ec.count_window(2),
        ec.last_rows(2),
    ],
)
def test_a_window_is_changed(window: Any) -> None:
    hits = [
        {"orders": {"k": ["a", "b"], "t": [datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 2)]}},
        {"orders": {"k": ["a", "a"], "t": [datetime(2024, 1, 1, 0, 1), datetime(2023, 12, 31, 23, 59)]}},
    ]
    before = run(windows(ec.fixed("1m")), hits)
    with pytest.raises(CheckpointError, match=r"'panes' is declared in another way"):
        matched(before, windows(window))
    new, _ = edited(before, windows(window), ("panes", "sizes"))
    fresh = at_once(windows(window), before)
    assert_same(new, fresh)
    for epoch in hits:
        assert new.push(epoch) == fresh.push(epoch)
    assert_same(new, fresh)


def test_a_source_by_key_keeps_its_rows_anyway() -> None:
    def old(app: App) -> None:
        app.view("n", orders(app, kind="upsert", key="k", retained=False).group_by().agg(n=pl.len()))

    def new(app: App) -> None:
        old(app)
        app.view("rows", app.sources["orders"].filter(pl.col("v") > 1))

    before = run(old, [{"orders": {"k": ["a", "b"], "v": [1, 2]}}, {"orders": {"k": ["a"], "v": [3]}}])
    app, _ = edited(before, new)
    assert app.emitted["rows"] == {("a", 3): 1, ("b", 2): 1}
    assert app.push({"orders": {"k": ["b"], "_diff": [-1]}})["rows"] == {("b", 2): -1}
    assert app.compiled.retained["orders"].contents().sort("k").rows() == [("a", 3)]


def test_rows_of_a_source_by_key_that_went_to_the_ledger_are_not_filled_in() -> None:
    def old(app: App) -> None:
        columns = {"k": pl.String, "t": pl.Datetime("ms")}
        source = app.source(
            "hits", columns, kind="upsert", key="k", event_time="t", watermark=ec.bounded_delay("1m")
        )
        app.view("n", source.group_by().agg(n=pl.len()))

    def new(app: App) -> None:
        old(app)
        app.view("rows", app.sources["hits"].select("k"))

    far = pl.Series("t", [0, 2**62], pl.Int64).cast(pl.Datetime("ms"))
    before = run(old, [{"hits": pl.DataFrame({"k": ["a", "b"]}).with_columns(far)}])
    assert before.emitted["n"] == {(1,): 1}
    app, _ = edited(before, new)
    assert app.emitted["rows"] == {("a",): 1}


def test_rows_of_a_trusted_source_may_be_less_than_none() -> None:
    def old(app: App) -> None:
        app.view("n", orders(app, trusted=True).group_by().agg(n=pl.len()))

    def new(app: App) -> None:
        old(app)
        app.view("sums", app.sources["orders"].group_by("k").agg(n=pl.len(), s=pl.col("v").sum()))
        app.view("rows", app.sources["orders"])

    before = run(old, [{"orders": {"k": ["a", "b"], "v": [1, 2], "_diff": [-2, 3]}}])
    app, _ = edited(before, new)
    assert app.emitted["sums"] == {("a", -2, -2): 1, ("b", 3, 6): 1}
    assert app.emitted["rows"] == {("a", 1): -2, ("b", 2): 3}
    assert_same(app, at_once(new, before))


@of_profile(0.75)
@given(cases(), st.data())
def test_any_views_can_be_added_and_dropped(case: Case, data: st.DataObject) -> None:
    """Old and new are any views of a program; what is filled is what a fresh application makes of what was retained."""
    names = case.program.views
    before = data.draw(st.sets(st.sampled_from(names)))
    after = data.draw(st.lists(st.sampled_from(names), unique=True))

    def declare(chosen: Any) -> Callable[[App], None]:
        def declared(app: App) -> None:
            for name, columns in case.program.sources.items():
                app.source(name, columns, kind="diffs", trusted=case.trusted, retained=True)
            made = case.program.run(app.sources)
            for name in chosen:
                app.view(name, made[name])

        return declared

    sources = case.program.sources
    epochs = [
        {name: frame_of_entries(sources[name], epoch.get(name, [])) for name in sources}
        for epoch in case.epochs
    ]
    old = run(declare(sorted(before)), epochs[:-1])
    new, _ = edited(old, declare(after), names)
    fresh = at_once(declare(after), old, tuple(sources))
    assert_same(new, fresh)
    assert new.push(epochs[-1]) == fresh.push(epochs[-1])
    assert_same(new, fresh)


def over_time(setup: Setup) -> tuple[Callable[[App], None], Callable[[App], None]]:
    """A source that retains its rows, and the panes of a setup over it."""

    def old(app: App) -> None:
        kind = "append" if setup.appends else "diffs"
        delay = None if setup.delay is None else ec.bounded_delay(timedelta(seconds=setup.delay))
        app.source(
            "a",
            COLUMNS,
            kind=kind,
            event_time="at",
            watermark=delay or ByHand(),
            bounded=setup.is_global,
            retained=True,
        )

    def new(app: App) -> None:
        old(app)
        app.view("panes", setup.panes(app.sources["a"]))

    return old, new


def pushed(setup: Setup, epoch: Any) -> Any:
    """The rows of an epoch of a history, with times in place of seconds."""
    entries = [
        ((row[0], datetime(2024, 1, 1) + timedelta(seconds=row[1]), *row[2:]), diff)
        for row, diff in epoch.rows
    ]
    frame = frame_of_entries(COLUMNS, entries)
    return {"a": frame.drop("_diff") if setup.appends else frame}


@of_profile(0.3)
@given(st.data(), setups(trigger=None, always=False, mode="retracting", lateness=None, info=False))
def test_windows_are_filled_as_if_they_had_always_been_there(data: st.DataObject, setup: Setup) -> None:
    epochs = [pushed(setup, epoch) for epoch in data.draw(histories(appends=setup.appends))]
    old, new = over_time(setup)
    before = run(old, epochs[:-1])
    app, _ = edited(before, new)
    fresh = App(new).begin()
    retained = before.compiled.retained["a"]
    fresh.push({"a": retained.contents() if setup.appends else retained.changes().frame})
    assert_same(app, fresh)
    if (
        setup.delay is None
    ):  # With a delay, the watermark of the one is of all its epochs, that of the other of one.
        assert app.push(epochs[-1]) == fresh.push(epochs[-1])
        assert_same(app, fresh)


@of_profile(0.5)
@given(setups())
def test_windows_that_depend_on_when_rows_came_are_refused(setup: Setup) -> None:
    old, new = over_time(setup)
    app, match = matched(run(old, []), new)
    refines = setup.trigger in (None, "every_epoch()") and not setup.always and not setup.info
    if refines and setup.mode == "retracting" and setup.lateness is None:
        assert fill(app.plan, app.compiled, match, app.compiled.retained).keys() == {"panes"}
        return
    with pytest.raises(
        CheckpointError, match="view 'panes' cannot be filled: it depends on when rows arrived"
    ):
        fill(app.plan, app.compiled, match, app.compiled.retained)


# What is refused


def held(app: App) -> dict[str, Any]:
    """What the states hold."""
    states = state_ids(app.compiled)
    return {
        name: entries(state) if isinstance(state, Spine) else state.entries for name, state in states.items()
    }


def test_a_source_that_keeps_nothing_cannot_fill_a_view() -> None:
    def old(app: App) -> None:
        app.view("n", orders(app, retained=False).group_by().agg(n=pl.len()))

    def new(app: App) -> None:
        old(app)
        app.view("kinds", app.sources["orders"].group_by("k").agg(n=pl.len()))

    app, match = matched(run(old), new)
    before = held(app)
    message = r"view 'kinds' cannot be filled: source 'orders' does not retain its rows, .*retained=True"
    with pytest.raises(CheckpointError, match=message):
        fill(app.plan, app.compiled, match, app.compiled.retained)
    assert before == held(app)


def test_a_value_that_cannot_be_computed_changes_nothing() -> None:
    def old(app: App) -> None:
        app.view("n", orders(app).group_by().agg(n=pl.len()))

    def new(app: App) -> None:
        old(app)
        app.view("numbers", app.sources["orders"].with_columns(pl.col("k").cast(pl.Int64)))

    app, match = matched(run(old), new)
    before = held(app)
    with pytest.raises(InputError, match="nothing has changed"):
        fill(app.plan, app.compiled, match, app.compiled.retained)
    assert before == held(app)


TIMELY: dict[str, Callable[[Any], Any]] = {
    "lateness": lambda a: a.window(ec.fixed("1m")).lateness("1m").group_by("k").agg(n=pl.len()),
    "trigger": lambda a: a.window(ec.fixed("1m")).trigger(ec.each_row()).group_by("k").agg(n=pl.len()),
    "percentile": lambda a: (
        a.window(ec.fixed("1m"))
        .trigger(early=ec.after_percentile(0.9), late=ec.each_row())
        .group_by("k")
        .agg(n=pl.len())
    ),
    "mode": lambda a: a.window(ec.fixed("1m")).accumulate("accumulating").group_by("k").agg(n=pl.len()),
    "late rows": lambda a: a.window(ec.fixed("1m")).lateness("1m").late_rows(),
    "order": lambda a: a.order_by_time(),
    "strict": lambda a: a.with_event_time("t", strict=True),
    "dated by the watermark": lambda a: (
        a.window(ec.fixed("1m"), timestamp="watermark").group_by("k").agg(n=pl.len())
    ),
    "downstream": lambda a: (
        a.window(ec.fixed("1m"))
        .trigger(ec.each_row())
        .group_by("k")
        .agg(n=pl.len())
        .group_by("n")
        .agg(m=pl.len())
    ),
}


@pytest.mark.parametrize("name", TIMELY)
def test_what_depends_on_when_rows_came_cannot_be_filled(name: str) -> None:
    def old(app: App) -> None:
        app.view("rows", app.source("orders", TIMED, event_time="t", retained=True))

    def new(app: App) -> None:
        old(app)
        app.view("v", TIMELY[name](app.sources["orders"]))

    app, match = matched(run(old, []), new)
    with pytest.raises(CheckpointError, match=r"view 'v' cannot be filled: it depends on when rows arrived"):
        fill(app.plan, app.compiled, match, app.compiled.retained)


def test_a_view_on_a_new_source_begins_empty_whatever_it_is() -> None:
    """Nothing has come yet: so triggers and lateness are no hindrance."""

    def new(app: App) -> None:
        first(app)
        source = app.source("hits", {"t": pl.Datetime("us")}, event_time="t")
        panes = source.window(ec.fixed("1m")).trigger(ec.each_row()).lateness("0s").group_by().agg(n=pl.len())
        app.view("panes", panes)
        app.view("all", source.group_by().agg(n=pl.len()))

    app, _ = edited(run(first), new)
    assert app.emitted["panes"] == {}
    assert app.emitted["all"] == {(0,): 1}
    assert app.push({"hits": {"t": [datetime(2024, 1, 1)]}})["all"] == {(0,): -1, (1,): 1}


def test_a_windowed_view_that_reads_how_far_panes_are_complete() -> None:
    """New windows over the panes of a kept grouping are refused, as the completeness of its open windows was not kept; a plain grouping of them is filled."""

    def panes(app: App) -> Any:
        source = app.source("hits", {"t": pl.Datetime("us")}, event_time="t")
        triggered = source.window(ec.fixed("1m")).trigger(ec.each_row())
        return app.view("panes", triggered.group_by().agg(n=pl.len()))

    def plain(app: App) -> None:
        app.view("histogram", panes(app).group_by("n").agg(m=pl.len()))

    def windowed(app: App) -> None:
        app.view("hours", panes(app).window(ec.fixed("1h")).group_by().agg(m=pl.len()))

    hits = [{"hits": {"t": [datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 2)]}}]
    before = run(lambda app: panes(app), hits)
    app, _ = edited(before, plain)
    assert app.emitted["histogram"] == {(1, 2): 1}
    with pytest.raises(CheckpointError, match=r"views 'hours' have windows over the panes"):
        matched(before, windowed)


# Sources


def test_a_source_that_is_declared_otherwise_is_refused() -> None:
    def other(**options: Any) -> Callable[[App], None]:
        def declared(app: App) -> None:
            source = app.source(
                "orders",
                {**ORDERS, **options.pop("columns", {})},
                **{"kind": "diffs", "retained": True, **options},
            )
            totals = app.view("totals", source.group_by("k").agg(n=pl.len(), most=pl.col("v").max()))
            app.view("big", totals.filter(pl.col("n") > 1))

        return declared

    before = run(first)
    for options, change in [
        ({"columns": {"v": pl.Int32}}, "column 'v': Int32, was Int64"),
        ({"kind": "append"}, "kind='append', was 'diffs'"),
        ({"strict": True}, "strict=True, was False"),
    ]:
        message = f"source 'orders' is declared in another way .*{change}(.|\n)*view 'totals' .*as source 'orders' is"
        with pytest.raises(CheckpointError, match=message):
            matched(before, other(**options))
    _, match = edited(before, other(columns={"w": pl.Int32}))  # A column that is new is null for the past.
    assert match.evolution is not None
    assert match.to_fill == ()
    app, match = edited(before, other(columns={"v": pl.Int32}), ("orders", "totals", "big"))
    assert match.new_sources == match.gone_sources == ("orders",)
    assert app.emitted["totals"] == {}
    assert app.push({"orders": pl.DataFrame({"k": ["a"], "v": pl.Series([1], dtype=pl.Int32)})})[
        "totals"
    ] == {("a", 1, 1): 1}


def test_a_watermark_that_is_another_one_is_named() -> None:
    before = run(windows(ec.fixed("1m"), watermark=ec.bounded_delay("1m")), [])
    with pytest.raises(
        CheckpointError, match=r"source 'orders' is declared in another way .*another watermark="
    ):
        matched(before, windows(ec.fixed("1m"), watermark=ec.bounded_delay("2m")))
    other = windows(ec.fixed("1m"), watermark=ec.by_partition("k"))
    app, match = edited(before, other, ("orders", "panes", "sizes"))
    assert "clock:orders" in match.new & match.gone
    assert "clock:orders" not in match.unchanged
    app.push({"orders": {"k": ["a"], "t": [datetime(2024, 1, 1)]}})


def test_a_source_that_is_gone_is_named() -> None:
    def old(app: App) -> None:
        first(app)
        app.source("hits", {"t": pl.Datetime("us")}, event_time="t")

    before = run(old)
    with pytest.raises(CheckpointError, match=r"source 'hits' is no longer declared.*drop=\('hits',\)"):
        matched(before, first)
    _, match = edited(before, first, ("hits",))
    assert match.gone_sources == ("hits",)
    assert "clock:hits" in match.gone


def test_rows_are_retained_from_the_first_one_or_not_at_all() -> None:
    def kept(app: App) -> None:
        app.view("n", orders(app, retained=True).group_by().agg(n=pl.len()))

    def not_kept(app: App) -> None:
        app.view("n", orders(app, retained=False).group_by().agg(n=pl.len()))

    with pytest.raises(
        CheckpointError, match="'orders' is declared retained=True, but its earlier rows were not retained"
    ):
        matched(run(not_kept), kept)
    with pytest.raises(
        CheckpointError, match=r"'orders' was retained and no longer is: .*drop=\('orders',\)"
    ):
        matched(run(kept), not_kept)
    app, match = edited(run(kept), not_kept, ("orders",))
    assert len(match.gone) == 1
    assert not match.new
    assert app.contents("n").rows() == [(4,)]


def test_rows_that_a_view_keeps_may_be_retained_from_then_on() -> None:
    """They are the same state; and while a view keeps them, nothing is lost by retaining them no longer."""

    def declare(retained: bool) -> Callable[[App], None]:
        return lambda app: app.view("rows", orders(app, retained=retained))

    before = run(declare(False))
    app, match = edited(before, declare(True))
    assert match.is_same
    assert rows_of(app.compiled.retained["orders"].changes()) == before.emitted["rows"]
    _, match = edited(app, declare(False))
    assert match.is_same


def test_another_version_of_polars_may_be_the_reason() -> None:
    before = run(first)
    record = before.record()
    record["versions"]["polars"] = "1.0.0"
    new = App(first)
    assert check_plan(record, new.plan, new.compiled, ()).is_same
    record["views"]["big"]["identity"] = "0" * 32
    with pytest.raises(
        CheckpointError, match=r"written with polars 1\.0\.0 and Python .* may change how expressions"
    ):
        check_plan(record, new.plan, new.compiled, ())


def test_no_expression_and_no_code_is_recorded() -> None:
    def declare(app: App) -> None:
        source = orders(app)
        app.view(
            "v", source.filter(pl.col("v") > 123_456_789).map_batches(lambda frame: frame.head(987_654_321))
        )

    record = str(App(declare).record())
    assert "123456789" not in record
    assert "987654321" not in record


def test_functions_that_are_the_same_twice_have_states_of_their_own() -> None:
    def declare(app: App) -> None:
        source = orders(app)
        for name in ("one", "two"):
            app.view(name, source.map_batches(lambda frame: frame.filter(frame["v"] > 1)))

    check(declare, old=declare)
    ids = state_ids(App(declare).compiled)
    assert len(ids) == len({id(state) for state in ids.values()})


def test_functions_that_cannot_be_distinguished_are_refused() -> None:
    def filtering(lock: Any) -> Any:
        return lambda frame: frame if lock else frame.clear()

    def declare(app: App) -> None:
        source = orders(app)
        for name in ("one", "two"):
            app.view(name, source.map_batches(filtering(threading.Lock())))

    with pytest.raises(
        CheckpointError, match=r"view 'two' and view 'one' .*give their functions different names"
    ):
        App(declare).record()


def test_one_name_in_drop_is_a_name() -> None:
    def second(app: App) -> None:
        orders(app)

    with pytest.raises(CheckpointError, match="view 'big' is no longer declared"):
        matched(run(first), second, "totals, big")


def test_what_is_published_is_the_sum_of_what_would_have_been_emitted() -> None:
    before = run(first)
    app, match = edited(before, first)
    assert fill(app.plan, app.compiled, match, app.compiled.retained) == {}
    fresh = App(first).begin()
    for epoch in BEFORE:
        fresh.push(epoch)
    assert app.emitted == fresh.emitted == before.emitted
    assert rows_of(app.compiled.retained["orders"].changes()) == rows_of(
        fresh.compiled.retained["orders"].changes()
    )
