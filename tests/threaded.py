"""Engines that several threads write and read, and what they must show: computed again from what was acknowledged."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

import evercurrent as ec

KEYS = 7
START = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = {"id": pl.Int64, "k": pl.Int64, "v": pl.Int64, "at": pl.Datetime("us", "UTC")}
NAMES = pl.DataFrame({"k": range(KEYS), "name": [f"name {k}" for k in range(KEYS)]})
AT_MOST = 40
"""So many things that a thread has read are kept, evenly over the run; what it reads beside is not checked."""


def declared(**options: Any) -> ec.Engine:
    """An engine with views of each kind of state. Its first epoch are the names."""
    engine = ec.Engine(**options)
    rows = engine.source("rows", ROWS, kind="diffs", event_time="at")
    names = engine.source("names", dict(NAMES.schema))
    counts = rows.group_by("k").agg(n=pl.len(), total=pl.col("v").sum(), best=pl.col("v").max())
    engine.view("counts", counts)
    engine.view("histogram", counts.group_by("n").agg(keys=pl.len()))
    engine.view("joined", rows.join(names, on="k").select("id", "name", "v"))
    engine.view("top", rows.group_by("k").top_k(2, by="v").select("k", "v", "id"))
    engine.view("hours", rows.window(ec.fixed("1h")).group_by("k").agg(n=pl.len()))
    return engine


def recomputed(view: str, rows: pl.DataFrame) -> pl.DataFrame:
    """What a view holds of these rows."""
    counts = rows.group_by("k").agg(n=pl.len(), total=pl.col("v").sum(), best=pl.col("v").max())
    match view:
        case "counts":
            return counts
        case "histogram":
            return counts.group_by("n").agg(keys=pl.len())
        case "joined":
            return rows.join(NAMES, on="k").select("id", "name", "v")
        case "top":
            best = rows.sort("v", "id", "at", descending=[True, False, False])
            return best.group_by("k").head(2).select("k", "v", "id")
    windows = rows.with_columns(window_start=pl.col("at").dt.truncate("1h"))
    hours = windows.group_by("k", "window_start").agg(n=pl.len())
    return hours.select(
        "k", "window_start", pl.col("window_start").dt.offset_by("1h").alias("window_end"), "n"
    )


def plain(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    """The rows in one order, numbers as Python has them."""
    return sorted(frame.select(sorted(frame.columns)).rows())


class Acknowledged:
    """The batches that were pushed, by the numbers of their epochs."""

    def __init__(self) -> None:
        self._batches: dict[int, list[pl.DataFrame]] = {}
        self._guard = threading.Lock()

    def note(self, epoch: int, *batches: pl.DataFrame) -> None:
        """These were acknowledged as one epoch."""
        with self._guard:
            assert epoch not in self._batches, f"epoch {epoch} was acknowledged twice"
            self._batches[epoch] = list(batches)

    @property
    def epochs(self) -> list[int]:
        return sorted(self._batches)

    def rows(self, epoch: int) -> pl.DataFrame:
        """The rows after an epoch: added by then and not retracted."""
        known = [frame for at, frames in self._batches.items() if at <= epoch for frame in frames]
        frame = pl.concat([pl.DataFrame(schema={**ROWS, "_diff": pl.Int64}), *known])
        left = frame.group_by("id", maintain_order=True).agg(
            pl.all().exclude("_diff").first(), pl.col("_diff").sum()
        )
        assert left["_diff"].is_in([0, 1]).all()
        return left.filter(pl.col("_diff") == 1).drop("_diff")

    def check(self, view: str, epochs: range, frame: pl.DataFrame) -> None:
        """Hold what was read of a view to what it held after one of these epochs."""
        found = plain(frame)
        if not any(plain(recomputed(view, self.rows(epoch))) == found for epoch in epochs):
            held = plain(recomputed(view, self.rows(epochs[-1])))
            raise AssertionError(
                f"view {view!r}, epochs {epochs}: {found} is none of what it held; at last: {held}"
            )


class Writer:
    """One thread's rows: it adds some, retracts some of its own, alone or several batches as one epoch."""

    def __init__(self, engine: ec.Engine, acknowledged: Acknowledged, number: int) -> None:
        self._engine = engine
        self._acknowledged = acknowledged
        self._random = random.Random(number)
        self._next = number * 10**9
        self._live: list[tuple[Any, ...]] = []
        self.position = 0

    def step(self) -> None:
        """One epoch."""
        if self._random.random() < 0.25:
            batches = [self._batch(), self._batch()]
            with self._engine.epoch() as block:
                for batch in batches:
                    self._engine.push("rows", batch)
            assert block.number is not None
            self._acknowledged.note(block.number, *batches)
            return
        batch = self._batch()
        self._acknowledged.note(self._engine.push("rows", batch), batch)

    def _batch(self) -> pl.DataFrame:
        chosen = self._random
        rows = []
        while self._live and chosen.random() < 0.4:
            rows.append((*self._live.pop(chosen.randrange(len(self._live))), -1))
        for _ in range(chosen.randrange(1, 4)):
            self._next += 1
            row = (
                self._next,
                chosen.randrange(KEYS),
                chosen.randrange(50),
                START + timedelta(minutes=chosen.randrange(600)),
            )
            self._live.append(row)
            rows.append((*row, 1))
        return pl.DataFrame(rows, schema={**ROWS, "_diff": pl.Int64}, orient="row")


