"""Rows that tie in all that a batch can sort by: views order these by their hashes, which a proof does not compute."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from .windows import UnprovableError

_FIRST, _END, _ROWS = "#first", "#end", "#rows"


def require_decided(ordered: pl.DataFrame, by: Sequence[str], place: str, diff: str, count: int) -> None:
    """Check that no rows tie of which only some are among the first ``count`` of their group.

    ``by`` are the columns of the group and of the order, ``place`` counts the rows of the group before each, ``diff`` its rows.

    Raises:
        UnprovableError: some do, and differ only in lists or structs.
    """
    if not any(dtype.is_nested() for dtype in ordered.schema.values()):
        return
    plain = [
        name for name, dtype in ordered.schema.items() if not dtype.is_nested() and name not in (place, diff)
    ]
    ties = ordered.group_by(list(dict.fromkeys([*by, *plain]))).agg(
        pl.col(place).min().alias(_FIRST),
        (pl.col(place) + pl.col(diff)).max().alias(_END),
        pl.len().alias(_ROWS),
    )
    if ties.select(((pl.col(_ROWS) > 1) & (pl.col(_FIRST) < count) & (pl.col(_END) > count)).any()).item():
        raise UnprovableError(
            "rows that differ only in lists or structs tie, and which of them are first follows from their hashes; "
            "add a column that tells them apart to by="
        )
