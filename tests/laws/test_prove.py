"""A proof is true of every view, and finds every row that was changed behind the engine's back."""

from __future__ import annotations

import warnings
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
from evercurrent.core.data.schema import DIFF
from evercurrent.views.compiler.retained import RetainedRows
from retained_case import engine_after
from strategies import Case, cases, of_profile

SALES = {"shop": pl.String, "price": pl.Int64, "rate": pl.Float64}
ROWS = {
    "shop": ["north", "south", "north", None],
    "price": [3, 4, 5, None],
    "rate": [0.1, 0.2, 0.3, float("nan")],
}


@of_profile(0.6, quick=60)
@given(case=cases(trusted=False))
def test_random_views_are_proved(case: Case) -> None:
    engine = engine_after(case)
    proofs = engine.prove()
    assert proofs, proofs
    for reason in proofs.refused.values():
        assert "counts below zero" in reason, reason


def started(**options: Any) -> ec.Engine:
    engine = ec.Engine(**options)
    sales = engine.source("sales", SALES, kind="diffs", retained=True)
    per_shop = engine.view(
        "per_shop",
        sales.group_by("shop").agg(n=pl.len(), total=pl.col("price").sum(), rate=pl.col("rate").mean()),
    )
    engine.view("sizes", per_shop.group_by("n").agg(shops=pl.len()))
    engine.view("best", sales.top_k(2, by="price"))
    engine.view("paired", sales.join(per_shop, on="shop", how="left"))
    engine.view("distinct", sales.select("shop").unique())
    engine.view("same", sales.rename({}))
    engine.push("sales", ROWS)
    engine.push("sales", {name: [values[1]] for name, values in ROWS.items()} | {"_diff": [-1]})
    return engine


@pytest.mark.parametrize("durable", [False, True])
def test_a_proof_names_what_it_is_of(durable: bool, tmp_path: Any) -> None:
    with started(checkpoint=tmp_path if durable else None) as engine:
        found = engine.views["sizes"].prove()
        assert found
        assert (found.view, found.epoch, found.rows, found.over) == ("sizes", 2, 2, ("source 'sales'",))
        assert repr(found) == "view 'sizes' at epoch 2: 2 rows evaluated over source 'sales': equal"
        proofs = engine.prove()
        assert proofs
        assert list(proofs) == list(engine.views)
        assert not proofs.refused
        assert engine.fork().fork().prove()


def test_a_proof_finds_each_planted_fault() -> None:
    """One number of one entry is another one: a count of rows, in any run of a state that a view shows."""
    engine = started()
    compiled = engine._current()
    planted = 0
    for name in ("per_shop", "sizes", "best", "paired"):
        spine = compiled.contents[name].spine
        version, kept = spine.version, spine.runs
        for at, run in enumerate(kept):
            for column in {DIFF, "length"} & set(run.sums):
                for entry in range(len(run)):
                    sums = {each: values.copy() for each, values in run.sums.items()}
                    sums[column][entry] += 1
                    runs = (*kept[:at], replace(run, sums=sums), *kept[at + 1 :])
                    spine.version = version.with_parts(runs, ())
                    found = engine.views[name].prove()
                    spine.version = version
                    assert not found, (name, column, entry)
                    assert found.differences.height
                    planted += 1
    assert planted == 14  # An entry and its retraction wait together, and are sorted into none.
    assert engine.prove()


def test_views_stand_in_for_sources_that_keep_nothing() -> None:
    engine = ec.Engine()
    sales = engine.source("sales", SALES)
    per_shop = engine.view("per_shop", sales.group_by("shop").agg(n=pl.len()))
    sizes = engine.view("sizes", per_shop.group_by("n").agg(shops=pl.len()))
    engine.push("sales", ROWS)
    assert sizes.prove()
    assert sizes.prove().over == ("view 'per_shop'",)
    with pytest.raises(
        ec.InputError, match=r"'per_shop' cannot be proved: source 'sales' does not retain.*retained=True"
    ):
        per_shop.prove()
    proofs = engine.prove()
    assert list(proofs) == ["sizes"]
    assert list(proofs.refused) == ["per_shop"]


