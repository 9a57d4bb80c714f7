"""Compile the expressions of ``agg(...)`` into aggregates that can be kept current.

Each aggregate in the tree of an expression becomes an ``Aggregate`` of the core over columns that are prepared row by
row; the expression around the aggregates is evaluated over their results, one row per group.
``pl.col("x").sum() / pl.len()`` is an ``Additive`` sum of a prepared column, an ``Additive`` len, and a finished
column that divides them. Equal parts are one part.

An aggregate for which the core has no form becomes a ``RecomputedAggregate``, computed from all rows of a touched group,
unless it depends on the order of rows, which a collection does not have.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import polars as pl

from evercurrent.core.data.columns.polars_versions import root_names
from evercurrent.core.data.errors import PlanError, first_line
from evercurrent.core.data.schema import empty_frame, listed, require_characters
from evercurrent.core.data.tags import not_kept, tagged
from evercurrent.core.operators.group.aggregates import Aggregation, Column, Custom
from evercurrent.core.operators.group.user_states import Serializer

from ..expressions import (
    arguments,
    as_expression,
    check_output_names,
    row_expressions,
)
from ..expressions.aggregate_parts import AggregateCompiler
from ..expressions.aggregate_rules import RULES
from ..expressions.deep_expressions import taken_apart
from ..plan.function_versions import versioned


@tagged("views.aggregation:UserAggregate")
@dataclass(frozen=True, slots=True)
class UserAggregate:
    """An aggregate made by ``aggregate``; calling it with an expression gives an argument for ``agg``."""

    create: Callable[[], Any]
    add: Callable[[Any, pl.Series], Any]
    merge: Callable[[Any, Any], Any]
    extract: Callable[[Any], Any]
    remove: Callable[[Any, pl.Series], Any] | None
    dtype: pl.DataType
    serializer: Serializer | None = field(default=None, metadata=not_kept())

    def __call__(self, input: pl.Expr | str) -> "AppliedAggregate":
        return AppliedAggregate(self, input)


@tagged("views.aggregation:AppliedAggregate")
@dataclass(frozen=True, slots=True, eq=False)
class AppliedAggregate:
    """A user's aggregate of an expression, for ``agg``, where it cannot be part of another expression."""

    aggregate: UserAggregate
    input: pl.Expr | str
    name: str | None = None

    def alias(self, name: str) -> "AppliedAggregate":
        """Return the aggregate under another name; without a name it is named after its input."""
        return replace(self, name=name)


@tagged("views.aggregation:aggregate")
def aggregate(
    *,
    create: Callable[[], Any],
    add: Callable[[Any, pl.Series], Any],
    merge: Callable[[Any, Any], Any],
    extract: Callable[[Any], Any],
    remove: Callable[[Any, pl.Series], Any] | None = None,
    dtype: pl.DataType | type[pl.DataType],
    serializer: Serializer | None = None,
    version: str | int | None = None,
) -> UserAggregate:
    """Return an aggregate of your own: ``longest = aggregate(...)``, then ``.agg(longest(pl.col("name")))``.

    ``create()`` returns the state of an empty group, ``add(state, values)`` adds a Series of values to a state,
    ``merge(state, state)`` combines two states, ``extract(state)`` returns the result, of type ``dtype``. With
    ``remove(state, values)`` a retraction is as cheap as an addition; without it the group is computed again.
    All must be functions of their arguments, and the order of values must not matter: a collection has none.

    States that are kept (those of an aggregate with ``remove``) are plain values: numbers, text, bytes, times, columns, and
    lists, tuples, dicts and sets of these. Dicts and sets come back in an order of their own. Anything else needs a
    ``serializer`` where there is a checkpoint: something with ``dumps(state) -> bytes`` and ``loads(bytes) -> state``.
    The serializer is not part of the identity of a view: it can be replaced by another one that reads the states already
    written.

    A checkpoint identifies the functions by their code: with changed code the view counts as a new view. With ``version``
    they are identified by the version alone, so that a repaired aggregate goes on with the kept states; give a new version
    to compute them anew. A version can be added later: add it while the functions are unchanged, open
    the checkpoint once, and change the functions from then on.

    >>> count = aggregate(
    ...     create=lambda: 0,
    ...     add=lambda n, values: n + len(values),
    ...     merge=lambda m, n: m + n,
    ...     extract=lambda n: n,
    ...     dtype=pl.Int64,
    ... )
    >>> count(pl.col("x")).alias("n").name
    'n'

    Raises:
        TypeError: ``dtype`` is not complete, such as ``pl.Datetime`` without a unit.
        PlanError: the serializer has no ``dumps`` or no ``loads``, or the version is neither a text nor a whole number.
    """
    for name in ("dumps", "loads") if serializer is not None else ():
        if not callable(getattr(serializer, name, None)):
            raise PlanError(
                f"aggregate: serializer={serializer!r} has no {name}; give an object with dumps(state) -> bytes and "
                "loads(bytes) -> state"
            )
    result = pl.Schema({"result": dtype})["result"]
    functions = {"create": create, "add": add, "merge": merge, "extract": extract, "remove": remove}
    identified = {
        name: versioned("aggregate", name, version, function) for name, function in functions.items()
    }
    return UserAggregate(**identified, dtype=result, serializer=serializer)


