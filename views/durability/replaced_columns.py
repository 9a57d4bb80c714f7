"""A commit has the columns that views had before they were replaced, for readers that have not got the change yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from ..expressions.dtype_reading import dtype_of_text
from ..expressions.dtype_text import dtype_text

ColumnTexts = Mapping[str, str]
"""The columns of a view, with their types as records have them."""

REPLACED = "replaced"
"""The fact of a commit that holds, for views that were replaced, the first epoch of the present definition, and the columns before."""


def column_texts(schema: pl.Schema) -> dict[str, str]:
    """Return the columns as a record has them."""
    return {name: dtype_text(dtype) for name, dtype in schema.items()}


def with_replaced(
    facts: Mapping[str, Any], born: Mapping[str, int], before: Mapping[str, ColumnTexts]
) -> dict[str, Any]:
    """Return the facts of a commit with the columns ``before`` of views that are replaced; ``born`` are the views' first epochs.

    Columns before a definition that is itself replaced or dropped are left out.
    """
    others = {name: fact for name, fact in facts.items() if name != REPLACED}
    replaced = dict(facts.get(REPLACED, {}))
    for view, columns in before.items():
        replaced[view] = [born[view], [[name, text] for name, text in columns.items()]]
    replaced = {view: fact for view, fact in replaced.items() if fact[0] == born.get(view)}
    return {**others, REPLACED: replaced} if replaced else others


def columns_before(facts: Mapping[str, Any], born: Mapping[str, int]) -> dict[str, tuple[int, pl.Schema]]:
    """Return the first epochs of views that have replaced others, and the columns before, as the facts of a commit have them."""
    return {
        view: (first, pl.Schema({name: _dtype_of(text) for name, text in columns}))
        for view, (first, columns) in facts.get(REPLACED, {}).items()
        if first == born.get(view)
    }


def _dtype_of(text: str) -> pl.DataType | type[pl.DataType]:
    try:
        return dtype_of_text(text)
    except ValueError:
        return pl.Unknown  # A type of another version of polars: subscriptions get the change all the same.
