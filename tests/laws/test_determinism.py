"""A replay is equal byte for byte, whatever the hash seed of Python and the number of threads."""

import hashlib
import io
import random
from datetime import UTC, datetime

import polars as pl
import pytest
from hypothesis import assume, given

from harness import Running
from oracle import TooLargeError
from other_process import OTHERS, results_of
from strategies import Case, Epoch, Program, cases, of_profile

SOURCES = {
    "a": {"k": pl.String(), "x": pl.Int64(), "f": pl.Float64()},
    "b": {"k": pl.String(), "y": pl.Int64()},
}
LINES = (
    "v1 = a.group_by('k').agg(n=pl.len(), s=pl.col('f').sum(), m=pl.col('x').max(), i=pl.col('x').implode())",
    "v2 = v1.group_by('n').agg(u=pl.col('s').mean(), v=pl.col('k').n_unique())",
    "v3 = a.join(b, on='k', how='full')",
    "v4 = v3.group_by('y').top_k(3, by='f')",
    "v5 = a.select('k', 'x').unique().join(b, on='k', how='anti')",
    "v6 = a.join(a, left_on='x', right_on='x').group_by().agg(pl.len())",
)


def frame_bytes(frame: pl.DataFrame) -> bytes:
    stream = io.BytesIO()
    frame.write_ipc_stream(stream)
    return stream.getvalue()


def written(case: Case) -> bytes:
    """All deltas and contents of all views, as Arrow."""
    running = Running(case).push_all()
    frames = [frame for view in running.views.values() for frame in [view.read(), *view.deltas()]]
    return b"".join(map(frame_bytes, frames))


def large_case() -> Case:
    draw = random.Random(5)
    epochs: list[Epoch] = []
    for _ in range(6):
        a = [
            ((draw.choice("pqrst"), draw.randrange(9), draw.random()), draw.choice([1, 1, -1]))
            for _ in range(300)
        ]
        b = [((draw.choice("pqrsu"), draw.randrange(5)), 1) for _ in range(10)]
        epochs.append({"a": [(row, diff) for row, diff in a], "b": [(row, diff) for row, diff in b]})
    return Case(Program(SOURCES, LINES), epochs)


@of_profile(quick=40)
@given(case=cases())
def test_a_replay_gives_the_same_bytes(case: Case) -> None:
    try:
        case.expected()
    except TooLargeError:
        assume(False)
    assert written(case) == written(case)


def test_the_large_case_emits_much() -> None:
    assert len(written(large_case())) > 100_000


@pytest.mark.parametrize(("hash_seed", "threads"), OTHERS)
def test_another_process_gives_the_same_bytes(hash_seed: str, threads: str) -> None:
    assert results_of(hash_seed, threads)["laws.test_determinism"] == results()


def results() -> str:
    """A digest of all that the large case gives."""
    return hashlib.sha256(written(large_case())).hexdigest()


def test_no_clock_is_read_where_the_time_is_given() -> None:
    import evercurrent as ec

    def run() -> bytes:
        engine = ec.Engine()
        view = engine.view("v", engine.source("a", SOURCES["a"]).group_by("k").agg(pl.col("f").sum()))
        for minute in range(3):
            rows = pl.DataFrame({"k": ["p", "q"], "x": [1, 2], "f": [0.1, minute / 3]})
            engine.push("a", rows, at=datetime(2024, 1, 1, 0, minute, tzinfo=UTC))
        return b"".join(map(frame_bytes, view.deltas()))

    assert run() == run()
