"""A view kept as a table of a database: the delta of each epoch is written by key, once. Shown with SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

import polars as pl
from polars import selectors as cs

from evercurrent.core.data.schema import DIFF, EPOCH

from .net_changes import net_change

EPOCHS = "evercurrent_epochs"
"""The table with the epoch up to which each table is written."""


def write_to_sqlite(
    database: sqlite3.Connection, table: str, delta: pl.DataFrame, *, keys: Sequence[str]
) -> bool:
    """Apply a view's delta to a table. The rows and the epoch are written in one transaction, once.

    The first delta creates the table. Times and decimals are written as text. Embedded, the view's own subscription calls
    it::

        view.subscribe(lambda delta: write_to_sqlite(database, "depth", delta, keys=["pages"]), name="depth")

    Args:
        database: an open connection, with no transaction open.
        table: the name of the table.
        delta: the view's columns, ``_epoch`` and ``_diff``; of one epoch or of several.
        keys: the columns that identify a row of the view: those that it is grouped by.

    Returns:
        Whether there was something new in it.

    Raises:
        InputError: two rows have the same key.
    """
    columns = [name for name in delta.columns if name not in (EPOCH, DIFF)]
    same = " AND ".join(f"{quoted(key)} IS ?" for key in keys)
    with database:
        database.execute("BEGIN IMMEDIATE")
        database.execute(
            f"CREATE TABLE IF NOT EXISTS {EPOCHS} (written TEXT PRIMARY KEY, epoch INTEGER NOT NULL)"
        )
        database.execute(f"CREATE TABLE IF NOT EXISTS {quoted(table)} ({listed(columns)})")
        database.execute(
            f"CREATE INDEX IF NOT EXISTS {quoted(table + ' keys')} ON {quoted(table)} ({listed(keys)})"
        )
        written_epoch = database.execute(f"SELECT epoch FROM {EPOCHS} WHERE written = ?", (table,)).fetchone()
        last_epoch = 0 if written_epoch is None else int(written_epoch[0])
        change = net_change(delta, keys, after=last_epoch if written_epoch else -1)
        if written_epoch is not None and change.epoch <= last_epoch:
            return False
        touched = pl.concat([change.gone, change.now.select(keys)])
        database.executemany(f"DELETE FROM {quoted(table)} WHERE {same}", values(touched))
        places = ", ".join("?" * len(columns))
        database.executemany(
            f"INSERT INTO {quoted(table)} ({listed(columns)}) VALUES ({places})", values(change.now)
        )
        database.execute(f"INSERT OR REPLACE INTO {EPOCHS} VALUES (?, ?)", (table, change.epoch))
    return True


def values(rows: pl.DataFrame) -> Iterable[tuple[object, ...]]:
    """Return rows in the types of the database."""
    return rows.with_columns((cs.temporal() | cs.decimal() | cs.categorical()).cast(pl.String)).iter_rows()


def listed(names: Sequence[str]) -> str:
    """Return names of columns as they are written in SQL."""
    return ", ".join(map(quoted, names))


def quoted(name: str) -> str:
    """Return a name as it is written in SQL."""
    return '"' + name.replace('"', '""') + '"'
