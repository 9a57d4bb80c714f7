"""The rows of windows that are made of all rows of a key: counted, the last rows, merged by a user's function."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from evercurrent.core.data.columns.grouping import boundaries
from evercurrent.core.data.columns.kernels import gather
from evercurrent.core.data.columns.key_hash import hashing_by
from evercurrent.core.data.schema import DIFF
from evercurrent.core.eventtime.windows.kinds import WINDOW_END
from evercurrent.core.eventtime.windows.row_windows import layout_of, rewindow
from evercurrent.core.state.lookup import rows_change
from evercurrent.core.state.partitioning import KeyColumns
from evercurrent.core.state.spine import Spine

from ...plan.nodes import BOUNDS, PlanId
from ...plan.shapes import Panes
from ...plan.windowed import columns_of_keys
from .copies import first_copies, with_copies
from .rows import Rows
from .stages import copied, matching, values, with_keys
from .window_rows import without_late


def rows_of_remade(rows: Rows, place: PlanId, grouped: Panes, panes: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the windows of these panes, none if the windows of their keys are others by now.

    Of equal rows as many are returned as are in the windows. Counted windows of a key that begin at the same instant are returned
    together, as the end of each counts those before it. Of the change of an epoch all rows of the keys are returned, since each
    may have moved others from window to window. Cost: all rows of the keys.
    """
    (source,) = rows.plan[place].inputs
    keys, columns = values(panes.select(grouped.keys)), grouped.key_columns
    input_rows = without_late(rows, place, rows.rows(source, copied(columns, keys)))
    own = with_keys(input_rows, columns)
    if grouped.keys:
        is_of_key = matching(own, keys)
        input_rows, own = input_rows.filter(is_of_key), own.filter(is_of_key)
    if rows.is_change or not input_rows.height:
        return input_rows
    schema = rows.plan[source].schema
    held_in = columns_of_keys(columns, schema)
    others = [name for name in schema if name not in held_in.values()]
    key_values = [own.get_column(key).alias(name) for key, name in held_in.items()]
    keyed = pl.DataFrame([*input_rows.select(others), *key_values, input_rows.get_column(DIFF)])
    with hashing_by(rows.compiled.circuit.key_hash):
        in_windows = _in_windows(rows.plan.name_of(place), grouped, keyed, held_in, panes)
        return with_copies(input_rows, first_copies(keyed, in_windows))


def _in_windows(
    where: str, grouped: Panes, keyed: pl.DataFrame, held_in: Mapping[str, str], panes: pl.DataFrame
) -> pl.DataFrame:
    """Return the rows that are in the windows of these panes with how many of each, made as ``WindowByKey`` makes them."""
    function = rewindow(where, grouped.window, held_in)
    schema = keyed.drop(DIFF).schema
    spine = Spine(layout_of(grouped.window, schema), keys=KeyColumns.of(tuple(held_in.values())))
    spine.stage_rows(keyed)
    _, together = rows_change(spine, spine.delta.keys.take(boundaries(spine.delta.keys)), function.count)
    rewritten = function(together)
    windowed = gather(together.payload, rewritten.positions).with_columns(pl.Series(DIFF, rewritten.diffs))
    bounds = [
        pl.Series(name, each).cast(schema[name])
        for name, each in zip(BOUNDS, (rewritten.starts, rewritten.ends), strict=True)
    ]
    keys = [windowed.get_column(name).alias(key) for key, name in held_in.items()]
    windows = pl.DataFrame([*keys, *bounds])
    pane_windows = panes.select(windows.columns)
    if function.ends_by_rank:
        pane_windows = windows.filter(matching(windows, pane_windows)).drop(WINDOW_END)
    return windowed.filter(matching(windows.select(pane_windows.columns), values(pane_windows)))
