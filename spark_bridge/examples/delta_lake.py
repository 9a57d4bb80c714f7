"""A view kept as a Delta Lake table: the delta of each epoch is merged by key, once."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from ..runtime.spark_types import frame_to_spark_arrow
from .net_changes import net_change

GONE = "__gone"


def merge_into_delta_lake(
    table: str, delta: pl.DataFrame, *, keys: Sequence[str], sink: str = "evercurrent"
) -> bool:
    """Merge a view's delta into the table at a path or url, which the first delta creates.

    The epoch is committed with the rows, as the version of the application ``sink``, so that a repeated delta changes
    nothing. One writer at a time. Embedded, the view's own subscription calls it::

        view.subscribe(lambda delta: merge_into_delta_lake("/data/depth", delta, keys=["pages"]), name="depth")

    Args:
        table: the path or url of the table.
        delta: the view's columns, ``_epoch`` and ``_diff``; of one epoch or of several.
        keys: the columns that identify a row of the view: those by which it is grouped.
        sink: the name under which the epoch is kept; another one for another view in the same table.

    Returns:
        Whether there was something new in it.

    Raises:
        InputError: two rows have the same key.
    """
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    existing = DeltaTable(table) if DeltaTable.is_deltatable(table) else None
    last_epoch = existing.transaction_version(sink) if existing is not None else None
    change = net_change(delta, keys, after=-1 if last_epoch is None else last_epoch)
    if last_epoch is not None and change.epoch <= last_epoch:
        return False
    written = CommitProperties(app_transactions=[Transaction(sink, change.epoch)])
    if existing is None:
        write_deltalake(table, frame_to_spark_arrow(change.now), commit_properties=written)
        return True
    rows = pl.concat(
        [
            change.now.with_columns(pl.lit(False).alias(GONE)),
            change.gone.with_columns(pl.lit(True).alias(GONE)),
        ],
        how="diagonal",
    )
    same = " AND ".join(f't."{key}" IS NOT DISTINCT FROM s."{key}"' for key in keys)
    values = {f'"{name}"': f's."{name}"' for name in change.now.columns}
    (
        existing.merge(frame_to_spark_arrow(rows), same, "s", "t", commit_properties=written)
        .when_matched_delete(f"s.{GONE}")
        .when_matched_update(values)
        .when_not_matched_insert(values, f"NOT s.{GONE}")
        .execute()
    )
    return True
