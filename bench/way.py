"""This program prints the way of one call through the files: which it passes, in which order, and how often it changes file.

    python -m bench.way push         # a push through two chained groupings
    python -m bench.way aggregate    # the compile of one aggregate expression

A way is easy to follow if it passes few files and stays in each for a while. Only functions of the package are counted.
Each call is made once before it is recorded, so that imports, caches and first epochs are no part of its way.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import polars as pl

import evercurrent as ec

PACKAGE = Path(ec.__file__).resolve().parent
FOLDERS = [(PACKAGE / layer).resolve() for layer in ("core", "views", "spark_bridge")]
ROOT = FOLDERS[0].parent


@dataclass(frozen=True, slots=True)
class Way:
    """The way of a call: one entry for each stretch of calls in the same file, with the functions that are called there."""

    stretches: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def files(self) -> int:
        """Return the number of files that it passes."""
        return len({file for file, _ in self.stretches})

    @property
    def changes(self) -> int:
        """Return how often a function is in another file than the one called before it."""
        return max(len(self.stretches) - 1, 0)

    def report(self) -> str:
        """Return the stretches, one per line, followed by the counts."""
        lines = [f"{file}: {', '.join(names)}" for file, names in self.stretches]
        often = Counter(file for file, _ in self.stretches).most_common()
        lines += ["", *(f"{count:4} {file}" for file, count in often)]
        return "\n".join([*lines, "", f"{self.files} files, {self.changes} changes of file"])


def way_of(call: Callable[[], object]) -> Way:
    """Make a call, and return its way."""
    stretches: list[tuple[str, list[str]]] = []
    places: dict[str, str | None] = {}

    def place_of(path: str) -> str | None:
        if path not in places:
            real = Path(path).resolve()
            inside = any(folder in real.parents for folder in FOLDERS)
            places[path] = str(real.relative_to(ROOT)) if inside else None
        return places[path]

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (file := place_of(frame.f_code.co_filename)) is not None:
            if not stretches or stretches[-1][0] != file:
                stretches.append((file, []))
            stretches[-1][1].append(frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Way(tuple((file, tuple(names)) for file, names in stretches))


def push() -> Way:
    """Return the way of a push through two chained groupings, in memory."""
    engine = ec.Engine()
    sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64})
    shops = engine.view("shops", sales.group_by("shop").agg(n=pl.len(), total=pl.col("price").sum()))
    engine.view("sizes", shops.group_by("n").agg(shops=pl.len()))
    rows = pl.DataFrame({"shop": ["north", "south", "north"], "price": [3, 4, 5]})
    engine.push("sales", rows)
    return way_of(lambda: engine.push("sales", rows))


def aggregate() -> Way:
    """Return the way of compiling one aggregate expression over a source."""

    def grouped() -> Callable[[], object]:
        sales = ec.Engine().source("sales", {"shop": pl.String, "price": pl.Int64})
        by_shop = sales.group_by("shop")
        return lambda: by_shop.agg(mean=pl.col("price").sum() / pl.len())

    grouped()()
    return way_of(grouped())


WAYS = {"push": push, "aggregate": aggregate}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("way", nargs="?", choices=["both", *WAYS], default="both", help="both by default")
    way = parser.parse_args().way
    for name in WAYS if way == "both" else [way]:
        print(f"{name}\n{WAYS[name]().report()}\n")
