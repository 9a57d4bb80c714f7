"""The engine: sources, views, and the epochs that keep the views current."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from evercurrent.core.data.allocation import expect_large_arrays
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.core.data.schema import listed, require_booleans
from evercurrent.core.data.tags import tagged
from evercurrent.core.eventtime.watermarks.kinds import Watermark

from ..checkpoint import Checkpoint
from ..compiler.builder import Compiled
from ..concurrency.draining import DRAIN_SECONDS, drain_all, end_all
from ..concurrency.polars_threads import has_polars_threads
from ..concurrency.turns import Turn
from ..connectors.change_formats import ChangeFormat
from ..connectors.positions import PositionOrder
from ..dataframe.bad_rows import OnBadRows, require_on_bad_rows
from ..dataframe.collection import Collection
from ..dataframe.operator_hints import missing_of_engine, no_copy
from ..dataframe.source import Source
from ..durability.durability import Durability
from ..epochs.history import Retain
from ..epochs.queued import queued_of
from ..epochs.run_log import RunRecorder
from ..inspection.explain import engine_html
from ..inspection.tracing.indexes import Indexes
from ..plan.nodes import SourceKind
from ..plan.plan import Plan
from .epoch_runner import Running
from .fills import OnProgress
from .live_declarations import LiveDeclarations
from .pushing import Pushing
from .reporting import Reporting
from .view import View

if TYPE_CHECKING:
    import networkx as nx


MOST_WORKERS = 64

RECORD_ALONE = "rows are recorded as a source hands them on, and each worker sees a part of them"
RESIDENT_ALONE = (
    "workers hold the states in buckets, and the limit would free only the whole that is made of them"
)


@tagged("views.engine:Engine")
class Engine(Pushing, Reporting, LiveDeclarations):
    """Declares sources and views, takes batches of changes, and keeps every view current.

    One batch is one epoch: its changes go through every view before any reader sees them, or, if anything fails, nothing
    has changed and the same batch can be pushed again.

    >>> import polars as pl
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
    within the same limits, so that a timeline shows them and ``view.history(key)`` has what caused a change.

    With ``checkpoint``, a folder or a ``Checkpoint``, an epoch is on disk when ``push`` returns, and an engine that declares
    the same views on the same folder continues where the last one stopped: views, windows, watermarks, named
    subscriptions, positions of the input. It is opened when it is first needed, and only one engine at a time may
    have it open: ``close()``, the end of a ``with`` block or the end of the process releases it.

    With ``workers``, if a view has sessions, or windows that a function merges and that close, an epoch is evaluated over that
    many buckets, each in a thread: the results are the same, but rows of a view may be in another order, and functions that views use are
    called by several threads at once. Nothing else gains by buckets, so without such windows epochs are evaluated as with one
    worker (``docs/architecture/views.md`` has figures). A checkpoint can be opened with any number of workers.

    Any thread may call any method: writers wait for their turn, readers never wait (``docs/concurrency.md``).
    """

    def __init__(
        self,
        *,
        retain: Retain | None = None,
        record: bool = False,
        workers: int = 1,
        checkpoint: str | Path | Checkpoint | None = None,
        on_bad_rows: OnBadRows = "fail",
    ) -> None:
        self.sources: dict[str, Source] = {}
        self.views: dict[str, View] = {}
        if not isinstance(retain, Retain | None):
            raise PlanError(f"retain= is {retain!r}; give Retain(epochs=..., rows=...)")
        if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= MOST_WORKERS:
            raise PlanError(
                f"workers= is {workers!r}; give a number from 1 to {MOST_WORKERS}, such as that of the cores"
            )
        require_on_bad_rows(on_bad_rows)
        self._on_bad_rows: OnBadRows = on_bad_rows
        self._workers = workers
        require_booleans("Engine", record=record)
        if record:
            self._require_one_worker("record=True", RECORD_ALONE)
        self._retain = retain or Retain()
        expect_large_arrays()
        self._plan = Plan()
        self._indexes = Indexes()
        self._turn = Turn()
        log = RunRecorder(self._retain, records_rows=record)
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
        format: ChangeFormat | None = None,
    ) -> Source:
        """Declare a source, into which changes are pushed, with the columns and polars types of its rows.

        It may be declared at any time. Repeating the declaration returns the existing source.

        Args:
            name: the name under which rows are pushed.
            schema: columns and their polars types.
            kind: "append": rows, each +1. "diffs": rows with an optional ``_diff`` column; a retraction of a
                row that is not there is refused into the ledger. "upsert": a row replaces the row of its
                ``key``, and with ``_diff`` -1 deletes it; the last row of a key in a batch wins, unless
                ``sequence_by`` sets which one does.
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
                included. The greatest wins, no matter in which order they come: an older row changes nothing, and is not an
                error. Among equal ones deletions win, and among rows the first by their columns, so that the same changes
                give the same rows in any order and in any batches. Key and sequence of a deleted row are kept for ever,
                since an older row may still come; ``explain()`` counts them. Null and NaN are refused. Without
                ``sequence_by`` rows have to come in the order of their changes: in Spark that means one partition with one
                file per micro-batch.

                >>> import polars as pl
                >>> engine = Engine()
                >>> orders = engine.source("orders", {"id": pl.Int64, "state": pl.String, "at": pl.Int64},
                ...                        kind="upsert", key="id", sequence_by="at")
                >>> now = engine.view("now", orders)
                >>> _ = engine.push("orders", [(1, "paid", 20), (1, "new", 10)])
                >>> _ = engine.push("orders", [(1, "seen", 15)])
                >>> now.read().rows()
                [(1, 'paid', 20)]

            position_order: a function of a position (``push(..., position=)``), or of that of a partition, that returns the
                keys to compare: ``lambda lsn: [int(part, 16) for part in lsn.split("/")]``. Without it numbers, texts of one
                length and lists of them are compared as they are.
            format: the format of messages, if changes come as those of another system: ``Debezium()``, ``BeforeAfter()`` or
                ``ChangeFeed()``. What is pushed are then messages; a bad one goes where bad rows do.

        Raises:
            PlanError: the name is that of another source, columns are reserved, or options do not go together.
        """
        options = {
            "kind": kind, "key": key, "event_time": event_time, "watermark": watermark, "bounded": bounded,
            "strict": strict, "trusted": trusted, "retained": retained, "sequence_by": sequence_by,
            "position_order": position_order, "format": format,
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

        It may be declared at any time. After the first epoch it is filled from existing state: other views, groupings and
        ``retained`` sources, whichever is nearest; its first delta is all of its rows, in an epoch of its own. Repeating the
        declaration, as when a notebook's cell is run twice, returns the existing view.

        Args:
            name: the name under which it is read.
            collection: its definition.
            replace: another view may have the name: it is replaced in one epoch. Its subscriptions continue: they get the
                difference if the columns are the same, else all rows after a call of ``on_schema``; if there are any, the
                epoch is there before the first push, too. It is refused if its panes, or its key, do not fit one of them. Views
                that were declared on the view before stay as they are. If the view of a checkpoint that is opened later is
                another one, named subscriptions get all rows after a call of ``on_schema``, with equal columns too.
            backfill: the rows of sources up to now, by their names, if neither the rows nor results computed from them are
                kept: anything that can be pushed, the path of a file or folder, or an iterator of batches. If rows are
                pushed with positions, ``ec.Backfill(rows, position=...)`` states that they go up to the last one taken.
            background: return at once, and fill the view in a thread, piece by piece, while pushes and reads continue. It
                appears in an epoch of its own once it is complete: ``view.wait()`` waits for that, ``view.filling`` and
                ``engine.filling`` have the progress, and reading it before raises ``NotFilledError``. By default it is
                filled when ``engine.view`` returns, which takes less time in all, and nothing is pushed meanwhile. A view
                that is replaced stays until then. Until then a checkpoint has no part of it: an engine that opens the
                checkpoint fills the view again. A view that needs no rows, such as one declared before the first push, is
                ready at once; one that is new to a checkpoint is filled when that is opened.
            on_progress: called with a ``FillProgress`` after each piece, in the thread that fills; it should be quick.

                >>> import polars as pl
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
        require_booleans(f"view {name!r}", replace=replace, background=background)
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

    def _fresh(self) -> Self:
        """Return an engine in memory that retains as many deltas, with nothing declared."""
        return type(self)(retain=self._retain, on_bad_rows=self._on_bad_rows)

    def _adopt(self, source: Source) -> Source:
        """Make this engine the one that takes pushes into a source, and return the source."""
        source._take = self.push
        return source

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

    def use_bad_rows(self, on_bad_rows: OnBadRows) -> None:
        """Set what bad rows do, as ``Engine(on_bad_rows=...)`` does, for an engine that was made elsewhere.

        With "ledger" strict sources, too, refuse retractions of rows that are not there.

        >>> import polars as pl
        >>> from evercurrent import Engine
        >>> engine = Engine()
        >>> sales = engine.source("sales", {"shop": pl.String}, kind="diffs", strict=True)
        >>> engine.use_bad_rows("ledger")
        >>> _ = engine.push("sales", [("north", -1)])
        >>> engine.ledger()["reason"].to_list()
        ['retraction of a row that is not there']

        Raises:
            PlanError: it is something else, or a strict source has rows already.
        """
        require_on_bad_rows(on_bad_rows)
        with self._turn:
            strict = [each.name for each in self._plan.inputs.values() if each.strict]
            if strict and self._running.has_begun:
                raise PlanError(
                    f"source {listed(strict)} is strict, and there was an epoch already: set what bad rows do before, or leave out "
                    "strict=True"
                )
            self._on_bad_rows = on_bad_rows
            self._plan.refuses_retractions = on_bad_rows == "ledger"

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
        self._require_no_open_epoch("write the checkpoint")
        self._flush()
        return self.epoch_number

    def close(self) -> None:
        """Commit what is not committed yet, and release the checkpoint for other engines. Closing twice is no error.

        It waits half a minute at most for sinks, and for subscribers with a queue. Views can still be read; nothing can be pushed. Without a checkpoint there is nothing to close but the threads of
        workers, which start again if anything is pushed.

        Raises:
            CheckpointError: the last epochs could not be written; what was committed before is as it was.
        """
        if not has_polars_threads():
            return  # All that it would close is of the process from which this one was forked.
        deliveries, until = self._deliveries(), time.monotonic() + DRAIN_SECONDS
        with suppress(Exception):  # It is raised below, when the rest is closed.
            if deliveries:
                self._commit_waiting()
        drain_all((*queued_of(self.views.values()), *deliveries), until)
        try:
            with self._turn:
                self._running.fills.stop_all()
                try:
                    self._running.close()
                finally:
                    for view in self.views.values() if self._running.durability is not None else ():
                        view._end()
        finally:  # Without the turn, for which the function of a sink may wait.
            end_all(deliveries if self._running.durability is not None else (), until)

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; epochs that are done stay, whatever was raised."""
        self.close()

    @property
    def plan(self) -> nx.DiGraph[int]:
        """Return the declared plan as a graph of networkx, along whose edges deltas flow."""
        return self._plan.graph()

    @property
    def workers(self) -> int:
        """Return the number of threads that evaluate an epoch."""
        return self._workers

    @property
    def declared(self) -> Plan:
        """The declarations, for other drivers of the same views."""
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
