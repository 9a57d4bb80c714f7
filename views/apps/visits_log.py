"""A generated log of a web server, the same for the same seed: readers, a few crawlers, pages, files, errors."""

from datetime import datetime

import numpy as np
import numpy.typing as npt
import polars as pl

HITS = pl.Schema(
    {
        "ip": pl.String(),
        "at": pl.Datetime("us", "UTC"),
        "method": pl.String(),
        "path": pl.String(),
        "status": pl.Int64(),
        "bytes": pl.Int64(),
    }
)
"""The columns of a request."""

REQUESTS = 100_000
READERS = 12_000
"""The number of readers' addresses; a few come again and again, most once."""
CRAWLERS = 40
CRAWLED = 0.04
"""Share of the visits that crawlers make, which are long: about a quarter of the requests."""

OPENS = datetime(2024, 3, 4)
DAYS = 10
DAY = 86_400
BUSIEST = 15
"""The hour of the day with most visits: four times those of the quietest."""

PAGES = 400
FILES = ("/style.css", "/site.js", "/logo.svg", "/favicon.ico", "/fonts/body.woff2", "/images/banner.jpg")
SECTIONS = ("/blog", "/projects", "/notes", "/talks", "/photos")
WORDS = (
    "sorting", "sessions", "rivers", "clocks", "bread", "maps", "logs", "bridges", "tides", "queues",
    "lamps", "letters", "kites", "gardens", "ports", "stones",
)  # fmt: skip
PROBED = ("/wp-login.php", "/.env", "/admin/", "/xmlrpc.php", "/old/index.html")
"""Paths that are requested and do not exist."""

Numbers = npt.NDArray[np.int64]
Seconds = npt.NDArray[np.float64]


def requests(*, count: int = REQUESTS, seed: int = 1) -> pl.DataFrame:
    """Return this many requests in the order of their time, in whole seconds, as in a log."""
    random = np.random.default_rng(seed)
    visits = count // 3 + 50  # This makes twice as many requests as needed, of which the latest are left out.
    is_crawler = random.random(visits) < CRAWLED
    length = np.where(is_crawler, 5 + random.geometric(1 / 40, visits), _read_pages(random, visits))
    visit = np.repeat(np.arange(visits), length)
    # However few requests there are to be, visits fill all days.
    filled = DAYS * min(1.0, count / REQUESTS) * length.sum() / count
    at = _starts(random, visits, filled)[visit] + _since_start(random, visit, is_crawler[visit])
    log = pl.DataFrame(
        {
            "ip": _addresses(random, is_crawler)[visit],
            "seconds": at.astype(np.int64),
            **_requested(random, np.flatnonzero(np.diff(visit, prepend=-1)), is_crawler[visit]),
        }
    )
    time = pl.lit(OPENS, HITS["at"]) + pl.duration(seconds="seconds")
    rows = log.sort("seconds", maintain_order=True).with_columns(at=time).select(HITS.names())
    assert rows.height >= count
    return rows.head(count).cast({"status": pl.Int64, "bytes": pl.Int64})


def _read_pages(random: np.random.Generator, visits: int) -> Numbers:
    """Return the numbers of pages of readers' visits: half of them read one page, a few read many."""
    return np.where(random.random(visits) < 0.5, 1, 1 + random.geometric(1 / 5, visits))


def _starts(random: np.random.Generator, visits: int, days: float) -> Seconds:
    """Return when visits begin, in seconds: evenly, then moved towards the busiest hour of their day."""
    even = random.uniform(0, days * DAY, visits)
    turn = 2 * np.pi / DAY
    busiest = BUSIEST * 3600
    moved: Seconds = 0.6 / turn * (np.sin(turn * (busiest - even)) - np.sin(turn * busiest))
    return even + moved


