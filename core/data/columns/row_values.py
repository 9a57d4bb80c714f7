"""Expressions over rows are computed so that each value is a function of its row.

polars treats a column of one value as a constant and computes with constants in another way: ``x / 49`` is a division
in a frame of one row and a multiplication by the reciprocal in a longer one; the same holds for ``//``, ``%`` and some
powers. A column that is made of one row, or by concatenating equal ones, stays marked as constant however long it gets.
So a row that came alone and is retracted beside others would not match its retraction. To avoid that, expressions are
evaluated over materialized columns, and over two equal rows in place of a single one, which changes no result.

For expressions over elements of lists, polars sees all elements of a frame as one column, and a frame of many rows may have
a single element: so these expressions are evaluated over all rows twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from .kernels import MANY_ROWS, frame_of
from .polars_versions import root_names

_OVER_ELEMENTS = (".eval(", ".agg(")
"""Parts of the text of an expression over elements of lists. Other text that looks like it costs time, not correctness."""


ROW_LETTERS = 300
"""Of a row that a message shows so many letters are shown."""

_WAYS_OUT = {
    "conversion from": "strict=False gives null for such values",
    "get index is out of bounds": "null_on_oob=True gives null there",
    "gather indices are out of bounds": "null_on_oob=True gives null there",
}
"""What to do about an error of polars, by a part of its text."""


class RowExpressionError(pl.exceptions.PolarsError):
    """An expression that polars cannot compute of a value: its message has the expression, a row and the way out."""


class RowExpressions:
    """Expressions, one column each, whose values do not depend on the number of rows, or on other rows.

    One of them has to be as long as the frame, since a literal is one row in ``DataFrame.select``. ``inputs`` are the columns
    that they read. ``shown`` returns the text of an expression in messages, by its number.

    >>> share = RowExpressions([(pl.col("x") / 49).alias("share")])
    >>> alone, in_company = pl.DataFrame({"x": [5.0]}), pl.DataFrame({"x": [5.0, 7.0]})
    >>> share.of(alone)["share"][0] == share.of(in_company)["share"][0]
    True
    """

    def __init__(self, exprs: Sequence[pl.Expr], shown: Callable[[int], str] | None = None) -> None:
        self._exprs = list(exprs)
        self._shown = shown
        self.inputs = tuple(dict.fromkeys(name for expr in exprs for name in root_names(expr)))
        self._over_elements = any(has_element_expression(expr) for expr in exprs)

    def of(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the columns over the rows of a frame; in one thread if there are too few rows to divide.

        Raises:
            PolarsError: polars cannot compute one of a value; a ``RowExpressionError`` where ``shown`` is there.
        """
        try:
            return self._computed(frame)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            failure = self._failure(frame)
            raise error if failure is None else failure from error

    def _failure(self, frame: pl.DataFrame) -> Exception | None:
        """Return the error of the first expression that fails on its own, over each row once; None if none does."""
        for number, expr in enumerate(self._exprs):
            error = _error_of(frame, expr)
            if error is not None and self._shown is None:
                return error
            if error is not None and self._shown is not None:
                reason = (str(error).strip() or type(error).__name__).splitlines()[0]
                row = failing_row(
                    frame.select(list(dict.fromkeys(root_names(expr)))),
                    lambda rows, expr=expr: _error_of(rows, expr) is not None,  # type: ignore[misc]
                )
                ways_out = [f"; {way}" for part, way in _WAYS_OUT.items() if part in reason]
                return RowExpressionError(f"{reason}, in {self._shown(number)}{row}{''.join(ways_out)}")
        return None

    def _computed(self, frame: pl.DataFrame) -> pl.DataFrame:
        height = frame.height
        if height == 1 or (self._over_elements and height):
            return self._select(twice(frame)).slice(0, height)
        return self._select(written_out(frame))

    def _select(self, frame: pl.DataFrame) -> pl.DataFrame:
        if frame.height <= MANY_ROWS:
            return frame.select_seq(self._exprs)
        # Threads divide a frame by its chunks, and a chunk may have a single row.
        return frame.rechunk().select(self._exprs)


def _error_of(rows: pl.DataFrame, expr: pl.Expr) -> Exception | None:
    try:
        rows.select(expr)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        return error
    return None


def failing_row(rows: pl.DataFrame, is_failing: Callable[[pl.DataFrame], bool]) -> str:
    """Return the first row with which a function fails, for a message; nothing if it fails with no single row.

    Cost: the function is called on halves, some twice as many rows in all.
    """
    while rows.height > 1:
        half = rows.height // 2
        first, second = rows[:half], rows[half:]
        if is_failing(first):
            rows = first
        elif is_failing(second):
            rows = second
        else:
            return ""
    return f", for the row {str(rows.row(0, named=True))[:ROW_LETTERS]}" if rows.height else ""


def written_out(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the same rows in columns that polars does not treat as constants: converting to Series materializes them."""
    return frame_of(frame.get_columns())


def twice(frame: pl.DataFrame) -> pl.DataFrame:
    """Return all rows twice, one copy after the other, materialized."""
    if frame.height == 1:
        return frame_of([column.new_from_index(0, 2) for column in frame.get_columns()])
    # As one chunk: a filter of two chunks may leave chunks of one row again.
    return written_out(frame.vstack(frame).rechunk())


def has_element_expression(expr: pl.Expr) -> bool:
    """Return whether something in an expression is evaluated over the elements of lists or arrays."""
    text = str(expr)
    return any(call in text for call in _OVER_ELEMENTS)
