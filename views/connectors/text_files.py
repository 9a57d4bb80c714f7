"""CSV and JSON lines are parsed from blocks of complete lines to rows of the declared types.

pyarrow parses (it is strict, and fast); a value that it refuses is located here, so that a message names the row, the
column and the value. Row numbers count data rows from 1; a CSV header or an empty line is not a row.
"""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
from polars.datatypes import DataTypeClass
from pyarrow import csv as pa_csv
from pyarrow import json as pa_json

from evercurrent.core.data.columns.lossless import has_leaf
from evercurrent.core.data.columns.polars_versions import is_map
from evercurrent.core.data.columns.time_texts import READ_AS
from evercurrent.core.data.schema import DIFF, listed

from .file_columns import WHICH_DIFF
from .float_values import NARROW, beyond, is_beyond, overflows_of_lines
from .json_numbers import QUOTED, with_odd_numbers
from .nested_times import as_texts, has_times, times_inside, times_of
from .text_bytes import first_odd_byte


@dataclass(frozen=True, slots=True)
class Fault:
    """The first row of a block that cannot be read: its index in the block, and a message with the remedy."""

    row: int
    message: str


Parsed = tuple[pl.DataFrame, Fault | None]
"""The rows before the first fault, and the fault where there is one."""


def header_names(line: bytes, separator: str = ",") -> list[str] | None:
    """Return the column names in a CSV header; None where it cannot be read."""
    try:
        return next(csv.reader([line.decode()], delimiter=separator), [])
    except (UnicodeDecodeError, csv.Error):
        return None


FEW_BYTES = 1 << 20
"""JSON up to so long is parsed in this thread: handing it to others takes as long as a hundred lines do."""

COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\x04\x22\x4d\x18": "lz4"}
"""The first bytes of compressed data."""


def unreadable_header(line: bytes) -> str:
    """Return why the first line of CSV cannot be a header, with the remedy."""
    if (
        codec := next((codec for start, codec in COMPRESSED.items() if line.startswith(start)), None)
    ) is not None:
        return f"the data is compressed by {codec}; decompress it before, or give the file with its suffix"
    if line.startswith((b"PAR1", b"ARROW1")):
        return "the data is Parquet or Arrow, which is not read as text; give the file with its suffix"
    if b"\r" in line.removesuffix(b"\r"):
        return "a line ends with a carriage return alone; end lines with a newline"
    return "the header is not UTF-8 text; save the file as UTF-8"


def csv_rows(block: bytes, names: Sequence[str], schema: pl.Schema, separator: str = ",") -> Parsed:
    """Return the rows of CSV lines with these column names, as columns of the schema.

    An empty field is null, ``""`` is the empty string. A row with too few or too many fields, a value that does not fit
    its column's type and text that is not UTF-8 are faults.
    """
    odd: list[pa_csv.InvalidRow] = []
    try:
        table = csv_table(block, names, odd, separator)
    except pa.ArrowInvalid as error:
        return _csv_undecodable(block, names, schema, error, separator)
    fault: Fault | None = None
    if odd:
        at = odd[0].number - 1
        fault = Fault(at, wrong_fields(odd[0]))
        table = table.slice(0, at)
    frame, worse = converted(table.select([name for name in schema if name in names]), schema)
    if DIFF in frame.columns and frame[DIFF].null_count():
        at = frame[DIFF].is_null().arg_true()[0]
        return frame.head(at), Fault(at, f"column {DIFF!r} is empty; {WHICH_DIFF}")
    return frame, worse or fault


def wrong_fields(row: pa_csv.InvalidRow) -> str:
    """Return why a row with a wrong number of fields is refused."""
    text = _short(row.text)
    return f"{row.actual_columns} of {row.expected_columns} fields ({text}): the line is cut off or damaged"


