"""Schemas, the reserved column names, and the checks of names where a source or view is declared.

A schema is a ``polars.Schema`` of the data columns. The signed count of a row travels beside them in the
reserved column ``_diff``, always last.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from .errors import PlanError
from .tags import tagged

DIFF = "_diff"
"""Reserved column: the signed count of the row, Int64, +1 for an added row and -1 for a removed one."""

EPOCH = "_epoch"
"""Reserved column: the epoch that a delta belongs to, UInt64."""

RESERVED = (DIFF, EPOCH)


def with_diff(schema: pl.Schema) -> pl.Schema:
    """Return the schema of a delta frame: the data columns, then ``_diff``."""
    return pl.Schema({**schema, DIFF: pl.Int64()})


def empty_frame(schema: pl.Schema) -> pl.DataFrame:
    """Return the frame without rows over these columns: one for all schemas that are equal. It must not be changed in place."""
    return _empty_frame(tuple(schema.items()))


def empty_delta_frame(schema: pl.Schema) -> pl.DataFrame:
    """Return the delta frame without rows over these data columns, as ``empty_frame``: nodes without rows need it at every epoch."""
    return _empty_frame((*schema.items(), _DIFF_COLUMN))


_DIFF_COLUMN = DIFF, pl.Int64()


@lru_cache(maxsize=4096)
def _empty_frame(columns: tuple[tuple[str, pl.DataType], ...]) -> pl.DataFrame:
    return pl.Schema(columns).to_frame()


def columns_are(names: Iterable[str]) -> str:
    """Return the subject of a sentence about these columns, with its verb.

    >>> columns_are(["k"]), columns_are(["k", "v"])
    ("column 'k' is", "columns 'k', 'v' are")
    """
    names = list(names)
    return f"column {listed(names)} is" if len(names) == 1 else f"columns {listed(names)} are"


def listed(names: Iterable[str]) -> str:
    """Return names as messages list them: quoted, comma separated, at most twenty.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    quoted = [repr(name) for name in names]
    more = [f"and {len(quoted) - 20} more"] if len(quoted) > 20 else []
    return ", ".join(quoted[:20] + more) or "none"


def counted(count: int, what: str = "row") -> str:
    """Return a number of things in words.

    >>> counted(1), counted(1234), counted(2, "column")
    ('1 row', '1,234 rows', '2 columns')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def option_names(option: str, names: object) -> tuple[str, ...]:
    """Return the names that an option gives: one, several in a list or tuple, or none.

    >>> option_names("key", "a"), option_names("key", ["a", "b"]), option_names("key", None)
    (('a',), ('a', 'b'), ())

    Raises:
        PlanError: they are something else.
    """
    several = () if names is None else (names,) if isinstance(names, str) else names
    if not isinstance(several, (list, tuple)) or not all(isinstance(name, str) for name in several):
        raise PlanError(f"{option}={names!r}; give the name of a column, or several in a list")
    return tuple(several)


def require_columns(where: str, schema: pl.Schema, names: Iterable[str]) -> None:
    """Check that all names are columns of the schema.

    Raises:
        PlanError: a column is unknown; lists the known ones.
    """
    if unknown := [name for name in names if name not in schema]:
        is_expression = any(character in name for name in unknown for character in "<>=()+*/")
        remedy = "; an expression in SQL is written pl.sql_expr(...)" if is_expression else ""
        raise PlanError(f"{where}: unknown column {listed(unknown)}; there are {listed(schema)}{remedy}")


def forbid_reserved(where: str, names: Iterable[str]) -> None:
    """Check that no name is reserved for the engine.

    Raises:
        PlanError: a name is reserved; names the column and the remedy.
    """
    if reserved := [name for name in names if name in RESERVED]:
        raise PlanError(f"{where}: {listed(reserved)} is reserved for the engine; rename the column")


def require_booleans(where: str, **options: object) -> None:
    """Check that options are either true or false: a text such as "no" would count as true.

    Raises:
        PlanError: one is something else.
    """
    for name, value in options.items():
        if not isinstance(value, bool):
            raise PlanError(f"{where}: {name}={value!r}; give True or False")


def require_texts(where: str, **options: object) -> None:
    """Check that options are texts, as names are.

    Raises:
        PlanError: one is something else.
    """
    for name, value in options.items():
        if not isinstance(value, str):
            raise PlanError(f"{where}: {name}={value!r}; give a name as text")


def require_name(what: str, name: object) -> None:
    """Check that a name can be given to a source or view: it goes into files, their names, and JSON.

    Raises:
        PlanError: it is not a text, is empty, or contains something that is not a character.
    """
    if not isinstance(name, str):
        raise PlanError(
            f"{what}: the name is {type(name).__name__}, and not text; give the name first, as in {what}('name', ...)"
        )
    if not name:
        raise PlanError(f"{what} {name!r}: a name is text and not empty")
    require_characters(what, name)


def require_characters(what: str, name: str) -> None:
    """Check that a name consists of characters: no half of a surrogate pair, which no file can hold, and no NUL.

    Raises:
        PlanError: names the first that is not a character, and its place.
    """
    if name.isascii() and "\0" not in name:
        return
    odd = next((at for at, each in enumerate(name) if each == "\0" or "\ud800" <= each <= "\udfff"), None)
    if odd is not None:
        raise PlanError(
            f"{what} {name!r}: character {odd + 1} of the name, U+{ord(name[odd]):04X}, cannot be written to files and JSON; "
            "leave it out (bytes that were decoded wrongly leave such halves of surrogate pairs behind)"
        )


@tagged("core.schema:Order")
@dataclass(frozen=True, slots=True)
class Order:
    """One column of an order of rows, as in ``polars.DataFrame.sort``. NaN sorts above all numbers."""

    column: str
    descending: bool = False
    nulls_last: bool = False
