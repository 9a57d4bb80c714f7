"""Declared collections: methods named like those of polars, each of which adds a node to the plan and computes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar

import polars as pl

from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.tags import tagged
from evercurrent.core.operators.group.aggregates import Column
from evercurrent.core.operators.join import JoinKind

from ..expressions import column_names, row_expressions
from ..plan.declared_calls import noting_calls
from ..plan.nodes import BOUNDS, Concat, EventTime, Negate, Operation, PlanId, PlanNode, Unique, Windowing
from ..plan.plan import Plan
from .event_time_methods import EventTimeCalls
from .grouping import Flags, by_any, first_rows, grouped, turned
from .hints import (
    forbid_order,
    forbid_validation,
    forbid_windows,
    missing_of_collection,
    missing_of_groups,
    require_choice,
)
from .joins import join_nodes
from .operator_hints import RefusedAsGroups, RefusedAsTable
from .row_methods import ColumnNames, RowCalls
from .short_forms import AggregateForms, unpivoted
from .windowing import windowed_group
from .windows import described

JoinHow = JoinKind | Literal["cross"]
_P = ParamSpec("_P")
_T = TypeVar("_T")


@noting_calls
@tagged("views.collection:Collection")
class Collection(RowCalls["Collection"], EventTimeCalls["Collection"], RefusedAsTable):
    """A declared collection of rows with diffs, which an engine computes once there are views of it.

    Methods are named and behave as those of ``polars.LazyFrame``; each returns a new collection. Errors in a
    definition are raised at once, as ``PlanError``.

    >>> import evercurrent as ec
    >>> engine = ec.Engine()
    >>> sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64})
    >>> dear = sales.filter(pl.col("price") > 10).with_columns(tax=pl.col("price") / 5)
    >>> dear.columns
    ['shop', 'price', 'tax']
    >>> view = engine.view("dear", dear.select("shop", "tax"))
    >>> _ = sales.push([("north", 5), ("south", 20)])
    >>> view.read().rows()
    [('south', 4.0)]
    """

    def __init__(self, plan: Plan, place: PlanId, windowing: Windowing | None = None) -> None:
        self._plan = plan
        self._place = place
        self._node = plan[place]
        self._windowing = windowing
        plan.hold(self, place)

    @property
    def schema(self) -> pl.Schema:
        """The columns and their types."""
        return self._node.schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.schema.names()

    def pipe(self, function: Callable[Concatenate[Self, _P], _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Return ``function(self, *args, **kwargs)``, so that functions can be chained like methods."""
        return function(self, *args, **kwargs)

    def concat(self, *others: Collection) -> Collection:
        """Return all rows of all collections (UNION ALL); the columns must be the same."""
        for other in others:
            self._require_same_columns("concat", other)
        return self._then(
            Concat(), self.schema, "concat", self._common_time(*others), *(other._place for other in others)
        )

    def negate(self) -> Collection:
        """Return every row with the opposite diff. Sessions and other windows that are made of rows are refused on it."""
        return self._then(Negate(), self.schema, "negate", self._event_time)

    def minus(self, other: Collection) -> Collection:
        """Subtract the rows of another collection, diff by diff; diffs may become negative.

        Sessions and other windows that are made of rows are refused on the result: put ``unique`` before them, or leave
        the rows out with an anti join.
        """
        self._require_same_columns("minus", other)
        return self._then(Concat(), self.schema, "minus", self._common_time(other), other.negate()._place)

    def unpivot(
        self,
        on: ColumnNames | None = None,
        *,
        index: ColumnNames | None = None,
        variable_name: str = "variable",
        value_name: str = "value",
    ) -> Collection:
        """Return a row for each column of ``on`` of each row, with the columns of ``index``, as ``polars.LazyFrame`` does.

        It is ``concat`` of a ``select`` for each column.

        Args:
            on: the columns whose values become rows; by default all that are not in ``index``.
            index: the columns that are repeated in each of these rows; by default none.
            variable_name: the column with the name of the column.
            value_name: the column with its value, of the type that all of these columns have in common.
        """
        first, *others = unpivoted(self, on, index, variable_name, value_name)
        return first.concat(*others)

    def unique(
        self,
        subset: ColumnNames | None = None,
        *,
        keep: Literal["any", "first", "last"] = "any",
        by: ColumnNames = (),
        maintain_order: Literal[False] = False,
    ) -> Collection:
        """Return each row whose diffs add up to more than zero, once; with ``subset`` one row for each value of these columns.

        Args:
            subset: the columns that differ from row to row of the result; by default all.
            keep: "any": a row of each, the same whatever the order of input. "first" and "last": by the order ``by``, which
                is ``group_by(subset).limit(1, by=by)``, and for "last" with ``descending=True, nulls_last=True``.
            by: the columns of that order, in which nulls are the least.
            maintain_order: rows have no order.

        >>> import evercurrent as ec
        >>> engine = ec.Engine()
        >>> prices = engine.source("prices", {"item": pl.String, "at": pl.Int64, "price": pl.Int64})
        >>> latest = engine.view("latest", prices.unique("item", keep="last", by="at"))
        >>> engine.push("prices", [("tea", 1, 30), ("tea", 3, 35), ("tea", 2, 32)])
        1
        >>> latest.read().rows()
        [('tea', 3, 35)]
        """
        where = self._where("unique")
        require_choice(where, keep, by)
        forbid_order(where, maintain_order)
        order = column_names(where, self.schema, by)
        if subset is not None:
            names = column_names(where, self.schema, subset)
            if not names:
                raise PlanError(f"{where}: the subset has no column; leave it out for whole rows")
            groups = self.group_by(*names)
            last = keep == "last"
            order = by_any(where, self.schema, names) if keep == "any" else order
            return groups.limit(1, by=order, descending=last, nulls_last=last)
        return self._then(Unique(), self.schema, "unique", self._event_time)

    def group_by(
        self, *by: Any, maintain_order: Literal[False] = False, **named_by: Any
    ) -> GroupedCollection:
        """Group rows by these keys; without keys all rows are one group, which exists even when there are no rows."""
        where = self._where("group_by")
        forbid_order(where, maintain_order)
        forbid_windows(where, by, named_by)
        keys = row_expressions(where, self.schema, *by, **named_by) if by or named_by else ()
        return GroupedCollection(self, keys)

    def join(
        self,
        other: Collection,
        on: ColumnNames | None = None,
        how: JoinHow = "inner",
        *,
        left_on: ColumnNames | None = None,
        right_on: ColumnNames | None = None,
        suffix: str = "_right",
        validate: Literal["m:m"] = "m:m",
        nulls_equal: bool = False,
        coalesce: bool | None = None,
        maintain_order: Literal["none"] | None = None,
    ) -> Collection:
        """Return the pairs of rows with equal keys, as ``polars.LazyFrame.join`` does.

        ``how``: inner, left, right, full, semi, anti, cross. Null keys match nothing unless ``nulls_equal``.
        """
        where = self._where("join")
        require_collection(where, self._plan, other)
        forbid_order(where, maintain_order)
        forbid_validation(where, validate)
        if on is not None and not (left_on is None and right_on is None):
            raise PlanError(f"{where}: give the keys with on=, or with left_on= and right_on=, not with both")
        left = column_names(where, self.schema, _either(on, left_on))
        right = column_names(where, other.schema, _either(on, right_on))
        place = join_nodes(
            self._plan, where, self._place, other._place, tuple(left), tuple(right), how,
            suffix=suffix, nulls_equal=nulls_equal, coalesce=coalesce,
        )  # fmt: skip
        # Rows of the left side have its windows; those of the right side without a partner have none.
        keeps = how in ("inner", "left", "semi", "anti", "cross")
        return Collection(self._plan, place, self._windowing if keeps else None)

    def top_k(self, k: int, *, by: ColumnNames = (), reverse: Flags = False) -> Collection:
        """Return the ``k`` largest rows by these columns, nulls last; ties are broken by the whole row."""
        return GroupedCollection(self, ()).top_k(k, by=by, reverse=reverse)

    def bottom_k(self, k: int, *, by: ColumnNames = (), reverse: Flags = False) -> Collection:
        """Return the ``k`` smallest rows by these columns, nulls last; ties are broken by the whole row."""
        return GroupedCollection(self, ()).bottom_k(k, by=by, reverse=reverse)

    def limit(
        self, n: int, *, by: ColumnNames = (), descending: Flags = False, nulls_last: Flags = False
    ) -> Collection:
        """Return the first ``n`` rows when sorted by these columns; ties are broken by the whole row."""
        return GroupedCollection(self, ()).limit(n, by=by, descending=descending, nulls_last=nulls_last)

    def __repr__(self) -> str:
        """Show the last operation and the columns."""
        return f"{type(self).__name__}({self._node.label}: {self._described})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise, with the remedy where polars has a method of this name."""
            raise missing_of_collection(self, name, () if name.startswith("_") else self.columns)

    @property
    def _event_time(self) -> EventTime | None:
        return self._node.event_time

    @property
    def _name(self) -> str:
        return self._plan.name_of(self._place)

    @property
    def _described(self) -> str:
        return ", ".join(f"{name} {dtype}" for name, dtype in self.schema.items())

    @property
    def _itself(self) -> Collection:
        return self

    def _where(self, method: str) -> str:
        return f"{method} on {self._name}"

    def _with(self, place: PlanId, windowing: Windowing | None) -> Collection:
        return Collection(self._plan, place, windowing)

    def _common_time(self, *others: Collection) -> EventTime | None:
        """Return the event time that all these collections share, or None: rows without event time have no watermark."""
        same = all(other._event_time == self._event_time for other in others)
        return self._event_time if same else None

    def _require_same_columns(self, method: str, other: Collection) -> None:
        where = self._where(method)
        require_collection(where, self._plan, other)
        if other.schema != self.schema:
            raise PlanError(
                f"{where}: {other._name} has {other._described}, not {self._described}; bring them to the same columns with select or cast"
            )
        if other._windowing != self._windowing:
            raise PlanError(
                f"{where}: {other._name} has other windows, triggers or lateness; combine the collections first, and put the result "
                "into windows"
            )

    def _then(
        self,
        operation: Operation,
        schema: pl.Schema,
        label: str,
        event_time: EventTime | None,
        *others: PlanId,
    ) -> Collection:
        node = PlanNode(operation, (self._place, *others), schema, label, event_time)
        return Collection(self._plan, self._plan.add(node), self._windowing)


