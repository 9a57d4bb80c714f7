"""The engine: sources, views, and the epochs that keep the views current."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import polars as pl

from evercurrent.core.data.allocation import expect_large_arrays
from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.durations import instant
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.core.data.schema import listed, require_name
from evercurrent.core.data.tags import tagged
from evercurrent.core.eventtime.watermarks.kinds import Watermark
from evercurrent.core.state.ledger import Refused

from ..checkpoint import Checkpoint
from ..compiler.builder import Compiled
from ..concurrency.turns import Turn
from ..connectors.positions import Position, PositionOrder, copied
from ..dataframe.collection import Collection, require_collection
from ..dataframe.source import Source, accepted, declare
from ..dataframe.windowing import forbid_unused_answers
from ..durability.durability import Durability
from ..epochs.history import Retain
from ..epochs.records import Batch, EpochInput
from ..epochs.refused_rows import ledger_frame, source_ledger_frame
from ..epochs.run_log import RunLog, RunRecorder
from ..epochs.subscriptions import Readers
from ..inspection.circuit_drawing import circuit_mermaid, circuit_text
from ..inspection.explain import engine_html, explain_mermaid, explain_text
from ..inspection.questions import WindowQueries, shown_watermark
from ..plan.declared_calls import NAMED, DeclaredCall
from ..plan.nodes import SourceKind
from ..plan.plan import Plan
from .epoch_runner import Running
from .open_epochs import OpenEpoch, gathered, open_epoch
from .published import Published
from .view import View

if TYPE_CHECKING:
    import networkx as nx


@tagged("views.engine:Engine")
class Engine:
    """Declares sources and views, takes batches of changes, keeps every view current.

    One batch is one epoch: its changes are carried through every view before anyone sees anything, or, if
    anything fails, nothing has changed and the same batch can be offered again.

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

    ``retain`` says how many deltas are kept for readers that come later; with ``record`` the rows of sources with
    event time are kept too, within the same limits, so that a timeline can show them.

    With ``checkpoint``, a folder or a ``Checkpoint``, an epoch is on disk when ``push`` returns, and an engine that
    declares the same views on the same folder goes on where the last one ended: views, windows, watermarks, named
    subscriptions, positions of the input. It is opened when it is first needed, and only one engine at a time may
    have it open: ``close()``, the end of a ``with`` block or of the process release it.

    Any thread may call anything: who writes waits for its turn, who reads waits for nobody (``docs/concurrency.md``).
    """

    def __init__(
        self,
        *,
        retain: Retain | None = None,
        record: bool = False,
        checkpoint: str | Path | Checkpoint | None = None,
    ) -> None:
        self.sources: dict[str, Source] = {}
        self.views: dict[str, View] = {}
        if not isinstance(retain, Retain | None):
            raise PlanError(f"retain= is {retain!r}; give Retain(epochs=..., rows=...)")
        self._retain = retain or Retain()
        expect_large_arrays()
        self._plan = Plan()
        self._turn = Turn()
        log = RunRecorder(self._retain, records_rows=bool(record))
        self._running = Running(self._plan, self.sources, self.views, log, self._turn)
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
        """Declare where changes enter, with the columns and polars types of the rows.

        Args:
            name: the name under which rows are pushed.
            schema: columns and their polars types.
            kind: "append": rows, each +1. "diffs": rows with an optional ``_diff`` column; a retraction of a
                row that is not there is refused into the ledger. "upsert": a row replaces the row of its
                ``key``, and with ``_diff`` -1 deletes it; the last row of a key in a batch wins, unless
                ``sequence_by`` says which one does.
            key: the primary key of an upsert source.
            event_time: the column of event time: what windows and ``first()`` and ``last()`` go by.
            watermark: how far event time is complete: ``ascending``, ``bounded_delay``, ``ingress_time`` and others;
                without, it is moved by hand (``push(..., watermark=...)``, ``advance``).
            bounded: the input comes to an end, which its watermark says.
            strict: for "diffs": a retraction of a row that is not there raises ``RetractionError``.
            trusted: for "diffs": retractions are not checked and no state is kept to check them. Only where windows are
                made of rows (sessions, for one) a batch is refused that takes a row below zero.
            retained: keep the rows, so that views that are declared when a checkpoint has gone on for long can be
                filled from them; costs their bytes. An "upsert" source always keeps its rows.
            sequence_by: for "upsert": a column, or several, by which the changes of a key are ordered, deletions
                included. The greatest stands, whatever came first: an older row changes nothing, and is no mistake. Of
                equal ones a deletion stands before rows, and of rows the first by their columns, so that the same
                changes give the same rows in any order and in any batches. What was deleted keeps its key and
                its sequence for good, as an older row may still come; ``explain()`` counts them. Null and NaN
                are refused. Without it the order in which rows come has to be the order in which they were
                changed: in Spark that is one partition with one file per micro-batch.

                >>> engine = Engine()
                >>> orders = engine.source("orders", {"id": pl.Int64, "state": pl.String, "at": pl.Int64},
                ...                        kind="upsert", key="id", sequence_by="at")
                >>> now = engine.view("now", orders)
                >>> _ = engine.push("orders", [(1, "paid", 20), (1, "new", 10)])
                >>> _ = engine.push("orders", [(1, "seen", 15)])
                >>> now.read().rows()
                [(1, 'paid', 20)]

            position_order: what positions (``push(..., position=)``) are compared by, of a map those of its partitions, as
                ``lambda lsn: [int(part, 16) for part in lsn.split("/")]``. Without it numbers, texts of one length and
                lists of them are compared as they are.

        Raises:
            PlanError: a name that is taken, reserved columns, options that do not go together.
        """
        options = {
            "kind": kind, "key": key, "event_time": event_time, "watermark": watermark, "bounded": bounded,
            "strict": strict, "trusted": trusted, "retained": retained, "sequence_by": sequence_by,
            "position_order": position_order,
        }  # fmt: skip
        with self._turn:
            self._require_free("source", name, self.sources)
            self.sources[name] = declare(self._plan, name, schema, **options)  # type: ignore[arg-type]
            return self.sources[name]

    def view(self, name: str, collection: Collection) -> View:
        """Declare a named result that is kept current, and can be read, followed and built on.

        A view equals its definition over all input so far. A view of discarding or accumulating panes is the log of them:
        every pane that was emitted, none taken back; ``collection.latest()`` is the last one of each key and window.

        Raises:
            PlanError: a name that is taken, a collection of another engine, a declaration after the first epoch.
        """
        with self._turn:
            self._require_free("view", name, self.views)
            require_collection(f"view {name!r}", self._plan, collection)
            forbid_unused_answers(f"view {name!r}", collection._windowing)
            place, windowing = collection._place, collection._windowing
            view = View(self, self._plan, place, name, self._retain, windowing)
            self._plan.add_view(name, place)
            self._plan.calls.append(DeclaredCall(collection, NAMED, (), {}, view))
            self.views[name] = view
            return view

    def push(
        self,
        source: str,
        data: Any,
        *,
        at: datetime | None = None,
        watermark: datetime | int | None = None,
        position: Position | None = None,
    ) -> int:
        """Take one batch of changes: one epoch, or part of the one that is open (``with engine.epoch()``).

        Args:
            source: the name of the source.
            data: a polars frame, anything that speaks Arrow's C stream, a dict of columns, or a list of rows:
                dictionaries, or tuples in the order of the declared columns, ``_diff`` last where it is there. What
                becomes of it afterwards does not matter: values in memory that somebody could write are copied. A
                column may be of another type where the declared one holds its values exactly: Int32 for Int64,
                ``datetime64[ns]`` in whole microseconds, a categorical for a text, another time zone, all nulls.
            at: processing time of the batch, with time zone; by default the clock is read, here and only here.
            watermark: moves the watermark of the source by hand, after these rows; ``END_OF_TIME``: it was the last.
            position: where the batch stands in its source, a whole number that grows. A batch whose position was
                reached before is skipped: it can be offered again after a crash, and counts once. Also a text that grows,
                of one length; a list, as of the name of a file and a line; or a map of partitions to positions, each of
                which goes on by itself: ``{0: 17, 1: 4}``. ``source(..., position_order=...)`` says of others how they
                are compared. What goes on in one partition and back in another is refused.

        Returns:
            The number of the epoch; of a batch that was skipped, that of the last one. Where an epoch is open: the number
            that it has if nobody else pushes meanwhile.

        Raises:
            InputError: the batch does not fit the source, or a value cannot be computed; nothing has changed.
            CheckpointError: the epoch could not be written; nothing has changed, unless it says otherwise.
        """
        declared, block = self._source(source), self._block(at)
        # Looked at before the rows are: what is skipped need not fit.
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

    def advance(self, source: str, watermark: datetime | int, *, at: datetime | None = None) -> int:
        """An epoch without rows that moves the watermark of a source by hand, or part of the epoch that is open.

        Raises:
            InputError: no event time, or the watermark would move back; nothing has changed.
        """
        return self._take(self._block(at), Batch(source, watermark=self._instant(source, watermark)), at)

    def tick(self, *, at: datetime | None = None) -> int:
        """An epoch without rows: processing time moves on, and what waits for it has its turn."""
        if open_epoch(self) is not None:
            raise InputError(
                "an epoch is open: it is the next tick, at the time that engine.epoch(at=...) says"
            )
        return self._run(EpochInput(), at)

    def _block(self, at: datetime | None) -> OpenEpoch | None:
        """The epoch that is open here."""
        block = open_epoch(self)
        if block is not None and at is not None:
            raise InputError("processing time belongs to the epoch: give it to engine.epoch(at=...)")
        return block

    def _take(self, block: OpenEpoch | None, batch: Batch, at: datetime | None) -> int:
        """A batch into the epoch that is open, or as one."""
        if block is not None and (taken := block.take(batch, self.positions)) is not None:
            return self.epoch_number + taken
        offered = EpochInput()
        offered.take(batch)
        return self._run(offered, at)

    def _run(self, offered: EpochInput, at: datetime | None) -> int:
        """An epoch, when it is our turn; none, if all of it has been taken meanwhile. Returns the number of the last one."""
        with self._turn:
            offered = offered.without(self.positions)
            return self.epoch_number if offered.is_repeated else self._running.run(offered, at)

    @property
    def epoch_number(self) -> int:
        """The number of the last epoch; 0: there was none."""
        return self._shown()[0]

    @property
    def positions(self) -> dict[str, Any]:
        """How far each source was taken: the last ``position`` that was pushed. The input goes on after it.

        Partitions are named by texts, as in JSON.
        """
        return copied(self._shown()[1])

    @property
    def watermarks(self) -> dict[str, datetime | int | None]:
        """How far the event time of each source is complete; None: nothing is known, ``END_OF_TIME``: it has ended."""
        return {name: shown_watermark(instant) for name, instant in self.published().watermarks.items()}

    @contextmanager
    def epoch(self, *, at: datetime | None = None) -> Iterator[OpenEpoch]:
        """Everything pushed inside is one epoch: all of it happens, or, if anything raises, none of it.

        If all of it was pushed before (``position=``), there is no epoch. Blocks of several threads or tasks are epochs of
        their own, one after the other as they end; what is yielded says in ``number`` which one it was.
        """
        self._shown()
        with gathered(self) as block:
            yield block
            offered = block.close()
        if not offered.is_repeated:
            with self._turn:
                before = self.epoch_number
                try:
                    self._run(offered, at)
                finally:  # It may be done, and a subscriber have raised.
                    block.number = before + 1 if self.epoch_number > before else None

    def use_checkpoint(self, checkpoint: str | Path | Checkpoint) -> None:
        """Have a checkpoint from now on: what ``Engine(checkpoint=...)`` does, for an engine that somebody else made.

        Raises:
            PlanError: it has one, or rows that the checkpoint would not know of.
        """
        with self._turn:
            if self.is_durable or self._running.epoch:
                raise PlanError(
                    "an engine has one checkpoint, from before the first push on; make a new engine"
                )
            found = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
            durability = Durability(found, self._plan)
            self._running = Running(
                self._plan, self.sources, self.views, self._running.log, self._turn, durability
            )

    @property
    def is_durable(self) -> bool:
        """Whether there is a checkpoint."""
        return self._running.durability is not None

    def checkpoint(self) -> int:
        """Write all that is not yet on disk (``Checkpoint(every=n)``). Returns the epoch up to which it is.

        Raises:
            InputError: the engine has no checkpoint, or an epoch is open.
            CheckpointError: it could not be written; it can be tried again.
        """
        if self._running.durability is None:
            raise InputError(
                "the engine has no checkpoint; make it with Engine(checkpoint=PATH), and all epochs are written"
            )
        if open_epoch(self) is not None:
            raise InputError("an epoch is open: end it first, and then write the checkpoint")
        with self._turn:
            self._running.flush()
            return self.epoch_number

    def close(self) -> None:
        """Write what is not yet on disk, and let another engine have the checkpoint. Closing twice is no error.

        Views can still be read; nothing can be pushed. Without a checkpoint there is nothing to close.

        Raises:
            CheckpointError: the last epochs could not be written; what was committed before is as it was.
        """
        with self._turn:
            self._running.close()

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; epochs that are done stay, whatever was raised."""
        self.close()

    def ledger(self, source: str | None = None, *, each_window: bool = False) -> pl.DataFrame:
        """Every refused row and why: of all sources with the row as JSON, or of one with its own columns.

        The frame of one source can be mended and pushed again, without ``_epoch`` and ``reason`` (``_reason``, if the
        source has a ``reason`` of its own) and, into a source of kind "append", without ``_diff``. It has the rows that still have all columns of the source; what was
        changed, joined or grouped before it was too late is in the frame of all. A row that was too late for two views
        is in it twice, and views without lateness have taken it. A row that missed some of its windows and is in the
        others is in the frame of all only, once for each window that it missed, and ``reason`` says so: pushed again, it
        would be in the others twice. One that missed all of its windows is there once, with the last of them, or with
        ``each_window`` once for each.
        """
        refused = self.published().refused
        if source is None:
            return ledger_frame(refused, each_window=each_window)
        return source_ledger_frame(refused, source, self._source(source).schema, each_window=each_window)

    def explain(self, format: Literal["text", "mermaid"] = "text", *, circuit: bool = False) -> str:
        """The plan with rows, bytes and time of every node, as text or as a Mermaid flowchart.

        With ``circuit`` what the plan was compiled to: every operator that runs, in its stage, with the operators whose rows
        it takes and those whose state it reads, the columns by which its rows have to meet, and what was measured.
        As of one epoch; where epochs follow each other faster than this can be written, the end of one is waited for.
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
        return explain_text(self._plan, compiled, self._running.epoch, self._last_instant(), residence)

    @property
    def plan(self) -> nx.DiGraph[int]:
        """The declared plan as a graph of networkx, along whose edges deltas flow."""
        return self._plan.graph()

    @property
    def declared(self) -> Plan:
        """What was declared, for other drivers of the same views."""
        return self._plan

    def __repr__(self) -> str:
        """Sources, views and the epoch."""
        sources, views = ", ".join(self.sources) or "none", ", ".join(self.views) or "none"
        return f"Engine at epoch {self._running.shown()[0]}; sources: {sources}; views: {views}"

    def _repr_html_(self) -> str:
        """Sources and views with their columns and the epoch, for notebooks."""
        return engine_html(self._running.shown()[0], self.sources, self.views)

    def _source(self, name: str) -> Source:
        if name not in self.sources:
            raise InputError(f"there is no source {name!r}; there are {listed(self.sources)}")
        return self.sources[name]

    def _require_free(self, kind: str, name: str, taken: Mapping[str, object]) -> None:
        """Check that a source or view may be declared now, under this name."""
        require_name(kind, name)
        durability = self._running.durability
        if epoch := self._running.epoch:
            raise PlanError(
                f"{kind} {name!r}: the engine is at epoch {epoch}, and what has gone by cannot be filled "
                "in; declare all sources and views before the first push, or replay the input into a new engine"
            )
        if durability is not None and durability.is_open:
            raise PlanError(
                f"{kind} {name!r}: the checkpoint has been opened with the sources and views declared so far; declare "
                "all of them before anything is pushed or read"
            )
        if name in taken:
            raise PlanError(f"{kind} {name!r} is declared twice; choose another name")

    def _current(self) -> Compiled:
        """The circuit of the plan as it stands."""
        return self.published().compiled

    def _shown(self) -> tuple[int, Mapping[str, Position]]:
        """The last epoch and the positions: of the checkpoint, if there is one and the views that it is about are declared."""
        if self._running.durability is not None and self.views:
            self.published()
        return self._running.shown()

    def _instant(self, source: str, watermark: datetime | int) -> int:
        """A watermark by hand as an instant."""
        event_time = self._source(source).event_time
        if event_time is None:
            raise InputError(
                f"source {source!r} has no event time and so no watermark; declare it with event_time="
            )
        return instant(f"source {source!r}", watermark, self._source(source).schema[event_time])

    # What views ask of whoever keeps them

    def fire(self, view: str, key: object, window: object, at: datetime | None) -> int:
        """An epoch without rows in which windows of a view are told to speak; the same as ``View.fire``."""
        with self._turn:
            tracker, windows = WindowQueries(self._plan, self._running.current(), view).windows(key, window)
            tracker.signal(windows.keys)
            try:
                return self._running.run(EpochInput(is_all=False), at)
            finally:
                tracker.forget_signals()

    def why(self, view: str, key: object, window: object) -> list[str]:
        """Why windows of a view do not speak; the same as ``View.why``."""

        def lines(compiled: Compiled) -> list[str]:
            return WindowQueries(self._plan, compiled, view).why(key, window, self._last_instant() or 0)

        return self._running.steadily(lines)

    def _last_instant(self) -> int | None:
        """The processing time of the last epoch."""
        last = self._running.log.now().last
        return None if last is None else Now(Epoch(last[0]), last[1]).instant

    def watermark_of(self, view: str) -> datetime | int | None:
        """How far the event time of a view's rows is complete; the same as ``View.watermark``."""
        now = self.published()
        return WindowQueries(self._plan, now.compiled, view).watermark(now.watermarks)

    def published(self) -> Published:
        """What there is to be read, of one epoch: no later one changes it."""
        return self._running.published()

    def reading(self, view: str) -> AbstractContextManager[Published]:
        """The same, for somebody who reads this view inside of it."""
        return self._running.reading(view)

    def ready(self) -> None:
        """See to it that views hold what they hold before any input, or held when the engine was last open."""
        self.published()

    def refused(self) -> Iterable[Refused]:
        """The entries of the ledger, as they are."""
        return self.published().refused

    @property
    def turn(self) -> Turn:
        """Who has it writes; all others wait."""
        return self._turn

    @property
    def readers(self) -> Readers:
        """Who is told of changes, and how far those with a name have heard."""
        return self._running.readers

    @property
    def run_log(self) -> RunLog:
        """When the last epochs were, how far the watermarks, and which rows came."""
        return self.published().log

    def record_rows(self) -> None:
        """Keep the rows of sources with event time from now on, as ``Engine(record=True)`` does."""
        with self._turn:
            self._running.log.records_rows = True

    def contents(self, view: str, epoch: int | None = None) -> pl.DataFrame:
        """All rows of a view now, or after an epoch; the same as ``View.read``."""
        return self._running.contents(view, epoch)
