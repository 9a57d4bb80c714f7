"""Every sink holds what the view holds: after each epoch, after a restart, after a failure, after a gap."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from sink_places import Place, ordered

import evercurrent as ec
from evercurrent import Delivery


def counted(engine: ec.Engine) -> ec.View:
    words = engine.source("words", {"word": pl.String, "n": pl.Int64}, kind="diffs")
    return engine.view("counts", words.group_by("word").agg(n=pl.col("n").sum()))


def rows_of(view: ec.View) -> list[tuple]:
    return ordered(view.read().rows())


HISTORY = (
    {"word": ["a", "b", "a", None], "n": [1, 2, 3, 4]},
    {"word": ["a", "c"], "n": [1, 1], "_diff": [-1, 1]},
    {"word": ["a", None], "n": [3, 4], "_diff": [-1, -1]},
    {"word": ["x", "y", "x"], "n": [7, 8, 9]},
)


def test_each_epoch_arrives(place: Place) -> None:
    engine = ec.Engine()
    view = counted(engine)
    delivery = place.deliver(view)
    for rows in HISTORY:
        engine.push("words", rows)
        assert delivery.join(20)
        assert place.rows() == rows_of(view)
    assert (delivery.epoch, delivery.lag, delivery.error) == (4, 0, None)


def test_what_is_there_already_is_written_first(place: Place) -> None:
    engine = ec.Engine()
    view = counted(engine)
    for rows in HISTORY[:3]:
        engine.push("words", rows)
    delivery = place.deliver(view)
    engine.push("words", HISTORY[3])
    assert delivery.join(20)
    assert place.rows() == rows_of(view)


def test_it_goes_on_after_a_restart(place: Place, tmp_path: Path) -> None:
    for rows in HISTORY:
        with ec.Engine(checkpoint=tmp_path / "checkpoint") as engine:
            view = counted(engine)
            delivery = place.deliver(view)
            engine.push("words", rows)
            expected = rows_of(view)
        assert delivery.is_closed
        assert place.rows() == expected


def test_after_a_restart_only_what_is_new_is_written(place: Place, tmp_path: Path, monkeypatch) -> None:
    def begun(self: Delivery) -> None:
        raise AssertionError("written from the beginning")

    for number, rows in enumerate(HISTORY):
        with ec.Engine(checkpoint=tmp_path / "checkpoint") as engine:
            view = counted(engine)
            delivery = place.deliver(view)
            engine.push("words", rows)
            assert delivery.join(20), number
            expected = rows_of(view)
        monkeypatch.setattr(Delivery, "_begin", begun)
    assert place.rows() == expected


def test_epochs_without_the_sink_are_caught_up(place: Place, tmp_path: Path) -> None:
    for number, rows in enumerate(HISTORY):
        with ec.Engine(checkpoint=tmp_path / "checkpoint") as engine:
            view = counted(engine)
            if number in (0, 3):
                delivery = place.deliver(view)
            engine.push("words", rows)
            expected = rows_of(view)
    assert delivery.epoch == 4
    assert place.rows() == expected


def test_a_sink_closed_and_begun_again_goes_on(place: Place) -> None:
    engine = ec.Engine()
    view = counted(engine)
    for rows in HISTORY:
        delivery = place.deliver(view)
        engine.push("words", rows)
        assert delivery.join(20)
        delivery.close()
        assert delivery.is_closed
    assert place.rows() == rows_of(view)


def test_closing_the_engine_waits_for_the_sink(place: Place, tmp_path: Path) -> None:
    with ec.Engine(checkpoint=tmp_path / "checkpoint") as engine:
        view = counted(engine)
        place.deliver(view)
        for rows in HISTORY:
            engine.push("words", rows)
        expected = rows_of(view)
    assert place.rows() == expected


@pytest.mark.parametrize("place", ["function"], indirect=True)
def test_a_function_that_raises_is_called_again(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    engine = ec.Engine()
    view = counted(engine)
    delivery = place.deliver(view)
    assert delivery.join(20)
    place.failing.extend([ValueError("no disk"), OSError("no net")])
    for rows in HISTORY:
        engine.push("words", rows)
    assert delivery.join(20)
    assert place.rows() == rows_of(view)
    assert [delta["_epoch"][0] for delta in place.deltas] == [1, 2, 3, 4]
    assert "no net" in caplog.text
    assert (delivery.failures, delivery.error) == (0, None)
