"""The engine: sources, views, and the epochs that keep the views current."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Literal

import networkx as nx
import polars as pl

from evercurrent.core.allocation import expect_large_arrays
from evercurrent.core.circuit import Evaluated
from evercurrent.core.clock import END_OF_TIME, START_OF_TIME, Epoch, Now
from evercurrent.core.delta import Delta
from evercurrent.core.errors import InputError, PlanError, SubscriberError
from evercurrent.core.eventtime.tracking import TrackWindows
from evercurrent.core.eventtime.watermarks import Watermark
from evercurrent.core.instants import shown, time_of
from evercurrent.core.ledger import Ledger, Refused
from evercurrent.core.schema import listed

from .builder import Compiled
from .collection import Collection, require_collection
from .compiling import compile_plan
from .durations import instant
from .explain import engine_html, explain_mermaid, explain_text
from .history import Retain
from .interrupts import interrupts_deferred
from .ledger import ledger_frame, source_ledger_frame
from .open_windows import OpenWindows, grouping_of, open_windows
from .plan import Plan, PlanId, SourceKind, WindowedGroup
from .run_log import RunLog
from .sources import Source, accepted, declare
from .view import View
from .why import Circumstances, why_lines
from .windowing import forbid_unused_answers


def _shown_watermark(instant: int) -> datetime | int | None:
    return END_OF_TIME if instant >= END_OF_TIME else time_of(instant)


LEDGER_ROWS = 1_000_000
"""How many refused rows are kept; ``explain`` says how many had to go."""


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
    """

    def __init__(self, *, retain: Retain | None = None, record: bool = False) -> None:
        self.sources: dict[str, Source] = {}
        self.views: dict[str, View] = {}
        self.epoch_number = 0
        if not isinstance(retain, Retain | None):
            raise PlanError(f"retain= is {retain!r}; give Retain(epochs=..., rows=...)")
        self._retain = retain or Retain()
        self._log = RunLog(self._retain, records_rows=bool(record))
        expect_large_arrays()
        self._plan = Plan()
        self._compiled: Compiled | None = None
        self._compiled_size = (0, 0)
        self._gathered: dict[str, list[Delta]] | None = None
        self._promised: dict[str, int] = {}
        self._read: dict[str, tuple[int, Compiled, pl.DataFrame]] = {}
        self._unheard: deque[tuple[int, str, pl.DataFrame]] = deque()
        self._is_calling_back = False

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
    ) -> Source:
        """Declare where changes enter, with the columns and polars types of the rows.

        Args:
            name: the name under which rows are pushed.
            schema: columns and their polars types.
            kind: "append": rows, each +1. "diffs": rows with an optional ``_diff`` column; a retraction of a
                row that is not there is refused into the ledger. "upsert": a row replaces the row of its
                ``key``, and with ``_diff`` -1 deletes it; the last row of a key in a batch wins.
            key: the primary key of an upsert source.
            event_time: the column of event time: what windows and ``first()`` and ``last()`` go by.
            watermark: how far event time is complete: ``ascending``, ``bounded_delay``, ``ingress_time`` and others;
                without, it is moved by hand (``push(..., watermark=...)``, ``advance``).
            bounded: the input comes to an end, which its watermark says.
            strict: for "diffs": a retraction of a row that is not there raises ``RetractionError``.
            trusted: for "diffs": retractions are not checked and no state is kept to check them.

        Raises:
            PlanError: a name that is taken, reserved columns, options that do not go together.
        """
        self._require_free("source", name, self.sources)
        options = {
            "kind": kind, "key": key, "event_time": event_time, "watermark": watermark, "bounded": bounded,
            "strict": strict, "trusted": trusted,
        }  # fmt: skip
        self.sources[name] = declare(self._plan, name, schema, **options)  # type: ignore[arg-type]
        return self.sources[name]

    def view(self, name: str, collection: Collection) -> View:
        """Declare a named result that is kept current, and can be read, followed and built on.

        Raises:
            PlanError: a name that is taken, a collection of another engine, a declaration after the first epoch.
        """
        self._require_free("view", name, self.views)
        require_collection(f"view {name!r}", self._plan, collection)
        forbid_unused_answers(f"view {name!r}", collection._windowing)
        self._plan.views[name] = collection._place
        self.views[name] = View(
            self, self._plan, collection._place, name, self._retain, collection._windowing
        )
        return self.views[name]

    def push(
        self, source: str, data: Any, *, at: datetime | None = None, watermark: datetime | int | None = None
    ) -> int:
        """Take one batch of changes: one epoch, or part of the one that is open (``with engine.epoch()``).

        Args:
            source: the name of the source.
            data: a polars frame, anything that speaks Arrow's C stream, a dict of columns, or a list of rows:
                dictionaries, or tuples in the order of the declared columns, ``_diff`` last where it is there.
            at: processing time of the batch, with time zone; by default the clock is read, here and only here.
            watermark: moves the watermark of the source by hand, after these rows; ``END_OF_TIME``: it was the last.

        Returns:
            The number of the epoch.

        Raises:
            InputError: the batch does not fit the source, or a value cannot be computed; nothing has changed.
        """
        delta = accepted(self._source(source), data)
        promised = {} if watermark is None else {source: self._instant(source, watermark)}
        if self._gathered is None:
            return self._run({source: [delta]}, at, promised)
        if at is not None:
            raise InputError("processing time belongs to the epoch: give it to engine.epoch(at=...)")
        self._promise(promised)
        self._gathered.setdefault(source, []).append(delta)
        return self.epoch_number + 1

    def advance(self, source: str, watermark: datetime | int, *, at: datetime | None = None) -> int:
        """An epoch without rows that moves the watermark of a source by hand, or part of the epoch that is open.

        Raises:
            InputError: no event time, or the watermark would move back; nothing has changed.
        """
        promised = {source: self._instant(source, watermark)}
        if self._gathered is None:
            return self._run({}, at, promised)
        if at is not None:
            raise InputError("processing time belongs to the epoch: give it to engine.epoch(at=...)")
        self._promise(promised)
        return self.epoch_number + 1

    def tick(self, *, at: datetime | None = None) -> int:
        """An epoch without rows: processing time moves on, and what waits for it has its turn."""
        if self._gathered is not None:
            raise InputError(
                "an epoch is open: it is the next tick, at the time that engine.epoch(at=...) says"
            )
        return self._run({}, at)

    @property
    def watermarks(self) -> dict[str, datetime | int | None]:
        """How far the event time of each source is complete; None: nothing is known, ``END_OF_TIME``: it has ended."""
        clocks = self._current().clocks
        return {name: _shown_watermark(clock.before) for name, clock in clocks.items()}

    @contextmanager
    def epoch(self, *, at: datetime | None = None) -> Iterator[None]:
        """Everything pushed inside is one epoch: all of it happens, or, if anything raises, none of it."""
        if self._gathered is not None:
            raise InputError("an epoch is open already; epochs do not nest")
        self._gathered, self._promised = {}, {}
        try:
            yield
            gathered, promised = self._gathered, self._promised
        finally:
            self._gathered, self._promised = None, {}
        self._run(gathered, at, promised)

    def ledger(self, source: str | None = None) -> pl.DataFrame:
        """Every refused row and why: of all sources with the row as JSON, or of one with its own columns.

        The frame of one source can be mended and pushed again, without ``_epoch`` and ``reason`` and, into a
        source of kind "append", without ``_diff``. It has the rows that still have all columns of the source; what was
        changed, joined or grouped before it was too late is in the frame of all. A row that was too late for two views
        is in it twice, and views without lateness have taken it.
        """
        refused = self._current().ledger.refused
        if source is None:
            return ledger_frame(refused)
        return source_ledger_frame(refused, source, self._source(source).schema)

    def explain(self, format: Literal["text", "mermaid"] = "text") -> str:
        """The plan with rows, bytes and time of every node, as text or as a Mermaid flowchart."""
        compiled = self._current()
        if format == "text":
            return explain_text(self._plan, compiled, self.epoch_number)
        if format == "mermaid":
            return explain_mermaid(self._plan, compiled)
        raise PlanError(f"unknown format {format!r}; there are 'text' and 'mermaid'")

    @property
    def plan(self) -> nx.DiGraph[int]:
        """The declared plan as a graph along which deltas flow."""
        return self._plan.graph()

    def __repr__(self) -> str:
        """Sources, views and the epoch."""
        sources, views = ", ".join(self.sources) or "none", ", ".join(self.views) or "none"
        return f"Engine at epoch {self.epoch_number}; sources: {sources}; views: {views}"

    def _repr_html_(self) -> str:
        """Sources and views with their columns and the epoch, for notebooks."""
        return engine_html(self.epoch_number, self.sources, self.views)

    def _source(self, name: str) -> Source:
        if name not in self.sources:
            raise InputError(f"there is no source {name!r}; there are {listed(self.sources)}")
        return self.sources[name]

    def _require_free(self, kind: str, name: str, taken: Mapping[str, object]) -> None:
        """Check that a source or view may be declared now, under this name."""
        if not isinstance(name, str) or not name:
            raise PlanError(f"{kind} {name!r}: a name is text and not empty")
        if self.epoch_number:
            raise PlanError(
                f"{kind} {name!r}: the engine is at epoch {self.epoch_number}, and what has gone by cannot be filled "
                "in; declare all sources and views before the first push, or replay the input into a new engine"
            )
        if name in taken:
            raise PlanError(f"{kind} {name!r} is declared twice; choose another name")

    def _current(self) -> Compiled:
        """The circuit of the plan as it stands; it is final from the first epoch on."""
        size = (len(self._plan.nodes), len(self._plan.views))
        if self._compiled is None or (self.epoch_number == 0 and size != self._compiled_size):
            self._compiled = compile_plan(self._plan, Ledger(LEDGER_ROWS))
            self._compiled_size = size
            for view in self.views.values():
                view._history.clear()
            self._log.clear()
            self._step(self._compiled, Now(Epoch(0), datetime.fromtimestamp(0, UTC)), {}, {})
        return self._compiled

    def _promise(self, promised: Mapping[str, int]) -> None:
        """Take watermarks by hand into the open epoch."""
        for source, watermark in promised.items():
            if watermark < (known := self._promised.get(source, watermark)):
                raise InputError(
                    f"source {source!r}: the watermark cannot move back from {shown(known)} to {shown(watermark)} "
                    "within an epoch"
                )
            self._promised[source] = watermark

    def _instant(self, source: str, watermark: datetime | int) -> int:
        """A watermark by hand as an instant."""
        event_time = self._source(source).event_time
        if event_time is None:
            raise InputError(
                f"source {source!r} has no event time and so no watermark; declare it with event_time="
            )
        return instant(f"source {source!r}", watermark, self._source(source).schema[event_time])

    def fire(self, view: str, key: object, window: object, at: datetime | None) -> int:
        """An epoch without rows in which windows of a view are told to speak; the same as ``View.fire``."""
        tracker, windows = self._windows_of(view, key, window)
        tracker.signal(windows.keys)
        try:
            return self._run({}, at)
        finally:
            tracker.forget_signals()

    def why(self, view: str, key: object, window: object) -> list[str]:
        """Why windows of a view do not speak; the same as ``View.why``."""
        compiled, place = self._current(), self._grouping(view)
        operation = self._plan[place].operation
        assert isinstance(operation, WindowedGroup)
        if place not in compiled.trackers:
            return ["nothing is held back: every epoch that brings rows is spoken at once"]
        tracker, windows = self._windows_of(view, key, window)
        last = self._log.last
        known = Circumstances(
            watermark=tracker.clock.before,
            processing_time=0 if last is None else Now(Epoch(last[0]), last[1]).instant,
            lateness=operation.windowing.lateness,
            held_by=self._held_by(place),
            percentiles=tracker.percentiles,
        )
        return why_lines(operation, windows, known, asked=key is not None or window is not None)

    def watermark_of(self, view: str) -> datetime | int | None:
        """How far the event time of a view's rows is complete; the same as ``View.watermark``."""
        clocks, sources = self._current().clocks, self._plan.sources_of(self.views[view]._place)
        known = [clocks[source.name].before for source in sources if source.name in clocks]
        return _shown_watermark(min(known, default=START_OF_TIME))

    def _held_by(self, place: PlanId) -> tuple[str, ...]:
        """What holds the watermark of a node, in words: that of its sources that is the least."""
        clocks = self._current().clocks
        sources = [source.name for source in self._plan.sources_of(place) if source.name in clocks]
        if not sources:
            return ("no source of it has event time, so that there is no watermark",)
        slowest = min(sources, key=lambda name: clocks[name].before)
        return tuple(clocks[slowest].describe())

    def _grouping(self, view: str) -> PlanId:
        place = grouping_of(self._plan, self.views[view]._place)
        if place is None:
            raise InputError(
                f"view {view!r} is not grouped by windows, so that it has none; ask the view upstream that is"
            )
        return place

    def _windows_of(self, view: str, key: object, window: object) -> tuple[TrackWindows, OpenWindows]:
        compiled, place = self._current(), self._grouping(view)
        if place not in compiled.trackers:
            raise InputError(
                f"view {view!r} speaks at every epoch; give it a trigger to have it wait for a word"
            )
        windows = open_windows(compiled, self._plan, place)
        return compiled.trackers[place], windows.of(f"view {view!r}", key, window)

    def _run(
        self,
        gathered: Mapping[str, list[Delta]],
        at: datetime | None,
        promised: Mapping[str, int] | None = None,
    ) -> int:
        if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
            raise InputError(f"processing time at={at!r} must be a time with its zone, as datetime.now(UTC)")
        compiled = self._current()
        arrived = {
            name: deltas[0] if len(deltas) == 1 else Delta(pl.concat([delta.frame for delta in deltas]))
            for name, deltas in gathered.items()
        }
        now = Now(Epoch(self.epoch_number + 1), (at or datetime.now(UTC)).astimezone(UTC))
        published = self._step(compiled, now, arrived, promised or {})
        self._call_back(published)
        return self.epoch_number

    def _step(
        self, compiled: Compiled, now: Now, arrived: Mapping[str, Delta], promised: Mapping[str, int]
    ) -> dict[str, pl.DataFrame]:
        circuit, changed = compiled.circuit, {}
        try:
            for source, watermark in promised.items():
                compiled.clocks[source].promise(watermark)
            evaluated = circuit.evaluate(now, arrived)
            for name, view in self.views.items():
                delta = evaluated.deltas[compiled.outputs[view._place]].consolidate()
                if len(delta):
                    changed[name] = view._published(now.epoch, delta.frame)
        except BaseException:
            circuit.discard()
            raise
        with interrupts_deferred():
            circuit.commit(evaluated)
            self.epoch_number = now.epoch
            for name, frame in changed.items():
                self.views[name]._history.append(now.epoch, frame)
            self._note(compiled, now, evaluated)
        return changed

    def _note(self, compiled: Compiled, now: Now, evaluated: Evaluated) -> None:
        """Write the run log: when the epoch was, how far the watermarks are, which rows came."""
        if not now.epoch:
            return
        clocks = compiled.clocks
        marks = {name: clock.before for name, clock in clocks.items()}
        places = {name: compiled.outputs[self.sources[name]._place] for name in clocks}
        rows = {name: evaluated.deltas[place].frame for name, place in places.items()}
        self._log.note(now.epoch, now.processing_time, marks, rows)

    def _call_back(self, published: Mapping[str, pl.DataFrame]) -> None:
        """Tell subscribers. What they push themselves is told when this is told: all hear epochs in order."""
        self._unheard.extend((self.epoch_number, name, frame) for name, frame in published.items())
        if self._is_calling_back:
            return
        failed: list[tuple[int, str, Exception]] = []
        self._is_calling_back = True
        try:
            while self._unheard:
                epoch, name, frame = self._unheard.popleft()
                for subscription in tuple(self.views[name]._subscriptions):
                    try:
                        subscription.hear(epoch, frame)
                    except Exception as raised:
                        failed.append((epoch, name, raised))
        finally:
            self._is_calling_back = False
        if failed:
            epoch, name, error = failed[0]
            raise SubscriberError(
                f"epoch {epoch} is done and all views are current, but a subscriber of view {name!r} "
                f"raised {type(error).__name__}: {error}"
            ) from error

    def ready(self) -> None:
        """See to it that views hold what they hold before any input: the row of a group of nothing."""
        self._current()

    @property
    def run_log(self) -> RunLog:
        """When the last epochs were, how far the watermarks, and which rows came."""
        return self._log

    def refused(self) -> Iterable[Refused]:
        """The entries of the ledger, as they are."""
        return tuple(self._current().ledger.refused)

    def contents(self, view: str) -> pl.DataFrame:
        """All rows of a view now; the same as ``View.read``."""
        compiled = self._current()
        known = self._read.get(view)
        if known is None or known[:2] != (self.epoch_number, compiled):
            known = (self.epoch_number, compiled, compiled.contents[view].contents())
            self._read[view] = known
        return known[2]
