"""Joins as plan nodes: the side from which each column comes, and the nodes for rows with null keys."""

from __future__ import annotations

import warnings
from typing import Any

import polars as pl

from evercurrent.core.data.errors import GrowthWarning, PlanError
from evercurrent.core.data.schema import listed, require_columns, require_texts
from evercurrent.core.operators.group.aggregates import Column
from evercurrent.core.operators.join import JoinColumn

from ..expressions import Expression, compared_columns
from ..plan.nodes import BOUNDS, Concat, Filter, Join, PlanId, PlanNode, Select
from ..plan.plan import Plan

ROW_BYTES = 40
"""The bytes that a kept row takes beside its values: the words of its key, its own words, and its diff."""

OUTER_SIDES = {"left": ("left",), "anti": ("left",), "right": ("right",), "full": ("left", "right")}
"""The sides whose rows are kept without a partner."""


def join_nodes(
    plan: Plan,
    where: str,
    left: PlanId,
    right: PlanId,
    left_keys: tuple[str, ...],
    right_keys: tuple[str, ...],
    how: str,
    *,
    suffix: str,
    nulls_equal: bool,
    coalesce: bool | None,
) -> PlanId:
    """Add a join to the plan.

    Rows with a null key match nothing: where the kind of join keeps them nevertheless, other nodes pass them around it.

    Raises:
        PlanError: the kind or a column is unknown, keys do not pair up, or their types differ.
    """
    schemas = plan[left].schema, plan[right].schema
    require_texts(where, suffix=suffix)
    _check_keys(where, schemas, left_keys, right_keys, how)
    options: dict[str, Any] = {"how": how, "suffix": suffix, "nulls_equal": nulls_equal, "coalesce": coalesce}
    if how == "cross":
        options = {"how": how, "suffix": suffix}
    else:
        options |= {"left_on": left_keys, "right_on": right_keys}
    try:
        schema = schemas[0].to_frame().join(schemas[1].to_frame(), **options).schema
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise PlanError(f"{where}: {error}") from error
    columns = _columns(
        where, schemas, schema, dict(zip(left_keys, right_keys, strict=True)), how, suffix, coalesce
    )
    kind = "inner" if how == "cross" else how
    operation = Join(kind, left_keys, right_keys, nulls_equal or how == "cross", columns)  # type: ignore[arg-type]
    keys = listed(left_keys) if left_keys == right_keys else f"{listed(left_keys)} = {listed(right_keys)}"
    label = "cross join" if how == "cross" else f"{how} join on {keys}"
    _warn_of_growth(plan, where, (left, right), (*left_keys, *right_keys), how)
    event_time = plan[left].event_time if how in ("inner", "left", "semi", "anti", "cross") else None
    joined = plan.add(PlanNode(operation, (left, right), schema, label, event_time))
    if nulls_equal or how == "cross":
        return joined
    parts = [joined]
    for side in OUTER_SIDES.get(how, ()):
        place, keys_of = (left, left_keys) if side == "left" else (right, right_keys)
        parts.append(_past(plan, place, keys_of, columns, schema, side))
    if len(parts) == 1:
        return joined
    return plan.add(PlanNode(Concat(), tuple(parts), schema, f"{label}, with rows of null key", event_time))


def _warn_of_growth(
    plan: Plan, where: str, sides: tuple[PlanId, PlanId], keys: tuple[str, ...], how: str
) -> None:
    """Warn where rows of an unbounded source are kept for partners that may never come."""
    if how not in ("left", "right", "full") or set(keys) & set(BOUNDS):
        return
    endless = [
        source
        for side in sides
        for source in plan.sources_of(side)
        if source.watermark is not None and not source.bounded and not plan.is_grouped(side)
    ]
    if not endless:
        return
    sizes = [sum(map(_bytes_of, plan[side].schema.dtypes())) + ROW_BYTES for side in sides]
    warnings.warn(
        f"{where}: {listed(source.name for source in endless)} does not end, and every row of it is kept to be joined: "
        f"about {sizes[0]} bytes for each row on the left and {sizes[1]} on the right, {sum(sizes)} MB for a million of "
        "each. Join on window_start and window_end too, group first, or declare the source bounded=True",
        GrowthWarning,
        stacklevel=5,
    )


