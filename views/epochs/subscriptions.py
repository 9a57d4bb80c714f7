"""Subscriptions: callbacks that get the deltas of views, and the last epoch delivered to those with a name."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from evercurrent.core.data.errors import PlanError, SubscriberError
from evercurrent.core.data.schema import require_characters
from evercurrent.core.data.tags import tagged

from ..concurrency.interrupts import interruptible
from .reader_keys import earlier_key, reader_key, view_of
from .records import EvaluatedEpoch
from .view_deltas import ViewDelta

Callback = Callable[[pl.DataFrame], Any]


@tagged("views.epochs:SchemaChange")
@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A view was replaced by one with other columns, in this epoch; its delta, if it has rows then, has all of them.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> engine = ec.Engine()
    >>> words = engine.source("words", {"word": pl.String}, retained=True)
    >>> counts = engine.view("counts", words.group_by("word").len())
    >>> subscription = counts.subscribe(lambda delta: None, on_schema=lambda change: print(change.after.names()))
    >>> _ = words.push({"word": ["a"]})
    >>> _ = engine.view("counts", words.group_by("word").agg(n=pl.len(), is_a=pl.col("word").max() == "a"), replace=True)
    ['word', 'n', 'is_a']
    """

    view: str
    epoch: int
    before: pl.Schema
    after: pl.Schema


OnSchema = Callable[[SchemaChange], Any]

Undo = Callable[[], None]
"""Undoes a step of a change of declarations that has failed."""

Unread = Callable[[int], Iterable[pl.DataFrame]]
"""Returns the deltas after an epoch of a view that was replaced, up to its end."""


class Followed(Protocol):
    """A view, as far as subscriptions use it."""

    name: str
    _subscriptions: tuple[Subscription, ...]

    @property
    def schema(self) -> pl.Schema:
        """The columns and their types."""
        ...

    @property
    def epoch(self) -> int:
        """The engine's last epoch."""
        ...

    def deltas(self, since: int | None = None) -> Iterable[pl.DataFrame]:
        """Return the changes after an epoch."""
        ...


