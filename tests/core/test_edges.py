"""Edges at which the engine once gave way, each as small as it gets."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest

import evercurrent as ec
import evercurrent.core.data.delta as delta_module
import evercurrent.core.state.lookup as reading_module
import evercurrent.core.state.merge_policy as policy_module
from evercurrent.core.data.columns.kernels import key_words
from evercurrent.core.data.schema import DIFF
from evercurrent.core.state.merge_policy import FAN
from evercurrent.core.state.run import Layout, Run, make_run
from evercurrent.core.state.spine import Spine
from harness import circuit_of


def one(columns: dict[str, Any], plan: Any, *, trusted: bool = False) -> tuple[ec.Engine, ec.View]:
    engine = ec.Engine()
    return engine, engine.view("v", plan(engine.source("a", columns, kind="diffs", trusted=trusted)))


KX = {"k": pl.Int64, "x": pl.Int64}


# Signed zeros


def test_a_group_is_retracted_under_the_key_with_which_it_was_emitted() -> None:
    engine, view = one(
        {"k": pl.Float64},
        lambda a: a.group_by("k").agg(n=pl.len()).select("n", inverse=1 / pl.col("k")),
    )
    engine.push("a", {"k": [0.0]})
    engine.push("a", {"k": [-0.0]})
    assert view.read().height == 1


def test_a_row_and_its_retraction_give_the_same_expression() -> None:
    engine, view = one({"k": pl.Float64}, lambda a: a.select(inverse=1 / pl.col("k")))
    engine.push("a", {"k": [0.0]})
    engine.push("a", {"k": [-0.0], DIFF: [-1]})
    assert view.read().height == 0


# Arithmetic


VARIANCES = {
    "two large integers": (pl.Int64(), [2**60 - 1] * 2),
    "integers beyond 2^53": (pl.Int64(), [2**58 - 100 + 10 * at for at in range(10)]),
    "the largest unsigned": (pl.UInt64(), [2**64 - 1] * 2),
    "decimals": (pl.Decimal(30, 2), [Decimal(f"1000000000000.{cents}") for cents in (10, 11, 13, 20)]),
    "floats whose squares are infinite": (pl.Float64(), [1e200, 1e200]),
}


@pytest.mark.parametrize(("dtype", "values"), VARIANCES.values(), ids=VARIANCES)
def test_a_variance_is_near_that_of_polars(dtype: pl.DataType, values: list[Any]) -> None:
    engine, view = one({"x": dtype}, lambda a: a.group_by().agg(u=pl.col("x").var()))
    rows = pl.DataFrame({"x": pl.Series(values, dtype=dtype)})
    engine.push("a", rows)
    # That of the values, that of the floats next to them, or what polars makes of these: they are not far apart.
    allowed = [variance(map(Fraction, values)), variance(map(Fraction, map(float, values))), rows["x"].var()]
    assert view.read()["u"][0] in [pytest.approx(right, rel=1e-4, abs=1e-9) for right in allowed]


def variance(values: Iterable[Fraction]) -> float:
    numbers = list(values)
    mean = sum(numbers) / len(numbers)
    return float(sum((number - mean) ** 2 for number in numbers) / (len(numbers) - 1))


def test_the_mean_of_decimals_is_rounded_once() -> None:
    engine, view = one({"x": pl.Decimal(20, 2)}, lambda a: a.group_by().agg(u=pl.col("x").mean()))
    engine.push("a", {"x": [Decimal("-3.10"), Decimal("-3.10"), Decimal("0.00")]})
    assert view.read()["u"][0] == float(Decimal("-6.20") / 3)


@pytest.mark.parametrize("dtype", [pl.Int128(), pl.UInt128()], ids=str)
@pytest.mark.parametrize("how", ["min", "sum"])
def test_aggregates_of_wide_integers(dtype: pl.DataType, how: str) -> None:
    engine, view = one({"x": dtype}, lambda a: a.group_by().agg(u=getattr(pl.col("x"), how)()))
    for value in (2**100, 2**90):
        engine.push("a", pl.DataFrame({"x": pl.Series([value], dtype=dtype)}))
    assert view.read()["u"].to_list() == [2**90 if how == "min" else 2**100 + 2**90]


def test_a_join_whose_diffs_do_not_fit_is_refused() -> None:
    engine = ec.Engine()
    a, b = (engine.source(name, {"k": pl.Int64, name: pl.Int64}, kind="diffs") for name in "ab")
    engine.view("v", a.join(b, on="k").unique())
    engine.push("a", {"k": [1], "a": [1], DIFF: [2**22]})
    with pytest.raises(ec.ArithmeticRefusedError):
        engine.push("b", {"k": [1], "b": [1], DIFF: [2**22]})
    assert engine.push("b", {"k": [1], "b": [1]}) == 2


def test_a_batch_of_few_rows_is_not_refused_for_too_many() -> None:
    engine, view = one({"k": pl.Int64}, lambda a: a.group_by().agg(n=pl.len()))
    many = 2**15
    engine.push("a", pl.DataFrame({"k": range(many), DIFF: [2**15] + [1] * (many - 1)}))
    assert view.read()["n"].to_list() == [2**15 + many - 1]


# Groups that are not there


def test_what_is_computed_from_aggregates_is_computed_for_groups_that_exist() -> None:
    engine, view = one(KX, lambda a: a.group_by("k").agg(u=(pl.len() - 1).cast(pl.UInt8)))
    engine.push("a", {"k": [1, 1], "x": [1, 2]})
    assert view.read().rows() == [(1, 1)]


def test_an_inverted_aggregate_survives_a_retraction_that_comes_first() -> None:
    total = ec.aggregate(
        create=lambda: 0,
        add=lambda state, values: state + values.sum(),
        remove=lambda state, values: state - values.sum(),
        merge=lambda one, other: one + other,
        extract=lambda state: state,
        dtype=pl.Int64,
    )
    engine, view = one(KX, lambda a: a.group_by("k").agg(u=total(pl.col("x"))), trusted=True)
    engine.push("a", {"k": [1, 1], "x": [7, 8], DIFF: [1, -1]})
    engine.push("a", {"k": [1], "x": [8]})
    assert view.read().rows() == [(1, 7)]


# All or nothing


def test_an_interrupt_while_states_commit_leaves_all_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, view = one(KX, lambda a: a.group_by().agg(n=pl.len()))
    engine.push("a", {"k": [1], "x": [1]})
    first = circuit_of(engine).states[0]
    commit = first.commit

    def interrupted() -> None:
        commit()
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patches:
        patches.setattr(first, "commit", interrupted)
        with suppress(KeyboardInterrupt):
            engine.push("a", {"k": [2], "x": [2]})
    if engine.epoch_number == 1:
        engine.push("a", {"k": [2], "x": [2]})
    assert view.read()["n"].to_list() == [2]
    engine.push("a", {"k": [2, 2], "x": [2, 2], DIFF: [-1, -1]})
    assert engine.ledger().height == 1


def test_a_failure_while_deltas_are_published_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, view = one(KX, lambda a: a.select("k"))
    engine.push("a", {"k": [1], "x": [1]})

    def failing(*given: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patches:
        patches.setattr(delta_module, "consolidated", failing)
        with pytest.raises(MemoryError):  # Whether these rows cancel has to be known at once.
            engine.push("a", {"k": [2, 1], "x": [2, 1], DIFF: [1, -1]})
    assert sum(delta[DIFF].sum() for delta in view.deltas()) == view.read().height == 1
    assert engine.epoch_number == 1


def test_a_failure_while_a_delta_is_read_is_over_with_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*given: Any) -> Any:
        raise MemoryError

    engine, view = one(KX, lambda a: a.select("k"))
    with monkeypatch.context() as patches:
        patches.setattr(delta_module, "consolidated", failing)
        engine.push("a", {"k": [1, 2], "x": [1, 2]})
        with pytest.raises(MemoryError):
            list(view.deltas())
    engine.push("a", {"k": [3], "x": [3]})
    assert sum(delta[DIFF].sum() for delta in view.deltas()) == view.read().height == 3


def test_a_discarded_epoch_leaves_the_spine_as_it_was() -> None:
    def run(first: int, diff: int) -> Run:
        keys = key_words([pl.Series("k", range(first, first + 50))], 50)
        return make_run(Layout(), keys, pl.DataFrame(), {DIFF: np.full(50, diff)})

    spine = Spine(Layout())
    spine.stage(run(0, 1))
    spine.commit()
    spine.stage(run(100, -1))
    spine.discard()
    spine.stage(run(0, -1))
    spine.commit()
    assert spine.entries == 0


# Bounded work


def test_a_spine_has_few_runs_whatever_the_sizes_of_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_module, "FLOOR", 1)
    spine, held = Spine(Layout()), 0
    for epoch in range(1, 257):
        size, left = 1, epoch
        while left % FAN == 0:
            size, left = size * FAN, left // FAN
        keys = key_words([pl.Series("k", range(held, held + size))], size)
        spine.stage(make_run(Layout(), keys, pl.DataFrame(), {DIFF: np.ones(size, np.int64)}))
        spine.commit()
        held += size
    levels = 1 + math.ceil(math.log(held, FAN))
    assert len(spine.runs) <= (FAN - 1) * levels


def test_a_queue_costs_its_head_and_not_its_history(monkeypatch: pytest.MonkeyPatch) -> None:
    read, original = [0], reading_module.expand

    def counting(lower: Any, upper: Any) -> Any:
        read[0] += int((upper - lower).sum())
        return original(lower, upper)

    monkeypatch.setattr(reading_module, "expand", counting)
    engine, _ = one(KX, lambda a: a.group_by("k").agg(u=pl.col("x").min()), trusted=True)
    size, passing, epochs = 2**14, 50, 60
    engine.push("a", {"k": [0] * size, "x": range(size)})
    work = []
    for epoch in range(epochs):
        gone = np.arange(passing * epoch, passing * (epoch + 1))
        diffs = np.repeat([-1, 1], passing)
        before = read[0]
        engine.push("a", pl.DataFrame({"k": 0 * diffs, "x": np.append(gone, gone + size), DIFF: diffs}))
        work.append(read[0] - before)
    assert np.mean(work[-10:]) < 4 * np.mean(work[:10])


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


def test_a_variance_that_is_finite_is_not_infinite() -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("a", {"x": pl.Float64}).group_by().agg(u=pl.col("x").var()))
    rows = pl.DataFrame({"x": [1e152, 3e152] * 500})
    engine.push("a", rows)
    assert view.read()["u"][0] == pytest.approx(rows["x"].var(), rel=1e-9)


def test_zeros_out_of_lists_have_one_sign() -> None:
    engine = ec.Engine()
    source = engine.source("a", {"x": pl.List(pl.Float64)}, kind="diffs")
    view = engine.view("v", source.explode("x").select(inverse=1 / pl.col("x")))
    engine.push("a", {"x": [[0.0]]})
    engine.push("a", {"x": [[-0.0]], DIFF: [-1]})
    assert view.read().height == 0


@pytest.mark.parametrize(
    ("dtype", "value"), [(pl.Int128(), 2**127 - 1), (pl.UInt128(), 2**128 - 1)], ids=["Int128", "UInt128"]
)
def test_sums_of_the_widest_integers(dtype: pl.DataType, value: int) -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("a", {"x": dtype}).group_by().agg(u=pl.col("x").sum()))
    engine.push("a", pl.DataFrame({"x": pl.Series([value], dtype=dtype)}))
    assert view.read()["u"].to_list() == [value]


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
