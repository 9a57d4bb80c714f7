"""All code that depends on the version of polars; the other modules work with every allowed version.

Values, types of columns, their order and the words of keys are the same with each of them. Differences between versions
are handled in one of two ways:

- If an argument that all versions accept removes the difference, it is always given: ``explode`` gets ``empty_as_null``,
  whose default was another one before 2.0.
- Otherwise the remedy is here.

The forms of expressions, version by version, are in ``views/expressions/polars_forms.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import lru_cache
from typing import TypeGuard, TypeVar

import polars as pl
import pyarrow as pa

VERSION = tuple(int(part) for part in pl.__version__.split(".")[:2])
"""The polars that is installed: its major and minor version."""

MAP: type[pl.DataType] | None = getattr(pl, "Map", None)
"""The type of maps, which polars has since 2.0; earlier versions read Arrow's maps as lists of structs."""


MOST_TYPES = 1000
"""The most types of Arrow that are cached."""

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)

_ROW = "__row"


def is_map(dtype: object) -> TypeGuard[pl.Map]:
    """Return whether a type is a map; never with a polars that has no maps."""
    return MAP is not None and isinstance(dtype, MAP)


def forgets_elements(schema: pl.Schema) -> bool:
    """Return whether a frame without rows may have other types than its plan: lists of elements of unknown type.

    Before 2.1 ``list.gather`` gives ``List(Null)`` where there is no row, whatever the elements are.
    """
    return VERSION < (2, 1) and any(
        isinstance(dtype, pl.List) and pl.Series(dtype=dtype.inner).dtype == pl.Null
        for dtype in schema.dtypes()
    )


def root_names(expr: pl.Expr) -> list[str]:
    """Return the columns that an expression reads, as ``meta.root_names`` does, without the element that ``list.filter`` has as one.

    >>> root_names(pl.col("prices").list.filter(pl.element() > 1))
    ['prices']
    """
    return [name for name in expr.meta.root_names() if name]


def arg_sort(frame: pl.DataFrame, descending: Sequence[bool], nulls_last: Sequence[bool]) -> pl.Series:
    """Return the positions of the rows in the order of all columns, the first one ruling.

    Cost: a sort. Before 2.0 ``arg_sort_by`` panics at nested columns behind others; sorting the rows themselves does not, and
    gives the order that ``arg_sort_by`` gives since.
    """
    names, flags = frame.columns, (list(descending), list(nulls_last))
    if VERSION >= (2, 0) or not any(dtype.is_nested() for dtype in frame.dtypes):
        order = pl.arg_sort_by(names, descending=flags[0], nulls_last=flags[1])
        return frame.select(order).to_series()
    rows = frame.with_row_index(_ROW)
    ordered = rows.sort(names, descending=flags[0], nulls_last=flags[1], maintain_order=True)
    return ordered.get_column(_ROW)


def of_arrow(values: pa.Array) -> pl.Series:
    """Return the values of an Arrow array.

    Before 1.44 a Series that is made of lists of categories ends the process when it is read; one out of a frame does not.
    """
    if not pa.types.is_nested(values.type):
        return pl.Series(_Exported(values))
    values = importable(values)
    if VERSION >= (1, 44):
        return pl.Series(values)
    return pl.DataFrame(pa.table({"": values})).to_series()


def importable(values: pa.Array) -> pa.Array:
    """Return the same values in a form that polars imports: copied where arrays of which some are null are part of longer memory.

    All versions up to 2.1 compare the number of their nulls with that of all values in memory, and refuse them at any depth.
    """
    return pa.concat_arrays([values]) if has_arrays(values.type) and _is_part(values) else values


def importable_rows(rows: Rows) -> Rows:
    """Return the same rows, each column as ``importable`` returns it."""
    for place, field in enumerate(rows.schema):
        if has_arrays(field.type):
            column = rows.column(place)
            if isinstance(column, pa.ChunkedArray):
                column = pa.chunked_array([importable(chunk) for chunk in column.chunks], field.type)
            else:
                column = importable(column)
            rows = rows.set_column(place, field, column)
    return rows