@noting_calls
@tagged("views.collection:GroupedCollection")
class GroupedCollection(AggregateForms["Collection"], RefusedAsGroups):
    """A collection grouped by keys, to be aggregated or limited to the first rows of each group.

    >>> import evercurrent as ec
    >>> engine = ec.Engine()
    >>> sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64})
    >>> by_shop = sales.group_by("shop")
    >>> totals = engine.view("totals", by_shop.agg(total=pl.col("price").sum()))
    >>> dearest = engine.view("dearest", by_shop.top_k(1, by="price"))
    >>> _ = sales.push([("north", 5), ("north", 20)])
    >>> totals.read().rows(), dearest.read().rows()
    ([('north', 25)], [('north', 20)])
    """

    def __init__(self, collection: Collection, keys: tuple[Column, ...]) -> None:
        self._collection = collection
        self._plan = collection._plan
        self._keys = keys

    def agg(self, *aggs: Any, **named_aggs: Any) -> Collection:
        """Return one row per group, with its keys and these aggregates, which are updated by additions and retractions.

        Aggregates are polars expressions; ``evercurrent.views.dataframe.aggregation`` lists them. A group exists
        while the diffs of its rows do not add up to zero.
        """
        of = self._collection
        where = of._where("agg")
        _forbid_double_counting(where, of._plan, of._place)
        if of._windowing is not None:
            return self._windowed(of, of._windowing, aggs, named_aggs)
        time = of._event_time
        operation, schema = grouped(
            where, of.schema, self._keys, aggs, named_aggs, None if time is None else time.column
        )
        aggregates = ", ".join(name for name in schema if name not in operation.keys)
        label = f"group by {', '.join(operation.keys) or 'nothing'}" + (
            f": {aggregates}" if aggregates else ""
        )
        return of._then(operation, schema, label, None)

    def _where(self, method: str) -> str:
        return self._collection._where(method)

    def _values(self) -> list[pl.Expr]:
        of = self._collection
        keys = {*(key.name for key in self._keys), *(BOUNDS if of._windowing is not None else ())}
        return [pl.col(name) for name in of.schema if name not in keys]

    def _windowed(
        self, of: Collection, windowing: Windowing, aggs: tuple[Any, ...], named_aggs: Mapping[str, Any]
    ) -> Collection:
        operation, schema, event_time = windowed_group(
            of._where("agg"), of._plan, of._place, windowing, self._keys, aggs, named_aggs
        )
        by = ", ".join((*operation.keys, described(windowing.window)))
        node = PlanNode(operation, (of._place,), schema, f"group by {by}", event_time)
        return Collection(of._plan, of._plan.add(node))

    def top_k(self, k: int, *, by: ColumnNames = (), reverse: Flags = False) -> Collection:
        """Return the ``k`` largest rows of each group, nulls last; ties are broken by the whole row."""
        return self._first("top_k", k, by, turned(reverse), True)

    def bottom_k(self, k: int, *, by: ColumnNames = (), reverse: Flags = False) -> Collection:
        """Return the ``k`` smallest rows of each group, nulls last; ties are broken by the whole row."""
        return self._first("bottom_k", k, by, reverse, True)

    def limit(
        self, n: int, *, by: ColumnNames = (), descending: Flags = False, nulls_last: Flags = False
    ) -> Collection:
        """Return the first ``n`` rows of each group when sorted by these columns; ties are broken by the whole row."""
        return self._first("limit", n, by, descending, nulls_last)

    def __repr__(self) -> str:
        """Show what is grouped, and by which keys."""
        keys = ", ".join(key.name for key in self._keys) or "nothing"
        return f"GroupedCollection({self._collection._name} by {keys})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise, with the remedy where polars has a method of this name."""
            raise missing_of_groups(self, name)

    def _first(
        self, method: str, count: int, by: ColumnNames, descending: Flags, nulls_last: Flags
    ) -> Collection:
        of = self._collection
        where = of._where(method)
        if of._windowing is not None:
            values = f".agg(pl.col('x').{'top_k' if method == 'top_k' else 'bottom_k'}(3).implode())"
            raise PlanError(
                f"{where}: it does not apply to rows in windows; aggregate them, as with {values}, "
                f"or aggregate first and then take them by the bounds: .group_by('window_start').{method}(...)"
            )
        if count == 0 and not isinstance(count, bool):
            return of.filter(pl.lit(False))
        operation = first_rows(
            where, of.schema, self._keys, count, by, descending=descending, nulls_last=nulls_last
        )
        group = f" of each {', '.join(operation.keys)}" if operation.keys else ""
        label = f"{method} {count}{group} by {', '.join(part.column for part in operation.order)}"
        return of._then(operation, of.schema, label, of._event_time)


