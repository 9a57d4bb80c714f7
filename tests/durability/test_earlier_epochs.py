"""A view as of an earlier epoch is read at the cost of its own states, and the plan is compiled for it once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.state.protocol import State
from evercurrent.views.durability import time_travel

EPOCHS = 4


def declared(path: Path) -> ec.Engine:
    engine = ec.Engine(checkpoint=ec.Checkpoint(path, keep=EPOCHS))
    rows = engine.source("rows", {"k": pl.Int64, "v": pl.Int64}, kind="diffs")
    engine.view("sums", rows.group_by("k").agg(total=pl.col("v").sum()))
    engine.view("middles", rows.group_by("k").agg(middle=pl.col("v").median()))
    return engine


class Watched:
    """What is compiled and restored to read earlier epochs."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.compiled = 0
        self.restored: list[frozenset[str]] = []
        compile_plan, watched = time_travel.compile_plan, self

        def compiled(*args: Any, **options: Any) -> Any:
            self.compiled += 1
            return compile_plan(*args, **options)

        class Saver(time_travel.Saver):
            def restore(self, states: Mapping[str, State], records: Mapping[str, Any]) -> None:
                if records:
                    watched.restored.append(frozenset(states))
                super().restore(states, records)

        patch.setattr(time_travel, "compile_plan", compiled)
        patch.setattr(time_travel, "Saver", Saver)


def test_only_states_of_the_view_are_read_and_the_plan_is_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(monkeypatch)
    with declared(tmp_path) as engine:
        for number in range(EPOCHS):
            engine.push("rows", {"k": [1, 2], "v": [number, 10 * number]})
            engine.checkpoint()
        last = engine.epoch_number
        for epoch, (total, middle) in zip(range(last - 2, last), [(1, 0.5), (3, 1.0)], strict=True):
            sums, middles = (engine.views[name].read(epoch=epoch) for name in ("sums", "middles"))
            assert sums.sort("k").rows() == [(1, total), (2, 10 * total)]
            assert middles.sort("k").rows() == [(1, middle), (2, 10 * middle)]
    assert watched.compiled == 1
    of_sums, of_middles = watched.restored[:2]
    assert watched.restored == [of_sums, of_middles] * 2
    assert len(of_sums) == 1
    assert not any("ledger" in name for name in of_sums | of_middles)


def test_nothing_of_one_epoch_is_left_for_another(tmp_path: Path) -> None:
    """Rows that are gone, a view that is empty then, and the epoch before it again."""
    with declared(tmp_path) as engine:
        for diff in (1, -1, 1):
            engine.push("rows", {"k": [1], "v": [7], "_diff": [diff]})
            engine.checkpoint()
        last, sums, middles = engine.epoch_number, engine.views["sums"], engine.views["middles"]
        for epoch, rows in ((last - 2, 1), (last - 1, 0), (last - 2, 1), (last, 1)):
            assert (sums.read(epoch=epoch).height, middles.read(epoch=epoch).height) == (rows, rows)


def test_an_epoch_before_the_present_definition_is_refused_with_where_that_begins(tmp_path: Path) -> None:
    for dtype in (pl.Int32, pl.Int64):
        with ec.Engine(checkpoint=tmp_path) as engine:
            rows = engine.source("rows", {"v": dtype})
            view = engine.view("now", rows)
            for _ in range(4):
                rows.push({"v": [1]})
            if dtype == pl.Int64:
                late = engine.view("late", view.select(w="v"))
                with pytest.raises(
                    ec.EpochGoneError,
                    match="view 'now': after epoch 3 the view or a source of it had another definition; its present definition "
                    "begins at epoch 5: read epoch 5 or a later one",
                ):
                    view.read(epoch=3)
                with pytest.raises(
                    ec.EpochGoneError,
                    match=f"view 'late': after epoch 7 the view did not exist; .* begins at epoch {late.first_epoch}: read",
                ):
                    late.read(epoch=7)
                assert view.read(epoch=5).height == 4
