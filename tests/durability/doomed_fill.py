"""A program that is killed while its views are filled: it declares, replaces and drops views between its pushes.

    python -m durability.doomed_fill FOLDER DRIVER WHERE NUMBER

DRIVER is "embedded" or "buckets". The program kills itself in a "step" of a fill or in an "operation" of the store, counted from
the first declaration after its start; NUMBER -1: never. It notes each thing that it is about to do. Started again, it
declares from the start what it had been about to declare, and does the last thing again.
"""

from __future__ import annotations

import os
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

import evercurrent as ec
from evercurrent.views.durability.piecewise_fill import PiecewiseFill
from evercurrent.views.engine import fills
from evercurrent.views.partitioned.bucket_states import BucketStates
from evercurrent.views.store import LocalStore
from failing_store import FailingStore, Killed
from spark.offered import Offering

SALES = {"shop": pl.String, "price": pl.Int64}
ROWS = 60

Step = tuple[str, ...]
STEPS: list[Step] = [
    ("push",),
    ("view", "totals", "totals"),
    ("push",),
    ("view", "sizes", "sizes"),
    ("view", "best", "most"),
    ("push",),
    ("push",),
    ("view", "best", "least"),
    ("push",),
    ("drop", "totals"),
    ("view", "sizes", "prices"),
    ("push",),
    ("view", "totals", "most"),
    ("push",),
]
NAMES = ("totals", "sizes", "best")
NOTES = "steps.txt"


def rows(number: int) -> pl.DataFrame:
    """The rows of a push."""
    places = range(number * ROWS, (number + 1) * ROWS)
    return pl.DataFrame(
        {"shop": [f"s{at * at % 17}" for at in places], "price": [at * 7 % 23 for at in places]}, schema=SALES
    )


def lines(engine: ec.Engine) -> Mapping[str, Any]:
    """All definitions, by the names that ``STEPS`` have for them."""
    sales = engine.source("sales", SALES, retained=True)
    price, shops = pl.col("price"), sales.group_by("shop")
    totals = shops.agg(total=price.sum(), n=pl.len())
    return {
        "all": sales,
        "totals": totals,
        "sizes": totals.group_by("n").agg(shops=pl.len()),
        "prices": sales.group_by("price").agg(n=pl.len()),
        "most": shops.agg(price=price.max()),
        "least": shops.agg(price=price.min()),
    }


def shown_after(count: int) -> dict[str, str]:
    """The views, by name, after the first of the steps."""
    shown: dict[str, str] = {"all": "all"}
    for what, *more in STEPS[:count]:
        if what == "view":
            shown[more[0]] = more[1]
        elif what == "drop":
            shown.pop(more[0], None)
    return shown


def pushes_before(count: int) -> int:
    return sum(what == "push" for what, *_ in STEPS[:count])


def declared(shown: Mapping[str, str], **options: Any) -> ec.Engine:
    engine = ec.Engine(**options)
    every = lines(engine)
    for name, line in shown.items():
        engine.view(name, every[line])
    return engine


class Driver(ABC):
    """What does the steps; ``begin_filling`` is called before each declaration."""

    begin_filling: Callable[[], None]

    @abstractmethod
    def push(self, number: int) -> None: ...

    @abstractmethod
    def view(self, name: str, line: str) -> None: ...

    @abstractmethod
    def drop(self, name: str) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class Embedded(Driver):
    """An engine, whose views are filled in the background while it is pushed into."""

    def __init__(self, store: Any, shown: dict[str, str]) -> None:
        self.engine = declared(shown, checkpoint=ec.Checkpoint(store, drop=NAMES, every=2))
        self.lines = lines(self.engine)
        self.engine.ready()

    def push(self, number: int) -> None:
        self.engine.push("sales", rows(number), position=number)
        for fill in list(
            self.engine._running.fills.values()
        ):  # One that ends meanwhile is not there any more.
            fill.view.wait()

    def view(self, name: str, line: str) -> None:
        self.begin_filling()
        self.engine.view(name, self.lines[line], replace=True, background=True)

    def drop(self, name: str) -> None:
        self.begin_filling()
        if name in self.engine.views:
            self.engine.drop_view(name)

    def close(self) -> None:
        self.engine.close()


class Buckets(Driver):
    """A query in three buckets."""

    def __init__(self, store: Any, shown: dict[str, str]) -> None:
        self.shown = shown
        self.offering = Offering(declared(shown).declared, store, drop=NAMES)

    def push(self, number: int) -> None:
        self.offering.offer(number, {"sales": rows(number)})

    def view(self, name: str, line: str) -> None:
        self.begin_filling()
        if self.shown.get(name) != line:
            self.shown[name] = line
            self.offering = self.offering.redeclared(declared(self.shown).declared, drop=(name,))

    def drop(self, name: str) -> None:
        self.begin_filling()
        if self.shown.pop(name, None) is not None:
            self.offering = self.offering.redeclared(declared(self.shown).declared, drop=(name,))

    def close(self) -> None:
        """Nothing waits."""


DRIVERS = {"embedded": Embedded, "buckets": Buckets}


class Sudden(Killed):
    """No error but the end of the process, in the middle of an operation."""

    def __init__(self, *_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def kill_in_step(number: int) -> Callable[[], None]:
    """End the process in a step of a fill, counted from the call of what this returns."""
    left = [-1]
    for filling, name in ((PiecewiseFill, "_step"), (BucketStates, "_stage")):
        step = getattr(filling, name)

        def stepped(*given: Any, step: Any = step) -> Any:
            result = step(*given)
            if left[0] == 0:
                Sudden()
            left[0] -= left[0] > 0
            return result

        setattr(filling, name, stepped)

    def begin() -> None:
        if left[0] < 0:
            left[0] = number

    return begin


def kill_in_operation(store: FailingStore, number: int) -> Callable[[], None]:
    """End the process in an operation of the store, counted from the call of what this returns."""

    def begin() -> None:
        if store.fail_at is None:
            store.fail_at = len(store.done) + number

    return begin


def main(folder: Path, driver: str, where: str, number: int) -> None:
    notes = folder / NOTES
    begun = len(notes.read_text().splitlines()) if notes.exists() else 0
    store: Any = LocalStore(folder / "checkpoint")
    begin: Callable[[], None] = lambda: None  # noqa: E731
    if number >= 0 and where == "step":
        begin = kill_in_step(number)
    elif number >= 0:
        store = FailingStore(store, None, "torn", error=Sudden)
        begin = kill_in_operation(store, number)
    if begun:
        begin()  # What was killed may be filled when the checkpoint is opened.
    program = DRIVERS[driver](store, shown_after(begun))
    program.begin_filling = begin
    for number in range(pushes_before(begun)):
        program.push(number)  # Epochs that were not committed yet are lost; what was taken is skipped.
    for at in range(max(0, begun - 1), len(STEPS)):
        if at >= begun:
            with notes.open("a") as written:
                written.write(f"{STEPS[at]}\n")
        what, *more = STEPS[at]
        if what == "push":
            program.push(pushes_before(at))
        elif what == "view":
            program.view(*more)
        else:
            program.drop(*more)
    program.close()


if __name__ == "__main__":
    fills.PIECE_ROWS, fills.FEW_CHANGES = 16, 0  # type: ignore[misc]
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
