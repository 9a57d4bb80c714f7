"""CSV and JSON lines are parsed from blocks of complete lines to rows of the declared types.

pyarrow parses (it is strict, and fast); a value that it refuses is located here, so that a message names the row, the
column and the value. Row numbers count data rows from 1; a CSV header or an empty line is not a row.
"""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import polars as pl
import pyarrow as pa
from polars.datatypes import DataTypeClass
from pyarrow import compute as pc
from pyarrow import csv as pa_csv
from pyarrow import json as pa_json

from evercurrent.core.data.errors import FileError
from evercurrent.core.data.schema import DIFF

from .json_numbers import QUOTED, with_odd_numbers
from .text_bytes import first_odd_byte

BLOCK_BYTES = 4 << 20
"""The bytes of a text file that are in memory at once, unless one line is longer."""

LONGEST_LINE = 64 << 20
"""A line with more bytes than this is refused: it is a quote that was never closed, or no text file."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The first row of a block that cannot be read: its index in the block, and a message with the remedy."""

    row: int
    message: str


Parsed = tuple[pl.DataFrame, Fault | None]
"""The rows before the first fault, and the fault where there is one."""


class Lines:
    """The complete lines of a file that may still grow, each returned once.

    A line is complete with its newline. In CSV (``quoted``) a newline between quotes belongs to the value.
    """

    def __init__(self, path: Path, *, quoted: bool) -> None:
        self.path = path
        self.offset = 0
        """Bytes returned so far."""
        self.rows = 0
        """Rows in these bytes, counted by the parser."""
        self._quoted = quoted

    def header(self, *, final: bool) -> bytes | None:
        """Return the first line, without its newline; None where it is not complete and may still become so.

        Raises:
            FileError: the file is empty and final.
        """
        with self._opened() as file:
            line = file.readline(LONGEST_LINE)
        if not line and final:
            raise FileError(f"{self.path}: the file is empty; a CSV file starts with a line of column names")
        if not line.endswith(b"\n") and not final:
            return None
        self.offset = len(line)
        return line.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n")

    def blocks(self, *, final: bool) -> Iterator[bytes]:
        """Yield the bytes that were not returned before, in blocks of complete lines.

        With ``final`` the last line needs no newline; else it is left until it has one.

        Raises:
            FileError: a line does not end, or at the end of a final file a quoted value does not.
        """
        kept = b""
        with self._opened() as file:
            file.seek(self.offset)
            while chunk := file.read(BLOCK_BYTES):
                kept += chunk
                if end := self._end_of_lines(kept):
                    self.offset += end
                    yield kept[:end]
                    kept = kept[end:]
                elif len(kept) > LONGEST_LINE:
                    raise FileError(self._endless("is longer than 64 MiB"))
        if kept and final:
            if self._quoted and kept.count(b'"') % 2:
                raise FileError(self._endless("is not closed before the end of the file"))
            self.offset += len(kept)
            yield kept

    def require_grown(self) -> None:
        """Check that the bytes returned are still in the file.

        Raises:
            FileError: the file is shorter than that.
        """
        if self.path.stat().st_size < self.offset:
            raise FileError(
                f"{self.path}: the file is shorter than what was read of it ({self.rows} rows); "
                "lines may be appended, not removed: write new lines to a new file"
            )

    def bytes_of(self, rows: int) -> float:
        """Estimate the bytes of the first ``rows`` rows, as a block is parsed at once and has many rows."""
        return self.offset * (rows / self.rows if self.rows else 1)

    def _opened(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise FileError(
                f"{self.path}: cannot be opened ({error.strerror}); check its permissions"
            ) from error

    def _end_of_lines(self, data: bytes) -> int:
        """Return the length of the longest part that ends with a line."""
        end = data.rfind(b"\n") + 1
        quotes = data.count(b'"', 0, end) if self._quoted else 0
        while quotes % 2:
            before = data.rfind(b"\n", 0, end - 1) + 1
            quotes -= data.count(b'"', before, end)
            end = before
        return end

    def _endless(self, what: str) -> str:
        return (
            f"{self.path}: row {self.rows + 1}: the line or quoted value that starts at byte {self.offset} {what}: the "
            "file is cut off there, or a quote inside a value is not doubled; repair it and run again"
        )


def header_names(line: bytes) -> list[str] | None:
    """Return the column names in a CSV header; None where it is not UTF-8 text."""
    try:
        return next(csv.reader([line.decode()]), [])
    except UnicodeDecodeError:
        return None


def csv_rows(block: bytes, names: Sequence[str], schema: pl.Schema) -> Parsed:
    """Return the rows of CSV lines with these column names, as columns of the schema.

    An empty field is null, ``""`` is the empty string. A row with too few or too many fields, a value that does not fit
    its column's type and text that is not UTF-8 are faults.
    """
    odd: list[pa_csv.InvalidRow] = []
    try:
        table = _csv_table(block, names, odd)
    except pa.ArrowInvalid as error:
        return _csv_undecodable(block, names, schema, error)
    fault: Fault | None = None
    if odd:
        at = odd[0].number - 1
        actual, expected, text = odd[0].actual_columns, odd[0].expected_columns, _short(odd[0].text)
        fault = Fault(at, f"{actual} of {expected} fields ({text}): the line is cut off or damaged")
        table = table.slice(0, at)
    frame, worse = _converted(table.select([name for name in schema if name in names]), schema)
    return frame, worse or fault


def _csv_table(block: bytes, names: Sequence[str], odd: list[pa_csv.InvalidRow]) -> pa.Table:
    """Return all values as strings; rows with a wrong number of fields are left out and the first noted in ``odd``."""

    def refuse(row: pa_csv.InvalidRow) -> str:
        odd[:] = odd or [row]
        return "skip"

    return pa_csv.read_csv(
        pa.BufferReader(block),
        # Row numbers are known only if one thread reads.
        pa_csv.ReadOptions(column_names=names, use_threads=False, block_size=len(block)),
        pa_csv.ParseOptions(
            newlines_in_values=True,
            ignore_empty_lines=len(names) > 1,
            invalid_row_handler=refuse,
        ),
        pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.large_string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )


def _csv_undecodable(block: bytes, names: Sequence[str], schema: pl.Schema, error: Exception) -> Parsed:
    """Return the rows before the line that pyarrow cannot read at all, which is text that is not UTF-8."""
    place = first_odd_byte(block)
    if place is not None:
        start = block.rfind(b"\n", 0, place) + 1
        frame, fault = csv_rows(block[:start], names, schema) if start else (_empty(schema, names), None)
        return frame, fault or Fault(
            frame.height, f"byte {place - start} of the line is not UTF-8 text; save the file as UTF-8"
        )
    return _empty(schema, names), Fault(0, f"the lines cannot be read as CSV ({error})")


def json_rows(block: bytes, schema: pl.Schema) -> Parsed:
    """Return the rows of JSON lines, one object a line, as columns of the schema.

    A missing key is null, a missing ``_diff`` is 1. Floats may be "NaN", "Infinity" and "-Infinity". A key that is not a
    column, a value that does not fit its column's type and a line that is not a JSON object are faults.
    """
    types = {name: _json_type(dtype) for name, dtype in schema.items()}
    try:
        table = _json_table(block, types)
        fault = None
    except pa.ArrowInvalid:
        lines = [line for line in block.split(b"\n") if line.strip()]
        at = _first_bad_line(lines, types)
        table = _json_table(b"\n".join(lines[:at]), types)
        fault = Fault(at, _json_fault(lines[at], types, schema))
    frame, worse = _converted(table, schema)
    if DIFF in frame.columns:
        frame = frame.with_columns(pl.col(DIFF).fill_null(1))
    return frame, worse or fault


def _json_table(block: bytes, types: dict[str, pa.DataType]) -> pa.Table:
    try:
        return _json_columns(block, types, False)
    except pa.ArrowInvalid:
        if QUOTED.search(block) is None:
            raise
        return with_odd_numbers(block, types, _json_columns)


def _json_columns(block: bytes, types: Mapping[str, pa.DataType], without_others: bool) -> pa.Table:
    schema = pa.schema(types.items())
    if not block.strip():
        return schema.empty_table()
    if not block.isascii() and first_odd_byte(block) is not None:
        raise pa.ArrowInvalid("not UTF-8")  # pyarrow would take it as it is
    return pa_json.read_json(
        pa.BufferReader(block),
        pa_json.ReadOptions(block_size=len(block) + 1),
        pa_json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="ignore" if without_others else "error"
        ),
    )


