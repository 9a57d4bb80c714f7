"""The deltas of a view as Parquet files in a folder or an object store, which grow with each epoch and are never changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO

import polars as pl

from evercurrent.core.data.errors import MissingFileError, NameTakenError, SinkError
from evercurrent.core.data.schema import EPOCH

from ..store import Store
from ..store.repeated_puts import put_own
from .counted_rows import counted
from .lake_types import require_structs_with_fields
from .origin import BEFORE_ALL, Origin

MOST_ROWS = 1_000_000

OWNER = "_evercurrent-"
"""The prefix of the name of an empty file that states who has written the deltas (``Origin``); readers of folders skip such names."""

_NAME = re.compile(r"^(\d{12})-(\d{12})\.parquet$")


class ParquetFolder:
    """A folder of files ``<first epoch>-<last epoch>.parquet`` with the view's columns, ``_epoch`` and ``_diff``.

    A name is taken once, so that an epoch cannot be there twice. The first file has the contents at the beginning, each row with
    its count as ``_diff``: whoever sums ``_diff`` up to an epoch has the contents as of it.
    """

    remembers, most_rows = True, MOST_ROWS

    def __init__(self, store: Store, origin: Origin, schema: Mapping[str, pl.DataType]) -> None:
        self._store, self._origin = store, origin
        self._owner: str | None = None
        """The name of that file, since this object has written it."""
        self.place = self.target = f"Parquet files in {store.url}"
        require_structs_with_fields(self.place, schema)

    def position(self) -> int | None:
        """See ``Sink.position``: the last epoch in the name of a file. Cost: a listing of the folder."""
        names = [listed.name for listed in self._store.list()]
        matches = [match for name in names if (match := _NAME.match(name))]
        last = max((int(match[2]) for match in matches), default=BEFORE_ALL)
        for name in names:
            if not _NAME.match(name) and not name.startswith(OWNER):
                raise SinkError(
                    f"{self.place}: {name} is not of this view; give an empty folder, or empty this one"
                )
        owners = self._owners(names)
        if matches and not (owners and all(self._origin.has(owner, last) for owner in owners)):
            raise SinkError(
                f"{self.place} are of another view or engine, or of a checkpoint before it was restored; give an empty folder, or "
                "empty this one"
            )
        return last if matches else None

    def begin(self, contents: pl.DataFrame, epoch: int) -> None:
        """See ``Sink.begin``.

        Raises:
            SinkError: there are deltas up to another epoch, which are not taken back.
        """
        position = self.position()
        if position is not None:
            raise SinkError(
                f"{self.place} go up to epoch {position}, and the deltas since are no longer retained, or the epoch is still to come; "
                "give another folder, or empty this one, and it begins with the contents of the view"
            )
        self._owner = None
        self._put(counted(contents, epoch), epoch, epoch)

    def write(self, delta: pl.DataFrame) -> None:
        """See ``Sink.write``."""
        first, last = delta[EPOCH].min(), delta[EPOCH].max()
        assert isinstance(first, int)
        assert isinstance(last, int)
        self._put(delta, first, last)

    def close(self) -> None:
        """See ``Sink.close``: nothing is open between two files."""

    def _put(self, rows: pl.DataFrame, first: int, last: int) -> None:
        self._own(last)
        buffer = BytesIO()
        rows.write_parquet(buffer)
        name = f"{first:012d}-{last:012d}.parquet"
        try:
            put_own(self._store, name, [buffer.getbuffer()])
        except NameTakenError:
            raise SinkError(
                f"{self.place}: {name} is there already, so somebody else writes there; give each view a folder of its own"
            ) from None

    def _own(self, epoch: int) -> None:
        """Name who has written this epoch, before its file: all that is there has been found to be this view's."""
        name = f"{OWNER}{self._origin.token(epoch)}"
        if name == self._owner:
            self._require_there(name)
            return
        with suppress(NameTakenError):
            self._store.put(name, [b""])
        others = [each.name for each in self._store.list(OWNER) if each.name != name]
        if not all(self._origin.has(owner, 0) for owner in self._owners(others)):
            self._store.delete(name)
            raise SinkError(
                f"{self.place} are being written by another view or engine; give each a folder of its own"
            )
        self._store.delete_all(others)
        self._owner = name

    def _require_there(self, owner: str) -> None:
        """Check that the files before are there: the store would make a folder anew, in which they are missing.

        Raises:
            SinkError: the folder was moved, emptied or deleted.
        """
        try:
            self._store.read(owner)
        except MissingFileError:
            raise SinkError(
                f"{self.place} are gone: the folder was moved, emptied or deleted; put them back, or give an empty folder, and call "
                "to_parquet again"
            ) from None

    @staticmethod
    def _owners(names: list[str]) -> list[str]:
        return [name.removeprefix(OWNER) for name in names if name.startswith(OWNER)]
