"""Law: after each pair of operations rows that have to meet are in one bucket, and workers give what one process gives.

Both key columns have the same few values, and are swapped, replaced, renamed and computed of one another, so that rows which were
together by a name are not by what has that name next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.circuit.circuit import NodeId
from evercurrent.core.data.columns.kernels import key_words
from evercurrent.core.data.columns.key_hash import hashing_by
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import PlanError
from evercurrent.core.state.partitioning import bucket_of
from evercurrent.views.partitioned.stage_runner import StageRunner
from evercurrent.views.partitioned.tasks import TaskResult

NOON = datetime(2026, 1, 1, 12)
COLUMNS = {"a": pl.Int64, "b": pl.Int64, "v": pl.Int64, "at": pl.Datetime("us")}
A, B, V, AT = (pl.col(name) for name in COLUMNS)
START, END = pl.col("window_start"), pl.col("window_end")
WORKERS = 3

Rows = ec.Collection
Operation = Callable[[Rows], Rows]


def panes(window: ec.Window | None, *, by: pl.Expr = A, other: pl.Expr = B) -> Operation:
    """Panes of windows by a key, with all columns."""
    aggregates = {"b": other.max(), "v": V.sum(), "at": AT.max()}
    return lambda rows: timed(rows).window(window).group_by(by.alias("a")).agg(**aggregates)


def in_phases(rows: Rows, window: ec.Window) -> Rows:
    """Windows with early and late panes."""
    return timed(rows).window(window).trigger(early=ec.after_count(2), late=ec.each_row())


def timed(rows: Rows) -> Rows:
    """Rows with their event time, which a grouping has made anew."""
    return rows.filter(AT.is_not_null()).with_event_time("at")


def grouped(*keys: pl.Expr) -> Operation:
    """Groups with all columns."""
    names = {key.meta.output_name() for key in keys}
    rest = {"a": A.max(), "b": B.min(), "v": V.sum(), "at": AT.max()}
    return lambda rows: rows.group_by(*keys).agg(**{n: e for n, e in rest.items() if n not in names})


def own(rows: Rows) -> Rows:
    """The rows without the bounds of windows."""
    return rows.select("a", "b", "v", "at")


def values(rows: Rows) -> Rows:
    """A row for each value of b, with columns of other names."""
    return rows.group_by(p=B).agg(q=A.max())


AFTER: dict[str, Operation] = {
    "swap": lambda rows: rows.with_columns(a=B, b=A),
    "compute": lambda rows: rows.with_columns(a=A % 2),
    "explode": lambda rows: grouped(pl.concat_list("a", "b").alias("a"))(rows).explode("a"),
    "unnest": lambda rows: (
        grouped(pl.struct(B.alias("a"), V.alias("of")).alias("a"))(rows).unnest("a").drop("of")
    ),
    "other bounds": lambda rows: rows.with_columns(window_start=START.dt.truncate("1h")),
    "group by b as a": grouped(B.alias("a")),
    "first of each": lambda rows: own(rows).unique("b", keep="last", by="v"),
    "right join": lambda rows: (
        own(rows)
        .drop("b")
        .join(values(rows), left_on="a", right_on="p", how="right")
        .rename({"p": "a", "q": "b"})
    ),
    "full join": lambda rows: (
        own(rows)
        .drop("b")
        .join(values(rows), left_on="a", right_on="p", how="full")
        .rename({"q": "b"})
        .drop("p")
    ),
    "fixed": panes(ec.fixed("10m")),
    "sliding": panes(ec.sliding("20m", every="10m"), by=B, other=A),
    "sessions": panes(ec.sessions("5m")),
    "count": panes(ec.count_window(2)),
    "given": panes(None),
}
FIRST: dict[str, Operation] = {
    "group by a": grouped(A),
    "join": lambda rows: (
        own(rows).join(values(rows), left_on="a", right_on="p", how="left").with_columns(b="q").drop("q")
    ),
    "fixed": panes(ec.fixed("10m")),
    "shifted": panes(ec.fixed("10m", shifted_by_key=True), by=B, other=A),
    "latest": lambda rows: (
        in_phases(rows, ec.sessions("5m"))
        .accumulate("accumulating")
        .group_by("a")
        .agg(b=B.max(), v=V.sum(), at=AT.max())
        .latest()
    ),
}


def declared(workers: int, first: str) -> ec.Engine:
    """A view of each operation after the first one, and groups by each key of what that gives."""
    engine = ec.Engine(workers=workers)
    rows = engine.source("rows", COLUMNS, kind="diffs", event_time="at", watermark=ec.bounded_delay("20m"))
    before = FIRST[first](rows)
    for second, operation in AFTER.items():
        try:
            after = operation(before)
        except PlanError:  # It needs windows, or a column that has gone.
            continue
        view = engine.view(second, after)
        bounds = [name for name in ("window_start", "window_end") if name in after.schema]
        counts = view.select("a", "v", *bounds).group_by("a", *bounds).agg(n=pl.len(), sum=V.sum())
        engine.view(f"{second}, groups", counts)
    return engine


def epochs() -> Iterator[list[tuple[Any, ...]]]:
    """Rows that come, and some of which go again."""
    rows = [
        (n * n % 5 or None, n * 7 % 5 or None, n % 4, NOON + timedelta(minutes=n * 11 % 40 + n))
        for n in range(24)
    ]
    for begin in range(0, 24, 12):
        gone = rows[max(begin - 12, 0) : begin : 3]
        yield [*((*row, 1) for row in rows[begin : begin + 12]), *((*row, -1) for row in gone)]


def run(workers: int, first: str) -> tuple[dict[str, list[Counter[Any]]], dict[str, Counter[Any]]]:
    """Return the deltas of all views, epoch by epoch, and their contents."""
    engine = declared(workers, first)
    for rows in epochs():
        engine.push("rows", rows)
    deltas = {name: [Counter(delta.rows()) for delta in view.deltas()] for name, view in engine.views.items()}
    return deltas, {name: Counter(view.read().rows()) for name, view in engine.views.items()}


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes whose rows were in other buckets than those of the columns by which they are declared to be cut."""
    nodes: list[str] = []
    finish = StageRunner._finish

    def checked(self: StageRunner, result: TaskResult, *others: Any) -> None:
        if result.stage:
            nodes.extend(
                self.circuit.nodes[place].name
                for place, delta in self._visited.items()
                if len(delta) and not is_there(self, place, delta, result.place)
            )
        finish(self, result, *others)

    monkeypatch.setattr(StageRunner, "_finish", checked)
    return nodes


def is_there(self: StageRunner, place: NodeId, delta: Delta, bucket: int) -> bool:
    """Whether all rows of a node are in the bucket in which rows with their values are declared to be."""
    cut_by = self.cut.cut_by[place]
    if not cut_by:
        return cut_by is None or bucket == 0
    with hashing_by(self._pieces.key_hash):
        words = key_words([delta.frame.get_column(name) for name in cut_by], len(delta)).first
    return bool((bucket_of(words, self._buckets) == bucket).all())


@pytest.mark.filterwarnings("ignore::evercurrent.GrowthWarning")
@pytest.mark.parametrize("first", FIRST)
def test_pairs(first: str, apart: list[str]) -> None:
    deltas, contents = run(1, first)
    assert (deltas, contents) == run(WORKERS, first)
    assert not apart
    assert sum(map(bool, contents.values())) > 16
