"""The checks of windows, triggers, modes and lateness on a collection, and what these add to the plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import polars as pl

from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import listed, require_columns
from evercurrent.core.eventtime.panes.panes import PANE_INFO, Mode
from evercurrent.core.eventtime.triggers.kinds import Trigger
from evercurrent.core.eventtime.windows.kinds import (
    Given,
    Window,
)
from evercurrent.core.eventtime.windows.window_tracker import TRIGGER_INPUT
from evercurrent.core.operators.group.accumulators import KINDS
from evercurrent.core.operators.group.aggregates import Aggregation, Column

from ..expressions import compared_columns, output_schema
from ..plan.nodes import BOUNDS, EventTime, PlanId, Stamp, WindowedGroup, Windowing
from ..plan.plan import Plan
from ..plan.windowed import HELD, is_of_panes, is_windowed
from .aggregation import aggregation
from .grouping import identity
from .triggers import after_watermark, with_late_part

STAMPS: tuple[Stamp, ...] = ("end", "start", "earliest", "latest", "watermark")
MODES: dict[str, Mode] = {
    "discarding": "discarding",
    "accumulating": "accumulating",
    "retracting": "retracting",
}


def windowing(where: str, plan: Plan, place: PlanId, window: object, stamp: object) -> Windowing:
    """Return the windowing of ``collection.window(...)``, with panes dated by ``stamp``.

    Raises:
        PlanError: it is not a window, there is no event time or a mix with ingress time, the stamp is unknown, or a column of
            rows has the name of a bound.
    """
    schema, event_time = plan[place].schema, plan[place].event_time
    if window is None:
        require_bounds(where, schema)
        window = Given()
    if not isinstance(window, Window):
        raise PlanError(
            f"{where}: {window!r} is not a window; there are fixed, sliding, sessions, calendar, global_window and others"
            + (f", as in ec.fixed({window!r})" if isinstance(window, str) else "")
        )
    if stamp not in STAMPS:
        raise PlanError(f"{where}: unknown timestamp={stamp!r}; there are {listed(STAMPS)}")
    if event_time is None and window.needs_event_time:
        raise PlanError(
            f"{where}: there is no event time; declare the source with event_time=, keep that column, or name "
            "another with .with_event_time(...)"
        )
    _forbid_mixed_times(where, plan, place)
    if not (window.is_given or window.is_global):
        _forbid_columns_of_bounds(where, plan, place)
    return Windowing(window, stamp)


def _forbid_columns_of_bounds(where: str, plan: Plan, place: PlanId) -> None:
    """Check that no column that is not the bound of an earlier window would be replaced by one.

    Panes of another engine are put into windows as its own are.
    """
    names = [name for name in BOUNDS if name in plan[place].schema]
    if not names or is_windowed(plan, place) or is_of_panes(plan, place):
        return
    several, renamed = len(names) > 1, ", ".join(f"{name!r}: ..." for name in names)
    what = "as columns and as bounds of windows" if several else "as a column and as a bound of windows"
    columns = "columns" if several else "column"
    as_given = "; if they are the bounds of windows, .window() without arguments uses them" if several else ""
    raise PlanError(
        f"{where}: {' and '.join(map(repr, names))} would appear twice, {what}; rename the {columns} before: "
        f".rename({{{renamed}}}){as_given}"
    )


def require_bounds(where: str, schema: pl.Schema) -> None:
    """Check that the columns of window bounds are there."""
    if missing := [name for name in BOUNDS if name not in schema]:
        raise PlanError(
            f"{where}: column {listed(missing)} is missing, so there are no windows of panes to use again; "
            "group by windows upstream and keep their bounds, or give a window"
        )
    for name in BOUNDS:
        dtype = schema[name]
        if not (isinstance(dtype, pl.Datetime) and dtype.time_unit == "us"):
            raise PlanError(
                f"{where}: column {name!r} is {dtype}; bounds of windows are pl.Datetime('us'): cast it"
            )


def _forbid_mixed_times(where: str, plan: Plan, place: PlanId) -> None:
    timed = [(each.name, each.watermark) for each in plan.sources_of(place) if each.watermark is not None]
    ingress = [name for name, watermark in timed if watermark.stamps_rows]
    event = [name for name, watermark in timed if not watermark.stamps_rows]
    if ingress and event:
        raise PlanError(
            f"{where}: rows of {listed(ingress)} are dated by their arrival, those of {listed(event)} by their event time; "
            "a window over both has no meaning. Declare all of them with ingress_time(), or none"
        )


def triggered(
    where: str,
    declared: Windowing,
    schema: pl.Schema,
    trigger: object,
    early: object,
    late: object,
    always: object,
) -> Windowing:
    """Return the windowing with the trigger of ``collection.trigger(...)``.

    Raises:
        PlanError: it is not a trigger, a column is missing or of a wrong type, or both forms are given.
    """
    if trigger is not None and not (early is None and late is None):
        raise PlanError(f"{where}: give a trigger, or early= and late=, not both")
    if trigger is None and early is None and late is None:
        raise PlanError(f"{where}: no trigger is given; give one, or early= and late=")
    if trigger is None:
        trigger = after_watermark(early, "default" if late is None else late)  # type: ignore[arg-type]
    if not isinstance(trigger, Trigger):
        called = (
            f", and it has to be called, as in {name}(...)"
            if (name := getattr(trigger, "__name__", ""))
            else ""
        )
        raise PlanError(
            f"{where}: {trigger!r} is not a trigger; there are every, after_watermark, after_count and others{called}"
            + (f", as in ec.every({trigger!r})" if isinstance(trigger, str) else "")
        )
    trigger_inputs(where, schema, trigger)
    if not isinstance(always, bool) and always != "on_time":
        raise PlanError(f"{where}: always={always!r}; there are True, False and 'on_time'")
    return replace(declared, trigger=trigger, always="on_time" if always == "on_time" else bool(always))


def trigger_inputs(where: str, schema: pl.Schema, trigger: Trigger) -> tuple[Column, ...]:
    """Return the columns that a trigger adds up, computed row by row.

    Raises:
        PlanError: a column is missing or of a wrong type.
    """
    columns: dict[str, Column] = {}
    for part in trigger.every_part():
        columns |= {name: _summed(where, schema, name) for name in part.summed}
        columns |= {name: _flag(where, schema, name) for name in part.flags}
    return tuple(columns.values())


def _summed(where: str, schema: pl.Schema, name: str) -> Column:
    require_columns(where, schema, [name])
    column, dtype = pl.col(name), schema[name]
    if dtype == pl.String:
        column = column.str.len_bytes()
    elif dtype == pl.Binary:
        column = column.bin.size()
    elif not dtype.is_integer():
        raise PlanError(
            f"{where}: column {name!r} is {dtype}; bytes are counted of texts, or of whole numbers"
        )
    return Column(TRIGGER_INPUT + name, column.cast(pl.Int64).fill_null(0))


def _flag(where: str, schema: pl.Schema, name: str) -> Column:
    require_columns(where, schema, [name])
    if schema[name] != pl.Boolean:
        raise PlanError(f"{where}: column {name!r} is {schema[name]}; a trigger needs a Boolean column there")
    return Column(TRIGGER_INPUT + name, pl.col(name).fill_null(False).cast(pl.Int64))


def refined(where: str, declared: Windowing, mode: object, regroup: bool) -> Windowing:
    """Return the windowing with the mode of ``collection.accumulate(...)``.

    Raises:
        PlanError: the mode is unknown.
    """
    if not isinstance(mode, str) or mode not in MODES:
        raise PlanError(f"{where}: unknown mode {mode!r}; there are {listed(MODES)}")
    if regroup and mode != "accumulating":
        raise PlanError(
            f"{where}: allow_regrouping= goes with accumulating panes; {mode} ones may be regrouped anyway"
        )
    return replace(declared, mode=MODES[mode], regroups=bool(regroup))


def windowed_group(
    where: str,
    plan: Plan,
    place: PlanId,
    windowing: Windowing,
    keys: tuple[Column, ...],
    aggs: tuple[object, ...],
    named_aggs: Mapping[str, object],
) -> tuple[WindowedGroup, pl.Schema, EventTime | None]:
    """Return the operation of ``group_by(keys).agg(...)`` over windows, its columns, and the event time of its panes.

    Raises:
        PlanError: the trigger would lose rows or never fire, names are taken, or window bounds are missing.
    """
    windowing = replace(windowing, trigger=with_late_part(windowing.trigger, windowing.lateness))
    schema, event_time = plan[place].schema, plan[place].event_time
    is_global = windowing.window.is_global
    bounds = () if is_global else BOUNDS
    keys = tuple(key for key in keys if key.copies not in bounds or key.name != key.copies)
    _check_windowing(where, plan, place, windowing)
    stamped, dated = _stamped(where, schema, event_time, windowing)
    names = tuple(key.name for key in keys)
    if reserved := [name for name in (*names, *named_aggs) if name in bounds]:
        raise PlanError(f"{where}: {listed(reserved)} is the name of a window bound; choose another name")
    _forbid_name_of_date(where, event_time, windowing, (*names, *named_aggs))
    inside = schema
    if windowing.stamp == "earliest" and not is_global:
        inside = pl.Schema({**schema, HELD: schema["window_end"]})
    compiled = aggregation(
        where, inside, (*names, *bounds), aggs, {**named_aggs, **stamped},
        None if event_time is None else event_time.column,
        empty_panes=bool(windowing.always) and windowing.mode == "discarding",
    )  # fmt: skip
    _check_differences(where, plan, place, windowing, compiled)
    key_types = output_schema(schema, keys, where) if keys else pl.Schema()
    columns = {**key_types, **{name: schema[name] for name in bounds}, **compiled.schema}
    columns |= _columns_of_panes(where, schema, event_time, windowing, columns)
    inputs = trigger_inputs(where, schema, windowing.trigger)
    operation = WindowedGroup(
        names,
        identity(keys, compiled),
        windowing,
        event_time or EventTime("window_end", -1),
        compared_columns(inputs),
        keys,
        compiled,
        inputs,
    )
    return operation, pl.Schema(columns), dated


def _check_windowing(where: str, plan: Plan, place: PlanId, windowing: Windowing) -> None:
    """Check that windows, trigger, lateness and mode go together, over the rows of this node.

    Raises:
        PlanError: they do not.
    """
    if not windowing.window.is_global:
        require_bounds(where, plan[place].schema)
    if windowing.window.shifted_by_key and plan[place].event_time is None:
        # Their bounds so far are those of windows that are not shifted, from which its windows do not follow.
        raise PlanError(
            f"{where}: windows that are shifted by key are computed from event time when rows are grouped, and its column "
            "is dropped, replaced or unknown here; keep it as it is, or put .window(...) behind what changes it"
        )
    check_trigger(where, plan, place, windowing)
    if not windowing.window.may_close and windowing.lateness is not None:
        raise PlanError(
            f"{where}: these windows depend on all rows of their key, so no row can be purged; leave out "
            ".lateness(...), or use fixed, sliding, calendar or session windows"
        )
    _check_discarding(where, plan, place, windowing)
    _forbid_counts_below_zero(where, plan, place, windowing)


def _columns_of_panes(
    where: str,
    schema: pl.Schema,
    event_time: EventTime | None,
    windowing: Windowing,
    columns: Mapping[str, pl.DataType],
) -> Mapping[str, pl.DataType]:
    """Return the columns that panes have besides these: the watermark that dates them, and information about them.

    Raises:
        PlanError: a name is taken.
    """
    dated: dict[str, pl.DataType] = {}
    if windowing.stamp == "watermark":
        _forbid_name_of_date(where, event_time, windowing, columns)
        dated = {_dated_by(where, schema, event_time): pl.Datetime("us", _zone(schema, event_time))}
    if not windowing.info:
        return dated
    if reserved := [name for name in PANE_INFO if name in columns or name in dated]:
        raise PlanError(f"{where}: {listed(reserved)} is a column of the pane information; rename yours")
    return {**dated, **PANE_INFO}


def _stamped(
    where: str, schema: pl.Schema, event_time: EventTime | None, windowing: Windowing
) -> tuple[dict[str, pl.Expr], EventTime | None]:
    """Return the aggregate that dates a pane, if one is needed, and the column of the event time of panes."""
    is_global = windowing.window.is_global
    if windowing.stamp == "end":
        return {}, None if is_global else EventTime("window_end", -1)
    if windowing.stamp == "start":
        return {}, None if is_global else EventTime("window_start")
    name = _dated_by(where, schema, event_time)
    if windowing.stamp == "watermark":
        return {}, EventTime(name)
    column = pl.col(name)
    if windowing.stamp == "earliest":
        stamped = column.min() if is_global else pl.col(HELD).min()
        return {name: stamped}, EventTime(name)
    return {name: column.max()}, EventTime(name)


def _dated_by(where: str, schema: pl.Schema, event_time: EventTime | None) -> str:
    if event_time is None or event_time.column not in schema or event_time.shift:
        raise PlanError(
            f"{where}: panes are to be dated by a column of event time, and there is none; use timestamp='end'"
        )
    return event_time.column


def _forbid_name_of_date(
    where: str, event_time: EventTime | None, windowing: Windowing, names: Iterable[str]
) -> None:
    """Check that no key and no aggregate has the name of the column that dates panes, which would take its place."""
    if windowing.stamp in ("end", "start") or event_time is None or event_time.column not in names:
        return
    raise PlanError(
        f"{where}: {event_time.column!r} is the column that dates panes, by timestamp={windowing.stamp!r}; give your key or "
        "aggregate another name"
    )


def _zone(schema: pl.Schema, event_time: EventTime | None) -> str | None:
    dtype = schema[event_time.column] if event_time is not None else None
    return dtype.time_zone if isinstance(dtype, pl.Datetime) else None


def check_trigger(where: str, plan: Plan, place: PlanId, windowing: Windowing) -> None:
    """Check that the trigger will fire, and will not finish while rows may still come.

    Raises:
        PlanError: it would never fire, or finish while rows may still come.
    """
    trigger = windowing.trigger
    sources = [source for source in plan.sources_of(place) if not source.bounded]
    if windowing.window.is_global and trigger.waits_for_watermark_only and sources:
        raise PlanError(
            f"{where}: the trigger waits for the end of the global window, and {listed(source.name for source in sources)} "
            "does not end, so it would never fire; give early=, another trigger, or declare the source bounded=True"
        )
    if trigger.finishes and not (trigger.finishes_on_time and windowing.lateness == 0):
        way = (
            "give late= for the rows that come after the watermark, or .lateness('0s') to have none of them"
            if trigger.finishes_on_time
            else "put it into repeat(...)"
        )
        raise PlanError(
            f"{where}: the trigger finishes, and rows that come after that would never be in a pane; {way}"
        )


def _check_discarding(where: str, plan: Plan, place: PlanId, windowing: Windowing) -> None:
    if windowing.mode != "discarding" or not windowing.window.may_merge:
        return
    if plan.may_retract(place):
        raise PlanError(
            f"{where}: discarding panes of windows that merge do not keep their rows, and rows may be retracted here, "
            "which can split such a window; use .accumulate('retracting')"
        )


def _forbid_counts_below_zero(where: str, plan: Plan, place: PlanId, windowing: Windowing) -> None:
    """Check that windows made of rows, or dated by them, are not declared over rows whose diffs may sum below zero.

    For a trusted source this cannot be checked before such a row comes: then the epoch is refused.
    """
    is_dated_by_rows = windowing.stamp in ("earliest", "latest")
    if not (windowing.window.session_gap is not None or windowing.window.depends_on_key or is_dated_by_rows):
        return
    certain = [at for at in plan.below_zero_by(place) if at not in plan.inputs]
    if not certain:
        return
    node = plan[certain[0]]
    reason = node.operation.why_below_zero(plan.name_of(node.inputs[0]))
    what = (
        f"panes with timestamp={windowing.stamp!r} are dated by"
        if is_dated_by_rows
        else "these windows are made of"
    )
    raise PlanError(
        f"{where}: a row may have a count below zero here, as {reason}; {what} the rows that are there, and such a row "
        "is not. Put .unique() before .window(...), which keeps each row that is there once. Or leave rows out with .filter(...) or "
        ".join(..., how='anti') instead of subtracting them, or count them: .group_by(every column).agg(n=pl.len())"
        ".filter(pl.col('n') > 0).with_event_time(...)"
    )


def _check_differences(
    where: str, plan: Plan, place: PlanId, windowing: Windowing, compiled: Aggregation
) -> None:
    """Check that retractions can be expressed as differences, where panes discard their rows."""
    if windowing.mode != "discarding" or not plan.may_retract(place):
        return
    linear = {
        aggregate.output
        for aggregate in compiled.aggregates
        if (additive := aggregate.additive) is not None and KINDS[additive.kind].is_sum
    }
    if others := [column.name for column in compiled.finished if column.copies not in linear]:
        raise PlanError(
            f"{where}: {listed(others)}: discarding panes do not keep their rows, so where rows may be retracted later "
            "they can hold only sums and counts, as differences; use .accumulate('retracting')"
        )


def require_time(where: str, name: str, dtype: pl.DataType) -> None:
    """Check that a column may be event time."""
    if not (dtype == pl.Date or isinstance(dtype, pl.Datetime)):
        raise PlanError(f"{where}: event_time column {name!r} is {dtype}; use pl.Datetime('us')")


def forbid_unused_answers(where: str, windowing: Windowing | None) -> None:
    """Check that a trigger, a mode or a lateness is followed by the grouping that it is for.

    Raises:
        PlanError: it is not, so that it would have no effect.
    """
    if windowing is not None and windowing != Windowing(windowing.window, windowing.stamp):
        raise PlanError(
            f"{where}: .trigger(...), .accumulate(...), .lateness(...) and .with_pane_info() apply to the grouping that "
            "follows, but none follows; put them before .group_by(...).agg(...)"
        )
