"""Random histories for an engine of your own, with which Hypothesis searches for a batch that breaks a view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import polars as pl

from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import DIFF

from ..dataframe.source import Source
from ..engine.engine import Engine
from .batches import BEGINNING, Batch, History
from .times import as_datetime

try:
    import hypothesis.strategies as st
    from hypothesis.strategies import DrawFn, SearchStrategy
except ImportError as error:
    raise ImportError(
        "random histories need Hypothesis, which is not installed: `pip install hypothesis`"
    ) from error

SPAN = 3600
"""Seconds within which event times lie."""

_FEW: dict[type[pl.DataType], Sequence[Any]] = {
    pl.String: ["a", "b", "c", ""],
    pl.Categorical: ["a", "b"],
    pl.Binary: [b"a", b""],
    pl.Boolean: [True, False],
    pl.Date: [date(2024, 1, 1), date(2024, 2, 29)],
    pl.Time: [time(0), time(12, 30)],
    pl.Duration: [timedelta(0), timedelta(minutes=1)],
    pl.Decimal: [Decimal(0), Decimal(1), Decimal("2.5")],
}


def histories(
    engine: Engine | Callable[[], Engine],
    *,
    max_epochs: int = 6,
    max_rows: int = 5,
    cells: Mapping[str, SearchStrategy[Any]] | None = None,
) -> SearchStrategy[History]:
    """Return a strategy of histories for the sources of an engine, with few different values, so that keys meet.

    Event times are out of order, processing time advances, watermarks are moved where that is done by hand, and some
    epochs are empty. Sources of kind "diffs" and "upsert" retract rows that are there. ``cells`` gives strategies for
    columns, by "column" or "source.column"; without one, a column has a few values of its type and null. Not for sources
    with ``perfect()``, which refuse rows that are out of order.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> from evercurrent import testing
    >>> from hypothesis import given
    >>> def shop() -> ec.Engine:
    ...     engine = ec.Engine()
    ...     _ = engine.view("counts", engine.source("words", {"word": pl.String}).group_by("word").len("n"))
    ...     return engine
    >>> @given(testing.histories(shop))
    ... def test_order(history: testing.History) -> None:
    ...     testing.assert_split_and_order_do_not_matter(shop, history)

    Raises:
        InputError: a column has a type that needs ``cells``.
    """
    declared = engine if isinstance(engine, Engine) else engine()
    writers = [_Writer(source, cells or {}) for source in declared.sources.values()]

    @st.composite
    def drawn(draw: DrawFn) -> History:
        scribes = [writer.begun(draw) for writer in writers]
        at, history = BEGINNING, []
        for _ in range(draw(st.integers(1, max_epochs))):
            at += draw(st.sampled_from([0, 1, 30, 60, 600])) * 1_000_000
            chosen = [scribe for scribe in scribes if draw(st.sampled_from([True, True, False]))]
            rows = {scribe.name: scribe.rows(draw, max_rows) for scribe in chosen}
            moves = {scribe.name: scribe.watermark(draw) for scribe in scribes}
            watermarks = {name: move for name, move in moves.items() if move is not None}
            history.append(Batch(as_datetime(at), rows, watermarks))
        return history

    return drawn()


class _Writer:
    """The strategies of the rows of one source."""

    def __init__(self, source: Source, cells: Mapping[str, SearchStrategy[Any]]) -> None:
        self.source = source
        left_out = source.event_time if source.stamps_rows else None
        self.columns = {name: dtype for name, dtype in source.schema.items() if name != left_out}
        self.cells = {name: self._cell(name, dtype, cells) for name, dtype in self.columns.items()}

    def begun(self, draw: DrawFn) -> _Scribe:
        """Return an empty history of this source, with the rows that may occur in it.

        Each has some values of the first one: so groups have several rows, which differ in what is aggregated.
        """
        first = draw(st.tuples(*self.cells.values()))
        alike = [st.just(value) | cell for value, cell in zip(first, self.cells.values(), strict=True)]
        return _Scribe(self, [first, *draw(st.lists(st.tuples(*alike), max_size=5))])

    def _cell(
        self, name: str, dtype: pl.DataType, cells: Mapping[str, SearchStrategy[Any]]
    ) -> SearchStrategy[Any]:
        strategy = cells.get(f"{self.source.name}.{name}", cells.get(name))
        if strategy is not None:
            return strategy
        few = _values(f"source {self.source.name!r}: column {name!r}", dtype)
        if name in (self.source.event_time, *self.source.key, *self.source.sequence_by):
            return few
        return st.integers(0, 3).flatmap(lambda number: few if number else st.none())


class _Scribe:
    """One source in one history: its rows so far, and its watermark."""

    def __init__(self, writer: _Writer, pool: list[tuple[Any, ...]]) -> None:
        self.name = writer.source.name
        self._writer = writer
        self._pool = pool
        self._held: Counter[int] = Counter()
        self._watermark = 0

    def rows(self, draw: DrawFn, most: int) -> pl.DataFrame:
        """Draw some rows of the pool, and retractions of some that are there."""
        source = self._writer.source
        entries: list[tuple[int, int]] = []
        # An upsert source takes the last row of a key in a batch, and deletes only what was there before.
        deletable = {place for place, count in self._held.items() if count}
        for number in draw(st.lists(st.integers(0, len(self._pool) - 1), max_size=most)):
            place = self._place(number)
            may = place in deletable if source.kind == "upsert" else source.kind == "diffs"
            diff = -1 if may and self._held[place] > 0 and draw(st.booleans()) else 1
            self._held[place] = max(diff, 0) if source.kind == "upsert" else self._held[place] + diff
            entries.append((number, diff))
        cells = list(zip(*(self._pool[number] for number, _ in entries), strict=True))
        columns = [
            pl.Series(name, cells[i] if cells else [], dtype, strict=False)
            for i, (name, dtype) in enumerate(self._writer.columns.items())
        ]
        if source.kind != "append":
            columns.append(pl.Series(DIFF, [diff for _, diff in entries], pl.Int64))
        return pl.DataFrame(columns)

    def watermark(self, draw: DrawFn) -> datetime | None:
        """Draw a move of the watermark, if it is moved by hand."""
        source = self._writer.source
        specification = source._declared.watermark
        if specification is None or not specification.is_by_hand or draw(st.integers(0, 2)):
            return None
        self._watermark = draw(st.integers(self._watermark, SPAN))
        return _moment(self._watermark)

    def _place(self, number: int) -> int:
        """Return the row under which a row is counted: itself or, in an upsert source, the first row with its key."""
        source, row = self._writer.source, self._pool[number]
        key_places = [i for i, name in enumerate(self._writer.columns) if name in source.key]
        if not key_places:
            return self._pool.index(row)
        key = [row[i] for i in key_places]
        return next(place for place, other in enumerate(self._pool) if [other[i] for i in key_places] == key)


def _values(where: str, dtype: pl.DataType) -> SearchStrategy[Any]:
    """Return a strategy of a few values of a type."""
    if isinstance(dtype, pl.Datetime):
        return st.integers(0, SPAN).map(_moment if dtype.time_zone is not None else _local_moment)
    if isinstance(dtype, pl.List):
        return st.lists(_values(where, _inner(dtype)), max_size=2)
    if isinstance(dtype, pl.Struct):
        return st.fixed_dictionaries(
            {part.name: _values(where, pl.Schema({"": part.dtype})[""]) for part in dtype.fields}
        )
    if isinstance(dtype, pl.Enum):
        return st.sampled_from(dtype.categories.to_list())
    if dtype.is_float():
        return st.sampled_from([0.0, 1.5, -2.25, 100.0])
    if dtype.is_integer():
        return st.sampled_from([0, 1, 2, 7, 100] if dtype.is_unsigned_integer() else [0, 1, 2, -3, 100])
    for kind, values in _FEW.items():
        if dtype == kind:
            return st.sampled_from(list(values))
    raise InputError(f"{where} is {dtype}: give cells={{...}} with a strategy for it")


def _moment(second: int) -> datetime:
    return as_datetime(BEGINNING + second * 1_000_000)


def _local_moment(second: int) -> datetime:
    return _moment(second).replace(tzinfo=None)


def _inner(dtype: pl.List) -> pl.DataType:
    return pl.Schema({"": dtype.inner})[""]
