"""The engine: sources, views, and the epochs that keep the views current."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

import polars as pl

from evercurrent.core.data.allocation import expect_large_arrays
from evercurrent.core.data.durations import instant
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.core.data.schema import listed
from evercurrent.core.data.tags import tagged
from evercurrent.core.eventtime.watermarks.kinds import Watermark

from ..checkpoint import Checkpoint
from ..compiler.builder import Compiled
from ..concurrency.turns import Turn
from ..connectors.positions import Position, PositionOrder, copied
from ..dataframe.collection import Collection
from ..dataframe.operator_hints import missing_of_engine, no_copy
from ..dataframe.source import Source, accepted
from ..durability.durability import Durability
from ..epochs.history import Retain
from ..epochs.records import Batch, EpochInput
from ..epochs.refused_rows import ledger_frame, source_ledger_frame
from ..epochs.run_events import WATCH_IN_TASK, Watch, Watcher
from ..epochs.run_log import RunRecorder
from ..epochs.subscriptions import require_plain_function
from ..inspection.circuit_drawing import circuit_mermaid, circuit_text
from ..inspection.explain import engine_html, explain_mermaid, explain_text
from ..inspection.questions import shown_watermark
from ..inspection.stats import stats_of
from ..plan.nodes import SourceKind
from ..plan.plan import Plan
from ..sinks.delivery import DRAIN_SECONDS, Delivery
from ..tracing.indexes import Indexes
from .epoch_runner import Running
from .fills import FillProgress, OnProgress
from .live_declarations import LiveDeclarations
from .open_epochs import OpenEpoch, gathered, open_epoch
from .view import View
from .view_sinks import DeliverySubscription

if TYPE_CHECKING:
    import networkx as nx


MOST_WORKERS = 64

RECORD_ALONE = "rows are recorded as a source hands them on, and each worker sees a part of them"
FILLED_ALONE = (
    "the states are in the buckets of workers, and what these emit is not brought together for a fill"
)
RESIDENT_ALONE = (
    "workers hold the states in buckets, and the limit would free only the whole that is made of them"
)


@tagged("views.engine:Engine")
class Engine(LiveDeclarations):
    """Declares sources and views, takes batches of changes, and keeps every view current.

    One batch is one epoch: its changes go through every view before any reader sees them, or, if anything fails, nothing
    has changed and the same batch can be pushed again.

    >>> engine = Engine()
    >>> words = engine.source("words", {"word": pl.String}, kind="diffs")
    >>> counts = engine.view("counts", words.group_by("word").agg(n=pl.len()))
    >>> engine.push("words", {"word": ["a", "b", "a"]})
    1
    >>> counts.read().sort("word").rows()
    [('a', 2), ('b', 1)]
    >>> engine.push("words", {"word": ["b"], "_diff": [-1]})
    2
    >>> [delta.rows() for delta in counts.deltas(since=1)]
    [[('b', 1, 2, -1)]]

    ``retain`` limits how many deltas are kept for later readers; with ``record`` the rows of sources are kept by epoch too,
    within the same limits, so that a timeline shows them and ``view.history(key)`` knows what caused a change.

    With ``checkpoint``, a folder or a ``Checkpoint``, an epoch is on disk when ``push`` returns, and an engine that
    declares the same views on the same folder goes on where the last one ended: views, windows, watermarks, named
    subscriptions, positions of the input. It is opened when it is first needed, and only one engine at a time may
    have it open: ``close()``, the end of a ``with`` block or the end of the process releases it.

    With ``workers`` an epoch is evaluated over so many buckets, each in a thread: the results are the same, rows of a view
    may be in another order, and functions that views are computed with are called by several threads at once. It is
    not faster yet for chained groupings (``docs/architecture/views.md`` has figures). A checkpoint can be opened with any
    number of workers.

    Any thread may call any method: writers wait for their turn, readers wait for nobody (``docs/concurrency.md``).
    """

    def __init__(
        self,
        *,
        retain: Retain | None = None,
        record: bool = False,
        workers: int = 1,
        checkpoint: str | Path | Checkpoint | None = None,
    ) -> None:
        self.sources: dict[str, Source] = {}
        self.views: dict[str, View] = {}
        if not isinstance(retain, Retain | None):
            raise PlanError(f"retain= is {retain!r}; give Retain(epochs=..., rows=...)")
        if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= MOST_WORKERS:
            raise PlanError(
                f"workers= is {workers!r}; give a number from 1 to {MOST_WORKERS}, such as that of the cores"
            )
        self._workers = workers
        if record:
            self._require_one_worker("record=True", RECORD_ALONE)
        self._retain = retain or Retain()
        expect_large_arrays()
        self._plan = Plan()
        self._indexes = Indexes()
        self._turn = Turn()
        log = RunRecorder(self._retain, records_rows=bool(record))
        self._running = Running(self._plan, self.sources, self.views, log, self._turn, workers=workers)
        if checkpoint is not None:
            self.use_checkpoint(checkpoint)

    def source(
        self,
        name: str,
        schema: Mapping[str, Any],
        *,
        kind: SourceKind = "append",
        key: str | list[str] | tuple[str, ...] | None = None,
        event_time: str | None = None,
        watermark: Watermark | None = None,
        bounded: bool = False,
        strict: bool = False,
        trusted: bool = False,
        retained: bool = False,
        sequence_by: str | list[str] | tuple[str, ...] | None = None,
        position_order: PositionOrder | None = None,
    ) -> Source:
        """Declare a source, into which changes are pushed, with the columns and polars types of its rows.

        It may be declared at any time. The same declaration again returns the source that is there.

        Args:
            name: the name under which rows are pushed.
            schema: columns and their polars types.
            kind: "append": rows, each +1. "diffs": rows with an optional ``_diff`` column; a retraction of a
                row that is not there is refused into the ledger. "upsert": a row replaces the row of its
                ``key``, and with ``_diff`` -1 deletes it; the last row of a key in a batch wins, unless
                ``sequence_by`` says which one does.
            key: the primary key of an upsert source.
            event_time: the column of event time, by which windows are assigned and ``first()`` and ``last()`` are ordered.
            watermark: how far event time is complete: ``ascending``, ``bounded_delay``, ``ingress_time`` and others;
                without one, it is moved by hand (``push(..., watermark=...)``, ``advance``).
            bounded: the input ends, and its watermark is then ``END_OF_TIME``.
            strict: for "diffs": a retraction of a row that is not there raises ``RetractionError``.
            trusted: for "diffs": retractions are not checked, and no state is kept to check them. Only windows that are
                made of rows, such as sessions, refuse a batch that takes the count of a row below zero.
            retained: keep the rows, so that views that are declared later can be filled from them, and be proved. This
                costs their bytes; an "upsert" source keeps its rows anyway.
            sequence_by: for "upsert": a column, or several, by which the changes of a key are ordered, deletions
                included. The greatest wins, in whatever order they come: an older row changes nothing, and is not an error.
                Among equal ones deletions win, and among rows the first by their columns, so that the same changes give
                the same rows in any order and in any batches. Key and sequence of a deleted row are kept for ever,
                since an older row may still come; ``explain()`` counts them. Null and NaN are refused. Without
                ``sequence_by`` rows have to come in the order of their changes: in Spark that means one partition
                with one file per micro-batch.

                >>> engine = Engine()
                >>> orders = engine.source("orders", {"id": pl.Int64, "state": pl.String, "at": pl.Int64},
                ...                        kind="upsert", key="id", sequence_by="at")
                >>> now = engine.view("now", orders)
                >>> _ = engine.push("orders", [(1, "paid", 20), (1, "new", 10)])
                >>> _ = engine.push("orders", [(1, "seen", 15)])
                >>> now.read().rows()
                [(1, 'paid', 20)]

            position_order: a function of a position (``push(..., position=)``), or of that of a partition, that returns what
                is compared: ``lambda lsn: [int(part, 16) for part in lsn.split("/")]``. Without it numbers, texts of one
                length and lists of them are compared as they are.

        Raises:
            PlanError: the name is that of another source, columns are reserved, or options do not go together.
        """
        options = {
            "kind": kind, "key": key, "event_time": event_time, "watermark": watermark, "bounded": bounded,
            "strict": strict, "trusted": trusted, "retained": retained, "sequence_by": sequence_by,
            "position_order": position_order,
        }  # fmt: skip
        with self._turn:
            return self._adopt(self._declarations().source(name, schema, options))

    def view(
        self,
        name: str,
        collection: Collection,
        *,
        replace: bool = False,
        backfill: Mapping[str, Any] | None = None,
        background: bool = False,
        on_progress: OnProgress | None = None,
    ) -> View:
        """Declare a named result that is kept current, and can be read, subscribed to and used by other views.

        A view equals its definition over all input so far. A view of discarding or accumulating panes is a log of every
        pane that was emitted, none of them retracted; ``collection.latest()`` is the last one of each key and window.

        It may be declared at any time. After the first epoch it is filled from what is kept: other views, groupings and
        ``retained`` sources, whichever is nearest; its first delta is all of its rows, in an epoch of its own. The same
        declaration again, as when a notebook's cell is run twice, returns the view that is there.

        Args:
            name: the name under which it is read.
            collection: its definition.
            replace: another view may have the name: it is replaced in one epoch. Its subscriptions go on: they get the
                difference if the columns are the same, else all rows after a call of ``on_schema``. Views that were
                declared on the view before stay as they are.
            backfill: the rows of sources up to now, by their names, where neither rows nor anything that is computed from
                them is kept: whatever can be pushed, the path of a file or folder, or an iterator of batches. If rows are
                pushed with positions, ``ec.Backfill(rows, position=...)`` states that they go up to the last one taken.
            background: return at once, and fill the view in a thread, piece by piece, while pushes and reads go on. It
                appears in an epoch of its own when nothing is missing: ``view.wait()`` waits for that, ``view.filling`` and
                ``engine.filling`` have the progress, and to read it before raises ``NotFilledError``. By default it is filled when
                ``engine.view`` returns, which takes less time in all, and nothing is pushed meanwhile. A view that is replaced
                stays until then. A checkpoint has nothing of it before: an engine that opens it then fills the view again.
                A view that has nothing to be filled from, such as one declared before the first push, is ready at once.
            on_progress: called with a ``FillProgress`` after each piece, in the thread that fills; it should be quick.

                >>> engine = Engine()
                >>> sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64}, retained=True)
                >>> _ = engine.view("sales", sales)
                >>> _ = engine.push("sales", {"shop": ["north", "south", "north"], "price": [3, 4, 5]})
                >>> totals = engine.view("totals", sales.group_by("shop").agg(n=pl.len()), background=True)
                >>> _ = engine.push("sales", {"shop": ["south"], "price": [6]})
                >>> totals.wait()
                >>> sorted(totals.read().rows())
                [('north', 2), ('south', 2)]

        Raises:
            PlanError: the name is that of another view, the collection is of another engine, or the view cannot be filled,
                since a source does not retain its rows or the result depends on when rows came. Nothing has changed.
            InputError: a value of it cannot be computed. Nothing has changed.
        """
        if background:
            self._require_one_worker("background=True", FILLED_ALONE)
        if on_progress is not None and not (background and callable(on_progress)):
            raise PlanError(
                f"view {name!r}: on_progress={on_progress!r}; give a function of one FillProgress, together with background=True"
            )
        with self._turn:
            return self._declarations().view(
                name,
                collection,
                replace=replace,
                backfill=backfill,
                background=background,
                on_progress=on_progress,
            )

    @property
    def filling(self) -> dict[str, FillProgress]:
        """How far the views are filled that were declared with ``background=True`` and cannot be read yet, by name."""
        return dict(self._running.fills.progress)

    def _fresh(self) -> Self:
        """Return an engine in memory that retains as many deltas, with nothing declared."""
        return type(self)(retain=self._retain)

    def _adopt(self, source: Source) -> Source:
        """Have this engine take what is pushed into a source, and return the source."""
        source._take = self.push
        return source

    def push(
        self,
        source: str,
        data: Any,
        *,
        at: datetime | str | None = None,
        watermark: datetime | str | int | None = None,
        position: Position | None = None,
    ) -> int:
        """Take one batch of changes: one epoch, or part of the one that is open (``with engine.epoch()``).

        Args:
            source: the name of the source.
            data: a polars frame, anything with Arrow's C stream interface, a dict of columns, or a list of rows:
                dictionaries, or tuples in the order of the declared columns, with ``_diff`` last. It may be changed
                afterwards: values in writable memory are copied. A column may be of another type if the declared one
                holds its values exactly: Int32 for Int64,
                ``datetime64[ns]`` in whole microseconds, a categorical for a text, another time zone, all nulls. In a column
                without a time zone an instant is its time in UTC.
            at: processing time of the batch, with time zone, or a text such as "2026-01-31T12:00:00Z"; by default the time
                of the clock, which is read nowhere else.
            watermark: moves the watermark of the source by hand, after these rows: a datetime, or a text as in a row;
                ``END_OF_TIME`` after the last batch.
            position: the position of the batch in its source, a whole number that grows. A batch whose position was
                reached before is skipped, so it can be pushed again after a crash and counts once. It may also be a
                growing text of fixed length; a list, such as the name of a file and a line; or a map of partitions to
                positions, each of which advances by itself: ``{0: 17, 1: 4}``. Others need
                ``source(..., position_order=...)``. A map that goes back in one of several partitions is refused.

        Returns:
            The number of the epoch, or of the last one if the batch was skipped. Inside of ``engine.epoch()``, the number
            that the epoch will have if nobody else pushes meanwhile.

        Raises:
            InputError: the batch does not fit the source, or a value cannot be computed; nothing has changed.
            CheckpointError: the epoch could not be written; nothing has changed, unless the message says otherwise.
        """
        declared, block = self._source(source), self._block(at)
        # Checked before the rows are, as a batch that is skipped need not fit.
        batch = Batch(source, positions=declared.positions)
        if position is not None:
            batch = replace(batch, position=declared.positions.kept(position))
            if batch.is_taken(self._shown()[1]):
                if block is not None:
                    block.take(batch, self._shown()[1])
                return self.epoch_number
        with self._running.giving_way:
            delta = accepted(declared, data)
            moved = None if watermark is None else self._instant(source, watermark)
            return self._take(block, replace(batch, delta=delta, watermark=moved), at)

    def advance(
        self, source: str, watermark: datetime | str | int, *, at: datetime | str | None = None
    ) -> int:
        """Move the watermark of a source by hand, in an epoch without rows or in the one that is open.

        Raises:
            InputError: the source has no event time, or the watermark would move back; nothing has changed.
        """
        moved, positions = self._instant(source, watermark), self._source(source).positions
        with self._running.giving_way:
            return self._take(self._block(at), Batch(source, watermark=moved, positions=positions), at)

    def tick(self, *, at: datetime | str | None = None) -> int:
        """Run an epoch without rows, which advances processing time and fires the triggers that wait for it."""
        if open_epoch(self) is not None:
            raise InputError(
                "an epoch is open, and moves processing time itself: leave tick() out, and give the time to engine.epoch(at=...)"
            )
        with self._running.giving_way:
            return self._run(EpochInput(), at)

    def _block(self, at: datetime | str | None) -> OpenEpoch | None:
        """Return the epoch that is open in this context, or None."""
        block = open_epoch(self)
        if block is not None and at is not None:
            raise InputError("an epoch is open and has one processing time: give it to engine.epoch(at=...)")
        return block

    def _take(self, block: OpenEpoch | None, batch: Batch, at: datetime | str | None) -> int:
        """Add a batch to the epoch that is open, or run it as an epoch of its own."""
        if block is not None and (is_new := block.take(batch, self.positions)) is not None:
            return self.epoch_number + is_new
        epoch_input = EpochInput()
        epoch_input.take(batch)
        return self._run(epoch_input, at)

    def _run(self, epoch_input: EpochInput, at: datetime | str | None) -> int:
        """Run an epoch in turn, unless all of it has been taken meanwhile; return the number of the last epoch."""
        with self._turn:
            self._require_declared(epoch_input)
            if epoch_input.positions:
                epoch_input = epoch_input.without(self._shown()[1])
            return self.epoch_number if epoch_input.is_repeated else self._running.run(epoch_input, at)

    def _require_declared(self, epoch_input: EpochInput) -> None:
        """Check that the sources are those for which the batches were checked.

        Raises:
            InputError: one was dropped meanwhile, and perhaps declared anew.
        """
        for batch in epoch_input.batches:
            source = self.sources.get(batch.source)
            if source is None or source.positions is not batch.positions:
                raise InputError(
                    f"source {batch.source!r} was dropped after these rows were checked for it; nothing has changed, push them "
                    "again into a source that is declared"
                )

    @property
    def positions(self) -> dict[str, Any]:
        """The last ``position`` pushed to each source, after which its input goes on.

        Partitions are named by texts, as in JSON.
        """
        return copied(self._shown()[1])

    @property
    def watermarks(self) -> dict[str, datetime | int | None]:
        """How far the event time of each source is complete: None if unknown, ``END_OF_TIME`` if the source has ended."""
        return {name: shown_watermark(instant) for name, instant in self.published().watermarks.items()}

    @contextmanager
    def epoch(self, *, at: datetime | str | None = None) -> Iterator[OpenEpoch]:
        """Collect everything pushed inside the ``with`` block into one epoch, which fails as a whole if anything raises.

        If all of it was pushed before (``position=``), there is no epoch. Blocks of several threads or tasks are epochs of
        their own, one after the other as they end; ``number`` of the yielded object is the epoch's number afterwards.
        """
        self._shown()
        with gathered(self) as block:
            yield block
            epoch_input = block.close()
        if not epoch_input.is_repeated:
            with self._running.giving_way, self._turn:
                before = self.epoch_number
                try:
                    self._run(epoch_input, at)
                finally:  # The epoch is done nevertheless if only a subscriber has raised.
                    block.number = before + 1 if self.epoch_number > before else None

    def use_checkpoint(self, checkpoint: str | Path | Checkpoint) -> None:
        """Set the checkpoint, as ``Engine(checkpoint=...)`` does, for an engine that was made elsewhere.

        Raises:
            PlanError: it has one already, or rows that would not be in the checkpoint.
        """
        with self._turn:
            if self.is_durable or self._running.epoch:
                raise PlanError("an engine opens one checkpoint, before its first push; make a new engine")
            settings = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
            if settings.resident_bytes is not None:
                self._require_one_worker("Checkpoint(resident_bytes=...)", RESIDENT_ALONE)
            durability = Durability(settings, self._plan)
            self._running = Running(
                self._plan, self.sources, self.views, self._running.log, self._turn, durability, self._workers
            )

    def checkpoint(self) -> int:
        """Commit all epochs that are not committed yet, and return the number of the last one.

        Raises:
            InputError: the engine has no checkpoint, or an epoch is open.
            CheckpointError: it could not be written; it can be tried again.
        """
        if self._running.durability is None:
            raise InputError(
                "the engine has no checkpoint; make it with Engine(checkpoint=PATH), which writes all epochs"
            )
        if open_epoch(self) is not None:
            raise InputError("an epoch is open: end it first, and then write the checkpoint")
        with self._turn:
            self._running.flush()
            return self.epoch_number

    def close(self) -> None:
        """Commit what is not committed yet, and release the checkpoint for other engines. Closing twice is no error.

        Views can still be read; nothing can be pushed. Without a checkpoint there is nothing to close but the threads of
        workers, which start again if anything is pushed.

        Raises:
            CheckpointError: the last epochs could not be written; what was committed before is as it was.
        """
        deliveries, until = self._deliveries(), time.monotonic() + DRAIN_SECONDS
        for delivery in deliveries:
            delivery.drain(until - time.monotonic())
        try:
            with self._turn:
                self._running.fills.stop_all()
                try:
                    self._running.close()
                finally:
                    for view in self.views.values() if self._running.durability is not None else ():
                        view._end()
        finally:  # Without the turn, for which the function of a sink may wait.
            for delivery in deliveries if self._running.durability is not None else ():
                delivery.end()
            for delivery in deliveries if self._running.durability is not None else ():
                delivery.close(max(1.0, until - time.monotonic()))

    def _deliveries(self) -> tuple[Delivery, ...]:
        """Return the open deliveries of all views."""
        return tuple(
            each.delivery
            for view in self.views.values()
            for each in view.subscriptions
            if isinstance(each, DeliverySubscription) and each.delivery is not None
        )

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; epochs that are done stay, whatever was raised."""
        self.close()

    def ledger(self, source: str | None = None, *, each_window: bool = False) -> pl.DataFrame:
        """Return every refused row and why: of all sources with the row as JSON, or of one source with its own columns.

        The frame of one source can be corrected and pushed again, without ``_epoch`` and ``reason`` (``_reason``, if the
        source has its own column ``reason``) and, into a source of kind "append", without ``_diff``. It has the rows that
        still have all columns of the source; rows that were changed, joined or grouped before they were too late are only
        in the frame of all sources. A row that was too late for two views is in it twice, and counts in views without
        lateness. A row that missed some of its windows and counts in the others is also only in the frame of all sources,
        once for each window that it missed, which ``reason`` names: pushed again, it would count twice in the others. One
        that missed all of its windows is there once, with the last of them, or with ``each_window`` once for each.
        """
        refused = self.published().refused
        if source is None:
            return ledger_frame(refused, each_window=each_window)
        return source_ledger_frame(refused, source, self._source(source).schema, each_window=each_window)

    def explain(self, format: Literal["text", "mermaid"] = "text", *, circuit: bool = False) -> str:
        """Return the plan with rows, bytes and time of every node, as text or as a Mermaid flowchart.

        With ``circuit`` the circuit that the plan was compiled to: every operator that runs, in its stage, with its inputs,
        the operators whose state it reads, the columns by which its rows are brought together, and its measures. All of it
        is of one epoch; where epochs follow each other faster than this can be written, it waits for the end of one.
        """
        if format == "text":
            return self._running.steadily(self._circuit_explained if circuit else self._explained)
        if format == "mermaid":
            drawn = circuit_mermaid if circuit else partial(explain_mermaid, self._plan)
            return self._running.steadily(drawn)
        raise PlanError(f"unknown format {format!r}; there are 'text' and 'mermaid'")

    def _circuit_explained(self, compiled: Compiled) -> str:
        return circuit_text(compiled, self._running.epoch)

    def _explained(self, compiled: Compiled) -> str:
        durability = self._running.durability
        residence = None if durability is None else durability.residence
        text = explain_text(self._plan, compiled, self._running.epoch, self._last_instant(), residence)
        return "\n".join([text, *map(repr, self._running.fills.progress.values())])

    def stats(self) -> dict[str, Any]:
        """Return the figures of ``explain`` as a dictionary, for dashboards: cheap enough to be read each second.

        Its keys are ``epoch``, ``processing_time``, ``sources`` and ``views`` by name, ``nodes`` of the plan, ``ledger``,
        ``checkpoint``, ``sinks`` by view and name, and ``filling``, the views that are being filled. ``rows_out`` and ``seconds``
        count from the begin of the process, ``entries`` and ``bytes`` are those of
        states now. ``ec.prometheus_text`` writes them for Prometheus.

        >>> engine = Engine()
        >>> hits = engine.view("hits", engine.source("log", {"ip": pl.String}).group_by("ip").len())
        >>> engine.push("log", {"ip": ["a", "b", "a"]})
        1
        >>> engine.stats()["views"]["hits"]["entries"]
        2
        """
        return self._running.steadily(self._figures)

    def _figures(self, compiled: Compiled) -> dict[str, Any]:
        durability, last = self._running.durability, self._last_instant()
        checkpoint = None if durability is None else durability.figures()
        sinks = {f"{each.view_name}/{each.name}": each.figures() for each in self._deliveries()}
        figures = stats_of(
            self._plan, compiled, self._running.epoch, last, self._running.positions, checkpoint, sinks
        )
        filling = {name: progress.as_dict() for name, progress in self._running.fills.progress.items()}
        return {**figures, "filling": filling}

    def watch(self, watcher: Watcher) -> Watch:
        """Call a function with an ``EpochEvent`` after each epoch, before its subscribers: for metrics and traces.

        That includes the epochs in which views are added, replaced or dropped, which have no rows that were pushed.

        It is called by the thread that pushes, and cannot push. If it raises, that is an event of the log and changes nothing.

        Returns:
            The watch: ``close()``, or the end of a ``with`` block, ends the calls.

        Raises:
            PlanError: it is not a function, or one whose coroutines nobody would await.
        """
        if not callable(watcher):
            raise PlanError(f"watch: {watcher!r} cannot be called; give a function of one EpochEvent")
        require_plain_function("watch", watcher, WATCH_IN_TASK)
        return self._running.events.add(watcher)

    async def apush(
        self,
        source: str,
        data: Any,
        *,
        at: datetime | str | None = None,
        watermark: datetime | str | int | None = None,
        position: Position | None = None,
    ) -> int:
        """Take one batch of changes in a thread, so that the event loop goes on: ``asyncio.to_thread(engine.push, ...)``.

        Cancelling the task does not stop an epoch that has begun.
        """
        import asyncio  # Imported here, as it takes longer than most of the package.

        return await asyncio.to_thread(self.push, source, data, at=at, watermark=watermark, position=position)

    @property
    def plan(self) -> nx.DiGraph[int]:
        """Return the declared plan as a graph of networkx, along whose edges deltas flow."""
        return self._plan.graph()

    @property
    def workers(self) -> int:
        """Return in how many threads an epoch is evaluated."""
        return self._workers

    @property
    def declared(self) -> Plan:
        """What was declared, for other drivers of the same views."""
        return self._plan

    def __reduce__(self) -> NoReturn:
        """Raise: its locks, threads and files are of this process."""
        raise no_copy(
            "the engine",
            "Send what a view holds (view.read()), or declare the views by the same function in each process; other processes "
            "read a checkpoint with evercurrent.spark_bridge.views. In this process any thread can use the engine, and engine.fork() is a copy",
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise, with what to write instead."""
            raise missing_of_engine(
                self, name, (*vars(self).get("views", ()), *vars(self).get("sources", ()))
            )

        def __getitem__(self, name: object) -> NoReturn:
            """Raise, with what to write instead."""
            example = name if isinstance(name, str) else "name"
            raise TypeError(
                f"an engine has no brackets and is not iterated: write engine.views[{example!r}] or engine.sources[{example!r}], "
                "which are dictionaries by name"
            )

    def __repr__(self) -> str:
        """Sources, views and the epoch."""
        sources, views = ", ".join(self.sources) or "none", ", ".join(self.views) or "none"
        return f"Engine at epoch {self._running.shown()[0]}; sources: {sources}; views: {views}"

    def _repr_html_(self) -> str:
        """Sources and views with their columns and the epoch, for notebooks."""
        return engine_html(self._running.shown()[0], self.sources, self.views)

    def _source(self, name: str) -> Source:
        if not isinstance(name, str):
            raise InputError(
                f"{type(name).__name__} is not the name of a source; there are {listed(self.sources)}: give name and rows, "
                "as in engine.push('name', rows), or write source.push(rows)"
            )
        if name not in self.sources:
            raise InputError(f"there is no source {name!r}; there are {listed(self.sources)}")
        return self.sources[name]

    def record_rows(self) -> None:
        """Keep the rows of sources by epoch from now on, as ``Engine(record=True)`` does."""
        self._require_one_worker("record_rows()", RECORD_ALONE)
        with self._turn:
            self._running.log.records_rows = True

    def _require_one_worker(self, option: str, why: str) -> None:
        if self._workers > 1:
            raise PlanError(f"{option} goes with workers=1 only: {why}; leave out one of the two")

    def _current(self) -> Compiled:
        """Return the circuit of the plan as declared so far."""
        return self.published().compiled

    def _instant(self, source: str, watermark: datetime | str | int) -> int:
        """Return a watermark by hand as an instant."""
        event_time = self._source(source).event_time
        if event_time is None:
            raise InputError(
                f"source {source!r} has no event time and so no watermark; declare it with event_time="
            )
        return instant(f"source {source!r}", watermark, self._source(source).schema[event_time])
