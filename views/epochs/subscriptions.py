"""Who wants to hear of changes: callbacks, and how far those with a name have heard."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import polars as pl

from evercurrent.core.data.errors import PlanError, SubscriberError
from evercurrent.core.data.schema import require_characters

from ..concurrency.interrupts import interruptible

Callback = Callable[[pl.DataFrame], Any]


class Followed(Protocol):
    """What is subscribed to: a view."""

    name: str
    _subscriptions: tuple[Subscription, ...]

    @property
    def epoch(self) -> int:
        """The engine's last epoch."""
        ...

    def deltas(self, since: int | None = None) -> Iterable[pl.DataFrame]:
        """The changes after an epoch."""
        ...


class Subscription:
    """A callback that hears of every epoch that changes a view, until it is closed.

    With a name, what it could not be told (as it raised) comes first the next time, and how far it has heard is
    part of the engine's next commit. ``heard`` is the last epoch of which nothing is left to be told.
    """

    def __init__(self, view: Followed, callback: Callback, heard: int, name: str | None = None) -> None:
        self.name = name
        self.heard = heard
        self._view = view
        self._callback = callback
        self._is_telling = False
        self.is_closed = False

    @property
    def is_open(self) -> bool:
        """Whether it still hears."""
        return not self.is_closed and self in self._view._subscriptions

    def hear(self, epoch: int, frame: pl.DataFrame) -> None:
        """Call back with the delta of an epoch, unless it was heard already or this is closed."""
        if epoch <= self.heard or not self.is_open:
            return
        if self.name is not None:
            self.catch_up()
            return
        self.heard = epoch
        with interruptible():
            self._callback(frame.clone())

    def catch_up(self) -> None:
        """Call back with every delta that was not heard yet, in order; what raises is told again the next time."""
        if self._is_telling:  # the callback itself pushes: the loop below goes on with that
            return
        self._is_telling = True
        try:
            while self.heard < self._view.epoch:
                until = self._view.epoch
                for frame in self._view.deltas(self.heard):
                    with interruptible():
                        self._callback(frame)
                    self.heard = int(frame["_epoch"][0])
                self.heard = max(self.heard, until)
        finally:
            self._is_telling = False

    def close(self) -> None:
        """Hear no more; a call that is under way in another thread comes to its end. Closing twice is no error."""
        self.is_closed = True

    def __repr__(self) -> str:
        """The view, the name, and whether it is closed."""
        named = "" if self.name is None else f", name {self.name!r}"
        return f"Subscription(view {self._view.name!r}{named}{'' if self.is_open else ', closed'})"


def reader_key(view: str, name: str) -> str:
    """How a named subscription is called in a commit."""
    return f"{view}/{name}"


def require_free_name(view: Followed, name: object) -> None:
    """Check that a subscription of the view may have this name.

    Raises:
        PlanError: no name, or one in use.
    """
    if not isinstance(name, str) or not name:
        raise PlanError(f"subscription to view {view.name!r}: name={name!r}; a name is text and not empty")
    require_characters(f"subscription to view {view.name!r}: name", name)
    if any(subscription.name == name and not subscription.is_closed for subscription in view._subscriptions):
        raise PlanError(
            f"subscription to view {view.name!r}: the name {name!r} is in use; close that subscription first, or "
            "choose another name"
        )


def with_another(view: Followed, subscription: Subscription) -> tuple[Subscription, ...]:
    """The subscriptions of a view that are open, and this one."""
    return (*(known for known in view._subscriptions if not known.is_closed), subscription)


class Readers:
    """Tells the subscriptions of all views of each epoch, in order, and knows how far the named ones have heard."""

    def __init__(self, views: Mapping[str, Followed]) -> None:
        self._views = views
        self._unheard: deque[tuple[int, dict[str, pl.DataFrame]]] = deque()
        self._is_calling_back = False
        self._named: dict[str, Subscription | int] = {}
        """Subscriptions by key, or how far they had heard when the engine was last open."""

    def remember(self, heard: Mapping[str, int]) -> None:
        """How far named subscriptions had heard when the engine was last open."""
        self._named |= heard

    def enter(self, subscription: Subscription, key: str) -> None:
        """From now on this is the subscription of that name; another one of the name has been closed."""
        self._named[key] = subscription

    def heard(self) -> dict[str, int]:
        """How far every named subscription has heard, also one that is closed."""
        return {
            key: known if isinstance(known, int) else known.heard
            for key, known in sorted(self._named.items())
        }

    def tell(self, epoch: int, published: dict[str, pl.DataFrame]) -> None:
        """Tell of an epoch. What subscribers push themselves is told when this is told: all hear epochs in order.

        Raises:
            SubscriberError: one of them raised; all others have heard.
            BaseException: one of them was interrupted, or has ended the program; all others have heard.
        """
        self._unheard.append((epoch, published))
        if self._is_calling_back:
            return
        failed: list[tuple[int, str, BaseException]] = []
        self._is_calling_back = True
        try:
            while self._unheard:
                epoch, published = self._unheard.popleft()
                failed += self._told(epoch, published)
        finally:
            self._is_calling_back = False
        for _, _, error in failed:
            if not isinstance(error, Exception):
                raise error
        if failed:
            epoch, name, error = failed[0]
            raise SubscriberError(
                f"epoch {epoch} is done and all views are current, but a subscriber of view {name!r} "
                f"raised {type(error).__name__}: {error}"
            ) from error

    def _told(
        self, epoch: int, published: Mapping[str, pl.DataFrame]
    ) -> list[tuple[int, str, BaseException]]:
        failed: list[tuple[int, str, BaseException]] = []
        behind: list[Subscription] = []
        for name, frame in published.items():
            for subscription in self._views[name]._subscriptions:
                try:
                    subscription.hear(epoch, frame)
                except (
                    BaseException
                ) as raised:  # Nobody else misses the epoch; it is raised when all have it.
                    failed.append((epoch, name, raised))
                    behind.append(subscription)
        for known in self._named.values():
            # An epoch that left the view as it was is heard, too: nothing of it will ever be asked for.
            if isinstance(known, Subscription) and known.is_open and known.heard == epoch - 1:
                known.heard += known not in behind
        return failed