def test_what_is_not_evaluated_is_refused_by_name() -> None:
    engine = ec.Engine()
    hits = engine.source("hits", {"at": pl.Datetime("us"), "n": pl.Int64}, event_time="at", retained=True)
    windows = engine.view("windows", hits.window(ec.count_window(2)).group_by().agg(n=pl.len()))
    panes = hits.window(ec.fixed("1m")).accumulate("discarding").group_by().agg(n=pl.len())
    discarded = engine.view("discarded", panes)
    own = ec.aggregate(
        create=lambda: 0, add=lambda total, values: total + values.sum(), merge=lambda one, other: one + other,
        extract=lambda total: total, dtype=pl.Int64,
    )  # fmt: skip
    custom = engine.view("custom", hits.group_by().agg(n=own(pl.col("n"))))
    firsts = engine.view("firsts", hits.group_by().agg(first=pl.col("n").first(), last=pl.col("n").last()))
    negative = engine.view("negative", hits.negate().group_by("n").agg(k=pl.len()))
    engine.push("hits", pl.DataFrame({"at": [3, 1, 2], "n": [30, 10, 20]}).cast({"at": pl.Datetime("us")}))
    assert firsts.prove()
    for view, reason in (
        (windows, "windows of Count"),
        (discarded, "a log of when they were emitted"),
        (custom, "aggregate of your own"),
        (negative, "counts below zero"),
    ):
        with pytest.raises(ec.InputError, match=f"view '{view.name}' cannot be proved: .*{reason}"):
            view.prove()


def test_floats_that_polars_adds_up_in_another_order_are_equal() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64, "x": pl.Float64}, retained=True)
    view = engine.view("sums", rows.group_by("k").agg(s=pl.col("x").sum(), m=pl.col("x").std()))
    random = np.random.default_rng(7)
    for _ in range(5):
        engine.push("rows", {"k": random.integers(0, 5, 1_000), "x": random.normal(size=1_000) * 1e6})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert view.prove()


VALUES = {
    "that cancel": (1e17, -1e17, 1.0, 0.1),
    "that cancel but little": (1e9, -1e9, 1e-9, 0.1),
    "far from zero": (1e12 + 0.1, 1e12 + 0.2, 1e12 - 0.3, 1e12),
    "beyond the greatest": (1.7e308, -1.7e308, 1.6e308, 1.0),
    "that are no numbers": (float("inf"), 1.0, float("nan"), None),
}


@pytest.mark.parametrize("values", VALUES)
def test_aggregates_of_floats_are_proved(values: str) -> None:
    engine = ec.Engine()
    rows = engine.source(
        "rows", {"k": pl.Int64, "x": pl.Float64, "y": pl.Float64}, kind="diffs", retained=True
    )
    x, y = pl.col("x"), pl.col("y")
    aggs = {
        "sum": x.sum(), "mean": x.mean(), "sum_of_some": x.filter(y > 0).sum(), "product": (x * y).sum(),
        "difference": x.sum() - y.sum(), "nothing": x.mean() * x.count() - x.sum(), "turned": -(x.sum() + 1).abs(),
        "narrow": x.cast(pl.Float32).sum(), "over": x.sum() / y.sum(), "when": pl.when(y > 0).then(x).otherwise(0.5).sum(),
    }  # fmt: skip
    if values != "beyond the greatest":
        aggs |= {
            "var": x.var(),
            "std": x.std(ddof=0),
            "of_integers": (y * 1000).cast(pl.Int64, strict=False).var(),
        }
    engine.view("by_key", rows.group_by("k").agg(**aggs))
    engine.view("all", rows.group_by().agg(pl.col("x", "y").sum()))
    engine.view("sums", rows.group_by("k").sum())
    random = np.random.default_rng(3)
    for _ in range(4):
        frame = pl.DataFrame({"k": random.integers(0, 3, 40)}).with_columns(
            pl.Series(name, [VALUES[values][at] for at in random.integers(0, 4, 40)], pl.Float64)
            for name in ("x", "y")
        )
        engine.push("rows", frame)
    engine.push("rows", frame.head(20).with_columns(pl.lit(-1, pl.Int64).alias(DIFF)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        proofs = engine.prove()
    assert proofs, proofs
    assert len(proofs) == 3


def test_a_fault_in_a_sum_of_values_that_cancel_is_found() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"x": pl.Float64}, retained=True)
    view = engine.view("sums", rows.group_by().agg(s=pl.col("x").sum()))
    rows.push({"x": [1e17, -1e17, 0.1]})
    spine = engine._current().contents["sums"].spine
    (run,) = spine.runs
    for limb in range(-1, 3):  # One at the 2^(32 * limb); at -2 it is less than the last bit of 0.1.
        name = f"sum:__p0[{limb}]"
        changed = replace(run, sums={**run.sums, name: run.sums[name] + 1})
        version, spine.version = spine.version, spine.version.with_parts((changed,), ())
        assert not view.prove(), name
        spine.version = version
    assert view.prove()


