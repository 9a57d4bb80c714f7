"""Views: named results with their contents, deltas and subscriptions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import date, datetime
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from evercurrent.core.columns.json_texts import printable
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.core.data.schema import DIFF, EPOCH, require_columns
from evercurrent.core.data.tags import tagged

from ..concurrency.interrupts import interruptible
from ..concurrency.turns import Turn
from ..dataframe.collection import Collection
from ..dataframe.operator_hints import OfOneEngine
from ..epochs.changes import change_rows
from ..epochs.history import BEFORE_ALL, History, Retain
from ..epochs.queued import OnFull, QueuedSubscription, require_queue
from ..epochs.reader_keys import reader_key
from ..epochs.records import require_epoch
from ..epochs.snapshot import Snapshot
from ..epochs.subscriptions import (
    Callback,
    OnSchema,
    Readers,
    Subscription,
    require_free_name,
    require_plain_function,
    with_another,
)
from ..plan.nodes import PlanId, Windowing
from ..plan.plan import Plan
from ..proving.proof import Proof
from ..sinks.delivery import Delivery, Retry
from ..sinks.origin import Origin
from ..tracing.history import History as RowHistory
from ..tracing.lineage import Lineage
from .asynchronous import followed
from .consumers import Reader, check_reader, require_one_pane
from .fills import Filling, FillProgress
from .published import Published
from .view_forms import ReadForms
from .view_sinks import DeliverySubscription, MakeSink, Outputs, delivered_places

if TYPE_CHECKING:
    from ..timeline.of_view import Key
    from ..timeline.timeline import Timeline


class ViewKeeper(Protocol):
    """The engine, as far as views use it."""

    @property
    def epoch_number(self) -> int:
        """The number of the last epoch."""
        ...

    @property
    def readers(self) -> Readers:
        """The subscriptions, and the last epochs delivered to those with a name."""
        ...

    def published(self) -> Published:
        """Return what is published of the last epoch, which later epochs do not change."""
        ...

    def reading(self, view: str) -> AbstractContextManager[Published]:
        """Yield what is published, for a reader of this view inside of the block."""
        ...

    @property
    def turn(self) -> Turn:
        """The lock that a writer holds while all others wait."""
        ...

    def origin(self, view: str) -> Origin:
        """Return what tells the epochs of a view apart from those of other engines and checkpoints."""
        ...

    def contents(self, view: str, epoch: int | None = None) -> pl.DataFrame:
        """All rows of a view now, or after an epoch."""
        ...

    def fire(self, view: str, key: object, window: object, at: datetime | str | None) -> int:
        """Run an epoch without rows in which windows of a view are fired."""
        ...

    def why(self, view: str, key: object, window: object) -> list[str]:
        """Explain why windows of a view emit no panes."""
        ...

    def lineage_of(self, view: str, row: object, limit: int) -> Lineage:
        """Return the rows of sources from which a row of a view comes."""
        ...

    def history_of(self, view: str, key: object, since: int | None) -> RowHistory:
        """Return the changes of the rows of a key, and what caused them."""
        ...

    def proof_of(self, view: str, sample: float | None = None) -> Proof:
        """Evaluate a view's definition in a batch, and compare that with what the view holds."""
        ...

    def watermark_of(self, view: str) -> datetime | int | None:
        """How far the event time of a view's rows is complete."""
        ...


