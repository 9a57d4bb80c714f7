"""A script for an engine of your own, line by line: rows, watermarks and time go in, expected rows are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

import polars as pl

from evercurrent.core.data.clock import END_OF_TIME
from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import DIFF, EPOCH, listed

from ..engine.engine import Engine
from ..engine.view import View
from .hand_clock import HandClock
from .matching import Expectation, mismatches
from .rows import Row, RowWords
from .times import Times, as_datetime, midnight

ValuesByColumn = Mapping[str, Any]
"""The values of a row, by column; in an expectation, columns that are left out are not compared."""


def play(engine: Engine, *, start: datetime | str = "2024-01-01T00:00Z") -> Play:
    """Begin a script for an engine; processing time is ``start`` until it is moved.

    Times may be written as datetimes, as "12:00:26" on the day of ``start``, or as seconds of that day.

    >>> import polars as pl
    >>> from evercurrent import Engine
    >>> engine = Engine()
    >>> words = engine.source("words", {"word": pl.String}, kind="diffs")
    >>> _ = engine.view("counts", words.group_by("word").agg(n=pl.len()))
    >>> with play(engine) as script:
    ...     _ = script.rows("words", [{"word": "a"}, {"word": "a"}])
    ...     _ = script.expect("counts", [{"word": "a", "n": 2}])
    ...     _ = script.rows("words", [{"word": "a", "_diff": -1}])
    ...     _ = script.expect("counts", [{"n": 2, "_diff": -1}, {"n": 1}])
    """
    return Play(engine, HandClock(start))


class Play:
    """A script for an engine. Methods return the script itself, so that they can be chained.

    As a context manager it ends by checking that no view with expectations has emitted anything more.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> def shop() -> ec.Engine:
    ...     engine = ec.Engine()
    ...     _ = engine.view("counts", engine.source("words", {"word": pl.String}).group_by("word").len("n"))
    ...     return engine
    >>> from evercurrent import testing
    >>> with testing.play(shop()) as script:
    ...     script.rows("words", [{"word": "a"}, {"word": "a"}]).expect("counts", [{"word": "a", "n": 2}]).engine.epoch_number
    1
    """

    def __init__(self, engine: Engine, clock: HandClock) -> None:
        self.engine = engine
        self.clock = clock
        self._times = Times(day=midnight(clock.instant), clock=True)
        self._delivered: dict[str, int] = {}
        self._begun = engine.epoch_number

    # Input

    def rows(
        self,
        source: str,
        rows: pl.DataFrame | Sequence[ValuesByColumn | Sequence[Any]],
        *,
        watermark: Any = None,
        at: Any = None,
    ) -> Self:
        """Run one epoch: rows of a source, then its watermark if given. ``at`` moves processing time first."""
        self._move(at)
        moved = {} if watermark is None else {"watermark": self.moment(watermark)}
        self.engine.push(source, self.frame(source, rows), at=self.clock.now, **moved)
        return self

    def watermark(self, source: str, time: Any, *, at: Any = None) -> Self:
        """Run one epoch that moves the watermark of a source; "inf" means that no more rows will come."""
        self._move(at)
        self.engine.advance(source, self.moment(time), at=self.clock.now)
        return self

    def end(self, *sources: str) -> Self:
        """Move the watermarks of these sources, by default of all, to the end of time: an epoch for each."""
        timed = [name for name, source in self.engine.sources.items() if source.event_time is not None]
        for source in sources or timed:
            self.watermark(source, "inf")
        return self

    def at(self, time: datetime | str) -> Self:
        """Run one epoch that moves processing time to ``time`` and fires the triggers that are due."""
        return self._tick(self.clock.set(time))

    def advance(self, by: timedelta | str) -> Self:
        """Run one epoch that advances processing time by a duration and fires the triggers that are due."""
        return self._tick(self.clock.advance(by))

    # Expectations

    def expect(self, view: str, rows: Iterable[ValuesByColumn], *, in_order: bool = False) -> Self:
        """Check that the view has emitted these rows and no others since the last check; ``_diff`` is 1 unless given.

        Only the given columns are compared. For a windowed view ``window`` ([start, end]) can be given, and with pane
        information ``index``, ``early``, ``late``, ``final`` and ``at``. ``in_order`` also compares the order of epochs;
        rows of one epoch have no order.

        Raises:
            AssertionError: it emitted others; lists the missing rows and the unexpected ones.
        """
        words = self._words(view)
        expected = words.expectations(rows)
        emitted = self._since(view, words, self._delivered.get(view, self._begun))
        self._delivered[view] = self.engine.epoch_number
        self._compare(view, expected, emitted, words, in_order)
        return self

    def expect_nothing(self, *views: str) -> Self:
        """Check that these views, or all of the engine, have emitted nothing since they were last checked."""
        for view in views or self.engine.views:
            self.expect(view, [])
        return self

    def expect_contents(self, view: str, rows: Iterable[ValuesByColumn]) -> Self:
        """Check that the view holds these rows and no others now."""
        words = self._words(view)
        self._compare(view, words.expectations(rows), words.read(self._view(view).read()), words, False)
        return self

    def expect_refused(self, source: str, count: int, reason: str = "") -> Self:
        """Check that this many rows of a source are in the ledger, with reasons that contain this text."""
        refused = self.engine.ledger().filter(pl.col("source") == source)
        matching = refused.filter(pl.col("reason").str.contains(reason, literal=True))
        if matching.height != count:
            about = f" because of {reason!r}" if reason else ""
            raise AssertionError(
                f"source {source!r}: {matching.height} rows are refused{about}, expected are {count}\n{refused}"
            )
        return self

    def done(self) -> Self:
        """Check that the views with expectations have emitted nothing else."""
        return self.expect_nothing(*self._delivered) if self._delivered else self

    def __enter__(self) -> Self:
        """Return the script itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Check that nothing else was emitted, unless an error was raised already."""
        if kind is None:
            self.done()

    def __repr__(self) -> str:
        """Show the engine and the time."""
        return f"Play({self.engine!r}, at {self.clock.now.isoformat()})"

    def output(self, view: str) -> list[str]:
        """Return all that a view has emitted since the script began, a line for each row."""
        words = self._words(view)
        return [words.shown(row) for row in self._since(view, words, self._begun)]

    # Internals

    def _tick(self, at: datetime) -> Self:
        self.engine.tick(at=at)
        return self

    def _move(self, at: Any) -> None:
        if at is not None:
            self.clock.set(at)

    def moment(self, time: Any) -> Any:
        """Return a time as the engine takes a watermark: a datetime, or ``END_OF_TIME``."""
        instant = self._times.instant(time)
        return instant if instant == END_OF_TIME else as_datetime(instant)

    def _view(self, name: str) -> View:
        if name not in self.engine.views:
            raise InputError(f"there is no view {name!r}; there are {listed(self.engine.views)}")
        return self.engine.views[name]

    def _words(self, view: str) -> RowWords:
        return RowWords(f"view {view!r}", self._view(view).schema, self._times)

    def _since(self, view: str, words: RowWords, epoch: int) -> list[Row]:
        return [row for frame in self._view(view).deltas(since=epoch) for row in words.read(frame)]

    def _compare(
        self, view: str, expected: list[Expectation], emitted: list[Row], words: RowWords, in_order: bool
    ) -> None:
        pairs = _by_epoch(expected, emitted) if in_order else [(expected, emitted)]
        wrong = [text for part, rows in pairs if (text := mismatches(part, rows, words.shown))]
        if wrong:
            raise AssertionError("\n".join([f"view {view!r} at epoch {self.engine.epoch_number}", *wrong]))

    def frame(self, source: str, rows: Any) -> Any:
        """Return rows as a frame for the source, with times as instants; anything but a list of rows is left to the engine."""
        if source not in self.engine.sources or not isinstance(rows, list | tuple):
            return rows
        schema = self.engine.sources[source].schema
        instants = {name: dtype for name, dtype in schema.items() if isinstance(dtype, pl.Datetime)}

        def cell(name: str, value: Any) -> Any:
            return self._cell(value, instants[name]) if name in instants else value

        columns = [*schema, *[DIFF] * max(map(len, rows), default=0)]
        signed = {DIFF: 1} if any(isinstance(row, Mapping) and DIFF in row for row in rows) else {}
        return [
            {name: cell(name, value) for name, value in (signed | row).items()}
            if isinstance(row, dict)
            else tuple(map(cell, columns, row))
            for row in rows
        ]

    def _cell(self, value: Any, dtype: pl.Datetime) -> datetime | None:
        if value is None:
            return None
        moment = as_datetime(self._times.instant(value))
        return moment if dtype.time_zone else moment.replace(tzinfo=None)


def _by_epoch(expected: list[Expectation], emitted: list[Row]) -> list[tuple[list[Expectation], list[Row]]]:
    """Split the expectations into epochs like the rows; those left over go to the last epoch."""
    sizes: dict[int, int] = {}
    for row in emitted:
        sizes[row[EPOCH]] = sizes.get(row[EPOCH], 0) + 1
    pairs, at = [], 0
    for size in sizes.values():
        pairs.append((expected[at : at + size], emitted[at : at + size]))
        at += size
    return [*pairs, (expected[at:], [])] if expected[at:] else pairs