def test_rows_turned_and_firsts_of_their_columns_are_proved() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.String, "a": pl.Int64, "b": pl.Int32}, retained=True)
    engine.view("turned", rows.unpivot(["a", "b"], index="k"))
    engine.view("all turned", rows.unpivot(index="k", variable_name="name"))
    engine.view("any", rows.unique("k"))
    engine.view("last", rows.unique("k", keep="last", by="a"))
    engine.view("first", rows.unique(["k", "a"], keep="first", by="b"))
    engine.push("rows", {"k": ["p", "q", "p", None], "a": [1, 2, 3, None], "b": [4, None, 6, 7]})
    engine.push("rows", {"k": ["p", "q"], "a": [3, 2], "b": [1, 2]})
    proofs = engine.prove()
    assert list(proofs) == list(engine.views)
    assert proofs


KINDS = {
    "fixed": ec.fixed("10s", offset="3s"),
    "sliding": ec.sliding("10s", every="4s"),
    "sessions": ec.sessions("5s"),
    "days": ec.calendar("1d"),
}
HITS = {"k": pl.String, "n": pl.Int64, "at": pl.Datetime("us")}
START = datetime(2026, 1, 1)
entries = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 3), st.integers(0, 90)), max_size=8
)


def windowed(kind: str) -> ec.Engine:
    engine = ec.Engine(record=True)
    hits = engine.source("hits", HITS, event_time="at", watermark=ec.bounded_delay("10s"), retained=True)
    rows = hits.filter(pl.col("n") > 0).window(KINDS[kind])
    refined = engine.view("refined", rows.group_by("k").agg(n=pl.len(), most=pl.col("n").max()))
    engine.view("sizes", refined.group_by("n").agg(windows=pl.len()))
    engine.view("again", refined.window(ec.fixed("1m")).group_by().agg(total=pl.col("n").sum()))
    engine.view("of all", rows.group_by().agg(n=pl.len()))
    engine.view("by end", rows.group_by("window_end", key="k").agg(n=pl.len()))
    length = pl.col("window_end") - pl.col("window_start")
    engine.view("lengths", rows.group_by(length=length).agg(n=pl.len()))
    engine.view("ends", refined.window(ec.global_window()).group_by("window_end").agg(n=pl.len()))
    engine.view("twice", rows.concat(rows.filter(pl.col("n") > 1)).group_by("k").agg(n=pl.len()))
    others = hits.select("k", m="n").unique()
    joined = hits.join(others, on="k", how="left").window(KINDS[kind])
    engine.view("joined", joined.group_by("k").agg(n=pl.len(), most=pl.col("m").max()))
    engine.view("joined after", rows.join(others, on="k").group_by("k").agg(most=pl.col("m").max()))
    waiting = rows.trigger(ec.after_watermark(late=ec.each_row()))
    engine.view("final", waiting.lateness("5s").group_by("k").agg(n=pl.len()))
    engine.view("last", waiting.accumulate("accumulating").group_by("k").agg(n=pl.len()).latest())
    return engine


