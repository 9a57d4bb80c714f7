"""What look-ups keep beside the entries of a run has a limit, and is counted, also where the entries are in a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.columns.kernels import Keys
from evercurrent.core.data.schema import DIFF
from evercurrent.core.state import run as runs
from evercurrent.core.state.run import Layout, Run, make_run
from evercurrent.core.state.spine import Spine

KEYS = 5_000


def run_of(keys: int) -> Run:
    words = np.arange(keys, dtype=np.uint64)
    return make_run(Layout(), Keys(words), pl.DataFrame(), {DIFF: np.ones(keys, np.int64)})


def test_where_keys_begin_is_remembered_and_counted() -> None:
    run = run_of(100)
    before = run.nbytes
    starts = run.starts()
    assert starts.tolist() == list(range(100))
    assert run.starts() is starts
    assert run.nbytes == before + starts.nbytes == before + 800


def test_of_more_keys_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST_STARTS", 100)
    for keys, is_remembered in ((100, True), (101, False)):
        run = run_of(keys)
        before = run.nbytes
        run.starts()
        assert (run.nbytes > before) == is_remembered


def test_it_counts_beside_mapped_runs(tmp_path: Path) -> None:
    """A limit on what is resident would not see it, as the entries are in files."""
    engine = ec.Engine(checkpoint=ec.Checkpoint(tmp_path / "checkpoint", resident_bytes=1 << 12))
    rows = engine.source("rows", {"k": pl.Int64, "v": pl.Int64}, kind="diffs")
    view = engine.view("middle", rows.group_by("k").agg(m=pl.col("v").median()))
    frame = pl.DataFrame({"k": [*range(KEYS)] * 2, "v": [*range(2 * KEYS)], "_diff": [1] * 2 * KEYS})
    engine.push("rows", frame)
    engine.push("rows", frame)
    residence = engine._running.durability._now().residence  # type: ignore[union-attr]
    mapped = [run for each in residence._mapped.values() for run in each.values() if isinstance(run, Run)]
    assert mapped
    assert any(isinstance(state, Spine) for state in residence._states.values())
    before = residence._held_of_mapped()
    kept = sum(run.starts().nbytes for run in mapped if not run._starts)
    assert kept >= 8 * KEYS
    assert residence._held_of_mapped() == before + kept
    assert view.read().height == KEYS
    engine.close()
