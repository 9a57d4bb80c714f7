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
