"""A long run takes a short one up: into what a merge of both makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from evercurrent.core.data.columns.kernels import Keys, key_words
from evercurrent.core.state import run_merge as runs
from evercurrent.core.state.run import Layout, Run, make_run
from evercurrent.core.state.run_merge import merge

NOTHING = pl.DataFrame()


def made(layout: Layout, values: list[int | None], sums: dict[str, Any], *, seconds: bool) -> Run:
    column = pl.Series("k", values, pl.Int64)
    columns = [column, column.cast(pl.String).alias("s")] if seconds else [column]
    keys = key_words(columns, len(values))
    payload = pl.DataFrame([column]) if layout.payload else NOTHING
    return make_run(layout, keys, payload, {name: np.array(each, np.int64) for name, each in sums.items()})


def same(one: Run, other: Run) -> None:
    assert (one.keys.first == other.keys.first).all()
    assert (one.keys.second is None) == (other.keys.second is None)
    if one.keys.second is not None:
        assert (one.keys.second == other.keys.second).all()  # type: ignore[union-attr]
    assert one.payload.equals(other.payload)
    assert one.sums.keys() == other.sums.keys()
    for name, column in one.sums.items():
        assert (column == other.sums[name]).all()
    assert len(one) == len(other)
    everything = one.keys.take(np.arange(len(one)))
    if len(one):
        assert (one.match(everything)[1] == np.arange(len(one))).all()


@pytest.mark.parametrize("seconds", [False, True])
@pytest.mark.parametrize("payload", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_it_is_what_a_merge_makes(
    seconds: bool, payload: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = np.random.default_rng(seed)
    layout = Layout(pl.Schema({"k": pl.Int64()}) if payload else pl.Schema())
    size = int(chosen.choice([20, 300, 6000]))
    long = [*chosen.choice(size * 2, size, replace=False).tolist(), *([None] if seed % 3 == 0 else [])]
    parts = [
        made(
            layout,
            long,
            {"a": chosen.integers(1, 3, len(long)), "b": chosen.integers(0, 2, len(long))},
            seconds=seconds,
        )
    ]
    for _ in range(int(chosen.integers(1, 4))):
        few = chosen.choice(size * 2, size // 20, replace=False).tolist() if seed % 4 else long[: size // 20]
        few += [None] if seed % 2 and None not in few else []
        sums = {"a": chosen.integers(-2, 2, len(few)), "c": chosen.integers(0, 2, len(few))}
        parts.append(made(layout, few, sums, seconds=seconds))
    found = merge(layout, parts)
    monkeypatch.setattr(runs, "FEW_NEW", 0)
    taken_up = merge(layout, parts)
    monkeypatch.setattr(runs, "added_to", lambda large, small: None)
    merged = merge(layout, parts)
    assert merged.keys.first.tolist() == sorted(merged.keys.first.tolist())
    assert found.keys.first.tolist() == taken_up.keys.first.tolist() == merged.keys.first.tolist()
    same(found, merged)
    same(taken_up, merged)


def test_words_that_collide_are_sorted() -> None:
    layout = Layout()
    one = np.ones(9, np.int64)
    long = Run(Keys(np.arange(9).astype(np.uint64), np.arange(9).astype(np.uint64)), NOTHING, {"a": one})
    for second in (0, 4, 9):
        short = Run(Keys(np.array([4], np.uint64), np.array([second], np.uint64)), NOTHING, {"a": one[:1]})
        merged = merge(layout, [long, short])
        assert merged.keys.first.tolist() == sorted([*range(9), *([] if second == 4 else [4])])
        assert merged.sums["a"].sum() == 10
        assert merged.keys.seconds().tolist() == [0, 1, 2, 3, *sorted({4, second}), 5, 6, 7, 8]
