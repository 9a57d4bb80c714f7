"""A micro-batch that ended before its commit is named with the epoch under which a sink may have its deltas."""

from pathlib import Path

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.spark_bridge.execution.attempts import Attempts
from evercurrent.spark_bridge.execution.control_records import Attempt
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.checkpoint.begun import record_of, require_none_begun
from evercurrent.views.store import LocalStore


@pytest.mark.parametrize(
    ("pushes", "message"),
    [
        (1, "as those of epoch 2, which has to be theirs: start the query first"),
        (
            3,
            "as those of epoch 2, which others have committed .* as those of epoch 4; delete them .*batches/000000000000 in",
        ),
    ],
)
def test_the_epoch_is_that_of_the_record(pushes: int, message: str, tmp_path: Path) -> None:
    with ec.Engine(checkpoint=tmp_path) as engine:
        engine.view("rows", engine.source("source", {"k": pl.Int64}))
        for k in range(pushes):
            engine.push("source", [(k,)])
    store = LocalStore(tmp_path)
    Attempts(store).record(0, Attempt(0, (), (), epoch=2))
    last = CommitLog(store).last
    assert last is not None
    with pytest.raises(ec.CheckpointError, match=message):
        require_none_begun(store, last, "start the query first")


@pytest.mark.parametrize("record", [b"", b"[]", b"{}", b'{"epoch": null}'])
def test_a_record_without_an_epoch_is_that_of_the_next_one(record: bytes, tmp_path: Path) -> None:
    with ec.Engine(checkpoint=tmp_path) as engine:
        engine.view("rows", engine.source("source", {"k": pl.Int64}))
        engine.push("source", [(1,)])
    store = LocalStore(tmp_path)
    store.put(record_of(0), [record])
    last = CommitLog(store).last
    assert last is not None
    with pytest.raises(ec.CheckpointError, match="as those of epoch 2, which has to be theirs"):
        require_none_begun(store, last, "")
