"""Bad rows of micro-batches go to the ledger, in whatever parts rows arrive, as those of pushes do. Without Spark."""

from __future__ import annotations

import itertools
import pickle
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evercurrent as ec
from evercurrent.core.data.errors import InputError
from evercurrent.spark_bridge.execution.batch_rows import RowsHere
from evercurrent.spark_bridge.execution.jobs import Setup, arrived
from evercurrent.views.checkpoint import CommitLog, Pieces, new_writer, versions
from evercurrent.views.partitioned.driver import Epochs
from evercurrent.views.partitioned.tasks import Instant, TaskResult
from evercurrent.views.store import store_at
from spark.offered import forget_everything
from spark.twins import Elsewhere, counted, entered


def declare(engine: ec.Engine) -> None:
    """A cast of what arrives, and one of what is grouped; a sum that may overflow."""
    rows = engine.source(
        "rows", {"key": pl.Int64, "text": pl.String, "n": pl.Int64}, kind="diffs", trusted=True
    )
    numbers = engine.view("numbers", rows.with_columns(number=pl.col("text").cast(pl.Int64)))
    sums = engine.view("sums", numbers.group_by("key").agg(total=pl.col("n").sum(), times=pl.len()))
    small = sums.with_columns(small=pl.col("times").cast(pl.Int64) * 50)
    engine.view("small", small.with_columns(small=pl.col("small").cast(pl.Int8)))


class Driven:
    """Epochs on a store, of rows that arrive in parts as Arrow tables."""

    def __init__(
        self, folder: Path, *, buckets: int, parts: int, elsewhere: bool, on_bad_rows: Any = "ledger"
    ) -> None:
        engine = ec.Engine()
        declare(engine)
        self.plan, self.store, self.parts = engine.declared, store_at(folder), parts
        inline = 0 if elsewhere else 1000
        self.setup = Setup(pickle.dumps(self.plan), self.store.url, buckets, inline, on_bad_rows=on_bad_rows)
        runner = self.setup.runner()
        self.epochs = Epochs(
            self.plan, CommitLog(self.store), Pieces.of(self.store), buckets=buckets, inline_rows=inline,
            driver_rows=-1 if elsewhere else 1000, writer=new_writer(), versions=versions(),
            executors=Elsewhere(runner) if elsewhere else None,
        )  # fmt: skip

    def run(self, frame: pl.DataFrame) -> None:
        table = frame.to_arrow()

        def arrive(instant: Instant) -> list[TaskResult]:
            bounds = [table.num_rows * part // self.parts for part in range(self.parts + 1)]
            return [
                arrived(self.setup, self.epochs.runner, instant, part, table.slice(start, end - start))
                for part, (start, end) in enumerate(itertools.pairwise(bounds))
                if end > start
            ]

        rows = None
        if self.setup.on_bad_rows == "ledger":
            rows = lambda: RowsHere(self.setup, self.epochs.runner, pa.table(table))  # noqa: E731
        self.epochs.step(arrive, 0, {}, {}, rows=rows)

    def contents(self, view: str) -> Any:
        last = self.epochs.last
        held = [self.epochs.runner.contents(view, bucket, last.states) for bucket in range(last.buckets)]
        return counted([frame for frame in held if frame is not None])


ROWS = st.lists(
    st.tuples(
        st.sampled_from([1, 2]),
        st.sampled_from(["1", "2", "x"]),
        st.sampled_from([1, 2**62]),
        st.sampled_from([1, 1, 1, None]),
    ),
    max_size=8,
)
SCHEMA = {"key": pl.Int64, "text": pl.String, "n": pl.Int64, "_diff": pl.Int64}


@settings(max_examples=max(5, settings().max_examples // 4), deadline=None)
@given(
    epochs=st.lists(ROWS, min_size=1, max_size=3),
    parts=st.sampled_from([1, 3]),
    buckets=st.sampled_from([1, 3]),
    elsewhere=st.booleans(),
    reopens=st.booleans(),
)
def test_views_and_ledger_are_those_of_an_engine(
    epochs: Any, parts: int, buckets: int, elsewhere: bool, reopens: bool
) -> None:
    """Values that cannot be cast as they arrive, or after a grouping, and sums that overflow; also opened anew each time."""
    engine = ec.Engine(on_bad_rows="ledger")
    declare(engine)
    with tempfile.TemporaryDirectory() as folder:
        forget_everything()
        driven = Driven(Path(folder), buckets=buckets, parts=parts, elsewhere=elsewhere)
        for rows in epochs:
            frame = pl.DataFrame(rows, SCHEMA, orient="row")
            good = frame.filter((pl.col("text") != "x") & pl.col("_diff").is_not_null())
            before = engine.ledger().height
            # Of rows that fail together only, the ones that count depend on where the rows are halved.
            engine.push("rows", frame.filter((pl.col("text") == "x") | pl.col("_diff").is_null()))
            engine.push("rows", good)
            driven.run(frame.filter((pl.col("text") == "x") | pl.col("_diff").is_null()))
            driven.run(good)
            assert driven.epochs.progress[-1].refused + driven.epochs.progress[-2].refused == (
                engine.ledger().height - before
            )
            if reopens:
                forget_everything()
                driven = Driven(Path(folder), buckets=buckets, parts=parts, elsewhere=elsewhere)
        for view in engine.views:
            assert driven.contents(view) == counted([engine.views[view].read()])
        own = engine._running.current().ledger.refused
        together = entered(driven.epochs.clocks.ledger.refused)
        assert together == entered(own)
        assert driven.epochs.clocks.ledger.entries == engine.ledger().height


def test_good_and_bad_rows_in_one_batch(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        [(1, "1", 5, 1), (1, "x", 6, 1), (1, "2", 7, None), (1, "3", 8, 1), (1, "4", 9, 1), (2, "y", 1, 1)],
        SCHEMA, orient="row",
    )  # fmt: skip
    driven = Driven(tmp_path, buckets=2, parts=2, elsewhere=True)
    driven.run(frame)
    # 50 times three rows does not fit into 8 bits.
    assert driven.contents("sums") == {(1, 13, 2): 1}
    assert driven.epochs.clocks.ledger.entries == 4
    assert driven.epochs.progress[-1].refused == 4
    assert driven.epochs.progress[-1].ledger_rows == 4
    assert "4 rows refused into the ledger" in str(driven.epochs.progress[-1])


def test_without_the_ledger_the_epoch_fails(tmp_path: Path) -> None:
    driven = Driven(tmp_path, buckets=2, parts=1, elsewhere=False, on_bad_rows="fail")
    with pytest.raises(InputError, match="column '_diff' is null in row 0"):
        driven.run(pl.DataFrame([(1, "1", 5, None)], SCHEMA, orient="row"))
    assert driven.epochs.last.epoch == 0
