"""Adds offsets to lists that Spark passes without them, so that polars can read them.

A list column without rows has one offset, 0. Java's Arrow in PySpark 4.0 omits it, which readers of Arrow should treat as
the same; polars accepts that for a column, and refuses it inside of other lists.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa


def with_offsets(rows: pa.Table) -> pa.Table:
    """Return the rows with offsets in every list; columns that have them are not copied, the others are."""
    for place, column in enumerate(rows.columns):
        if any(_lacks_offsets(chunk) for chunk in column.chunks):
            whole = column.take(pl.Series(np.arange(len(column))).to_arrow())
            rows = rows.set_column(place, rows.schema.field(place), whole)
    return rows


def _lacks_offsets(values: pa.Array) -> bool:
    kind = values.type
    if pa.types.is_struct(kind):
        return any(_lacks_offsets(values.field(place)) for place in range(kind.num_fields))
    if pa.types.is_fixed_size_list(kind):
        return _lacks_offsets(values.values)
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind)):
        return False
    offsets = values.buffers()[1]
    return offsets is None or offsets.size == 0 or _lacks_offsets(values.values)
