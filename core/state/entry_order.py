"""The order of entries where a key may have many of them: by key, by their columns, by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from ..data.columns.kernels import Index, Keys, Words
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
    return order_by_key(keys, lambda words: _ordered(words, payload, rows, orders))


def order_by_key(keys: Keys, ordered: Callable[[list[Words]], Index]) -> Index:
    """Return the order of entries by key and then by other columns, as a function returns it, given the words of the keys.

    It is given the first words alone, which do for nearly all keys: the more words there are, the less of the other columns fits
    beside them into one word.
    """
    order = ordered([keys.first])
    if keys.second is None:
        return order
    sorted_keys = keys.take(order)
    return ordered(keys.words()) if _is_mixed(sorted_keys) else order


def _ordered(key_words: list[Words], payload: pl.DataFrame, rows: Keys, orders: Sequence[Order]) -> Index:
    ordered = {order.column: order for order in orders}
    # Rows that tie in the order are ordered by their other columns, so that ties do not depend on hashes.
    ties = [name for name, dtype in payload.schema.items() if name not in ordered and not dtype.is_nested()]
    columns = [payload.get_column(name) for name in (*ordered, *ties)]
    of_columns = [*(Order("") for _ in key_words), *ordered.values()]
    of_columns += [Order("") for _ in (*ties, *rows.words())]
    return sorted_by(
        [*key_words, *columns, *rows.words()],
        [order.descending for order in of_columns],
        [order.nulls_last for order in of_columns],
    )


def _is_mixed(keys: Keys) -> bool:
    """Return whether keys next to each other agree in their first words but not in all."""
    same = keys.first[1:] == keys.first[:-1]
    return keys.second is not None and bool((same & (keys.second[1:] != keys.second[:-1])).any())


def _collides(keys: Keys, rows: Keys) -> bool:
    """Return whether entries next to each other agree in their first words but not in all."""
    if _is_mixed(keys):
        return True
    same = keys.first[1:] == keys.first[:-1]
    same &= rows.first[1:] == rows.first[:-1]
    return rows.second is not None and bool((same & (rows.second[1:] != rows.second[:-1])).any())
