"""A batch whose position was reached is skipped: what is offered twice counts once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
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


@pytest.mark.parametrize(
    "position", [True, -1, 1.0, 2**63, "", [], {}, {"a": 1.5}, {1.5: 1}, ["a", None], {"a": {}}, b"1"]
)
def test_what_is_no_position_is_refused(position: Any) -> None:
    engine = started()
    with pytest.raises(ec.InputError, match="position="):
        engine.push("one", {"x": [1]}, position=position)
    assert engine.epoch_number == 0


HALF = "x\ud800.csv"


@pytest.mark.parametrize("position", [HALF, [HALF, 1], {HALF: 1}, {"a": {HALF: 1}}], ids=ascii)
@pytest.mark.parametrize("order", [None, str], ids=["plain", "ordered"])
def test_a_position_that_no_file_can_hold_is_refused_by_source(
    position: Any, order: Any, tmp_path: Path
) -> None:
    with ec.Engine(checkpoint=tmp_path) as engine:
        source = engine.source("one", {"x": pl.Int64}, position_order=order)
        engine.view("rows", source)
        with pytest.raises(
            ec.InputError, match=r"source 'one': position=.* is not a position: .*half of a character"
        ):
            engine.push("one", {"x": [1]}, position=position)
        assert engine.epoch_number == 0
        assert engine.push("one", {"x": [1]}, position="x") == 1


def test_two_partitions_of_one_name_are_refused() -> None:
    engine = started()
    with pytest.raises(ec.InputError, match="which are kept as one text"):
        engine.push("one", {"x": [1]}, position={1: 2, "1": 3})
    assert engine.positions == {}


def test_whole_numbers_of_numpy_are_whole_numbers(tmp_path: Path) -> None:
    with started(tmp_path) as engine:
        assert pushed(engine, np.int64(3), np.uint8(3), 4, np.int32(4)) == [1, 1, 2, 2]
        engine.push("other", {"x": [], "at": []}, position={np.int16(1): np.int64(7)})
    with started(tmp_path) as engine:
        assert engine.positions == {"one": 4, "other": {"1": 7}}


def test_positions_outlive_the_process(tmp_path: Path) -> None:
    with started(tmp_path) as engine:
        engine.push("one", {"x": [1]}, position=3)
    with started(tmp_path) as engine:
        assert engine.push("one", {"x": [1]}, position=3) == 1
        assert engine.push("one", {"x": [2]}, position=4) == 2
    with started(tmp_path) as engine:
        assert engine.positions == {"one": 4}
        assert contents(engine.views["rows"]).counts == {(1,): 1, (2,): 1}


def pushed(engine: ec.Engine, *positions: Any) -> list[int]:
    """The epochs of batches at these positions."""
    return [engine.push("one", {"x": [1]}, position=position) for position in positions]


GROWING: dict[str, tuple[list[Any], Any]] = {
    "numbers": ([0, 5, 6], 6),
    "texts": (["0016B374", "0016B37A", "0016C000"], "0016C000"),
    "files and lines": ([("a-01.csv", 10), ("a-01.csv", 20), ["a-02.csv", 0]], ["a-02.csv", 0]),
    "partitions": ([{0: 5}, {1: 3}, {0: 6, 1: 3}], {"0": 6, "1": 3}),
    "topics": ([{"t": {0: 5}}, {"t": {1: 1}, "u": {0: 0}}], {"t": {"0": 5, "1": 1}, "u": {"0": 0}}),
}


@pytest.mark.parametrize("kind", GROWING)
def test_positions_of_any_form_outlive_the_process_and_count_once(kind: str, tmp_path: Path) -> None:
    positions, last = GROWING[kind]
    epochs = list(range(1, len(positions) + 1))
    with started(tmp_path) as engine:
        assert pushed(engine, *positions) == epochs
        assert pushed(engine, *positions) == [epochs[-1]] * len(positions)
        assert engine.positions == {"one": last}
    with started(tmp_path) as engine:
        assert engine.positions == {"one": last}
        assert pushed(engine, *positions) == [epochs[-1]] * len(positions)


BACK: dict[str, tuple[Any, Any, str]] = {
    "in one partition": (
        {0: 5, 1: 7},
        {0: 6, 1: 6},
        "advances in 0 and goes back in 1, which was taken up to 7",
    ),
    "a number behind a map": ({0: 5}, 6, "has another form"),
    "a text behind a number": (5, "6", "are of two types"),
    "texts of any length": ("9", "10", "texts of different lengths"),
    "lists of other parts": (["a", 1], [1, "a"], "are of two types"),
}


@pytest.mark.parametrize("case", BACK)
def test_a_position_that_goes_back_or_has_no_order_is_refused_by_name(case: str) -> None:
    before, position, words = BACK[case]
    engine = started()
    pushed(engine, before)
    for _ in range(2):
        with pytest.raises(
            ec.InputError, match=f"source 'one': position=.*{words}.*the source was taken up to"
        ):
            pushed(engine, position)
    with pytest.raises(ec.InputError, match=words), engine.epoch():
        pushed(engine, position)
    assert engine.epoch_number == 1
    assert pushed(engine, before) == [1]


def test_a_source_declares_how_its_positions_are_compared(tmp_path: Path) -> None:
    def of_postgres() -> ec.Engine:
        engine = ec.Engine(checkpoint=tmp_path)
        source = engine.source(
            "one", {"x": pl.Int64}, position_order=lambda lsn: [int(part, 16) for part in lsn.split("/")]
        )
        engine.view("rows", source)
        return engine

    with of_postgres() as engine:
        assert pushed(engine, "0/9", "0/10", "0/F", "1/0") == [1, 2, 2, 3]
        with pytest.raises(ec.InputError, match="position='zero' is not a position: invalid literal"):
            pushed(engine, "zero")
    with of_postgres() as engine:
        assert pushed(engine, "0/FFFFFFFF", "1/1") == [3, 4]
    with pytest.raises(ec.PlanError, match="position_order="):
        ec.Engine().source("one", {"x": pl.Int64}, position_order=5)  # type: ignore[arg-type]


def test_batches_of_an_epoch_move_their_partitions() -> None:
    engine = started()
    with engine.epoch():
        pushed(engine, {0: 1}, {1: 5}, {0: 1})
    assert engine.positions == {"one": {"0": 1, "1": 5}}
    assert contents(engine.views["rows"]).counts == {(1,): 2}
    engine.positions["one"]["0"] = 99
    assert engine.positions == {"one": {"0": 1, "1": 5}}


@pytest.mark.parametrize(
    ("position", "words"),
    [
        ({0: 5, "0": 7}, "the partitions 0 and '0', which are kept as one text"),
        ({"a": {"1": 2, 1: 2}}, "the partitions '1' and 1"),
        ("\ud800", "half of a character"),
        ({"\ud800": 1}, "half of a character"),
        (["a", "\udfff"], "half of a character"),
    ],
)
@pytest.mark.parametrize("order", [None, str], ids=["no order", "an order"])
def test_a_position_that_cannot_be_kept_as_it_is_is_refused(
    position: Any, words: str, order: Any, tmp_path: Path
) -> None:
    engine = ec.Engine(checkpoint=tmp_path)
    engine.view("rows", engine.source("one", {"x": pl.Int64}, position_order=order))
    with pytest.raises(ec.InputError, match=f"source 'one': position=.* is not a position: .*{words}"):
        engine.push("one", {"x": [1]}, position=position)
    engine.push("one", {"x": [1]}, position="a")
    engine.close()
