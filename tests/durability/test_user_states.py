"""States of users' aggregates in a checkpoint: plain values, or what a serializer makes of them; pickles by an explicit word only."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.errors import CheckpointError, InputError, PlanError
from evercurrent.core.operators.group.user_states import StateForm


class Tally:
    """A state that is no plain value: a sum and a count."""

    def __init__(self, total: int = 0, rows: int = 0) -> None:
        self.total, self.rows = total, rows

    def moved(self, values: pl.Series, sign: int) -> Tally:
        return Tally(self.total + sign * int(values.sum()), self.rows + sign * len(values))


class AsJson:
    """A serializer."""

    @staticmethod
    def dumps(state: Tally) -> bytes:
        return json.dumps([state.total, state.rows]).encode()

    @staticmethod
    def loads(data: bytes) -> Tally:
        return Tally(*json.loads(data))


def mean_of_tallies(**given: Any) -> Any:
    return ec.aggregate(
        create=Tally,
        add=lambda state, values: state.moved(values, 1),
        merge=lambda one, other: Tally(one.total + other.total, one.rows + other.rows),
        remove=lambda state, values: state.moved(values, -1),
        extract=lambda state: state.total / max(state.rows, 1),
        dtype=pl.Float64,
        **given,
    )


def mean_of_pairs(**given: Any) -> Any:
    """The same with states that are plain values, and may be found as tallies."""

    def pair(state: Any) -> tuple[int, int]:
        return (state.total, state.rows) if isinstance(state, Tally) else state

    def moved(state: Any, values: pl.Series, sign: int) -> tuple[int, int]:
        total, rows = pair(state)
        return total + sign * int(values.sum()), rows + sign * len(values)

    return ec.aggregate(
        create=lambda: (0, 0),
        add=lambda state, values: moved(state, values, 1),
        merge=lambda one, other: (pair(one)[0] + pair(other)[0], pair(one)[1] + pair(other)[1]),
        remove=lambda state, values: moved(state, values, -1),
        extract=lambda state: pair(state)[0] / max(pair(state)[1], 1),
        dtype=pl.Float64,
        **given,
    )


@contextmanager
def engine(made: Any, checkpoint: Any = None) -> Iterator[ec.Engine]:
    with ec.Engine(checkpoint=checkpoint) as opened:
        numbers = opened.source("numbers", {"k": pl.String, "x": pl.Int64}, kind="diffs")
        opened.view("means", numbers.group_by("k").agg(made("x").alias("mean")))
        yield opened


FIRST = {"k": ["a", "a", "b"], "x": [1, 2, 30], "_diff": [1, 1, 1]}
SECOND = {"k": ["a", "b", "c"], "x": [1, 10, 5], "_diff": [-1, 1, 1]}
AFTER_FIRST, AFTER_SECOND = [("a", 1.5), ("b", 30.0)], [("a", 2.0), ("b", 20.0), ("c", 5.0)]


def means(opened: ec.Engine, epoch: int | None = None) -> list[Any]:
    return opened.views["means"].read(epoch=epoch).sort("k").rows()


def test_states_of_plain_values_go_on(tmp_path: Path) -> None:
    with engine(mean_of_pairs(), tmp_path) as opened:
        opened.push("numbers", FIRST)
    with engine(mean_of_pairs(), tmp_path) as opened:
        assert means(opened) == AFTER_FIRST
        opened.push("numbers", SECOND)
        assert means(opened) == AFTER_SECOND


def test_another_state_is_refused_where_it_is_first_seen_and_nothing_changes(tmp_path: Path) -> None:
    with engine(mean_of_tallies(), tmp_path) as opened:
        for _ in range(2):
            with pytest.raises(InputError) as refused:
                opened.push("numbers", FIRST)
            for part in (
                "means",
                "'mean'",
                "Tally",
                "serializer=",
                "allow_pickle=True",
                "nothing has changed",
            ):
                assert part in str(refused.value)
        assert opened.epoch_number == 0
        opened.push("numbers", {"k": [], "x": [], "_diff": []})


def test_in_memory_a_state_may_be_anything() -> None:
    with engine(mean_of_tallies()) as opened:
        opened.push("numbers", FIRST)
        opened.push("numbers", SECOND)
        assert means(opened) == AFTER_SECOND


def test_a_serializer_makes_bytes_of_states(tmp_path: Path) -> None:
    with engine(mean_of_tallies(serializer=AsJson), tmp_path) as opened:
        opened.push("numbers", FIRST)
    with engine(mean_of_tallies(serializer=AsJson), tmp_path) as opened:
        assert means(opened) == AFTER_FIRST
        opened.push("numbers", SECOND)
        assert means(opened) == AFTER_SECOND
        assert means(opened, 1) == AFTER_FIRST


def test_states_go_on_when_a_serializer_comes_and_are_refused_when_it_goes(tmp_path: Path) -> None:
    class Pairs:
        dumps = staticmethod(lambda state: repr(state).encode())
        loads = staticmethod(lambda data: tuple(json.loads(b"[" + data[1:-1] + b"]")))

    with engine(mean_of_pairs(), tmp_path) as opened:
        opened.push("numbers", FIRST)
    with engine(mean_of_pairs(serializer=Pairs), tmp_path) as opened:
        opened.push("numbers", SECOND)
        assert means(opened) == AFTER_SECOND
    with (
        engine(mean_of_pairs(), tmp_path) as opened,
        pytest.raises(CheckpointError, match=r"means.*'mean'.*written by a serializer.*serializer="),
    ):
        means(opened)


def test_a_serializer_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="serializer=5 has no dumps"):
        mean_of_tallies(serializer=5)
    with (
        engine(mean_of_tallies(serializer=json), tmp_path / "json") as opened,
        pytest.raises(InputError, match=r"'mean'.*TypeError.*Tally"),
    ):
        opened.push("numbers", FIRST)
    with (
        engine(mean_of_pairs(serializer=json), tmp_path / "text") as opened,
        pytest.raises(InputError, match=r"'mean'.*returned str for the state, not bytes"),
    ):
        opened.push("numbers", FIRST)


# Pickles


@pytest.fixture
def pickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint as earlier versions wrote it: every state a pickle."""
    with monkeypatch.context() as earlier:
        earlier.setattr(StateForm, "dumps", lambda form, state: pickle.dumps(state))
        earlier.setattr(StateForm, "loads", lambda form, data: pickle.loads(data))
        with engine(mean_of_pairs(), tmp_path / "old") as opened:
            opened.push("numbers", FIRST)
    return tmp_path / "old"


