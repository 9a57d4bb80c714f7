"""The methods of a collection that are computed row by row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import polars as pl

from evercurrent.core.data.errors import PlanError, first_line
from evercurrent.core.data.schema import (
    forbid_reserved,
    listed,
    require_booleans,
    require_characters,
    require_columns,
)
from evercurrent.core.operators.group.aggregates import Column

from ..expressions import (
    Expression,
    column_names,
    compared_columns,
    declared_schema,
    output_schema,
    predicate,
    row_expressions,
)
from ..expressions.known_schemas import resolved
from ..expressions.showing import shown
from ..plan.function_versions import versioned
from ..plan.nodes import BOUNDS, EventTime, Explode, Filter, Mapped, Operation, PlanId, Select, Unnest
from .collection_base import CollectionBase

ColumnNames = str | pl.Expr | Iterable[str | pl.Expr]
"""Names, selectors and plain ``pl.col(...)``."""

C = TypeVar("C", bound="RowCalls[Any]")


class RowCalls(CollectionBase, Generic[C]):
    """The methods of a collection that handle each row by itself. ``C`` is the collection that each of them returns."""

    @property
    @abstractmethod
    def _itself(self) -> C:
        """The collection itself, for methods that change nothing."""

    @abstractmethod
    def _then(
        self,
        operation: Operation,
        schema: pl.Schema,
        label: str,
        event_time: EventTime | None,
        *others: PlanId,
    ) -> C:
        """Return the collection that an operation makes of this one and others."""

    def filter(self, *predicates: Any, **constraints: Any) -> C:
        """Return the rows for which all conditions are true; null is not true."""
        condition = predicate(self._where("filter"), self.schema, *predicates, **constraints)
        operation = Filter(Expression(condition.expr), condition)
        label = f"filter {shown(condition.expr.meta.undo_aliases())}"
        return self._then(operation, self.schema, label, self._event_time)

    def select(self, *exprs: Any, **named_exprs: Any) -> C:
        """Return these columns, computed row by row."""
        columns = row_expressions(self._where("select"), self.schema, *exprs, **named_exprs)
        return self._select("select", columns)

    def with_columns(self, *exprs: Any, **named_exprs: Any) -> C:
        """Return all columns, and these computed row by row, which replace columns of the same name."""
        return self._with_columns("with_columns", exprs, named_exprs)

    def rename(self, mapping: Mapping[str, str] | Callable[[str], str], *, strict: bool = True) -> C:
        """Rename columns, by a mapping of old names to new ones or by a function of names."""
        where = self._where("rename")
        renamed = {name: mapping(name) for name in self.schema} if callable(mapping) else mapping
        if not isinstance(renamed, Mapping):
            raise PlanError(
                f"{where}: mapping={mapping!r}; give a mapping of old names to new ones, or a function of names"
            )
        if strict:
            require_columns(where, self.schema, renamed)
        for name in filter(lambda name: isinstance(name, str), renamed.values()):
            require_characters(f"{where}: column", name)
        columns = [_copy(name, renamed.get(name, name)) for name in self.schema]
        names = [column.name for column in columns]
        forbid_reserved(where, names)
        if twice := {name for name in names if names.count(name) > 1}:
            raise PlanError(f"{where}: {listed(sorted(twice))} would appear twice; choose another name")
        named = [f"{column.copies} to {column.name}" for column in columns if column.name != column.copies]
        return self._select("rename", tuple(columns), named) if named else self._itself

    def drop(self, *columns: ColumnNames, strict: bool = True) -> C:
        """Remove these columns; unless ``strict``, names of columns that do not exist are ignored."""
        dropped = column_names(self._where("drop"), self.schema, columns, strict=strict)
        remaining = tuple(_copy(name) for name in self.schema if name not in dropped)
        return self._select("drop", remaining, dropped) if dropped else self._itself

    def cast(self, dtypes: Any, *, strict: bool = True) -> C:
        """Cast columns to other types: one type for all, or by name, selector or type.

        With ``strict`` a value that does not fit is refused; otherwise it becomes null.
        """
        where = self._where("cast")
        require_booleans(where, strict=strict)
        if isinstance(dtypes, Mapping):
            require_columns(where, self.schema, [name for name in dtypes if isinstance(name, str)])
        try:
            schema = self.schema.to_frame().cast(dtypes).schema
        except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
            raise PlanError(
                f"{where}: {first_line(error)}; give polars types, as {{'a': pl.Int64}}"
            ) from error
        cast = [
            pl.col(name).cast(to, strict=strict) for name, to in schema.items() if to != self.schema[name]
        ]
        return self._with_columns("cast", tuple(cast), {})

    def explode(self, *columns: ColumnNames) -> C:
        """Return a row for each element of these list columns; as in polars, null gives one row and an empty list none."""
        where = self._where("explode")
        names = column_names(where, self.schema, columns)
        if plain := [name for name in names if not isinstance(self.schema[name], pl.List | pl.Array)]:
            raise PlanError(f"{where}: {listed(plain)} is not a list; give columns of lists or arrays")
        return self._reshaped("explode", Explode(tuple(names)), pl.DataFrame.explode)

    def unnest(self, *columns: ColumnNames) -> C:
        """Replace these struct columns, by default all of them, by their fields."""
        names = column_names(self._where("unnest"), self.schema, columns)
        structs = [name for name, dtype in self.schema.items() if isinstance(dtype, pl.Struct)]
        operation = Unnest(tuple(names or structs))
        self._require_new_fields(operation.columns)
        return self._reshaped("unnest", operation, pl.DataFrame.unnest)

    def _require_new_fields(self, structs: Sequence[str]) -> None:
        """Check that the fields of structs have names that no other column has, and no field of another of them."""
        owners = {name: f"column {name!r}" for name in self.schema if name not in structs}
        for struct in structs:
            dtype = self.schema.get(struct)
            for field in dtype.fields if isinstance(dtype, pl.Struct) else ():
                if field.name in owners:
                    reason = ", which is kept as the event time" if field.name == self._time_column else ""
                    raise PlanError(
                        f"{self._where('unnest')}: field {field.name!r} of column {struct!r} would have the name of "
                        f"{owners[field.name]}{reason}; rename the field before, with pl.col({struct!r}).struct.rename_fields([...])"
                    )
                owners[field.name] = f"field {field.name!r} of column {struct!r}"

    def map_batches(
        self,
        function: Callable[[pl.DataFrame], pl.DataFrame],
        *,
        schema: Mapping[str, Any] | None = None,
        version: str | int | None = None,
    ) -> C:
        """Apply a function to frames of rows; it must treat each row by itself: f(A + B) = f(A) + f(B).

        The function gets frames without ``_diff`` and may drop and multiply rows. It must be deterministic: to retract a
        row, the function is applied to it again. ``schema`` declares the columns of the result; without it the function
        is applied once to an empty frame to find them out.

        A single row is passed twice, and every second row of the result is taken, since polars rounds a division by a
        constant differently in a frame of one row. A function that itself splits a frame, as with ``filter``, and then
        divides has to avoid that: multiply by ``1 / 49`` instead of dividing by 49.

        A checkpoint identifies the function by its code: with changed code the view counts as a new view. With ``version``
        it is identified by its name and the version, so that a repaired function goes on with what was computed before,
        and a new version makes it a new view. A version can be added later, while the function is unchanged.
        """
        where = self._where("map_batches")
        if schema is None:
            try:
                returned = function(self.schema.to_frame())
            except Exception as error:
                raise PlanError(
                    f"{where}: the function failed on an empty frame: {error}; give schema="
                ) from error
            if not isinstance(returned, pl.DataFrame):
                raise PlanError(
                    f"{where}: the function returned {type(returned).__name__} for an empty frame; return a polars DataFrame with "
                    "the columns of the result, also where it has no rows, or declare them with schema="
                )
            schema = returned.schema
        declared = declared_schema(where, schema)
        forbid_reserved(where, declared)
        name = getattr(function, "__name__", type(function).__name__)
        mapped = Mapped(versioned(where, name, version, function))
        return self._then(mapped, declared, f"map_batches {name}", None)

    def _select(self, method: str, columns: tuple[Column, ...], named: Sequence[str] = ()) -> C:
        if not columns:
            raise PlanError(f"{self._where(method)}: no column would be left; keep at least one")
        schema = output_schema(self.schema, columns, self._where(method))
        if self._windowing is not None and method == "select":
            time_columns = [name for name in (*BOUNDS, self._time_column) if name in self.schema]
            columns += tuple(
                _copy(name) for name in time_columns if name not in [column.name for column in columns]
            )
            schema = output_schema(self.schema, columns, self._where(method))
        copied = {column.copies: column.name for column in columns if column.copies}
        operation = Select(
            compared_columns(columns), columns, keeps_rows_apart=set(self.schema) <= set(copied)
        )
        event_time = self._event_time
        if event_time is not None:
            name = copied.get(event_time.column)
            event_time = None if name is None else replace(event_time, column=name)
        return self._then(operation, schema, f"{method} {', '.join(named or schema.names())}", event_time)

    @property
    def _time_column(self) -> str:
        return "" if self._event_time is None else self._event_time.column

    def _with_columns(self, method: str, exprs: tuple[Any, ...], named: Mapping[str, Any]) -> C:
        computed = row_expressions(self._where(method), self.schema, *exprs, **named)
        if not computed:
            return self._itself
        columns = {name: _copy(name) for name in self.schema} | {column.name: column for column in computed}
        return self._select(method, tuple(columns.values()), named=[column.name for column in computed])

    def _reshaped(self, method: str, operation: Explode | Unnest, function: Callable[..., pl.DataFrame]) -> C:
        where, names = self._where(method), operation.columns
        schema = resolved(where, lambda: function(self.schema.to_frame(), names))
        forbid_reserved(where, schema)
        time = self._time_column
        event_time = self._event_time if time in schema and time not in names else None
        return self._then(operation, schema, f"{method} {', '.join(names)}", event_time)


def _copy(name: str, new_name: str | None = None) -> Column:
    return Column(new_name or name, pl.col(name).alias(new_name or name), copies=name)
