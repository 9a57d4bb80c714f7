"""A recording put together from plain frames: the deltas of a view, the rows of its sources, epochs and watermarks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from evercurrent.core.data.clock import END_OF_TIME, START_OF_TIME
from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import DIFF, EPOCH, listed, require_columns
from evercurrent.core.eventtime.panes.panes import PANE_INFO
from evercurrent.core.eventtime.windows.kinds import WINDOW_END, WINDOW_START

from .labels import key_labels, labels
from .recording import Recording, instants

NOT_VALUES = (WINDOW_START, WINDOW_END, *PANE_INFO, EPOCH, DIFF)
"""Columns of a view that are never the value of its panes."""

_TIME = pl.Datetime("us", "UTC")


@dataclass(frozen=True, slots=True, eq=False)
class SourceRows:
    """The rows of a source that has event time, as they came.

    ``frame`` has the columns of the source, ``_epoch`` and ``_diff``; ``label`` is the column that is written at the
    rows, if any. ``refused`` are frames of rows that came too late for the view: ``_epoch``, event time, and those of
    the source's other columns that they still have. ``unrecorded`` counts rows that came and are not in ``frame``.
    """

    frame: pl.DataFrame
    event_time: str
    label: str | None = None
    refused: Sequence[pl.DataFrame] = ()
    unrecorded: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """The part of a view that is drawn: the column written at panes, the columns of its key, and one key or all.

    ``is_timed``: its panes are early, on time or late.
    """

    value: str
    keys: tuple[str, ...] = ()
    key: tuple[object, ...] | None = None
    is_timed: bool = True


def gathered(
    view: str,
    deltas: pl.DataFrame,
    sources: Mapping[str, SourceRows],
    epochs: pl.DataFrame,
    watermarks: pl.DataFrame,
    choice: Choice,
    remarks: Sequence[str] = (),
) -> Recording:
    """Return the recording of a view, without rows and panes of epochs that are not in ``epochs``.

    Args:
        view: its name, for messages.
        deltas: its columns, ``_epoch`` and ``_diff``; a column ``timing`` holds early, on time or late. Without it the
            timing follows from the watermarks: early before one has passed the end of the window, on time in the epoch
            in which it does, late afterwards.
        sources: the rows of its sources, by name.
        epochs: ``_epoch``, ``processing_time``.
        watermarks: ``_epoch``, ``source``, ``watermark``, valid from the end of that epoch on. Every source that has
            event time is in it, with null at first.
        choice: what is drawn.
        remarks: sentences about what is missing.

    Raises:
        PlanError: a column that the view does not have.
        InputError: the view has no pane of the key.
    """
    require_columns(f"timeline of view {view!r}", deltas.schema, [choice.value, *choice.keys])
    epochs = epochs.select(pl.col(EPOCH).cast(pl.UInt64), pl.col("processing_time").cast(_TIME))
    moves = (
        _changes(watermarks)
        .with_columns(pl.col(EPOCH).cast(pl.UInt64))
        .join(epochs, on=EPOCH, how="inner", maintain_order="left")
    )
    zone = _zone(source.frame.schema[source.event_time] for source in sources.values())
    rows = [_rows(name, source, epochs, moves, choice, zone) for name, source in sources.items()]
    row_count = sum(source.frame.height + source.unrecorded for source in sources.values())
    recorded_count = sum(
        source.frame.join(epochs, on=EPOCH, how="semi").height for source in sources.values()
    )
    return Recording(
        pl.concat([_row_schema(zone).to_frame(), *rows]),
        moves.select("processing_time", "watermark", "source"),
        _panes(view, deltas, epochs, watermarks["source"].unique(maintain_order=True), moves, choice),
        row_count - recorded_count,
        tuple(remarks),
    )


def _changes(watermarks: pl.DataFrame) -> pl.DataFrame:
    """Return the entries in which the watermark of a source differs from the entry before."""
    mark = pl.col("watermark")
    return watermarks.sort(EPOCH, maintain_order=True).filter(mark.ne_missing(mark.shift(1).over("source")))


def _row_schema(zone: str | None) -> pl.Schema:
    return pl.Schema(
        {
            "event_time": pl.Datetime("us", zone),
            "processing_time": _TIME,
            "label": pl.String(),
            "diff": pl.Int64(),
            "source": pl.String(),
            "key": pl.String(),
            "standing": pl.String(),
        }
    )


def _zone(dtypes: Iterable[pl.DataType]) -> str | None:
    """Return the first time zone of these types."""
    return next(
        (dtype.time_zone for dtype in dtypes if isinstance(dtype, pl.Datetime) and dtype.time_zone), None
    )


def _rows(
    name: str,
    source: SourceRows,
    epochs: pl.DataFrame,
    moves: pl.DataFrame,
    choice: Choice,
    zone: str | None,
) -> pl.DataFrame:
    """Return the rows of a source in the form of a recording, only those of the chosen key where the source has its columns."""
    rows = source.frame.filter(pl.col(source.event_time).is_not_null()).join(epochs, on=EPOCH, how="semi")
    has_keys = all(key in rows.columns for key in choice.keys)
    if has_keys:
        rows = rows.filter(_is_chosen(choice))
    times = _times(rows[source.event_time])
    label = None if source.label is None else labels(rows[source.label])
    columns = {
        "event_time": times.cast(pl.Datetime("us", zone)),
        "processing_time": _seen(rows, epochs),
        "label": label,
        "diff": rows[DIFF],
        "source": pl.Series([name]).new_from_index(0, rows.height),
        "key": key_labels(rows, choice.keys) if has_keys else None,
        "standing": _standings(rows, times, source.refused, moves.filter(pl.col("source") == name)),
    }
    return pl.DataFrame(columns, schema=_row_schema(zone))


def _is_chosen(choice: Choice) -> pl.Expr:
    """Return whether a row or pane has the chosen key; null is a key like any other."""
    if choice.key is None:
        return pl.lit(True)
    pairs = zip(choice.keys, choice.key, strict=True)
    return pl.all_horizontal(pl.lit(True), *(pl.col(name).eq_missing(pl.lit(value)) for name, value in pairs))


def _times(column: pl.Series) -> pl.Series:
    """Return the instants of a column of times or dates."""
    return instants(column.cast(pl.Datetime("us")) if column.dtype == pl.Date else column)


def _seen(frame: pl.DataFrame, epochs: pl.DataFrame) -> pl.Series:
    """Return the processing time of each row, by its epoch; a column of that name may have another meaning."""
    return frame.select(EPOCH).join(epochs, on=EPOCH, how="left", maintain_order="left")["processing_time"]


def _standings(
    rows: pl.DataFrame, times: pl.Series, refused: Sequence[pl.DataFrame], moves: pl.DataFrame
) -> pl.Series:
    """Mark rows as late that are behind the watermark before their epoch, and those in ``refused`` as refused."""
    is_late = times < _watermark_at(rows[EPOCH], moves, before=True)
    is_refused = pl.Series([False], dtype=pl.Boolean).new_from_index(0, rows.height)
    for frame in refused:
        is_refused |= _are_in(rows, frame)
    return pl.select(
        standing=pl.when(is_refused).then(pl.lit("refused")).when(is_late).then(pl.lit("late"))
    ).to_series()


def _are_in(rows: pl.DataFrame, some: pl.DataFrame) -> pl.Series:
    """Return whether each row is in another frame, by the columns that both have."""
    shared = [name for name, dtype in rows.schema.items() if some.schema.get(name) == dtype and name != DIFF]
    others = some.select(*shared, pl.lit(True).alias(DIFF)).unique()
    joined = rows.select(shared).join(others, on=shared, how="left", nulls_equal=True, maintain_order="left")
    return joined[DIFF].fill_null(False)


def _watermark_at(epochs: pl.Series, moves: pl.DataFrame, *, before: bool) -> pl.Series:
    """Return the watermark of one source at the end of these epochs, or of those before them, in microseconds."""
    marks = pl.DataFrame({EPOCH: moves[EPOCH], "mark": instants(moves["watermark"])})
    marks = marks.sort(EPOCH, maintain_order=True).unique(EPOCH, keep="last", maintain_order=True)
    epochs_in_order = pl.DataFrame({EPOCH: epochs.cast(pl.UInt64)}).with_row_index("row").sort(EPOCH)
    joined = epochs_in_order.join_asof(marks, on=EPOCH, strategy="backward", allow_exact_matches=not before)
    return joined.sort("row")["mark"].fill_null(START_OF_TIME)


def _panes(
    view: str,
    deltas: pl.DataFrame,
    epochs: pl.DataFrame,
    timed: pl.Series,
    moves: pl.DataFrame,
    choice: Choice,
) -> pl.DataFrame:
    """Return the deltas of the view in the form of a recording."""
    timed = timed if choice.is_timed else timed.clear()
    emitted = deltas.filter(_is_chosen(choice)).join(epochs, on=EPOCH, how="semi")
    if choice.key is not None and deltas.height and not emitted.height:
        all_keys = key_labels(deltas.select(choice.keys).unique().sort(choice.keys), choice.keys)
        raise InputError(
            f"timeline of view {view!r}: it has emitted nothing for the key {choice.key!r}; its keys are {listed(all_keys)}"
        )
    bounds = [_bound(emitted, column) for column in (WINDOW_START, WINDOW_END)]
    return pl.DataFrame(
        [
            key_labels(emitted, choice.keys),
            *bounds,
            labels(emitted[choice.value]),
            emitted[DIFF].alias("diff"),
            emitted[EPOCH].alias("epoch"),
            _seen(emitted, epochs),
            emitted["timing"]
            if "timing" in emitted.columns
            else _timings(emitted[EPOCH], bounds[1], timed, moves),
        ]
    )


def _bound(emitted: pl.DataFrame, name: str) -> pl.Series:
    """Return a bound of the windows; null where the view has no windows."""
    if name not in emitted.columns:
        return pl.Series(name, [None], pl.Datetime("us")).new_from_index(0, emitted.height)
    return emitted[name].cast(pl.Datetime("us")) if emitted.schema[name] == pl.Date else emitted[name]


def _timings(epochs: pl.Series, ends: pl.Series, sources: pl.Series, moves: pl.DataFrame) -> pl.Series:
    """Return early, on time or late by the least watermark of these sources; null without sources."""
    if sources.is_empty():
        return pl.Series("timing", [None], pl.String).new_from_index(0, len(epochs))
    least = []
    for before in (False, True):
        marks = [
            _watermark_at(epochs, moves.filter(pl.col("source") == name), before=before).alias(name)
            for name in sources
        ]
        least.append(pl.DataFrame(marks).min_horizontal())
    end = instants(ends, END_OF_TIME)
    return pl.select(
        timing=pl.when(least[0] < end)
        .then(pl.lit("EARLY"))
        .when(least[1] < end)
        .then(pl.lit("ON_TIME"))
        .otherwise(pl.lit("LATE"))
    ).to_series()
