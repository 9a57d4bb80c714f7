"""Frames on files: each is written once, under a name that no other file ever has, and mapped to be read."""

from __future__ import annotations

import itertools
import os
import zlib
from collections.abc import Sequence
from urllib.parse import quote
from uuid import uuid4

import numpy as np
import polars as pl
import pyarrow as pa

from evercurrent.core.errors import CorruptFileError
from evercurrent.core.schema import DIFF, EPOCH

from ..store import Buffer, Item, Store
from .bounded import Bounded
from .commits import DeltaRef, PieceRef
from .marker import DELTAS
from .piece_files import Content, as_bytes, as_plain_bytes, from_bytes

OWN_FILE = 1 << 20
"""Pieces of so many bytes have a file of their own; smaller ones that are written together share one."""

ALIGNED = 64
"""Where a piece may begin: Arrow's buffers are aligned in memory if they are in the file."""

PADDING = bytes(ALIGNED)

OPEN_FILES = 64
"""Files of several pieces that stay mapped."""

CHECKED = 100_000
"""Pieces whose checksums are known to be right. Of more, some are computed again."""

STORES = 16
"""Stores of which a process remembers what it knows."""

MOST_DECODED, MOST_DECODED_BYTES = 20_000, 256 << 20
"""Pieces that are kept as what a state has made of them, and the bytes of those that are not mapped."""

LONGEST_FOLDER = 120