def _bytes_of(dtype: pl.DataType) -> int:
    """Estimate the bytes that a value takes in a state; for texts and lists, which vary, it is a guess."""
    if dtype.is_numeric() or dtype.is_temporal():
        return max(1, int(pl.Series([None], dtype=dtype).to_physical().estimated_size()) or 8)
    return 1 if dtype == pl.Boolean else 32


HOWS = ("inner", "left", "right", "full", "semi", "anti", "cross")
"""The kinds of joins, as polars names them."""


def _check_keys(
    where: str, schemas: tuple[pl.Schema, pl.Schema], left: tuple[str, ...], right: tuple[str, ...], how: str
) -> None:
    if not isinstance(how, str) or how not in HOWS:
        raise PlanError(f"{where}: unknown how={how!r}; there are {', '.join(HOWS)}")
    if how == "cross":
        if left or right:
            raise PlanError(f"{where}: a cross join has no keys; leave out on, left_on and right_on")
        return
    if not left or len(left) != len(right):
        raise PlanError(f"{where}: give the keys with on=, or with left_on= and right_on= of the same number")
    for schema, names in zip(schemas, (left, right), strict=True):
        require_columns(where, schema, names)
    for ours, theirs in zip(left, right, strict=True):
        if schemas[0][ours] != schemas[1][theirs]:
            raise PlanError(
                f"{where}: key {ours!r} is {schemas[0][ours]}, key {theirs!r} is {schemas[1][theirs]}; "
                "cast one of them first"
            )


def _columns(
    where: str,
    schemas: tuple[pl.Schema, pl.Schema],
    schema: pl.Schema,
    keys: dict[str, str],
    how: str,
    suffix: str,
    coalesce: bool | None,
) -> tuple[JoinColumn, ...]:
    """Return the side that each output column comes from. The names follow polars, and are checked against it."""
    left, right = schemas
    if how in ("semi", "anti"):
        return tuple(JoinColumn(name, left=name) for name in left)
    merged = keys if coalesce or (coalesce is None and how not in ("full", "cross")) else {}
    kept_left = [name for name in left if how != "right" or name not in merged]
    kept_right = [name for name in right if how == "right" or name not in merged.values()]
    partners = {theirs: ours for ours, theirs in merged.items()}
    outputs = {name: JoinColumn(name, left=name, right=merged.get(name)) for name in kept_left}
    for name in kept_right:
        new_name = name + suffix if name in kept_left else name
        outputs[new_name] = JoinColumn(new_name, left=partners.get(name), right=name)
    if list(outputs) != schema.names():
        raise PlanError(
            f"{where}: polars would give {listed(schema)}, evercurrent {listed(outputs)}; rename the columns first"
        )
    return tuple(outputs.values())


def _past(
    plan: Plan,
    place: PlanId,
    keys: tuple[str, ...],
    columns: tuple[JoinColumn, ...],
    schema: pl.Schema,
    side: str,
) -> PlanId:
    """Add nodes that pass rows of one side with a null key around the join, padded with nulls."""
    node = plan[place]
    is_null = pl.any_horizontal([pl.col(key).is_null() for key in keys])
    condition = Column("null_key", is_null)
    filtered = plan.add(
        PlanNode(Filter(Expression(is_null), condition), (place,), node.schema, f"null key {listed(keys)}")
    )
    padded = []
    for column in columns:
        source = column.left if side == "left" else column.right
        expr = pl.lit(None, schema[column.name]) if source is None else pl.col(source)
        padded.append(Column(column.name, expr.alias(column.name), copies=source))
    apart = set(node.schema) <= {column.copies for column in padded}
    return plan.add(
        PlanNode(
            Select(compared_columns(padded), tuple(padded), keeps_rows_apart=apart),
            (filtered,),
            schema,
            "pad with nulls",
        )
    )
