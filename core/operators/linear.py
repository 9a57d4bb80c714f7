"""Linear operators need no state: their result for a sum is the sum of their results for its parts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import polars as pl

from ..data.clock import Now
from ..data.columns.kernels import Mask, frame_of, stack, with_plain_zeros
from ..data.columns.lossless import as_type, with_leaves
from ..data.columns.ownership import owned
from ..data.columns.polars_versions import without
from ..data.columns.row_values import failing_row, twice, written_out
from ..data.columns.whole_columns import AnyColumn, IntColumn
from ..data.delta import Delta
from ..data.errors import InputError, first_line
from ..data.repeated import RepeatedDelta
from ..data.schema import DIFF
from ..data.tags import tagged
from ..state.operator_contract import Operator

FrameFunction = Callable[[pl.DataFrame], pl.DataFrame]

ColumnFunction = Callable[[Delta], Sequence[AnyColumn]]

MaskFunction = Callable[[Delta], Mask]


@tagged("core.operators.linear:Linear")
class Linear(Operator):
    """Apply a row by row function to a change; the diffs are carried along.

        f(A + B) = f(A) + f(B)

    ``function`` takes the frame of the delta, ``_diff`` included, and may drop and multiply rows; or the delta is given to
    ``columns``, which returns the columns of the result, one value for each row, or to ``rows``, which returns which rows stay. ``copies``
    are the columns of the result by the columns that they copy, if ``columns`` does nothing else. ``keeps_rows_apart``: different rows stay
    different, so a consolidated delta stays consolidated. ``untouched`` are columns of the input that ``columns`` returns as
    they are and computes nothing from. Raises ``InputError`` with ``where`` when the function fails on a
    value.
    """

    def __init__(
        self,
        where: str,
        schema: pl.Schema,
        function: FrameFunction | None = None,
        *,
        keeps_rows_apart: bool,
        columns: ColumnFunction | None = None,
        copies: Mapping[str, str] | None = None,
        rows: MaskFunction | None = None,
        untouched: Collection[str] = (),
    ) -> None:
        assert [function, columns, rows].count(None) == 2, "one of them is applied"
        self.schema = schema
        self._where = where
        self._function = function
        self._columns = columns
        self._copies = copies
        self._rows = rows
        self._keeps_rows_apart = keeps_rows_apart
        self._untouched = frozenset(untouched)
        self._nothing = Delta.empty(schema)
        self._dtypes = self._nothing.frame.dtypes

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the image of the change."""
        (delta,) = deltas
        if not delta.height:
            return self._nothing
        if isinstance(delta, RepeatedDelta) and self._untouched.issuperset(delta.repeats.columns):
            return delta.mapped(lambda once: self.step(now, once))
        stays_consolidated = delta.is_consolidated and self._keeps_rows_apart
        if self._copies is not None:
            return delta.copied(self._copies, is_consolidated=stays_consolidated)
        try:
            if self._columns is not None:
                columns = map(_of_type, self._columns(delta), self._dtypes)
                return Delta.of_columns([*columns], delta.diffs, is_consolidated=stays_consolidated)
            if self._rows is not None:
                matching = delta.where(self._rows(delta))
                return matching if matching.height else self._nothing
            assert self._function is not None, "one of them is applied"
            frame = self._function(delta.frame)
            if frame.dtypes != self._dtypes:
                # If all rows are null, some functions of lists lose the type of the elements.
                frame = frame.cast(self._nothing.frame.schema)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise InputError(f"{self._where}: {first_line(error)}; nothing has changed") from error
        return Delta(frame, stays_consolidated) if frame.height else self._nothing


def _of_type(column: AnyColumn, dtype: pl.DataType) -> AnyColumn:
    """Return the column with its declared type, which some functions of lists lose if all rows are null."""
    return column if isinstance(column, IntColumn) or column.dtype == dtype else column.cast(dtype)


@tagged("core.operators.linear:MapBatches")
class MapBatches(Operator):
    """Apply a user's function from frames to frames, which is row by row by declaration.

    Rows with the same diff are passed to the function together and its result gets that diff, so the function may drop
    and multiply rows. Output columns are checked against the declared schema.

    polars computes a frame of one row differently from a longer one (``row_values``). So a single row, or a single row
    with a result, is passed twice, and every second row of the result is taken.
    """

    def __init__(self, where: str, schema: pl.Schema, function: FrameFunction) -> None:
        self.schema = schema
        # polars does not compare all types inside of others where they are classes, as in pl.List(pl.Categorical).
        self._returned = pl.Schema({name: with_leaves(dtype, as_type) for name, dtype in schema.items()})
        self._where = where
        self._function = function
        self._nothing = Delta.empty(schema)

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the image of the change."""
        (delta,) = deltas
        if not len(delta):
            return self._nothing
        parts = [
            self._mapped(without(delta.frame.filter(pl.col(DIFF) == diff), [DIFF]), diff).frame
            for diff in np.unique(delta.diffs).tolist()
        ]
        return Delta(stack(parts))

    def _mapped(self, rows: pl.DataFrame, diff: int) -> Delta:
        if rows.height > 1:
            # In one piece: threads share out a frame by its pieces, and a filter may leave a piece of one row.
            mapped = self._applied(written_out(rows).rechunk())
            if mapped.height != 1:
                return Delta.of(mapped, np.full(mapped.height, diff))
        mapped = self._applied(twice(rows))
        counted = Delta.of(mapped, np.ones(mapped.height, np.int64)).consolidate()
        if (counted.diffs % 2).any():
            raise InputError(
                f"{self._where}: given the same row twice, the function returned a result for only one of them, so it does "
                "not treat each row by itself; use .unique() or .group_by(...) for what needs several rows"
            )
        return Delta.of(counted.rows, counted.diffs // 2 * diff)

    def _applied(self, rows: pl.DataFrame) -> pl.DataFrame:
        try:
            mapped = self._function(rows)
        except Exception as error:
            raise InputError(
                f"{self._where}: the function raised {type(error).__name__}: {first_line(error)}"
                f"{failing_row(rows, self._is_failing)}; nothing has changed"
            ) from error
        if not isinstance(mapped, pl.DataFrame) or mapped.schema != self._returned:
            returned = dict(mapped.schema) if isinstance(mapped, pl.DataFrame) else type(mapped).__name__
            raise InputError(
                f"{self._where}: the function returned {returned}, but {dict(self.schema)} is declared; "
                "return these columns, or declare what it returns with schema="
            )
        # The function may keep the frame that it returned, and the memory under it.
        return frame_of([with_plain_zeros(column) for column in owned(mapped).get_columns()])

    def _is_failing(self, rows: pl.DataFrame) -> bool:
        try:
            self._function(rows)
        except Exception:
            return True
        return False


@tagged("core.operators.linear:Concat")
class Concat(Operator):
    """All rows of all inputs: A + B + ..."""

    def __init__(self, schema: pl.Schema) -> None:
        self.schema = schema
        self._nothing = Delta.empty(schema)

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the sum of the changes."""
        changes = [delta for delta in deltas if len(delta)]
        if not changes:
            return self._nothing
        return changes[0] if len(changes) == 1 else Delta(stack([delta.frame for delta in changes]))


@tagged("core.operators.linear:Negate")
class Negate(Operator):
    """Every row with the opposite diff: -A."""

    def __init__(self, schema: pl.Schema) -> None:
        self.schema = schema

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the opposite change."""
        (delta,) = deltas
        return delta.negate()