def _first_bad_line(lines: Sequence[bytes], types: dict[str, pa.DataType]) -> int:
    """Return the index of the first refused line, by bisection, at the cost of reading the lines twice."""
    good, bad = 0, len(lines)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            _json_table(b"\n".join(lines[good:middle]), types)
            good = middle
        except pa.ArrowInvalid:
            bad = middle
    return good


def _json_fault(line: bytes, types: dict[str, pa.DataType], schema: pl.Schema) -> str:
    """Return the reason why a line was refused."""
    if (place := first_odd_byte(line)) is not None:
        return f"byte {place} of the line is not UTF-8 text; save the file as UTF-8"
    try:
        row = json.loads(line)
    except ValueError:
        return f"the line is not complete JSON ({_short(line.decode(errors='replace'))}): it is cut off or damaged"
    if not isinstance(row, dict):
        return f"the line is not a JSON object ({_short(line.decode())}); write one object per line"
    for name, value in row.items():
        if name not in schema:
            return f"key {name!r} is not a column; remove it or declare the column"
        try:
            _json_table(json.dumps({name: value}).encode(), {name: types[name]})
        except pa.ArrowInvalid:
            return unreadable(name, json.dumps(value), schema[name])
        if _is_beyond_floats(line, value):
            return f'column {name!r}: a number is greater than any Float64; correct it, or write "Infinity"'
    return f"a key appears twice in the line ({_short(line.decode())}); remove one"


