"""A view kept as a Delta Lake table, merged by key, or its deltas appended to one. Through deltalake, without Spark."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

import polars as pl

from evercurrent.core.data.errors import PlanError, SinkError
from evercurrent.core.data.release import install_command
from evercurrent.core.data.schema import EPOCH

from .counted_rows import counted
from .held_values import MICROSECONDS, require_times
from .lake_types import lake_frame, require_lake_types
from .net_changes import net_change, require_one_row_each
from .origin import Origin

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

MOST_ROWS = 500_000

GONE = "__gone"


class DeltaTableSink:
    """A Delta Lake table whose commits hold an epoch each, as the version of the application ``evercurrent/<name>``.

    The version of ``evercurrent/<name>/origin`` is a number that stands for who wrote that epoch (``Origin``).
    With ``keys`` it holds the contents, one row per key, and each step is a MERGE. Without, it holds the deltas, with ``_epoch``
    and ``_diff``, and each step is an append.
    """

    remembers, most_rows = True, MOST_ROWS

    def __init__(
        self, path: str, keys: Sequence[str], name: str, schema: Mapping[str, pl.DataType], origin: Origin,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        try:
            import deltalake  # noqa: F401
        except ImportError:
            raise PlanError(f"to_delta needs deltalake; type: {install_command('delta')}") from None
        self._path, self._keys, self._application = path, tuple(keys), f"evercurrent/{name}"
        self._options, self._origin = dict(storage_options or {}), origin
        self.place = f"Delta Lake table {path}"
        self.target = f"Delta Lake table {path if '://' in path else os.path.realpath(path)}"
        require_lake_types(self.place, schema)

    def position(self) -> int | None:
        """See ``Sink.position``."""
        table = self._table()
        return None if table is None else self._position_in(table)

    def _position_in(self, table: DeltaTable) -> int | None:
        epoch = table.transaction_version(self._application)
        if epoch is None:
            raise SinkError(f"{self.place} is there, and this view has not written it; give another path")
        writer = table.transaction_version(f"{self._application}/origin")
        return int(epoch) if writer is not None and self._origin.has(f"{writer:015x}", epoch) else None

    def begin(self, contents: pl.DataFrame, epoch: int) -> None:
        """See ``Sink.begin``: with keys, the table is overwritten in one commit.

        Raises:
            SinkError: it holds deltas up to another epoch, which are not taken back.
        """
        from deltalake import write_deltalake

        table = self._table()
        if table is not None:
            self._position_in(table)  # Refuses a table that is not ours.
        if not self._keys and table is not None:
            raise SinkError(
                f"{self.place} has deltas of another engine, or only up to an epoch so long ago that those since are no longer "
                "retained; give another path"
            )
        if self._keys:
            require_one_row_each(contents, self._keys)
        rows = self._rows(contents if self._keys else counted(contents, epoch))
        commit = self._commit(epoch)
        if table is None:
            # Tried again, a commit that creates the table would go on top of a table that another writer has created meanwhile.
            commit.max_commit_retries = 0
            write_deltalake(
                self._path, rows, mode="error", storage_options=self._options or None, commit_properties=commit
            )  # fmt: skip
        else:  # The version that was checked, so that the commit fails if another writer has been there since.
            write_deltalake(table, rows, mode="overwrite", schema_mode="overwrite", commit_properties=commit)

    def write(self, delta: pl.DataFrame) -> None:
        """See ``Sink.write``."""
        from deltalake import write_deltalake

        table = self._table()
        written = None if table is None else self._position_in(table)
        if written is None or table is None:
            raise SinkError(
                f"{self.place} is gone, or written by another engine now; give each view a table of its own"
            )
        if self._keys:
            self._merge(table, delta, written)
            return
        news = delta.filter(pl.col(EPOCH) > written)
        if news.height:
            last = news[EPOCH].max()
            assert isinstance(last, int)
            write_deltalake(table, self._rows(news), mode="append", commit_properties=self._commit(last))

    def close(self) -> None:
        """See ``Sink.close``: nothing is open between two commits."""

    def _merge(self, table: DeltaTable, delta: pl.DataFrame, written: int) -> None:
        change = net_change(delta, self._keys, after=written)
        if change.epoch <= written:
            return
        gone = next(
            name for name in (f"{GONE}{'_' * more}" for more in count()) if name not in change.now.columns
        )
        rows = pl.concat(
            [
                change.now.with_columns(pl.lit(False).alias(gone)),
                change.gone.with_columns(pl.lit(True).alias(gone)),
            ],
            how="diagonal",
        )
        # In parentheses, as its parser takes the AND as part of the second operand.
        same = " AND ".join(f"(t.{_quoted(key)} IS NOT DISTINCT FROM s.{_quoted(key)})" for key in self._keys)
        values = {_quoted(name): f"s.{_quoted(name)}" for name in change.now.columns}
        (
            table.merge(self._rows(rows), same, "s", "t", commit_properties=self._commit(change.epoch))
            .when_matched_delete(f"s.{gone}")
            .when_matched_update(values)
            .when_not_matched_insert(values, f"NOT s.{gone}")
            .execute()
        )

    def _rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        require_times(self.place, rows, MICROSECONDS)
        return lake_frame(rows)

    def _table(self) -> DeltaTable | None:
        from deltalake import DeltaTable

        there = DeltaTable.is_deltatable(self._path, storage_options=self._options or None)
        return DeltaTable(self._path, storage_options=self._options or None) if there else None

    def _commit(self, epoch: int) -> CommitProperties:
        from deltalake import CommitProperties, Transaction

        written = (
            Transaction(self._application, epoch),
            Transaction(f"{self._application}/origin", int(self._origin.token(epoch), 16)),
        )
        return CommitProperties(app_transactions=list(written))


def _quoted(name: str) -> str:
    quoted = name.replace('"', '""')
    return f'"{quoted}"'
