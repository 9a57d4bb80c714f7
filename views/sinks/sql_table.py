"""A view kept as a table of a database: rows by key, and the epoch in the same transaction. Through SQLAlchemy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from evercurrent.core.data.errors import PlanError, SinkError
from evercurrent.core.data.release import install_command

from .net_changes import net_change, require_one_row_each
from .sql_types import sql_type, sql_values

if TYPE_CHECKING:
    import sqlalchemy as sa

EPOCHS = "evercurrent_epochs"
"""The table with the epoch as of which each table is current."""

MOST_ROWS = 50_000


class SqlTable:
    """A table with one row per key. Both null and other values may be keys; the table is made with the first contents.

    The epoch, and from which engine it is, are a row of the table ``evercurrent_epochs`` beside it, written in the same transaction.
    A table that is there and was not written by a view is left alone; one of another engine is written anew.
    """

    remembers, most_rows = True, MOST_ROWS

    def __init__(
        self,
        url: str | sa.Engine,
        table: str,
        keys: Sequence[str],
        schema: Mapping[str, pl.DataType],
        origin: str,
    ) -> None:
        try:
            import sqlalchemy as sa
        except ImportError:
            raise PlanError(f"to_sql needs SQLAlchemy; type: {install_command('sql')}") from None
        try:
            self._engine = sa.create_engine(url) if isinstance(url, str) else url
        except (sa.exc.ArgumentError, ImportError) as error:
            raise PlanError(
                f"to_sql: url={url!r} opens no database: {error}; give one such as 'postgresql+psycopg://user@host/name' or "
                "'sqlite:///orders.db'"
            ) from None
        self._is_ours = isinstance(url, str)
        self._name, self._keys, self._origin = table, tuple(keys), origin
        self.place = f"table {table!r} of {self._engine.url.render_as_string(hide_password=True)}"
        dialect = self._engine.dialect.name
        columns = [
            sa.Column(name, sql_type(self.place, name, dtype, dialect)) for name, dtype in schema.items()
        ]
        self._table = sa.Table(table, sa.MetaData(), *columns)
        sa.Index(f"{table} keys"[:63], *(self._table.c[key] for key in self._keys))
        self._epochs = sa.Table(
            EPOCHS, sa.MetaData(), sa.Column("written", sa.String(255), primary_key=True),
            sa.Column("epoch", sa.BigInteger(), nullable=False), sa.Column("origin", sa.String(64), nullable=False),
        )  # fmt: skip

    def position(self) -> int | None:
        """See ``Sink.position``."""
        import sqlalchemy as sa

        inspected = sa.inspect(self._engine)
        if not inspected.has_table(self._name):
            return None
        written = None
        if inspected.has_table(EPOCHS):
            with self._engine.connect() as connection:
                written = connection.execute(self._own_row()).first()
        self._require_own(written, [column["name"] for column in inspected.get_columns(self._name)])
        assert written is not None
        return written.epoch if written.origin == self._origin else None

    def begin(self, contents: pl.DataFrame, epoch: int) -> None:
        """See ``Sink.begin``: the rows are replaced in one transaction; readers see those before until it is done."""
        require_one_row_each(contents, self._keys)
        self.position()  # Refuses a table that is not ours.
        with self._engine.begin() as connection:
            self._epochs.create(connection, checkfirst=True)
            self._table.create(connection, checkfirst=True)
            connection.execute(self._table.delete())
            self._insert(connection, contents)
            self._note(connection, epoch)

    def write(self, delta: pl.DataFrame) -> None:
        """See ``Sink.write``: rows of touched keys are deleted, those there are now are inserted."""
        with self._engine.begin() as connection:
            written = connection.execute(self._own_row().with_for_update()).first()
            if written is None or written.origin != self._origin:
                raise SinkError(
                    f"{self.place} is written by another engine now; give each view a table of its own"
                )
            change = net_change(delta, self._keys, after=written.epoch)
            if change.epoch <= written.epoch:
                return
            self._delete(connection, change.replaced)
            self._insert(connection, change.now)
            self._note(connection, change.epoch)

    def close(self) -> None:
        """See ``Sink.close``."""
        if self._is_ours:
            self._engine.dispose()

    def _own_row(self) -> sa.Select[Any]:
        import sqlalchemy as sa

        return sa.select(self._epochs.c.epoch, self._epochs.c.origin).where(
            self._epochs.c.written == self._name
        )

    def _require_own(self, written: sa.Row[Any] | None, columns: Sequence[str]) -> None:
        if written is None:
            raise SinkError(
                f"{self.place} is there, and no view has written it; give another name, or drop it if it is not needed"
            )
        if set(columns) != {column.name for column in self._table.columns}:
            raise SinkError(
                f"{self.place} has the columns {', '.join(columns)}, and the view has "
                f"{', '.join(column.name for column in self._table.columns)}; drop the table, or give another name"
            )

    def _insert(self, connection: sa.Connection, rows: pl.DataFrame) -> None:
        import sqlalchemy as sa

        if rows.height:
            named: dict[str, sa.BindParameter[Any]] = {
                column.name: sa.bindparam(f"c{place}") for place, column in enumerate(self._table.columns)
            }
            ordered = rows.select(column.name for column in self._table.columns)
            connection.execute(
                self._table.insert().values(named), sql_values(self.place, ordered, connection.dialect.name)
            )

    def _delete(self, connection: sa.Connection, keys: pl.DataFrame) -> None:
        """Delete rows by key; keys with null in the same columns together, so that each statement can use the index."""
        import sqlalchemy as sa

        nulls = [keys[name].is_null().alias(f"n{place}") for place, name in enumerate(self._keys)]
        for rows in keys.with_columns(nulls).partition_by([each.name for each in nulls]):
            conditions = [
                self._table.c[name].is_(None)
                if rows[f"n{place}"][0]
                else self._table.c[name] == sa.bindparam(f"c{place}")
                for place, name in enumerate(self._keys)
            ]
            values = sql_values(self.place, rows.select(self._keys), connection.dialect.name)
            present = [f"c{place}" for place in range(len(self._keys)) if not rows[f"n{place}"][0]]
            connection.execute(
                self._table.delete().where(*conditions), list(_only(values, present)) if present else None
            )

    def _note(self, connection: sa.Connection, epoch: int) -> None:
        import sqlalchemy as sa

        connection.execute(sa.delete(self._epochs).where(self._epochs.c.written == self._name))
        connection.execute(
            sa.insert(self._epochs).values(written=self._name, epoch=epoch, origin=self._origin)
        )


def _only(rows: Iterable[dict[str, Any]], names: Sequence[str]) -> Iterable[dict[str, Any]]:
    return ({name: row[name] for name in names} for row in rows)
