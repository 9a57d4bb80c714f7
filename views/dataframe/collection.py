"""Collections as they are declared: polars' methods, each adding a node to the plan. Nothing is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar

import polars as pl

from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.tags import tagged
from evercurrent.core.group.aggregates import Column
from evercurrent.core.operators.join import JoinKind

from ..expressions import column_names, row_expressions
from ..plan.declared_calls import noting_calls
from ..plan.nodes import Concat, EventTime, Negate, Operation, PlanId, PlanNode, Unique, Windowing
from ..plan.plan import Plan
from .event_time_methods import EventTimeCalls
from .grouping import Flags, first_rows, grouped, turned
from .hints import forbid_choice, forbid_order, forbid_validation, missing_of_collection, missing_of_groups
from .joins import join_nodes
from .row_methods import ColumnNames, RowCalls
from .windowing import forbid_double_counting, windowed_group
from .windows import described

JoinHow = JoinKind | Literal["cross"]
_P = ParamSpec("_P")
_T = TypeVar("_T")


@noting_calls
@tagged("views.collection:Collection")
class Collection(RowCalls["Collection"], EventTimeCalls["Collection"]):
    """Rows with diffs, declared: what they are is known, and computed once an engine has views on them.

    Methods are named and behave as those of ``polars.LazyFrame``; each returns a new collection. Errors in a
    definition are raised at once, as ``PlanError``.
    """

    def __init__(self, plan: Plan, place: PlanId, windowing: Windowing | None = None) -> None:
        self._plan = plan
        self._place = place
        self._windowing = windowing

    @property
    def schema(self) -> pl.Schema:
        """The columns and their types."""
        return self._plan[self._place].schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.schema.names()

    def pipe(self, function: Callable[Concatenate[Self, _P], _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """What a function makes of the collection, with these arguments after it."""
        return function(self, *args, **kwargs)

    def concat(self, *others: Collection) -> Collection:
        """All rows of all collections (UNION ALL); the columns must be the same."""
        for other in others:
            self._require_same_columns("concat", other)
        return self._then(
            Concat(), self.schema, "concat", self._common_time(*others), *(other._place for other in others)
        )

    def negate(self) -> Collection:
        """Every row with the opposite diff. Sessions, and other windows that are made of rows, are refused of it."""
        return self._then(Negate(), self.schema, "negate", self._event_time)

    def minus(self, other: Collection) -> Collection:
        """Rows less the rows of another collection, diff by diff; diffs may become negative.

        Sessions, and other windows that are made of rows, are refused of it: put ``unique`` before them, or leave the
        rows out with an anti join.
        """
        self._require_same_columns("minus", other)
        return self._then(Concat(), self.schema, "minus", self._common_time(other), other.negate()._place)

    def unique(
        self, subset: None = None, *, keep: Literal["any"] = "any", maintain_order: Literal[False] = False
    ) -> Collection:
        """Each row whose diffs add up to more than zero, once."""
        where = self._where("unique")
        forbid_choice(where, subset, keep)
        forbid_order(where, maintain_order)
        return self._then(Unique(), self.schema, "unique", self._event_time)

    def group_by(
        self, *by: Any, maintain_order: Literal[False] = False, **named_by: Any
    ) -> GroupedCollection:
        """Bring rows together by these keys; by nothing: all rows are one group, also if there are none."""
        where = self._where("group_by")
        forbid_order(where, maintain_order)
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
        """Pairs of rows with equal keys, as ``polars.LazyFrame.join``.

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
        """The ``k`` largest rows by these columns, nulls last; ties are settled by the whole row."""
        return GroupedCollection(self, ()).top_k(k, by=by, reverse=reverse)

    def bottom_k(self, k: int, *, by: ColumnNames = (), reverse: Flags = False) -> Collection:
        """The ``k`` smallest rows by these columns, nulls last; ties are settled by the whole row."""
        return GroupedCollection(self, ()).bottom_k(k, by=by, reverse=reverse)

    def limit(
        self, n: int, *, by: ColumnNames = (), descending: Flags = False, nulls_last: Flags = False
    ) -> Collection:
        """The first ``n`` rows when sorted by these columns; ties are settled by the whole row."""
        return GroupedCollection(self, ()).limit(n, by=by, descending=descending, nulls_last=nulls_last)

    def __repr__(self) -> str:
        """What it is and which columns it has."""
        return f"{type(self).__name__}({self._plan[self._place].label}: {self._described})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise, with the way out where polars has a method of this name."""
            raise missing_of_collection(self, name, () if name.startswith("_") else self.columns)

    @property
    def _event_time(self) -> EventTime | None:
        return self._plan[self._place].event_time

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
        """Where event time stands, if it stands there for all: rows without it have no watermark."""
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
                f"{where}: {other._name} has other windows, triggers or lateness; put them together first, and then "
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
class GroupedCollection:
    """A collection whose rows are brought together by keys, to be aggregated or cut."""

    def __init__(self, collection: Collection, keys: tuple[Column, ...]) -> None:
        self._collection = collection
        self._plan = collection._plan
        self._keys = keys

    def agg(self, *aggs: Any, **named_aggs: Any) -> Collection:
        """One row per group: its keys and these aggregates, each kept by adding and retracting.

        Polars expressions over aggregates; see ``evercurrent.views.dataframe.aggregation`` for those that there are. A
        group is there while the diffs of its rows do not add up to zero.
        """
        of = self._collection
        forbid_double_counting(of._where("agg"), of._plan, of._place)
        if of._windowing is not None:
            return self._windowed(of, of._windowing, aggs, named_aggs)
        time = of._time_column or None
        operation, schema = grouped(of._where("agg"), of.schema, self._keys, aggs, named_aggs, time)
        made = ", ".join(name for name in schema if name not in operation.keys)
        label = f"group by {', '.join(operation.keys) or 'nothing'}" + (f": {made}" if made else "")
        return of._then(operation, schema, label, None)

    def _windowed(
        self, of: Collection, known: Windowing, aggs: tuple[Any, ...], named_aggs: Mapping[str, Any]
    ) -> Collection:
        operation, schema, event_time = windowed_group(
            of._where("agg"), of._plan, of._place, known, self._keys, aggs, named_aggs
        )
        by = ", ".join((*operation.keys, described(known.window)))
        node = PlanNode(operation, (of._place,), schema, f"group by {by}", event_time)
        return Collection(of._plan, of._plan.add(node))

    def top_k(self, k: int, *, by: ColumnNames = (), reverse: Flags = False) -> Collection:
        """The ``k`` largest rows of each group, nulls last; ties are settled by the whole row."""
        return self._first("top_k", k, by, turned(reverse), True)

    def bottom_k(self, k: int, *, by: ColumnNames = (), reverse: Flags = False) -> Collection:
        """The ``k`` smallest rows of each group, nulls last; ties are settled by the whole row."""
        return self._first("bottom_k", k, by, reverse, True)

    def limit(
        self, n: int, *, by: ColumnNames = (), descending: Flags = False, nulls_last: Flags = False
    ) -> Collection:
        """The first ``n`` rows of each group when sorted by these columns; ties are settled by the whole row."""
        return self._first("limit", n, by, descending, nulls_last)

    def __repr__(self) -> str:
        """What is grouped, and by which keys."""
        keys = ", ".join(key.name for key in self._keys) or "nothing"
        return f"GroupedCollection({self._collection._name} by {keys})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise, with the way out where polars has a method of this name."""
            raise missing_of_groups(name)

    def _first(
        self, method: str, count: int, by: ColumnNames, descending: Flags, nulls_last: Flags
    ) -> Collection:
        of = self._collection
        where = of._where(method)
        if of._windowing is not None:
            raise PlanError(
                f"{where}: rows of windows are not cut; aggregate them, as with .agg(pl.col('x').top_k(3).implode()), "
                f"or aggregate first and then cut by the bounds: .group_by('window_start').{method}(...)"
            )
        operation = first_rows(
            where, of.schema, self._keys, count, by, descending=descending, nulls_last=nulls_last
        )
        group = f" of each {', '.join(operation.keys)}" if operation.keys else ""
        label = f"{method} {count}{group} by {', '.join(part.column for part in operation.order)}"
        return of._then(operation, of.schema, label, of._event_time)


@tagged("views.collection:concat")
def concat(collections: Iterable[Collection]) -> Collection:
    """All rows of all collections (UNION ALL); the columns must be the same."""
    found = list(collections)
    if not found:
        raise PlanError("concat: there is no collection; give at least one")
    return found[0].concat(*found[1:])


def require_collection(where: str, plan: Plan, found: object) -> None:
    """Check that what is given is a collection of this plan.

    Raises:
        PlanError: it is something else, or of another engine.
    """
    if isinstance(found, GroupedCollection):
        raise PlanError(f"{where}: {found!r} is not a collection yet; finish it with .agg(...)")
    if not isinstance(found, Collection):
        raise PlanError(
            f"{where}: expected a collection, got {type(found).__name__}; push data to a source of its own"
        )
    if found._plan is not plan:
        raise PlanError(f"{where}: {found!r} belongs to a different engine; declare both on one")


def _either(both: ColumnNames | None, own: ColumnNames | None) -> ColumnNames:
    return own if own is not None else both if both is not None else ()
