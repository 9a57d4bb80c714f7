"""A part of the keys of a view is proved: only the rows of these keys are taken of sources from which keys are copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from evercurrent.core.data.columns.kernels import key_words

from ...plan.nodes import BOUNDS, PlanId
from ...plan.plan import Plan
from ...plan.shapes import (
    Assigned,
    Chosen,
    Computed,
    Exploded,
    First,
    Grouped,
    Negated,
    Once,
    Paired,
    Panes,
    Retimed,
    Union,
    Unnested,
)

Names = tuple[str, ...]


def keys_to_sample(plan: Plan, place: PlanId) -> Names:
    """Return the columns by which a view is sampled: its keys without bounds, or all of its columns."""
    keys = tuple(name for name in plan.keys_of(place) if name not in BOUNDS)
    return keys or tuple(plan[place].schema)


def copied_from(plan: Plan, place: PlanId, keys: Names) -> Mapping[PlanId, Names]:
    """Return the sources of whose rows those of other keys change nothing in the rows of these keys, with their columns.

    Where keys are computed, or a stage between groups by other columns, a source is needed as a whole and not in the result.
    """
    names_by_place: dict[PlanId, Names | None] = {place: keys}
    for at in sorted(plan.behind(place), reverse=True):
        below = _below(plan, at, names_by_place.get(at))
        for source, names in zip(plan[at].inputs, below, strict=True):
            alike = source not in names_by_place or names_by_place[source] == names
            names_by_place[source] = names if alike else None
    return {at: names for at in plan.inputs if (names := names_by_place.get(at))}


def _below(plan: Plan, place: PlanId, keys: Names | None) -> Sequence[Names | None]:
    """Return under which names each input has these keys; None where it has not all of them."""
    node = plan[place]
    nothing: Sequence[Names | None] = [None] * len(node.inputs)
    if keys is None:
        return nothing
    match node.operation.shape:
        case Computed(columns=columns):
            return [_renamed(keys, {column.name: column.copies for column in columns})]
        case Grouped(keys=own, key_columns=columns) | Panes(keys=own, key_columns=columns):
            copies = {column.name: column.copies for column in columns if column.name in own}
            return [_renamed(keys, copies)]
        case First(keys=own):
            return [keys if set(keys) <= set(own) else None]
        case Exploded(columns=changed):
            return [None if set(keys) & set(changed) else keys]
        case Unnested():
            return [keys if set(keys) <= set(plan[node.inputs[0]].schema) else None]
        case Assigned():
            return [None if set(keys) & set(BOUNDS) else keys]
        case Chosen() | Retimed() | Negated() | Once():
            return [keys]
        case Union():
            return [keys] * len(node.inputs)
        case Paired() as join:
            return _below_join(join, keys)
        case _:
            return nothing


def _below_join(join: Paired, keys: Names) -> Sequence[Names | None]:
    left = _renamed(keys, {column.name: column.left for column in join.columns})
    right = _renamed(keys, {column.name: column.right for column in join.columns})
    across = dict(zip(join.left_keys, join.right_keys, strict=True))
    if left is not None and join.kind != "right":
        if set(left) <= set(across):
            return [left, tuple(across[name] for name in left)]
        return [None if join.kind == "full" else left, None]
    back = {theirs: ours for ours, theirs in across.items()}
    if right is not None and join.kind in ("inner", "right"):
        if set(right) <= set(back):
            return [tuple(back[name] for name in right), right]
        return [None, right]
    return [None, None]


def _renamed(keys: Names, names: Mapping[str, str | None]) -> Names | None:
    copies = [names.get(key) for key in keys]
    return None if None in copies else tuple(name for name in copies if name is not None)


def of_sample(rows: pl.DataFrame, keys: Names, share: float) -> pl.DataFrame:
    """Return the rows whose keys are in the sample: this share of all keys, the same ones in every call."""
    words = key_words([rows.get_column(name) for name in keys], rows.height).first
    # Whole numbers are words themselves, so they are mixed once more.
    mixed = (words ^ (words >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    return rows.filter(pl.Series((mixed >> np.uint64(11)).astype(np.float64) / 2.0**53 < share))
