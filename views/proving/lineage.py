"""The lineage of rows: the rows of sources from which they come, followed back through the calls that declared a view."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from evercurrent.core.data.errors import InputError

from ..plan.declared_calls import FORKED, NAMED, DeclaredCall
from .batch import Batch, Groups, UnprovableError, is_among
from .proof import Evaluation

SAME_ROWS = frozenset(
    {"filter", "with_event_time", "unique", "negate", "top_k", "bottom_k", "limit", NAMED, FORKED}
)
"""The calls whose rows are rows of their receiver."""

ROW_FOR_ROW = frozenset({"select", "with_columns", "rename", "drop", "cast", "unnest"})
"""The calls that make one row of each row of their receiver, in its order."""

_PLACE = "#place"


def lineage(
    view: Any, evaluation: Evaluation, contents: Batch, row: object, limit: int
) -> dict[str, pl.DataFrame]:
    """Return the rows of each source, or of a view that stands in for one, from which these rows of a view come, with counts.

    Raises:
        InputError: there is no such row, or a call cannot be followed back; names it.
    """
    chosen = _chosen(view.name, contents, row)
    try:
        evaluation.of(view)
        rows_by_label = _followed(evaluation, view, chosen)
    except UnprovableError as reason:
        raise InputError(f"view {view.name!r}: where a row comes from is not known: {reason}") from reason
    return {label: rows.head(limit) for label, rows in rows_by_label.items()}


def _chosen(view: str, contents: Batch, row: object) -> pl.DataFrame:
    """Return the rows of a view with these values in these columns.

    Raises:
        InputError: there is none, or they are not columns of the view.
    """
    columns = contents.columns
    if isinstance(row, Sequence) and not isinstance(row, str) and len(row) == len(columns):
        row = dict(zip(columns, row, strict=True))
    if not isinstance(row, dict) or not row or not set(row) <= set(columns):
        raise InputError(
            f"view {view!r}: row={row!r}; give a dictionary with columns of the view, which has {columns}, or a whole row as a tuple"
        )
    values = pl.DataFrame([pl.Series(name, [value], contents.schema[name]) for name, value in row.items()])
    rows = contents.rows.filter(is_among(contents.rows.select(values.columns), values))
    if not rows.height:
        raise InputError(f"view {view!r}: it has no row with {row!r}")
    return rows


def _followed(evaluation: Evaluation, view: Any, chosen: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Follow rows back, from the last call to the first."""
    rows: dict[int, list[pl.DataFrame]] = {id(view): [chosen]}
    rows_by_label: dict[str, pl.DataFrame] = {}
    for value_id, call, value in evaluation.evaluated():
        if value_id not in rows:
            continue
        here = pl.concat(rows.pop(value_id)).unique(maintain_order=True)
        if call is None:
            own_rows = value.frame.filter(is_among(value.rows, here))
            label = evaluation.name_of(value_id)
            rows_by_label[label] = (
                own_rows
                if label not in rows_by_label
                else pl.concat([rows_by_label[label], own_rows]).unique(maintain_order=True)
            )
            continue
        for source, part in _before(evaluation, call, value, here):
            if part.height:
                rows.setdefault(source, []).append(part)
    return rows_by_label


def _before(
    evaluation: Evaluation, call: DeclaredCall, result: Batch, chosen: pl.DataFrame
) -> Iterable[tuple[int, pl.DataFrame]]:
    """Yield the collections that a call was made on, by ids, with the rows of theirs from which these rows come."""
    receiver = evaluation.value(call.receiver)
    if isinstance(receiver, Groups):
        grouping = evaluation.call_of(call.receiver)
        if call.method == "agg":
            yield id(grouping.receiver), receiver.rows_of(chosen)
        else:
            yield id(grouping.receiver), chosen
        return
    source = id(call.receiver)
    if call.method in SAME_ROWS:
        yield source, chosen
    elif call.method in ROW_FOR_ROW:
        yield source, receiver.rows.filter(is_among(result.rows, chosen))
    elif call.method == "explode":
        numbered = receiver.frame.with_row_index(_PLACE).explode(*call.args, empty_as_null=False)
        places = numbered.filter(is_among(numbered.select(chosen.columns), chosen)).get_column(_PLACE)
        yield source, receiver.rows[places.unique()]
    elif call.method == "concat":
        for collection in (call.receiver, *call.args):
            rows = evaluation.value(collection).rows
            yield id(collection), rows.filter(is_among(rows, chosen))
    elif call.method == "minus":
        yield source, chosen
    elif call.method == "join":
        other = call.args[0] if call.args else call.kwargs["other"]
        options = {name: value for name, value in call.kwargs.items() if name != "other"}
        left, right = receiver.rows_of_join(evaluation.value(other), chosen, *call.args[1:], **options)
        yield source, left
        yield id(other), right
    else:
        raise UnprovableError(f"the rows that {call.method} makes cannot be followed back")
