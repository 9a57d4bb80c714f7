"""Arguments of sinks of a wrong type are refused where they are given, with what to give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec

WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a number as a folder": (lambda view: view.to_delta(3), "path=3; give a path or a url"),
    "no folder": (lambda view: view.to_delta(""), "path=''; give a path or a url"),
    "options": (lambda view: view.to_delta("t", storage_options=3), "storage_options=3; give a dictionary"),
    "a number as a key": (lambda view: view.to_delta("t", key=3), "key=3; give the name of a column"),
    "bytes as a key": (lambda view: view.to_sql("sqlite://", "t", key=b"k"), "give the name of a column"),
    "a frame as a key": (
        lambda view: view.to_kafka("t", object(), key=pl.DataFrame({"k": [1]})),
        "give the name",
    ),
    "no engine": (lambda view: view.to_source(3, "rows"), "3 is no engine; give the engine that is fed"),
    "no name": (lambda view: view.to_source(ec.Engine(), []), r"there is no source \[\]"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_argument_is_named(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call, message = WRONG[kind]
    engine = ec.Engine()
    view = engine.view("v", engine.source("rows", {"k": pl.Int64}).group_by("k").len("n"))
    with pytest.raises(ec.PlanError, match=message):
        call(view)
    assert list(tmp_path.iterdir()) == []
    assert view.subscriptions == ()
