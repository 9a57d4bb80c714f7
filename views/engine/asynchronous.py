"""Views followed and rows pushed by asyncio tasks, without blocking their event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Protocol

import polars as pl

from ..epochs.subscriptions import Subscription


class FollowedDeltas(Protocol):
    """The deltas after an epoch, and the epoch up to which they go."""

    last_epoch: int

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """Frames, one per epoch."""
        ...


class Followable(Protocol):
    """A view, as far as it is followed."""

    has_ended: bool

    def deltas(self, since: int | None = None) -> FollowedDeltas:
        """Return the changes after an epoch."""
        ...

    def subscribe(self, callback: Callable[[pl.DataFrame], object]) -> Subscription:
        """Call back with every delta to come."""
        ...


async def followed(view: Followable, since: int) -> AsyncIterator[pl.DataFrame]:
    """Yield the deltas after an epoch, and then each that comes, until the iteration or the view has ended."""
    import asyncio  # Imported here, as only tasks need it.

    loop, more = asyncio.get_running_loop(), asyncio.Event()

    def wake(_: pl.DataFrame | None = None) -> None:
        with suppress(RuntimeError):  # The loop was closed while the iteration had not been ended.
            loop.call_soon_threadsafe(more.set)

    subscription = await asyncio.to_thread(view.subscribe, wake)
    subscription.on_end = wake
    try:
        while True:
            more.clear()
            has_ended = (
                view.has_ended or subscription.is_closed
            )  # Before the deltas are read, so that none is missed.
            deltas = view.deltas(since)
            for frame in deltas:
                yield frame
                since = int(frame["_epoch"][0])
            since = max(since, deltas.last_epoch)
            if has_ended:
                return
            await more.wait()
    finally:
        subscription.on_end = None
        subscription.close()
