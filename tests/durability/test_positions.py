"""A batch whose position was reached is skipped: what is offered twice counts once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from harness import contents


def started(checkpoint: Any = None) -> ec.Engine:
    engine = ec.Engine(checkpoint=checkpoint)
    one = engine.source("one", {"x": pl.Int64})
    other = engine.source("other", {"x": pl.Int64, "at": pl.Datetime("us")}, event_time="at")
    engine.view("rows", one.concat(other.select("x")))
    return engine


def test_a_batch_counts_once_and_positions_may_have_gaps() -> None:
    engine = started()
    assert engine.positions == {}
    assert engine.push("one", {"x": [1]}, position=5) == 1
    assert engine.push("one", {"x": [1]}, position=5) == 1
    assert engine.push("one", {"x": [1]}, position=0) == 1
    assert engine.push("one", {"x": [2]}, position=90) == 2
    assert engine.push("other", {"x": [3], "at": pl.Series([0]).cast(pl.Datetime("us"))}, position=5) == 3
    assert engine.positions == {"one": 90, "other": 5}
    assert contents(engine.views["rows"]).counts == {(1,): 1, (2,): 1, (3,): 1}
    assert engine.push("one", {"x": [1]}) == 4, "without a position nothing is skipped"
    assert engine.positions == {"one": 90, "other": 5}


def test_an_empty_batch_has_a_position_too() -> None:
    engine = started()
    assert engine.push("one", pl.DataFrame(schema={"x": pl.Int64}), position=1) == 1
    assert engine.positions == {"one": 1}
    assert engine.push("one", {"x": [1]}, position=1) == 1


def test_what_is_skipped_is_not_looked_at() -> None:
    engine = started()
    engine.push("one", {"x": [1]}, position=1)
    assert engine.push("one", {"y": ["no such column"]}, position=1) == 1
    with pytest.raises(ec.InputError, match="'y'"):
        engine.push("one", {"y": ["no such column"]}, position=2)
    assert engine.positions == {"one": 1}
    assert engine.push("one", {"x": [2]}, position=2) == 2


def test_an_open_epoch_of_old_batches_is_none() -> None:
    engine = started()
    with engine.epoch():
        engine.push("one", {"x": [1]}, position=1)
        engine.push("one", {"x": [2]}, position=2)
        assert engine.push("one", {"x": [2]}, position=2) == 0
    assert engine.epoch_number == 1
    with engine.epoch():
        engine.push("one", {"x": [1]}, position=1)
        engine.push("one", {"x": [2]}, position=2)
    assert engine.epoch_number == 1
    with engine.epoch():
        engine.push("one", {"x": [2]}, position=2)
        engine.push("one", {"x": [3]}, position=3)
    assert engine.epoch_number == 2
    with engine.epoch():
        pass
    assert engine.epoch_number == 3, "an epoch that nobody has repeated is a tick"
    assert contents(engine.views["rows"]).counts == {(1,): 1, (2,): 1, (3,): 1}


def test_a_watermark_that_goes_with_old_rows_is_old() -> None:
    engine = started()
    rows = pl.DataFrame({"x": [1], "at": pl.Series([0]).cast(pl.Datetime("us"))})
    engine.push("other", rows, position=1)
    engine.push("other", rows, position=1, watermark=ec.END_OF_TIME)
    assert engine.watermarks == {"other": None}


def test_an_epoch_that_fails_has_no_positions() -> None:
    engine = started()
    with pytest.raises(ZeroDivisionError), engine.epoch():  # noqa: PT012
        engine.push("one", {"x": [1]}, position=1)
        raise ZeroDivisionError
    assert engine.positions == {}
    with engine.epoch():
        with pytest.raises(ec.InputError):
            engine.push("one", {"x": ["text"]}, position=1)
        engine.push("one", {"x": [1]}, position=1)
    assert contents(engine.views["rows"]).counts == {(1,): 1}


@pytest.mark.parametrize("position", [True, -1, 1.0, "1", 2**63])
def test_a_position_is_a_whole_number(position: Any) -> None:
    engine = started()
    with pytest.raises(ec.InputError, match="position="):
        engine.push("one", {"x": [1]}, position=position)
    assert engine.epoch_number == 0


def test_positions_outlive_the_process(tmp_path: Path) -> None:
    with started(tmp_path) as engine:
        engine.push("one", {"x": [1]}, position=3)
    with started(tmp_path) as engine:
        assert engine.push("one", {"x": [1]}, position=3) == 1
        assert engine.push("one", {"x": [2]}, position=4) == 2
    with started(tmp_path) as engine:
        assert engine.positions == {"one": 4}
        assert contents(engine.views["rows"]).counts == {(1,): 1, (2,): 1}