def _is_beyond_floats(line: bytes, value: object) -> bool:
    """Return whether a value read from a line is infinite although the line has no infinity."""
    return b"Infinity" not in line and "Infinity" in json.dumps(value)


def _json_type(dtype: pl.DataType, *, inner: bool = False) -> pa.DataType:
    """Return the type as which JSON is read: text for times (except in nested values), and lists that pyarrow can read."""
    if isinstance(dtype, pl.List | pl.Array):
        return pa.list_(_json_type(_instance(dtype.inner), inner=True))
    if isinstance(dtype, pl.Struct):
        return pa.struct([(f.name, _json_type(_instance(f.dtype), inner=True)) for f in dtype.fields])
    if _is_text(dtype) or (dtype.is_temporal() and not inner):
        return pa.large_string()
    return _arrow_type(dtype)


def without_text(schema: pl.Schema, *, json_lines: bool) -> str | None:
    """Return the first column whose type cannot be read from text; None where there is none.

    Durations and bytes have no text form, nor have nested values in CSV, or dates and times of day in nested values in
    JSON.
    """
    return next((name for name, dtype in schema.items() if not _has_text(dtype, json_lines)), None)


def _has_text(dtype: pl.DataType, json_lines: bool, inner: bool = False) -> bool:
    if isinstance(dtype, pl.List | pl.Array):
        return json_lines and _has_text(_instance(dtype.inner), json_lines, inner=True)
    if isinstance(dtype, pl.Struct):
        return json_lines and all(_has_text(_instance(f.dtype), json_lines, inner=True) for f in dtype.fields)
    if dtype.is_temporal():
        return isinstance(dtype, pl.Datetime) or (isinstance(dtype, pl.Date | pl.Time) and not inner)
    return not isinstance(dtype, pl.Binary | pl.Object | pl.Int128)


def unreadable(name: str, value: str, dtype: pl.DataType) -> str:
    """Return the message for a value that does not fit its column's type."""
    form = ""
    if isinstance(dtype, pl.Datetime):
        zone = "+00:00" if dtype.time_zone else ""
        form = f" (such as 2011-12-09 12:50:00{zone}, not finer than {dtype.time_unit})"
    return (
        f"column {name!r}: {_short(value)} is not a {dtype}{form}; correct the value or declare another type"
    )


def _converted(table: pa.Table, schema: pl.Schema) -> Parsed:
    """Return the columns in their declared types, up to the first row with a value that does not fit its type."""
    columns: list[pl.Series] = []
    fault: Fault | None = None
    for name in table.column_names:
        texts, dtype = table.column(name), schema[name]
        if not pa.types.is_large_string(texts.type) or _is_text(dtype):
            columns.append(pl.Series(name, texts))
            continue
        column, bad = _from_text(name, texts, dtype)
        columns.append(column)
        if bad is not None and (fault is None or bad < fault.row):
            fault = Fault(bad, unreadable(name, repr(texts[bad].as_py()), dtype))
    rows = table.num_rows if fault is None else fault.row
    return pl.DataFrame([column.head(rows) for column in columns]), fault


def _from_text(name: str, text: pa.ChunkedArray, dtype: pl.DataType) -> tuple[pl.Series, int | None]:
    """Return a column read from strings, and the index of the first string that is not of the type."""
    if isinstance(dtype, pl.Time):
        strings = pl.Series(name, text)
        times = strings.str.to_time("%H:%M:%S%.f", strict=False)
        return times, next(iter((times.is_null() & strings.is_not_null()).arg_true()), None)
    if name == DIFF:
        text = pc.replace_substring_regex(text, r"^\+", "")
    target = _arrow_type(dtype)
    try:
        return pl.Series(name, pc.cast(text, target)), None
    except pa.ArrowInvalid:
        bad = _first_bad_value(text, target)
        return pl.Series(name, pc.cast(text.slice(0, bad), target)), bad


def _first_bad_value(text: pa.ChunkedArray, target: pa.DataType) -> int:
    good, bad = 0, len(text)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            pc.cast(text.slice(good, middle - good), target)
            good = middle
        except pa.ArrowInvalid:
            bad = middle
    return good


def _is_text(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.String | pl.Categorical | pl.Enum)


def _arrow_type(dtype: pl.DataType) -> pa.DataType:
    return pl.Series([], dtype=dtype).to_arrow().type


def _instance(dtype: pl.DataType | DataTypeClass) -> pl.DataType:
    return dtype if isinstance(dtype, pl.DataType) else dtype()


def _empty(schema: pl.Schema, names: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame(schema={name: dtype for name, dtype in schema.items() if name in names})


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