def csv_table(block: bytes, names: Sequence[str], odd: list[pa_csv.InvalidRow], separator: str) -> pa.Table:
    """Return all values as strings; rows with a wrong number of fields are left out and noted in ``odd``."""

    def refuse(row: pa_csv.InvalidRow) -> str:
        odd.append(row)
        return "skip"

    return pa_csv.read_csv(
        pa.BufferReader(block),
        # Row numbers are known only if one thread reads.
        pa_csv.ReadOptions(column_names=names, use_threads=False, block_size=len(block)),
        pa_csv.ParseOptions(
            delimiter=separator,
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


def _csv_undecodable(
    block: bytes, names: Sequence[str], schema: pl.Schema, error: Exception, separator: str
) -> Parsed:
    """Return the rows before the line that pyarrow cannot read at all, which is text that is not UTF-8."""
    place = first_odd_byte(block)
    if place is not None:
        start = block.rfind(b"\n", 0, place) + 1
        frame, fault = (
            csv_rows(block[:start], names, schema, separator) if start else (_empty(schema, names), None)
        )
        return frame, fault or Fault(
            frame.height, f"byte {place - start} of the line is not UTF-8 text; save the file as UTF-8"
        )
    return _empty(schema, names), Fault(0, f"the lines cannot be read as CSV ({error})")


def json_rows(block: bytes, schema: pl.Schema, *, ignores_others: bool = False) -> Parsed:
    """Return the rows of JSON lines, one object a line, as columns of the schema.

    A missing key is null, a missing ``_diff`` is 1. Floats may be "NaN", "Infinity" and "-Infinity". A key that is not a
    column (unless it ``ignores_others``), a value that does not fit its column's type and a line that is not a JSON object
    are faults.
    """
    types = json_types(schema)
    try:
        table = json_table(block, types, ignores_others)
        fault = None
    except pa.ArrowInvalid:
        lines = [line for line in block.split(b"\n") if line.strip()]
        at = _first_bad_line(lines, types, ignores_others)
        table = json_table(b"\n".join(lines[:at]), types, ignores_others)
        fault = Fault(at, json_fault(lines[at], types, schema, ignores_others))
    frame, worse = converted(table, schema)
    if DIFF in frame.columns:
        frame = frame.with_columns(pl.col(DIFF).fill_null(1))
    if overflows := json_overflows(table, schema, block):
        at = min(overflows)
        if at < frame.height:
            return frame.head(at), Fault(at, overflows[at])
    return frame, worse or fault


def json_overflows(table: pa.Table, schema: pl.Schema, block: bytes) -> dict[int, str]:
    """Return why rows of JSON lines are refused in which a number is infinite only in its type, by their places.

    pyarrow itself refuses numbers beyond ``Float64``.
    """
    narrow = {
        name: pl.Series(table.column(name)) for name, dtype in schema.items() if has_leaf(dtype, NARROW)
    }
    if not narrow:
        return {}
    return {
        row: beyond(name, number, schema[name])
        for row, (name, number) in overflows_of_lines(narrow, block).items()
    }


def json_types(schema: pl.Schema) -> dict[str, pa.DataType]:
    """Return the types as which the columns of JSON are read."""
    return {name: _json_type(dtype) for name, dtype in schema.items()}


def json_table(block: bytes, types: dict[str, pa.DataType], ignores_others: bool = False) -> pa.Table:
    """Return the values of JSON lines.

    Raises:
        ArrowInvalid: a line cannot be read.
    """
    try:
        return _json_columns(block, types, ignores_others)
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
        pa_json.ReadOptions(use_threads=len(block) > FEW_BYTES, block_size=len(block) + 1),
        pa_json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="ignore" if without_others else "error"
        ),
    )


def _first_bad_line(
    lines: Sequence[bytes], types: dict[str, pa.DataType], ignores_others: bool = False
) -> int:
    """Return the index of the first refused line, by bisection, at the cost of reading the lines twice."""
    good, bad = 0, len(lines)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            json_table(b"\n".join(lines[good:middle]), types, ignores_others)
            good = middle
        except pa.ArrowInvalid:
            bad = middle
    return good


def json_fault(
    line: bytes, types: dict[str, pa.DataType], schema: pl.Schema, ignores_others: bool = False
) -> str:
    """Return the reason why a line was refused."""
    if (place := first_odd_byte(line)) is not None:
        return f"byte {place} of the line is not UTF-8 text; save the file as UTF-8"
    try:
        row = json.loads(line)
    except ValueError:
        return f"the line is not complete JSON ({_short(line.decode(errors='replace'))}): it is cut off or damaged"
    if not isinstance(row, dict):
        how = ", as jq -c '.[]' does" if isinstance(row, list) else ""
        return f"the line is not a JSON object ({_short(line.decode())}); write one object per line{how}"
    for name, value in row.items():
        if name not in schema and ignores_others:
            continue
        if name not in schema:
            return f"key {name!r} is not a column; remove it or declare the column; the command ignores it with --ignore-extra"
        try:
            json_table(json.dumps({name: value}).encode(), {name: types[name]})
        except pa.ArrowInvalid:
            return unreadable(name, json.dumps(value), schema[name])
        if _is_beyond_floats(line, value):
            return f'column {name!r}: a number is greater than any Float64; correct it, or write "Infinity"'
    return f"a key appears twice in the line ({_short(line.decode())}); remove one"


def _is_beyond_floats(line: bytes, value: object) -> bool:
    """Return whether a value read from a line is infinite although the line has no infinity."""
    return b"Infinity" not in line and "Infinity" in json.dumps(value)


def _json_type(dtype: pl.DataType, *, inner: bool = False) -> pa.DataType:
    """Return the type as which JSON is read: text for dates and times, and lists that pyarrow can read."""
    if isinstance(dtype, pl.List | pl.Array):
        return pa.list_(_json_type(_instance(dtype.inner), inner=True))
    if isinstance(dtype, pl.Struct):
        return pa.struct([(f.name, _json_type(_instance(f.dtype), inner=True)) for f in dtype.fields])
    if _is_text(dtype) or isinstance(dtype, READ_AS) or (dtype.is_temporal() and not inner):
        return pa.large_string()
    return _arrow_type(dtype)


