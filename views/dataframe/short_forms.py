"""Short forms that polars has for common calls, each defined by the long form that it stands for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, Never, TypeVar

import polars as pl

from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import forbid_reserved, listed, require_texts

from ..expressions import column_names
from ..expressions.known_schemas import resolved
from ..plan.nodes import BOUNDS
from .row_methods import ColumnNames, RowCalls

C = TypeVar("C", bound=RowCalls[Any])

Interpolation = Literal["nearest", "higher", "lower", "midpoint", "linear"]


class AggregateForms(ABC, Generic[C]):
    """The aggregates of a grouped collection that apply to all columns that are not keys."""

    @abstractmethod
    def agg(self, *aggs: Any, **named_aggs: Any) -> C:
        """Return one row per group, with its keys and these aggregates."""

    @abstractmethod
    def _where(self, method: str) -> str:
        """Name the method and the collection, for messages."""

    @abstractmethod
    def _values(self) -> list[pl.Expr]:
        """Return the columns that are neither keys nor bounds of windows."""

    def _of_each(self, name: str, named: Sequence[object], aggregate: Callable[[pl.Expr], pl.Expr]) -> C:
        """Return an aggregate of each column that is not a key.

        Raises:
            PlanError: columns are ``named``, as Spark and pandas take them; or a column has no such aggregate.
        """
        if named:
            column = named[0] if isinstance(named[0], str) else "x"
            raise PlanError(
                f"{self._where(name)}: {name}() is of every column that is not a key, and takes no names; "
                f"write .agg(pl.col({column!r}).{name}()) for those that are meant"
            )
        try:
            return self.agg(*map(aggregate, self._values()))
        except PlanError as error:
            raise PlanError(
                f"{error}; {name}() is of every column that is not a key: leave out others with .select(...) before group_by, "
                "or name those that are meant in .agg(...)"
            ) from error

    def len(self, name: str = "len") -> C:
        """Return the number of rows of each group: ``agg(pl.len().alias(name))``.

        >>> import evercurrent as ec
        >>> engine = ec.Engine()
        >>> hits = engine.view("hits", engine.source("log", {"ip": pl.String}).group_by("ip").len())
        >>> engine.push("log", {"ip": ["a", "b", "a"]})
        1
        >>> sorted(hits.read().rows())
        [('a', 2), ('b', 1)]
        """
        if not isinstance(name, str):
            raise PlanError(
                f"{self._where('len')}: {name!r} is no name of a column; give a text, as in .len('n')"
            )
        return self.agg(pl.len().alias(name))

    def sum(self, *columns: Never) -> C:
        """Return the sum of each column that is not a key: ``agg(pl.col(x).sum())``."""
        return self._of_each("sum", columns, lambda column: column.sum())

    def mean(self, *columns: Never) -> C:
        """Return the mean of each column that is not a key: ``agg(pl.col(x).mean())``."""
        return self._of_each("mean", columns, lambda column: column.mean())

    def median(self, *columns: Never) -> C:
        """Return the median of each column that is not a key: ``agg(pl.col(x).median())``."""
        return self._of_each("median", columns, lambda column: column.median())

    def min(self, *columns: Never) -> C:
        """Return the least value of each column that is not a key: ``agg(pl.col(x).min())``."""
        return self._of_each("min", columns, lambda column: column.min())

    def max(self, *columns: Never) -> C:
        """Return the greatest value of each column that is not a key: ``agg(pl.col(x).max())``."""
        return self._of_each("max", columns, lambda column: column.max())

    def n_unique(self, *columns: Never) -> C:
        """Return the number of different values of each column that is not a key: ``agg(pl.col(x).n_unique())``."""
        return self._of_each("n_unique", columns, lambda column: column.n_unique())

    def quantile(self, quantile: float, interpolation: Interpolation = "nearest") -> C:
        """Return a quantile of each column that is not a key: ``agg(pl.col(x).quantile(quantile, interpolation))``."""
        return self._of_each("quantile", (), lambda column: column.quantile(quantile, interpolation))


def unpivoted(
    of: C, on: ColumnNames | None, index: ColumnNames | None, variable_name: str, value_name: str
) -> list[C]:
    """Return a ``select`` for each of the columns ``on``, which together have a row for each of them of each row.

    Raises:
        PlanError: columns are not there, in both lists, or of types that have none in common; or a name is taken.
    """
    where = of._where("unpivot")
    require_texts(where, variable_name=variable_name, value_name=value_name)
    index_columns = [] if index is None else column_names(where, of.schema, index)
    fixed = (*index_columns, *(BOUNDS if of._windowing is not None else ()))
    names = (
        [name for name in of.schema if name not in fixed]
        if on is None
        else column_names(where, of.schema, on)
    )
    if both := [name for name in names if name in fixed]:
        raise PlanError(f"{where}: {listed(both)} is in on= and in index=; name it once")
    if not names:
        raise PlanError(f"{where}: there is no column to make rows of; name them with on=")
    if variable_name == value_name or {variable_name, value_name} & set(index_columns):
        raise PlanError(
            f"{where}: {variable_name!r} and {value_name!r} would appear twice; choose other names with variable_name= "
            "and value_name="
        )
    forbid_reserved(where, (variable_name, value_name))
    schema = resolved(
        where,
        lambda: of.schema.to_frame().unpivot(
            names, index=index_columns, variable_name=variable_name, value_name=value_name
        ),
    )
    return [
        of.select(
            *index_columns,
            pl.lit(name).alias(variable_name),
            pl.col(name).cast(schema[value_name]).alias(value_name),
        )
        for name in names
    ]