class Subscription:
    """A callback that gets the delta of every epoch that changes a view, until the subscription is closed.

    With a name, a delta at which the callback raised is delivered again before the next one, and the last delivered epoch
    is part of the engine's next commit. ``delivered`` is the epoch up to which everything was delivered. ``on_schema`` is called
    in the epoch in which the view gets other columns, before its delta if it has rows then.
    """

    def __init__(
        self,
        view: Followed,
        callback: Callback,
        delivered: int,
        name: str | None = None,
        on_schema: OnSchema | None = None,
    ) -> None:
        self.name = name
        self.delivered: int = delivered
        self.on_schema = on_schema
        self.reader = "deltas"
        """How the rows are used; see ``View.subscribe``."""
        self._change: SchemaChange | None = None
        """The change of columns whose rows are still to be delivered."""
        self._is_announced = False
        """Whether ``on_schema`` was called with it."""
        self._view = view
        self._callback = callback
        self._is_delivering = False
        self.is_closed: bool = False
        self.on_end: Callable[[], None] | None = None
        """Called when there are no further deltas, as the subscription or the engine is closed."""
        self.reads_later = False
        """Whether it reads deltas after the epochs, so that those of a view that is replaced have to be kept for it."""
        self._replaced: tuple[tuple[SchemaChange, Unread], ...] = ()

    @property
    def is_delivering(self) -> bool:
        """Whether its callback is being called, if it has a name."""
        return self._is_delivering

    @property
    def is_open(self) -> bool:
        """Whether deltas are still delivered."""
        return not self.is_closed and self in self._view._subscriptions

    def deliver(self, epoch: int, delta: ViewDelta | None) -> None:
        """Call back with the delta of an epoch, unless it was delivered already or the subscription is closed.

        Without a delta, only call ``on_schema`` if the view was replaced in this epoch.
        """
        if epoch <= self.delivered or not self.is_open or (delta is None and self._change is None):
            return
        if self.name is not None:
            self.catch_up()
            return
        change, self._change = self._change, None
        if change is not None:
            self._announce(change)
        self.delivered = epoch
        if delta is None:
            return
        self._take(delta.frame.clone())

    def _take(self, frame: pl.DataFrame) -> None:
        """Call back with a delta."""
        with interruptible():
            result = self._callback(frame)
        if result is not None:
            require_no_coroutine(self._callback, result)

    def pass_over(self, epoch: int) -> None:
        """Count an epoch as delivered that has not changed the view, if all before it were delivered."""
        if self.is_open and self.delivered == epoch - 1:
            self.delivered = epoch

    def committed(self) -> None:
        """Take note that epochs that waited for a commit have one now; subscribers have got them before."""

    def follow(self, view: Followed, change: SchemaChange | None, unread: Unread) -> None:
        """Go on with the view that replaces the one so far, with the delta of the epoch of the ``change``, if there is one.

        ``unread`` gives the deltas of the view so far.
        """
        if change is not None:
            self._change, self._is_announced, self.delivered = change, False, change.epoch - 1
            if self.reads_later:
                self._replaced = (*self._replaced, (change, unread))
        self._view = view

    @property
    def view(self) -> Followed:
        """The view, or the one that has replaced it."""
        return self._view

    def next_replaced(self, epoch: int) -> tuple[SchemaChange, Unread] | None:
        """Take the first change of columns up to this epoch that was not read yet, and what gives the deltas before it."""
        if not self._replaced or self._replaced[0][0].epoch > epoch:
            return None
        first, *others = self._replaced
        self._replaced = tuple(others)
        return first

    @property
    def place(self) -> tuple[Any, ...]:
        """The view, the epoch up to which it was delivered, and the changes of columns that are to be announced."""
        return self._view, self.delivered, self._change, self._replaced

    def return_to(self, place: tuple[Any, ...]) -> None:
        """Return to the state before a change of declarations that has failed."""
        self._view, self.delivered, self._change, self._replaced = place

    @property
    def change(self) -> SchemaChange | None:
        """The change of columns whose rows are still to be delivered."""
        return self._change

    def begin_with(self, change: SchemaChange | None) -> None:
        """Begin with this change of columns, and all rows after it."""
        self._change = change

    def _announce(self, change: SchemaChange) -> None:
        if self.on_schema is not None:
            with interruptible():
                self.on_schema(change)

    def catch_up(self) -> None:
        """Call back with every delta not delivered yet, in order; one at which it raises is delivered again next time."""
        if self._is_delivering:  # The callback itself has pushed: the outer loop delivers that epoch too.
            return
        self._is_delivering = True
        try:
            while self.delivered < self._view.epoch:
                until, change = self._view.epoch, self._change
                if change is not None and not self._is_announced:
                    self._announce(change)
                    self._is_announced = True
                for frame in self._view.deltas(self.delivered if change is None else None):
                    self._take(frame)
                    self.delivered, self._change = int(frame["_epoch"][0]), None
                    if self.is_closed:  # By the callback, which may also have dropped the view.
                        return
                self.delivered, self._change = max(self.delivered, until), None
        finally:
            self._is_delivering = False

    def close(self) -> None:
        """End the deliveries; a call under way in another thread runs to its end. Closing twice is no error."""
        self.is_closed = True
        if self.on_end is not None:
            self.on_end()

    def __repr__(self) -> str:
        """Show the view, the name, and whether it is closed."""
        named = "" if self.name is None else f", name {self.name!r}"
        return f"Subscription(view {self._view.name!r}{named}{'' if self.is_open else ', closed'})"


IN_TASK = "'async for delta in view.follow(): ...' in a task"
"""What to write instead of a coroutine that is given as a callback."""

_NOT_RUN = "which nobody would iterate, so that none of it would run; write a function without yield"


