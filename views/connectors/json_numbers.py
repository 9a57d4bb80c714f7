"""Lines of JSON are read in which NaN and infinities are the texts "NaN", "Infinity" and "-Infinity".

JSON has no such numbers, and our own files have them as texts (``core/data/columns/json_texts.py``). pyarrow reads them without
quotes. But a column of texts may hold the same texts: so columns with floats are read from lines without these quotes, and
all others from the lines as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

QUOTED = re.compile(rb'(?<!\\)"(NaN|-?Infinity)"(?!\s*:)')
"""One of these texts as a value, not as a key; within another text its quotes would follow a backslash."""

Read = Callable[[bytes, Mapping[str, pa.DataType], bool], pa.Table]
"""A reader of columns from lines of JSON, which with True leaves out all other columns."""


def with_odd_numbers(block: bytes, types: Mapping[str, pa.DataType], read: Read) -> pa.Table:
    """Return the rows of lines that cannot be read as they are. Cost: as for any lines, and more for those with such texts.

    Raises:
        pa.ArrowInvalid: they cannot be read in this way either.
    """
    lines = np.array([line for line in block.split(b"\n") if line.strip()], dtype=object)
    is_odd = np.array([QUOTED.search(line) is not None for line in lines], dtype=np.bool_)
    if not is_odd.any() or not any(map(has_floats, types.values())):
        raise pa.ArrowInvalid("nothing is to be gained here")
    plain = read(b"\n".join(lines[~is_odd]), types, False)
    odd = _read_odd(lines[is_odd].tolist(), types, read)
    order = np.argsort(np.argsort(is_odd, kind="stable"), kind="stable")
    return pa.concat_tables([plain, odd]).take(order)


def has_floats(dtype: pa.DataType) -> bool:
    """Return whether there are floats in values of this type, at any depth."""
    return _part(dtype, floats=True) is not None


def _read_odd(lines: list[bytes], types: Mapping[str, pa.DataType], read: Read) -> pa.Table:
    for line in lines:
        _require_keys(_parsed(line), types)
    block = b"\n".join(lines)
    parts = []
    for text, floats in ((QUOTED.sub(rb"\1", block), True), (block, False)):
        part_types = {name: _part(dtype, floats=floats) for name, dtype in types.items()}
        parts.append(
            read(text, {name: dtype for name, dtype in part_types.items() if dtype is not None}, True)
        )
    columns = [
        _together(
            dtype, *(part[name].combine_chunks() if name in part.column_names else None for part in parts)
        )
        for name, dtype in types.items()
    ]
    return pa.table(columns, schema=pa.schema(types.items()))


def _part(dtype: pa.DataType, *, floats: bool) -> pa.DataType | None:
    """Return the type restricted to its floats, or to all but its floats; None if nothing is left."""
    if pa.types.is_struct(dtype):
        fields = [(field.name, _part(field.type, floats=floats)) for field in dtype]
        parts = [(name, part) for name, part in fields if part is not None]
        return pa.struct(parts) if parts else None
    if pa.types.is_list(dtype):
        inner = _part(dtype.value_type, floats=floats)
        return None if inner is None else pa.list_(inner)
    return dtype if pa.types.is_floating(dtype) == floats else None


def _together(dtype: pa.DataType, floats: pa.Array | None, others: pa.Array | None) -> pa.Array:
    """Return values put together from their floats and their other parts."""
    if floats is None or others is None:
        return others if floats is None else floats
    if pa.types.is_list(dtype):
        values = _together(dtype.value_type, floats.values, others.values)
        return pa.ListArray.from_arrays(others.offsets, values, type=dtype, mask=others.is_null())
    columns = [
        _together(field.type, *(_field(part, field.name) for part in (floats, others))) for field in dtype
    ]
    return pa.StructArray.from_arrays(columns, fields=list(dtype), mask=others.is_null())


def _field(part: pa.StructArray, name: str) -> pa.Array | None:
    return part.field(name) if part.type.get_field_index(name) >= 0 else None


class _Object(list[tuple[str, Any]]):
    """The keys and values of a JSON object."""


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line, object_pairs_hook=_Object)
    except (ValueError, RecursionError) as error:
        raise pa.ArrowInvalid(str(error)) from error


def _require_keys(value: Any, types: Mapping[str, pa.DataType]) -> None:
    """Check the keys of an object, as each of the two reads ignores some of them."""
    names = [name for name, _ in value] if isinstance(value, _Object) else [None]
    if len(set(names)) < len(names) or not types.keys() >= set(names):
        raise pa.ArrowInvalid("a key is not a column, or it appears twice")
    for name, inner in value:
        _require_inner_keys(inner, types[name])


def _require_inner_keys(value: Any, dtype: pa.DataType) -> None:
    if isinstance(value, _Object) and pa.types.is_struct(dtype):
        _require_keys(value, {field.name: field.type for field in dtype})
    elif isinstance(value, list) and pa.types.is_list(dtype):
        for each in value:
            _require_inner_keys(each, dtype.value_type)
