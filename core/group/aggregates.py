"""The aggregates of a group operator, as the compiler makes them from parsed expressions.

A ``group_by(...).agg(...)`` is compiled into an ``Aggregation``: columns prepared row by row, aggregates over
those columns, and columns finished from the aggregates of each group.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from ..data.schema import Order as Order
from ..data.tags import not_kept, tagged
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


@tagged("core.aggregates:Additive")
@dataclass(frozen=True, slots=True)
class Additive:
    """An aggregate of additive columns, so that a retraction is an addition of the negative.

    ``input`` is a prepared column (None for ``len``). As in polars: nulls are skipped, the sum of nothing is
    zero, the mean of nothing null; ``any`` and ``all`` ignore nulls.
    """

    output: str
    dtype: pl.DataType
    kind: AdditiveKind
    input: str | None = None
    ddof: int = 1


@tagged("core.aggregates:Pick")
@dataclass(frozen=True, slots=True)
class FirstBy:
    """The value of ``input`` in the first row of the group by ``order``, among rows where ``where`` is true.

    min, max, first, last, arg_min and arg_max are all of this form. Ties are broken by the value itself,
    ascending. Null where no row qualifies.
    """

    output: str
    dtype: pl.DataType
    input: str
    order: tuple[Order, ...]
    where: str | None = None


@tagged("core.aggregates:Distinct")
@dataclass(frozen=True, slots=True)
class Distinct:
    """The number of different values of ``input`` in the group; null counts as a value, and all NaN as one."""

    output: str
    dtype: pl.DataType
    input: str


@tagged("core.aggregates:Whole")
@dataclass(frozen=True, slots=True)
class RecomputedAggregate:
    """An aggregate computed from all rows of a touched group: ``expr`` over the prepared ``inputs``.

    The rows come sorted by ``order`` and then by all of ``inputs``, each as often as its diff says, so the
    result is a function of the collection and not of its history. Cost: the rows of the touched groups.
    """

    output: str
    dtype: pl.DataType
    inputs: tuple[str, ...]
    expr: pl.Expr
    order: tuple[Order, ...] = ()


@tagged("core.aggregates:Custom")
@dataclass(frozen=True, slots=True)
class Custom:
    """A user's aggregate over the prepared column ``input``; values arrive as a Series, a group at a time.

    ``create() -> state``, ``add(state, values) -> state``, ``merge(state, state) -> state``,
    ``extract(state) -> result``. With ``remove(state, values) -> state`` the state is kept, that of an epoch's new
    rows is merged into it, and a retraction is as cheap as an addition; without it the group is recomputed and no state
    is kept. A kept state is a plain value, or one that ``serializer`` converts to bytes.
    """

    output: str
    dtype: pl.DataType
    input: str
    create: Callable[[], Any]
    add: Callable[[Any, pl.Series], Any]
    merge: Callable[[Any, Any], Any]
    extract: Callable[[Any], Any]
    remove: Callable[[Any, pl.Series], Any] | None = None
    serializer: Serializer | None = field(default=None, metadata=not_kept())


@tagged("core.aggregates:Told")
@dataclass(frozen=True, slots=True)
class SuppliedValue:
    """A whole number of the group that another node supplies as changes to add up, such as the end of a session."""

    output: str
    dtype: pl.DataType


Aggregate = Additive | FirstBy | Distinct | RecomputedAggregate | Custom | SuppliedValue


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