def require_plain_function(where: str, callback: object, instead: str = IN_TASK) -> None:
    """Check that a callback is not a coroutine function or a generator, of which calls run nothing by themselves.

    Raises:
        PlanError: it is one.
    """
    functions = (callback, type(callback).__call__)
    if any(map(inspect.iscoroutinefunction, functions)):
        raise PlanError(
            f"{where}: {callback!r} is a coroutine function, which nobody would await; write {instead}"
        )
    if any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in functions):
        raise PlanError(f"{where}: {callback!r} is a generator, {_NOT_RUN}")


def require_no_coroutine(callback: Callable[..., Any], result: object, instead: str = IN_TASK) -> None:
    """Check that a callback has not returned something to await, or a generator.

    Raises:
        PlanError: it has; the coroutine is closed.
    """
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise PlanError(f"{callback!r} returned a generator, {_NOT_RUN}")
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise PlanError(f"{callback!r} returned something to await, which nobody awaits; write {instead}")


def require_reader_name(view: Followed, name: object) -> None:
    """Check that a subscription can have this name.

    Raises:
        PlanError: it is not a name.
    """
    if not isinstance(name, str) or not name:
        raise PlanError(f"subscription to view {view.name!r}: name={name!r}; a name is text and not empty")
    require_characters(f"subscription to view {view.name!r}: name", name)


def require_free_name(view: Followed, name: str, readers: Readers) -> None:
    """Check that a subscription of the view may have this name.

    Raises:
        PlanError: it is not a name, or it is in use.
    """
    require_reader_name(view, name)
    named = {subscription.name for subscription in view._subscriptions if not subscription.is_closed}
    if name in named or readers.is_catching_up(view.name, name):
        raise PlanError(
            f"subscription to view {view.name!r}: the name {name!r} is in use; close that subscription first, or "
            "choose another name"
        )


def with_another(view: Followed, subscription: Subscription) -> tuple[Subscription, ...]:
    """Return the open subscriptions of a view, with this one added."""
    return (*(other for other in view._subscriptions if not other.is_closed), subscription)


