"""Changes added up by group before they are sent: parts of a change, added up and then stepped, are the change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
from driven import START, Driven, Step
from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import ArithmeticRefusedError
from evercurrent.core.data.schema import DIFF
from evercurrent.core.operators.group import accumulators
from evercurrent.core.operators.group.group_by import GroupBy
from strategies import of_profile

COLUMNS = {
    "k": pl.String(),
    "j": pl.Int64(),
    "v": pl.Int64(),
    "f": pl.Float64(),
    "b": pl.Boolean(),
    "d": pl.Decimal(20, 2),
}

FLOATS = [0.0, -0.0, 1.5, 1e300, -1e300, 5e-324, float("inf"), float("nan"), None, 0.1]
VALUES: list[list[Any]] = [
    ["a", "b", None], [1, 2, None], [0, 7, -(2**40), 2**62, None], FLOATS, [True, False, None], ["1.25", "-99.50", None],
]  # fmt: skip

AGGREGATIONS: dict[str, Callable[[Any], Any]] = {
    "one word": lambda a: a.group_by("j").agg(n=pl.len(), f=pl.col("f").sum()),
    "hashed": lambda a: a.group_by("k", "j").agg(
        f=pl.col("f").sum(), c=pl.col("v").count(), b=pl.col("b").any()
    ),
    "moments": lambda a: a.group_by("k").agg(m=pl.col("f").mean(), s=pl.col("j").var(), d=pl.col("d").sum()),
    "all rows": lambda a: a.group_by().agg(n=pl.len(), m=pl.col("f").mean(), j=pl.col("j").sum()),
    "none but rows": lambda a: a.group_by("k").agg(n=pl.len()),
}


def rows() -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(*map(st.sampled_from, VALUES), st.sampled_from([1, 1, 2, -1]))


def frame_of(found: list[tuple[Any, ...]]) -> pl.DataFrame:
    cells = list(zip(*found, strict=True)) or [()] * (len(COLUMNS) + 1)
    names = [*COLUMNS, DIFF]
    types = [*COLUMNS.values(), pl.Int64()]
    return pl.DataFrame(
        [
            pl.Series(name, list(column), pl.String if dtype.is_decimal() else dtype).cast(dtype)
            for name, column, dtype in zip(names, cells, types, strict=True)
        ]
    )


def grouping_of(driven: Driven) -> tuple[int, GroupBy]:
    ((place, operator),) = [
        (place, node.operator)
        for place, node in enumerate(driven.circuit.nodes)
        if isinstance(node.operator, GroupBy)
    ]
    return place, operator


def plan_of(made: Callable[[Any], Any]) -> Any:
    engine = ec.Engine()
    engine.view("v", made(engine.source("a", COLUMNS, kind="diffs", trusted=True)))
    return engine._plan


def prepared(driven: Driven, frame: pl.DataFrame) -> list[pl.DataFrame]:
    """The inputs of the grouping, of these rows alone."""
    place, _ = grouping_of(driven)
    fresh = Driven(driven.plan)
    deltas = fresh.step(Step({"a": frame}))
    return [deltas[source] for source in driven.circuit.nodes[place].inputs]


def exactly(frame: pl.DataFrame) -> str:
    """Rows in their order, to the bit; what a null hides does not count."""
    return f"{frame.schema} {frame.rows()!r}"


def in_parts(operator: GroupBy, frame: pl.DataFrame, owners: list[int]) -> Delta:
    """The rows cut into parts, each added up, one after the other."""
    parts = []
    for part in range(4):
        mine = frame.filter(pl.Series([owner % 4 == part for owner in owners], dtype=pl.Boolean))
        if mine.height:
            combined = operator.combine(Delta(mine))
            assert combined is not None
            assert combined.frame.columns[-1] == DIFF
            keys = combined.frame.select(operator._spec.keys.names())
            assert (
                keys.width == 0 or keys.is_duplicated().sum() == 0
            )  # polars takes a frame of no columns since 2.0.
            assert combined.frame.height <= mine.height
            parts.append(combined.frame)
    return Delta(pl.concat(parts, how="diagonal") if parts else frame)


@of_profile(1.0, quick=40)
@given(
    name=st.sampled_from(sorted(AGGREGATIONS)),
    epochs=st.lists(st.lists(rows(), max_size=12), min_size=1, max_size=3),
    owners=st.lists(st.integers(0, 3), min_size=12, max_size=12),
)
def test_parts_that_were_added_up_are_the_change(name: str, epochs: list[Any], owners: list[int]) -> None:
    plan = plan_of(AGGREGATIONS[name])
    whole, split = Driven(plan), Driven(plan)
    _, one = grouping_of(whole)
    _, other = grouping_of(split)
    assert one.may_combine
    for number, found in enumerate(epochs, 1):
        now = Now(Epoch(number), START)
        (given,) = prepared(whole, frame_of(found))
        try:
            ours = one.step(now, Delta(given))
        except ArithmeticRefusedError:
            with pytest.raises(ArithmeticRefusedError):
                other.step(now, in_parts(other, given, owners[: given.height]))
            return
        theirs = other.step(now, in_parts(other, given, owners[: given.height]))
        assert exactly(ours.frame) == exactly(theirs.frame)
        for operator in (one, other):
            operator.spine.commit()
    assert exactly(one.contents()) == exactly(other.contents())


def test_what_is_counted_and_read_elsewhere_comes_beside() -> None:
    """Numbers of different values and extremes: the first input is added up, the others are as they are."""
    plan = plan_of(
        lambda a: a.group_by("k").agg(
            n=pl.len(), u=pl.col("j").n_unique(), low=pl.col("v").min(), f=pl.col("f").sum()
        )
    )
    whole, split = Driven(plan), Driven(plan)
    place, operator = grouping_of(split)
    step = operator.step
    operator.step = lambda now, first, *rest: step(now, operator.combine(first), *rest)  # type: ignore[method-assign,arg-type]
    draw = np.random.default_rng(1)
    held: list[pl.DataFrame] = []
    for _ in range(6):
        found = [(*(values[draw.integers(len(values))] for values in VALUES), 1) for _ in range(20)]
        frame = frame_of(found).with_columns(pl.lit(1.5).alias("f"), pl.col("v") % 9)
        gone = [held.pop().with_columns(-pl.col(DIFF))] if len(held) > 1 else []
        held.append(frame)
        ours, theirs = (driven.step(Step({"a": pl.concat([frame, *gone])})) for driven in (whole, split))
        assert exactly(ours[place]) == exactly(theirs[place])
    assert exactly(whole.contents()[0]) == exactly(split.contents()[0])


def test_a_group_whose_sums_stay_is_touched_all_the_same() -> None:
    """Another row of the same value came for one that went: the extreme of another column may be another one."""
    _, operator = grouping_of(Driven(plan_of(AGGREGATIONS["none but rows"])))
    combined = operator.combine(Delta(pl.DataFrame({"k": ["a", "a"], DIFF: [1, -1]})))
    assert combined is not None
    assert combined.frame.rows(named=True) == [{"k": "a", "sum:length": 0, "sum:entries": 2, DIFF: 1}]


def test_what_cannot_be_added_up_is_not_combined() -> None:
    total = ec.aggregate(
        create=lambda: 0, add=lambda s, v: s + v.len(), remove=lambda s, v: s - v.len(), merge=lambda s, t: s + t,
        extract=lambda s: s, dtype=pl.Int64(),
    )  # fmt: skip
    _, operator = grouping_of(Driven(plan_of(lambda a: a.group_by("k").agg(t=total(pl.col("v"))))))
    assert not operator.may_combine
    assert operator.combine(Delta(pl.DataFrame({"k": ["a"], "v": [1], DIFF: [1]}))) is None


def test_columns_of_a_user_that_are_named_as_sums_are_not_taken_for_them() -> None:
    engine = ec.Engine()
    names = {"k": pl.Int64(), "sum:length": pl.Int64(), "sum:entries": pl.Int64()}
    source = engine.source("a", names)
    view = engine.view(
        "v", source.group_by("k").agg(x=pl.col("sum:length").sum(), y=pl.col("sum:entries").max())
    )
    other = engine.view("w", source.group_by("sum:entries").agg(z=pl.col("sum:length").sum()))
    engine.push("a", pl.DataFrame({"k": [1, 1], "sum:length": [5, 6], "sum:entries": [7, 8]}))
    assert view.read().rows() == [(1, 11, 8)]
    assert sorted(other.read().rows()) == [(7, 5), (8, 6)]


def test_rows_of_one_bucket_may_be_added_up_and_those_of_another_not() -> None:
    """Few rows always are, many only where their groups are far fewer: both meet in the bucket of their group."""
    engine = ec.Engine(workers=2)
    left = engine.source("left", {"j": pl.String, "s": pl.Int64, "v": pl.Int64})
    right = engine.source("right", {"j": pl.String})
    groups = left.join(right, on="j", how="right").group_by("s").agg(n=pl.len(), v=pl.col("v").sum())
    view = engine.view("v", groups)
    with engine.epoch():
        left.push({"j": ["x"] * 1000, "s": range(1000), "v": range(1000)})
        right.push({"j": ["x", "y"]})
    expected = [(None, 1, 0), *((number, 1, number) for number in range(1000))]
    assert sorted(view.read().rows(), key=str) == sorted(expected, key=str)


def test_a_key_of_a_user_that_is_named_as_a_sum_is_no_sum_in_workers_either() -> None:
    engine = ec.Engine(workers=2)
    source = engine.source("a", {"k": pl.Int64, "sum:length": pl.Int64})
    rows = source.group_by("k", "sum:length").agg(n=pl.len())
    view = engine.view("v", rows.group_by("sum:length").agg(m=pl.len()))
    source.push({"k": [1, 2, 2], "sum:length": [7, 7, 8]})
    assert sorted(view.read().rows()) == [(7, 2), (8, 1)]


def test_too_many_rows_in_all_parts_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _, operator = grouping_of(Driven(plan_of(AGGREGATIONS["none but rows"])))
    monkeypatch.setattr(accumulators, "MOST_ROWS", 10)
    part = operator.combine(Delta(pl.DataFrame({"k": ["a", "a"], DIFF: [3, -3]})))
    assert part is not None
    operator.step(Now(Epoch(1), START), part)
    with pytest.raises(
        ArithmeticRefusedError,
        match="smaller batches, and a row whose '_diff' alone is that large in several pushes",
    ):
        operator.step(Now(Epoch(2), START), Delta(pl.concat([part.frame, part.frame])))
