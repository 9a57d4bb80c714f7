"""Why a row of a view is not there: the stages are followed back to the one that has let it go."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from evercurrent.core.data.schema import DIFF, listed
from evercurrent.core.operators.group.aggregates import Column
from evercurrent.core.state.ledger import Refused

from ...expressions.elementwise import elementwise
from ...plan.nodes import BOUNDS, PlanId
from ...plan.shapes import (
    Assigned,
    Chosen,
    Computed,
    Exploded,
    First,
    Grouped,
    InTurn,
    LastOnes,
    Negated,
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
from .phrases import count_of, indented, is_of_null_keys, name_of, on, pairs
from .rows import Rows
from .stages import above, copied, keys_across, sides_of, values_of_both, with_keys
from .window_rows import late_rows

Windows = Callable[[PlanId, pl.DataFrame], Sequence[str]]
"""Explains what the open windows of a grouping wait for, of those with these values."""

MOST = 3


class Absence:
    """Explains by what is kept of the stages why rows are not there. ``refused`` are the entries of the ledger."""

    def __init__(self, rows: Rows, refused: Sequence[Refused], windows: Windows) -> None:
        self._rows = rows
        self._plan = rows.plan
        self._refused = refused
        self._windows = windows

    def of(self, place: PlanId, lookup_values: pl.DataFrame) -> list[str]:
        """Explain line by line why no row of a stage has these values."""
        lines = [f"{name_of(self._plan, place)} has no row with {pairs(lookup_values)}"]
        pending = [(place, lookup_values)]
        while pending:
            more, pending = self._missing(*pending.pop(), pending)
            lines += [] if more == lines[-len(more) :] else more  # Two stages may come to the same source.
        return lines

    def _missing(
        self, place: PlanId, lookup_values: pl.DataFrame, pending: list[tuple[PlanId, pl.DataFrame]]
    ) -> tuple[list[str], list[tuple[PlanId, pl.DataFrame]]]:
        """Return why a stage has no such row, and the stages that are to be explained next."""
        node = self._plan[place]
        if place in self._plan.inputs:
            return self._not_in_source(place, lookup_values), pending
        source = node.inputs[0]
        if not all(map(self._rows.holds, node.inputs)):
            absent = next(each for each in node.inputs if not self._rows.holds(each))
            return [
                f"why is not known: {name_of(self._plan, absent)} keeps no rows; {self._remedy(absent)}"
            ], pending
        below = name_of(self._plan, source)
        match node.operation.shape:
            case Chosen(condition=condition):
                rows = self._rows.rows(source, lookup_values)
                if not rows.height:
                    return [], [*pending, (source, lookup_values)]
                return _refused_by(node.label, condition, below, rows), pending
            case Computed() | Exploded() | Unnested() | Assigned():
                return self._not_computed(place, lookup_values, pending)
            case Grouped(keys=keys, key_columns=columns):
                return self._no_group(place, lookup_values, keys, columns, pending)
            case Panes() as grouped:
                return self._no_pane(place, grouped, lookup_values, pending)
            case Paired() as join:
                return self._no_pair(place, join, lookup_values, pending)
            case First() as top:
                rows = self._rows.rows(source, lookup_values)
                if not rows.height:
                    return [], [*pending, (source, lookup_values)]
                return self._outranked(place, top, rows), pending
            case Union():
                return self._in_no_input(place, lookup_values, pending)
            case Negated() if (below_zero := self._times(source, lookup_values)) > 0:
                return [f"{below} has it, and {node.label} makes {-below_zero:,} of its count"], pending
            case InTurn() if self._rows.rows(source, lookup_values).height:
                return [
                    f"{below} has it, and it waits for its turn in event time: the watermark has not passed it"
                ], pending
            case TooLate():
                return [f"no row with {pairs(lookup_values)} came too late"], pending
            case LastOnes() | Once():
                return [], [*pending, (source, lookup_values)]
            case Unknown():
                return [
                    f"which rows {node.label} makes is known to its function alone; look into {below}"
                ], pending
            case _:
                return [], [*pending, (source, lookup_values)]

    def _in_no_input(
        self, place: PlanId, lookup_values: pl.DataFrame, pending: list[tuple[PlanId, pl.DataFrame]]
    ) -> tuple[list[str], list[tuple[PlanId, pl.DataFrame]]]:
        node = self._plan[place]
        inputs = [each for each in node.inputs if not is_of_null_keys(self._plan, each)]
        negates = len(inputs) > 1 and self._negates(place)
        counts = {name_of(self._plan, each): self._times(each, lookup_values) for each in inputs if negates}
        if any(counts.values()):
            summands = ", ".join(f"{name} {count:+,}" for name, count in counts.items())
            return [f"the counts of it add up to none in {node.label}: {summands}"], pending
        lines = [f"it is in none of the {len(inputs)} inputs of {node.label}"] if len(inputs) > 1 else []
        return lines, [*pending, *((each, lookup_values) for each in reversed(inputs))]

    def _times(self, place: PlanId, lookup_values: pl.DataFrame) -> int:
        """Return how often rows with these values are in a stage."""
        return int(self._rows.rows(place, lookup_values).get_column(DIFF).sum())

    def _negates(self, place: PlanId) -> bool:
        """Return whether rows may be taken away from others on the way to a stage."""
        return any(isinstance(self._plan[at].operation.shape, Negated) for at in self._plan.behind(place))

    def _not_in_source(self, place: PlanId, lookup_values: pl.DataFrame) -> list[str]:
        name, lines = self._plan.inputs[place].name, []
        for entry in self._refused:
            if name in entry.source.split(", ") and set(lookup_values.columns) <= set(entry.frame.columns):
                rows = chosen_rows(entry.frame.select(lookup_values.columns), lookup_values)
                if rows.height:
                    lines.append(
                        f"source {name!r} has refused {count_of(rows)} of these values in epoch {entry.epoch}: {entry.reason}"
                    )
        return lines or [
            f"source {name!r} has no row with {pairs(lookup_values)}: none was pushed, or it was taken back"
        ]

    def _remedy(self, place: PlanId) -> str:
        names = [source.name for source in self._plan.sources_of(place)]
        return f"declare source {listed(names)} with retained=True, or a view here"

    def _not_computed(
        self, place: PlanId, lookup_values: pl.DataFrame, pending: list[tuple[PlanId, pl.DataFrame]]
    ) -> tuple[list[str], list[tuple[PlanId, pl.DataFrame]]]:
        node = self._plan[place]
        (source,) = node.inputs
        down = above(node, self._plan[source].schema, lookup_values)
        if not down.width:
            return [
                f"no row of {name_of(self._plan, source)} gives {pairs(lookup_values)} ({node.label})"
            ], pending
        if not self._rows.rows(source, down).height:
            return [], [*pending, (source, down)]
        copied_names = _implied(node.operation.shape, self._plan[source].schema, lookup_values)
        if not self._rows.rows(place, lookup_values.select(copied_names)).height:
            rows = self._rows.rows(source, down)
            shown = indented(shown_rows(newest_first(rows, ())))
            return [
                f"{node.label} makes no row of {count_of(rows)} of {name_of(self._plan, source)}:",
                *shown,
            ], pending
        return self._differs(place, lookup_values, copied_names), pending

    def _differs(self, place: PlanId, lookup_values: pl.DataFrame, equal_names: Sequence[str]) -> list[str]:
        """Show the rows that have some of the values and not the others."""
        rows = self._rows.rows(place, lookup_values.select(equal_names))
        others = [name for name in lookup_values.columns if name not in equal_names]
        if not rows.height:
            return [
                f"{name_of(self._plan, place)} makes no row of those with {pairs(lookup_values.select(equal_names))}"
            ]
        having = f" with {pairs(lookup_values.select(equal_names))}" if equal_names else ""
        return [
            f"{name_of(self._plan, place)} has {count_of(rows)}{having}, not with {pairs(lookup_values.select(others))}:",
            *indented(shown_rows(rows.select(*equal_names, *others, DIFF))),
        ]

    def _no_group(
        self,
        place: PlanId,
        lookup_values: pl.DataFrame,
        keys: Sequence[str],
        columns: Sequence[Column],
        pending: list[tuple[PlanId, pl.DataFrame]],
    ) -> tuple[list[str], list[tuple[PlanId, pl.DataFrame]]]:
        (source,) = self._plan[place].inputs
        named = [name for name in lookup_values.columns if name in keys]
        if not keys and self._times(place, pl.DataFrame()):
            return self._differs(place, lookup_values, ()), pending
        if not named:
            return [f"no group of {name_of(self._plan, place)} has {pairs(lookup_values)}"], pending
        if len(named) < lookup_values.width and self._rows.rows(place, lookup_values.select(named)).height:
            return self._differs(place, lookup_values, named), pending
        down = copied(columns, lookup_values.select(named))
        if down.width < len(named):
            rows = self._rows.rows(source, down)
            if not chosen_rows(
                with_keys(rows, [key for key in columns if key.name in named]), lookup_values.select(named)
            ).height:
                return [
                    f"no row of {name_of(self._plan, source)} has the key {pairs(lookup_values.select(named))}, which is computed"
                ], pending
        return [f"no group has {pairs(lookup_values.select(named))}, as no row reaches it"], [
            *pending,
            (source, down),
        ]

    def _no_pane(
        self,
        place: PlanId,
        grouped: Panes,
        lookup_values: pl.DataFrame,
        pending: list[tuple[PlanId, pl.DataFrame]],
    ) -> tuple[list[str], list[tuple[PlanId, pl.DataFrame]]]:
        (source,) = self._plan[place].inputs
        named = [name for name in lookup_values.columns if name in (*grouped.keys, *BOUNDS)]
        if (
            named
            and len(named) < lookup_values.width
            and self._rows.holds(place)
            and self._rows.rows(place, lookup_values.select(named)).height
        ):
            return self._differs(place, lookup_values, named), pending
        if not (grouped.keys or BOUNDS[0] in self._plan[place].schema) and self._times(place, pl.DataFrame()):
            return self._differs(place, lookup_values, ()), pending
        lines = list(self._windows(place, lookup_values.select(named)))
        keys = [name for name in named if name not in BOUNDS]
        if not keys or lines:
            return lines or [f"no window has {pairs(lookup_values)}"], pending
        down = copied(grouped.key_columns, lookup_values.select(keys))
        rows = self._rows.rows(source, down)
        if not rows.height:
            return [f"no row has the key {pairs(lookup_values.select(keys))}"], [*pending, (source, down)]
        late = self._late(place, lookup_values.select(named))
        return [
            f"{name_of(self._plan, source)} has {count_of(rows)} with {pairs(lookup_values.select(keys))}, none of them in that window in time:",
            *indented(shown_rows(newest_first(rows, ()))),
            *late,
        ], pending

    def _late(self, place: PlanId, windows: pl.DataFrame) -> list[str]:
        """Return how many rows came too late for windows with these keys and bounds, and how many were taken back too late."""
        came, taken_back = 0, 0
        for frame in late_rows(self._plan, self._rows.compiled, place):
            if set(windows.columns) <= set(frame.columns):
                late = chosen_rows(frame, windows)
                if not set(BOUNDS) <= set(windows.columns):  # A row may have missed several windows.
                    late = late.drop(BOUNDS, strict=False)
                    late = values_of_both(late, late.clear())
                diffs = late.get_column(DIFF)
                came += int(diffs.clip(0).sum())
                taken_back -= int(diffs.clip(None, 0).sum())
        return [
            f"{rows:,} row{'' if rows == 1 else 's'} {what} too late, and are in the ledger"
            for rows, what in ((came, "came"), (taken_back, "taken back"))
            if rows
        ]

    def _no_pair(
        self,
        place: PlanId,
        join: Paired,
        lookup_values: pl.DataFrame,
        pending: list[tuple[PlanId, pl.DataFrame]],
    ) -> tuple[list[str], list[tuple[PlanId, pl.DataFrame]]]:
        sides = self._plan[place].inputs
        names = [name_of(self._plan, side) for side in sides]
        parts = sides_of(join, lookup_values)
        keys = (join.left_keys, join.right_keys)
        first = 0 if parts[0].width and not (join.kind == "right" and parts[1].width) else 1
        rows = self._rows.rows(sides[first], parts[first]) if parts[first].width else None
        if rows is None:
            return [f"no pair of {names[0]} and {names[1]} has {pairs(lookup_values)}"], pending
        if not rows.height:
            if join.kind == "inner" or first == (1 if join.kind == "right" else 0):
                return [], [*pending, (sides[first], parts[first])]
            return [f"{names[first]} has no row with {pairs(parts[first])}"], pending
        across = keys_across(rows, keys[first], keys[1 - first])
        # A null key has no partner, although there may be rows with a null on the other side too.
        keyed = across if join.nulls_equal or not across.width else across.drop_nulls()
        partners = (
            self._rows.rows(sides[1 - first], keyed) if keyed.height or not across.width else rows.clear()
        )
        seen = [
            f"{names[first]} has {count_of(rows)} of it:",
            *indented(shown_rows(newest_first(rows, ()))),
        ]
        if join.kind == "anti":
            kept_away = indented(shown_rows(newest_first(partners, ())))
            return [*seen, f"a partner in {names[1]} keeps it away:", *kept_away], pending
        if not partners.height:
            has_null = pl.any_horizontal(pl.all().is_null())
            if not join.nulls_equal and across.select(has_null).to_series().all():
                return [*seen, f"its key is null, which matches nothing ({on(join)})"], pending
            alone = f"it has no partner in {names[1 - first]}, on {on(join)}:"
            return [*seen, alone], [*pending, (sides[1 - first], across.head(1))]
        names_of_side = [
            column.name
            for column in join.columns
            if (column.left, column.right)[first] in parts[first].columns
            and column.name in lookup_values.columns
        ]
        return self._differs(place, lookup_values, names_of_side), pending

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
        # Rows that differ only in lists or structs are ordered by their hashes: it is behind those that are kept.
        rank = max(int(ordered[:before].get_column(DIFF).sum()), top.count) + 1
        first_of_group = (
            self._rows.rows(place, row.select(top.keys))
            if top.keys
            else self._rows.rows(place, pl.DataFrame())
        )
        whose = f" of the group {pairs(row.select(top.keys))}" if top.keys else ""
        stands = "stands for it" if top.count == 1 else "come before it"
        order = ", ".join(
            f"{each.column} {'descending' if each.descending else 'ascending'}" for each in top.order
        )
        return [
            f"{name_of(self._plan, source)} has it, as number {rank}{whose} by {order or 'all columns'}; only the first {top.count} "
            f"{'is' if top.count == 1 else 'are'} kept ({node.label}). What {stands}:",
            *indented(
                shown_rows(
                    first_of_group.sort([*by, *ties], descending=[*flags[0], *[False] * len(ties)]),
                    most=top.count if top.count < MOST else MOST,
                )
            ),
        ]


def _refused_by(label: str, condition: Column, below: str, rows: pl.DataFrame) -> list[str]:
    """Explain which condition refuses rows, and what it is for them."""
    twice = pl.concat([rows, rows]) if rows.height == 1 else rows
    values_of = twice.select(elementwise(condition.expr).alias("is")).to_series().head(rows.height)
    outcome = (
        "null" if values_of.is_null().all() else "false" if not values_of.is_null().any() else "false or null"
    )
    return [
        f"{label} refuses it: the condition is {outcome} for {count_of(rows)} of {below}:",
        *indented(shown_rows(newest_first(rows, ()))),
    ]


def _implied(operation: object, below: pl.Schema, lookup_values: pl.DataFrame) -> list[str]:
    """Return the columns that a stage copies from its input, which has these."""
    if isinstance(operation, Computed):
        copies = {column.name for column in operation.columns if column.copies is not None}
        return [name for name in lookup_values.columns if name in copies]
    if isinstance(operation, Assigned):
        return [name for name in lookup_values.columns if name not in BOUNDS]
    if isinstance(operation, Unnested):
        return [name for name in lookup_values.columns if name in below]
    changed = operation.columns if isinstance(operation, Exploded) else ()
    return [name for name in lookup_values.columns if name not in changed]


def chosen_mask(rows: pl.DataFrame, row: pl.DataFrame) -> pl.Series:
    """Return which rows are this one."""
    return rows.select(
        pl.all_horizontal(
            pl.col(name).eq_missing(pl.lit(row.get_column(name).first())) for name in row.columns
        )
    ).to_series()
