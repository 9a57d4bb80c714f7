"""kill -9 of a query in Spark that is given one more stream, or loses one: it is started again with it, or without it, and exact."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evercurrent.views.checkpoint import Commit, CommitLog
from evercurrent.views.checkpoint.verifying import verify
from evercurrent.views.store import LocalStore
from spark.conftest import write_one_file
from spark.doomed_streams import HITS, NAMES, declared, started, until_it_is_killed
from spark.test_killed_declarations import ended, killed
from spark.test_spark_kill import long_only
from spark.twins import require_views

HIT_ROWS = [
    pl.DataFrame({"ip": [at % 7 for at in rows], "bytes": [at * at % 31 for at in rows]}, schema=HITS)
    for rows in (range(40), range(40, 55), range(55, 90))
]
NAME_ROWS = [pl.DataFrame({"ip": [at, at], "name": [f"n{at}", f"m{at}"]}, schema=NAMES) for at in range(3)]


@pytest.mark.parametrize(
    ("when", "is_process"),
    [
        pytest.param("after", False, id="after, in this process"),
        *(
            pytest.param(each, True, id=each, marks=long_only)
            for each in ("copying", "torn", "after", "first")
        ),
    ],
)
def test_killed_while_a_stream_is_added(
    when: str, is_process: bool, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, last = left_behind(when, is_process, spark, tmp_path, monkeypatch)
    assert set(last.plan["views"]) == {"totals", "named"}
    committed = last.facts["spark"]
    assert committed["numbered"] == ["hits", "names"] if when in ("after", "first") else ["hits"]
    assert verify(store).faults == ()
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "as it was")
    for names in (True, False):
        for name, frame in (("hits", HIT_ROWS[2]), ("names", NAME_ROWS[2])):
            write_one_file(frame, tmp_path / name / "2.parquet", 2)
        require_the_same(
            started(spark, declared(names=names), tmp_path, drop=() if names else ("names", "named")), names
        )
        assert verify(store).faults == ()
        shutil.rmtree(tmp_path / "checkpoint")
        shutil.copytree(tmp_path / "as it was", tmp_path / "checkpoint")
        for name in ("hits", "names"):
            (tmp_path / name / "2.parquet").unlink()


@pytest.mark.parametrize(
    ("when", "is_process"),
    [
        pytest.param("drop copying", False, id="copying, in this process"),
        *(
            pytest.param(f"drop {each}", True, id=each, marks=long_only)
            for each in ("copying", "torn", "after")
        ),
    ],
)
def test_killed_while_a_stream_is_dropped(
    when: str, is_process: bool, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, last = left_behind(when, is_process, spark, tmp_path, monkeypatch)
    assert set(last.plan["views"]) == {"totals"}
    assert ("names" in last.plan["sources"]) == (when == "drop torn")
    assert verify(store).faults == ()
    write_one_file(HIT_ROWS[2], tmp_path / "hits" / "2.parquet", 2)
    require_the_same(started(spark, declared(), tmp_path, drop=["names"]), names=False)
    assert verify(store).faults == ()


def left_behind(
    when: str, is_process: bool, spark: Any, folder: Path, patch: pytest.MonkeyPatch
) -> tuple[LocalStore, Commit]:
    """Have a query killed, and return its store with the last commit."""
    for name, frames in (("hits", HIT_ROWS[:2]), ("names", NAME_ROWS[:2])):
        (folder / name).mkdir()
        for number, frame in enumerate(frames):
            write_one_file(frame, folder / name / f"{number}.parquet", number)
    if is_process:
        killed(folder, when, "spark.doomed_streams")
    else:
        ended(until_it_is_killed, spark, folder, when, patch)
    store = LocalStore(folder / "checkpoint")
    last = CommitLog(store).last
    assert last is not None
    return store, last


def require_the_same(query: Any, names: bool) -> None:
    """Check the views of a query that is started again over all rows, and stop it."""
    try:
        query.process_all_available()
        truth = declared(names=names)
        truth.push("hits", pl.concat(HIT_ROWS))
        if names:
            truth.push("names", pl.concat(NAME_ROWS))
        assert set(query.views) == set(truth.views)
        require_views(query, truth)
    finally:
        query.stop()
