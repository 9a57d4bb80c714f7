"""More bugs that a review found, of the state after the first were mended. Whoever mends one deletes its mark."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import evercurrent as ec
import evercurrent.core.reading as reading_module
from evercurrent.core.schema import DIFF
from harness import circuit_of


def bug(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.xfail(strict=True, reason=reason)


@bug("sums of diffs wrap around where they are not checked, and the check itself wraps")
@pytest.mark.parametrize("how", ["group", "unique"])
def test_counts_beyond_63_bits_are_refused(how: str) -> None:
    engine = ec.Engine()
    a, b = (engine.source(name, {"k": pl.Int64, name: pl.Int64}, kind="diffs") for name in "ab")
    joined = a.join(b, on="k").select("k")
    engine.view("v", joined.unique() if how == "unique" else joined.group_by().agg(pl.len()))
    many = 2**31 - 1
    engine.push("a", {"k": [1, 1], "a": [1, 2], DIFF: [many, many]})
    with pytest.raises(ec.ArithmeticRefusedError):
        engine.push("b", {"k": [1, 1], "b": [1, 2], DIFF: [many, many]})


@bug("a group that is gone keeps a state that is not, byte for byte, the one with which it began")
def test_a_group_that_is_gone_leaves_no_state_of_an_inverted_aggregate() -> None:
    total = ec.aggregate(
        create=lambda: 0.0,
        add=lambda state, values: state + sum(values.to_list()),
        remove=lambda state, values: state - sum(values.to_list()),
        merge=lambda one, other: one + other,
        extract=lambda state: state,
        dtype=pl.Float64,
    )
    engine = ec.Engine()
    source = engine.source("a", {"k": pl.Int64, "x": pl.Float64}, kind="diffs")
    engine.view("v", source.group_by("k").agg(u=total(pl.col("x"))))
    for diff in (1, -1):
        for value in (0.1, 0.2):
            engine.push("a", {"k": [1], "x": [value], DIFF: [diff]})
    assert [state.entries for state in circuit_of(engine).states] == [0] * len(circuit_of(engine).states)


@bug("the spread of n values is rounded after it was multiplied by n * n")
def test_a_variance_that_is_finite_is_not_infinite() -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("a", {"x": pl.Float64}).group_by().agg(u=pl.col("x").var()))
    rows = pl.DataFrame({"x": [1e152, 3e152] * 500})
    engine.push("a", rows)
    assert view.read()["u"][0] == pytest.approx(rows["x"].var(), rel=1e-9)


@bug("zeros inside lists keep their signs until they are exploded")
def test_zeros_out_of_lists_have_one_sign() -> None:
    engine = ec.Engine()
    source = engine.source("a", {"x": pl.List(pl.Float64)}, kind="diffs")
    view = engine.view("v", source.explode("x").select(inverse=1 / pl.col("x")))
    engine.push("a", {"x": [[0.0]]})
    engine.push("a", {"x": [[-0.0]], DIFF: [-1]})
    assert view.read().height == 0


@bug("wide integers go through Decimal(38, 0), which does not hold all of them")
@pytest.mark.parametrize(
    ("dtype", "value"), [(pl.Int128(), 2**127 - 1), (pl.UInt128(), 2**128 - 1)], ids=["Int128", "UInt128"]
)
def test_sums_of_the_widest_integers(dtype: pl.DataType, value: int) -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("a", {"x": dtype}).group_by().agg(u=pl.col("x").sum()))
    engine.push("a", pl.DataFrame({"x": pl.Series([value], dtype=dtype)}))
    assert view.read()["u"].to_list() == [value]


@bug("an aggregate is asked to add, and to remove, no values at all")
def test_a_users_aggregate_is_not_given_nothing() -> None:
    sizes: list[int] = []

    def counting(state: int, values: pl.Series) -> int:
        sizes.append(len(values))
        return state

    engine = ec.Engine()
    source = engine.source("a", {"k": pl.Int64, "x": pl.Int64}, kind="diffs")
    made = ec.aggregate(
        create=lambda: 0,
        add=counting,
        remove=counting,
        merge=lambda one, other: one,
        extract=lambda state: state,
        dtype=pl.Int64,
    )
    engine.view("v", source.group_by("k").agg(u=made(pl.col("x"))))
    engine.push("a", {"k": [1], "x": [1]})
    assert 0 not in sizes


@bug("before the epoch the group has no rows, and to be sure of that all new ones are read")
def test_the_first_rows_of_a_new_group_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    read, original = [0], reading_module.expand

    def counting(lower: Any, upper: Any) -> Any:
        read[0] += int((upper - lower).sum())
        return original(lower, upper)

    monkeypatch.setattr(reading_module, "expand", counting)
    engine = ec.Engine()
    engine.view("v", engine.source("a", {"x": pl.Int64}).group_by().agg(u=pl.col("x").min()))
    engine.push("a", {"x": range(5_000)})
    assert read[0] < 100
