"""Seeded inputs with event times, and the truth about them, computed with numpy and without any contender.

Times are whole seconds since 1970-01-01 UTC. Rows stand in the order in which they arrive.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from bench.reply import Histogram

Integers = npt.NDArray[np.int64]
BEGIN = 1_767_225_600
"""2026-01-01 00:00 UTC: where event time begins."""

HITS = {"key": pl.Int64, "at": pl.Int64}
GAP, DISORDER = 1_800, 300
DAY_SECONDS = 86_400
PAGES, BETWEEN_PAGES = 5, 300


@dataclass(frozen=True)
class SessionInput:
    """A folder of CSV files, and the histogram `[pages, sessions, rows]` as it must stand after each file."""

    folder: Path
    truth: tuple[Histogram, ...]
    sessions: int


def write_sessions(folder: Path, rows: int, keys: int, files: int, seed: int = 30) -> SessionInput:
    """Write the hits of one day, out of order by up to `DISORDER` seconds, as slices by arrival.

    A key pays visits at any time of the day; a visit has pages (geometric, `PAGES` on average) with pauses
    between them (exponential, `BETWEEN_PAGES` seconds on average). So most sessions have several rows; more
    than one in four go over the end of a file; some visits meet and are one, and some pauses end one.
    """
    folder.mkdir(parents=True)
    key, at = _visits(np.random.default_rng(seed), rows, keys)
    ends = np.cumsum([len(part) for part in np.array_split(key, files)])
    truth: list[Histogram] = []
    for number, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        frame = pl.DataFrame({"key": key[start:end], "at": at[start:end]}, schema=HITS)
        frame.write_csv(folder / f"part-{number:03}.csv")
        truth.append(session_histogram(key[:end], at[:end], GAP))
    return SessionInput(folder, tuple(truth), sum(row[1] for row in truth[-1]))


def session_histogram(key: Integers, at: Integers, gap: int) -> Histogram:
    """Rows `[pages, sessions, rows]`; hits of a key that are `gap` seconds apart are in different sessions."""
    order = np.lexsort((at, key))
    key, at = key[order], at[order]
    first = np.r_[True, (key[1:] != key[:-1]) | (np.diff(at) >= gap)]
    lengths = np.diff(np.r_[np.flatnonzero(first), len(key)])
    pages, sessions = np.unique(lengths, return_counts=True)
    return [[int(n), int(count), int(n * count)] for n, count in zip(pages, sessions, strict=True)]


def _visits(generator: np.random.Generator, rows: int, keys: int) -> tuple[Integers, Integers]:
    pages = generator.geometric(1 / PAGES, rows)
    pages = pages[: int(np.searchsorted(np.cumsum(pages), rows)) + 1]
    visits = len(pages)
    begin = generator.integers(0, DAY_SECONDS, visits)
    visit = np.repeat(np.arange(visits), pages)[:rows]
    since = np.cumsum(generator.exponential(BETWEEN_PAGES, rows).astype(np.int64))
    # The pauses of all visits were added up in one go: each visit counts from its own first page.
    at = BEGIN + begin[visit] + since - since[np.searchsorted(visit, visit)]
    key = generator.integers(0, keys, visits)[visit]
    arrival = np.argsort(at + generator.integers(0, DISORDER + 1, rows), kind="stable")
    return key[arrival], at[arrival]


EPOCH_SECONDS, WINDOW, LATENESS = 60, 600, 600
WATERMARK_DELAY = 120
"""The watermark after an epoch is so many seconds behind the end of the minute that the epoch is about."""
STRAGGLERS = 0.03


def write_fixed(file: Path, rows: int, epochs: int, keys: int, seed: int = 40) -> None:
    """Write two numpy arrays of whole numbers: `rows`, with the columns epoch, key, at and value, and `marks`.

    An epoch is a minute of arrival, and `marks` are the watermarks after each. Most rows are up to
    `WATERMARK_DELAY` seconds late, which the watermark allows for; `STRAGGLERS` of all are up to `LATENESS`
    seconds late, and many of those come when the watermark has passed the end of their window. None comes when
    its window has closed.
    """
    generator = np.random.default_rng(seed)
    epoch = np.repeat(np.arange(epochs), [len(part) for part in np.array_split(np.arange(rows), epochs)])
    # Arrival begins a window later than event time, so that no row comes from before that.
    arrival = BEGIN + WINDOW + epoch * EPOCH_SECONDS + generator.integers(0, EPOCH_SECONDS, rows)
    late = generator.integers(0, WATERMARK_DELAY, rows)
    straggling = generator.random(rows) < STRAGGLERS
    late[straggling] = generator.integers(0, LATENESS, int(straggling.sum()))
    key, value = generator.integers(0, keys, rows), generator.integers(0, 1_000, rows)
    marks = BEGIN + WINDOW + np.arange(1, epochs + 1) * EPOCH_SECONDS - WATERMARK_DELAY
    np.savez(file, rows=np.column_stack((epoch, key, arrival - late, value)), marks=marks)


MINUTE = 60
"""Seconds; an epoch of `Minutes` is about one, and windows and gaps of sessions over it are as long."""
TIMED_ROWS = {"key": pl.Int64, "at": pl.Datetime("us", "UTC"), "value": pl.Int64}


class Minutes:
    """Rows minute by minute, of which some begin windows, or sessions, and as many go into those that are open.

    In each minute `rows / 2` keys of `keys` are seen, at any second of it; one in ten was seen two minutes
    before, so that some of its sessions meet. As many rows come late: less than a minute after a row of any of
    the `memory` minutes before.
    """

    def __init__(self, rows: int, keys: int, memory: int, seed: int = 50) -> None:
        self.generator = np.random.default_rng(seed)
        self.fresh = rows // 2
        self.keys = keys
        self.memory = memory
        self.minute = 0
        self.seen: list[Integers] = []
        self.begun: list[Integers] = []

    def fresh_rows(self, minutes: int) -> pl.DataFrame:
        """The rows of the coming minutes, without late ones."""
        first = self.minute
        for _ in range(minutes):
            key = self.generator.choice(self.keys, self.fresh, replace=False)
            if self.minute >= 2:
                again = self.fresh // 10
                key[:again] = self.seen[self.minute - 2][-again:]
            self.seen.append(key)
            self.begun.append(BEGIN + MINUTE * self.minute + self.generator.integers(0, MINUTE, self.fresh))
            self.minute += 1
        return self._frame(np.concatenate(self.seen[first:]), np.concatenate(self.begun[first:]))

    def rows(self) -> pl.DataFrame:
        """The rows of the coming minute, late ones among them."""
        minute = self.generator.integers(max(self.minute - self.memory, 0), self.minute, self.fresh)
        place = self.generator.integers(0, self.fresh, self.fresh)
        key = np.stack(self.seen)[minute, place]
        at = np.stack(self.begun)[minute, place] + self.generator.integers(0, MINUTE, self.fresh)
        return pl.concat([self.fresh_rows(1), self._frame(key, at)])

    def _frame(self, key: Integers, at: Integers) -> pl.DataFrame:
        value = self.generator.integers(0, 1_000, len(key))
        times = (at * 1_000_000).astype("datetime64[us]")
        frame = pl.DataFrame({"key": key, "at": times, "value": value})
        return frame.with_columns(pl.col("at").dt.replace_time_zone("UTC"))