def test_pickles_of_earlier_versions_are_refused_with_the_way_out(pickled: Path) -> None:
    with (
        engine(mean_of_pairs(), pickled) as opened,
        pytest.raises(CheckpointError, match=r"old.*means.*'mean'.*a pickle.*allow_pickle=True"),
    ):
        means(opened)


def test_opened_once_with_the_word_they_are_converted(pickled: Path) -> None:
    with engine(mean_of_pairs(), ec.Checkpoint(pickled, allow_pickle=True)) as opened:
        assert means(opened) == AFTER_FIRST
    with engine(mean_of_pairs(), pickled) as opened:
        assert means(opened) == AFTER_FIRST
        opened.push("numbers", SECOND)
        assert means(opened) == AFTER_SECOND
        with pytest.raises(CheckpointError, match="a pickle"):
            means(opened, 1)  # As it was written.
    with engine(mean_of_pairs(), ec.Checkpoint(pickled, allow_pickle=True)) as opened:
        assert means(opened) == AFTER_SECOND
        assert means(opened, 1) == AFTER_FIRST
        assert opened.epoch_number == 3, "converting is an epoch in which nothing happens, and was done once"


def test_they_are_converted_with_epochs_of_which_only_the_input_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a crash between two commits."""
    with monkeypatch.context() as earlier:
        earlier.setattr(StateForm, "dumps", lambda form, state: pickle.dumps(state))
        with engine(mean_of_pairs(), ec.Checkpoint(tmp_path, allow_pickle=True)) as opened:
            opened.push("numbers", FIRST)
            opened.checkpoint()
            opened.push("numbers", SECOND)
            opened._running.durability._open.inputs.remove = lambda: None  # type: ignore[union-attr,method-assign]
            opened._running.durability.flush = lambda standing: None  # type: ignore[union-attr,method-assign]
    with engine(mean_of_pairs(), ec.Checkpoint(tmp_path, allow_pickle=True)) as opened:
        assert means(opened) == AFTER_SECOND
    with engine(mean_of_pairs(), tmp_path) as opened:
        assert means(opened) == AFTER_SECOND


def test_allowed_pickles_that_are_no_plain_values_stay_and_take_a_serializer(tmp_path: Path) -> None:
    allowed = ec.Checkpoint(tmp_path, allow_pickle=True)
    with engine(mean_of_tallies(), allowed) as opened:
        opened.push("numbers", FIRST)
    with engine(mean_of_tallies(), allowed) as opened:
        assert means(opened) == AFTER_FIRST
        assert opened.epoch_number == 1
    with engine(mean_of_tallies(serializer=AsJson), allowed) as opened:
        assert means(opened) == AFTER_FIRST
    with engine(mean_of_tallies(serializer=AsJson), tmp_path) as opened:
        opened.push("numbers", SECOND)
        assert means(opened) == AFTER_SECOND


def test_a_custom_watermark_may_have_any_plain_state(tmp_path: Path) -> None:
    def latest(state: Any, rows: pl.DataFrame, now: datetime) -> Any:
        seen, days, prices = state
        days = days | {when.date() for when in rows["at"]}
        highest = rows["at"].max() if rows.height else None
        return (seen + Counter(rows["at"].dt.hour().to_list()), days, (*prices, Decimal("0.10"))), highest

    def opened() -> ec.Engine:
        made = ec.Engine(checkpoint=tmp_path)
        watermark = ec.custom_watermark(latest, state=(Counter(), frozenset(), ()))
        made.view("all", made.source("s", {"at": pl.Datetime}, event_time="at", watermark=watermark))
        return made

    for day in (1, 2, 3):
        with opened() as made:
            made.push("s", {"at": [datetime(2020, 1, day, 12)]})
            assert made.watermarks == {"s": datetime(2020, 1, day, 12, tzinfo=UTC)}
