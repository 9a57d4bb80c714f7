"""The timeline of a view, from what an engine keeps of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import polars as pl

from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import EPOCH, listed, require_columns, require_texts
from evercurrent.core.state.ledger import Refused

from ...epochs.run_log import RunLog
from ...plan.nodes import BOUNDS, PlanId
from ...plan.plan import Plan
from .drawing import Look
from .gathering import NOT_VALUES, Choice, SourceRows
from .span import Bound, span_of
from .timeline import Timeline, timeline_of

Key = object | Sequence[object] | Mapping[str, object]
"""A key: the value of its column, or the values of several, in order or by name."""


class RecordedRun(Protocol):
    """The records that an engine keeps of a run."""

    @property
    def log(self) -> RunLog:
        """The times of epochs, the watermarks after them, and the recorded rows."""
        ...

    @property
    def refused(self) -> Iterable[Refused]:
        """The entries of the ledger."""
        ...


def timeline_of_view(
    name: str,
    plan: Plan,
    place: PlanId,
    deltas: pl.DataFrame,
    run: RecordedRun,
    *,
    value: str | None,
    label: str | None,
    key: Key | None,
    title: str | None,
    subtitle: str,
    look: Look,
    start: Bound = None,
    end: Bound = None,
) -> Timeline:
    """Return the timeline of a view at a place of a plan, from its deltas and the records of the run.

    Raises:
        PlanError: a column does not exist, or the view has no such key.
        InputError: the view has no pane of the key, or ``start`` or ``end`` is no time.
    """
    where = f"timeline of view {name!r}"
    keys = pane_keys(plan, place)
    schema, is_timed = plan[place].schema, _grouping(plan, place) in plan.windowed
    column_names = {
        name: column for name, column in (("value", value), ("label", label)) if column is not None
    }
    require_texts(where, **column_names)
    choice = Choice(_value(where, schema, keys, value), keys, _key(where, keys, key), is_timed)
    sources = _sources(where, plan, place, run, label or None, choice)
    log = run.log
    timed = log.watermarks().filter(pl.col("source").is_in(list(sources)))
    return timeline_of(
        name,
        deltas,
        sources,
        log.epochs(),
        timed,
        choice,
        remarks=_remarks(log, sources),
        title=title,
        subtitle=subtitle,
        look=replace(look, span=span_of(where, start, end, _event_time_type(sources))),
    )


def _event_time_type(sources: Mapping[str, SourceRows]) -> pl.DataType:
    """Return the type of event time, that of the first source with a zone if there are several."""
    types = [source.frame.schema[source.event_time] for source in sources.values()]
    zoned = [dtype for dtype in types if isinstance(dtype, pl.Datetime) and dtype.time_zone]
    return next(iter([*zoned, *types]), pl.Datetime("us"))


def _upstream(plan: Plan, place: PlanId) -> Iterator[PlanId]:
    """Yield a place and all places from which it is computed, each once."""
    seen, pending = {place}, [place]
    while pending:
        at = pending.pop()
        yield at
        new = [each for each in plan[at].inputs if each not in seen]
        seen.update(new)
        pending.extend(new)


def pane_keys(plan: Plan, place: PlanId) -> tuple[str, ...]:
    """Return the key of the nearest grouping, as far as the view still has its columns."""
    grouping = _grouping(plan, place)
    keys = () if grouping is None else plan[grouping].operation.grouped_by or ()
    return tuple(name for name in keys if name in plan[place].schema and name not in BOUNDS)


def _grouping(plan: Plan, place: PlanId) -> PlanId | None:
    """Return the grouping nearest to a place, if exactly one path leads to it."""
    while len(plan[place].inputs) == 1:
        if plan[place].operation.grouped_by is not None:
            return place
        (place,) = plan[place].inputs
    return None


def _value(where: str, schema: pl.Schema, keys: Sequence[str], chosen: str | None) -> str:
    """Return the column that is written at panes: by default the first one that is neither key nor bound."""
    if chosen is not None:
        require_columns(where, schema, [chosen])
        return chosen
    candidates = [name for name in schema if name not in (*keys, *NOT_VALUES)]
    if not candidates:
        raise PlanError(
            f"{where}: it has no column besides its key; choose the one to write: value= one of {listed(schema)}"
        )
    return candidates[0]


def _key(where: str, keys: Sequence[str], key: Key | None) -> tuple[object, ...] | None:
    """Return the chosen key in the order of its columns."""
    if key is None:
        return None
    if isinstance(key, Mapping):
        if set(key) != set(keys):
            raise PlanError(f"{where}: key= has {listed(map(str, key))}; the key is {listed(keys)}")
        return tuple(key[name] for name in keys)
    values = tuple(key) if isinstance(key, list | tuple) else (key,)
    if len(values) != len(keys):
        raise PlanError(f"{where}: key={key!r} has {len(values)} values; the key is {listed(keys)}")
    return values


def _sources(
    where: str, plan: Plan, place: PlanId, run: RecordedRun, label: str | None, choice: Choice
) -> dict[str, SourceRows]:
    """Return the sources of a view that have event time, with their recorded rows."""
    log, rows_by_source, schemas = run.log, {}, {}
    places = sorted(_upstream(plan, place))
    judges = [f"{plan.name_of(at)}:" for at in places]
    for at in places:
        source, event_time, schema = plan.inputs.get(at), plan[at].event_time, plan[at].schema
        if source is not None and event_time is not None:
            schemas[source.name] = schema
            others = (event_time.column, *choice.keys)
            rows_by_source[source.name] = SourceRows(
                log.rows(source.name, schema),
                event_time.column,
                _label(schema, others, choice.value) if label is None else label if label in schema else None,
                _refused(run.refused, source.name, event_time.column, judges),
                log.unrecorded.get(source.name, 0) if log.records_rows else 0,
            )
    if label is not None and not any(source.label for source in rows_by_source.values()):
        columns_of_sources = "; ".join(f"{name!r} has {listed(schema)}" for name, schema in schemas.items())
        raise PlanError(
            f"{where}: no source has a column label={label!r}; {columns_of_sources or 'none has event time'}"
        )
    return rows_by_source


def _label(schema: pl.Schema, others: Sequence[str], value: str) -> str | None:
    """Return the default column that is written at rows: the one named like the value, else the only one of numbers."""
    if value in schema and value not in others:
        return value
    numbers = [name for name, dtype in schema.items() if dtype.is_numeric() and name not in others]
    return numbers[0] if len(numbers) == 1 else None


def _refused(
    entries: Iterable[Refused], source: str, event_time: str, judges: Sequence[str]
) -> list[pl.DataFrame]:
    """Return the rows of a source that were too late for one of these nodes, a frame for each set of columns."""
    frames: dict[tuple[str, ...], list[pl.DataFrame]] = {}
    for entry in entries:
        is_ours = source in entry.source.split(", ") and any(judge in entry.reason for judge in judges)
        is_lost = entry.watermark is not None and not entry.elsewhere
        if is_lost and is_ours and event_time in entry.frame.columns:
            frame = entry.frame.with_columns(pl.lit(entry.epoch, pl.UInt64).alias(EPOCH))
            frames.setdefault(tuple(frame.columns), []).append(frame)
    return [pl.concat(same) for same in frames.values()]


def _remarks(log: RunLog, sources: Mapping[str, SourceRows]) -> list[str]:
    """Return remarks on data that the engine did not keep."""
    lines = []
    if not log.records_rows and sources:
        lines.append("Input rows were not recorded; Engine(record=True) keeps them.")
    first = log.epochs()[EPOCH].min()
    if isinstance(first, int) and first > 1:
        lines.append(
            f"Epochs before {first:,} are no longer kept; Engine(retain=Retain(epochs=...)) keeps more."
        )
    return lines
