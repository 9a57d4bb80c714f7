"""Deltas of a view that was declared, or replaced by other columns, later: the same before and after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import polars as pl
import pytest

import evercurrent as ec


class Program:
    """A program that declares its views again after a restart."""

    def __init__(self, folder: Path | None) -> None:
        self.engine = ec.Engine() if folder is None else ec.Engine(checkpoint=folder)
        self.rows = self.engine.view("all", self.engine.source("log", {"ip": pl.String}, retained=True))

    def hits(self) -> ec.View:
        return self.engine.view("hits", self.rows.group_by("ip").len("n"), replace=True)


def answers(view: ec.View, since: int) -> object:
    try:
        return view.deltas(since).frame().rows(), view.history("a", since=since).frame().height
    except ec.EpochGoneError as error:
        return str(error)


@pytest.mark.parametrize("kind", ["memory", "checkpoint", "restarted"])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_no_deltas_are_of_before_the_first_epoch(tmp_path: Path, kind: str, is_replaced: bool) -> None:
    folder = None if kind == "memory" else tmp_path
    program = Program(folder)
    if is_replaced:
        program.engine.view("hits", program.rows.filter(pl.col("ip") == "a"))
    program.engine.push("log", {"ip": ["a"]})
    program.engine.push("log", {"ip": ["a"]})
    view = program.hits()
    program.engine.push("log", {"ip": ["a"]})
    before = [answers(view, since) for since in range(-1, 5)]
    if kind == "restarted":
        program.engine.close()
        program = Program(folder)
        view = program.hits()
    assert view.first_epoch == 3
    assert [answers(view, since) for since in range(-1, 5)] == before
    for since in (0, 1, 2):
        with pytest.raises(ec.EpochGoneError, match="begins at epoch 3"):
            view.deltas(since)
        with pytest.raises(ec.EpochGoneError, match="begins at epoch 3"):
            view.subscribe(print, since=since)
        with pytest.raises(ec.EpochGoneError, match="begins at epoch 3"):
            view.history("a", since=since)
    assert view.deltas(-1).frame().rows() == [("a", 2, 3, 1), ("a", 2, 4, -1), ("a", 3, 4, 1)]
    assert view.deltas(3).frame().rows() == [("a", 2, 4, -1), ("a", 3, 4, 1)]
    program.engine.close()


def test_who_follows_gets_all_rows_of_other_columns() -> None:
    program = Program(None)
    view = program.engine.view("hits", program.rows)
    program.engine.push("log", {"ip": ["a"]})

    rows: list[tuple[object, ...]] = []

    def announced(change: ec.SchemaChange) -> None:
        rows.append((change.epoch,))

    async def follow() -> None:
        async for delta in view.follow(since=0, on_schema=announced):
            rows.extend(delta.rows())
            if len(rows) == 1:
                program.hits()
            elif len(rows) == 3:
                program.engine.push("log", {"ip": ["b"]})
            else:
                break

    asyncio.run(asyncio.wait_for(follow(), 20))
    assert rows == [("a", 1, 1), (2,), ("a", 1, 2, 1), ("b", 1, 3, 1)]
