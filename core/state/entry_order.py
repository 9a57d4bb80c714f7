"""The order of entries where a key may have many of them: by key, by their columns, by row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ..data.columns.kernels import Index, Keys
from ..data.columns.sorting import sorted_by
from ..data.schema import Order


def entry_order(keys: Keys, payload: pl.DataFrame, rows: Keys, orders: Sequence[Order]) -> Index:
    """Return the order of entries: by key, by these orders, by the payload's other columns if there are any, by row."""
    if len(keys) < 2:
        return np.arange(len(keys))
    if not orders:
        order = sorted_by([keys.first, rows.first])
        if not _collides(keys.take(order), rows.take(order)):
            return order
        return sorted_by([keys.first, keys.seconds(), rows.first, rows.seconds()])
    ordered = {order.column: order for order in orders}
    # Rows that tie in the order are ordered by their other columns, so that ties do not depend on hashes.
    ties = [name for name, dtype in payload.schema.items() if name not in ordered and not dtype.is_nested()]
    columns = [payload.get_column(name) for name in (*ordered, *ties)]
    of_columns = [*(Order("") for _ in keys.words()), *ordered.values()]
    of_columns += [Order("") for _ in (*ties, *rows.words())]
    return sorted_by(
        [*keys.words(), *columns, *rows.words()],
        [order.descending for order in of_columns],
        [order.nulls_last for order in of_columns],
    )


def _collides(keys: Keys, rows: Keys) -> bool:
    """Return whether entries next to each other agree in their first words but not in all."""
    same = keys.first[1:] == keys.first[:-1]
    if keys.second is not None and (same & (keys.second[1:] != keys.second[:-1])).any():
        return True
    same &= rows.first[1:] == rows.first[:-1]
    return rows.second is not None and bool((same & (rows.second[1:] != rows.second[:-1])).any())
