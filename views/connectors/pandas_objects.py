"""Columns of objects of pandas, whose values are read one by one as those of Python rows are."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl


def is_of_pandas(data: Any) -> bool:
    """Return whether data is a frame of pandas, which is not imported for it."""
    return (
        type(data).__module__.partition(".")[0] == "pandas"
        and hasattr(data, "dtypes")
        and hasattr(data, "columns")
    )


def object_values(types: pl.Schema, frame: Any) -> dict[str, list[Any]]:
    """Return the values of the declared columns in which there are objects of several types, nulls of pandas as None.

    Objects of one type, and those that pandas has a type for, are a column of that type. Cost: the objects of a frame, twice.
    """
    if not frame.columns.is_unique:
        return {}
    return {
        name: _values(frame[name], types[name])
        for name, kind in frame.dtypes.items()
        if str(kind) == "object" and name in types and _is_mixed(frame[name])
    }


def _is_mixed(column: Any) -> bool:
    kinds = set(map(type, column.to_numpy())) - {type(None)}
    if len(kinds) < 2:
        return False
    present = column[column.notna()]  # NaN is a float, and a null.
    return len(set(map(type, present))) > 1 and present.infer_objects().dtype.kind == "O"


def _values(column: Any, dtype: pl.DataType) -> list[Any]:
    values = [
        None if is_null else value for value, is_null in zip(column, column.isna().to_numpy(), strict=True)
    ]
    # As in a column of floats, where a whole number is one of an integer column.
    return [_whole(value) for value in values] if dtype.is_integer() else values


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float | np.floating) and float(value).is_integer() else value
