"""Why a row of a view is there, or is not: the stages are followed back to the one that decides it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from evercurrent.core.data.schema import DIFF, listed
from evercurrent.core.group.aggregates import Column
from evercurrent.core.state.ledger import Refused

from ..expressions.elementwise import elementwise
from ..plan.nodes import BOUNDS, PlanId
from ..plan.shapes import (
    Assigned,
    Chosen,
    Computed,
    Exploded,
    First,
    Grouped,
    InTurn,
    LastOnes,
    Once,
    Paired,
    Panes,
    TooLate,
    Union,
    Unknown,
    Unnested,
)
from .drawing import shown_rows
from .lineage import chosen_rows, newest_first
from .rows import Rows
from .stages import above, copied, keys_across, sides_of, values, with_keys
from .traces import UntraceableError, late_rows, traced

Windows = Callable[[PlanId, pl.DataFrame], Sequence[str]]
"""Explains what the open windows of a grouping wait for, of those with these values."""

MOST = 3

NULL_KEY, PADDED = "null key ", "pad with nulls"
"""Labels of the stages by which a join passes rows with a null key on."""


class Reasons:
    """Explains rows by what is kept of the stages. ``refused`` are the entries of the ledger."""

    def __init__(self, rows: Rows, refused: Sequence[Refused], windows: Windows) -> None:
        self._rows = rows
        self._plan = rows.plan
        self._refused = refused
        self._windows = windows

    def of(self, place: PlanId, given: pl.DataFrame) -> list[str]:
        """Explain line by line why the rows of a stage with these values are there, or why there is none."""
        if not self._rows.holds(place):
            return [f"{self._name(place)} keeps no rows, so it is not known whether it has {_pairs(given)}"]
        found = self._rows.rows(place, given)
        if found.filter(pl.col(DIFF) > 0).height:
            return [
                f"{self._name(place)} has it:",
                *_indented(shown_rows(newest_first(found, ()))),
                *self._there(place, found),
            ]
        lines = [f"{self._name(place)} has no row with {_pairs(given)}"]
        pending = [(place, given)]
        while pending:
            more, pending = self._missing(*pending.pop(), pending)
            lines += more
        return lines

    # A row that is there

    def _there(self, place: PlanId, found: pl.DataFrame) -> list[str]:
        try:
            trace = traced(self._rows, place, found)
        except UntraceableError as reason:
            return [f"where it comes from is not known: {reason}"]
        lines = []
        for at, here in trace.stages.items():
            if at in trace.ends:
                lines.append(f"{self._name(at)} has {_count(trace.ends[at])}:")
                lines += _indented(shown_rows(newest_first(trace.ends[at], ())))
            else:
                lines += self._step(
                    at, here, [source for source, to in trace.edges if to == at], trace.stages
                )
        return [*lines, *trace.remarks]

    def _step(
        self, at: PlanId, here: pl.DataFrame, sources: Sequence[PlanId], stages: dict[PlanId, pl.DataFrame]
    ) -> list[str]:
        """Explain in a line how rows of a stage were made."""
        node = self._plan[at]
        names = [self._name(source) for source in node.inputs]
        match node.operation.shape:
            case Chosen():
                return [f"{node.label} lets it pass"]
            case Grouped(keys=keys):
                made = f"made of {_count(self._below(node.inputs[0], stages))} of {names[0]}"
                return [
                    f"{_these('group', here.select(keys))} {made}" if keys else f"the one group is {made}"
                ]
            case Panes(keys=keys):
                window = [name for name in (*keys, *BOUNDS) if name in here.columns]
                made = f"made of {_count(self._below(node.inputs[0], stages))} of {names[0]}"
                return [f"{_these('window', here.select(window))} {made}"]
            case Paired(kind=kind) as shape:
                if kind == "anti":
                    return [f"{names[1]} has no partner for it, which would keep it away"]
                alone = [
                    name for source, name in zip(node.inputs, names, strict=True) if source not in sources
                ]
                if alone and kind != "semi":
                    return [
                        f"{names[0] if alone[0] == names[1] else names[1]} has it, and {alone[0]} has no partner for it"
                    ]
                return [f"{names[0]} and {names[1]} have partners with {_on(shape)}"]
            case First(count=count, keys=keys):
                return [f"it is among the first {count}{' of its group' if keys else ''} ({node.label})"]
            case Once():
                below = self._below(node.inputs[0], stages)
                total = int(below.get_column(DIFF).sum()) if DIFF in below.columns else below.height
                return [f"it stands for {total} equal row{'' if total == 1 else 's'} of {names[0]}"]
            case Union() if not any(map(self._is_of_null_keys, node.inputs)):
                return [f"it comes from {listed([self._name(source) for source in sources])}"]
            case Computed() if not self._plan.views_at(at):
                return [f"it is computed by {node.label}"]
            case _:
                return []

    def _below(self, source: PlanId, stages: dict[PlanId, pl.DataFrame]) -> pl.DataFrame:
        below = stages.get(source)
        if below is None or not below.height:
            return pl.DataFrame({DIFF: pl.Series([], dtype=pl.Int64)})
        return self._rows.rows(source, below) if self._rows.holds(source) else below

    # A row that is not there

    def _missing(
        self, place: PlanId, given: pl.DataFrame, pending: list[tuple[PlanId, pl.DataFrame]]
    ) -> tuple[list[str], list[tuple[PlanId, pl.DataFrame]]]:
        """Return why a stage has no such row, and the stages that are to be explained next."""
        node = self._plan[place]
        if place in self._plan.inputs:
            return self._not_in_source(place, given), pending
        source = node.inputs[0]
        if not all(map(self._rows.holds, node.inputs)):
            absent = next(each for each in node.inputs if not self._rows.holds(each))
            return [f"why is not known: {self._name(absent)} keeps no rows; {self._remedy(absent)}"], pending
        below = self._name(source)
        match node.operation.shape:
            case Chosen(condition=condition):
                rows = self._rows.rows(source, given)
                if not rows.height:
                    return [], [*pending, (source, given)]
                return _refused_by(node.label, condition, below, rows), pending
            case Computed() | Exploded() | Unnested() | Assigned():
                return self._not_computed(place, given, pending)
            case Grouped(keys=keys, key_columns=columns):
                return self._no_group(place, given, keys, columns, pending)
            case Panes() as grouped:
                return self._no_pane(place, grouped, given, pending)
            case Paired() as join:
                return self._no_pair(place, join, given, pending)
            case First() as top:
                rows = self._rows.rows(source, given)
                if not rows.height:
                    return [], [*pending, (source, given)]
                return self._outranked(place, top, rows), pending
            case Union():
                inputs = [each for each in node.inputs if not self._is_of_null_keys(each)]
                lines = (
                    [f"it is in none of the {len(inputs)} inputs of {node.label}"] if len(inputs) > 1 else []
                )
                return lines, [*pending, *((each, given) for each in reversed(inputs))]
            case InTurn() if self._rows.rows(source, given).height:
                return [
                    f"{below} has it, and it waits for its turn in event time: the watermark has not passed it"
                ], pending
            case TooLate():
                return [f"no row with {_pairs(given)} came too late"], pending
            case LastOnes() | Once():
                return [], [*pending, (source, given)]
            case Unknown():
                return [
                    f"which rows {node.label} makes is known to its function alone; look into {below}"
                ], pending
            case _:
                return [], [*pending, (source, given)]

    def _not_in_source(self, place: PlanId, given: pl.DataFrame) -> list[str]:
        name, lines = self._plan.inputs[place].name, []
        for entry in self._refused:
            if name in entry.source.split(", ") and set(given.columns) <= set(entry.frame.columns):
                rows = chosen_rows(entry.frame.select(given.columns), given)
                if rows.height:
                    lines.append(
                        f"source {name!r} has refused {_count(rows)} of these values in epoch {entry.epoch}: {entry.reason}"
                    )
        return lines or [
            f"source {name!r} has no row with {_pairs(given)}: none was pushed, or it was taken back"
        ]

    def _remedy(self, place: PlanId) -> str:
        names = [source.name for source in self._plan.sources_of(place)]
        return f"declare source {listed(names)} with retained=True, or a view here"

    def _not_computed(
        self, place: PlanId, given: pl.DataFrame, pending: list[tuple[PlanId, pl.DataFrame]]
    ) -> tuple[list[str], list[tuple[PlanId, pl.DataFrame]]]:
        node = self._plan[place]
        (source,) = node.inputs
        down = above(node, self._plan[source].schema, given)
        if not down.width:
            return [f"no row of {self._name(source)} gives {_pairs(given)} ({node.label})"], pending
        if not self._rows.rows(source, down).height:
            return [], [*pending, (source, down)]
        kept = _implied(node.operation.shape, given)
        return self._differs(place, given, kept), pending

    def _differs(self, place: PlanId, given: pl.DataFrame, kept: Sequence[str]) -> list[str]:
        """Show the rows that have some of the values and not the others."""
        rows = self._rows.rows(place, given.select(kept))
        others = [name for name in given.columns if name not in kept]
        if not rows.height:
            return [f"{self._name(place)} makes no row of those with {_pairs(given.select(kept))}"]
        return [
            f"{self._name(place)} has {_count(rows)} with {_pairs(given.select(kept))}, not with {_pairs(given.select(others))}:",
            *_indented(shown_rows(rows.select(*kept, *others, DIFF))),
        ]

    def _no_group(
        self,
        place: PlanId,
        given: pl.DataFrame,
        keys: Sequence[str],
        columns: Sequence[Column],
        pending: list[tuple[PlanId, pl.DataFrame]],
    ) -> tuple[list[str], list[tuple[PlanId, pl.DataFrame]]]:
        (source,) = self._plan[place].inputs
        named = [name for name in given.columns if name in keys]
        if not named:
            return [f"no group of {self._name(place)} has {_pairs(given)}"], pending
        if len(named) < given.width and self._rows.rows(place, given.select(named)).height:
            return self._differs(place, given, named), pending
        down = copied(columns, given.select(named))
        if down.width < len(named):
            rows = self._rows.rows(source, down)
            if not chosen_rows(
                with_keys(rows, [key for key in columns if key.name in named]), given.select(named)
            ).height:
                return [
                    f"no row of {self._name(source)} has the key {_pairs(given.select(named))}, which is computed"
                ], pending
        return [f"no group has {_pairs(given.select(named))}, as no row reaches it"], [
            *pending,
            (source, down),
        ]

    def _no_pane(
        self,
        place: PlanId,
        grouped: Panes,
        given: pl.DataFrame,
        pending: list[tuple[PlanId, pl.DataFrame]],
    ) -> tuple[list[str], list[tuple[PlanId, pl.DataFrame]]]:
        (source,) = self._plan[place].inputs
        named = [name for name in given.columns if name in (*grouped.keys, *BOUNDS)]
        if (
            named
            and len(named) < given.width
            and self._rows.holds(place)
            and self._rows.rows(place, given.select(named)).height
        ):
            return self._differs(place, given, named), pending
        lines = list(self._windows(place, given.select(named)))
        keys = [name for name in named if name not in BOUNDS]
        if not keys or lines:
            return lines or [f"no window has {_pairs(given)}"], pending
        down = copied(grouped.key_columns, given.select(keys))
        rows = self._rows.rows(source, down)
        if not rows.height:
            return [f"no row has the key {_pairs(given.select(keys))}"], [*pending, (source, down)]
        late = self._late(place, given.select(keys))
        return [
            f"{self._name(source)} has {_count(rows)} with {_pairs(given.select(keys))}, none of them in that window in time:",
            *_indented(shown_rows(newest_first(rows, ()))),
            *late,
        ], pending

    def _late(self, place: PlanId, keys: pl.DataFrame) -> list[str]:
        found = [
            frame
            for frame in late_rows(self._plan, self._rows.compiled, place)
            if set(keys.columns) <= set(frame.columns)
        ]
        late = [rows for frame in found if (rows := chosen_rows(frame, keys)).height]
        return [f"{_count(rows)} came too late, and are in the ledger" for rows in late[:1]]

    def _no_pair(
        self, place: PlanId, join: Paired, given: pl.DataFrame, pending: list[tuple[PlanId, pl.DataFrame]]
    ) -> tuple[list[str], list[tuple[PlanId, pl.DataFrame]]]:
        sides = self._plan[place].inputs
        names = [self._name(side) for side in sides]
        parts = sides_of(join, given)
        keys = (join.left_keys, join.right_keys)
        first = 0 if parts[0].width and not (join.kind == "right" and parts[1].width) else 1
        rows = self._rows.rows(sides[first], parts[first]) if parts[first].width else None
        if rows is None:
            return [f"no pair of {names[0]} and {names[1]} has {_pairs(given)}"], pending
        if not rows.height:
            if join.kind == "inner" or first == (1 if join.kind == "right" else 0):
                return [], [*pending, (sides[first], parts[first])]
            return [f"{names[first]} has no row with {_pairs(parts[first])}"], pending
        across = keys_across(rows, keys[first], keys[1 - first])
        partners = self._rows.rows(sides[1 - first], across)
        head = f"{names[first]} has {_count(rows)} of it:"
        if join.kind == "anti":
            return [
                head,
                *_indented(shown_rows(newest_first(rows, ()))),
                f"a partner in {names[1]} keeps it away:",
                *_indented(shown_rows(newest_first(partners, ()))),
            ], pending
        if not partners.height:
            if (
                not join.nulls_equal
                and across.select(pl.any_horizontal(pl.all().is_null())).to_series().all()
            ):
                return [
                    head,
                    *_indented(shown_rows(newest_first(rows, ()))),
                    f"its key is null, which matches nothing ({_on(join)})",
                ], pending
            lines = [
                head,
                *_indented(shown_rows(newest_first(rows, ()))),
                f"it has no partner in {names[1 - first]}, on {_on(join)}:",
            ]
            return lines, [*pending, (sides[1 - first], across.head(1))]
        kept = [
            column.name
            for column in join.columns
            if (column.left, column.right)[first] in parts[first].columns and column.name in given.columns
        ]
        return self._differs(place, given, kept), pending

    def _outranked(self, place: PlanId, top: First, rows: pl.DataFrame) -> list[str]:
        node = self._plan[place]
        (source,) = node.inputs
        row = rows.head(1)
        group = self._rows.rows(source, row.select(top.keys))
        ties = [name for name, dtype in node.schema.items() if not dtype.is_nested()]
        flags = [order.descending for order in top.order], [order.nulls_last for order in top.order]
        by = [order.column for order in top.order]
        ordered = group.sort(
            [*by, *ties],
            descending=[*flags[0], *[False] * len(ties)],
            nulls_last=[*flags[1], *[False] * len(ties)],
        )
        before = ordered.with_row_index("#").filter(chosen_mask(ordered, row.drop(DIFF)))["#"][0]
        rank = int(ordered[:before].get_column(DIFF).sum()) + 1
        kept = (
            self._rows.rows(place, row.select(top.keys))
            if top.keys
            else self._rows.rows(place, pl.DataFrame())
        )
        whose = f" of the group {_pairs(row.select(top.keys))}" if top.keys else ""
        stands = "stands for it" if top.count == 1 else "come before it"
        order = ", ".join(
            f"{each.column} {'descending' if each.descending else 'ascending'}" for each in top.order
        )
        return [
            f"{self._name(source)} has it, as number {rank}{whose} by {order or 'all columns'}; only the first {top.count} "
            f"{'is' if top.count == 1 else 'are'} kept ({node.label}). What {stands}:",
            *_indented(
                shown_rows(
                    kept.sort([*by, *ties], descending=[*flags[0], *[False] * len(ties)]),
                    most=top.count if top.count < MOST else MOST,
                )
            ),
        ]

    def _is_of_null_keys(self, place: PlanId) -> bool:
        """Return whether a stage is one by which a join passes rows with a null key on, which users have not declared."""
        node = self._plan[place]
        if isinstance(node.operation.shape, Computed) and node.label == PADDED:
            node = self._plan[node.inputs[0]]
        return isinstance(node.operation.shape, Chosen) and node.label.startswith(NULL_KEY)

    def _name(self, place: PlanId) -> str:
        if place in self._plan.inputs:
            return f"source {self._plan.inputs[place].name!r}"
        views = self._plan.views_at(place)
        return f"view {views[0]!r}" if views else f"({self._plan[place].label})"


def _refused_by(label: str, condition: Column, below: str, rows: pl.DataFrame) -> list[str]:
    """Explain which condition refuses rows, and what it is for them."""
    twice = pl.concat([rows, rows]) if rows.height == 1 else rows
    values_of = twice.select(elementwise(condition.expr).alias("is")).to_series().head(rows.height)
    outcome = (
        "null" if values_of.is_null().all() else "false" if not values_of.is_null().any() else "false or null"
    )
    return [
        f"{label} refuses it: the condition is {outcome} for {_count(rows)} of {below}:",
        *_indented(shown_rows(newest_first(rows, ()))),
    ]


def _implied(operation: object, given: pl.DataFrame) -> list[str]:
    """Return the columns that a stage copies from its input."""
    if isinstance(operation, Computed):
        copies = {column.name for column in operation.columns if column.copies is not None}
        return [name for name in given.columns if name in copies]
    if isinstance(operation, Assigned):
        return [name for name in given.columns if name not in BOUNDS]
    changed = operation.columns if isinstance(operation, Exploded) else ()
    return [name for name in given.columns if name not in changed]


def chosen_mask(rows: pl.DataFrame, row: pl.DataFrame) -> pl.Series:
    """Return which rows are this one."""
    return rows.select(
        pl.all_horizontal(
            pl.col(name).eq_missing(pl.lit(row.get_column(name).first())) for name in row.columns
        )
    ).to_series()


def _these(what: str, keys: pl.DataFrame) -> str:
    """Name one group or window by its key, or count several."""
    keys = values(keys)
    return (
        f"{keys.height:,} {what}s, {_pairs(keys.head(1))} among them, are"
        if keys.height > 1
        else f"the {what} {_pairs(keys)} is"
    )


def _on(join: Paired) -> str:
    pairs = zip(join.left_keys, join.right_keys, strict=True)
    return ", ".join(left if left == right else f"{left} = {right}" for left, right in pairs) or "nothing"


def _pairs(given: pl.DataFrame) -> str:
    return ", ".join(shown_rows(values(given), most=1)[:1]) or "these values"


def _count(rows: pl.DataFrame) -> str:
    total = int(rows.get_column(DIFF).sum()) if DIFF in rows.columns else rows.height
    return f"{total:,} row{'' if total == 1 else 's'}"


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]