class Pieces:
    """Frames on the files of a store.

    What one process knows of a store is shared by all that are made of it with ``of``: which pieces were found to be
    what was written, and the pieces that a ``Saver`` has made of them.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._shared = _Shared()

    @staticmethod
    def of(store: Store) -> Pieces:
        """The pieces of a store, with what this process knows of it."""
        pieces = Pieces(store)
        shared = _SHARED.get(store.url)
        if shared is None:
            _SHARED.put(store.url, pieces._shared)
        else:
            pieces._shared = shared
        return pieces

    def write(self, frames: Sequence[pl.DataFrame], folder: str = "pieces") -> list[PieceRef]:
        """Write frames, all in one go; the small ones in one file.

        Raises:
            CheckpointError: a column of a type that Arrow does not have; the store fails.
        """
        batch = self.batch()
        refs = batch.add(frames, folder)
        batch.put()
        return refs

    def write_delta(self, view: str, epoch: int, frame: pl.DataFrame) -> PieceRef:
        """Write the delta of a view to a file of its own, for all who read Arrow: its columns, ``_epoch``, ``_diff``."""
        batch = self.batch()
        ref = batch.add_delta(view, epoch, frame)
        batch.put()
        return ref.piece

    def batch(self) -> Batch:
        """Frames and deltas to be written in one go."""
        return Batch(self)

    def read(self, ref: PieceRef) -> pl.DataFrame:
        """The frame that was written, its columns mapped. Its checksum is computed the first time in a process.

        Raises:
            MissingFileError, CorruptFileError: by name.
            CheckpointError: it was written with another version of polars, or a newer format.
        """
        where = f"{self.store.url}: {ref.file}"
        frame = from_bytes(where, self.content(ref))
        if frame.height != ref.rows:
            raise CorruptFileError(f"{where} has {frame.height} rows at byte {ref.start}, and not {ref.rows}")
        return frame

    def content(self, ref: PieceRef) -> pa.Buffer:
        """The bytes of a piece, mapped.

        Raises:
            MissingFileError, CorruptFileError: by name.
        """
        buffer = self._buffer(ref)
        where = f"{self.store.url}: {ref.file}"
        if ref.start + ref.size > buffer.size:
            raise CorruptFileError(
                f"{where} ends after {buffer.size} bytes, and a piece of it goes on to byte {ref.start + ref.size}: it "
                "was cut off; restore it from a copy of the checkpoint"
            )
        part = buffer.slice(ref.start, ref.size)
        key = (ref.file, ref.start)
        if self._shared.checked.get(key) is None:
            if zlib.crc32(part) != ref.crc:
                raise CorruptFileError(
                    f"{where} is not what was written: the checksum of its bytes {ref.start} to {ref.start + ref.size} "
                    "differs; restore it from a copy of the checkpoint"
                )
            self._shared.checked.put(key, True)
        return part

    @property
    def decoded(self) -> Bounded:
        """What savers of this process have made of pieces, by the url of the store and more."""
        return _DECODED

    def _buffer(self, ref: PieceRef) -> pa.Buffer:
        buffer = self._shared.files.get(ref.file)
        if buffer is None:
            buffer = self.store.read(ref.file)
            if ref.start or ref.size + ALIGNED < buffer.size:
                self._shared.files.put(ref.file, buffer)
        return buffer


class Batch:
    """Frames to be written in one go. Where each will be is known at once; it is there after ``put``."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._files: list[tuple[str, list[Buffer]]] = []

    def add(self, frames: Sequence[pl.DataFrame], folder: str = "pieces") -> list[PieceRef]:
        """Write these too, to files in a folder of the checkpoint."""
        return self._add([(frame.height, as_bytes(frame)) for frame in frames], folder)

    def add_copies(self, refs: Sequence[PieceRef]) -> list[PieceRef]:
        """Write copies of pieces to new files; the small ones to one file."""
        parts = [self._pieces.content(ref) for ref in refs]
        contents = [
            (ref.rows, Content([part], part.size, ref.crc)) for ref, part in zip(refs, parts, strict=True)
        ]
        return self._add(contents, "pieces")

    def _add(self, contents: Sequence[tuple[int, Content]], folder: str) -> list[PieceRef]:
        refs: list[PieceRef] = []
        shared, start = unique_name(f"{folder}/"), 0
        together: list[Buffer] = []
        for rows, content in contents:
            if content.size >= OWN_FILE:
                refs.append(self._add_file(unique_name(f"{folder}/"), content, rows))
                continue
            refs.append(PieceRef(shared, start, content.size, content.crc, rows))
            padding = -content.size % ALIGNED
            together += [*content.parts, PADDING[:padding]]
            start += content.size + padding
        if together:
            self._files.append((shared, together))
        return refs

    def add_delta(self, view: str, epoch: int, frame: pl.DataFrame) -> DeltaRef:
        """Write the delta of a view too. ``_epoch`` is added if it is not there."""
        if EPOCH not in frame.columns:
            number = pl.Series(EPOCH, np.full(frame.height, epoch, np.uint64))
            columns = [column for column in frame.get_columns() if column.name != DIFF]
            frame = pl.DataFrame([*columns, number, frame.get_column(DIFF)])
        name = unique_name(f"{DELTAS}{folder_of(view)}/{epoch:012d}-")
        return DeltaRef(epoch, self._add_file(name, as_plain_bytes(frame), frame.height))

    def put(self) -> None:
        """Write everything that was added.

        Raises:
            CheckpointError: the store fails. Some files may be there: nobody names them, a sweep deletes them.
        """
        if self._files:
            self._pieces.store.put_all(self._files)
        self._files = []

    def put_ahead(self) -> Sequence[Item]:
        """Write everything but what is better written with the commit that names it: returns that.

        Raises:
            CheckpointError: as ``put``.
        """
        files, self._files = self._files, []
        return self._pieces.store.put_ahead(files) if files else ()

    def _add_file(self, name: str, content: Content, rows: int) -> PieceRef:
        self._files.append((name, content.parts))
        return PieceRef(name, 0, content.size, content.crc, rows)


class _Shared:
    """What a process knows of a store."""

    def __init__(self) -> None:
        self.checked = Bounded(CHECKED)
        self.files = Bounded(OPEN_FILES)


_SHARED = Bounded(STORES)
_DECODED = Bounded(MOST_DECODED, MOST_DECODED_BYTES)


def unique_name(prefix: str) -> str:
    """The name of a new file, which no other process and no other call gets.

    The part that is unique to a process is chosen anew in a fork of it.
    """
    global _process, _token
    if _process != os.getpid():
        _process, _token = os.getpid(), uuid4().hex
    return f"{prefix}{_token}-{next(_counter)}.arrow"


_process, _token = 0, ""
_counter = itertools.count()


def folder_of(view: str) -> str:
    """The folder of a view's deltas: its name, with what folders cannot be called spelled in hexadecimal.

    >>> folder_of("by day"), folder_of("a/b"), folder_of("..")
    ('by day', 'a%2Fb', '%2E.')
    """
    name = quote(view, safe=" +,()=")
    name = "%2E" + name[1:] if name.startswith(".") else name
    return name[:LONGEST_FOLDER]
