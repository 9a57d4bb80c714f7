"""What a group operator computes, and how the errors of its aggregates name the columns that a user sees."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from ..data.errors import ArithmeticRefusedError, InputError, first_line
from ..data.schema import listed
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
        return [column.name for column in self.finished if aggregate.output in column.expr.meta.root_names()]