def without_text(schema: pl.Schema, *, json_lines: bool) -> str | None:
    """Return the first column whose type cannot be read from text; None where there is none.

    Durations, bytes, maps and integers of 128 bits have no text form, nor have nested values in CSV, or in JSON floats of 16 bits,
    lists of nulls without a type, and dates and times of day in nested values.
    """
    return next((name for name, dtype in schema.items() if not _has_text(dtype, json_lines)), None)


def _has_text(dtype: pl.DataType, json_lines: bool, inner: bool = False) -> bool:
    if isinstance(dtype, pl.List | pl.Array):
        # pyarrow makes damaged lists of nulls without a type.
        return (
            json_lines
            and dtype.inner != pl.Null
            and _has_text(_instance(dtype.inner), json_lines, inner=True)
        )
    if isinstance(dtype, pl.Struct):
        return json_lines and all(_has_text(_instance(f.dtype), json_lines, inner=True) for f in dtype.fields)
    if dtype.is_temporal():
        return isinstance(dtype, pl.Datetime) or (isinstance(dtype, pl.Date | pl.Time) and not inner)
    if isinstance(dtype, pl.Float16):
        return not json_lines
    return not (isinstance(dtype, pl.Binary | pl.Object | pl.Int128 | pl.UInt128) or is_map(dtype))


def unreadable(name: str, value: str, dtype: pl.DataType) -> str:
    """Return the message for a value that does not fit its column's type."""
    form = ""
    if isinstance(dtype, pl.Datetime):
        zone = f"+00:00, or as a local time of {dtype.time_zone} that exists once" if dtype.time_zone else ""
        form = f" (such as 2011-12-09 12:50:00{zone},{times_of(dtype)})"
    if dtype.is_float() and is_beyond(value.strip("'"), dtype):
        return beyond(name, _short(value), dtype)
    if isinstance(dtype, pl.Enum):
        return f"column {name!r}: {_short(value)} is none of {_short(listed(dtype.categories))}; correct the value or declare it"
    return f"column {name!r}: {_short(value)} is not of type {dtype}{form}; correct the value or declare another type"


def converted(table: pa.Table, schema: pl.Schema) -> Parsed:
    """Return the columns in their declared types, up to the first row with a value that does not fit its type."""
    columns: list[pl.Series] = []
    fault: Fault | None = None
    for name in table.column_names:
        texts, dtype = table.column(name), schema[name]
        if not is_converted(texts, dtype):
            columns.append(pl.Series(name, texts))
            continue
        column, bad = from_text(name, texts, dtype)
        columns.append(column)
        if bad is not None and (fault is None or bad < fault.row):
            fault = Fault(bad, unreadable(name, repr(texts[bad].as_py()), dtype))
    rows = table.num_rows if fault is None else fault.row
    return pl.DataFrame([column.head(rows) for column in columns]), fault


def is_converted(values: pa.ChunkedArray, dtype: pl.DataType) -> bool:
    """Return whether values are texts, or have texts inside, that stand for values of another type."""
    if pa.types.is_large_string(values.type):
        return not isinstance(dtype, pl.String | pl.Categorical)
    return dtype.is_nested() and has_times(dtype)


def from_text(name: str, text: pa.ChunkedArray, dtype: pl.DataType) -> tuple[pl.Series, int | None]:
    """Return a column read from strings, times in nested values too, and the index of the first that is not of the type."""
    if isinstance(dtype, pl.Enum):
        strings = pl.Series(name, text)
        odd = strings.is_not_null() & ~strings.is_in(dtype.categories.to_list())
        return strings, next(iter(odd.arg_true()), None)
    if isinstance(dtype, pl.Null):
        strings = pl.Series(name, text)
        return pl.Series(name, [None] * len(strings), pl.Null), next(
            iter(strings.is_not_null().arg_true()), None
        )
    if isinstance(dtype, pl.Time):
        strings = pl.Series(name, text)
        times = strings.str.to_time("%H:%M:%S%.f", strict=False)
        return times, next(iter((times.is_null() & strings.is_not_null()).arg_true()), None)
    if has_times(dtype):
        return times_inside(pl.Series(name, text).cast(as_texts(dtype)), dtype)
    if name == DIFF:
        import pyarrow.compute as pc  # Imported here, as it takes long and few columns need it.

        text = pc.replace_substring_regex(text, r"^\+", "")
    target = _arrow_type(dtype)
    bad: int | None = None
    try:
        column = pl.Series(name, text.cast(target))
    except pa.ArrowInvalid:
        bad = _first_bad_value(text, target)
        text = text.slice(0, bad)
        column = pl.Series(name, text.cast(target))
    if dtype.is_float() and (is_infinite := column.is_infinite()).any():
        is_overflow = is_infinite & ~pl.Series(text).str.contains("(?i)inf")
        return column, next(iter(is_overflow.arg_true()), bad)
    return column, bad


def _first_bad_value(text: pa.ChunkedArray, target: pa.DataType) -> int:
    good, bad = 0, len(text)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            text.slice(good, middle - good).cast(target)
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
