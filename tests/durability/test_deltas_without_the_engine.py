"""What the documentation gives to read deltas with polars alone reads all of them, each once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from commit_cadence import each_epoch_committed
from durability.kept_programs import NODES_BY_OURS, STATES, KeptProgram
from durability.test_kept_checkpoint import require_hash
from durability.test_options import feed, started
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.checkpoint.record_packs import content_of, pack_name
from evercurrent.views.store import LocalStore

GUIDE = Path(__file__).parents[2] / "docs" / "architecture" / "views.md"


@pytest.fixture(scope="module")
def documented() -> Callable[[Path, str], Iterable[pl.DataFrame]]:
    """The function of the documentation."""
    found = re.search(r"\*Deltas without the engine\.\*.*?```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(found[1], names)
    function: Callable[[Path, str], Iterable[pl.DataFrame]] = names["deltas"]
    return function


def rows(frames: Iterable[pl.DataFrame]) -> list[str]:
    return [repr(row) for frame in frames for row in frame.rows()]


def read(documented: Any, folder: Path, view: str) -> list[str]:
    return rows(documented(folder, view))


def by_engine(engine: ec.Engine, view: str) -> list[str]:
    return rows(engine.views[view].deltas())


def test_what_this_version_writes(documented: Any, tmp_path: Path) -> None:
    with started(tmp_path) as engine:
        feed(engine, range(1, 6))
        engine.checkpoint()
        feed(engine, range(6, 12))
        expected = by_engine(engine, "totals")
    assert read(documented, tmp_path, "totals") == expected


@pytest.mark.parametrize("program", [STATES, NODES_BY_OURS], ids=lambda program: program.folder)
def test_what_an_earlier_version_has_begun(program: KeptProgram, documented: Any, tmp_path: Path) -> None:
    require_hash(program)
    folder = program.copied(tmp_path / "kept")
    with program.opened(folder, range(program.kept_at, program.epochs)) as engine:
        views = [name for name, view in engine.views.items() if not any(d.is_empty() for d in view.deltas())]
        expected = {view: by_engine(engine, view) for view in views}
    assert {view: read(documented, folder, view) for view in views} == expected


def test_records_that_are_being_put_together(documented: Any, tmp_path: Path) -> None:
    with each_epoch_committed(), started(tmp_path) as engine:
        feed(engine, range(1, 6))
        expected = by_engine(engine, "totals")
    firsts = [epoch for epoch in CommitLog(LocalStore(tmp_path)).epochs() if epoch < 4]
    contents = [(first, (tmp_path / "commits" / f"{first:012d}.json").read_bytes()) for first in firsts]
    (tmp_path / pack_name(firsts)).write_bytes(b"".join(content_of(contents)))
    assert read(documented, tmp_path, "totals") == expected


def test_a_name_with_what_python_takes_for_the_end_of_a_line(documented: Any, tmp_path: Path) -> None:
    name = "a\u2028b\x85c"
    engine = ec.Engine(checkpoint=tmp_path)
    engine.view(name, engine.source("s", {"k": pl.Int64}).group_by("k").agg(n=pl.len()))
    with engine:
        engine.push("s", {"k": [1]})
        expected = by_engine(engine, name)
    assert read(documented, tmp_path, name) == expected
