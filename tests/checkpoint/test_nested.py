"""A checkpoint is not inside another one, which deletes files that no commit of its own names."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.errors import CheckpointError
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.store import LocalStore


def pushed_into(folder: Path) -> None:
    with ec.Engine(checkpoint=folder) as engine:
        engine.view("v", engine.source("s", {"x": pl.Int64}).select("x"))
        engine.push("s", {"x": [1]})


def epoch_in(folder: Path) -> int:
    last = CommitLog(LocalStore(folder)).last
    assert last is not None
    return last.epoch


@pytest.mark.parametrize("inside", ["pieces/mine", "mine", "spark"])
def test_a_new_one_inside_another_one_is_refused(inside: str, tmp_path: Path) -> None:
    pushed_into(tmp_path / "outer")
    with pytest.raises(
        CheckpointError, match=r"the folder is inside the checkpoint .*outer; give one elsewhere"
    ):
        pushed_into(tmp_path / "outer" / inside)
    assert not (tmp_path / "outer" / inside).exists()


def test_a_link_into_another_one_is_refused(tmp_path: Path) -> None:
    pushed_into(tmp_path / "outer")
    (tmp_path / "link").symlink_to(tmp_path / "outer" / "pieces")
    with pytest.raises(CheckpointError, match=r"is inside the checkpoint .*outer; give one elsewhere"):
        pushed_into(tmp_path / "link" / "mine")
    assert not (tmp_path / "outer" / "pieces" / "mine").exists()


def test_one_beside_another_one_is_not(tmp_path: Path) -> None:
    pushed_into(tmp_path / "outer")
    pushed_into(tmp_path / "outer 2")
    assert epoch_in(tmp_path / "outer") == epoch_in(tmp_path / "outer 2") == 1


def test_one_that_is_inside_goes_on(tmp_path: Path) -> None:
    pushed_into(tmp_path / "outer" / "mine")
    pushed_into(tmp_path / "before")
    (tmp_path / "before" / "checkpoint.json").rename(tmp_path / "outer" / "checkpoint.json")
    pushed_into(tmp_path / "outer" / "mine")
    assert epoch_in(tmp_path / "outer" / "mine") == 2