@of_profile(0.4, quick=20)
@given(kind=st.sampled_from(sorted(KINDS)), epochs=st.lists(entries, min_size=1, max_size=4))
def test_windows_are_proved(kind: str, epochs: list[Any]) -> None:
    """Panes that wait and windows of late rows are named, and all others are compared."""
    engine = windowed(kind)
    for rows in epochs:
        frame = [(k, n, START + timedelta(seconds=second)) for k, n, second in rows]
        engine.push("hits", pl.DataFrame(frame, HITS, orient="row"), at="2026-01-01T12:00:00Z")
        proofs = engine.prove()
        assert proofs, proofs
        for name, reason in proofs.refused.items():
            assert name == "last", proofs
            assert "no view" in reason, proofs
    engine.advance("hits", ec.END_OF_TIME, at="2026-01-01T12:00:00Z")
    proofs = engine.prove()
    assert proofs, proofs
    assert set(proofs) == set(engine.views)
    waiting = [proof.unproved.get("they wait for their trigger") for proof in proofs.values()]
    assert not any(windows is not None and windows.height for windows in waiting)


def test_windows_of_rows_that_are_selected_or_mapped_are_proved() -> None:
    engine = ec.Engine()
    columns = {"who": pl.String, "n": pl.Int64, "at": pl.Datetime("us")}
    rows = engine.source("rows", columns, event_time="at", retained=True).window(ec.sessions("5m"))
    engine.view("selected", rows.select("who", twice=pl.col("n") * 2))
    engine.view("first", rows.select("who", "n").group_by("who").agg(pl.col("n").first()))
    mapped = rows.map_batches(lambda frame: frame.with_columns(n=pl.col("n") + 1))
    engine.view("mapped", mapped.group_by("who").agg(pl.col("n").sum()))
    minutes = [datetime(2026, 1, 1, 12, minute) for minute in (1, 4, 30)]
    engine.push("rows", {"who": ["ada"] * 3, "n": [2, 1, 3], "at": minutes})
    proofs = engine.prove()
    assert proofs, proofs
    assert list(proofs) == ["selected", "first", "mapped"], proofs.refused
    assert sorted(engine.views["first"].read()["n"]) == [2, 3]
    assert sorted(engine.views["mapped"].read()["n"]) == [4, 5]


def test_windows_that_cannot_be_proved_are_named() -> None:
    engine = windowed("fixed")
    at = "2026-01-01T12:00:00Z"
    for second, key in ((5, "a"), (60, "a"), (6, "b")):
        rows = {"k": [key], "n": [1], "at": [START + timedelta(seconds=second)]}
        engine.push("hits", rows, at=at)
    found = engine.views["final"].prove()
    assert found
    assert {reason: windows.rows() for reason, windows in found.unproved.items()} == {
        "they wait for their trigger": [("a", START + timedelta(seconds=53), START + timedelta(seconds=63))],
        "rows came too late for them": [("b", START + timedelta(seconds=3), START + timedelta(seconds=13))],
    }
    assert "not proved, as rows came too late for them: window k b" in repr(found)


@pytest.mark.parametrize("seed", range(4))
def test_a_proof_finds_each_of_fifty_rows_that_were_changed_in_a_run(seed: int) -> None:
    """Another number, or another value in a row: in any run of a state from which a view is read."""
    random = np.random.default_rng(seed)
    engine = planted_in()
    compiled, planted = engine._current(), 0
    assert engine.prove()
    while planted < 50:
        name = str(random.choice(list(engine.views)))
        spine = compiled.contents[name].spine
        runs = spine.runs
        at = int(random.integers(len(runs)))
        run, version = runs[at], spine.version
        entry = int(random.integers(len(run)))
        numbers = [column for column in run.payload.columns if run.payload.schema[column].is_integer()]
        if random.random() < 0.5 and numbers and run.rows is None and not compiled.contents[name].key_types:
            continue
        if random.random() < 0.5 and numbers:
            column = str(random.choice(numbers))
            values = run.payload.get_column(column).to_list()
            values[entry] = (values[entry] or 0) + int(random.integers(1, 5))
            changed = replace(run, payload=run.payload.with_columns(pl.Series(column, values, pl.Int64)))
        else:
            column = str(random.choice(sorted(run.sums)))
            sums = {each: kept.copy() for each, kept in run.sums.items()}
            sums[column][entry] += int(random.integers(1, 5))
            changed = replace(run, sums=sums)
        spine.version = version.with_parts((*runs[:at], changed, *runs[at + 1 :]), ())
        found = engine.views[name].prove()
        spine.version = version
        assert not found, (name, column, entry)
        assert found.differences.height
        planted += 1
    assert engine.prove()


