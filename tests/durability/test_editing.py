"""The program is edited between two runs: what computes the same keeps its state, what is new is filled or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from durability.observing import all_of, delta_epochs, differences, frame_bytes, held

COLUMNS = {"k": pl.Int64, "x": pl.Int64}


class App:
    """A program as text: the views, by name, over a source."""

    def __init__(self, path: Any, views: dict[str, str], *, retained: bool = True, **options: Any) -> None:
        checkpoint = None if path is None else ec.Checkpoint(path, **options)
        self.engine = ec.Engine(checkpoint=checkpoint)
        named: dict[str, Any] = {"pl": pl, "ec": ec}
        named["a"] = self.engine.source("a", COLUMNS, kind="diffs", retained=retained)
        for name, text in views.items():
            named[name] = self.engine.view(name, eval(text, named))

    def push(self, *rows: tuple[int, int]) -> int:
        return self.engine.push("a", pl.DataFrame(list(rows), schema=COLUMNS, orient="row"))


TOTALS = "a.group_by('k').agg(pl.col('x').sum())"
LARGE = "totals.filter(pl.col('x') > 2)"
COUNTS = "a.group_by('k').agg(n=pl.len(), most=pl.col('x').max())"
HISTOGRAM = "counts.group_by('n').agg(keys=pl.len())"
ROWS = [[(1, 1), (2, 2)], [(1, 3), (3, 0)], [(2, -2), (4, 9)]]


def run(path: Path, views: dict[str, str], **options: Any) -> None:
    app = App(path, views, **options)
    with app.engine:
        for rows in ROWS:
            app.push(*rows)


def expected(views: dict[str, str], *more: list[tuple[int, int]]) -> dict[str, bytes]:
    """What the views hold if they have always been there."""
    app = App(None, views)
    for rows in [*ROWS, *more]:
        app.push(*rows)
    return held(app.engine)


def test_new_views_are_filled_in_an_epoch_of_their_own(tmp_path: Path) -> None:
    run(tmp_path, {"totals": TOTALS})
    views = {"totals": TOTALS, "large": LARGE, "counts": COUNTS, "histogram": HISTOGRAM}
    app = App(tmp_path, views)
    with app.engine as engine:
        assert engine.epoch_number == 4
        assert held(engine) == expected(views)
        assert delta_epochs(engine.views["histogram"].deltas()) == [4]
        assert delta_epochs(engine.views["totals"].deltas()) == [1, 2, 3]
        app.push((1, 5), (7, 7))
        assert held(engine) == expected(views, [(1, 5), (7, 7)])
        seen = all_of(engine)
    with App(tmp_path, views).engine as engine:
        assert differences(seen, all_of(engine)) == []
        assert delta_epochs(engine.views["histogram"].deltas()) == [4, 5]
        with pytest.raises(ec.EpochGoneError, match="its present definition begins at epoch"):
            engine.views["histogram"].deltas(since=2)
        with pytest.raises(ec.EpochGoneError, match="the view did not exist"):
            engine.views["histogram"].read(epoch=2)
        assert engine.views["totals"].read(epoch=2).height == 3


def test_declared_in_another_order_nothing_has_changed(tmp_path: Path) -> None:
    run(tmp_path, {"totals": TOTALS, "counts": COUNTS})
    with App(tmp_path, {"counts": COUNTS, "totals": TOTALS}).engine as engine:
        assert engine.epoch_number == 3
        assert held(engine) == expected({"counts": COUNTS, "totals": TOTALS})


def test_a_view_over_rows_that_are_gone_is_refused_and_nothing_has_changed(tmp_path: Path) -> None:
    run(tmp_path, {"totals": TOTALS}, retained=False)
    commits = sorted(file.name for file in (tmp_path / "commits").iterdir())
    views = {"totals": TOTALS, "counts": COUNTS}
    for _ in range(2):
        with pytest.raises(ec.CheckpointError, match=r"(?s)'counts'.*retained=True"):
            assert App(tmp_path, views, retained=False).engine.epoch_number
    assert sorted(file.name for file in (tmp_path / "commits").iterdir()) == commits
    views = {"totals": TOTALS, "large": LARGE}
    with App(tmp_path, views, retained=False).engine as engine:
        assert held(engine) == expected(views), "what is kept by a view is there"


def test_a_view_that_is_gone_has_to_be_let_go(tmp_path: Path) -> None:
    run(tmp_path, {"totals": TOTALS, "counts": COUNTS})
    with pytest.raises(ec.CheckpointError, match=r"'counts'.*drop="):
        assert App(tmp_path, {"totals": TOTALS}).engine.epoch_number
    app = App(tmp_path, {"totals": TOTALS}, drop=("counts",))
    with app.engine as engine:
        app.push((1, 1))
        assert held(engine) == expected({"totals": TOTALS}, [(1, 1)])
    with App(tmp_path, {"totals": TOTALS}).engine as engine:
        assert engine.epoch_number == 5, "one has recorded that it was let go"
    with App(tmp_path, {"totals": TOTALS, "counts": COUNTS}).engine as engine:
        assert held(engine) == expected({"totals": TOTALS, "counts": COUNTS}, [(1, 1)])
        assert delta_epochs(engine.views["counts"].deltas()) == [6], "not those of the one that was let go"


def test_another_name_for_the_same_is_another_view_and_has_its_state(tmp_path: Path) -> None:
    run(tmp_path, {"totals": TOTALS}, retained=False)
    with pytest.raises(ec.CheckpointError, match=r"'sums'.*drop="):
        assert App(tmp_path, {"sums": TOTALS}, retained=False).engine.epoch_number
    with App(tmp_path, {"sums": TOTALS}, retained=False, drop=("totals",)).engine as engine:
        assert held(engine) == expected({"sums": TOTALS})


def test_a_view_that_is_computed_otherwise_begins_anew_on_request(tmp_path: Path) -> None:
    run(tmp_path, {"totals": TOTALS, "counts": COUNTS})
    other = {"totals": TOTALS.replace("sum", "max"), "counts": COUNTS}
    with pytest.raises(ec.CheckpointError, match=r"'totals'.*drop="):
        assert App(tmp_path, other).engine.epoch_number
    with App(tmp_path, other, drop=("totals",)).engine as engine:
        assert held(engine) == expected(other)
        assert frame_bytes(engine.views["counts"].read(epoch=2)) != held(engine)["counts"]
        with pytest.raises(ec.EpochGoneError, match="had another definition"):
            engine.views["totals"].read(epoch=2)


def test_a_source_with_other_columns_is_refused(tmp_path: Path) -> None:
    run(tmp_path, {"totals": TOTALS})
    engine = ec.Engine(checkpoint=tmp_path)
    a = engine.source("a", {**COLUMNS, "x": pl.Float64}, kind="diffs", retained=True)
    engine.view("totals", a.group_by("k").agg(pl.col("x").sum()))
    with pytest.raises(ec.CheckpointError, match=r"source 'a'.*'x'.*Float64"):
        engine.push("a", {"k": [1], "x": [0.5]})
