"""Polars expressions in a plan: one per output column, and checked to be row by row."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TypeVar

import numpy as np
import polars as pl

from evercurrent.core.data.columns.polars_versions import root_names
from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import forbid_reserved, listed, require_characters, require_columns
from evercurrent.core.operators.group.aggregates import Column

from .deep_expressions import DEEPEST, require_shallow, taken_apart
from .elementwise import elementwise
from .expansion import expanded
from .known_schemas import check_expansion, planned_schema, selected_schema
from .polars_tree import Expression, UnreadableError
from .polars_writer import write
from .rowwise import PYTHON, Obstacle, obstacle
from .showing import About, shown
from .tree import Column as ColumnNode
from .tree import Node, columns_of, copied, without_renaming

_T = TypeVar("_T")


def row_expressions(where: str, schema: pl.Schema, /, *exprs: object, **named: object) -> tuple[Column, ...]:
    """Return the columns that expressions make of each row, one ``Column`` per output, as in ``DataFrame.select``.

    The arguments are those of ``select``: expressions, names, selectors, literals, a list of them, and keywords.
    ``where`` names the view and the call in messages. A literal makes a column of one row in
    ``DataFrame.select``: evaluate the columns beside others, as ``with_columns`` does.

    Raises:
        PlanError: a column does not exist, an expression needs more than its own row, an output name is reserved or
            given twice, or polars refuses an expression for this schema.
    """
    parsed = parsed_expressions(where, exprs, named)
    columns = tuple(column for expr in parsed for column in _row_columns(where, schema, expr))
    check_output_names(where, [column.name for column in columns])
    return columns


def predicate(where: str, schema: pl.Schema, /, *exprs: object, **constraints: object) -> Column:
    """Return the condition of a filter as one Boolean column: all expressions, and ``name == value`` by keyword.

    A row for which it is null does not pass, as in polars. Without a condition every row passes.

    Raises:
        PlanError: as ``row_expressions``; or an expression is not Boolean, makes several columns, or is a mask of
            Booleans.
    """
    _forbid_mask(where, exprs)
    required: list[pl.Expr] = [
        *parsed_expressions(where, exprs, {}),
        *(pl.col(name).eq(constraints[name]) for name in constraints),
    ]
    conditions = [_condition(where, schema, expr) for expr in required]
    condition = _all_of(conditions)
    _with_room(where, condition, lambda one: elementwise(one))
    return Column("condition", condition.alias("condition"), Expression(condition).copies)


def _all_of(conditions: Sequence[pl.Expr]) -> pl.Expr:
    """Return the conjunction of several conditions: side by side where a chain of them would nest too deeply."""
    if len(conditions) >= DEEPEST // 2:
        return pl.all_horizontal(conditions)
    return reduce(and_, conditions) if conditions else pl.lit(True)


def _forbid_mask(where: str, exprs: tuple[object, ...]) -> None:
    """Check that no list of Booleans is given, which polars uses to select rows by position."""
    if any(isinstance(each, list | np.ndarray) and _is_mask(each) for each in exprs):
        raise PlanError(
            f"{where}: a mask selects rows by position, and the rows of a collection have no position; "
            "give a condition on columns"
        )


def _is_mask(values: Iterable[object]) -> bool:
    return any(isinstance(value, bool | np.bool_) for value in values)


def _condition(where: str, schema: pl.Schema, expr: pl.Expr) -> pl.Expr:
    columns = _row_columns(where, schema, expr)
    if len(columns) != 1:
        raise PlanError(
            f"{where}: {shown(expr)}: it selects {len(columns)} columns; say whether all or any of them must"
            " hold with pl.all_horizontal(...) or pl.any_horizontal(...)"
        )
    ((_, dtype),) = output_schema(schema, columns, where).items()
    if dtype != pl.Boolean:
        raise PlanError(
            f"{where}: {shown(expr)}: a condition must be Boolean and this is {dtype}; compare it with something"
        )
    return columns[0].expr


def output_schema(schema: pl.Schema, columns: Iterable[Column], where: str = "select") -> pl.Schema:
    """Return the schema of columns computed from rows of ``schema``; polars decides, over a frame without rows.

    Raises:
        PlanError: polars refuses an expression; names ``where`` and the column.
    """

    def dtype(column: Column) -> pl.DataType:
        if column.copies is not None and column.copies in schema:
            return schema[column.copies]
        about = f"{where}: column {column.name!r}"
        return selected_schema(about, schema, Expression(column.expr)).dtypes()[0]

    return pl.Schema({column.name: dtype(column) for column in columns})


def check_output_names(where: str, names: Sequence[str]) -> None:
    """Check that no output name is reserved and none is given twice.

    Raises:
        PlanError: one is; names the columns.
    """
    twice = [name for name, times in Counter(names).items() if times > 1]
    forbid_reserved(where, names)
    if twice:
        raise PlanError(f"{where}: {listed(twice)} is an output more than once; rename one with .alias(...)")


# Arguments of users as expressions.


def _flattened(exprs: tuple[object, ...]) -> tuple[object, ...]:
    """Return the positional arguments of a call in polars' style, where a single list stands for its items."""
    whole = (str, bytes, pl.Expr, pl.Series, pl.DataFrame, Mapping)
    if len(exprs) == 1 and isinstance(exprs[0], Iterable) and not isinstance(exprs[0], whole):
        return exprs if _is_of_spark(exprs[0]) else tuple(exprs[0])
    return exprs