def planted_in() -> ec.Engine:
    engine = ec.Engine()
    columns = {"shop": pl.String, "item": pl.Int64, "price": pl.Int64}
    sales = engine.source("sales", columns, kind="diffs", retained=True)
    items = engine.source("items", {"item": pl.Int64, "weight": pl.Int64}, kind="upsert", key="item")
    totals = engine.view("totals", sales.group_by("shop").agg(n=pl.len(), total=pl.col("price").sum()))
    engine.view("sizes", totals.group_by("n").agg(shops=pl.len(), total=pl.col("total").sum()))
    engine.view("weighed", sales.join(items, on="item", how="left"))
    engine.view("shops", sales.select("shop").unique())
    engine.view("dear", sales.filter(pl.col("price") > 5))
    random = np.random.default_rng(1)
    engine.push("items", {"item": range(6), "weight": range(10, 16)})
    for _ in range(4):
        shops = [f"s{number}" for number in random.integers(0, 9, 30)]
        rows = {"shop": shops, "item": random.integers(0, 8, 30), "price": random.integers(0, 20, 30)}
        engine.push("sales", rows)
    return engine


def test_a_proof_names_the_epoch_from_which_on_rows_differ() -> None:
    engine = ec.Engine(record=True)
    sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64}, retained=True)
    totals = engine.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum()))
    engine.push("sales", {"shop": ["north", "south", "west"], "price": [1, 2, 3]})
    engine.push("sales", {"shop": ["north"], "price": [4]})
    spine = engine._current().contents["totals"].spine
    runs = spine.runs
    name = next(each for each in runs[0].sums if each != "length")
    sums = {**runs[0].sums, name: runs[0].sums[name] + 100}
    spine.version = spine.version.with_parts((replace(runs[0], sums=sums), *runs[1:]), ())
    engine.push("sales", {"shop": ["south"], "price": [5]})
    engine.push("sales", {"shop": ["north"], "price": [6]})
    found = totals.prove()
    assert not found
    first = {row[0]: row[3] for row in found.differences.filter(pl.col("_diff") > 0).rows()}
    assert first == {"south": 3, "north": 4, "west": 4}
    assert found.since == 3
    assert "6 rows differ, from epoch 3 on" in repr(found)
    assert "the state has changed since without an epoch" in repr(found)


def test_a_proof_goes_by_the_commits_of_a_checkpoint(tmp_path: Any) -> None:
    with ec.Engine(checkpoint=ec.Checkpoint(tmp_path, every=1, keep=10)) as engine:
        sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64}, retained=True)
        totals = engine.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum()))
        for price in (1, 2):
            engine.push("sales", {"shop": ["north"], "price": [price]})
            engine.checkpoint()
        spine = engine._current().contents["totals"].spine
        runs = spine.runs
        sums = {name: column + 7 for name, column in runs[-1].sums.items() if name != "length"}
        changed = replace(runs[-1], sums={**runs[-1].sums, **sums})
        spine.version = spine.version.with_parts((*runs[:-1], changed), ())
        for price in (3, 4):
            engine.push("sales", {"shop": ["north"], "price": [price]})
            engine.checkpoint()
        found = totals.prove()
        assert not found
        assert found.since == 3
        assert "compared at the commits of epochs" in repr(found)
        other = ec.Engine()
        sales = other.source("sales", {"shop": pl.String, "price": pl.Int64}, retained=True)
        other.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum()))
        assert other.prove(checkpoint=tmp_path)["totals"].since == 3


def test_where_earlier_epochs_are_not_kept_a_proof_names_what_would_keep_them() -> None:
    engine = ec.Engine()
    sales = engine.source("sales", {"shop": pl.String}, retained=True)
    shops = engine.view("shops", sales.group_by("shop").len())
    engine.push("sales", {"shop": ["north"]})
    spine = engine._current().contents["shops"].spine
    (run,) = spine.runs
    spine.version = spine.version.with_parts((replace(run, sums={"length": run.sums["length"] + 1}),), ())
    found = shops.prove()
    assert not found
    assert found.since is None
    assert "'sales' are not kept by epoch; make the engine with Engine(record=True)" in repr(found)