class Readers:
    """Delivers each epoch to the subscriptions of all views, in order, and keeps the last epochs of the named ones."""

    def __init__(self, views: Mapping[str, Followed]) -> None:
        self._views = views
        self._undelivered: deque[tuple[int, Mapping[str, ViewDelta], Collection[str]]] = deque()
        self._is_calling_back = False
        self._named: dict[str, Subscription | int] = {}
        """Subscriptions by key, or the last epoch delivered to them when the engine was last open."""
        self._replaced: Mapping[str, tuple[int, pl.Schema]] = {}
        """The first epochs of views that have replaced others with other columns, and the columns before."""

    def remember(
        self, delivered: Mapping[str, int], replaced: Mapping[str, tuple[int, pl.Schema]] | None = None
    ) -> None:
        """Set the last epochs delivered to named subscriptions when the engine was last open.

        ``replaced``: of views that have replaced others their first epochs, and the columns before.
        """
        self._named |= delivered
        if replaced is not None:
            self._replaced = replaced

    def forget(self, view: str) -> Undo:
        """Forget the named subscriptions of a view that is dropped; return what undoes it."""
        views = (*self._views, view)
        named = {key: named for key, named in self._named.items() if view_of(key, views) != view}
        replaced = {name: change for name, change in self._replaced.items() if name != view}
        return self._exchange(named, replaced)

    def pass_by(self, view: str, epoch: int, before: pl.Schema) -> Undo:
        """Note that a view gets other columns than ``before`` in this epoch; return what undoes it.

        Its named subscriptions that are not open get the change, and all rows after it, when they are made again.
        """
        named = {
            key: named.delivered if isinstance(named, Subscription) and named.is_closed else named
            for key, named in self._named.items()
        }
        return self._exchange(named, {**self._replaced, view: (epoch, before)})

    def _exchange(
        self, named: dict[str, Subscription | int], replaced: Mapping[str, tuple[int, pl.Schema]]
    ) -> Undo:
        state_before = self._named, self._replaced

        def undo() -> None:
            self._named, self._replaced = state_before

        self._named, self._replaced = named, replaced
        return undo

    def last_of(self, view: str, name: str) -> int | None:
        """Return the last epoch delivered to the subscription of a name; None if there was none.

        A key that an earlier version wrote stands for the first that looks for it: it is unknown which of several it was.
        """
        key, earlier = reader_key(view, name), earlier_key(view, name)
        named = self._named.get(key)
        if named is None and key != earlier and isinstance(self._named.get(earlier), int):
            named = self._named.pop(earlier)
        return named if named is None or isinstance(named, int) else named.delivered

    def is_catching_up(self, view: str, name: str) -> bool:
        """Return whether the subscription of a name is being called back, also with what it has missed, before it is made."""
        named = self._named.get(reader_key(view, name))
        return isinstance(named, Subscription) and named.is_delivering and not named.is_closed

    def missed_change(self, view: Followed, name: str) -> SchemaChange | None:
        """Return the change of columns that the earlier subscription of a name has not got, or not with all rows."""
        earlier = self._named.get(reader_key(view.name, name))
        if isinstance(earlier, Subscription):
            return earlier.change
        if earlier is None or view.name not in self._replaced:
            return None
        first, before = self._replaced[view.name]
        return SchemaChange(view.name, first, before, view.schema) if earlier < first else None

    def has_read(self, view: Followed) -> bool:
        """Return whether a view has subscriptions, or positions of such that were closed."""
        is_named = any(view_of(key, self._views) == view.name for key in self._named)
        return is_named or any(not each.is_closed for each in view._subscriptions)

    @property
    def has_any(self) -> bool:
        """Return whether any view has a subscription, which is called with its changes."""
        return any(view._subscriptions for view in self._views.values())

    def enter(self, subscription: Subscription, key: str) -> None:
        """Register the subscription of a name; an earlier one of the name has been closed."""
        self._named[key] = subscription

    def delivered(self) -> dict[str, int]:
        """Return the last epoch delivered to each named subscription, closed ones included."""
        subscriptions = sorted(self._named.items())
        return {key: each if isinstance(each, int) else each.delivered for key, each in subscriptions}

    def committed(self) -> None:
        """Notify those who wait for commits that there was one without another epoch."""
        for named in self._named.values():
            if isinstance(named, Subscription) and not named.is_closed:
                named.committed()

    def notify(self, evaluated: EvaluatedEpoch, touched: Collection[str]) -> None:
        """Deliver an epoch that is real; epochs that subscribers push meanwhile are delivered after it, so that all come in order.

        ``touched`` are the views that it may have changed, those that were replaced by one without rows among them.

        Raises:
            SubscriberError: one of them raised; the epoch was delivered to all others.
            BaseException: one of them was interrupted, or has ended the program; the epoch was delivered to all others.
        """
        self._undelivered.append((evaluated.now.epoch, evaluated.deltas.unread, touched))
        if self._is_calling_back:
            return
        failed: list[tuple[int, str, BaseException]] = []
        self._is_calling_back = True
        try:
            while self._undelivered:
                failed += self._delivered(*self._undelivered.popleft())
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

    def _delivered(
        self, epoch: int, published: Mapping[str, ViewDelta], touched: Collection[str]
    ) -> list[tuple[int, str, BaseException]]:
        failed: list[tuple[int, str, BaseException]] = []
        behind: list[Subscription] = []
        for name in (*published, *(name for name in touched if name not in published)):
            if name not in self._views:  # A subscriber that was called before has dropped it.
                continue
            for subscription in self._views[name]._subscriptions:
                try:
                    subscription.deliver(epoch, published.get(name))
                except BaseException as raised:  # It is raised when all others have got the epoch.
                    failed.append((epoch, name, raised))
                    behind.append(subscription)
        for subscription_of_name in self._named.values():
            # An epoch that did not change the view counts as delivered, as there is nothing of it to deliver.
            if isinstance(subscription_of_name, Subscription) and subscription_of_name not in behind:
                subscription_of_name.pass_over(epoch)
        return failed
