"""All rows of a block of text that can be read, and all that cannot, each with its reason, in a few passes over the block.

However many rows are refused, a block is parsed a few times: a service whose input has one bad line in ten reads on at the
speed of the others. Readers that end at the first bad row use ``text_files`` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
from pyarrow import csv as pa_csv

from evercurrent.core.data.columns.kernels import Ints, Mask
from evercurrent.core.data.halving import bad_places
from evercurrent.core.data.schema import DIFF

from .csv_quotes import records
from .file_columns import WHICH_DIFF
from .text_bytes import first_odd_byte
from .text_files import (
    converted,
    csv_rows,
    csv_table,
    from_text,
    is_converted,
    json_fault,
    json_overflows,
    json_rows,
    json_table,
    json_types,
    unreadable,
    wrong_fields,
)


@dataclass(frozen=True, slots=True)
class Refused:
    """A row that cannot be read: its place among all rows of the block, why, and its text."""

    row: int
    message: str
    text: bytes


Separated = tuple[pl.DataFrame, list[Refused]]
"""The rows that can be read, and the refused ones in their order."""


def csv_separated(block: bytes, names: Sequence[str], schema: pl.Schema, separator: str) -> Separated:
    """Return the rows of CSV lines, and those that cannot be read.

    A line with a stray quote is refused alone, so that no row is taken for a part of its value.
    """
    frame, fault = csv_rows(block, names, schema, separator)
    has_long_records = b'"' in block and frame.height < block.count(b"\n")
    if fault is None and not has_long_records:
        return frame, []
    texts, refusals = [], {}
    is_text = block.isascii() or first_odd_byte(block) is None
    for row, (text, reason) in enumerate(records(block, separator, len(names))):
        texts.append(text)
        if not is_text and (place := first_odd_byte(text)) is not None:
            reason = f"byte {place} of the line is not UTF-8 text; save the file as UTF-8"
        if reason is not None:
            refusals[row] = reason
    if fault is None and not refusals:
        return frame, []
    rows = np.array([row for row in range(len(texts)) if row not in refusals], dtype=np.int64)
    odd: list[pa_csv.InvalidRow] = []
    readable = b"".join(texts[row] for row in rows)
    table = csv_table(readable or b"\n", names, odd, separator)
    if odd:
        # pyarrow numbers rows from 1.
        wrong = np.array([row.number - 1 for row in odd])
        refusals |= {int(rows[at]): wrong_fields(row) for at, row in zip(wrong, odd, strict=True)}
        rows = np.delete(rows, wrong)
    return _convertible(
        table.select([name for name in schema if name in names]), schema, rows, refusals, texts
    )


def json_separated(block: bytes, schema: pl.Schema, *, ignores_others: bool) -> Separated:
    """Return the rows of JSON lines, and those that cannot be read."""
    frame, fault = json_rows(block, schema, ignores_others=ignores_others)
    if fault is None:
        return frame, []
    texts, types = [line for line in block.split(b"\n") if line.strip()], json_types(schema)

    def is_read(start: int, end: int) -> bool:
        try:
            json_table(b"\n".join(texts[start:end]), types, ignores_others)
        except pa.ArrowInvalid:
            return False
        return True

    bad = bad_places(len(texts), is_read)
    refusals = {row: json_fault(texts[row], types, schema, ignores_others) for row in bad}
    rows = np.delete(np.arange(len(texts)), bad)
    readable = b"\n".join(texts[row] for row in rows)
    table = json_table(readable, types, ignores_others)
    if overflows := json_overflows(table, schema, readable):
        beyond = sorted(overflows)
        refusals |= {int(rows[at]): overflows[at] for at in beyond}
        rows = np.delete(rows, beyond)
        table = json_table(b"\n".join(texts[row] for row in rows), types, ignores_others)
    frame, refused = _convertible(table, schema, rows, refusals, texts)
    return frame.with_columns(pl.col(DIFF).fill_null(1)) if DIFF in frame.columns else frame, refused


def _convertible(
    table: pa.Table,
    schema: pl.Schema,
    rows: Ints,
    refusals: Mapping[int, str],
    texts: Sequence[bytes],
) -> Separated:
    """Return the rows whose values fit their columns' types, and all that are refused.

    ``rows`` are the places of the table's rows among all rows, ``refusals`` the reasons of those that are not in it.
    """
    reasons, is_bad = dict(refusals), np.zeros(table.num_rows, dtype=np.bool_)
    for name in table.column_names:
        column, dtype = table.column(name), schema[name]
        bad = _bad_rows(name, column, dtype)
        for at in np.flatnonzero(bad & ~is_bad):
            value = column[int(at)].as_py()
            reasons[int(rows[at])] = (
                f"column {DIFF!r} is empty; {WHICH_DIFF}"
                if value is None
                else unreadable(name, repr(value), dtype)
            )
        is_bad |= bad
    frame, fault = converted(table.filter(pl.Series(~is_bad).to_arrow()), schema)
    assert fault is None, fault
    return frame, [Refused(row, reasons[row], texts[row]) for row in sorted(reasons)]


def _bad_rows(name: str, column: pa.ChunkedArray, dtype: pl.DataType) -> Mask:
    """Return which values do not fit the type of their column."""
    nothing = np.zeros(len(column), dtype=np.bool_)
    if not is_converted(column, dtype):
        return nothing
    if dtype.is_nested():
        nothing[bad_places(len(column), _fits(name, column.combine_chunks(), dtype))] = True
        return nothing
    import pyarrow.compute as pc  # Imported here, as it takes long and only bad rows need it.

    bad = _bad_texts(name, pc.unique(column), dtype)
    is_bad = pc.is_in(column, value_set=bad) if len(bad) else pl.Series(nothing).to_arrow()
    if name == DIFF:
        is_bad = pc.or_(is_bad, pc.is_null(column))
    mask: Mask = pl.Series(is_bad).to_numpy()  # Not by numpy, for which pyarrow imports pandas.
    return mask


def _bad_texts(name: str, texts: pa.Array, dtype: pl.DataType) -> pa.Array:
    """Return those of some texts that are no values of the type."""
    places = pl.Series(bad_places(len(texts), _fits(name, texts, dtype)), dtype=pl.Int64)
    return texts.take(places.to_arrow())


def _fits(name: str, values: pa.Array, dtype: pl.DataType) -> Callable[[int, int], bool]:
    """Return whether the values from a place to another one are all of the type."""
    return lambda start, end: (
        from_text(name, pa.chunked_array([values.slice(start, end - start)]), dtype)[1] is None
    )
