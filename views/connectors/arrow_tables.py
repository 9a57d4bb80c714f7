"""Frames are converted to tables of Arrow that pyarrow can write."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import polars as pl
import pyarrow as pa


def as_table(frame: pl.DataFrame, level: pl.CompatLevel) -> pa.Table:
    """Return the frame as a table that pyarrow can write.

    For lists without elements polars may return an empty slice that begins behind the end of its buffer. pyarrow writes
    such a buffer with a wrong length, and everything behind it in the file is read from the wrong place. A row without
    empty values, added and sliced off, prevents that.
    """
    nested = [name for name, dtype in frame.schema.items() if dtype.is_nested()]
    if not nested:
        return frame.to_arrow(compat_level=level)
    with suppress(pa.ArrowInvalid):
        table = frame.to_arrow(compat_level=level)
        if not any(_holds_cut_nothing(chunk) for name in nested for chunk in table[name].chunks):
            return table
    full = pl.DataFrame([pl.Series(name, [_full(dtype)], dtype) for name, dtype in frame.schema.items()])
    return frame.vstack(full).rechunk().to_arrow(compat_level=level).slice(0, frame.height)


def _full(dtype: Any) -> Any:
    """Return a value of this type without empty parts."""
    if isinstance(dtype, pl.Struct):
        return {field.name: _full(field.dtype) for field in dtype.fields}
    if isinstance(dtype, pl.List):
        return [_full(dtype.inner)]
    return [_full(dtype.inner)] * dtype.size if isinstance(dtype, pl.Array) else None


def _holds_cut_nothing(array: pa.Array) -> bool:
    """Return whether an array, or one inside it, has no elements and an offset behind its end."""
    if pa.types.is_struct(array.type):
        inner = [array.field(at) for at in range(array.type.num_fields)]
    else:
        inner = [array.values] if pa.types.is_nested(array.type) else []
    return (not len(array) and array.offset > 0) or any(map(_holds_cut_nothing, inner))
