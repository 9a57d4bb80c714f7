"""Sources, epochs, and what is refused: each error names the place, the column and the way out, and changes nothing."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

import polars as pl
import pyarrow as pa
import pytest

import evercurrent as ec
from harness import contents, frame_of_entries, minus, plus, summed
from oracle import Bag, counted

COLUMNS = {"k": pl.Int64(), "x": pl.String()}
ROWS = pl.DataFrame({"k": [1, 2], "x": ["a", None]}, schema=COLUMNS)


def started(kind: Any = "diffs", **options: Any) -> tuple[ec.Engine, Any]:
    """An engine with one source of that kind, one view of its rows and one grouping."""
    engine = ec.Engine()
    source = engine.source("orders", COLUMNS, kind=kind, **options)
    view = engine.view("rows", source)
    engine.view("counts", source.group_by("k").agg(pl.len()))
    return engine, view


def observed(engine: ec.Engine) -> tuple[Any, ...]:
    """All that a user can see of an engine, but how long it took."""
    views = [
        (name, view.epoch, contents(view).counts, len(list(view.deltas())))
        for name, view in engine.views.items()
    ]
    explained = re.sub(r" *\d+\.\d{3}$", "", engine.explain(), flags=re.MULTILINE)
    return engine.epoch_number, views, engine.ledger().rows(), list(engine.sources), explained


# Sources in three forms


def test_an_append_source_adds_each_row_once() -> None:
    engine, view = started("append")
    assert engine.push("orders", ROWS) == 1
    assert engine.push("orders", ROWS.head(1)) == 2
    assert contents(view).counts == {(1, "a"): 2, (2, None): 1}
    assert contents(engine.views["counts"]).counts == {(1, 2): 1, (2, 1): 1}


def test_a_diffs_source_without_diffs_adds() -> None:
    engine, view = started("diffs")
    engine.push("orders", ROWS)
    engine.push("orders", frame_of_entries(COLUMNS, [((1, "a"), 2), ((2, None), -1)]))
    assert contents(view).counts == {(1, "a"): 3}


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int32, pl.Int64])
def test_diffs_come_in_any_signed_type(dtype: pl.DataType) -> None:
    engine, view = started("diffs")
    engine.push("orders", ROWS.with_columns(_diff=pl.Series([1, 2], dtype=dtype)))
    assert contents(view).counts == {(1, "a"): 1, (2, None): 2}


def test_columns_may_come_in_any_order() -> None:
    engine, view = started("append")
    engine.push("orders", ROWS.select("x", "k"))
    assert contents(view) == Bag.of(ROWS)


@pytest.mark.parametrize(
    "form",
    [lambda f: f.to_arrow(), lambda f: pa.RecordBatchReader.from_stream(f), lambda f: f.lazy().collect()],
)
def test_anything_that_streams_arrow_can_be_pushed(form: Callable[[pl.DataFrame], Any]) -> None:
    engine, view = started("append")
    engine.push("orders", form(ROWS))
    assert contents(view) == Bag.of(ROWS)


def test_an_upsert_replaces_the_row_of_its_key_and_the_last_of_a_batch_wins() -> None:
    engine, view = started("upsert", key="k")
    engine.push("orders", frame_of_entries(COLUMNS, plus((1, "a"), (2, "b"), (1, "c"))))
    assert contents(view).counts == {(1, "c"): 1, (2, "b"): 1}
    epoch = engine.push("orders", frame_of_entries(COLUMNS, plus((1, "c"), (2, None))))
    assert summed(view.deltas(since=epoch - 1)) == {(2, "b"): -1, (2, None): 1}


def test_a_delete_reads_only_the_key() -> None:
    engine, view = started("upsert", key=["k"])
    engine.push("orders", frame_of_entries(COLUMNS, plus((1, "a"), (2, "b"))))
    engine.push("orders", frame_of_entries(COLUMNS, minus((1, "something else"))))
    assert contents(view).counts == {(2, "b"): 1}
    engine.push("orders", frame_of_entries(COLUMNS, [*minus((2, None)), *plus((2, "back"))]))
    assert contents(view).counts == {(2, "back"): 1}
    engine.push("orders", frame_of_entries(COLUMNS, [*plus((2, "again")), *minus((2, None))]))
    assert contents(view).counts == {}


def test_a_deletion_of_a_key_that_is_not_there_goes_to_the_ledger() -> None:
    engine, view = started("upsert", key="k")
    engine.push("orders", frame_of_entries(COLUMNS, [*minus((7, None)), *plus((1, "a"))]))
    assert contents(view).counts == {(1, "a"): 1}
    assert engine.ledger("orders").select("_epoch", "k", "_diff").rows() == [(1, 7, -1)]


def test_a_key_that_comes_and_goes_in_one_batch_is_no_deletion_of_nothing() -> None:
    engine, view = started("upsert", key="k")
    engine.push("orders", frame_of_entries(COLUMNS, [*plus((1, "a")), *minus((1, None))]))
    assert contents(view).counts == {}
    assert engine.ledger().is_empty()
    engine.push("orders", frame_of_entries(COLUMNS, [*plus((2, "a")), *minus((2, None), (2, None))]))
    assert engine.ledger("orders").select("_epoch", "k", "_diff").rows() == [(2, 2, -1)]


def test_a_key_of_two_columns() -> None:
    engine = ec.Engine()
    columns = {"a": pl.String(), "b": pl.Int64(), "v": pl.Float64()}
    view = engine.view("v", engine.source("orders", columns, kind="upsert", key=["a", "b"]))
    engine.push("orders", frame_of_entries(columns, plus(("p", 1, 0.5), ("p", 2, 1.5), ("q", 1, 2.5))))
    engine.push("orders", frame_of_entries(columns, [*plus(("p", 2, 9.0)), *minus(("q", 1, None))]))
    assert contents(view).counts == {("p", 1, 0.5): 1, ("p", 2, 9.0): 1}


# The ledger


def test_the_ledger_is_in_the_order_of_refusals() -> None:
    """Of two sources in turn, of one or more rows each."""
    engine = ec.Engine()
    for name in ("a", "b"):
        engine.view(f"of {name}", engine.source(name, {"k": pl.Int64(), name: pl.String()}, kind="diffs"))
    for number in range(6):
        name = "ab"[number % 2]
        rows = pl.DataFrame({"k": [number] * (number + 1), name: [f"{i}" for i in range(number + 1)]})
        engine.push(name, rows.with_columns(_diff=pl.lit(-1, pl.Int64)))
    everything = engine.ledger()
    assert everything["source"].to_list() == [name for n, name in enumerate("ababab") for _ in range(n + 1)]
    assert everything["_epoch"].to_list() == [n + 1 for n in range(6) for _ in range(n + 1)]
    assert sorted(everything["row"][-6:]) == [f'{{"k":5,"b":"{i}"}}' for i in range(6)]
    assert engine.ledger("b")["_epoch"].is_sorted()
    assert sorted(engine.ledger("b").drop("reason").rows()) == [
        (n + 1, n, f"{i}", -1) for n in (1, 3, 5) for i in range(n + 1)
    ]


def test_the_ledger_of_a_source_that_has_a_column_of_reasons() -> None:
    engine = ec.Engine()
    engine.view("v", engine.source("a", {"k": pl.Int64(), "reason": pl.String()}, kind="diffs"))
    engine.push("a", {"k": [1], "reason": ["mine"], "_diff": [-1]})
    assert engine.ledger("a").columns == ["_epoch", "_reason", "k", "reason", "_diff"]
    engine.push("a", engine.ledger("a").drop("_epoch", "_reason").with_columns(-pl.col("_diff")))
    assert engine.views["v"].read().rows() == [(1, "mine")]


def test_rows_whose_columns_became_others_are_in_the_ledger_of_all_sources_only() -> None:
    """They could not be pushed again."""
    engine = ec.Engine()
    at = datetime(2026, 1, 1)
    rows = engine.source(
        "a", {"k": pl.Int64(), "t": pl.Datetime("us")}, event_time="t", watermark=ec.bounded_delay("1s")
    )
    for name, given in (("same", rows), ("other", rows.with_columns(k=pl.col("k").cast(pl.String)))):
        engine.view(name, given.window(ec.fixed("1m")).lateness("0s").group_by("k").agg(n=pl.len()))
    for times in ([at.replace(hour=2)], [at]):
        engine.push("a", {"k": [1], "t": times})
    assert engine.ledger()["row"].str.contains('"k":"1"').to_list() in ([False, True], [True, False])
    assert engine.ledger("a")["k"].to_list() == [1]


def test_a_retraction_of_what_is_not_there_is_refused_into_the_ledger_and_the_rest_accepted() -> None:
    engine, view = started()
    engine.push("orders", frame_of_entries(COLUMNS, plus((1, "a"))))
    engine.push("orders", frame_of_entries(COLUMNS, [((1, "a"), -3), ((9, "z"), -1), ((2, "b"), 1)]))
    assert contents(view).counts == {(2, "b"): 1}
    kept = engine.ledger("orders")
    assert sorted(kept.select("_epoch", "k", "x", "_diff").rows()) == [(2, 1, "a", -2), (2, 9, "z", -1)]
    assert all("not there" in reason for reason in kept["reason"])
    everything = engine.ledger()
    assert everything.columns == [
        "_epoch", "source", "reason", "window_start", "window_end", "watermark", "_diff", "row",
    ]  # fmt: skip
    assert everything["source"].to_list() == ["orders", "orders"]
    assert pl.Series(everything["row"]).str.json_path_match("$.x").sort().to_list() == ["a", "z"]


def test_a_refused_row_can_be_replayed_once_its_insert_is_there() -> None:
    engine, view = started()
    engine.push("orders", frame_of_entries(COLUMNS, minus((1, "late"))))
    late = engine.ledger("orders").select("k", "x", "_diff")
    engine.push("orders", frame_of_entries(COLUMNS, plus((1, "late"))))
    engine.push("orders", late)
    assert contents(view).counts == {}
    assert engine.ledger("orders").height == 1


def test_a_retraction_before_its_insert_in_one_batch_is_no_retraction() -> None:
    engine, view = started()
    engine.push("orders", frame_of_entries(COLUMNS, [*minus((1, "a")), *plus((1, "a"))]))
    assert engine.ledger().is_empty()
    assert contents(view).counts == {}


def test_a_strict_source_refuses_the_whole_epoch() -> None:
    engine, _ = started(strict=True)
    engine.push("orders", ROWS)
    before = observed(engine)
    with pytest.raises(ec.RetractionError, match="orders") as caught:
        engine.push("orders", frame_of_entries(COLUMNS, [*plus((5, "new")), *minus((7, "never"))]))
    assert "never" in str(caught.value)
    assert "strict" in str(caught.value)
    assert observed(engine) == before


def test_a_trusted_source_may_become_negative() -> None:
    engine, view = started(trusted=True)
    engine.push("orders", frame_of_entries(COLUMNS, minus((1, "a"))))
    assert summed(view.deltas()) == {(1, "a"): -1}
    assert engine.ledger().is_empty()
    assert contents(engine.views["counts"]).counts == {(1, -1): 1}


# Input that is refused

BAD_FRAMES: dict[str, tuple[Any, list[str]]] = {
    "an unknown column": (ROWS.with_columns(extra=1), ["orders", "extra"]),
    "a missing column": (ROWS.drop("x"), ["orders", "x"]),
    "another type": (ROWS.with_columns(pl.lit(0.5).alias("k")), ["orders", "k", "Float64", "Int64"]),
    "text for numbers": (ROWS.with_columns(pl.lit("1").alias("k")), ["orders", "k", "String", "Int64"]),
    "diffs that are null": (ROWS.with_columns(_diff=pl.lit(None, pl.Int64)), ["orders", "_diff"]),
    "diffs that are not whole": (ROWS.with_columns(_diff=pl.lit(0.5)), ["orders", "_diff"]),
    "an epoch column": (ROWS.with_columns(_epoch=pl.lit(1)), ["orders", "_epoch"]),
    "something that is no frame": (object(), ["orders", "object"]),
}


@pytest.mark.parametrize("bad", BAD_FRAMES)
def test_a_frame_that_does_not_fit_its_source_is_refused_whole(bad: str) -> None:
    frame, words = BAD_FRAMES[bad]
    engine, _ = started()
    engine.push("orders", ROWS)
    before = observed(engine)
    with pytest.raises(ec.InputError) as caught:
        engine.push("orders", frame)
    assert [word for word in words if word not in str(caught.value)] == []
    assert observed(engine) == before
    assert engine.push("orders", ROWS) == 2


def test_an_append_source_refuses_diffs_and_names_the_kind_that_takes_them() -> None:
    engine, _ = started("append")
    before = observed(engine)
    with pytest.raises(ec.InputError, match="_diff") as caught:
        engine.push("orders", ROWS.with_columns(_diff=1))
    assert "diffs" in str(caught.value)
    assert "orders" in str(caught.value)
    assert observed(engine) == before


@pytest.mark.parametrize("diff", [2, 0, -2])
def test_an_upsert_source_takes_plus_and_minus_one_only(diff: int) -> None:
    engine, _ = started("upsert", key="k")
    before = observed(engine)
    with pytest.raises(ec.InputError, match="orders"):
        engine.push("orders", ROWS.with_columns(_diff=pl.lit(diff)))
    assert observed(engine) == before


@pytest.mark.parametrize("diff", [1, -1])
def test_a_primary_key_that_is_null_is_refused(diff: int) -> None:
    engine, _ = started("upsert", key="k")
    engine.push("orders", ROWS)
    before = observed(engine)
    with pytest.raises(ec.InputError, match="orders") as caught:
        engine.push("orders", pl.DataFrame({"k": [3, None], "x": ["b", "c"], "_diff": [1, diff]}))
    assert "'k'" in str(caught.value)
    assert "null" in str(caught.value)
    assert observed(engine) == before


def test_a_source_that_is_not_declared_is_named_with_those_that_are() -> None:
    engine, _ = started()
    before = observed(engine)
    with pytest.raises(ec.InputError, match="ordres") as caught:
        engine.push("ordres", ROWS)
    assert "'orders'" in str(caught.value)
    assert observed(engine) == before


# Definitions that are refused

BAD_VIEWS: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "filter: unknown column": (lambda c: c.filter(pl.col("y") > 1), ["'y'", "'k', 'x'"]),
    "filter: not a condition": (lambda c: c.filter(pl.col("k") + 1), ["k"]),
    "select: unknown column": (lambda c: c.select("y"), ["'y'", "'k', 'x'"]),
    "select: types that do not go together": (lambda c: c.select(z=pl.col("x") - pl.lit(True)), []),
    "select: one name twice": (lambda c: c.select("k", k=pl.col("x")), ["k"]),
    "select: an aggregate": (lambda c: c.select(pl.col("k").sum()), ["k", "agg"]),
    "with_columns: an aggregate": (lambda c: c.with_columns(z=pl.col("k").max()), ["k", "agg"]),
    "with_columns: over": (lambda c: c.with_columns(z=pl.col("k").sum().over("x")), ["k"]),
    "with_columns: a neighbouring row": (lambda c: c.with_columns(z=pl.col("k").shift(1)), ["k"]),
    "filter: a rank": (lambda c: c.filter(pl.col("k").rank() < 3), ["k"]),
    "filter: a running sum": (lambda c: c.filter(pl.col("k").cum_sum() < 3), ["k"]),
    "with_columns: reserved name": (lambda c: c.with_columns(_diff=1), ["'_diff'", "reserved", "rename"]),
    "select: reserved name": (lambda c: c.select(_epoch=pl.col("k")), ["'_epoch'", "reserved", "rename"]),
    "rename: reserved name": (lambda c: c.rename({"k": "_diff"}), ["'_diff'", "reserved", "rename"]),
    "agg: reserved name": (lambda c: c.group_by("k").agg(_diff=pl.len()), ["'_diff'", "reserved", "rename"]),
    "rename: unknown column": (lambda c: c.rename({"y": "z"}), ["'y'", "'k', 'x'"]),
    "rename: one name twice": (lambda c: c.rename({"k": "x"}), ["'x'"]),
    "drop: unknown column": (lambda c: c.drop("y"), ["'y'", "'k', 'x'"]),
    "drop: all columns": (lambda c: c.drop("k", "x"), ["column"]),
    "cast: unknown column": (lambda c: c.cast({"y": pl.Int8}), ["'y'", "'k', 'x'"]),
    "explode: unknown column": (lambda c: c.explode("y"), ["'y'", "'k', 'x'"]),
    "unnest: not a struct": (lambda c: c.unnest("k"), ["k"]),
    "concat: other columns": (lambda c: c.concat(c.select("k")), ["x"]),
    "minus: the columns in another order": (lambda c: c.minus(c.select("x", "k")), ["x"]),
    "concat: not a collection": (lambda c: c.concat(ROWS), ["DataFrame"]),
    "join: not a collection": (lambda c: c.join(ROWS, on="k"), ["DataFrame"]),
    "join: unknown key": (lambda c: c.join(c, on="y"), ["'y'", "'k', 'x'"]),
    "join: keys of two types": (
        lambda c: c.join(c, left_on="k", right_on="x"),
        ["'k'", "'x'", "Int64", "String", "cast"],
    ),
    "join: no key": (lambda c: c.join(c), ["on"]),
    "join: unknown kind": (lambda c: c.join(c, on="k", how="outer"), ["outer", "full"]),
    "join: cross with a key": (lambda c: c.join(c, on="k", how="cross"), ["cross", "on"]),
    "join: a name twice": (lambda c: c.join(c, on="k", suffix="").select("k"), ["x"]),
    "group_by: unknown column": (lambda c: c.group_by("y").agg(pl.len()), ["'y'", "'k', 'x'"]),
    "agg: unknown column": (lambda c: c.group_by("k").agg(pl.col("y").sum()), ["y", "'k', 'x'"]),
    "agg: a column that is not aggregated": (lambda c: c.group_by("k").agg("x"), ["x"]),
    "agg: the name of a key": (lambda c: c.group_by("k").agg(k=pl.len()), ["k"]),
    "agg: a sum of text": (lambda c: c.group_by("k").agg(pl.col("x").sum()), ["x"]),
    "agg: cannot be kept current": (lambda c: c.group_by("k").agg(pl.col("x").shuffle().first()), ["x"]),
    "agg: first without an order": (lambda c: c.group_by("k").agg(pl.col("x").first()), ["x", "sort_by"]),
    "top_k: unknown column": (lambda c: c.top_k(3, by="y"), ["'y'", "'k', 'x'"]),
    "top_k: fewer than no rows": (lambda c: c.top_k(-1, by="k"), ["-1"]),
    "limit: without an order": (lambda c: c.limit(3, by=[]), ["by"]),
    "top_k: flags for other columns": (lambda c: c.top_k(1, by="k", reverse=[True, False]), ["1", "2"]),
    "map_batches: fails on an empty frame": (lambda c: c.map_batches(lambda rows: rows[0, "k"]), ["schema"]),
}


@pytest.mark.parametrize("bad", BAD_VIEWS)
def test_a_definition_that_cannot_be_kept_is_refused_before_any_data(bad: str) -> None:
    build, words = BAD_VIEWS[bad]
    engine = ec.Engine()
    source = engine.source("orders", COLUMNS)
    before = observed(engine)
    with pytest.raises(ec.PlanError) as caught:
        build(source)
    message = str(caught.value)
    assert [word for word in [*words, "orders"] if word not in message] == [], message
    assert bad.split(":")[0] in message
    assert observed(engine) == before


BAD_SOURCES: dict[str, tuple[Callable[[ec.Engine], Any], list[str]]] = {
    "a name that is taken": (lambda e: e.source("orders", COLUMNS), ["'orders'"]),
    "a reserved column": (
        lambda e: e.source("new", {"_diff": pl.Int64}),
        ["'new'", "'_diff'", "reserved", "rename"],
    ),
    "another reserved column": (
        lambda e: e.source("new", {"_epoch": pl.Int64}),
        ["'new'", "'_epoch'", "rename"],
    ),
    "no columns": (lambda e: e.source("new", {}), ["'new'", "column"]),
    "an unknown kind": (
        lambda e: e.source("new", COLUMNS, kind=cast(Any, "upserts")),
        ["'new'", "upserts", "upsert"],
    ),
    "upsert without a key": (lambda e: e.source("new", COLUMNS, kind="upsert"), ["'new'", "key"]),
    "a key that is no column": (
        lambda e: e.source("new", COLUMNS, kind="upsert", key="id"),
        ["'new'", "'id'", "'k', 'x'"],
    ),
    "a key without upsert": (
        lambda e: e.source("new", COLUMNS, kind="diffs", key="k"),
        ["'new'", "key", "upsert"],
    ),
    "a time that is no column": (
        lambda e: e.source("new", COLUMNS, event_time="at"),
        ["'new'", "'at'", "'k', 'x'"],
    ),
    "a time that is no time": (
        lambda e: e.source("new", COLUMNS, event_time="x"),
        ["'new'", "'x'", "String"],
    ),
    "strict and trusted": (
        lambda e: e.source("new", COLUMNS, kind="diffs", strict=True, trusted=True),
        ["'new'"],
    ),
}


@pytest.mark.parametrize("bad", BAD_SOURCES)
def test_a_source_that_makes_no_sense_is_refused(bad: str) -> None:
    build, words = BAD_SOURCES[bad]
    engine, _ = started()
    before = observed(engine)
    with pytest.raises(ec.PlanError) as caught:
        build(engine)
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message
    assert observed(engine) == before


def test_a_view_name_that_is_taken_is_refused() -> None:
    engine, view = started()
    with pytest.raises(ec.PlanError, match="'rows'"):
        engine.view("rows", view.unique())
    assert list(engine.views) == ["rows", "counts"]


def test_a_collection_of_another_engine_is_refused() -> None:
    engine, _ = started()
    other, foreign = started()
    with pytest.raises(ec.PlanError, match="engine"):
        engine.view("v", foreign.unique())
    with pytest.raises(ec.PlanError, match="engine"):
        engine.sources["orders"].concat(other.sources["orders"])


def test_a_value_that_an_expression_refuses_refuses_the_epoch_and_names_the_view() -> None:
    engine = ec.Engine()
    source = engine.source("orders", COLUMNS)
    engine.view("rows", source)
    engine.view("numbers", source.with_columns(n=pl.col("x").cast(pl.Int64)))
    engine.push("orders", ROWS.with_columns(x=pl.lit("12")))
    before = observed(engine)
    with pytest.raises(ec.InputError, match="numbers"):
        engine.push("orders", ROWS)
    assert observed(engine) == before


# Epochs


def test_epochs_are_numbered_without_gaps_and_an_empty_one_counts() -> None:
    engine, view = started()
    assert engine.epoch_number == view.epoch == 0
    assert [engine.push("orders", frame) for frame in (ROWS, ROWS.clear(), ROWS)] == [1, 2, 3]
    assert engine.epoch_number == view.epoch == 3


def test_several_sources_in_one_epoch_are_seen_together() -> None:
    engine = ec.Engine()
    left, right = engine.source("a", COLUMNS), engine.source("b", COLUMNS)
    view = engine.view("v", left.join(right, on="k", how="full"))
    with engine.epoch():
        engine.push("a", ROWS)
        assert view.read().is_empty()
        engine.push("b", ROWS)
        assert engine.epoch_number == 0
    assert engine.epoch_number == 1
    assert [frame.height for frame in view.deltas()] == [2]


def test_two_pushes_into_one_source_in_one_epoch_add_up() -> None:
    engine, view = started()
    with engine.epoch():
        engine.push("orders", ROWS)
        engine.push("orders", ROWS.with_columns(_diff=pl.lit(-1)))
        engine.push("orders", ROWS.head(1))
    assert contents(view).counts == {(1, "a"): 1}
    assert engine.ledger().is_empty()


def test_an_exception_inside_an_epoch_leaves_nothing() -> None:
    engine, _ = started()
    engine.push("orders", ROWS)
    before = observed(engine)

    def change_my_mind() -> None:
        with engine.epoch():
            engine.push("orders", ROWS)
            raise KeyError("changed my mind")

    with pytest.raises(KeyError, match="changed my mind"):
        change_my_mind()
    assert observed(engine) == before
    assert engine.push("orders", ROWS) == 2
    assert contents(engine.views["rows"]).counts == {(1, "a"): 2, (2, None): 2}


def test_a_bad_frame_inside_an_epoch_refuses_all_of_it() -> None:
    engine, _ = started()
    before = observed(engine)

    def push_both() -> None:
        with engine.epoch():
            engine.push("orders", ROWS)
            engine.push("orders", ROWS.drop("x"))

    with pytest.raises(ec.InputError, match="orders"):
        push_both()
    assert observed(engine) == before


def test_epochs_do_not_nest() -> None:
    engine, _ = started()
    before = observed(engine)
    with pytest.raises(ec.EvercurrentError, match="epoch"), engine.epoch(), engine.epoch():
        pass
    assert observed(engine) == before


def test_processing_time_is_given_or_read_at_the_edge_and_never_naive() -> None:
    engine, _ = started()
    assert engine.push("orders", ROWS, at=datetime(2024, 1, 1, tzinfo=UTC)) == 1
    before = observed(engine)
    with pytest.raises(ec.InputError, match="at"):
        engine.push("orders", ROWS, at=datetime(2024, 1, 2))
    assert observed(engine) == before


# Views


def test_a_view_is_a_collection_with_a_name() -> None:
    engine, view = started()
    twos = engine.view("twos", engine.views["counts"].filter(pl.col("len") == 2))
    assert (view.name, twos.name, list(engine.views)) == ("rows", "twos", ["rows", "counts", "twos"])
    assert view.schema == pl.Schema(COLUMNS)
    assert view.columns == ["k", "x"]
    engine.push("orders", ROWS)
    engine.push("orders", ROWS.head(1))
    assert twos.read().rows() == [(1, 2)]


def test_a_row_with_diff_three_is_read_three_times() -> None:
    engine, view = started()
    engine.push("orders", frame_of_entries(COLUMNS, [((1, "a"), 3)]))
    assert view.read().rows() == [(1, "a")] * 3


def test_a_view_declared_after_data_came_holds_all_of_it_or_is_refused() -> None:
    engine, _ = started()
    engine.push("orders", ROWS)
    late = engine.view("late", engine.sources["orders"].unique())
    assert contents(late) == Bag.of(ROWS).unique()
    unkept = engine.source("unkept", {"x": pl.Int64})
    counts = engine.view("counts of unkept", unkept.group_by("x").agg(n=pl.len()))
    engine.push("unkept", {"x": [1]})
    before = observed(engine)
    with pytest.raises(ec.PlanError, match="later") as caught:
        engine.view("later", unkept.unique())
    assert "push" in str(caught.value)
    assert observed(engine) == before
    assert contents(counts).counts == {(1, 1): 1}


def test_equal_plans_are_one_node() -> None:
    engine, _ = started()
    source = engine.sources["orders"]
    nodes = engine.plan.number_of_nodes()

    def busy() -> Any:
        return source.filter(pl.col("k") > 0).group_by("k").agg(n=pl.len())

    one = engine.view("one", busy())
    added = engine.plan.number_of_nodes() - nodes
    assert added == 2
    two = engine.view("two", busy().filter(pl.col("n") > 1))
    assert engine.plan.number_of_nodes() == nodes + added + 1
    three = engine.view("three", busy())
    assert engine.plan.number_of_nodes() == nodes + added + 1
    engine.push("orders", pl.concat([ROWS, ROWS.head(1)]))
    assert contents(one) == contents(three)
    assert contents(two).counts == {(1, 2): 1}


def test_plans_that_differ_in_a_literal_or_in_a_function_are_two() -> None:
    engine, _ = started()
    source = engine.sources["orders"]
    nodes = engine.plan.number_of_nodes()
    for number, build in enumerate(
        [
            source.filter(pl.col("k") > 1),
            source.filter(pl.col("k") > 2),
            source.filter(pl.col("k") > 1.0),
            source.map_batches(lambda rows: rows.head(0)),
            source.map_batches(lambda rows: rows.tail(0)),
            source.top_k(1, by="k"),
            source.bottom_k(1, by="k"),
        ]
    ):
        engine.view(f"v{number}", build)
    assert engine.plan.number_of_nodes() == nodes + 7


TWINS: dict[str, tuple[pl.Expr, pl.Expr]] = {
    "digits": (pl.col("y").round(1), pl.col("y").round(2)),
    "strictness": (pl.col("x").cast(pl.Int64, strict=False), pl.col("x").str.len_chars().cast(pl.Int64)),
    "the type of a literal": (pl.col("y") * pl.lit(1, pl.Float32), pl.col("y") * pl.lit(1, pl.Float64)),
    "a literal pattern": (pl.col("x").str.contains("."), pl.col("x").str.contains(".", literal=True)),
    "the middle of a long list": (pl.col("k").is_in([0, 1, 7, 8, 9]), pl.col("k").is_in([0, 2, 7, 8, 9])),
    "a format": (pl.col("x").str.to_date("%Y", strict=False), pl.col("x").str.to_date("%d", strict=False)),
}


@pytest.mark.parametrize("twins", TWINS)
@pytest.mark.parametrize("shape", ["select", "agg", "group_by"])
def test_expressions_that_print_alike_are_not_one(twins: str, shape: str) -> None:
    columns = {**COLUMNS, "y": pl.Float64()}
    rows = pl.DataFrame({"k": [1, 2, 2], "x": ["a", "1.5", "."], "y": [0.123, 2.345, -1.999]}, schema=columns)

    def built(c: Any, expr: pl.Expr) -> Any:
        match shape:
            case "select":
                return c.select(u=expr)
            case "agg":
                return c.group_by("k").agg(u=expr.max(), v=expr.count(), w=expr.n_unique())
        return c.group_by(u=expr).agg(pl.len())

    engine = ec.Engine()
    source = engine.source("orders", columns)
    views = [engine.view(f"v{at}", built(source, expr)) for at, expr in enumerate(TWINS[twins])]
    engine.push("orders", rows)
    for view, expr in zip(views, TWINS[twins], strict=True):
        expected = built(Bag.of(rows), expr)
        assert contents(view) == expected
        counts = [name for name, dtype in expected.schema.items() if dtype == pl.UInt32]
        assert view.schema == counted(expected.schema, counts)


def test_explain_names_sources_views_and_operators() -> None:
    engine, _ = started()
    text = engine.explain()
    assert [word for word in ("orders", "rows", "counts", "group by k") if word not in text] == []
    assert engine.explain(format="mermaid").startswith(("flowchart", "graph"))
