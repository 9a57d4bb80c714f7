"""Columns of files are checked and cast to the columns of a source, by name, with every value unchanged."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa

from evercurrent.core.data.columns.lossless import as_type, has_leaf, in_utc, may_hold
from evercurrent.core.data.errors import FileError, first_line
from evercurrent.core.data.schema import DIFF, EPOCH, columns_are, listed, with_diff

WHICH_DIFF = "write 1 for a row that is added, -1 for one that is removed"
"""What belongs into a column of diffs."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read: the separator of CSV (None: a tab in .tsv, else a comma), and whether columns that the source does not declare are left out.

    ``skips``: rows of text that cannot be read are refused one by one, and do not end the reading. ``follows_replaced``: a
    file of lines that has become shorter, or that was replaced under its name, is read from its beginning.
    ``refuses_replaced``: such a file, of any format, ends the reading. ``leaves_out``: a file of a folder that cannot be read for
    another reason is left out, and does not end the reading of the others.
    """

    separator: str | None = None
    ignores_others: bool = False
    skips: bool = False
    follows_replaced: bool = False
    refuses_replaced: bool = False
    leaves_out: bool = False


AS_WRITTEN = Reading()


@dataclass(frozen=True, slots=True)
class Target:
    """The target of rows: the source's name and columns, and whether a column ``_diff`` may come with them.

    With ``_diff`` they may be deltas of another run, of which a column ``_epoch`` is left out.
    """

    source: str
    schema: pl.Schema
    diffs: bool
    reading: Reading = AS_WRITTEN

    @property
    def wide(self) -> pl.Schema:
        """Return all columns that are accepted."""
        return pl.Schema({**with_diff(self.schema), EPOCH: pl.UInt64()}) if self.diffs else self.schema


WIDE = (pl.Int128, pl.UInt128)
"""The types of integers that Arrow does not have."""

NULL_ARRAYS = "Expected all lists to be of size="
"""The beginning of the error with which some versions of pyarrow read arrays from Parquet, where one is null."""


def without_type(dtype: pl.DataType) -> str:
    """Return what to do with a column of a type that a format of text has no form for.

    >>> without_type(pl.List(pl.UInt128))
    'declare it with Decimal(38, 0) in place of integers of 128 bits, or push the rows'
    """
    if has_leaf(dtype, WIDE):
        return "declare it with Decimal(38, 0) in place of integers of 128 bits, or push the rows"
    return "use Parquet or Arrow IPC"


def is_unsupported(error: Exception) -> bool:
    """Return whether pyarrow has refused what it does not read, and the file may be whole."""
    return isinstance(error, pa.ArrowNotImplementedError) or NULL_ARRAYS in str(error)


def not_supported(path: Path, error: Exception) -> str:
    """Return what is in a Parquet or Arrow file that pyarrow does not read, with the remedy."""
    for name, dtype in _types_of(path).items():
        if has_leaf(dtype, WIDE):
            return (
                f"column {name!r} is {dtype}, and integers of 128 bits are not read from files; cast it to Int64 or "
                "Decimal(38, 0) in the file, or push the rows"
            )
    if NULL_ARRAYS in str(error):
        return (
            f"an array is null, which pyarrow {pa.__version__} does not read from Parquet ({first_line(error)}); install a newer "
            "one, or write Arrow IPC or lists"
        )
    return f"the file has what is not read ({first_line(error)}); write it with other types or another compression"


def _types_of(path: Path) -> Mapping[str, pl.DataType]:
    """Return the types that polars finds in a file; none where it is of another format."""
    for read in (pl.read_parquet_schema, pl.read_ipc_schema, _types_of_stream):
        with suppress(pl.exceptions.PolarsError, OSError):
            return read(path)
    return {}


def _types_of_stream(path: Path) -> Mapping[str, pl.DataType]:
    return pl.read_ipc_stream(path, n_rows=0).schema


def check_names(path: Path, names: Sequence[str], target: Target) -> None:
    """Check that the columns of a file are those of the source.

    Raises:
        FileError: naming the missing, unknown or repeated column.
    """
    source, schema = target.source, target.schema
    if missing := [name for name in schema if name not in names]:
        raise FileError(
            f"{path}: there {'is no column' if len(missing) == 1 else 'are no columns'} {listed(missing)}, as source {source!r} "
            f"declares; the file has {listed(names)}: {_separator_hint(names, missing) or 'add or rename what is missing'}"
        )
    if DIFF in names and not target.diffs:
        raise FileError(
            f"{path}: source {source!r} takes rows without {DIFF!r}; remove the column, "
            "or declare the source with kind='diffs'"
        )
    unknown = [name for name in names if name not in target.wide]
    if unknown and not target.reading.ignores_others:
        raise FileError(
            f"{path}: {columns_are(unknown)} not declared by source {source!r}, which has {listed(schema)}; "
            f"{'remove, rename or declare it' if len(unknown) == 1 else 'remove, rename or declare them'}; the command ignores "
            f"{'it' if len(unknown) == 1 else 'them'} with --ignore-extra"
        )
    if len(set(names)) < len(names):
        repeated = {name for name in names if names.count(name) > 1}
        raise FileError(f"{path}: column {listed(sorted(repeated))} appears twice in the header; rename one")


def _separator_hint(names: Sequence[str], missing: Sequence[str]) -> str | None:
    """Return the remedy where a header of one name is one of several with another separator."""
    if len(names) != 1:
        return None
    for separator, spelled in {",": ",", ";": ";", "\t": "tab", "|": "|", " ": " "}.items():
        if set(missing) <= {part.strip('" ') for part in names[0].split(separator)}:
            return f"they are separated by {separator!r}; the command reads it with --separator {spelled!r}"
    return None


def check_schema(path: Path, file_schema: pa.Schema, target: Target) -> None:
    """Check names, and that values of the file's types may fit the declared ones.

    Raises:
        FileError: naming the column and both types.
    """
    check_names(path, file_schema.names, target)
    # Not by empty_table(), which has no dictionaries inside of lists and structs.
    nothing = pa.table([pa.nulls(0, field.type) for field in file_schema], schema=file_schema)
    here = pl.DataFrame(nothing).schema
    for name, dtype in here.items():
        if name not in target.wide:
            continue
        declared = target.wide[name]
        if not _is_kin(dtype, declared):
            raise FileError(
                f"{path}: column {name!r} is {dtype}, which source {target.source!r} declares as {declared}; "
                f"cast it in the file, or declare it as {dtype}"
            )


def _is_kin(in_file: pl.DataType, declared: pl.DataType) -> bool:
    """Return whether both types can hold the same values."""
    if in_file == declared or in_file == pl.Null or (in_file.is_numeric() and declared.is_numeric()):
        return True
    if isinstance(declared, pl.Date | pl.Datetime):
        return may_hold(declared, in_file)
    text = (pl.String, pl.Categorical, pl.Enum)
    if isinstance(in_file, text) and isinstance(declared, text):
        return True
    if isinstance(in_file, pl.Struct) and isinstance(declared, pl.Struct):
        types = {field.name: as_type(field.dtype) for field in declared.fields}
        return all(
            _is_kin(as_type(each.dtype), types.get(each.name, as_type(each.dtype))) for each in in_file.fields
        )
    if in_file.base_type() != declared.base_type():
        return False
    if isinstance(in_file, pl.List | pl.Array) and isinstance(declared, pl.List | pl.Array):
        return _is_kin(as_type(in_file.inner), as_type(declared.inner))
    return in_file.is_nested() or isinstance(in_file, pl.Duration)


def fitted(frame: pl.DataFrame, target: Target, path: Path, rows_before: int) -> pl.DataFrame:
    """Return the columns in the declared order and types, every value kept exactly.

    Raises:
        FileError: naming the first row and value that cannot be kept exactly; or an empty ``_diff``.
    """
    wide = target.wide
    columns: list[pl.Series] = []
    for name in (name for name in wide if name in frame.columns and name != EPOCH):
        read_column = in_utc(frame.get_column(name), wide[name])
        column = read_column.cast(wide[name], strict=False)
        if column.dtype != read_column.dtype:
            changed = column.cast(read_column.dtype, strict=False).ne_missing(read_column)
            if changed.any():
                at = changed.arg_true()[0]
                raise FileError(
                    f"{path}: row {rows_before + at + 1}: column {name!r}: {read_column[at]!r} ({read_column.dtype}) cannot be "
                    f"kept exactly as {wide[name]}; correct the value, or declare the column as {read_column.dtype}"
                )
        if name == DIFF and column.null_count():
            row = rows_before + column.is_null().arg_true()[0] + 1
            raise FileError(f"{path}: row {row}: column {DIFF!r} is empty; {WHICH_DIFF}")
        columns.append(column)
    return pl.DataFrame(columns)
