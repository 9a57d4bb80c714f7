"""Collections as they are declared: polars' methods, each adding a node to the plan. Nothing is computed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal

import polars as pl

from evercurrent.core.aggregates import Aggregation, Column, Whole
from evercurrent.core.errors import PlanError
from evercurrent.core.operators.join import JoinKind
from evercurrent.core.schema import Order, forbid_reserved, listed, require_columns

from .aggregation import aggregation
from .expressions import Expression, output_schema, predicate, row_expressions
from .joins import join_nodes
from .plan import (
    Concat,
    Explode,
    Filter,
    Group,
    Mapped,
    Negate,
    Operation,
    Plan,
    PlanId,
    PlanNode,
    Select,
    Top,
    Unique,
    Unnest,
)

Columns = str | Sequence[str]
JoinHow = JoinKind | Literal["cross"]


class Collection:
    """Rows with diffs, declared: what they are is known, and computed once an engine has views on them.

    Methods are named and behave as those of ``polars.LazyFrame``; each returns a new collection. Errors in a
    definition are raised at once, as ``PlanError``.
    """

    def __init__(self, plan: Plan, place: PlanId) -> None:
        self._plan = plan
        self._place = place

    @property
    def schema(self) -> pl.Schema:
        """The columns and their types."""
        return self._plan[self._place].schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.schema.names()

    def filter(self, *predicates: Any, **constraints: Any) -> Collection:
        """Rows for which all conditions are true; null is not true."""
        condition = predicate(self._where("filter"), self.schema, *predicates, **constraints)
        operation = Filter(Expression(condition.expr), condition)
        return self._then(operation, self.schema, f"filter {condition.expr}", self._event_time)

    def select(self, *exprs: Any, **named_exprs: Any) -> Collection:
        """These columns, computed row by row."""
        columns = row_expressions(self._where("select"), self.schema, *exprs, **named_exprs)
        return self._select("select", columns)

    def with_columns(self, *exprs: Any, **named_exprs: Any) -> Collection:
        """All columns, and these computed row by row, replacing those of the same name."""
        computed = row_expressions(self._where("with_columns"), self.schema, *exprs, **named_exprs)
        columns = {name: _copy(name) for name in self.columns} | {column.name: column for column in computed}
        return self._select(
            "with_columns", tuple(columns.values()), shown=[column.name for column in computed]
        )

    def rename(self, mapping: Mapping[str, str]) -> Collection:
        """The same columns under other names: old name to new name."""
        require_columns(self._where("rename"), self.schema, mapping)
        columns = [_copy(name, mapping.get(name, name)) for name in self.columns]
        names = [column.name for column in columns]
        forbid_reserved(self._where("rename"), names)
        if twice := {name for name in names if names.count(name) > 1}:
            raise PlanError(
                f"{self._where('rename')}: {listed(sorted(twice))} would stand twice; choose another name"
            )
        return self._select("rename", tuple(columns))

    def drop(self, *columns: str | Iterable[str]) -> Collection:
        """All columns but these."""
        dropped = _names(columns)
        require_columns(self._where("drop"), self.schema, dropped)
        return self._select("drop", tuple(_copy(name) for name in self.columns if name not in dropped))

    def cast(self, dtypes: Mapping[str, Any] | Any, *, strict: bool = True) -> Collection:
        """Columns in other types; one type for all, or a type by name. Strict: a value that does not fit is refused."""
        wanted = dict(dtypes) if isinstance(dtypes, Mapping) else dict.fromkeys(self.columns, dtypes)
        require_columns(self._where("cast"), self.schema, wanted)
        return self.with_columns(pl.col(name).cast(dtype, strict=strict) for name, dtype in wanted.items())

    def explode(self, *columns: str | Iterable[str]) -> Collection:
        """A row per element of these list columns; null gives a row with null and an empty list none, as in polars."""
        return self._reshaped("explode", Explode, columns, pl.DataFrame.explode)

    def unnest(self, *columns: str | Iterable[str]) -> Collection:
        """These struct columns replaced by their fields."""
        return self._reshaped("unnest", Unnest, columns, pl.DataFrame.unnest)

    def map_batches(
        self, function: Callable[[pl.DataFrame], pl.DataFrame], *, schema: Mapping[str, Any] | None = None
    ) -> Collection:
        """What a function makes of the rows; row by row by your declaration: f(A + B) = f(A) + f(B).

        The function gets frames without ``_diff`` and may drop and multiply rows. It must be deterministic:
        a retraction is the function applied to the old row again. ``schema`` declares its columns; without it
        the function is applied to an empty frame once to find out.
        """
        where = self._where("map_batches")
        if schema is None:
            try:
                schema = function(self.schema.to_frame()).schema
            except Exception as error:
                raise PlanError(
                    f"{where}: the function failed on an empty frame: {error}; give schema="
                ) from error
        forbid_reserved(where, schema)
        name = getattr(function, "__name__", type(function).__name__)
        return self._then(Mapped(function), _instances(schema), f"map_batches {name}", None)

    def concat(self, *others: Collection) -> Collection:
        """All rows of all collections (UNION ALL); the columns must be the same."""
        for other in others:
            self._require_same_columns("concat", other)
        return self._then(
            Concat(), self.schema, "concat", self._event_time, *(other._place for other in others)
        )

    def negate(self) -> Collection:
        """Every row with the opposite diff."""
        return self._then(Negate(), self.schema, "negate", self._event_time)

    def minus(self, other: Collection) -> Collection:
        """Rows less the rows of another collection, diff by diff; diffs may become negative."""
        self._require_same_columns("minus", other)
        return self._then(Concat(), self.schema, "minus", self._event_time, other.negate()._place)

    def unique(self) -> Collection:
        """Each row whose diffs add up to more than zero, once."""
        return self._then(Unique(), self.schema, "unique", self._event_time)

    def group_by(self, *by: Any, **named_by: Any) -> GroupedCollection:
        """Bring rows together by these keys; by nothing: all rows are one group, also if there are none."""
        keys = (
            row_expressions(self._where("group_by"), self.schema, *by, **named_by) if by or named_by else ()
        )
        return GroupedCollection(self, keys)

    def join(
        self,
        other: Collection,
        on: Columns | None = None,
        how: JoinHow = "inner",
        *,
        left_on: Columns | None = None,
        right_on: Columns | None = None,
        suffix: str = "_right",
        nulls_equal: bool = False,
        coalesce: bool | None = None,
    ) -> Collection:
        """Pairs of rows with equal keys, as ``polars.LazyFrame.join``.

        ``how``: inner, left, right, full, semi, anti, cross. Null keys match nothing unless ``nulls_equal``.
        """
        self._require_same_plan(self._where("join"), other)
        left, right = _key_names(on, left_on), _key_names(on, right_on)
        place = join_nodes(
            self._plan, self._where("join"), self._place, other._place, left, right, how,
            suffix=suffix, nulls_equal=nulls_equal, coalesce=coalesce,
        )  # fmt: skip
        return Collection(self._plan, place)

    def top_k(self, k: int, *, by: Columns, reverse: bool | Sequence[bool] = False) -> Collection:
        """The ``k`` largest rows by these columns, nulls last; ties are settled by the whole row."""
        return GroupedCollection(self, ()).top_k(k, by=by, reverse=reverse)

    def bottom_k(self, k: int, *, by: Columns, reverse: bool | Sequence[bool] = False) -> Collection:
        """The ``k`` smallest rows by these columns, nulls last; ties are settled by the whole row."""
        return GroupedCollection(self, ()).bottom_k(k, by=by, reverse=reverse)

    def limit(
        self,
        n: int,
        *,
        by: Columns,
        descending: bool | Sequence[bool] = False,
        nulls_last: bool | Sequence[bool] = False,
    ) -> Collection:
        """The first ``n`` rows when sorted by these columns; ties are settled by the whole row."""
        return GroupedCollection(self, ()).limit(n, by=by, descending=descending, nulls_last=nulls_last)

    def __repr__(self) -> str:
        """What it is and which columns it has."""
        return f"{type(self).__name__}({self._plan[self._place].label}: {_described(self.schema)})"

    @property
    def _event_time(self) -> str | None:
        return self._plan[self._place].event_time

    def _where(self, method: str) -> str:
        return f"{method} on {self._plan.name_of(self._place)}"

    def _require_same_plan(self, where: str, other: Collection) -> None:
        if not isinstance(other, Collection):
            raise PlanError(f"{where}: expected a collection, got {type(other).__name__}")
        if other._plan is not self._plan:
            raise PlanError(f"{where}: the collections belong to different engines; declare both on one")

    def _require_same_columns(self, method: str, other: Collection) -> None:
        where = self._where(method)
        self._require_same_plan(where, other)
        if other.schema != self.schema:
            raise PlanError(
                f"{where}: {other._plan.name_of(other._place)} has {_described(other.schema)}, not "
                f"{_described(self.schema)}; bring them to the same columns with select or cast"
            )

    def _then(
        self, operation: Operation, schema: pl.Schema, label: str, event_time: str | None, *others: PlanId
    ) -> Collection:
        node = PlanNode(operation, (self._place, *others), schema, label, event_time)
        return Collection(self._plan, self._plan.add(node))

    def _select(
        self, method: str, columns: tuple[Column, ...], shown: Sequence[str] | None = None
    ) -> Collection:
        if not columns:
            raise PlanError(f"{self._where(method)}: no column would be left; keep at least one")
        schema = output_schema(self.schema, columns, self._where(method))
        copied = {column.copies: column.name for column in columns if column.copies}
        identity = tuple((column.name, Expression(column.expr)) for column in columns)
        operation = Select(identity, columns, keeps_rows_apart=set(self.columns) <= set(copied))
        event_time = copied.get(self._event_time) if self._event_time else None
        return self._then(operation, schema, f"{method} {', '.join(shown or schema.names())}", event_time)

    def _reshaped(
        self,
        method: str,
        operation: type[Explode] | type[Unnest],
        columns: Sequence[str | Iterable[str]],
        function: Callable[..., pl.DataFrame],
    ) -> Collection:
        names = _names(columns)
        require_columns(self._where(method), self.schema, names)
        try:
            schema = function(self.schema.to_frame(), names).schema
        except pl.exceptions.PolarsError as error:
            raise PlanError(f"{self._where(method)}: {error}") from error
        forbid_reserved(self._where(method), schema)
        event_time = (
            self._event_time if self._event_time in schema and self._event_time not in names else None
        )
        return self._then(operation(tuple(names)), schema, f"{method} {', '.join(names)}", event_time)


class GroupedCollection:
    """A collection whose rows are brought together by keys, to be aggregated or cut."""

    def __init__(self, collection: Collection, keys: tuple[Column, ...]) -> None:
        self._collection = collection
        self._keys = keys
        self._names = tuple(key.name for key in keys)

    def agg(self, *aggs: Any, **named_aggs: Any) -> Collection:
        """One row per group: its keys and these aggregates, each kept by adding and retracting.

        Polars expressions over aggregates; see ``evercurrent.views.aggregation`` for those that there are. A
        group is there while the diffs of its rows do not add up to zero.
        """
        collection, keys = self._collection, self._names
        where = collection._where("agg")
        compiled = aggregation(where, collection.schema, keys, aggs, named_aggs, collection._event_time)
        if both := [key for key in keys if key in compiled.schema]:
            raise PlanError(f"{where}: {listed(both)} is a key and an aggregate; rename one with .alias(...)")
        key_types = output_schema(collection.schema, self._keys, where) if keys else pl.Schema()
        schema = pl.Schema({**key_types, **compiled.schema})
        forbid_reserved(where, schema)
        operation = Group(keys, _identity(self._keys, compiled), self._keys, compiled)
        label = f"group by {', '.join(keys) or 'nothing'}: {', '.join(compiled.schema.names())}"
        return collection._then(operation, schema, label, None)

    def top_k(self, k: int, *, by: Columns, reverse: bool | Sequence[bool] = False) -> Collection:
        """The ``k`` largest rows of each group, nulls last; ties are settled by the whole row."""
        return self._top("top_k", k, by, [not flag for flag in self._flags("top_k", by, reverse)], True)

    def bottom_k(self, k: int, *, by: Columns, reverse: bool | Sequence[bool] = False) -> Collection:
        """The ``k`` smallest rows of each group, nulls last; ties are settled by the whole row."""
        return self._top("bottom_k", k, by, reverse, True)

    def limit(
        self,
        n: int,
        *,
        by: Columns,
        descending: bool | Sequence[bool] = False,
        nulls_last: bool | Sequence[bool] = False,
    ) -> Collection:
        """The first ``n`` rows of each group when sorted by these columns; ties are settled by the whole row."""
        return self._top("limit", n, by, descending, nulls_last)

    def _flags(self, method: str, by: Columns, flags: bool | Sequence[bool]) -> list[bool]:
        names = _names([by])
        given = [flags] * len(names) if isinstance(flags, bool) else list(flags)
        if len(given) != len(names):
            raise PlanError(f"{self._collection._where(method)}: {len(names)} columns but {len(given)} flags")
        return given

    def _top(
        self,
        method: str,
        count: int,
        by: Columns,
        descending: bool | Sequence[bool],
        nulls_last: bool | Sequence[bool],
    ) -> Collection:
        collection, where = self._collection, self._collection._where(method)
        names = _names([by])
        require_columns(where, collection.schema, names)
        if not names:
            raise PlanError(f"{where}: rows of a collection have no order; say which with by=")
        if not isinstance(count, int) or count < 1:
            raise PlanError(f"{where}: the number of rows is {count!r}; it must be a whole number from 1")
        if nested := [name for name in names if collection.schema[name].is_nested()]:
            raise PlanError(f"{where}: {listed(nested)} is nested and has no order; order by a plain column")
        flags = zip(self._flags(method, by, descending), self._flags(method, by, nulls_last), strict=True)
        order = tuple(Order(name, *pair) for name, pair in zip(names, flags, strict=True))
        if computed := [key.name for key in self._keys if key.copies != key.name]:
            raise PlanError(
                f"{where}: the key {listed(computed)} is computed; add it with with_columns first"
            )
        group = f" of each {', '.join(self._names)}" if self._keys else ""
        label = f"{method} {count}{group} by {', '.join(names)}"
        return collection._then(
            Top(self._names, order, count), collection.schema, label, collection._event_time
        )


def concat(collections: Iterable[Collection]) -> Collection:
    """All rows of all collections (UNION ALL); the columns must be the same."""
    first, *others = collections
    return first.concat(*others)


def _identity(keys: tuple[Column, ...], compiled: Aggregation) -> Hashable:
    """What two equal aggregations have in common: expressions as they are written, functions by themselves."""
    columns = tuple(
        (column.name, Expression(column.expr)) for column in (*keys, *compiled.prepared, *compiled.finished)
    )
    aggregates = tuple(
        (aggregate.inputs, aggregate.order, Expression(aggregate.expr))
        if isinstance(aggregate, Whole)
        else aggregate
        for aggregate in compiled.aggregates
    )
    return columns, aggregates


def _copy(name: str, new_name: str | None = None) -> Column:
    return Column(new_name or name, pl.col(name).alias(new_name or name), copies=name)


def _names(columns: Sequence[str | Iterable[str]]) -> list[str]:
    return [name for part in columns for name in ([part] if isinstance(part, str) else part)]


def _key_names(both: Columns | None, own: Columns | None) -> tuple[str, ...]:
    chosen = both if own is None else own
    return () if chosen is None else tuple(_names([chosen]))


def _instances(schema: Mapping[str, Any]) -> pl.Schema:
    return pl.Schema({name: dtype() if isinstance(dtype, type) else dtype for name, dtype in schema.items()})


def _described(schema: pl.Schema) -> str:
    return ", ".join(f"{name} {dtype}" for name, dtype in schema.items())