@of_profile(0.3, quick=20)
@given(case=cases(trusted=False), share=st.sampled_from([0.1, 0.5, 1.0]))
def test_samples_of_random_views_are_proved(case: Case, share: float) -> None:
    engine = engine_after(case)
    proofs = engine.prove(sample=share)
    assert proofs, proofs


def test_a_sample_takes_its_share_of_the_keys() -> None:
    engine = ec.Engine()
    sales = engine.source("sales", {"shop": pl.Int64, "price": pl.Int64}, retained=True)
    totals = engine.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum()))
    engine.push("sales", {"shop": range(5_000), "price": range(5_000)})
    found = totals.prove(sample=0.1)
    assert found
    assert 400 < found.rows < 600
    assert totals.prove(sample=0.1).rows == found.rows
    for wrong in (0, 2, -0.1, "all", True):
        with pytest.raises(ec.InputError, match="give a share of the keys"):
            totals.prove(sample=wrong)  # type: ignore[arg-type]
    with pytest.raises(ec.PlanError, match="before the first epoch"):
        engine.retain_rows()


def test_a_sample_without_any_key_reports_that_nothing_is_compared() -> None:
    engine = ec.Engine()
    sales = engine.source("sales", {"shop": pl.Int64, "price": pl.Int64}, retained=True)
    totals = engine.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum()))
    nothing = "no key of the view is in the sample"
    assert nothing not in repr(totals.prove(sample=1e-300))
    engine.push("sales", {"shop": range(1, 51), "price": range(50)})
    assert nothing in repr(totals.prove(sample=1e-300))
    assert nothing not in repr(totals.prove(sample=1.0))


def test_a_sample_sorts_no_more_rows_than_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ec.Engine(record=True)
    sales = engine.source("sales", {"shop": pl.Int64, "price": pl.Int64}, kind="diffs", retained=True)
    totals = engine.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum()))
    for start in range(0, 4_000, 500):
        engine.push("sales", {"shop": [at % 999 for at in range(start, start + 500)], "price": range(500)})
    engine.push("sales", {"shop": [3, 4], "price": [3, 4], "_diff": [-1, -1]})
    whole = totals.prove(sample=0.1)

    def refused(*_: object) -> None:
        raise AssertionError("all rows are sorted")

    monkeypatch.setattr(RetainedRows, "changes", refused)
    found = totals.prove(sample=0.1)
    assert (found.rows, bool(found)) == (whole.rows, True)


def test_a_sample_of_floats_that_only_rounding_changes_is_proved() -> None:
    engine = ec.Engine()
    sales = engine.source("sales", {"shop": pl.Int64, "price": pl.Float64}, retained=True)
    total = engine.view("total", sales.select(total=pl.col("price")).group_by().agg(pl.col("total").sum()))
    engine.push("sales", {"shop": range(500), "price": [0.1 * at for at in range(500)]})
    engine.push("sales", {"shop": range(500), "price": [1e9 / (at + 1) for at in range(500)]})
    for share in (0.1, 0.5, 1.0):
        assert total.prove(sample=share)


@pytest.mark.parametrize("dtype", [pl.Struct({"a": pl.Int64}), pl.List(pl.Int64)])
def test_rows_that_only_hashes_order_are_proved_unless_a_limit_divides_them(dtype: Any) -> None:
    engine = ec.Engine()
    rows = engine.source("s", {"k": pl.Int64, "x": dtype}, retained=True)
    first = engine.view("first", rows.top_k(1, by="k"))
    all_tied = engine.view("all tied", rows.group_by("k").top_k(6, by="k"))
    values = [{"a": number} if isinstance(dtype, pl.Struct) else [number] for number in range(6)]
    engine.push("s", pl.DataFrame({"k": [1] * 6, "x": values}, {"k": pl.Int64, "x": dtype}))
    assert all_tied.prove()
    with pytest.raises(
        ec.InputError, match=r"'first' cannot be proved: .*differ only in lists or structs tie.*by="
    ):
        first.prove()
    engine.push("s", pl.DataFrame({"k": [2], "x": values[:1]}, {"k": pl.Int64, "x": dtype}))
    assert first.prove()