class Deltas:
    """The deltas of a view after an epoch: iterate for one frame per epoch, or hand it on as one Arrow stream.

    Every iteration starts again at ``since`` and ends at the last epoch; to go on, call ``view.deltas(since=last_epoch)``.
    The caller owns the frames. One object is for one thread at a time: each thread calls ``view.deltas()`` for its own.
    """

    def __init__(self, view: View, since: int, now: Published) -> None:
        self._view = view
        self._since = since
        self.last_epoch = now.epoch
        now.require(view.name, since)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """Frames of the view's columns, ``_epoch`` and ``_diff``, each row once per epoch."""
        now = self._view._engine.published()
        self.last_epoch = now.epoch
        return now.deltas(self._view.name, self._since)

    def frame(self) -> pl.DataFrame:
        """Return all deltas in one frame."""
        frames: list[pl.DataFrame] = [self._view._delta_schema().to_frame(), *self]
        return pl.concat(frames)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export all deltas as an Arrow C stream."""
        stream: object = self.frame().__arrow_c_stream__(requested_schema)
        return stream

    def __repr__(self) -> str:
        """Show the view, the epoch ``since``, and all deltas in one frame."""
        return f"Deltas of view {self._view.name!r} {self._since_text}\n{printable(self.frame())}"

    def _repr_html_(self) -> str:
        """Show the same in notebooks."""
        title = f"<b>{escape(self._view.name)}</b>: deltas {self._since_text}"
        return f"<p>{title}</p>{printable(self.frame())._repr_html_()}"

    @property
    def _since_text(self) -> str:
        return "from the beginning" if self._since == BEFORE_ALL else f"after epoch {self._since}"


@tagged("views.view:View")
class View(Collection, ReadForms, Outputs, OfOneEngine):
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
        self._gone = ""
        """Why it cannot be used any more; empty while it can."""
        self._filling: Filling | None = None
        """What fills it, until it is ready."""
        self._history = History(name, retain)
        self._subscriptions: tuple[Subscription, ...] = ()
        self.has_ended = False
        """Whether the engine has closed its checkpoint, so that no delta comes any more."""
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
        if self._gone:
            raise InputError(self._gone)
        if self._filling is not None:
            raise self._filling.refusal()
        return self._keeper

    @property
    def _turn(self) -> Turn:
        """The lock of its engine that a writer holds while all others wait."""
        return self._engine.turn

    @property
    def filling(self) -> FillProgress | None:
        """How far it is filled, if it was declared with ``background=True``; None once it can be read."""
        return None if self._filling is None else self._filling.progress

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it is filled, at most ``timeout`` seconds; a view that is not being filled is ready.

        A subscriber that waits computes what is left itself, as no other epoch can come before it has returned. In a task write
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
        if since is not None:
            require_epoch(self.name, "since", since)
        with self._engine.reading(self.name) as now:
            if since is not None and since > now.epoch:
                raise InputError(
                    f"view {self.name!r}: epoch {since} is still to come, the engine is at epoch {now.epoch}; "
                    "a new engine begins at epoch 0: read view.snapshot() first"
                )
            return Deltas(self, BEFORE_ALL if since is None else since, now)

    @property
    def earliest(self) -> int:
        """The epoch after which all deltas are retained: as far back as ``deltas(since)`` goes; -1: the very beginning."""
        return self._engine.published().begins(self.name)

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
        upsert source; for any other there are no updates.

        Raises:
            PlanError: a key is not a column of the view.
            EpochGoneError: the deltas are no longer all retained.
        """
        keys = self._keys() if key is None else (key,) if isinstance(key, str) else tuple(key)
        require_columns(f"changes of view {self.name!r}", self.schema, keys)
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
        """Call back with the delta of every epoch that changes the view.

        ``since``: first deliver all retained changes after that epoch; None: only those to come. ``reader`` states what is
        done with the rows, so that it can be checked whether the panes of the view fit: "deltas", they are applied with
        their diffs; "summing", their values are added up (a row with a negative diff is subtracted); "overwriting", the
        last row of a key is kept; "log", they are appended.

        ``name``: a subscription that is made again under its name goes on after the last epoch delivered to it, also in
        another process on the same checkpoint; ``since`` then counts only the first time. The last delivered epoch is
        part of the next commit, so after a crash the last epochs may be delivered once more: a sink that stores the
        ``_epoch`` of what it has written, in the same transaction, has everything exactly once.

        ``on_schema``: called with a ``SchemaChange`` when the view is replaced by one with other columns
        (``engine.view(..., replace=True)``), before the callback gets all rows of the new view. Without it, such a
        replacement is refused while the subscription is open. Where the columns stay the same, the callback gets the difference.

        The callback is called by the thread that pushes, before ``push`` returns, epoch after epoch, with frames of its
        own. It may read and push. It must not wait for another thread that pushes, as that one waits for this epoch.

        ``queue``: call back in a thread of the subscription's own, behind a queue of at most so many deltas, so that a slow
        callback does not hold up ``push``. If the queue is full, ``on_full`` decides: "wait" until there is room, "drop" the
        delta, which the subscription counts in ``dropped``, or "fail": the subscription ends, and ``push`` raises. Its
        ``join()`` waits until all is delivered.

        A coroutine function is refused, as nobody would await it: use ``async for delta in view.follow()``.

        Raises:
            EpochGoneError: deltas that are to be delivered are no longer all retained.
            PlanError: the callback is not a function, the panes of the view do not fit the reader, or the name is in use.
        """
        check_reader(f"subscription to view {self.name!r}", self._plan, self._place, reader)
        for function, what in ((callback, "one frame"), (on_schema, "one SchemaChange")):
            if not callable(function) and (function is not None or what == "one frame"):
                raise PlanError(
                    f"subscription to view {self.name!r}: {function!r} cannot be called; give a function of {what}"
                )
        require_plain_function(f"subscription to view {self.name!r}", callback)
        require_queue(f"subscription to view {self.name!r}", queue, on_full, name, on_schema)
        if since is not None:
            require_epoch(self.name, "since", since)
        with self._engine.turn:
            queued = None
            if queue is not None:
                queued = QueuedSubscription(self, callback, self.epoch, self._engine.turn, queue, on_full)
                callback = queued.put
            if name is not None:
                return self._subscribe_again(callback, since, name, on_schema)
            # Repeated where the callback itself pushes.
            try:
                while since is not None and since < self.epoch:
                    missed = self.deltas(since)
                    for frame in missed:
                        with interruptible():
                            callback(frame)
                    since = missed.last_epoch
            except BaseException:
                if queued is not None:
                    queued.close()  # This ends its thread.
                raise
            subscription = queued or Subscription(self, callback, self.epoch)
            subscription.delivered, subscription.on_schema = self.epoch, on_schema
            self._subscriptions = with_another(self, subscription)
            return subscription

    def follow(
        self, since: int | None = None, *, on_schema: OnSchema | None = None
    ) -> AsyncIterator[pl.DataFrame]:
        """Return the deltas after epoch ``since``, and then each that comes, for ``async for``; None: only those to come.

        A task that is slower than the epochs reads them later from what the view retains; it holds up nobody. The iteration
        ends when an engine with a checkpoint is closed; one without can be pushed to after ``close()``, so cancel the task.

        It goes on with a view that replaces this one (``engine.view(..., replace=True)``): with the difference, if the columns are
        the same. Else ``on_schema`` is called with a ``SchemaChange``, in the task, after the last delta with the columns so far and
        before all rows of the new view; without ``on_schema`` such a replacement is refused while the view is followed.

        Raises:
            EpochGoneError: while iterating: the task is so far behind that deltas are no longer retained.
        """
        if since is not None:
            require_epoch(self.name, "since", since)
        if on_schema is not None:
            require_plain_function(f"follow of view {self.name!r}: on_schema", on_schema)
        return followed(self, self.epoch if since is None else since, on_schema)

    def _end(self) -> None:
        """Wake those who wait for deltas, as none comes any more."""
        self.has_ended = True
        for subscription in self._subscriptions:
            if subscription.on_end is not None:
                subscription.on_end()

    def _subscribe_again(
        self, callback: Callback, since: int | None, name: str, on_schema: OnSchema | None
    ) -> Subscription:
        require_free_name(self, name)
        now, key = self.epoch, reader_key(self.name, name)
        last = self._engine.readers.last_of(self.name, name)
        delivered = last if last is not None else now if since is None else since
        subscription = Subscription(self, callback, delivered, name, on_schema)
        self._engine.readers.enter(subscription, key)
        subscription.catch_up()
        self._subscriptions = with_another(self, subscription)
        return subscription

    def _deliver(self, make: MakeSink, name: str, reader: Reader, retry: Retry | None) -> Delivery:
        self.require_reader(name, reader)
        retry = Retry.of(retry)
        with self._engine.turn:
            origin = self._engine.origin(
                self.name
            )  # This opens the checkpoint, which has what is remembered.
            remembered = self._engine.readers.last_of(self.name, name)
            sink = make(origin, remembered)
            if any(place != sink.place for place in delivered_places(self.subscriptions, name)):
                name = sink.place  # Such as a table of one name in two databases.
            require_free_name(self, name)
            key = reader_key(self.name, name)
            subscription = DeliverySubscription(self, -1 if remembered is None else remembered, name)
            self._engine.readers.enter(subscription, key)
            self._subscriptions = with_another(self, subscription)
        subscription.delivery = Delivery(
            self, sink, name, retry=retry, on_written=subscription.written, on_end=subscription.ended
        )
        return subscription.delivery

    def require_reader(self, name: str, reader: Reader) -> None:
        """Check that the panes of the view fit what is done with its rows under this name.

        Raises:
            PlanError: they do not.
        """
        check_reader(f"view {self.name!r}: {name}", self._plan, self._place, reader)
        if reader == "overwriting":
            require_one_pane(f"view {self.name!r}: {name}", self._plan, self._place)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns that tell its rows apart, if it is a grouping or an upsert source; otherwise none."""
        return self._plan.keys_of(self._place)

    @property
    def watermark(self) -> datetime | int | None:
        """How far the event time of its rows is complete; None: nothing is known, ``END_OF_TIME``: no more rows will come."""
        return self._engine.watermark_of(self.name)

    def fire(self, key: object = None, window: object = None, *, at: datetime | str | None = None) -> int:
        """Fire the windows whose trigger waits for ``signal()``, in an epoch of its own.

        Args:
            key: the key of the windows: a value, a tuple or a dictionary; None for all keys.
            window: its start, or (start, end); None for all windows.
            at: processing time, as for ``Engine.push``.

        Raises:
            InputError: the view has no trigger, or the key does not go with its columns. Where no window waits for a
                signal, the epoch is run and emits nothing.
        """
        return self._engine.fire(self.name, key, window, at)

    def why(self, key: object = None, window: object = None) -> str:
        """Explain why a row is there or is not, and why a window has emitted no pane.

        Of a row that is there: what it is made of, stage by stage down to the sources. Of one that is not: which filter
        refuses it, which join has no partner for it, which rows come before it, which values differ, or that nothing was
        pushed, was refused or came too late. Of open windows: what they wait for, what holds the watermark, when they may fire.
        Cost: that of ``lineage``; of windows, those that are open.

        >>> from evercurrent import Engine
        >>> engine = Engine()
        >>> orders = engine.source("orders", {"id": pl.Int64, "item": pl.String}, retained=True)
        >>> items = engine.source("items", {"item": pl.String, "price": pl.Int64}, retained=True)
        >>> priced = engine.view("priced", orders.join(items, on="item"))
        >>> _ = engine.push("orders", {"id": [7], "item": ["pen"]})
        >>> print(priced.why({"id": 7}))
        view 'priced' has no row with id 7
        source 'orders' has 1 row of it:
          id 7, item pen
        it has no partner in source 'items', on item:
        source 'items' has no row with item pen: none was pushed, or it was taken back

        Args:
            key: the key of the view or of its windows, a value or a tuple; or a dictionary of any columns of the view; None for
                all open windows.
            window: its start, or (start, end); None for all windows.

        Raises:
            InputError: the key does not go with the columns of the view, or there is none, and the view has no windows.
        """
        return "\n".join(self._engine.why(self.name, key, window))

    def lineage(self, row: object, *, limit: int = 1000) -> Lineage:
        """Return the rows of each source from which a row comes, by the names of the sources, with ``_diff`` as their counts.

        They are followed back through the plan: through groupings to all rows of a group, through windows and sessions to
        those of the window, through joins to both partners, through distinct, unions and the first rows of groups. The newest
        come first: by event time, or by the ``sequence_by`` of the source. Where a source retains no rows, they are those of the
        nearest view, join or grouping that has some. Rows that keep others away (the other side of an anti join, what ``minus``
        subtracts) are not among them.

        The result is a mapping of frames that prints the stages in between, and draws them: ``text()``, ``mermaid()``,
        ``svg()``.

        Rows are looked up, by any column: each part of a state is sorted by the columns that are needed when they are first
        needed, so that the first call costs the state, and the ones that follow cost the rows that they read and the parts
        that are new. Memory: 16 bytes for each row and set of columns, until the part is merged into another one.

        >>> from evercurrent import Engine
        >>> engine = Engine()
        >>> sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64}, retained=True)
        >>> totals = engine.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum()))
        >>> _ = engine.push("sales", {"shop": ["north", "south", "north"], "price": [3, 4, 5]})
        >>> sorted(totals.lineage({"shop": "north"})["sales"].rows())
        [('north', 3, 1), ('north', 5, 1)]

        Args:
            row: columns and their values, as far as they choose the row or several; or a whole row as a tuple.
            limit: the most rows of each source.

        Raises:
            InputError: there is no such row; or it cannot be followed back, as through ``map_batches`` and windows of counts.
        """
        return self._engine.lineage_of(self.name, row, limit)

    def history(self, key: object, *, since: int | None = None) -> RowHistory:
        """Return each change of the rows of a key: its epoch, its processing time, and the input rows that caused it.

        Changes are the deltas that are retained, with a checkpoint those of its retained commits too. What caused one is
        followed back through the changes of the same epoch: of sources if the engine was made with ``Engine(record=True)``, of
        views by their deltas. Where a stage keeps none, the result says which, and what would keep them. The change of a
        window that no row caused was due to time.

        The result has ``frame()``, and prints and draws itself: ``text()``, ``mermaid()``, ``svg()``.

        >>> from evercurrent import Engine
        >>> engine = Engine(record=True)
        >>> sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64})
        >>> totals = engine.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum()))
        >>> _ = engine.push("sales", {"shop": ["north", "south"], "price": [3, 4]}, at="2026-01-01T12:00:00Z")
        >>> _ = engine.push("sales", {"shop": ["north"], "price": [5]}, at="2026-01-01T12:01:00Z")
        >>> totals.history("north")
        history of shop north in view totals
        epoch 1, 2026-01-01 12:00:00
          +1 shop north, total 3
            by sales: shop north, price 3
        epoch 2, 2026-01-01 12:01:00
          -1 shop north, total 3
          +1 shop north, total 8
            by sales: shop north, price 5

        Args:
            key: a value, or a tuple in the order of the keys of the view, or a dictionary of any of its columns.
            since: only the changes after this epoch.

        Raises:
            InputError: the key does not go with the columns.
            EpochGoneError: the changes after ``since`` are no longer all retained.
        """
        return self._engine.history_of(self.name, key, since)

    def prove(self, sample: float | None = None) -> Proof:
        """Evaluate the definition by polars over the retained rows, in one batch, and compare that with what the view holds.

        The result is true if both are equal, and has the rows that differ otherwise, with the epoch from which on each does:
        at the commits of a checkpoint, or in memory at each epoch, if the rows of the sources are recorded by epoch
        (``Engine(record=True)``). Nothing of the engine computes it: the calls that declared the view are repeated with
        polars, over the rows of retained sources, or of other views where a source retains none. Floats are equal if they
        differ by a billionth, as polars adds them up in another order. Pushes go on meanwhile. Cost: that of the batch.

        Windows are evaluated too: fixed, sliding, calendar and sessions. Panes that wait for a trigger, and windows for which
        rows came too late, do not follow from rows: they are left out, and the result says which (``unproved``).

        Args:
            sample: prove a share of the keys, such as 0.01; see ``Engine.prove``.

        Raises:
            InputError: it cannot be evaluated: no rows are retained, or it has windows of counts, panes that are discarded or
                accumulate, aggregates of your own, or rows with counts below zero; names the reason.
        """
        return self._engine.proof_of(self.name, sample)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the contents as an Arrow C stream."""
        return self.read().__arrow_c_stream__(requested_schema)

    def timeline(
        self,
        value: str | None = None,
        *,
        label: str | None = None,
        key: Key | None = None,
        start: date | str | None = None,
        end: date | str | None = None,
        title: str | None = None,
        subtitle: str = "",
        width: int = 900,
        height: int | None = None,
        rows: int = 2000,
        panes: int = 300,
        keys: int = 6,
        legend: bool = True,
    ) -> Timeline:
        """Draw the run so far: event time across, processing time up, rows as dots, panes as rectangles.

        Rows are drawn if the engine was made with ``Engine(record=True)``. Whether a pane is early, on time or late is
        read from its pane information (``with_pane_info()``); without that it follows from the watermarks.

        Args:
            value: the column written at panes; by default the first one that is neither key nor bound.
            label: the column of a source written at its rows; by default the one named like the value, else its
                only column of numbers.
            key: draw this key alone: a value, several in the order of the key's columns, or by name.
            start: draw event time from here on: rows at it or later, and panes whose windows reach beyond it.
            end: draw event time before this. Both are given as a watermark is.
            title: a line above the drawing; by default the name of the view.
            subtitle: a line below the title.
            width: of the drawing, in pixels.
            height: of one pair of axes; by default it follows from the width.
            rows: the largest number of rows that are drawn.
            panes: the largest number of panes that are drawn.
            keys: the largest number of keys that are drawn, each with its own axes.
            legend: whether to explain the marks.

        Returns:
            A drawing to be saved with ``save("run.svg")``, ``save("run.html")``, which zooms, or ``save("run.png")`` if a
            converter is installed; notebooks display it.

        Raises:
            PlanError: a column that is not there, a key that the view does not have, a size that makes no drawing, or an
                ``end`` that is not after ``start``.
            InputError: the view has emitted nothing for the key, or ``start`` or ``end`` is no time.
        """
        from ..timeline.drawing import Look  # Imported here, as only drawings need it.
        from ..timeline.of_view import timeline_of_view

        now = self._engine.published()
        deltas = now.deltas(self.name, now.begins(self.name))
        return timeline_of_view(
            self.name,
            self._plan,
            self._place,
            pl.concat([self._delta_schema().to_frame(), *deltas]),
            now,
            value=value,
            label=label,
            key=key,
            title=title,
            subtitle=subtitle,
            look=Look(width, height, rows, panes, keys, legend),
            start=start,
            end=end,
        )

    instead_of_pickling = "Send what it holds, view.read() or view.snapshot()"

    @property
    def _as_operand(self) -> str:
        return f"view {self.name!r}"

    def __repr__(self) -> str:
        """Name, epoch, size and the first rows; or how far it is filled."""
        if (filling := self.filling) is not None and not self._gone:
            return f"View {self.name!r}: {filling!r}"
        now = self.snapshot()
        return f"View {self.name!r} at epoch {now.epoch}\n{printable(now.frame)}"

    def _repr_html_(self) -> str:
        """Name, epoch and contents, for notebooks; or how far it is filled."""
        if (filling := self.filling) is not None and not self._gone:
            return f"<p>{escape(repr(filling))}</p>"
        now = self.snapshot()
        title = f"<b>{escape(self.name)}</b> at epoch {now.epoch}, {now.frame.height:,} rows"
        return f"<p>{title}</p>{printable(now.frame)._repr_html_()}"

    def _now(self) -> AbstractContextManager[Published]:
        return self._engine.reading(self.name)

    def _keys(self) -> tuple[str, ...]:
        return self.key_columns

    def _delta_schema(self) -> pl.Schema:
        return pl.Schema({**self.schema, EPOCH: pl.UInt64(), DIFF: pl.Int64()})