@tagged("views.collection:concat")
def concat(collections: Iterable[Collection]) -> Collection:
    """Return all rows of all collections (UNION ALL); the columns must be the same.

    >>> import evercurrent as ec
    >>> engine = ec.Engine()
    >>> one, other = (engine.source(name, {"x": pl.Int64}) for name in ("one", "other"))
    >>> both = engine.view("both", concat([one, other]))
    >>> _ = one.push({"x": [1]}), other.push({"x": [2]})
    >>> both.read().sort("x")["x"].to_list()
    [1, 2]
    """
    is_one = isinstance(collections, Collection) or not isinstance(collections, Iterable)
    inputs = [None] if is_one else list(collections)
    if not inputs:
        raise PlanError("concat: there is no collection; give at least one")
    if not isinstance(inputs[0], Collection):
        raise PlanError(
            f"concat: collections={collections!r}; give a list of sources, views and other collections"
        )
    return inputs[0].concat(*inputs[1:])


def require_collection(where: str, plan: Plan, value: object) -> None:
    """Check that a value is a collection of this plan.

    Raises:
        PlanError: it is something else, or a collection of another engine.
    """
    if isinstance(value, GroupedCollection):
        raise PlanError(f"{where}: {value!r} is not a collection yet; finish it with .agg(...)")
    if not isinstance(value, Collection):
        raise PlanError(
            f"{where}: expected a collection, got {type(value).__name__}; push such data to a source of its own"
        )
    if value._plan is not plan:
        raise PlanError(f"{where}: {value!r} belongs to a different engine; declare both on one")


def _either(both: ColumnNames | None, own: ColumnNames | None) -> ColumnNames:
    return own if own is not None else both if both is not None else ()


def _forbid_double_counting(where: str, plan: Plan, place: PlanId) -> None:
    """Check that no accumulating panes are grouped again, since each of them holds what those before it held.

    Raises:
        PlanError: some are grouped again.
    """
    repeats = plan.counts_again(place)
    if repeats is not None:
        raise PlanError(
            f"{where}: {plan.name_of(repeats)} emits accumulating panes, each of which holds what those before it "
            "held: grouped again, rows would count twice. Use .latest(), the last pane of each window, or "
            ".accumulate('retracting'), or insist with .accumulate('accumulating', allow_regrouping=True)"
        )