def arguments(exprs: tuple[object, ...], named: Mapping[str, object]) -> list[tuple[str | None, object]]:
    """Return the arguments of a call in polars' style, each with its keyword; positional ones have none."""
    return [*((None, value) for value in _flattened(exprs)), *named.items()]


def _is_of_spark(value: object) -> bool:
    """Return whether a value is one of PySpark's, whose columns can be iterated by their type, and refuse it."""
    return type(value).__module__.startswith("pyspark.")


def as_expression(where: str, value: object) -> pl.Expr:
    """Return an argument as an expression: a string names a column, and any other plain value is a literal.

    Raises:
        PlanError: polars has no literal for it.
    """
    if isinstance(value, pl.Expr):
        return require_shallow(where, value)
    if isinstance(value, str):
        return pl.col(value)
    if _is_of_spark(value):
        raise PlanError(f"{where}: {value!r} is of Spark; write it with polars, as in pl.col('n') > 1")
    if isinstance(value, Mapping):
        raise PlanError(
            f"{where}: a dictionary is not an expression; name expressions by keyword, as in n=pl.len()"
        )
    try:
        return pl.lit(value)
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        raise PlanError(
            f"{where}: {type(value).__name__} is not an expression; give a column name, a polars expression or a"
            " plain value"
        ) from None


def parsed_expressions(
    where: str, exprs: tuple[object, ...], named: Mapping[str, object]
) -> Iterator[pl.Expr]:
    """Yield positional and keyword arguments as expressions, in order."""
    for name, value in arguments(exprs, named):
        if name is not None:
            require_characters(f"{where}: column", name)
        expr = as_expression(where, value)
        yield expr if name is None else expr.alias(name)


def column_names(where: str, schema: pl.Schema, selection: object, *, strict: bool = True) -> list[str]:
    """Return the columns that are selected by names, selectors, plain ``pl.col(...)`` and lists of them.

    Raises:
        PlanError: a column is unknown, if strict, or an expression computes or renames.
    """
    names: list[str] = []
    for each in _items(selection):
        if isinstance(each, str):
            names.append(each)
            continue
        if _is_of_spark(each):
            raise PlanError(f"{where}: {each!r} is of Spark; give names, selectors or pl.col(...)")
        if not isinstance(each, pl.Expr):
            raise PlanError(
                f"{where}: {type(each).__name__} is not a column; give names, selectors or pl.col(...)"
            )
        outputs = _with_room(where, each, lambda one: output_trees(where, schema, one))
        for node in outputs.trees:
            if not isinstance(node, ColumnNode):
                raise PlanError(
                    f"{where}: {shown(each)} is computed, and this call needs columns; add it with "
                    "with_columns(...) first and give its name"
                )
            names.append(node.column)
    if strict:
        require_columns(where, schema, names)
    return names


def _items(selection: object) -> Iterator[object]:
    if (
        isinstance(selection, Iterable)
        and not isinstance(selection, str | pl.Expr)
        and not _is_of_spark(selection)
    ):
        for each in selection:
            yield from _items(each)
    else:
        yield selection


