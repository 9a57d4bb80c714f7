"""Views: named results with their contents, deltas and subscriptions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from html import escape
from typing import Any

import polars as pl

from evercurrent.core.data.columns.json_texts import printable
from evercurrent.core.data.errors import EpochGoneError, InputError, PlanError
from evercurrent.core.data.schema import DIFF, EPOCH, counted, option_names, require_columns
from evercurrent.core.data.tags import tagged

from ..concurrency.interrupts import interruptible
from ..concurrency.turns import Turn
from ..dataframe.collection import Collection
from ..dataframe.operator_hints import OfOneEngine
from ..epochs.changes import change_rows
from ..epochs.history import BEFORE_ALL, History, Retain
from ..epochs.queued import OnFull, QueuedSubscription, require_queue
from ..epochs.reader_keys import reader_key
from ..epochs.records import require_past, require_since
from ..epochs.snapshot import Snapshot
from ..epochs.subscribing import Subscribing
from ..epochs.subscriptions import (
    Callback,
    OnSchema,
    Subscription,
    require_free_name,
    require_plain_function,
    require_reader_name,
    with_another,
)
from ..plan.nodes import PlanId, Windowing
from ..plan.plan import Plan
from ..sinks.delivery import Delivery
from ..sinks.retry import Retry
from .asynchronous import followed
from .consumers import Reader, check_reader, require_one_pane
from .declared_view import Declared
from .durable_view import DurableView
from .fills import Filling, FillProgress
from .retained_deltas import Deltas
from .view_forms import ReadForms
from .view_keeper import ViewKeeper
from .view_questions import Questions
from .view_sinks import DeliverySubscription, MakeSink, Outputs, free_name


@tagged("views.view:View")
class View(Collection, Declared, ReadForms, Outputs, Questions, OfOneEngine):
    """A named collection whose contents the engine keeps current. Made by ``Engine.view``.

    It is a collection, so further views can be declared on it. It equals its definition over all input so far, unless its
    panes are discarding or accumulating: then it is a log of panes, and ``latest()`` the last one of each window.

    >>> import evercurrent as ec
    >>> engine = ec.Engine()
    >>> words = engine.source("words", {"word": pl.String})
    >>> counts = engine.view("counts", words.group_by("word").len())
    >>> often = engine.view("often", counts.filter(pl.col("len") > 1))
    >>> _ = words.push({"word": ["a", "b", "a"]})
    >>> often.read().rows(), len(counts), counts.lookup("b").rows()
    ([('a', 2)], 2, [('b', 1)])
    """

    _is_view = True

    def __init__(
        self,
        engine: ViewKeeper,
        plan: Plan,
        place: PlanId,
        name: str,
        retain: Retain,
        windowing: Windowing | None = None,
    ) -> None:
        super().__init__(plan, place, windowing)
        self._keeper = engine
        self._filling: Filling | None = None
        """What fills it, until it is ready."""
        self._history = History(name, retain)
        self._subscriptions: tuple[Subscription, ...] = ()
        self.has_ended: bool = False
        """Whether the engine has closed its checkpoint, so that there are no further deltas."""
        self.name = name

    def forked(self, engine: ViewKeeper, plan: Plan, retain: Retain) -> View:
        """Return the same view in a fork of its engine, without subscriptions."""
        return View(engine, plan, self._place, self.name, retain, self._windowing)

    @property
    def _engine(self) -> ViewKeeper:
        """The engine.

        Raises:
            InputError: the view was dropped or replaced.
            NotFilledError: it is still being filled, or that has failed.
        """
        if reason := self._reason_gone:
            raise InputError(reason)
        if self._filling is not None:
            raise self._filling.refusal()
        return self._keeper

    @property
    def _unreadable(self) -> str:
        """Why its rows cannot be read here: it is gone or being filled, or a query has them; else empty."""
        filling = self.filling
        return self._reason_gone or (repr(filling) if filling else self._keeper.elsewhere(self.name))

    @property
    def _turn(self) -> Turn:
        """The lock of its engine that a writer holds while all others wait."""
        return self._engine.turn

    @property
    def filling(self) -> FillProgress | None:
        """The progress of its fill, if it was declared with ``background=True``; None once it can be read."""
        return None if self._filling is None else self._filling.progress

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it is filled, at most ``timeout`` seconds; a view that is not being filled is ready.

        A subscriber that waits computes the rest itself, as no other epoch can come before it has returned. In a task write
        ``await asyncio.to_thread(view.wait)``.

        Raises:
            NotFilledError: it is not ready by then; or it could not be filled: names the reason.
        """
        if self._filling is not None:
            self._filling.wait(timeout)

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """The open subscriptions."""
        return tuple(each for each in self._subscriptions if not each.is_closed)

    @property
    def epoch(self) -> int:
        """The epoch of the contents, which is the engine's last one."""
        return self._engine.epoch_number

    def read(self, epoch: int | None = None) -> pl.DataFrame:
        """Return the contents: a row with diff n is repeated n times. Order is not specified, but deterministic.

        A view of discarding or accumulating panes holds all panes so far, as none retracts the one before. For the last
        pane of each key and window declare ``engine.view(name, view.latest())``.

        ``epoch``: return the contents after that epoch, if the checkpoint still has its commit.

        Raises:
            EpochGoneError: there is no commit of that epoch any more; names those that remain.
            InputError: the epoch is still to come, or the engine has no checkpoint.
        """
        return self._engine.contents(self.name, epoch)

    def snapshot(self) -> Snapshot:
        """Return the contents and the epoch they are of."""
        with self._engine.reading(self.name) as now:
            return Snapshot(now.epoch, now.rows(self.name))

    def deltas(self, since: int | None = None) -> Deltas:
        """Return the changes after epoch ``since``; None starts from the first epoch.

        Older ones are read from the delta files, if the engine has a checkpoint.

        Raises:
            EpochGoneError: they are no longer all retained; start from ``snapshot()`` instead.
            InputError: ``since`` is not a number, or the epoch is still to come, as an epoch of another engine may be.
        """
        with self._engine.reading(self.name) as now:
            require_past(self.name, since, now.epoch)
            first = BEFORE_ALL if since is None else since
            now.require(self.name, first)
            return Deltas(self.name, self.schema, first, now.epoch, partial(self._begin_deltas, first))

    def _begin_deltas(self, since: int) -> tuple[int, Iterator[pl.DataFrame]]:
        now = self._engine.published()
        return now.epoch, now.deltas(self.name, since)

    @property
    def earliest(self) -> int:
        """The epoch after which all deltas are retained: as far back as ``deltas(since)`` goes; -1: the very beginning.

        A view that was declared, or replaced by other columns, later has its beginning there.
        """
        return self._engine.published().earliest(self.name)

    @property
    def first_epoch(self) -> int:
        """The first epoch of the present definition; 0 unless the view was declared, or replaced by other columns, later."""
        return self._engine.published().first(self.name)

    def changes(
        self, since: int | None = None, key: str | Sequence[str] | None = None
    ) -> Iterator[pl.DataFrame]:
        """Return the deltas as change rows: insert, delete, and update as the row before and the row after.

        ``_change`` is "insert", "delete", "update_preimage" or "update_postimage". An update is a deletion and
        an insertion with equal ``key``. Without ``key`` that is the key of a view that is a grouping or an
        upsert source; for any other there are no updates. A source with ``format=ec.ChangeFeed()`` takes these rows.

        Raises:
            PlanError: a key is not a column of the view.
            EpochGoneError: the deltas are no longer all retained.
        """
        where = f"changes of view {self.name!r}"
        keys = self._keys() if key is None else option_names(f"{where}: key", key)
        require_columns(where, self.schema, keys)
        return (change_rows(frame, keys) for frame in self.deltas(since))

    def subscribe(
        self,
        callback: Callable[[pl.DataFrame], Any],
        since: int | None = None,
        *,
        reader: Reader = "deltas",
        name: str | None = None,
        on_schema: OnSchema | None = None,
        queue: int | None = None,
        on_full: OnFull = "wait",
    ) -> Subscription:
        """Call a function with the delta of every epoch that changes the view.

        ``since``: first deliver all retained changes after that epoch; -1: from epoch 0 on, which is before any input and has the
        first row of a grouping without keys; None: only those to come. ``reader`` states how the rows are used, so that it can be
        checked whether the panes of the view fit: "deltas", they are applied with their diffs; "summing", their values are added up (a
        row with a negative diff is subtracted); "overwriting", the last row of a key is kept; "log", they are appended.

        ``name``: a subscription that is made again under its name continues after the last epoch delivered to it, also in
        another process on the same checkpoint; ``since`` then counts only the first time. The last delivered epoch is
        part of the next commit, so after a crash the last epochs may be delivered once more: a sink that stores the
        ``_epoch`` of what it has written, in the same transaction, has everything exactly once.

        ``on_schema``: called with a ``SchemaChange`` when the view is replaced by one with other columns
        (``engine.view(..., replace=True)``), in that epoch, before the callback gets all rows of the new view, if there are any.
        Without it, such a replacement is refused while the subscription is open. One with a name that was closed then, or not made
        yet in this process, gets both when it is made again. Where the columns stay the same, the callback gets the difference.

        The callback is called by the thread that pushes, before ``push`` returns, epoch after epoch, with frames of its
        own. It may read and push. It must not wait for another thread that pushes, as that one waits for this epoch.

        ``queue``, without ``name`` and ``on_schema``: call back in a thread of the subscription's own, behind a queue of at most so
        many deltas, so that a slow callback does not hold up ``push``. If it is full, ``on_full`` decides: "wait" until there is room,
        "drop" the delta, which the subscription counts in ``dropped``, or "fail": the subscription ends, and ``push`` raises. Its
        ``join()`` waits until all is delivered; ``engine.close()`` and the end of the program do so for half a minute at most.

        A coroutine function is refused, as nobody would await it: use ``async for delta in view.follow()``.

        Raises:
            EpochGoneError: deltas that are to be delivered are no longer all retained.
            InputError: ``since`` is not a number, or the epoch is still to come.
            PlanError: the callback is not a function, the panes of the view do not fit the reader, or the name is in use.
            CheckpointError: the engine is closed, so that nothing would be delivered.
        """
        self._check_subscription(callback, since, reader, name, on_schema, queue, on_full)
        with Subscribing(self._engine.turn) as subscribing:
            self._engine.require_not_closed()
            queued = None
            if queue is not None:
                queued = QueuedSubscription(self, callback, self.epoch, self._engine.turn, queue, on_full)
                callback = queued.put
            if name is not None:
                return subscribing.begin(self._subscribe_again(callback, since, name, on_schema, reader))
            try:
                self._deliver_missed(callback, since)
            except BaseException:
                if queued is not None:
                    queued.close()  # This ends its thread.
                raise
            subscription = queued or Subscription(self, callback, self.epoch)
            subscription.delivered, subscription.on_schema = self.epoch, on_schema
            subscription.reader = reader
            self._subscriptions = with_another(self, subscription)
            return subscribing.begin(subscription)

    def _check_subscription(
        self,
        callback: Callback,
        since: int | None,
        reader: Reader,
        name: str | None,
        on_schema: OnSchema | None,
        queue: int | None,
        on_full: OnFull,
    ) -> None:
        check_reader(f"subscription to view {self.name!r}", self._plan, self._place, reader)
        for function, what in ((callback, "one frame"), (on_schema, "one SchemaChange")):
            if not callable(function) and (function is not None or what == "one frame"):
                raise PlanError(
                    f"subscription to view {self.name!r}: {function!r} cannot be called; give a function of {what}"
                )
        require_plain_function(f"subscription to view {self.name!r}", callback)
        require_queue(f"subscription to view {self.name!r}", queue, on_full, name, on_schema)
        if since is not None:
            require_since(self.name, since)

    def _deliver_missed(self, callback: Callback, since: int | None) -> None:
        """Deliver the deltas after an epoch, and those of epochs that the callback itself pushes."""
        require_past(self.name, since, self.epoch)
        while since is not None and since < self.epoch:
            missed = self.deltas(since)
            for frame in missed:
                with interruptible():
                    callback(frame)
            since = missed.last_epoch

    def follow(
        self, since: int | None = None, *, on_schema: OnSchema | None = None
    ) -> AsyncIterator[pl.DataFrame]:
        """Return the deltas after epoch ``since``, and then each new one, for ``async for``; None: only new ones.

        A task that is slower than the epochs reads them later from the retained deltas; it does not slow down pushes. The
        iteration ends when an engine with a checkpoint is closed; one without can be pushed to after ``close()``, so cancel
        the task.

        It continues with a view that replaces this one (``engine.view(..., replace=True)``): with the difference, if the
        columns are the same. Else ``on_schema`` is called with a ``SchemaChange``, in the task, after the last delta with
        the columns so far and before all rows of the new view; without ``on_schema`` such a replacement is refused while
        the view is followed.

        Raises:
            EpochGoneError: while iterating: the task is so far behind that deltas are no longer retained.
        """
        if since is not None:
            require_since(self.name, since)
        if on_schema is not None:
            if not callable(on_schema):
                raise PlanError(
                    f"follow of view {self.name!r}: on_schema={on_schema!r}; give a function of one SchemaChange"
                )
            require_plain_function(f"follow of view {self.name!r}: on_schema", on_schema)
        return followed(self, self.epoch if since is None else since, on_schema)

    def _end(self) -> None:
        """Wake the tasks that wait for deltas, as there will be none."""
        self.has_ended = True
        for subscription in self._subscriptions:
            if subscription.on_end is not None:
                subscription.on_end()

    def _subscribe_again(
        self, callback: Callback, since: int | None, name: str, on_schema: OnSchema | None, reader: Reader
    ) -> Subscription:
        require_free_name(self, name, self._engine.readers)
        now, key = self.epoch, reader_key(self.name, name)
        last = self._engine.readers.last_of(self.name, name)
        require_past(self.name, since if last is None else None, now)
        delivered = last if last is not None else now if since is None else since
        subscription = Subscription(self, callback, delivered, name, on_schema)
        subscription.reader = reader
        change = self._engine.readers.missed_change(self, name)
        if change is not None and on_schema is None:
            how = "has other columns" if change.before != change.after else "is declared in another way"
            raise EpochGoneError(
                f"subscription {name!r} to view {self.name!r}: the view {how} from epoch {change.epoch} on, and the "
                f"subscription has got the epochs up to {delivered}; subscribe with on_schema=, or under another name"
            )
        subscription.begin_with(change)
        self._engine.readers.enter(subscription, key)
        subscription.catch_up()
        self._subscriptions = with_another(self, subscription)
        return subscription

    def _deliver(
        self, make: MakeSink, name: str, reader: Reader, retry: Retry | None, keys: tuple[str, ...] = ()
    ) -> Delivery:
        require_reader_name(self, name)
        self.require_reader(name, reader)
        retry = Retry.of(retry)
        with Subscribing(self._engine.turn) as subscribing:
            # This opens the checkpoint, which has the position under this name.
            origin = self._engine.origin(self.name)
            remembered = self._engine.readers.last_of(self.name, name)
            sink = make(origin, remembered)
            name = free_name(self, name, sink, self._engine.views.values())
            require_free_name(self, name, self._engine.readers)
            key = reader_key(self.name, name)
            subscription = subscribing.begin(
                DeliverySubscription(self, -1 if remembered is None else remembered, name)
            )
            self._engine.readers.enter(subscription, key)
            self._subscriptions = with_another(self, subscription)
            subscription.delivery = Delivery(
                DurableView(self), sink, name, retry=retry, on_written=subscription.written, on_end=subscription.ended, reader=reader,
                keys=keys, beginning=self._engine.beginning(self.name, name),
            )  # fmt: skip
        return subscription.delivery

    def require_reader(self, name: str, reader: Reader) -> None:
        """Check that the panes of the view fit the way in which its rows are used under this name.

        Raises:
            PlanError: they do not.
        """
        where = f"view {self.name!r}: {name}"
        check_reader(where, self._plan, self._place, reader)
        if reader == "overwriting":
            require_one_pane(where, self._plan, self._place)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns that identify its rows, if it is a grouping or an upsert source; otherwise none."""
        return self._plan.keys_of(self._place)

    @property
    def watermark(self) -> datetime | int | None:
        """How far the event time of its rows is complete; None: nothing is known, ``END_OF_TIME``: no more rows will come."""
        return self._engine.watermark_of(self.name)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the contents as an Arrow C stream."""
        return self.read().__arrow_c_stream__(requested_schema)

    instead_of_pickling = "Send what it holds, view.read() or view.snapshot()"

    @property
    def _as_operand(self) -> str:
        return f"view {self.name!r}"

    def __repr__(self) -> str:
        """Name, epoch, size and the first rows; or how far it is filled, that it is gone, or where its rows are."""
        if reason := self._unreadable:
            return f"View {self.name!r}: {reason}"
        now = self.snapshot()
        return f"View {self.name!r} at epoch {now.epoch}\n{printable(now.frame)}"

    def _repr_html_(self) -> str:
        """Name, epoch and contents, for notebooks; or how far it is filled, that it is gone, or where its rows are."""
        if reason := self._unreadable:
            return f"<p>{escape(reason)}</p>"
        now = self.snapshot()
        title = f"<b>{escape(self.name)}</b> at epoch {now.epoch}, {counted(now.frame.height)}"
        return f"<p>{title}</p>{printable(now.frame)._repr_html_()}"

    def _rows_of(self, row: pl.DataFrame) -> pl.DataFrame:
        with self._engine.reading(self.name) as now:
            return now.rows_of(self.name, row)

    def _keys(self) -> tuple[str, ...]:
        return self.key_columns

    def _delta_schema(self) -> pl.Schema:
        return pl.Schema({**self.schema, EPOCH: pl.UInt64(), DIFF: pl.Int64()})
