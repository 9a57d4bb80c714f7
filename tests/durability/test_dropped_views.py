"""What goes with a view or a source that is dropped, and what stays."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from durability.observing import delta_epochs
from evercurrent.views.checkpoint import Commit, CommitLog, Pieces, new_writer, versions
from evercurrent.views.checkpoint.compacting import compact
from evercurrent.views.partitioned.driver import Epochs
from evercurrent.views.store import store_at


def started(
    path: Path | None, views: Sequence[str], sources: Sequence[str] = ("a",), **options: Any
) -> ec.Engine:
    engine = ec.Engine(checkpoint=None if path is None else ec.Checkpoint(path, **options))
    rows, *_ = [engine.source(name, {"k": pl.Int64}, retained=True) for name in sources]
    for name in views:
        engine.view(name, rows.group_by("k").agg(n=pl.len()))
    return engine


def in_buckets(
    path: Path, engine: ec.Engine, drop: Sequence[str] = (), buckets: int = 1, **options: Any
) -> Epochs:
    store = store_at(path)
    return Epochs(
        engine.declared, CommitLog(store), Pieces.of(store), buckets=buckets, driver_rows=100, inline_rows=100,
        writer=new_writer(), versions=versions(), drop=drop, **options,
    )  # fmt: skip


def test_its_named_readers_go_with_it(tmp_path: Path) -> None:
    """A dropped view takes its named readers with it: the checkpoint can be compacted, and a later view begins anew with the names."""
    received: list[pl.DataFrame] = []
    with started(tmp_path, ["counts", "other"]) as engine:
        engine.views["counts"].subscribe(received.append, name="me")
        engine.views["other"].subscribe(received.append, name="me")
        engine.push("a", {"k": [1]})
    with started(tmp_path, ["other"], drop=("counts",)) as engine:
        engine.views["other"].subscribe(received.append, name="me")
        engine.push("a", {"k": [2]})
        assert set(engine.readers.delivered()) == {"other/me"}
    compact(store_at(tmp_path), keep=1, grace=0)
    received.clear()
    with started(tmp_path, ["counts", "other"]) as engine:
        engine.views["counts"].subscribe(received.append, name="me")
        assert not received
        engine.push("a", {"k": [2]})
        assert delta_epochs(received) == [engine.epoch_number]


def test_readers_have_received_the_last_epoch_when_another_driver_goes_on(tmp_path: Path) -> None:
    received: list[pl.DataFrame] = []
    with started(tmp_path, ["counts"]) as engine:
        engine.views["counts"].subscribe(received.append, name="me")
        engine.push("a", {"k": [1]})
    epochs = in_buckets(tmp_path, started(None, ["counts"]))
    epochs.step(lambda instant: [epochs.runner.arrive(instant, 0, {})], 0, {}, {})
    with started(tmp_path, ["counts"]) as engine:
        engine.views["counts"].subscribe(received.append, name="me")
    assert delta_epochs(received) == [1]


def test_the_position_of_a_source_goes_with_it_whoever_drops_it(tmp_path: Path) -> None:
    with started(tmp_path, ["counts"], ["a", "b"]) as engine:
        engine.push("a", {"k": [1]}, position=5)
        engine.push("b", {"k": [1]}, position=7)
    epochs = in_buckets(tmp_path, started(None, ["counts"]), drop=("b",))
    epochs.step(lambda instant: [epochs.runner.arrive(instant, 0, {})], 0, {}, {})
    with started(tmp_path, ["counts"], ["a", "b"]) as engine:
        assert engine.positions == {"a": 5}


@pytest.mark.parametrize("what", ["view", "source", "retained rows"])
@pytest.mark.parametrize("with_view", [False, True])
def test_that_something_was_dropped_is_recorded_when_the_checkpoint_is_opened(
    tmp_path: Path, what: str, with_view: bool
) -> None:
    """Nothing has to be pushed for it: the next start needs no ``drop=``, and no start after the first makes an epoch."""

    def declared(**options: Any) -> ec.Engine:
        is_before = not options
        engine = ec.Engine(checkpoint=ec.Checkpoint(tmp_path, drop=("old",) if "drop" in options else ()))
        kept = engine.source("kept", {"k": pl.Int64}, retained=True)
        old_rows = (
            engine.source("old", {"k": pl.Int64}, retained=is_before)
            if what != "source" or is_before
            else kept
        )
        engine.view("counts", kept.group_by("k").len())
        if what == "view" and is_before:
            engine.view("old", kept.group_by("k").agg(n=2 * pl.len()))
        if what == "retained rows":
            engine.view("sums", old_rows.group_by("k").len())
        if with_view and not is_before:
            engine.view("new", kept.unique())
        return engine

    with declared() as engine:
        engine.push("kept", {"k": [1]})
        engine.push("old", {"k": [1]})
    with pytest.raises(ec.CheckpointError, match=r"drop=\('old',\)"):
        declared(after=True).views["counts"].read()
    for _ in range(2):
        with declared(drop=True) as engine:
            assert engine.views["counts"].read().rows() == [(1, 1)]
            assert engine.epoch_number == 3
    with declared(after=True) as engine:
        assert engine.views["counts"].read().rows() == [(1, 1)]
        assert engine.views["counts"].deltas().frame().height == 1
        assert engine.push("kept", {"k": [1]}) == 4


def test_a_driver_in_buckets_records_what_was_dropped_before_any_input(tmp_path: Path) -> None:
    with started(tmp_path, ["counts", "old"], ["a", "b"]) as engine:
        engine.push("a", {"k": [1]})
    for _ in range(2):
        epochs = in_buckets(tmp_path, started(None, ["counts"]), drop=("old", "b"))
        assert epochs.last.epoch == 2
    assert in_buckets(tmp_path, started(None, ["counts"])).last.epoch == 2
    with started(tmp_path, ["counts"]) as engine:
        assert engine.views["counts"].read().rows() == [(1, 1)]


def test_where_an_epoch_has_to_be_repeated_first_that_one_records_what_was_dropped(tmp_path: Path) -> None:
    def is_begun(last: Commit) -> None:
        raise ec.CheckpointError(f"the micro-batch after epoch {last.epoch} has to be repeated first")

    with started(tmp_path, ["counts", "old"]) as engine:
        engine.push("a", {"k": [1]})
    epochs = in_buckets(tmp_path, started(None, ["counts"]), drop=("old",), before_fill=is_begun)
    assert epochs.last.epoch == 1
    epochs.step(lambda instant: [epochs.runner.arrive(instant, 0, {})], 0, {}, {})
    assert in_buckets(tmp_path, started(None, ["counts"])).last.epoch == 2


def arrived(epochs: Epochs, batch: pl.DataFrame, instant: int) -> list[Any]:
    return [epochs.runner.arrive(instant, 0, {"rows": batch})]


def test_rows_that_have_met_in_one_bucket_for_the_sake_of_their_order_are_in_others_without_it(
    tmp_path: Path,
) -> None:
    """When the last view that needs all rows in one bucket is dropped, the rows are routed by themselves again, and retractions find theirs."""

    def declared(*, with_pattern: bool, **options: Any) -> ec.Engine:
        engine = ec.Engine(**options)
        columns = {"k": pl.Int64, "on": pl.Boolean, "at": pl.Datetime("us")}
        rows = engine.source("rows", columns, kind="diffs", event_time="at")
        engine.view("counts", rows.group_by("k").agg(n=pl.len()))
        if with_pattern:
            windows = rows.window(ec.fixed("1h")).trigger(ec.repeat(ec.pattern("on", "on")))
            engine.view("other", windows.group_by("k").agg(n=pl.len()))
        return engine

    of_keys = pl.DataFrame({"k": range(20), "on": [True] * 20, "at": [datetime(2026, 1, 1)] * 20})
    rows = of_keys.with_columns(pl.col("at").cast(pl.Datetime("us")), _diff=pl.lit(1, pl.Int64))
    added = dict.fromkeys(range(20), 0)
    for with_pattern in (True, False):
        drop = () if with_pattern else ("other",)
        epochs = in_buckets(tmp_path, declared(with_pattern=with_pattern), drop=drop, buckets=4)
        retracted = rows.slice(3, 9).with_columns(-pl.col("_diff"))
        batches = (rows.head(15), rows.tail(15)) if with_pattern else (retracted, rows.head(4))
        for number, batch in enumerate(batches):
            for key, diff in batch.select("k", "_diff").rows():
                added[key] += diff
            arriving = partial(arrived, epochs, batch)
            epochs.step(arriving, number, {}, {})
    with declared(with_pattern=False, checkpoint=ec.Checkpoint(tmp_path)) as engine:
        assert dict(engine.views["counts"].read().select("k", "n").rows()) == {
            k: n for k, n in added.items() if n
        }
        assert not engine.ledger().height
