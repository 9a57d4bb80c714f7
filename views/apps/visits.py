"""Requests of a web server as visits: sessions of an address, their numbers of pages, and visits per hour.

Requests arrive out of order, each up to an hour after it was made, so a visit grows, and a request can merge two visits
into one. The panes emitted before are then retracted in every view at once, also those of visits that seemed complete.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

import polars as pl

from ..dataframe.triggers import each_row, every
from ..dataframe.watermarks import bounded_delay
from ..dataframe.windows import sessions
from ..engine.engine import Engine
from .late_arrival import arriving_late
from .visits_log import HITS, REQUESTS, requests

show = ("visits", "depth", "hourly")
order = {
    "visits": ["-window_end", "-pages", "ip"],
    "depth": ["pages"],
    "hourly": ["-hour"],
}
bars = {"depth": "visits", "hourly": "visits"}
input_rows = REQUESTS

GAP = timedelta(minutes=30)
"""The gap between requests of an address from which on they belong to different visits."""

USUAL_DELAY = timedelta(minutes=10)
"""The delay of the watermark for late requests: less than some need, which then correct the panes emitted before."""

LONGEST_DELAY = timedelta(hours=1)
"""The longest time from a request to its arrival."""

DISORDER = timedelta(minutes=5)
"""A log has a request when it was answered, but with the time when it was made."""

READ = 3
"""The least number of pages of a visit that counts in ``hourly``."""


def engine() -> Engine:
    """Return an engine with the source ``hits`` and the three views over it."""
    site = Engine()
    hits = site.source("hits", HITS, event_time="at", watermark=bounded_delay(USUAL_DELAY))
    visits = site.view(
        "visits",
        hits.window(sessions(GAP))
        .trigger(early=every("1m"), late=each_row())
        .accumulate("retracting")
        .lateness("1d")
        .group_by("ip")
        .agg(pages=pl.len(), bytes=pl.col("bytes").sum()),
    )
    site.view(
        "depth",
        visits.group_by("pages").agg(visits=pl.len(), bytes=pl.col("bytes").mean()),
    )
    site.view(
        "hourly",
        visits.filter(pl.col("pages") >= READ)
        .group_by(hour=pl.col("window_start").dt.truncate("1h"))
        .agg(visits=pl.len()),
    )
    return site


def inputs(batch_rows: int) -> Iterator[tuple[str, pl.DataFrame, datetime]]:
    """Yield generated requests in the order of their arrival."""
    return arrivals([("hits", requests())], batch_rows)


def arrivals(
    batches: Iterable[tuple[str, pl.DataFrame]], batch_rows: int, *, seed: int = 1
) -> Iterator[tuple[str, pl.DataFrame, datetime]]:
    """Yield requests of a log as if they came from many servers: each up to an hour late, in batches of this many."""
    arriving = arriving_late(
        (frame for _, frame in batches),
        batch_rows,
        time="at",
        within=LONGEST_DELAY,
        slack=DISORDER,
        seed=seed,
    )
    return (("hits", frame, at) for frame, at in arriving)


def remarks(deltas: Mapping[str, pl.DataFrame]) -> list[str]:
    """Describe visits that merged into one, then complete ones that a late request changed; the longest first."""
    if "visits" not in deltas:
        return []
    change = deltas["visits"]
    gone, come = change.filter(pl.col("_diff") < 0), change.filter(pl.col("_diff") > 0)
    # Visits that ended before the watermark of this epoch's requests had certainly been emitted as complete.
    watermark = pl.lit(come.select(pl.col("window_end").max() - (GAP + USUAL_DELAY)).item())
    corrected = (
        come.join(gone, on="ip", suffix="_gone")
        .filter(
            pl.col("window_start_gone") >= pl.col("window_start"),
            pl.col("window_end_gone") <= pl.col("window_end"),
        )
        .group_by("ip", "window_start", "pages")
        .agg(parts=pl.len(), before=pl.col("pages_gone").sum(), end=pl.col("window_end_gone").max())
        .filter((pl.col("parts") > 1) | (pl.col("end") <= watermark))
        .sort(pl.col("parts") > 1, "pages", "ip", descending=[True, True, False])
    )
    start = pl.col("window_start").dt.to_string("%d %b %H:%M")
    sentences = (
        pl.when(pl.col("parts") > 1)
        .then(pl.format("{} visits of {} are one, from {}, of {} pages", "parts", "ip", start, "pages"))
        .otherwise(
            pl.format("late: the visit of {} from {} has {} pages, not {}", "ip", start, "pages", "before")
        )
    )
    return corrected.select(sentences).to_series().to_list()
