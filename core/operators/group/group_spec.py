"""What a group operator computes, and how the errors of its aggregates name the columns that a user sees."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from ...data.columns.kernels import frame_of, with_plain_zeros
from ...data.columns.polars_versions import root_names
from ...data.columns.row_values import RowExpressions
from ...data.columns.whole_columns import AnyColumn
from ...data.errors import ArithmeticRefusedError, InputError, first_line
from ...data.schema import DIFF, listed
from .aggregates import Aggregate, Column
from .user_states import StateRefusedError, StateUnreadableError


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The specification of a group operator: the groups' keys, their aggregates, and the output columns."""

    where: str
    keys: pl.Schema
    aggregates: tuple[Aggregate, ...]
    finished: tuple[Column, ...]

    def error_of(
        self, aggregate: Aggregate, error: Exception | pl.exceptions.PanicException
    ) -> BaseException:
        """Return an error of an aggregate as an error of the column that a user sees; a bug of the library unchanged."""
        if isinstance(error, ArithmeticRefusedError | StateRefusedError | StateUnreadableError):
            return type(error)(self.refusal(aggregate, str(error)))
        is_of_polars = isinstance(error, pl.exceptions.PolarsError | pl.exceptions.PanicException)
        if is_of_polars or aggregate.is_users:
            complaint = f"the aggregate raised {type(error).__name__}: {first_line(error)}"
            return InputError(self.refusal(aggregate, complaint))
        return error

    def refusal(self, aggregate: Aggregate, complaint: str) -> str:
        """Return a message about an aggregate, which names the columns that are computed from it."""
        return f"{self.where}: column {listed(self.shown(aggregate))}: {complaint}; nothing has changed"

    def shown(self, aggregate: Aggregate) -> list[str]:
        """Return the output columns that are computed from an aggregate."""
        return [column.name for column in self.finished if aggregate.output in root_names(column.expr)]


class Finishing:
    """The output columns of groups that are computed from their aggregates by expressions."""

    def __init__(self, spec: GroupSpec) -> None:
        self._where = spec.where
        finished = [column.expr.alias(column.name) for column in spec.finished]
        self._expressions = RowExpressions([*finished, pl.col(DIFF)])

    def computed(self, columns: Iterable[AnyColumn], height: int) -> list[pl.Series]:
        """Return the output columns of ``height`` groups with these keys and aggregates.

        Raises:
            InputError: polars cannot compute one.
        """
        # A column of this height makes literals as long as the other columns.
        frame = frame_of([pl.Series(DIFF, np.zeros(height, np.int64)), *columns])
        try:
            computed = self._expressions.of(frame).get_columns()[:-1]
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise InputError(f"{self._where}: {first_line(error)}; nothing has changed") from error
        return [*map(with_plain_zeros, computed)]
