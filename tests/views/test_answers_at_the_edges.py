"""What a view reports about itself where there are no keys, where rows tie, and where rows are taken back too late."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl
import pytest

import evercurrent as ec


def _at(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


@pytest.mark.parametrize(
    "columns",
    [(["k", "n"],), (("k", "n"),), ([pl.col("n"), "k"],), ("k", "n"), (pl.col("k", "n"),)],
    ids=["names", "tuple", "expressions", "arguments", "one expression"],
)
def test_columns_may_be_selected_by_a_list_in_a_proof(columns: tuple[object, ...]) -> None:
    engine = ec.Engine()
    source = engine.source("s", {"k": pl.String, "n": pl.Int64, "x": pl.Int64}, kind="diffs", retained=True)
    view = engine.view("v", source.select(*columns))
    source.push([("a", 1, 5, 1), ("a", 1, 6, 1), ("b", 2, 7, 1)])
    source.push([("b", 2, 7, -1)])
    assert view.prove()


def test_ties_are_broken_by_ordered_columns_before_lists_in_a_proof_too() -> None:
    engine = ec.Engine()
    source = engine.source("s", {"l": pl.List(pl.Int64), "n": pl.Int64, "by": pl.Int64}, retained=True)
    view = engine.view("v", source.limit(1, by="by"))
    source.push([([], 5, 0), ([1], 3, 0)])
    assert view.read().rows() == [([1], 3, 0)]
    assert view.prove()


def test_a_row_that_ties_is_behind_those_that_are_kept() -> None:
    engine = ec.Engine()
    source = engine.source("s", {"l": pl.List(pl.Int64), "by": pl.Int64}, retained=True)
    view = engine.view("v", source.limit(1, by="by"))
    source.push([([n], 0) for n in range(4)])
    absent = {0, 1, 2, 3} - set(view.read().item(0, "l"))
    assert not any("as number 1 " in view.why({"l": [n]}) for n in absent)


@pytest.mark.parametrize("is_global", [True, False], ids=["all of time", "sessions"])
def test_windows_without_keys_that_wait_are_not_proved(is_global: bool) -> None:
    engine = ec.Engine()
    source = engine.source(
        "s",
        {"t": pl.Datetime("us", "UTC")},
        event_time="t",
        watermark=ec.bounded_delay("1m"),
        retained=True,
        bounded=True,
    )
    windows = source.window(ec.global_window() if is_global else ec.sessions("4s"))
    view = engine.view("v", windows.trigger(ec.after_watermark()).group_by().agg(n=pl.len()))
    source.push([(_at(1),), (_at(20),)])
    found = view.prove()
    assert found
    assert list(found.unproved) == ["they wait for their trigger"]
    assert ("window of all time" if is_global else "window_start 2026-01-01 00:00:") in repr(found)
    source.push([(_at(21),)], watermark=ec.END_OF_TIME)
    found = view.prove()
    assert found
    assert not any(rows.height for rows in found.unproved.values())
    assert found.rows == (1 if is_global else 2)


def test_the_one_window_of_all_time_without_keys_is_followed_back() -> None:
    engine = ec.Engine(record=True)
    source = engine.source(
        "s",
        {"id": pl.Int64, "t": pl.Datetime("us", "UTC")},
        event_time="t",
        watermark=ec.bounded_delay("0s"),
        retained=True,
    )
    view = engine.view("v", source.window(ec.global_window()).group_by().agg(n=pl.len()))
    source.push([(1, _at(1)), (2, _at(2))])
    assert view.lineage({"n": 2})["s"].get_column("id").to_list() == [2, 1]
    assert view.history({"n": 2})[0].causes["s"].height == 2
    assert "\nthe one window is made of 2 rows of source 's'\n" in view.why({"n": 2})


def test_rows_are_followed_back_through_a_top_k_of_all_rows_by_a_computed_key() -> None:
    engine = ec.Engine()
    source = engine.source("s", {"k": pl.Int64, "n": pl.Int64}, retained=True)
    view = engine.view("v", source.top_k(2, by="n").group_by(big=pl.col("n") > 5).agg(c=pl.len()))
    source.push([(1, 5), (2, 6), (3, 1)])
    assert view.lineage({"big": True})["s"].rows() == [(2, 6, 1)]
    assert view.lineage({"big": False})["s"].rows() == [(1, 5, 1)]


def test_what_comes_before_a_row_is_shown_where_the_top_k_is_no_view() -> None:
    engine = ec.Engine()
    source = engine.source("s", {"k": pl.Int64, "n": pl.Int64}, retained=True)
    view = engine.view("v", source.top_k(1, by="n").filter(pl.col("k") > 0))
    source.push([(1, 5), (2, 6)])
    assert view.why({"k": 1}).endswith("What stands for it:\n  k 2, n 6")


@pytest.fixture
def late() -> tuple[ec.Source, ec.View]:
    engine = ec.Engine()
    source = engine.source(
        "s",
        {"id": pl.Int64, "k": pl.String, "t": pl.Datetime("us", "UTC")},
        kind="diffs",
        event_time="t",
        watermark=ec.bounded_delay("0s"),
        retained=True,
    )
    windows = source.window(ec.fixed("10s")).lateness("0s")
    view = engine.view("v", windows.group_by("k").agg(n=pl.len()))
    source.push([(0, "a", _at(1), 1), (1, "a", _at(12), 1), (2, "a", _at(2), 1)])
    source.push([(3, "a", _at(32), 1)])
    source.push([(0, "a", _at(1), -1)])
    return source, view


def test_rows_that_were_taken_back_too_late_are_in_no_other_window(late: tuple[ec.Source, ec.View]) -> None:
    _, view = late
    assert "id 0" not in repr(view.lineage({"window_start": _at(10)}))
    assert "id 0" in repr(view.lineage({"window_start": _at(0)}))


def test_rows_that_were_taken_back_too_late_are_in_the_lineage_of_their_window(
    late: tuple[ec.Source, ec.View],
) -> None:
    source, view = late
    found = view.lineage({"window_start": _at(0)})
    assert sorted(found["s"].rows()) == [(0, "a", _at(1), 1), (2, "a", _at(2), 1)]
    (remark,) = found.remarks
    assert remark.startswith("1 row was taken back too late for view 'v': it counts in the window")
    source.push([(2, "a", _at(2), -1)])
    found = view.lineage({"window_start": _at(0)})
    assert sorted(found["s"].rows()) == [(0, "a", _at(1), 1), (2, "a", _at(2), 1)]
    assert "2 rows were taken back too late" in found.remarks[0]
    assert "is made of 2 rows" in view.why({"window_start": _at(0)})
    assert view.lineage({"window_start": _at(10)}).remarks == ()


def test_rows_that_were_taken_back_too_late_end_where_columns_are_computed() -> None:
    engine = ec.Engine()
    source = engine.source(
        "s",
        {"id": pl.Int64, "t": pl.Datetime("us", "UTC")},
        kind="diffs",
        event_time="t",
        watermark=ec.bounded_delay("0s"),
        retained=True,
    )
    twice = source.with_columns(twice=pl.col("id") * 2)
    view = engine.view("v", twice.window(ec.fixed("10s")).lateness("0s").group_by().agg(n=pl.len()))
    source.push([(0, _at(1), 1), (1, _at(1), 1), (9, _at(59), 1)])
    source.push([(0, _at(1), -1)])
    found = view.lineage({"window_start": _at(0)})
    assert found["s"]["id"].to_list() == [1]
    (end,) = set(found) - {"s"}
    assert found[end].rows() == [(0, _at(1), 0, 1)]
    assert "is made of 2 rows" in view.why({"window_start": _at(0)})


def test_rows_that_wait_for_a_trigger_are_remarked() -> None:
    engine = ec.Engine()
    source = engine.source(
        "s", {"k": pl.String, "t": pl.Datetime("us", "UTC")}, event_time="t", retained=True
    )
    windows = source.window(ec.fixed("1h")).trigger(ec.repeat(ec.after_count(2)))
    view = engine.view("v", windows.group_by("k").agg(n=pl.len()))
    source.push([("a", _at(1)), ("b", _at(1)), ("a", _at(2)), ("b", _at(2))])
    assert view.lineage({"k": "a"}).remarks == ()
    source.push([("a", _at(3))])
    (remark,) = view.lineage({"k": "a"}).remarks
    assert "they wait for its trigger" in remark
    assert view.lineage({"k": "b"}).remarks == ()
    lines = view.why("a").splitlines()
    assert "    for 1 more row: 1 of 2 are there" in lines
    assert "view 'v' has it:" in lines
    assert remark in lines
    source.push([("c", _at(3))])
    assert "view 'v' has" not in view.why("c")


def test_the_one_row_of_a_view_without_keys_is_shown() -> None:
    engine = ec.Engine()
    source = engine.source("s", {"k": pl.String}, retained=True)
    views = {
        "g": source.window(ec.global_window()).group_by().agg(n=pl.len()),
        "h": source.group_by().agg(n=pl.len()),
    }
    for name, collection in views.items():
        engine.view(name, collection)
    assert engine.views["g"].why({"n": 2}).splitlines()[0] == "view 'g' has no row with n 2"
    source.push([("a",), ("b",), ("c",)])
    for name in views:
        assert engine.views[name].why({"n": 2}).splitlines() == [
            f"view {name!r} has no row with n 2",
            f"view {name!r} has 1 row, not with n 2:",
            "  n 3",
        ]


def test_rows_too_late_for_a_window_are_counted(late: tuple[ec.Source, ec.View]) -> None:
    source, view = late
    source.push([(4, "b", _at(3), 1)])
    source.push([(5, "b", _at(4), 1), (6, "b", _at(14), 1)])
    assert view.why({"k": "b"}).endswith("\n3 rows came too late, and are in the ledger")
    assert view.why({"k": "b", "window_start": _at(0)}).endswith(
        "\n2 rows came too late, and are in the ledger"
    )
    assert "too late" not in view.why({"k": "a", "window_start": _at(40)})


@pytest.mark.parametrize("method", ["sum", "mean", "median", "min", "max", "n_unique", "quantile"])
def test_aggregates_of_each_column_are_proved(method: str) -> None:
    engine = ec.Engine()
    source = engine.source("s", {"k": pl.String, "n": pl.Int64, "x": pl.Float64}, retained=True)
    arguments = (0.5,) if method == "quantile" else ()
    view = engine.view("v", getattr(source.group_by("k"), method)(*arguments))
    source.push([("a", 1, 2.5), ("a", 4, None), ("b", 5, float("nan")), (None, None, -0.0)])
    assert view.prove().rows == 3
    assert view.prove()


@pytest.mark.parametrize("method", ["min", "max", "n_unique"])
def test_aggregates_of_each_column_are_proved_in_windows(method: str) -> None:
    engine = ec.Engine()
    source = engine.source(
        "s",
        {"t": pl.Datetime("us", "UTC"), "k": pl.String, "n": pl.Int64},
        event_time="t",
        watermark=ec.bounded_delay("10s"),
        retained=True,
    )
    windows = source.window(ec.fixed("10s")).trigger(ec.after_watermark())
    view = engine.view("v", getattr(windows.group_by("k"), method)())
    source.push([(_at(1), "a", 1), (_at(2), "a", 4), (_at(32), "b", 5)])
    found = view.prove()
    assert found
    assert found.rows == 1
    assert list(found.unproved) == ["they wait for their trigger"]