def aggregation(
    where: str,
    schema: pl.Schema,
    keys: Sequence[str],
    exprs: tuple[object, ...],
    named: Mapping[str, object],
    default_order: str | None = None,
    empty_panes: bool = False,
) -> Aggregation:
    """Compile ``group_by(keys).agg(*exprs, **named)`` over rows of ``schema``; without keys, ``select``.

    With ``empty_panes`` groups have results without rows too.

    Values and types are those of polars, with these differences, since the rows of a collection have no order:

    - ``first`` and ``last`` use the order of ``sort_by(...)``, or of the column ``default_order`` where that is given,
      with rows without a value in it after all others. Among rows of equal order ``first`` takes the smallest value
      and ``last`` the largest, and null only where all are null.
    - ``max_by``, ``min_by`` and ``get(arg_max)`` take the smallest value where several rows have the extreme.
    - Counts (``len``, ``count``, ``null_count``, ``n_unique``, the sum of booleans) are Int64 where polars has
      UInt32: in collections whose diffs may be negative so may be counts.
    - ``implode`` and ``str.join`` use the order of ``sort_by(...)``; without it, and among equals, that of the values.

    >>> schema = pl.Schema({"k": pl.String, "x": pl.Int64})
    >>> made = aggregation("view 'v'", schema, ["k"], (), {"mean": pl.col("x").sum() / pl.len()})
    >>> [(part.kind, part.input) for part in made.aggregates], dict(made.schema)
    ([('sum', '__p0'), ('len', None)], {'mean': Float64})

    Raises:
        PlanError: names ``where`` and the expression, with the reason and the remedy: an expression is not an
            aggregate, depends on the order of rows, or is refused by polars for this schema; or an output name is
            reserved, given twice, or that of a key.
    """
    parts = AggregateCompiler(schema, tuple(keys), default_order, RULES)
    outputs: list[tuple[Column, pl.DataType]] = []
    for name_given in named:
        require_characters(f"{where}: column", name_given)
    for name, value in arguments(exprs, named):
        if isinstance(value, AppliedAggregate):
            outputs.append(_user_output(where, parts, value, name))
            continue
        if isinstance(value, tuple):
            _forbid_pair_of_names(where, name, value)
        expr = as_expression(where, value)
        expr = expr if name is None else expr.alias(name)
        outputs += taken_apart(where, expr, partial(parts.outputs, where))
    compiled = Aggregation(
        prepared=tuple(parts.prepared.values()),
        aggregates=tuple(parts.aggregates.values()),
        finished=tuple(column for column, _ in outputs),
        schema=pl.Schema({column.name: dtype for column, dtype in outputs}),
    )
    check_output_names(where, [column.name for column in compiled.finished])
    if not keys or empty_panes:
        _check_values_of_nothing(where, schema, compiled, has_keys=bool(keys))
    return compiled


def _check_values_of_nothing(where: str, schema: pl.Schema, compiled: Aggregation, *, has_keys: bool) -> None:
    """Refuse aggregates that cannot be computed without rows, where there is a group without any."""
    for aggregate in compiled.aggregates:
        inputs = [column.expr for column in compiled.prepared if column.name in aggregate.columns_read]
        try:
            aggregate.compute_of_nothing(empty_frame(schema).select(inputs))
        except pl.exceptions.PanicException:
            continue  # Of a type whose value of nothing is null, such as the quantile of dates.
        except Exception as error:  # A user's function may raise anything.
            names = [each.name for each in compiled.finished if aggregate.output in root_names(each.expr)]
            way_out = (
                "have extract(create()) return a value"
                if aggregate.is_users
                else "use first() or get(0, null_on_oob=True)"
            )
            why, other_way = (
                ("always= emits discarding panes without rows too", "leave out always=")
                if has_keys
                else ("without keys the group is there without rows too", "group by a key")
            )
            raise PlanError(
                f"{where}: column {listed(names)} has no value without rows ({first_line(error)}), and {why}; {way_out}, or {other_way}"
            ) from None


def _user_output(
    where: str, parts: AggregateCompiler, applied: AppliedAggregate, name: str | None
) -> tuple[Column, pl.DataType]:
    columns = row_expressions(where, parts.schema, applied.input)
    if len(columns) != 1:
        raise PlanError(
            f"{where}: a user's aggregate takes one column, not {len(columns)}; give it one, such as a pl.struct(...) of them"
        )
    aggregate_of_user = applied.aggregate
    result = parts.part(
        Custom,
        dtype=aggregate_of_user.dtype,
        input=parts.prepare(columns[0].expr),
        create=aggregate_of_user.create,
        add=aggregate_of_user.add,
        merge=aggregate_of_user.merge,
        extract=aggregate_of_user.extract,
        remove=aggregate_of_user.remove,
        serializer=aggregate_of_user.serializer,
    )
    output = name or applied.name or columns[0].name
    parts.forbid_keys(where, [output])
    return Column(output, result.alias(output), result.meta.output_name()), aggregate_of_user.dtype


def _forbid_pair_of_names(where: str, name: str | None, value: tuple[object, ...]) -> None:
    """Check that an aggregate is no pair of texts, as pandas has it: polars would take that as a constant list.

    Raises:
        PlanError: it is one.
    """
    if len(value) == 2 and all(isinstance(part, str) for part in value):
        column, function = value
        output = f"{name}=" if name is not None else ""
        raise PlanError(
            f"{where}: {output}{value!r} is an aggregate of pandas; write {output}pl.col({column!r}).{function}()"
        )