def _since_start(random: np.random.Generator, visit: Numbers, crawls: npt.NDArray[np.bool_]) -> Seconds:
    """Return the seconds from the beginning of a visit to each request: files follow at once, pages when they were read.

    Pauses can be longer than half an hour: then one stay of a reader counts as two visits.
    """
    pause = np.where(random.random(visit.size) < 0.5, random.exponential(1.0, visit.size), 0)
    read = np.exp(random.normal(4.0, 1.3, visit.size))
    pause = np.where(crawls, random.uniform(5, 90, visit.size), np.where(pause > 0, pause, read))
    first = np.flatnonzero(np.diff(visit, prepend=-1))
    pause[first] = 0
    total: Seconds = np.cumsum(pause)
    since: Seconds = total - total[first][visit]
    return since


def _addresses(random: np.random.Generator, is_crawler: npt.NDArray[np.bool_]) -> pl.Series:
    """Return the address of each visit, from the networks that are reserved for measurements (RFC 2544)."""
    chosen = random.choice(2**17, READERS + CRAWLERS, replace=False)
    reader = random.choice(READERS, is_crawler.size, p=_falling(READERS, 0.7))
    crawler = READERS + random.choice(CRAWLERS, is_crawler.size, p=_falling(CRAWLERS, 1.2))
    host = pl.Series("host", chosen[np.where(is_crawler, crawler, reader)])
    parts = (198, 18 + host // 2**16, host // 2**8 % 2**8, host % 2**8)
    return pl.select(pl.format("{}.{}.{}.{}", *map(pl.lit, parts))).to_series()


def _requested(
    random: np.random.Generator, first: Numbers, crawls: npt.NDArray[np.bool_]
) -> dict[str, pl.Series | npt.NDArray[np.generic]]:
    """Return method, path, status and bytes of each request; ``first`` marks where visits begin."""
    count = crawls.size
    paths, sizes = _site(random)
    pages = random.choice(PAGES, count, p=_falling(PAGES, 0.8))
    files = PAGES + random.integers(0, len(FILES), count)
    probed = PAGES + len(FILES) + random.integers(0, len(PROBED), count)
    is_file = ~crawls & (random.random(count) < 0.45)
    is_file[first] = False
    path = np.where(random.random(count) < 0.02, probed, np.where(is_file, files, pages))
    robots = first[crawls[first]]
    path[robots] = len(paths) - 1

    draw = random.random(count)
    status = np.select([draw < 0.05, draw < 0.07, draw < 0.075, draw < 0.0755], [304, 301, 206, 500], 200)
    status[(path >= PAGES + len(FILES)) & (path < len(paths) - 1)] = 404
    head = crawls & (random.random(count) < 0.03)
    posts = (status == 200) & (path < PAGES) & (random.random(count) < 0.004)
    size = np.select(
        [head | (status == 304), status == 206, status == 200],
        [0, (sizes[path] * random.random(count)).astype(np.int64), sizes[path]],
        random.integers(180, 600, count),
    )
    return {
        "method": pl.Series(np.select([head, posts], [1, 2], 0)).replace_strict(
            [0, 1, 2], ["GET", "HEAD", "POST"]
        ),
        "path": pl.Series(paths)[path],
        "status": status,
        "bytes": size,
    }


def _site(random: np.random.Generator) -> tuple[list[str], Numbers]:
    """Return all paths and their sizes: pages, files, missing ones, and at the end the file for robots."""
    pages = [
        f"{SECTIONS[i % len(SECTIONS)]}/{WORDS[i % len(WORDS)]}-and-{WORDS[i // len(WORDS) % len(WORDS)]}-{i}/"
        for i in range(PAGES)
    ]
    pages[0] = "/"
    paths = [*pages, *FILES, *PROBED, "/robots.txt"]
    sizes = np.exp(random.normal(9.3, 1.2, len(paths))).astype(np.int64)
    sizes[-1] = 210
    return paths, sizes


def _falling(count: int, power: float) -> npt.NDArray[np.float64]:
    """Return probabilities that fall with rank and add up to 1: a few are chosen often, many seldom."""
    weight = np.arange(1, count + 1, dtype=np.float64) ** -power
    weight /= weight.sum()
    return weight
