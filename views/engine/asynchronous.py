"""Views followed and rows pushed by asyncio tasks, without blocking their event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Protocol, cast

import polars as pl

from evercurrent.core.data.errors import EpochGoneError, InputError

from ..concurrency.turns import Turn
from ..epochs.history import BEFORE_ALL
from ..epochs.subscriptions import Followed, OnSchema, Subscription


class FollowedDeltas(Protocol):
    """The deltas after an epoch, and the epoch up to which they go."""

    last_epoch: int

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """Frames, one per epoch."""
        ...


class Followable(Followed, Protocol):
    """A view, as far as it is followed."""

    has_ended: bool

    @property
    def _turn(self) -> Turn:
        """The lock that a writer holds while all others wait."""
        ...

    def deltas(self, since: int | None = None) -> FollowedDeltas:
        """Return the changes after an epoch."""
        ...

    def subscribe(
        self, callback: Callable[[pl.DataFrame], object], *, on_schema: OnSchema | None = None
    ) -> Subscription:
        """Call a function with every later delta."""
        ...


def _subscribed(
    view: Followable, wake: Callable[[pl.DataFrame | None], None], on_schema: OnSchema | None
) -> Subscription:
    """Return a subscription that wakes a task, which reads the deltas later."""

    def announced(_: object) -> None:
        """Wake the task, which announces the change itself, after the deltas before it."""
        wake(None)

    with (
        view._turn
    ):  # So that no view is replaced before the subscription is registered as one that reads later.
        if view.has_ended:
            return Subscription(view, wake, view.epoch)  # Nothing will wake it: what there is can be read.
        subscription = view.subscribe(wake, on_schema=None if on_schema is None else announced)
        subscription.reads_later, subscription.on_end = True, lambda: wake(None)
        return subscription


async def followed(
    view: Followable, since: int, on_schema: OnSchema | None = None
) -> AsyncIterator[pl.DataFrame]:
    """Yield the deltas after an epoch, and then each new one, until the iteration or the view has ended.

    Where the view is replaced by one with other columns, ``on_schema`` is called between the deltas of both.
    """
    import asyncio  # Imported here, as only tasks need it.

    loop, more = asyncio.get_running_loop(), asyncio.Event()

    def wake(_: pl.DataFrame | None = None) -> None:
        with suppress(RuntimeError):  # The loop was closed while the iteration had not been ended.
            loop.call_soon_threadsafe(more.set)

    subscription = await asyncio.to_thread(_subscribed, view, wake, on_schema)
    try:
        while True:
            more.clear()
            view = cast(Followable, subscription.view)
            has_ended = (
                view.has_ended or subscription.is_closed
            )  # Before the deltas are read, so that none is missed.
            while (replaced := subscription.next_replaced(view.epoch)) is not None:
                change, unread = replaced
                for frame in unread(since):
                    yield frame
                    since = int(frame["_epoch"][0])
                if on_schema is not None:
                    on_schema(change)
                since = BEFORE_ALL  # Of the new view, which has all its rows there.
            try:
                deltas = view.deltas(since)
                frames = iter(deltas)
            except (InputError, EpochGoneError):
                if subscription.view is view:
                    raise
                continue  # It was replaced meanwhile.
            for frame in frames:
                yield frame
                since = int(frame["_epoch"][0])
            since = max(since, deltas.last_epoch)
            if has_ended:
                return
            await more.wait()
    finally:
        subscription.on_end = None
        subscription.close()