@dataclass
class Reader:
    """One thread that reads in all ways, and keeps some of what it has read."""

    engine: ec.Engine
    number: int
    seen: list[tuple[str, range, pl.DataFrame]] = field(default_factory=list)
    reads: int = 0
    _every: int = 1

    def step(self) -> None:
        """Read one view in one way."""
        self.reads += 1
        chosen = random.Random(self.number * 10**6 + self.reads)
        view = self.engine.views[chosen.choice(sorted(self.engine.views))]
        way: Callable[[ec.View], None] = chosen.choice(
            [self._read, self._snapshot, self._deltas, self._others]
        )
        way(view)

    def _read(self, view: ec.View) -> None:
        before = self.engine.epoch_number
        frame = view.read()
        self._keep(view, range(before, self.engine.epoch_number + 1), frame)

    def _snapshot(self, view: ec.View) -> None:
        snapshot = view.snapshot()
        self._keep(view, range(snapshot.epoch, snapshot.epoch + 1), snapshot.frame)

    def _deltas(self, view: ec.View) -> None:
        """A snapshot and the deltas since are what the view holds after the last of them."""
        snapshot = view.snapshot()
        deltas = view.deltas(since=snapshot.epoch)
        changes = [delta.drop("_epoch") for delta in deltas]
        rows = [snapshot.frame.with_columns(pl.lit(1, pl.Int64).alias("_diff")), *changes]
        summed = pl.concat(rows).group_by(snapshot.frame.columns).agg(pl.col("_diff").sum())
        frame = summed.filter(pl.col("_diff") != 0)
        assert (frame["_diff"] == 1).all(), f"{view.name}: {frame}"
        self._keep(view, range(deltas.last_epoch, deltas.last_epoch + 1), frame.drop("_diff"))

    def _others(self, view: ec.View) -> None:
        """All else that can be read."""
        epoch = self.engine.epoch_number
        assert f"View {view.name!r} at epoch " in repr(view)
        assert pl.DataFrame(view).columns == list(view.schema)
        assert self.engine.ledger().is_empty()
        assert set(self.engine.watermarks) == {"rows"}
        assert self.engine.positions == {}
        assert view.earliest <= epoch <= self.engine.epoch_number
        assert self.engine.run_log.epochs()["_epoch"].is_sorted()
        assert self.engine.explain().startswith("plan at epoch")

    def _keep(self, view: ec.View, epochs: range, frame: pl.DataFrame) -> None:
        if self.reads % self._every:
            return
        self.seen.append((view.name, epochs, frame))
        if len(self.seen) > AT_MOST:
            self.seen, self._every = self.seen[::2], 2 * self._every


def run_all(steps: list[Callable[[], object]], until: Callable[[], bool]) -> None:
    """Run each of these again and again in a thread of its own; what one of them raises ends all, and is raised."""
    raised: list[BaseException] = []

    def again(step: Callable[[], object]) -> None:
        try:
            while not raised and not until():
                step()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=again, args=(step,), daemon=True) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
        assert not thread.is_alive(), "it hangs"
    if raised:
        raise raised[0]
