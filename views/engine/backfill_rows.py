"""The rows of sources up to now, as a user gives them to fill a view that is declared while the engine runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from evercurrent.core.data.columns.kernels import has_floats, stack, with_plain_zeros
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.core.data.instants import instants_in
from evercurrent.core.data.schema import listed
from evercurrent.core.data.tags import tagged

from ..connectors.positions import Position
from ..dataframe.accepted_rows import accepted
from ..dataframe.source import Source
from ..durability.kept_rows import RowsReader

BATCH_ROWS = 1_000_000
"""The most rows of a file that are read at a time."""


@tagged("views.engine:Backfill")
@dataclass(frozen=True, slots=True)
class Backfill:
    """All rows of a source up to a position, to fill a view that is declared while the engine runs.

    ``rows`` is whatever can be pushed, the path of a file or a folder, or an iterator of such batches. ``position`` is that of
    the last of them, which has to be the last one that the engine has taken: live rows follow without gap or overlap.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> engine = ec.Engine()
    >>> words = engine.source("words", {"word": pl.String})
    >>> _ = words.push({"word": ["a"]}, position=1)
    >>> counts = engine.view(
    ...     "counts", words.group_by("word").len(), backfill={"words": ec.Backfill({"word": ["a"]}, position=1)}
    ... )
    >>> counts.read().rows()
    [('a', 1)]
    """

    rows: Any
    position: Position | None = None


def backfilled(
    view: str, backfill: object, sources: Mapping[str, Source], positions: Mapping[str, Position]
) -> dict[str, RowsReader]:
    """Return readers of the rows given for sources.

    Raises:
        PlanError: it is not a mapping of sources to rows, or rows end at another position than the engine has taken.
    """
    where = f"view {view!r}: backfill="
    if backfill is None:
        return {}
    if not isinstance(backfill, Mapping) or not all(isinstance(name, str) for name in backfill):
        raise PlanError(
            f"{where} is a {type(backfill).__name__}; give a mapping from sources to their rows up to now: {{'source': rows}}"
        )
    if unknown := [name for name in backfill if name not in sources]:
        raise PlanError(f"{where} names {listed(unknown)}, which is no source; there are {listed(sources)}")
    readers: dict[str, RowsReader] = {}
    for name, rows in backfill.items():
        history = rows if isinstance(rows, Backfill) else Backfill(rows)
        _require_no_gap(f"{where} of source {name!r}", history, sources[name], positions.get(name))
        readers[name] = partial(_all_rows, sources[name], history.rows)
    return readers


def _require_no_gap(where: str, history: Backfill, source: Source, position: Position | None) -> None:
    """Check that the rows end where the live rows begin.

    Raises:
        PlanError: they do not, or it is not stated where they end.
    """
    if position is None:
        if history.position is not None:
            raise PlanError(
                f"{where} ends at position {history.position!r}, but nothing was pushed with a position; leave position= out, "
                "and give all rows that were pushed"
            )
        return
    if history.position is None:
        raise PlanError(
            f"{where} does not state where it ends; the engine has taken the input up to {position!r}: give the rows up to and with "
            f"that one as ec.Backfill(rows, position={position!r})"
        )
    if source.positions.kept(history.position) != position:
        raise PlanError(
            f"{where} ends at position {history.position!r}, but the engine has taken the input up to {position!r}, so that rows "
            "would be missing or count twice; give the rows up to and with that one"
        )


def _all_rows(source: Source, rows: Any) -> Delta:
    """Return all rows given for a source, consolidated.

    Raises:
        InputError: they do not fit the source, retract what is not there, or have event times that cannot be computed with.
    """
    frames = [accepted(source, batch).frame for batch in _batches(source, rows)]
    frames = [frame for frame in frames if frame.height]
    if not frames:
        return Delta.empty(source.schema)
    columns = stack(frames).get_columns()
    plain = [with_plain_zeros(column) if has_floats(column.dtype) else column for column in columns]
    delta = Delta(pl.DataFrame(plain)).consolidate()
    where = f"backfill= of source {source.name!r}"
    if source.event_time is not None:
        _, usable = instants_in(delta.frame.get_column(source.event_time))
        if usable is not None:
            raise InputError(
                f"{where}: there are rows whose event time {source.event_time!r} cannot be computed with, which a push would "
                "have refused; leave them out"
            )
    if not source.is_trusted and (delta.diffs < 0).any():
        raise InputError(
            f"{where}: there are retractions of rows that are not there, which a push would have refused; leave them out"
        )
    return delta


def _batches(source: Source, rows: Any) -> Iterator[Any]:
    from ..connectors.files import Reader  # Imported here, as only backfills need it.

    if isinstance(rows, str | Path):
        diffs = source.kind != "append" and source.format is None
        files = Reader(source.name, [Path(rows)], source.arriving, diffs=diffs, batch_rows=BATCH_ROWS)
        files.require_files()
        yield from (batch.frame for batch in files.batches())
    elif isinstance(rows, Reader):
        yield from (batch.frame for batch in rows.batches())
    elif isinstance(rows, Iterator):
        yield from rows
    else:
        yield rows
