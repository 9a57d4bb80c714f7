"""The panes to draw: where each rectangle begins, what it retracts, and when it is retracted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from evercurrent.core.data.clock import END_OF_TIME, START_OF_TIME

from .recording import Recording, instants
from .span import WHOLE, Span

_WINDOW = ("key", "start", "end")

Instants = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TakenBack:
    """A pane that was retracted: its window and its value."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class Pane:
    """One emitted pane of a window. Instants are microseconds; START_OF_TIME and END_OF_TIME stand for no bounds.

    ``label`` is None where a value was only retracted and not replaced.
    """

    key: str
    start: int
    end: int
    label: str | None
    diff: int
    since: int
    """The processing time at which the rectangle begins: that of the pane before of this window, or of its first row."""
    fired: int
    epoch: int
    timing: str | None
    gone_at: int | None
    """When this value was retracted; None if it was not."""
    takes_back: tuple[TakenBack, ...]


@dataclass(frozen=True, slots=True)
class Panes:
    """The panes to draw, in the order in which they were emitted, and how many there were in all."""

    drawn: tuple[Pane, ...]
    total: int


def panes_of(recording: Recording, limit: int, span: Span = WHOLE) -> Panes:
    """Return the panes of a span, thinned out evenly to ``limit``; their extents are those of the whole run."""
    entries = _entries(recording.panes)
    emitted = entries.filter(pl.col("diff") > 0)
    retractions = _with_replacements(entries.filter(pl.col("diff") < 0), emitted)
    alone = retractions.filter(pl.col("by").is_null())
    shown = pl.concat([emitted, alone.select(emitted.columns)]).filter(span.meets())
    marks = _thinned(shown.sort("id"), limit)
    rows = _ends(_beginnings(emitted, recording), retractions).filter(
        pl.col("id").is_in(marks["id"].implode())
    )
    taken_back = _taken_back(retractions.filter(pl.col("by").is_in(marks["id"].implode())))
    drawn = [_pane(row, taken_back.get(row["id"], ())) for row in rows.iter_rows(named=True)]
    drawn += [_lone(row) for row in alone.join(marks, on="id", how="semi").iter_rows(named=True)]
    drawn.sort(key=lambda pane: (pane.fired, pane.epoch, pane.start, pane.end, pane.key))
    return Panes(tuple(drawn), shown.height)


def _pane(row: Mapping[str, Any], takes_back: tuple[TakenBack, ...]) -> Pane:
    """Return the pane of a value that was emitted."""
    fields = {name: row[name] for name in ("key", "start", "end", "label", "diff", "since", "fired", "epoch")}
    return Pane(**fields, timing=row["timing"], gone_at=row["gone_at"], takes_back=takes_back)


def _lone(row: Mapping[str, Any]) -> Pane:
    """Return the pane of a value that was retracted and not replaced."""
    fields = {name: row[name] for name in ("key", "start", "end", "diff", "fired", "epoch", "timing")}
    retracted = TakenBack(row["start"], row["end"], row["label"])
    return Pane(**fields, label=None, since=row["fired"], gone_at=None, takes_back=(retracted,))


def _taken_back(retractions: pl.DataFrame) -> dict[int, tuple[TakenBack, ...]]:
    """Group the retractions by the pane that replaces what they retract."""
    by_pane: dict[int, tuple[TakenBack, ...]] = {}
    for by, start, end, label in retractions.select("by", "start", "end", "label").iter_rows():
        by_pane[by] = (*by_pane.get(by, ()), TakenBack(start, end, label))
    return by_pane


def _entries(panes: pl.DataFrame) -> pl.DataFrame:
    """Return the panes with instants, in order of time, each with its number as ``id``."""
    columns = [
        panes["key"].fill_null("") if "key" in panes.columns else pl.lit("").alias("key"),
        instants(panes["window_start"], START_OF_TIME).alias("start"),
        instants(panes["window_end"], END_OF_TIME).alias("end"),
        panes["label"].fill_null("null"),
        panes["diff"].cast(pl.Int64),
        panes["epoch"].cast(pl.Int64),
        instants(panes["processing_time"]).alias("fired"),
        panes["timing"],
    ]
    order = ["fired", "epoch", "start", "end", "key", "label"]
    return panes.select(columns).sort(order, maintain_order=True).with_row_index("id")


