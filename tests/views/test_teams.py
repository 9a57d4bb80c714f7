"""Threads of ``Engine(workers=n)``: they start when needed, end with the engine, and are no condition for an epoch."""

from __future__ import annotations

import decimal
import os
import subprocess
import sys
import threading
from pathlib import Path

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.views.concurrency.teams import Team
from evercurrent.views.concurrency.turns import Turn

ROWS = 20_000
ROOT = Path(__file__).parents[2]

ENDING = """
import atexit, threading
from datetime import datetime
import polars as pl
import evercurrent as ec

engine = ec.Engine(workers=2)
source = engine.source("s", {"k": pl.Int64, "t": pl.Datetime}, event_time="t")
view = engine.view("v", source.window(ec.sessions("1m")).group_by("k").agg(n=pl.len()))


def push():
    engine.push("s", {"k": list(range(10_000)) * 2, "t": [datetime(2026, 1, 1)] * 20_000})
    print(view.read().select(pl.len(), pl.col("n").sum()).row(0))


push()
# A thread that the interpreter waits for goes on when the main thread has ended.
threading.Thread(target=lambda: (threading.main_thread().join(), push())).start()
atexit.register(push)
"""


def _counting(workers: int) -> tuple[ec.Engine, ec.View]:
    engine = ec.Engine(workers=workers)
    source = engine.source("s", {"k": pl.Int64})
    return engine, engine.view("v", source.group_by("k").agg(n=pl.len()))


def _rows() -> pl.DataFrame:
    return pl.DataFrame({"k": range(ROWS)})


def _own_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("evercurrent")]


def test_an_epoch_is_evaluated_when_the_interpreter_starts_no_more_threads() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDING],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [f"(10000, {pushed})" for pushed in (20_000, 40_000, 60_000)]


def test_a_team_that_cannot_start_threads_runs_each_function_once(monkeypatch: pytest.MonkeyPatch) -> None:
    team, calls = Team(4, Turn()), []

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", refuse)
        found = team.run([lambda at=at: (calls.append(at), at)[1] for at in range(4)])
    assert found == [0, 1, 2, 3]
    assert team.run([lambda at=at: (calls.append(at), at)[1] for at in range(4, 8)]) == [4, 5, 6, 7]
    assert sorted(calls) == list(range(8))
    team.close()


def test_functions_of_views_run_in_the_context_of_the_push() -> None:
    def thirds(frame: pl.DataFrame) -> pl.DataFrame:
        texts = [str(decimal.Decimal(value) / 3) for value in frame["k"].to_list()]
        return frame.with_columns(third=pl.Series(texts, dtype=pl.String))

    found = []
    for workers in (1, 2, 3):
        engine = ec.Engine(workers=workers)
        source = engine.source("s", {"k": pl.Int64})
        view = engine.view("v", source.map_batches(thirds, schema={"k": pl.Int64, "third": pl.String}))
        with decimal.localcontext() as context:
            context.prec = 6
            engine.push("s", _rows())
        found.append(view.read().sort("k"))
        engine.close()
    assert found[0].equals(found[1])
    assert found[0].equals(found[2])


def test_threads_end_when_the_engine_is_closed_and_start_again_if_it_is_used_on() -> None:
    before = len(_own_threads())
    engine, view = _counting(3)
    engine.push("s", _rows())
    assert len(_own_threads()) > before
    engine.close()
    assert len(_own_threads()) == before
    engine.push("s", _rows())
    assert view.read()["n"].sum() == 2 * ROWS
    engine.close()
    assert len(_own_threads()) == before
