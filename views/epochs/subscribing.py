"""The turn in which somebody subscribes to a view, or begins to write it somewhere."""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

from ..concurrency.turns import Turn
from .subscriptions import Subscription

_S = TypeVar("_S", bound=Subscription)


class Subscribing:
    """A turn after which the new subscription is closed, if an interrupt or an error keeps the caller from getting it.

    Interrupts wait for the end of a turn. The name of the subscription would stay in use after one, and nobody could close it.
    """

    __slots__ = ("_begun", "_turn")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._begun: list[Subscription] = []

    def __enter__(self) -> Subscribing:
        """Take the turn."""
        self._turn.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hand the turn on, and close what has begun if that raises, or something has before."""
        try:
            self._turn.__exit__(kind, error, trace)
            if kind is None:
                return
        except BaseException:
            self._close()
            raise
        self._close()

    def begin(self, subscription: _S) -> _S:
        """Return a subscription, which is closed if the caller does not get it."""
        self._begun.append(subscription)
        return subscription

    def _close(self) -> None:
        for subscription in self._begun:
            subscription.close()
