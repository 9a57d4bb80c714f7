"""Capabilities that the seeds describe, by their ids in the feature list (section A), as far as they need no windows."""

import random
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from harness import contents, summed
from oracle import Bag

HITS = {"ip": pl.String, "path": pl.String, "bytes": pl.Int64}


def hits(count: int, seed: int = 1) -> pl.DataFrame:
    draw = random.Random(seed)
    rows = [(f"10.0.0.{draw.randrange(5)}", draw.choice("abcd"), draw.randrange(100)) for _ in range(count)]
    return pl.DataFrame(rows, schema=HITS, orient="row")


def retracted(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(_diff=pl.lit(-1))


def visits(source: Any) -> Any:
    """A chain: pages and bytes by address, then addresses by number of pages."""
    by_ip = (
        source.filter(pl.col("path") != "d").group_by("ip").agg(pages=pl.len(), bytes=pl.col("bytes").sum())
    )
    return by_ip.group_by("pages").agg(visits=pl.len(), bytes=pl.col("bytes").mean())


def test_a001_what_is_computed_is_swapped_without_touching_the_rest() -> None:
    def explained(*aggs: pl.Expr) -> list[str]:
        engine = ec.Engine()
        source = engine.source("hits", HITS)
        engine.view("v", source.filter(pl.col("path") == "a").group_by("ip").agg(*aggs))
        return [
            line.rpartition("  ")[0] or line for line in engine.explain().splitlines()
        ]  # Without seconds.

    one = explained(pl.len().alias("what"))
    other = explained(pl.col("bytes").max().alias("what"))
    assert len(one) == len(other)
    kept = [line for line in one if line in other]
    assert kept != one
    assert any("hits" in line for line in kept)
    assert any("path" in line for line in kept)


@pytest.mark.parametrize("size", [1, 7, 1000], ids=["a row at a time", "micro-batches", "one batch"])
def test_a002_the_same_definition_runs_over_any_batches(size: int) -> None:
    rows = hits(300)
    engine = ec.Engine()
    view = engine.view("depth", visits(engine.source("hits", HITS)))
    for at in range(0, rows.height, size):
        engine.push("hits", rows[at : at + size])
    assert contents(view) == visits(Bag.of(rows))


def test_a005_a_deletion_after_the_result_was_given_corrects_it() -> None:
    engine = ec.Engine()
    view = engine.view(
        "v", engine.source("hits", HITS, kind="diffs").group_by("ip").agg(pl.col("bytes").sum())
    )
    row = pl.DataFrame({"ip": ["x"], "path": ["a"], "bytes": [5]})
    engine.push("hits", pl.concat([row, row.with_columns(bytes=pl.lit(7, pl.Int64))]))
    assert view.read().rows() == [("x", 12)]
    epoch = engine.push("hits", retracted(row))
    assert summed(view.deltas(since=epoch - 1)) == {("x", 12): -1, ("x", 7): 1}
    engine.push("hits", retracted(row.with_columns(bytes=pl.lit(7, pl.Int64))))
    assert view.read().is_empty()


def prefixes(source: Any) -> Any:
    """Zero to n rows per row: every prefix of the key."""
    every = pl.concat_list([pl.col("key").str.head(length) for length in range(1, 4)])
    return source.with_columns(key=every).explode("key")


FIX_FIT = pl.DataFrame({"key": ["fix", "fit"], "value": [1, 2]})


@pytest.mark.parametrize("user_function", [False, True])
def test_a008_every_row_gives_zero_to_n_rows(user_function: bool) -> None:
    engine = ec.Engine()
    source = engine.source("pairs", FIX_FIT.schema)
    view = engine.view(
        "v", source.map_batches(prefixes, schema=FIX_FIT.schema) if user_function else prefixes(source)
    )
    engine.push("pairs", FIX_FIT)
    rows = [("f", 1), ("fi", 1), ("fix", 1), ("f", 2), ("fi", 2), ("fit", 2)]
    assert sorted(view.read().rows()) == sorted(rows)


def test_a009_grouping_by_key_collects_the_values() -> None:
    engine = ec.Engine()
    view = engine.view(
        "v", prefixes(engine.source("pairs", FIX_FIT.schema)).group_by("key").agg(pl.col("value").implode())
    )
    for row in FIX_FIT.iter_slices(1):
        engine.push("pairs", row)
    assert sorted(view.read().rows()) == [("f", [1, 2]), ("fi", [1, 2]), ("fit", [2]), ("fix", [1])]


def test_a011_without_windows_a_grouping_is_the_batch_grouping_over_all_time() -> None:
    aggs = [pl.len(), pl.col("bytes").sum().alias("sum"), pl.col("bytes").max().alias("max")]
    engine = ec.Engine()
    view = engine.view("v", engine.source("hits", HITS).group_by("ip", "path").agg(*aggs))
    rows = hits(200)
    for batch in rows.iter_slices(37):
        engine.push("hits", batch)
    keys = ["ip", "path"]
    assert view.read().sort(keys).equals(rows.group_by(keys).agg(*aggs).sort(keys))


def test_a017_combining_in_parts_first_changes_nothing() -> None:
    engine = ec.Engine()
    source = engine.source("hits", HITS, kind="diffs")
    sums = {"n": pl.len(), "s": pl.col("bytes").sum(), "m": pl.col("bytes").max()}
    whole = engine.view("whole", source.group_by("ip").agg(**sums))
    parts = source.group_by("ip", "path").agg(**sums)
    total = {"n": pl.col("n").sum(), "s": pl.col("s").sum(), "m": pl.col("m").max()}
    lifted = engine.view("lifted", parts.group_by("ip").agg(**total))
    rows = hits(100)
    for batch in [rows, retracted(rows.head(60)), hits(30, seed=2), retracted(rows.tail(40))]:
        engine.push("hits", batch)
        assert contents(lifted) == contents(whole)
    assert whole.read().height > 1


def summing(**more: Callable[..., Any]) -> Any:
    """A user's sum, with how often it was called to add."""
    return ec.aggregate(
        create=lambda: 0,
        add=lambda state, values: state + values.sum(),
        merge=lambda one, other: one + other,
        extract=lambda state: state,
        dtype=pl.Int64,
        **more,
    )


def test_a018_an_invertible_aggregate_subtracts_and_any_other_is_recomputed() -> None:
    removed: list[int] = []

    def remove(state: int, values: pl.Series) -> int:
        removed.append(len(values))
        return state - int(values.sum())

    aggs = {
        "sum": pl.col("bytes").sum(),
        "inverse": summing(remove=remove)(pl.col("bytes")),
        "recomputed": summing()(pl.col("bytes")),
        "min": pl.col("bytes").min(),
    }
    engine = ec.Engine()
    view = engine.view("v", engine.source("hits", HITS, kind="diffs").group_by("path").agg(**aggs))
    rows = hits(50)
    engine.push("hits", rows)
    engine.push("hits", retracted(rows.head(30)))
    left = rows.tail(20)
    expected = left.group_by("path").agg(
        sum=pl.col("bytes").sum(),
        inverse=pl.col("bytes").sum(),
        recomputed=pl.col("bytes").sum(),
        min=pl.col("bytes").min(),
    )
    assert view.read().sort("path").equals(expected.sort("path"))
    assert sum(removed) == 30


def slope(x: str, y: str) -> pl.Expr:
    """The slope of the least squares line: a model out of sums."""
    n, xs, ys = pl.len().cast(pl.Int64), pl.col(x).sum(), pl.col(y).sum()
    products, squares = (pl.col(x) * pl.col(y)).sum(), (pl.col(x) * pl.col(x)).sum()
    return (n * products - xs * ys) / (n * squares - xs * xs)


A021: dict[str, Callable[[Any], Any]] = {
    "sums": lambda c: c.group_by("ip").agg(pl.col("bytes").sum(), pl.len()),
    "histograms": lambda c: c.group_by(bin=pl.col("bytes") // 10).agg(pl.len()),
    "distinct": lambda c: c.group_by("ip").agg(pl.col("path").n_unique()),
    "distinct rows": lambda c: c.select("ip", "path").unique(),
    "top-K": lambda c: c.group_by("ip").top_k(3, by="bytes"),
    "quantiles": lambda c: c.group_by("ip").agg(pl.col("bytes").quantile(0.9)),
    "a linear model": lambda c: (
        c.with_columns(n=pl.col("path").str.len_chars() + pl.col("bytes") % 7)
        .group_by("ip")
        .agg(slope=slope("n", "bytes"))
    ),
}


@pytest.mark.parametrize("what", A021)
def test_a021_each_of_a_wide_set_of_aggregations_equals_its_batch_evaluation(what: str) -> None:
    engine = ec.Engine()
    view = engine.view("v", A021[what](engine.source("hits", HITS, kind="diffs")))
    rows = hits(120)
    engine.push("hits", rows.head(80))
    engine.push("hits", pl.concat([retracted(rows.head(40)), rows.tail(40).with_columns(_diff=pl.lit(1))]))
    assert contents(view) == A021[what](Bag.of(rows.tail(80)))


def test_a022_nothing_runs_while_views_are_defined() -> None:
    seen: list[int] = []

    def spy(rows: pl.DataFrame) -> pl.DataFrame:
        seen.append(rows.height)
        return rows

    engine = ec.Engine()
    view = engine.view(
        "v", engine.source("hits", HITS).map_batches(spy, schema=HITS).group_by("ip").agg(pl.len())
    )
    assert seen == []
    engine.push("hits", hits(10))
    assert sum(seen) == 10
    assert view.read()["len"].sum() == 10


@pytest.mark.parametrize("invertible", [True, False])
def test_a165_a_users_own_accumulator_stands_beside_the_built_in_ones(invertible: bool) -> None:
    """The geometric mean as a pair of numbers, by group, chained into a second grouping."""
    more = {"remove": lambda s, v: (s[0] - v.log().sum(), s[1] - len(v))} if invertible else {}
    geometric = ec.aggregate(
        create=lambda: (0.0, 0),
        add=lambda s, v: (s[0] + v.log().sum(), s[1] + len(v)),
        merge=lambda s, t: (s[0] + t[0], s[1] + t[1]),
        extract=lambda s: round(pl.select(pl.lit(s[0] / s[1]).exp()).item(), 6),
        dtype=pl.Float64,
        **more,
    )
    engine = ec.Engine()
    rows = hits(60).with_columns(pl.col("bytes") + 1)
    source = engine.source("hits", HITS, kind="diffs")
    by_ip = source.group_by("ip").agg(geometric(pl.col("bytes")).alias("mean"), n=pl.len())
    view = engine.view("v", by_ip)
    overall = engine.view("all", by_ip.group_by().agg(pl.col("mean").max(), pl.col("n").sum()))
    engine.push("hits", rows)
    engine.push("hits", retracted(rows.head(20)))
    expected = rows.tail(40).group_by("ip").agg(mean=pl.col("bytes").log().mean().exp().round(6), n=pl.len())
    assert view.read().sort("ip").equals(expected.sort("ip"))
    assert overall.read().equals(expected.select(pl.col("mean").max(), pl.col("n").sum()))


def test_a165_new_rows_are_merged_into_the_state_that_is_kept() -> None:
    merged: list[tuple[int, int]] = []

    def merge(one: int, other: int) -> int:
        merged.append((one, other))
        return one + other

    total = ec.aggregate(
        create=lambda: 0,
        add=lambda state, values: state + values.sum(),
        remove=lambda state, values: state - values.sum(),
        merge=merge,
        extract=lambda state: state,
        dtype=pl.Int64,
    )
    engine = ec.Engine()
    source = engine.source("a", {"k": pl.Int64, "x": pl.Int64})
    view = engine.view("v", source.group_by("k").agg(u=total(pl.col("x"))))
    engine.push("a", {"k": [1, 1], "x": [2, 3]})
    engine.push("a", {"k": [1, 2], "x": [4, 7]})
    assert merged == [(5, 4)]
    assert sorted(view.read().rows()) == [(1, 9), (2, 7)]
