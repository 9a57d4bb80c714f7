"""With ``on_bad_rows="ledger"`` a row that does not fit, or of which a view cannot be computed, costs no other row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evercurrent as ec
from commit_cadence import commits_put_off
from durability.test_options import crash

KEY_NULL = "primary key 'id' is null; give the row its key, and push it again"
DIFF_NULL = "_diff is null; give the row +1 or -1, and push it again"
UNFIT = "column 'n' does not hold the value of the row; correct it, or declare another type, and push the row again"
FAILED = "the views cannot be computed with the row; correct the row, or the view, and push it again"


def reasons(engine: ec.Engine) -> list[str]:
    return engine.ledger()["reason"].to_list()


def test_by_default_one_bad_row_refuses_its_epoch() -> None:
    engine = ec.Engine()
    people = engine.source("people", {"id": pl.Int64, "n": pl.Int8}, kind="upsert", key="id")
    engine.view("people", people)
    with pytest.raises(ec.InputError, match="primary key 'id' is null in row 1"):
        engine.push("people", {"id": [1, None], "n": [1, 2]})
    assert engine.epoch_number == 0


def test_rows_that_do_not_fit_their_source_are_refused_alone() -> None:
    engine = ec.Engine(on_bad_rows="ledger")
    people = engine.source("people", {"id": pl.Int64, "n": pl.Int8}, kind="upsert", key="id")
    view = engine.view("people", people)
    frame = pl.DataFrame(
        {"id": [1, None, 3, 4, 5, 6], "n": [1, 2, 300, 4, 5, 6], "_diff": [1, 1, 1, None, 7, 1]}
    )
    assert engine.push("people", frame) == 1
    assert sorted(view.read().rows()) == [(1, 1), (6, 6)]
    assert reasons(engine) == [
        DIFF_NULL,
        "_diff is not one that the source takes; give +1 or -1, and push the row again",
        KEY_NULL,
        UNFIT,
    ]
    assert engine.ledger()["row"].to_list() == [
        '{"id":4,"n":4}', '{"id":5,"n":5}', '{"id":null,"n":2}', '{"id":3,"n":300}',
    ]  # fmt: skip
    assert engine.stats()["ledger"] == {"rows": 4, "forgotten": 0, "sources": {"people": 4}}


def test_a_frame_that_does_not_fit_at_all_is_an_error_still() -> None:
    engine = ec.Engine(on_bad_rows="ledger")
    source = engine.source("rows", {"id": pl.Int64, "n": pl.Int8})
    engine.view("rows", source)
    for data, message in (
        ({"id": [1]}, "column 'n' is missing"),
        ({"id": [1], "n": [1], "m": [1]}, "'m'"),
        (pl.DataFrame({"id": ["a"], "n": [1]}), "column 'id'"),
        ({"id": [1], "n": [1], "_diff": [-1]}, "declared append"),
    ):
        with pytest.raises(ec.InputError, match=message):
            engine.push("rows", data)
    assert engine.epoch_number == 0


def test_values_of_python_that_are_of_another_type_are_refused_alone() -> None:
    engine = ec.Engine(on_bad_rows="ledger")
    source = engine.source("rows", {"id": pl.Int64, "n": pl.Int8})
    view = engine.view("rows", source)
    engine.push("rows", [{"id": 1, "n": 1}, {"id": "x", "n": 2}, {"id": 3, "n": 300}])
    engine.push("rows", iter([(4, 4), (5, None), (None, "y")]))
    assert sorted(view.read().rows(), key=str) == [(1, 1), (4, 4), (5, None)]
    column_id = UNFIT.replace("'n'", "'id'")
    assert reasons(engine) == [column_id, UNFIT, UNFIT]
    assert engine.ledger()["row"].to_list()[0] == '{"id":"x","n":2}'


def test_rows_with_which_a_view_fails_are_refused_alone() -> None:
    engine = ec.Engine(on_bad_rows="ledger")
    source = engine.source("texts", {"text": pl.String})
    numbers = engine.view("numbers", source.with_columns(n=pl.col("text").cast(pl.Int64)))
    engine.view("sums", numbers.group_by().agg(pl.col("n").sum()))
    engine.push("texts", {"text": ["1", "x", "2", "y"]})
    assert sorted(engine.views["numbers"].read()["n"]) == [1, 2]
    assert engine.views["sums"].read().item() == 3
    refused = engine.ledger("texts")
    assert refused["text"].to_list() == ["x", "y"]
    assert set(refused["reason"]) == {FAILED}


def test_an_overflow_refuses_the_row_that_overflows() -> None:
    engine = ec.Engine(on_bad_rows="ledger")
    sales = engine.source("sales", {"price": pl.Int64})
    total = engine.view("total", sales.group_by().agg(pl.col("price").sum()))
    engine.push("sales", {"price": [2**63 - 10]})
    engine.push("sales", {"price": [4, 7, 5, 1]})
    assert total.read().item() == 2**63 - 1
    assert engine.ledger("sales")["price"].to_list() == [7, 1]
    assert set(reasons(engine)) == {FAILED}


def test_what_fails_without_rows_is_raised() -> None:
    engine = ec.Engine(on_bad_rows="ledger")
    timed = engine.source("timed", {"at": pl.Datetime("us")}, event_time="at")
    engine.view("timed", timed)
    engine.push("timed", {"at": [datetime(2026, 1, 2)]}, watermark=datetime(2026, 1, 2))
    with pytest.raises(ec.InputError, match="cannot move back"):
        engine.push("timed", {"at": [datetime(2026, 1, 3)]}, watermark=datetime(2026, 1, 1))
    assert engine.epoch_number == 1


def test_a_strict_source_raises_still() -> None:
    engine = ec.Engine(on_bad_rows="ledger")
    source = engine.source("rows", {"n": pl.Int64}, kind="diffs", strict=True)
    engine.view("rows", source)
    with pytest.raises(ec.RetractionError):
        engine.push("rows", {"n": [1, 2], "_diff": [1, -1]})


def test_the_argument_is_checked() -> None:
    with pytest.raises(ec.PlanError, match="on_bad_rows='stop'; give 'fail' or 'ledger'"):
        ec.Engine(on_bad_rows="stop")  # type: ignore[arg-type]


def declare(engine: ec.Engine) -> None:
    """An upsert source and a source of texts, which meet."""
    people = engine.source("people", {"id": pl.Int64, "n": pl.Int8}, kind="upsert", key="id")
    texts = engine.source("texts", {"id": pl.Int64, "text": pl.String}, kind="diffs", trusted=True)
    numbers = engine.view("numbers", texts.with_columns(n=pl.col("text").cast(pl.Int64)))
    both = numbers.join(engine.view("people", people), on="id", suffix="_of")
    engine.view("sums", both.group_by("n_of").agg(total=pl.col("n").sum(), times=pl.len()))


PEOPLE = st.lists(st.tuples(st.sampled_from([1, 2, 3, None]), st.sampled_from([1, 2, 500])), max_size=6)
TEXTS = st.lists(
    st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from(["1", "20", "x", ""]), st.sampled_from([1, None])),
    max_size=6,
)
EPOCHS = st.lists(st.tuples(PEOPLE, TEXTS), min_size=1, max_size=3)


def frames(epoch: tuple[Sequence[Any], Sequence[Any]]) -> dict[str, pl.DataFrame]:
    people = pl.DataFrame(epoch[0], {"id": pl.Int64, "n": pl.Int64}, orient="row")
    texts = pl.DataFrame(epoch[1], {"id": pl.Int64, "text": pl.String, "_diff": pl.Int64}, orient="row")
    return {"people": people, "texts": texts}


def good(epoch: tuple[Sequence[Any], Sequence[Any]]) -> dict[str, pl.DataFrame]:
    whole = frames(epoch)
    return {
        "people": whole["people"].filter(pl.col("id").is_not_null() & (pl.col("n") < 128)),
        "texts": whole["texts"].filter(pl.col("text").str.contains(r"^\d+$") & pl.col("_diff").is_not_null()),
    }


def push(engine: ec.Engine, rows: dict[str, pl.DataFrame]) -> None:
    with engine.epoch(at=datetime(2026, 1, 1, tzinfo=UTC)):
        for name, frame in rows.items():
            engine.push(name, frame)


def emitted(engine: ec.Engine) -> dict[str, list[Counter[Any]]]:
    return {
        name: [Counter(map(str, delta.rows())) for delta in view.deltas()]
        for name, view in engine.views.items()
    }


@pytest.mark.parametrize("workers", [1, 3])
@settings(max_examples=max(5, settings().max_examples // 3))
@given(epochs=EPOCHS)
def test_the_views_are_those_of_the_good_rows(epochs: Any, workers: int) -> None:
    """Whatever bad rows are among them; and each bad row is in the ledger once."""
    engine, other = ec.Engine(on_bad_rows="ledger", workers=workers), ec.Engine()
    declare(engine)
    declare(other)
    for epoch in epochs:
        push(engine, frames(epoch))
        push(other, good(epoch))
    assert emitted(engine) == emitted(other)
    bad = sum(
        frames(epoch)[name].height - good(epoch)[name].height
        for epoch in epochs
        for name in ("people", "texts")
    )
    assert engine.ledger().height == bad


@settings(max_examples=max(5, settings().max_examples // 3))
@given(epochs=EPOCHS)
def test_a_crash_after_any_epoch_loses_no_refused_row(epochs: Any, tmp_path_factory: Any) -> None:
    """The input of the last epochs is only logged: evaluated again it refuses the same rows, whatever the program declares now."""
    folder: Path = tmp_path_factory.mktemp("crash")
    whole = ec.Engine(on_bad_rows="ledger")
    declare(whole)
    for number, epoch in enumerate(epochs):
        engine = ec.Engine(checkpoint=folder, on_bad_rows="ledger")
        declare(engine)
        with commits_put_off():
            push(engine, frames(epoch))
        push(whole, frames(epoch))
        assert engine.epoch_number == number + 1
        crash(engine)
    again = ec.Engine(checkpoint=folder)
    declare(again)
    assert again.ledger().equals(whole.ledger())
    for name, view in whole.views.items():
        assert Counter(map(str, again.views[name].read().rows())) == Counter(map(str, view.read().rows()))
    again.close()
