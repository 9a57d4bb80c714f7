"""The aggregates of a group operator, as the compiler makes them from parsed expressions.

A ``group_by(...).agg(...)`` is compiled into an ``Aggregation``: columns prepared row by row, aggregates over
those columns, and columns finished from the aggregates of each group.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import polars as pl

from ...data.schema import Order as Order
from ...data.tags import not_kept, tagged
from .user_states import Serializer

AdditiveKind = str
"""The name of a kind of additive aggregate: ``accumulators.KINDS`` lists them."""


@tagged("core.aggregates:Column")
@dataclass(frozen=True, slots=True)
class Column:
    """A column computed row by row: ``expr``, whose output name is ``name``, over the columns of a frame.

    ``copies`` names the input column when the expression is only that column, so that small deltas need no evaluation
    of expressions.
    """

    name: str
    expr: pl.Expr
    copies: str | None = None


class AggregateTraits:
    """The properties of an aggregate of any kind, with defaults for one that is recomputed from the rows of its group."""

    __slots__ = ()

    output: str
    """The name of its column among the results of the group."""

    dtype: pl.DataType
    """The type of its results."""

    is_steady: ClassVar[bool] = False
    """Whether it has the same results over a column of a wider type, which holds the same values."""

    is_users: ClassVar[bool] = False
    """Whether functions of a user compute it."""

    is_supplied: ClassVar[bool] = False
    """Whether another node supplies its changes."""

    @property
    def additive(self) -> "Additive | None":
        """Return itself if it is computed from sums over rows alone."""
        return None

    @property
    def over_rows(self) -> pl.Expr | None:
        """Return the expression of prepared columns that polars computes from all rows of a group; None if it is kept in another way."""
        return None

    def compute_of_nothing(self, no_rows: pl.DataFrame) -> None:
        """Compute it without rows, over their columns, where polars or functions of a user compute it; raise what these raise."""
        if self.over_rows is not None:
            no_rows.select(self.over_rows)

    @property
    def columns_read(self) -> tuple[str, ...]:
        """Return the prepared columns that it reads."""
        return ()

    @property
    def functions(self) -> tuple[Any, ...]:
        """Return the functions of a user that compute it; None in place of one that is not given."""
        return ()

    def with_functions(self, changed: Callable[[Any], Any]) -> "AggregateTraits":
        """Return it with its functions changed."""
        return self

    @property
    def by_key(self) -> "AggregateTraits":
        """Return an equal aggregate all of whose state is by key, so that keys can be purged."""
        return self

    def identity(self, compared: Callable[[pl.Expr], Hashable]) -> Hashable:
        """Return a value that is equal for equal aggregates; ``compared`` does that for expressions."""
        return self


@tagged("core.aggregates:Additive")
@dataclass(frozen=True, slots=True)
class Additive(AggregateTraits):
    """An aggregate of additive columns, so that a retraction is an addition of the negative.

    ``input`` is a prepared column (None for ``len``). As in polars: nulls are skipped, the sum of nothing is
    zero, the mean of nothing null; ``any`` and ``all`` ignore nulls.
    """

    is_steady = True

    output: str
    dtype: pl.DataType
    kind: AdditiveKind
    input: str | None = None
    ddof: int = 1

    @property
    def additive(self) -> "Additive":
        """Return itself."""
        return self

    @property
    def columns_read(self) -> tuple[str, ...]:
        """Return its input, if it has one."""
        return () if self.input is None else (self.input,)


@tagged("core.aggregates:Pick")
@dataclass(frozen=True, slots=True)
class FirstBy(AggregateTraits):
    """The value of ``input`` in the first row of the group by ``order``, among rows where ``where`` is true.

    min, max, first, last, arg_min and arg_max are all of this form. Ties are broken by the value itself,
    ascending. Null where no row qualifies.
    """

    is_steady = True

    output: str
    dtype: pl.DataType
    input: str
    order: tuple[Order, ...]
    where: str | None = None

    @property
    def columns_read(self) -> tuple[str, ...]:
        """Return its input, its condition and the columns of its order."""
        return (self.input, *_condition(self.where), *(each.column for each in self.order))


@tagged("core.aggregates:Distinct")
@dataclass(frozen=True, slots=True)
class Distinct(AggregateTraits):
    """The number of different values of ``input`` in the group; null counts as a value, and all NaN as one."""

    is_steady = True

    output: str
    dtype: pl.DataType
    input: str

    @property
    def columns_read(self) -> tuple[str, ...]:
        """Return its input."""
        return (self.input,)

    @property
    def column(self) -> str:
        """Return the additive column that counts the values."""
        return f"distinct:{self.input}"

    @property
    def by_key(self) -> "RecomputedAggregate":
        """Return the number of different values among the rows of the group."""
        return RecomputedAggregate(self.output, self.dtype, (self.input,), pl.col(self.input).n_unique())


@tagged("core.aggregates:Whole")
@dataclass(frozen=True, slots=True)
class RecomputedAggregate(AggregateTraits):
    """An aggregate computed from all rows of a touched group: ``expr`` over the prepared ``inputs``.

    The rows come sorted by ``order`` and then by all of ``inputs``, each as many times as its diff, so the
    result is a function of the collection and not of its history. Cost: the rows of the touched groups.
    """

    output: str
    dtype: pl.DataType
    inputs: tuple[str, ...]
    expr: pl.Expr
    order: tuple[Order, ...] = ()

    @property
    def over_rows(self) -> pl.Expr:
        """Return its expression."""
        return self.expr

    @property
    def columns_read(self) -> tuple[str, ...]:
        """Return its inputs and the columns of its order."""
        return (*self.inputs, *(each.column for each in self.order))

    def identity(self, compared: Callable[[pl.Expr], Hashable]) -> Hashable:
        """Return its inputs, their order and its expression."""
        return self.inputs, self.order, compared(self.expr)


@tagged("core.aggregates:Custom")
@dataclass(frozen=True, slots=True)
class Custom(AggregateTraits):
    """A user's aggregate over the prepared column ``input``; values arrive as a Series, a group at a time.

    ``create() -> state``, ``add(state, values) -> state``, ``merge(state, state) -> state``,
    ``extract(state) -> result``. With ``remove(state, values) -> state`` the state is kept, that of an epoch's new
    rows is merged into it, and a retraction is as cheap as an addition; without it the group is recomputed and no state
    is kept. A kept state is a plain value, or one that ``serializer`` converts to bytes.
    """

    is_users = True

    output: str
    dtype: pl.DataType
    input: str
    create: Callable[[], Any]
    add: Callable[[Any, pl.Series], Any]
    merge: Callable[[Any, Any], Any]
    extract: Callable[[Any], Any]
    remove: Callable[[Any, pl.Series], Any] | None = None
    serializer: Serializer | None = field(default=None, metadata=not_kept())

    @property
    def columns_read(self) -> tuple[str, ...]:
        """Return its input."""
        return (self.input,)

    def compute_of_nothing(self, no_rows: pl.DataFrame) -> None:
        """Extract the result of the state of an empty group."""
        pl.Series([self.extract(self.create())], dtype=self.dtype)

    @property
    def functions(self) -> tuple[Any, ...]:
        """Return what creates, adds, merges, extracts and removes."""
        return self.create, self.add, self.merge, self.extract, self.remove

    def with_functions(self, changed: Callable[[Any], Any]) -> "Custom":
        """Return it with its functions changed."""
        create, add, merge, extract, remove = map(changed, self.functions)
        return replace(self, create=create, add=add, merge=merge, extract=extract, remove=remove)

    @property
    def by_key(self) -> "Custom":
        """Return it without an inverse, so that it is computed from the rows of the group."""
        return replace(self, remove=None)


@tagged("core.aggregates:Told")
@dataclass(frozen=True, slots=True)
class SuppliedValue(AggregateTraits):
    """A whole number of the group that another node supplies as changes to add up, such as the end of a session."""

    is_supplied = True

    output: str
    dtype: pl.DataType

    @property
    def column(self) -> str:
        """Return the additive column that holds the number."""
        return f"told:{self.output}"


def _condition(where: str | None) -> tuple[str, ...]:
    return () if where is None else (where,)


Aggregate = AggregateTraits
"""An aggregate of any kind."""


@tagged("core.aggregates:Aggregation")
@dataclass(frozen=True, slots=True)
class Aggregation:
    """A compiled ``agg(...)``: prepare columns, aggregate them by group, finish the output columns.

    ``prepared`` are computed from the rows of the input, ``finished`` from a frame with one row per group
    that holds each aggregate under its ``output`` name. ``schema`` lists the finished columns in order.
    """

    prepared: tuple[Column, ...]
    aggregates: tuple[Aggregate, ...]
    finished: tuple[Column, ...]
    schema: pl.Schema
