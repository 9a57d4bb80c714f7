"""Drivers, which run the views of an application: the engine in this process, or one that another package provides.

A driver is found by its name, as an entry point of the group ``evercurrent.drivers``: a function that takes the engine
and the options of the run, and returns a context in which the views are kept current.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import entry_points
from typing import Any, Protocol

import polars as pl
from rich.console import Console

from evercurrent.core.data.schema import listed

from ..dataframe.source import Source
from ..engine.engine import Engine
from .applications import Application, ApplicationError, durable

GROUP = "evercurrent.drivers"


class Following(Protocol):
    """A subscription."""

    def close(self) -> None:
        """End the deliveries."""
        ...


class CurrentView(Protocol):
    """A view, as far as a run uses it."""

    @property
    def earliest(self) -> int:
        """The epoch after which all deltas are retained."""
        ...

    def read(self) -> pl.DataFrame:
        """The contents."""
        ...

    def deltas(self, since: int) -> Iterable[pl.DataFrame]:
        """The changes after an epoch."""
        ...

    def subscribe(self, callback: Callable[[pl.DataFrame], Any]) -> Following:
        """Call back with the delta of every epoch that changes the view."""
        ...


class Driver(Protocol):
    """The object into which a run pushes: an ``Engine``, or its counterpart elsewhere."""

    @property
    def sources(self) -> Mapping[str, Source]:
        """The declared sources."""
        ...

    @property
    def views(self) -> Mapping[str, CurrentView]:
        """The declared views."""
        ...

    @property
    def epoch_number(self) -> int:
        """The number of the last epoch."""
        ...

    @property
    def is_durable(self) -> bool:
        """Whether there is a checkpoint."""
        ...

    @property
    def positions(self) -> Mapping[str, Any]:
        """How far each source was taken."""
        ...

    @property
    def watermarks(self) -> Mapping[str, datetime | int | None]:
        """How far the event time of each source is complete."""
        ...

    def push(
        self, source: str, data: pl.DataFrame, *, at: datetime | None = None, position: Any = None
    ) -> int:
        """Take one batch of changes, which is one epoch."""
        ...

    def tick(self) -> int:
        """Run an epoch without rows, which advances processing time."""
        ...

    def epoch(self, *, at: datetime | None = None) -> AbstractContextManager[object]:
        """Return a context whose calls of ``advance`` are one epoch."""
        ...

    def advance(self, source: str, watermark: int) -> int:
        """Move the watermark of a source by hand, to an instant in microseconds."""
        ...

    def ledger(self) -> pl.DataFrame:
        """Return every refused row and why."""
        ...


class StartDriver(Protocol):
    """An entry point: keeps the views of an engine current while its context lasts."""

    def __call__(
        self, engine: Engine, *, checkpoint: str | None, master: str | None, buckets: int | None
    ) -> AbstractContextManager[Driver]:
        """Start; what bad rows do is ``engine.on_bad_rows``."""
        ...


@dataclass(frozen=True)
class Place:
    """Where an application is to be run.

    Args:
        on: the name of a driver; None: in this process.
        master: the cluster; None for the driver's default.
        buckets: the number of parts of states; None for the driver's default.
    """

    on: str | None = None
    master: str | None = None
    buckets: int | None = None


@contextmanager
def driven(application: Application, place: Place, checkpoint: str | None) -> Iterator[Driver]:
    """Keep the application's views current in that place, with a checkpoint if one is named.

    Raises:
        ApplicationError: there is no such driver, or the engine cannot be given the checkpoint.
    """
    if place.on is None:
        with durable(application, checkpoint):
            yield application.engine
        return
    start = _driver_named(place.on)
    Console(stderr=True).print(f"starting {place.on} ...", markup=False, highlight=False)
    with start(
        application.engine, checkpoint=checkpoint, master=place.master, buckets=place.buckets
    ) as driver:
        yield driver


def _driver_named(name: str) -> StartDriver:
    """Return the driver of this name.

    Raises:
        ApplicationError: there is none, or it cannot be imported.
    """
    drivers = entry_points(group=GROUP)
    if name not in drivers.names:
        others = f"there are {listed(sorted(drivers.names))}" if drivers.names else "none is installed"
        raise ApplicationError(
            f"--on {name}: there is no driver of this name; {others}; leave out --on to run in this process"
        )
    start: StartDriver = drivers[name].load()
    return start
