"""A view kept as a table of a database: rows by key, and the epoch in the same transaction. Through SQLAlchemy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import polars as pl

from evercurrent.core.data.errors import PlanError, SinkError, first_line
from evercurrent.core.data.release import install_command
from evercurrent.core.data.schema import listed

from .net_changes import net_change, require_one_row_each
from .origin import BEFORE_ALL, Origin
from .sql_places import database_of, opened, require_names, shown_url
from .sql_types import sql_kind, sql_type, sql_values

if TYPE_CHECKING:
    import sqlalchemy as sa

EPOCHS = "evercurrent_epochs"
"""The table with the epoch as of which each table is current, and a token of who has written it (``Origin``)."""

MOST_ROWS = 50_000


class SqlTable:
    """A table with one row per key, which a unique index holds to. Both null and other values may be keys.

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
        origin: Origin,
    ) -> None:
        try:
            import sqlalchemy as sa
        except ImportError:
            raise PlanError(f"to_sql needs SQLAlchemy; type: {install_command('sql')}") from None
        if not isinstance(url, str | sa.Engine):
            raise PlanError(
                f"to_sql: {type(url).__name__} opens no database; give a url as text, such as 'sqlite:///orders.db', or an engine "
                "of SQLAlchemy"
            )
        self._is_ours = isinstance(url, str)
        self._engine = opened(url) if isinstance(url, str) else url
        self._name, self._keys, self._origin = table, tuple(keys), origin
        self.place = f"table {table!r} of {shown_url(self._engine.url)}"
        self.target = (database_of(self._engine), table)
        dialect = self._engine.dialect.name
        require_names(self.place, table, schema, dialect)
        columns = [
            sa.Column(name, sql_type(self.place, name, dtype, dialect)) for name, dtype in schema.items()
        ]
        self._table = sa.Table(table, sa.MetaData(), *columns)
        self._epochs = sa.Table(
            EPOCHS, sa.MetaData(), sa.Column("written", sa.String(255), primary_key=True),
            sa.Column("epoch", sa.BigInteger(), nullable=False), sa.Column("origin", sa.String(64), nullable=False),
        )  # fmt: skip

    def position(self) -> int | None:
        """See ``Sink.position``."""
        import sqlalchemy as sa

        with self._engine.connect() as connection:
            if not sa.inspect(connection).has_table(self._name):
                return None  # Looked up before its record, which is there before the table is.
            has_epochs = sa.inspect(connection).has_table(EPOCHS)
            written = connection.execute(self._own_row()).first() if has_epochs else None
            is_there = self._is_there(connection, written)
        return written.epoch if is_there and written is not None and self._has(written) else None

    def begin(self, contents: pl.DataFrame, epoch: int) -> None:
        """See ``Sink.begin``: the rows are replaced in one transaction; readers see those before until it is done."""
        require_one_row_each(contents, self._keys)
        with self._transaction() as connection:
            self._epochs.create(connection, checkfirst=True)
            written = self._locked(connection)
            if written is None:
                self._enter(connection)
            if not self._is_there(connection, written) and written is not None:
                self._note(connection, BEFORE_ALL, "")
        with self._transaction() as connection:
            written = self._locked(connection)
            if not self._is_there(connection, written):
                self._require_view(written)  # Another view may have begun between the two transactions.
                self._create(connection)
            connection.execute(self._table.delete())
            self._insert(connection, contents)
            self._note(connection, epoch, self._origin.token(epoch))

    def write(self, delta: pl.DataFrame) -> None:
        """See ``Sink.write``: rows of touched keys are deleted, those there are now are inserted."""
        with self._transaction() as connection:
            written = self._locked(connection)
            if written is None or not self._has(written):
                raise SinkError(
                    f"{self.place} is written by another engine now; give each view a table of its own"
                )
            change = net_change(delta, self._keys, after=written.epoch)
            if change.epoch <= written.epoch:
                return
            self._delete(connection, change.replaced)
            self._insert(connection, change.now)
            self._note(connection, change.epoch, self._origin.token(change.epoch))

    def close(self) -> None:
        """See ``Sink.close``."""
        if self._is_ours:
            self._engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """Yield a connection whose statements happen together, those that make tables included.

        Raises:
            SinkError: the database does not take a value.
        """
        import sqlalchemy as sa

        try:
            with self._engine.begin() as connection:
                if (
                    connection.dialect.name == "sqlite"
                ):  # Its driver begins a transaction only with the first row.
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield connection
        except sa.exc.DataError as error:
            raise SinkError(
                f"{self.place} does not take a value: {first_line(error)}; change it in the view"
            ) from error

    def _create(self, connection: sa.Connection) -> None:
        """Create the table and its index, unless it is there."""
        import sqlalchemy as sa

        created = self._table.to_metadata(sa.MetaData())
        # Named at random: names are cut after 63 bytes, are shared by all tables of a schema, and go with a table that is renamed.
        sa.Index(f"evercurrent_keys_{token_hex(6)}", *(created.c[key] for key in self._keys), unique=True)
        created.create(connection, checkfirst=True)

    def _has(self, written: sa.Row[Any]) -> bool:
        return self._origin.has(written.origin.partition("/")[0], written.epoch)

    def _locked(self, connection: sa.Connection) -> sa.Row[Any] | None:
        """Return how far the table was written, which no other writer changes until the end of the transaction."""
        return connection.execute(self._own_row().with_for_update()).first()

    def _own_row(self) -> sa.Select[Any]:
        import sqlalchemy as sa

        return sa.select(self._epochs.c.epoch, self._epochs.c.origin).where(
            self._epochs.c.written == self._name
        )

    def _is_there(self, connection: sa.Connection, written: sa.Row[Any] | None) -> bool:
        """Return whether the table is there.

        Raises:
            SinkError: it is, and is not of this view, or has other columns.
        """
        import sqlalchemy as sa

        inspected = sa.inspect(connection)
        if not inspected.has_table(self._name):
            return False
        if written is None:
            raise SinkError(
                f"{self.place} is there, and no view has written it; give another name, or drop it if it is not needed"
            )
        self._require_view(written)
        self._require_columns(inspected.get_columns(self._name))
        return True

    def _require_view(self, written: sa.Row[Any] | None) -> None:
        if written is None or written.origin.partition("/")[2] != self._origin.view:
            raise SinkError(
                f"{self.place} is written by another view; give each view a table of its own, or drop this one"
            )

    def _require_columns(self, columns: Sequence[Any]) -> None:
        there = {column["name"]: sql_kind(column["type"]) for column in columns}
        if there != {column.name: sql_kind(column.type) for column in self._table.columns}:
            has = ", ".join(f"{column['name']} {column['type']}" for column in columns)
            needs = ", ".join(f"{column.name} {column.type}" for column in self._table.columns)
            raise SinkError(
                f"{self.place} has the columns {has}, and the view has {needs}; drop the table, or give another name"
            )

    def _insert(self, connection: sa.Connection, rows: pl.DataFrame) -> None:
        import sqlalchemy as sa

        if rows.height:
            named: dict[str, sa.BindParameter[Any]] = {
                column.name: sa.bindparam(f"c{place}") for place, column in enumerate(self._table.columns)
            }
            ordered = rows.select(column.name for column in self._table.columns)
            for some in ordered.iter_slices(MOST_ROWS):
                values = sql_values(self.place, some, connection.dialect.name)
                try:
                    connection.execute(self._table.insert().values(named), values)
                except sa.exc.IntegrityError as error:
                    raise SinkError(
                        f"{self.place}: there are several rows of one key {listed(self._keys)}: {first_line(error)}; name all "
                        "columns that tell rows apart"
                    ) from error

    def _delete(self, connection: sa.Connection, keys: pl.DataFrame) -> None:
        """Delete rows by key; keys with null in the same columns together, so that each statement can use the index."""
        import sqlalchemy as sa

        for rows in _apart_by_nulls(keys):
            is_null = [rows[name][0] is None for name in self._keys]
            conditions = [
                self._table.c[name].is_(None) if null else self._table.c[name] == sa.bindparam(f"c{place}")
                for place, (name, null) in enumerate(zip(self._keys, is_null, strict=True))
            ]
            values = sql_values(self.place, rows.select(self._keys), connection.dialect.name)
            present = [f"c{place}" for place, null in enumerate(is_null) if not null]
            connection.execute(
                self._table.delete().where(*conditions), list(_only(values, present)) if present else None
            )

    def _enter(self, connection: sa.Connection) -> None:
        """Claim a table before it is created: a database that commits each CREATE would leave one that is nobody's if the rest failed.

        It fails if another writer does so at the same time, and is tried again by the delivery.
        """
        import sqlalchemy as sa

        claim = {"written": self._name, "epoch": BEFORE_ALL, "origin": f"/{self._origin.view}"}
        connection.execute(sa.insert(self._epochs).values(claim))

    def _note(self, connection: sa.Connection, epoch: int, token: str) -> None:
        import sqlalchemy as sa

        values = {"epoch": epoch, "origin": f"{token}/{self._origin.view}"}
        # Not a deletion and an insertion: a writer who waits for the row would then find none.
        connection.execute(sa.update(self._epochs).where(self._epochs.c.written == self._name).values(values))


def _apart_by_nulls(rows: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the rows in parts, in each of which the same columns are null."""
    patterns = rows.select(pl.concat_str(pl.all().is_null().cast(pl.UInt8))).to_series()
    return [rows.filter(patterns == pattern) for pattern in patterns.unique()]


def _only(rows: Iterable[dict[str, Any]], names: Sequence[str]) -> Iterable[dict[str, Any]]:
    return ({name: row[name] for name in names} for row in rows)
