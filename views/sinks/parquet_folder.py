"""The deltas of a view as Parquet files in a folder or an object store, which grow with each epoch and are never changed."""

from __future__ import annotations

import re
from contextlib import suppress
from io import BytesIO

import polars as pl

from evercurrent.core.data.errors import NameTakenError, SinkError
from evercurrent.core.data.schema import EPOCH

from ..store import Store
from .counted_rows import counted

MOST_ROWS = 1_000_000

OWNER = "_evercurrent-"
"""The begin of the name of an empty file that says from which engine the deltas are; readers of folders skip such names."""

_NAME = re.compile(r"^(\d{12})-(\d{12})\.parquet$")


class ParquetFolder:
    """A folder of files ``<first epoch>-<last epoch>.parquet`` with the view's columns, ``_epoch`` and ``_diff``.

    A name is taken once, so that an epoch cannot be there twice. The first file has the contents at the begin, each row with
    its count as ``_diff``: whoever sums ``_diff`` up to an epoch has the contents as of it.
    """

    remembers, most_rows = True, MOST_ROWS

    def __init__(self, store: Store, origin: str) -> None:
        self._store, self._owner = store, f"{OWNER}{origin}"
        self.place = f"Parquet files in {store.url}"

    def position(self) -> int | None:
        """See ``Sink.position``: the last epoch in the name of a file. Cost: a listing of the folder."""
        last = None
        for listed in self._store.list():
            match = _NAME.match(listed.name)
            if match is not None:
                last = int(match[2])
            elif listed.name != self._owner:
                whose = "of another engine" if listed.name.startswith(OWNER) else "not of this view"
                raise SinkError(
                    f"{self.place}: {listed.name} is {whose}; give an empty folder, or empty this one"
                )
        return last

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
        with suppress(NameTakenError):
            self._store.put(self._owner, [b""])
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
        buffer = BytesIO()
        rows.write_parquet(buffer)
        name = f"{first:012d}-{last:012d}.parquet"
        try:
            self._store.put(name, [buffer.getbuffer()])
        except NameTakenError:
            raise SinkError(
                f"{self.place}: {name} is there already, so somebody else writes there; give each view a folder of its own"
            ) from None
