"""A130, A162: a replay of recorded batches, times and watermarks is equal byte for byte."""

from __future__ import annotations

import hashlib
import io
import random
from functools import cache

import polars as pl
import pytest
from hypothesis import given

from eventtime.pipelines import Both, Cells, Epoch, Run, Setup, runs
from other_process import OTHERS, results_of
from strategies import of_profile

INF = float("inf")
SETUPS = (
    Setup("sessions(5)", "after_watermark(early=at_period(5), late=after_count(1))", lateness=9, info=True, aggregates=("n", "first", "max")),
    Setup("by_size(3)", "after_watermark(early=at_period(5), late=after_count(1))", lateness=9, info=True, aggregates=("n", "first", "max")),
    Setup("sliding(10, 5)", "repeat(any_of(after_count(3), at_period(10)))", mode="accumulating", lateness=4, always=True),
    Setup("fixed(7, 3)", "repeat(after_bytes(9))", mode="discarding", info=True, delay=3, appends=True),
    Setup("sessions(3)", aggregates=("n", "distinct", "last")),
)  # fmt: skip


def frame_bytes(frame: pl.DataFrame) -> bytes:
    stream = io.BytesIO()
    frame.write_ipc_stream(stream)
    return stream.getvalue()


def written(run: Run) -> bytes:
    """All deltas and contents of all views and the ledger, as Arrow."""
    both = Both(run)
    for epoch in run.epochs:
        both.push(epoch)
    views = [both.view] if both.late is None else [both.view, both.late]
    frames = [frame for view in views for frame in [view.read(), *view.deltas()]]
    return b"".join(map(frame_bytes, [*frames, both.engine.ledger("a")]))


def large(setup: Setup) -> Run:
    """Two thousand rows of twenty keys in thirty epochs, some of them late, some taken back."""
    draw = random.Random(7)
    held: list[Cells] = []
    epochs: list[Epoch] = []
    for number in range(30):
        rows: list[tuple[Cells, int]] = []
        for _ in range(70):
            cells: Cells = (
                f"k{draw.randrange(20)}",
                4 * number + draw.randrange(-12, 12),
                draw.randrange(9),
                1,
                draw.random() < 0.1,
            )
            rows.append((cells, 1))
        if held and not setup.appends:
            draw.shuffle(held)
            rows += [(cells, -1) for cells in held[:20]]
            del held[:20]
        held += [cells for cells, diff in rows if diff > 0]
        epochs.append(Epoch(rows, None if setup.delay is not None else 4 * number - 6, 7 * number))
    return Run(setup, [*epochs, Epoch([], INF, 1000)], origin=1_700_000_000)


@of_profile(0.2)
@given(run=runs())
def test_a_replay_gives_the_same_bytes(run: Run) -> None:
    assert written(run) == written(run)


@cache
def results() -> str:
    """A digest of all that the large runs give."""
    return hashlib.sha256(b"".join(written(large(setup)) for setup in SETUPS)).hexdigest()


def test_the_large_runs_emit_much() -> None:
    for setup in SETUPS:
        run = large(setup)
        assert len(written(Run(setup, run.epochs[:9], run.origin))) > 10_000, setup


@pytest.mark.parametrize(("hash_seed", "threads"), OTHERS)
def test_another_process_gives_the_same_bytes(hash_seed: str, threads: str) -> None:
    assert results_of(hash_seed, threads)["laws.test_eventtime_replay"] == results()
