"""Checks of what must hold for every view, on an engine of your own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import polars as pl

from evercurrent.core.data.clock import END_OF_TIME
from evercurrent.core.data.columns.polars_versions import without
from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import DIFF, listed
from evercurrent.core.eventtime.panes.panes import PANE_INFO

from ..engine.engine import Engine
from ..engine.view import View
from .batches import BEGINNING, Batch, History
from .times import as_datetime

Bag = Counter[tuple[Any, ...]]
"""Rows with their counts."""

AFTERWARDS = timedelta(days=366)
"""The time after the last batch by which all periods are over."""


def assert_split_and_order_do_not_matter(
    make: Callable[[], Engine], history: History, *, views: Sequence[str] | None = None
) -> None:
    """Check that views end up with the same rows however a history is cut into epochs and in whatever order rows come.

    The batches between two moves of a watermark by hand are pushed as they are, all in one epoch, row by row, and row by
    row in another order (retractions after additions; rows of an upsert source without ``sequence_by`` stay in order).
    Then all watermarks move to the end of time, and processing time advances by a year. Pane information is not compared.

    ``views``: those to compare, by default all. Leave out those whose panes are discarding or accumulating: their panes
    depend on when they are emitted. The check does not hold either for a watermark that follows the rows together with
    ``.lateness(...)``, as which rows are too late then depends on their order.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> def shop() -> ec.Engine:
    ...     engine = ec.Engine()
    ...     _ = engine.view("counts", engine.source("words", {"word": pl.String}).group_by("word").len("n"))
    ...     return engine
    >>> from datetime import UTC, datetime
    >>> from evercurrent import testing
    >>> words = pl.DataFrame({"word": ["b", "a", "b"]})
    >>> history = [testing.Batch(datetime(2024, 1, 1, 12, hour, tzinfo=UTC), {"words": words}) for hour in range(3)]
    >>> testing.assert_split_and_order_do_not_matter(shop, history)

    Raises:
        AssertionError: the rows differ; names the view, the way in which the history was cut, and these rows.
    """
    expected: dict[str, Bag] | None = None
    for how, batches in _cuts(history, make()).items():
        engine = make()
        for batch in batches:
            batch.push(engine)
        _finish(engine, history)
        contents = {
            name: _bag(without(engine.views[name].read(), PANE_INFO)) for name in _named(engine, views)
        }
        expected = expected or contents
        for name, bag in contents.items():
            if bag != expected[name]:
                raise AssertionError(
                    f"view {name!r} depends on how its input is cut into epochs; {how}, "
                    f"it has {_listed(bag - expected[name])} in place of {_listed(expected[name] - bag)}; "
                    "discarding and accumulating panes do so by nature: leave them out with views=[...]"
                )


def assert_retractions_sum(view: View, *, signed: bool = False) -> None:
    """Check that the deltas of a view add up to what it holds, and that no row is retracted that was not there.

    ``signed``: rows may have negative counts, as after ``minus``; such rows are not compared in the end.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> def shop() -> ec.Engine:
    ...     engine = ec.Engine()
    ...     _ = engine.view("counts", engine.source("words", {"word": pl.String}).group_by("word").len("n"))
    ...     return engine
    >>> from evercurrent import testing
    >>> engine = shop()
    >>> _ = engine.push("words", {"word": ["a", "b"]})
    >>> _ = engine.push("words", {"word": ["a"]})
    >>> testing.assert_retractions_sum(engine.views["counts"])

    Raises:
        AssertionError: they do not; names the epoch or the rows.
        EpochGoneError: the first deltas are no longer retained; make the engine with ``Engine(retain=Retain(...))``.
    """
    total: Bag = Counter()
    for frame in view.deltas():
        for *row, epoch, diff in frame.iter_rows():
            key = tuple(map(_frozen, row))
            total[key] += diff
            if total[key] < 0 and not signed:
                raise AssertionError(
                    f"view {view.name!r}: epoch {epoch} retracts {key} more often than it was there"
                )
    summed, held = +total, _bag(view.read())
    if summed != held:
        raise AssertionError(
            f"view {view.name!r}: its deltas add up to {_listed(summed - held)} more "
            f"and {_listed(held - summed)} less than it holds"
        )


def assert_replay_is_equal(
    make: Callable[[], Engine], history: History, *, views: Sequence[str] | None = None
) -> None:
    """Check that the same history gives the same deltas again, epoch by epoch, row by row.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> def shop() -> ec.Engine:
    ...     engine = ec.Engine()
    ...     _ = engine.view("counts", engine.source("words", {"word": pl.String}).group_by("word").len("n"))
    ...     return engine
    >>> from datetime import UTC, datetime
    >>> from evercurrent import testing
    >>> words = pl.DataFrame({"word": ["b", "a", "b"]})
    >>> history = [testing.Batch(datetime(2024, 1, 1, 12, hour, tzinfo=UTC), {"words": words}) for hour in range(3)]
    >>> testing.assert_replay_is_equal(shop, history)

    Raises:
        AssertionError: names the view, whose definition depends on something besides its input.
    """
    engines = [make(), make()]
    for engine in engines:
        for batch in history:
            batch.push(engine)
    for name in _named(engines[0], views):
        first, second = (engine.views[name].deltas().frame() for engine in engines)
        if not first.equals(second):
            raise AssertionError(
                f"view {name!r} gave other deltas when the same input came again:\n{first}\n{second}"
            )


def _cuts(history: History, engine: Engine) -> Mapping[str, list[Batch]]:
    """Return the same history, cut in other ways; where the order of rows matters, it is kept."""
    ordered = {
        name for name, source in engine.sources.items() if source.kind == "upsert" and not source.sequence_by
    }
    stamped = any(source.stamps_rows for source in engine.sources.values())
    joined = [_joined(stretch) for stretch in _stretches(history, by_arrival=stamped)]
    turned = [_turned(batch, ordered) for batch in joined]
    return {
        "as it came": history,
        "with all in one epoch": joined,
        "row by row": [row for batch in history for row in _row_by_row(batch)],
        "row by row in another order": [row for batch in turned for row in _row_by_row(batch)],
    }


def _stretches(history: History, *, by_arrival: bool) -> Iterator[list[Batch]]:
    """Yield the batches up to and with one that moves a watermark by hand; ``by_arrival``: only of one processing time."""
    stretch: list[Batch] = []
    for batch in history:
        if stretch and by_arrival and stretch[-1].at != batch.at:
            yield stretch
            stretch = []
        stretch.append(batch)
        if batch.watermarks:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def _joined(stretch: list[Batch]) -> Batch:
    rows: dict[str, list[pl.DataFrame]] = {}
    for batch in stretch:
        for source, frame in batch.rows.items():
            rows.setdefault(source, []).append(frame)
    joined = {source: pl.concat(frames) for source, frames in rows.items()}
    return Batch(stretch[-1].at, joined, stretch[-1].watermarks)


def _turned(batch: Batch, ordered: set[str]) -> Batch:
    """Return the batch with additions from the last to the first, then retractions."""
    turned = {
        source: frame
        if source in ordered
        else frame.reverse().sort(DIFF, descending=True, maintain_order=True)
        if DIFF in frame.columns
        else frame.reverse()
        for source, frame in batch.rows.items()
    }
    return Batch(batch.at, turned, batch.watermarks)


def _row_by_row(batch: Batch) -> Iterator[Batch]:
    for source, frame in batch.rows.items():
        for row in frame.iter_slices(1):
            yield Batch(batch.at, {source: row})
    yield Batch(batch.at, {}, batch.watermarks)


def _finish(engine: Engine, history: History) -> None:
    at = (history[-1].at if history else as_datetime(BEGINNING)) + AFTERWARDS
    with engine.epoch(at=at):
        for name, source in engine.sources.items():
            if source.event_time is not None and not source.stamps_rows:
                engine.advance(name, END_OF_TIME)


def _named(engine: Engine, views: Sequence[str] | None) -> Iterable[str]:
    if missing := [name for name in views or () if name not in engine.views]:
        raise InputError(f"there is no view {listed(missing)}; there are {listed(engine.views)}")
    return engine.views if views is None else views


def _bag(frame: pl.DataFrame) -> Bag:
    return Counter(tuple(map(_frozen, row)) for row in frame.iter_rows())


def _frozen(cell: Any) -> Any:
    """Return a hashable form of a cell: lists as tuples, NaN as one value."""
    if isinstance(cell, list):
        return tuple(map(_frozen, cell))
    if isinstance(cell, dict):
        return tuple((name, _frozen(part)) for name, part in cell.items())
    return "NaN" if isinstance(cell, float) and cell != cell else cell


def _listed(bag: Bag) -> str:
    rows = list(bag.elements())
    more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
    return f"{', '.join(map(str, rows[:3]))}{more}" if rows else "nothing"