def declared_schema(where: str, schema: object) -> pl.Schema:
    """Return the schema for a user's mapping of columns to types of polars or Python.

    Raises:
        PlanError: it is not a mapping, or a type is not one of polars or is incomplete.
    """
    if not isinstance(schema, Mapping):
        raise PlanError(
            f"{where}: the schema is {type(schema).__name__}; give a dictionary, as {{'id': pl.Int64}}"
        )
    types: dict[str, pl.DataType] = {}
    for name, dtype in schema.items():
        _require_names(f"{where}: column", name, dtype)
        try:
            is_class = isinstance(dtype, type) and issubclass(dtype, pl.DataType)
            types[name] = dtype() if is_class else pl.Schema({name: dtype})[name]
        except TypeError as error:
            type_text = dtype.__name__ if isinstance(dtype, type) else repr(dtype)
            raise PlanError(
                f"{where}: the type of {name!r} is {type_text}, which is not a complete polars type; "
                "use for example pl.Int64 or pl.List(pl.String)"
            ) from error
    return pl.Schema(types)


def _require_names(what: str, name: object, dtype: object) -> None:
    """Check the name of a column, and those of the fields in its type."""
    if not isinstance(name, str):
        raise PlanError(f"{what} {name!r}: a name is text, as in {str(name)!r}")
    require_characters(what, name)
    if isinstance(dtype, pl.Struct):
        for field in dtype.fields:
            _require_names(f"{what} {name!r}: field", field.name, field.dtype)
    elif isinstance(dtype, pl.List | pl.Array):
        _require_names(what, name, dtype.inner)


# One tree per output column, checked.


@dataclass(frozen=True, slots=True)
class OutputTrees:
    """An expression that was read, and its trees, one per output column."""

    expression: Expression
    trees: list[Node]
    is_renamed: bool
    """Whether a Python function names the columns, so that their trees do not."""


def output_trees(
    where: str,
    schema: pl.Schema,
    expr: pl.Expr,
    *,
    hidden: Iterable[str] = (),
    python: Obstacle = PYTHON,
) -> OutputTrees:
    """Read the trees of an expression, one per output column; selectors by type or pattern skip ``hidden``.

    Raises:
        PlanError: a column is unknown, which is named; there is a Python function, which polars cannot inspect; or the
            expression has an unknown form.
    """
    expression = Expression(expr)
    plain = expression.without_python_renaming
    try:
        node = plain.tree
    except UnreadableError as error:
        raise PlanError(f"{where}: {shown(expr)}: {error}") from error
    require_columns(where, schema, dict.fromkeys(root_names(expr) if node is None else columns_of(node)))
    if node is None:
        raise PlanError(f"{where}: {shown(expr)}: {python[0]}; {python[1]}")
    return OutputTrees(expression, expanded(where, schema, node, hidden), is_renamed=plain is not expression)


def _with_room(where: str, expr: pl.Expr, function: Callable[[pl.Expr], _T]) -> _T:
    """Return the result of ``function`` for an expression, however deeply it nests."""
    return taken_apart(where, require_shallow(where, expr), function)


def _check_typed(about: About, schema: pl.Schema, expression: Expression) -> None:
    """Check that polars can derive the type without rows: otherwise it depends on the branch that they take."""
    outputs = planned_schema(about, schema, expression)
    if open_types := [name for name, dtype in outputs.items() if dtype == pl.Unknown]:
        raise PlanError(
            f"{about}: the type of {listed(open_types)} depends on the rows, as its parts have types without "
            "a common one; cast them to one type"
        )


def _check_elementwise(about: About, schema: pl.Schema, expr: pl.Expr) -> None:
    """Check the compiled form of an expression when a view is declared, as it can no longer be refused later."""
    computed = elementwise(expr)
    if computed is not expr:
        selected_schema(about, schema, Expression(computed))


def _row_columns(where: str, schema: pl.Schema, expr: pl.Expr) -> list[Column]:
    return _with_room(where, expr, lambda one: _columns_of_rows(where, schema, one))


def _columns_of_rows(where: str, schema: pl.Schema, expr: pl.Expr) -> list[Column]:
    read = output_trees(where, schema, expr)
    trees, about = read.trees, About(where, expr)
    for reason in filter(None, (obstacle(node, schema) for node in trees)):
        raise PlanError(f"{where if reason.startswith(shown(expr)) else about}: {reason}")
    outputs = selected_schema(about, schema, read.expression)
    check_expansion(about, len(trees), outputs)
    _check_typed(about, schema, read.expression)
    _check_elementwise(about, schema, expr)
    if not expr.meta.has_multiple_outputs():
        return [Column(name, expr, copied(node)) for name, node in zip(outputs, trees, strict=True)]
    columns = [
        Column(name, write(without_renaming(node)).alias(name), copied(node))
        for name, node in zip(outputs, trees, strict=True)
    ]
    check_expansion(about, output_schema(schema, columns, where), outputs)
    return columns
