"""A commit has the columns that views had before they were replaced, for readers that have not got the change yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from ..expressions.dtype_reading import dtype_of_text
from ..expressions.dtype_text import dtype_text

REPLACED = "replaced"
"""The fact of a commit that holds, for views that were replaced, the first epoch of the present definition, and the columns before."""


def with_replaced(
    facts: Mapping[str, Any], born: Mapping[str, int], before: Mapping[str, pl.Schema]
) -> dict[str, Any]:
    """Return the facts of a commit with the columns ``before`` of views that are replaced; ``born`` are the views' first epochs.

    Columns before a definition that is itself replaced or dropped are left out.
    """
    others = {name: fact for name, fact in facts.items() if name != REPLACED}
    replaced = dict(facts.get(REPLACED, {}))
    for view, schema in before.items():
        replaced[view] = [born[view], [[name, dtype_text(dtype)] for name, dtype in schema.items()]]
    replaced = {view: fact for view, fact in replaced.items() if fact[0] == born.get(view)}
    return {**others, REPLACED: replaced} if replaced else others


def columns_before(facts: Mapping[str, Any], born: Mapping[str, int]) -> dict[str, pl.Schema]:
    """Return the columns before the present definitions of views, as far as the facts of a commit have them."""
    schemas: dict[str, pl.Schema] = {}
    for view, (first, columns) in facts.get(REPLACED, {}).items():
        if first == born.get(view):
            try:
                schemas[view] = pl.Schema({name: dtype_of_text(text) for name, text in columns})
            except ValueError:  # A type of another version of polars.
                continue
    return schemas
