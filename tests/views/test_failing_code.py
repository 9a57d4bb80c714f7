"""What goes wrong in a user's own code or expression is reported in the user's words, and changes nothing."""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import evercurrent as ec


def broken(**functions: Callable[..., Any]) -> Any:
    whole = {
        "create": lambda: 0,
        "add": lambda state, values: state + values.sum(),
        "merge": lambda one, other: one + other,
        "extract": lambda state: state,
    }
    return ec.aggregate(**(whole | functions), dtype=pl.Int64)(pl.col("n")).alias("mine")


def failing(*given: Any) -> Any:
    raise ZeroDivisionError("nothing to divide by")


PLANS: dict[str, tuple[Callable[[ec.Collection], ec.Collection], list[str]]] = {
    "over aggregates": (lambda s: s.group_by("n").agg(pl.col("x").max().cast(pl.Int64)), ["conversion"]),
    "add": (lambda s: s.group_by("n").agg(broken(add=failing)), ["'mine'", "ZeroDivisionError", "divide by"]),
    "remove": (lambda s: s.group_by("n").agg(broken(remove=failing)), ["'mine'", "ZeroDivisionError"]),
    "extract": (lambda s: s.group_by("n").agg(broken(extract=lambda state: "text")), ["'mine'", "TypeError"]),
    "map_batches": (
        lambda s: s.map_batches(lambda frame: frame if frame.is_empty() else failing()),
        ["ZeroDivisionError", "divide by"],
    ),
    "row by row": (lambda s: s.with_columns(d=pl.col("x").str.to_date("%Y-%m-%d")), ["conversion"]),
}


@pytest.mark.parametrize("plan", PLANS)
def test_what_fails_is_named_and_nothing_has_changed(plan: str) -> None:
    build, words = PLANS[plan]
    engine = ec.Engine()
    source = engine.source("s", {"x": pl.String, "n": pl.Int64}, kind="diffs", trusted=True)
    view, rows = engine.view("v", build(source)), engine.view("rows", source)
    with pytest.raises(ec.InputError) as caught:
        engine.push("s", {"x": ["b", "c", "c"], "n": [1, 1, 1], "_diff": [1, 1, -1]})
    message = str(caught.value)
    assert [word for word in [*words, "view 'v'", "nothing has changed"] if word not in message] == [], (
        message
    )
    assert "\n" not in message
    assert (engine.epoch_number, view.read().height, rows.read().height) == (0, 0, 0)


CAST, GET = pl.col("x").cast(pl.Int64), pl.col("l").list.get(1)
OF_ROWS: dict[str, tuple[Callable[[ec.Collection], ec.Collection], str]] = {
    "cast": (lambda s: s.select(CAST), "for 1 out of 1 values: [\"a\"], in col(\"x\").strict_cast(Int64), for the row {'x': 'a'}; strict=False gives null"),
    "get": (lambda s: s.with_columns(GET.alias("second")), "get index is out of bounds, in col(\"l\").list.get([1]), for the row {'l': [1]}; null_on_oob=True gives null"),
    "filter": (lambda s: s.filter(GET > 1), "out of bounds, in (col(\"l\").list.get([1])) > 1, for the row {'l': [1]}; null_on_oob=True"),
    "aggregate": (lambda s: s.group_by("x").agg(GET.max()), "out of bounds, in col(\"l\").list.get([1]), for the row {'l': [1]}; null_on_oob=True"),
    "of several": (lambda s: s.select("x", a=pl.col("x") + "b", b=GET), "out of bounds, in col(\"l\").list.get([1]), for the row {'l': [1]}"),
}  # fmt: skip


@pytest.mark.parametrize("plan", OF_ROWS)
def test_the_expression_and_the_row_on_which_it_fails_are_named(plan: str) -> None:
    build, words = OF_ROWS[plan]
    engine = ec.Engine()
    view = engine.view("v", build(engine.source("s", {"x": pl.String, "l": pl.List(pl.Int64)})))
    with pytest.raises(ec.InputError) as caught:
        engine.push("s", {"x": ["a"], "l": [[1]]})
    assert words in str(caught.value)
    assert str(caught.value).startswith("view 'v': ")
    with pytest.raises(ec.InputError, match=r"out of bounds, in|for 2 out of 4 values") as caught:
        engine.push("s", {"x": ["7", "7", "a", "b"], "l": [[1, 2], [1, 2], [1], []]})
    assert "for the row {'x': 'a'}" in str(caught.value) or "for the row {'l': [1]}" in str(caught.value)
    assert view.read().is_empty()


def test_a_function_that_returns_no_frame_is_refused_when_it_is_declared() -> None:
    rows = ec.Engine().source("s", {"x": pl.String})
    with pytest.raises(
        ec.PlanError,
        match=r"map_batches on source 's': the function returned NoneType .* return a polars DataFrame",
    ):
        rows.map_batches(lambda frame: None)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("to", [pl.Float64, pl.Boolean, pl.List(pl.Int64)], ids=str)
def test_a_struct_is_cast_to_structs_and_text_alone(to: Any) -> None:
    """polars returns a struct for values, and claims the other type before."""
    pair = pl.Struct({"a": pl.Int64, "of": pl.Struct({"b": pl.Int64})})
    rows = ec.Engine().source("s", {"k": pl.String, "v": pair})
    v, expected = pl.col("v"), r"strict_cast\(.*\): polars casts the fields of a struct.*; cast a field"
    for struct in (v, v.struct.field("of"), pl.struct("k", "v")):
        for aggregate in (struct.cast(to).first(), struct.cast(to).count(), struct.cast(to).sort().implode()):
            with pytest.raises(ec.PlanError, match=expected):
                rows.group_by("k").agg(aggregate.alias("x"))
        with pytest.raises(ec.PlanError, match=expected):
            rows.select(x=struct.cast(to))
    rows.select(
        "k", v.cast(pl.Struct({"a": pl.Float64})), t=v.cast(pl.String), a=v.struct.field("a").cast(pl.Float64)
    )
