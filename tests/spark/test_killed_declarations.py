"""kill -9 of a query in Spark while a view is declared in it: it is started again with the view, or without it, and exact."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evercurrent.spark_bridge.execution import micro_batches
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.checkpoint.verifying import verify
from evercurrent.views.store import LocalStore
from failing_store import Killed
from spark.conftest import write_one_file
from spark.doomed_declaration import SALES, declared, started, until_it_is_killed
from spark.offered import forget_everything
from spark.test_spark_kill import long_only
from spark.twins import require_views
from started import paths

TESTS = Path(__file__).resolve().parents[1]
BATCHES = [
    pl.DataFrame({"shop": [at % 7 for at in rows], "price": [at * at % 31 for at in rows]}, schema=SALES)
    for rows in (range(40), range(40, 55), range(55, 90))
]
VIEWS = ("totals", "sizes", "best")


def killed(folder: Path, when: str, program: str = "spark.doomed_declaration") -> None:
    words = [sys.executable, "-W", "ignore", "-m", program, str(folder), when]
    environment = os.environ | {
        "PYTHONPATH": paths(TESTS, TESTS.parent / "src"),
        "POLARS_MAX_THREADS": "1",
    }
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(words, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        assert process.wait(300) == -signal.SIGKILL, (folder / "log.txt").read_text()[-4000:]
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def ended(
    until_it_is_killed: Callable[..., None], spark: Any, folder: Path, when: str, patch: pytest.MonkeyPatch
) -> None:
    """End the query of such a program in this process and session: from that moment on its store does nothing, as of one that was killed.

    It is what the quick profile has: another process with its Java takes longer than all the rest.
    """
    with patch.context() as there:
        there.setattr(micro_batches, "store_at", micro_batches.store_at)
        with pytest.raises(Killed):
            until_it_is_killed(spark, folder, when, Killed)
    forget_everything()


@pytest.mark.parametrize(
    ("when", "is_process"),
    [
        pytest.param("torn", False, id="torn in this process"),
        *(pytest.param(each, True, id=each, marks=long_only) for each in ("torn", "after")),
    ],
)
def test_killed_while_a_view_is_declared(
    when: str, is_process: bool, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of the epoch in which it appears is half written, or the last thing that the process did."""
    (tmp_path / "input").mkdir()
    for number, frame in enumerate(BATCHES[:2]):
        write_one_file(frame, tmp_path / "input" / f"{number}.parquet", number)
    if is_process:
        killed(tmp_path, when)
    else:
        ended(until_it_is_killed, spark, tmp_path, when, monkeypatch)
    store = LocalStore(tmp_path / "checkpoint")
    last = CommitLog(store).last
    assert last is not None
    assert set(last.plan["views"]) == {"totals", "sizes"} | ({"best"} if when == "after" else set())
    assert verify(store).faults == ()
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "as it was")
    write_one_file(BATCHES[2], tmp_path / "input" / "2.parquet", 2)
    for names in (VIEWS, VIEWS[:2]):
        drop = tuple(name for name in last.plan["views"] if name not in names)
        query = started(spark, declared(*names), tmp_path, drop=drop)
        try:
            query.process_all_available()
            assert tuple(query.views) == names
            truth = declared(*names)
            truth.push("sales", pl.concat(BATCHES))
            require_views(query, truth)
        finally:
            query.stop()
        assert verify(store).faults == ()
        shutil.rmtree(tmp_path / "checkpoint")
        shutil.copytree(tmp_path / "as it was", tmp_path / "checkpoint")
