"""Random histories of a query on a real Spark: rows, views and sources come and go, and it is stopped at any time and started again."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.spark_bridge import run
from evercurrent.views.checkpoint.verifying import verify
from evercurrent.views.store import LocalStore
from spark.test_spark_kill import LONG
from spark.twins import counted

COLUMNS = {"k": pl.Int64, "x": pl.Int64}
STREAMS = ("a", "b", "c")
STEPS = (
    "rows",
    "rows",
    "rows",
    "view",
    "view",
    "drop view",
    "source",
    "source",
    "drop source",
    "stop",
    "started",
)


def lines(engine: ec.Engine, name: str) -> dict[str, Any]:
    """What can be a view of a source, or of two."""
    source = engine.sources[name]
    totals = source.group_by("k").agg(n=pl.len(), x=pl.col("x").sum())
    found = {f"totals {name}": totals, f"sizes {name}": totals.group_by("n").agg(keys=pl.len())}
    for other in engine.sources:
        if other < name:
            found[f"{other} and {name}"] = totals.join(engine.sources[other], on="k")
    return found


class History:
    """A query whose sources retain their rows, and what came into each source since it was declared."""

    def __init__(self, spark: Any, feed: Any, checkpoint: Path, seed: int) -> None:
        self.random, self.feed, self.checkpoint = random.Random(seed), feed, checkpoint
        self.rows: dict[str, list[pl.DataFrame]] = {name: [] for name in STREAMS}
        self.generation = dict.fromkeys(STREAMS, 0)
        self.views: dict[str, str] = {}
        self.sources: list[str] = ["a"]
        self.streams: dict[str, Any] = {}
        self._feed("a")
        self.views["totals a"] = "a"
        self.engine, self.query = self._started()

    def _feed(self, name: str) -> None:
        count = self.random.randrange(1, 9)
        frame = pl.DataFrame(
            {"k": [self.random.randrange(4) for _ in range(count)], "x": list(range(count))}, COLUMNS
        )
        self.rows[name].append(frame)
        self.streams[name] = self.feed([frame], f"{name}{self.generation[name]}")

    def _declared(self, sources: list[str]) -> ec.Engine:
        engine = ec.Engine()
        for name in sources:
            engine.source(name, COLUMNS, retained=True)
        for view, source in self.views.items():
            engine.view(view, lines(engine, source)[view])
        return engine

    def _started(self) -> Any:
        sources = self.random.sample(self.sources, len(self.sources))
        engine = self._declared(sources)
        streams = {name: self.streams[name] for name in self.random.sample(sources, len(sources))}
        return engine, run(engine, streams, checkpoint=self.checkpoint, buckets=2)

    def step(self) -> None:
        what = self.random.choice(STEPS)
        if what == "rows":
            self._feed(self.random.choice(self.sources))
        elif what == "view":
            name = self.random.choice(self.sources)
            view = self.random.choice(list(lines(self.engine, name)))
            if view not in self.views:
                background = self.random.random() < 0.5
                self.engine.view(view, lines(self.engine, name)[view], background=background).wait(120)
                self.views[view] = name
        elif what == "drop view" and len(self.views) > 1:
            view = self.random.choice(list(self.views))
            self.engine.drop_view(view)
            del self.views[view]
        elif what == "source" and len(self.sources) < len(STREAMS):
            self._add(self.random.choice([name for name in STREAMS if name not in self.sources]))
        elif what == "drop source":
            self._drop_source()
        elif what in ("stop", "started"):
            if what == "started":
                self.query.process_all_available()
            self.query.stop()
            self.engine, self.query = self._started()

    def _add(self, name: str) -> None:
        self.generation[name] += 1
        self.rows[name] = []
        self._feed(name)
        self.engine.source(name, COLUMNS, retained=True)
        if self.random.random() < 0.5:
            view = f"totals {name}"
            self.engine.view(view, lines(self.engine, name)[view])
            self.views[view] = name
        self.query.add_streams({name: self.streams[name]})
        self.sources.append(name)

    def _drop_source(self) -> None:
        free = [
            name
            for name in self.sources
            if not any(name in view.split() for view in self.views) and len(self.sources) > 1
        ]
        if free:
            self.engine.drop_source(free[0])
            self.sources.remove(free[0])

    def check(self) -> None:
        self.query.process_all_available()
        truth = self._declared(self.sources)
        for name in self.sources:
            truth.push(name, pl.concat(self.rows[name]))
        assert set(self.query.views) == set(self.views)
        for name, view in truth.views.items():
            own, rows = self.query.view(name), counted([view.read()])
            assert counted([own.read()]) == rows, name
            assert counted([delta.drop("_epoch") for delta in own.deltas()]) == rows, name


@pytest.mark.parametrize("seed", range(12 if LONG else 2))
def test_a_history(seed: int, spark: Any, feed: Any, checkpoint: Path) -> None:
    history = History(spark, feed, checkpoint, seed)
    try:
        for number in range(14):
            history.step()
            if number % 5 == 4:
                history.check()
        history.check()
    finally:
        history.query.stop()
    assert verify(LocalStore(checkpoint)).faults == ()