def _with_replacements(retractions: pl.DataFrame, emitted: pl.DataFrame) -> pl.DataFrame:
    """Add ``by`` to the retractions: the pane of the same epoch that replaces what is retracted; null if there is none.

    That is the pane of the same window or, if sessions were merged, of a window that contains it.
    """
    new = emitted.select(*_WINDOW, "epoch", by="id").unique(
        [*_WINDOW, "epoch"], keep="first", maintain_order=True
    )
    same = retractions.join(new, on=[*_WINDOW, "epoch"], how="left", maintain_order="left")
    around = (
        retractions.select("id", "key", "epoch", "start", "end")
        .sort("start")
        .join_asof(
            new.select("key", "epoch", "start", outer_end="end", outer="by").sort("start"),
            on="start",
            by=["key", "epoch"],
            strategy="backward",
            check_sortedness=False,
        )
    )
    held = around.filter(pl.col("outer_end") >= pl.col("end")).select("id", "outer")
    return (
        same.join(held, on="id", how="left", maintain_order="left")
        .with_columns(by=pl.coalesce("by", "outer"))
        .drop("outer")
    )


def _beginnings(emitted: pl.DataFrame, recording: Recording) -> pl.DataFrame:
    """Add ``since`` to the panes: the time of the pane before of the same window, else that of its first row."""
    before = emitted.with_columns(since=pl.col("fired").shift(1).over(_WINDOW, order_by="id"))
    first = before.filter(pl.col("since").is_null())
    arrivals = _first_arrivals(first, recording)
    first_arrivals = first.select("id").with_columns(arrivals)
    return before.join(first_arrivals, on="id", how="left", maintain_order="left").with_columns(
        since=pl.min_horizontal(pl.coalesce("since", "arrived", "fired"), "fired")
    )


def _first_arrivals(panes: pl.DataFrame, recording: Recording) -> pl.Series:
    """Return for each pane the processing time of the first row in its window, and of its key where rows have keys."""
    times, arrivals, keys = _sorted_rows(recording)
    first_seen = np.full(panes.height, END_OF_TIME, np.int64)
    pane_keys = panes["key"].to_numpy()
    for key in np.unique(pane_keys):
        at = np.flatnonzero(pane_keys == key)
        mine = slice(None) if keys is None else keys == key
        first_seen[at] = _least_between(
            times[mine], arrivals[mine], panes["start"].to_numpy()[at], panes["end"].to_numpy()[at]
        )
    arrived = pl.Series("arrived", first_seen)
    return arrived.set(arrived == END_OF_TIME, None)


def _sorted_rows(recording: Recording) -> tuple[Instants, Instants, npt.NDArray[np.object_] | None]:
    rows = recording.rows
    times = instants(rows["event_time"], END_OF_TIME).to_numpy()
    order = np.argsort(times, kind="stable")
    arrivals = instants(rows["processing_time"]).to_numpy()[order]
    keys = rows["key"].fill_null("").to_numpy()[order] if "key" in rows.columns else None
    return times[order], arrivals, keys


def _least_between(times: Instants, values: Instants, low: Instants, high: Instants) -> Instants:
    """Return for each [low, high) the least value whose time is inside; END_OF_TIME if there is none."""
    if not len(times):
        return np.full(len(low), END_OF_TIME, np.int64)
    first, last = np.searchsorted(times, low), np.searchsorted(times, high)
    # reduceat takes pairs of positions and returns a single value, not none, where they are equal.
    padded = np.append(values, END_OF_TIME)
    least = np.minimum.reduceat(padded, np.column_stack([first, np.maximum(last, first)]).ravel())[::2]
    return np.where(last > first, least, END_OF_TIME)


def _ends(emitted: pl.DataFrame, retractions: pl.DataFrame) -> pl.DataFrame:
    """Add ``gone_at`` to the panes: the n-th retraction of a value of a window retracts its n-th pane."""
    columns = [*_WINDOW, "label"]
    nth = pl.int_range(pl.len()).over(columns).alias("nth")
    numbered = retractions.sort("id").select(*columns, nth, gone_at="fired")
    return (
        emitted.sort("id")
        .with_columns(nth)
        .join(numbered, on=[*columns, "nth"], how="left", maintain_order="left")
    )


def _thinned(frame: pl.DataFrame, limit: int) -> pl.DataFrame:
    """Return at most ``limit`` rows, evenly spread, with the first and the last."""
    if frame.height <= limit:
        return frame
    return frame[np.linspace(0, frame.height - 1, limit).round().astype(np.int64)]