@lru_cache(MOST_TYPES)
def has_arrays(dtype: pa.DataType) -> bool:
    """Return whether a type of Arrow is one of lists of a fixed size, which are polars' arrays, or has them inside.

    >>> has_arrays(pa.list_(pa.list_(pa.int8(), 2))), has_arrays(pa.list_(pa.int8()))
    (True, False)
    """
    if pa.types.is_struct(dtype):
        return any(has_arrays(field.type) for field in dtype)
    if pa.types.is_map(dtype):
        return has_arrays(dtype.key_type) or has_arrays(dtype.item_type)
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return has_arrays(dtype.value_type)
    return bool(pa.types.is_fixed_size_list(dtype))


def _is_part(values: pa.Array) -> bool:
    """Return whether there are arrays, some of them null, that are part of longer memory."""
    if pa.types.is_struct(values.type):
        return any(_is_part(values.field(place)) for place in range(values.type.num_fields))
    if not has_arrays(values.type):
        return False
    if not pa.types.is_fixed_size_list(values.type):
        return _is_part(values.values)
    is_whole = not values.offset and len(values.values) == len(values) * values.type.list_size
    return bool(values.null_count and not is_whole) or _is_part(values.values)


class _Exported:
    """An Arrow array by its C interface alone: given one of pyarrow's, polars imports all functions of pyarrow, which takes long."""

    def __init__(self, values: pa.Array) -> None:
        self._values = values

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        schema, array = self._values.__arrow_c_array__(requested_schema)
        return schema, array


def without(frame: pl.DataFrame, names: Container[str]) -> pl.DataFrame:
    """Return the rows without columns of these names; before 2.0 ``drop`` loses the rows if no column is left."""
    left = [name for name in frame.columns if name not in names]
    return frame.select(left) if left else pl.DataFrame(height=frame.height)


def _sorts_otherwise(dtype: pl.DataType) -> bool:
    return dtype.is_float() or isinstance(dtype, pl.Categorical)


def _is_nested(dtype: pl.DataType) -> bool:
    return dtype.is_nested()


def _holds_arrays(dtype: pl.DataType) -> bool:
    if isinstance(dtype, pl.Struct):
        return any(_holds_arrays(pl.Series(dtype=field.dtype).dtype) for field in dtype.fields)
    if isinstance(dtype, pl.List):
        return _holds_arrays(pl.Series(dtype=dtype.inner).dtype)
    return isinstance(dtype, pl.Array)


def writes_otherwise(dtype: pl.DataType) -> bool:
    """Return whether JSON of such values may be that of others: before 2.0 arrays behind a null one lose their items."""
    return VERSION < (2, 0) and _holds_arrays(dtype)


_STEADY: Mapping[str, tuple[tuple[int, int], int | None, Callable[[pl.DataType], bool]]] = {
    "is_in": ((2, 0), 1, _is_nested),  # Its nulls were not counted, and false where rows were gathered.
    "max_horizontal": ((1, 44), None, _sorts_otherwise),
    "min_horizontal": ((1, 44), None, _sorts_otherwise),
    "struct.json_encode": ((2, 0), None, _holds_arrays),
}
"""Functions whose value for a row depended on other rows in earlier versions.

For each: the first polars in which it does not, how many of its inputs are concerned (None: all), and which types of these.
"""

UNSTEADY = frozenset(function for function, (since, _, _) in _STEADY.items() if since > VERSION)
"""The functions whose value for a row may depend on other rows with this polars."""

SHUFFLED = frozenset({"unique"}) if VERSION < (1, 41) else frozenset[str]()
"""Functions that return the values of lists in a random order, as ``list.unique()``, but not within ``list.eval``.

Since 1.41 polars itself evaluates ``list.unique()`` as ``list.eval(element().unique())``.
"""


def steady_since(function: str, dtypes: Sequence[pl.DataType]) -> tuple[int, ...]:
    """Return the first polars in which a function of ``_STEADY`` computes each row's value independently of other rows.

    >>> steady_since("max_horizontal", [pl.Float64()]), steady_since("max_horizontal", [pl.Int64()])
    ((1, 44), ())
    """
    since, inputs, concerned = _STEADY[function]
    return since if any(map(concerned, dtypes[:inputs])) else ()
