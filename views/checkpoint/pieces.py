"""Frames on files: each is written once, under a name that no other file ever has, and mapped to be read."""

from __future__ import annotations

import itertools
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import quote
from uuid import uuid4

import numpy as np
import polars as pl
import pyarrow as pa

from evercurrent.core.columns.key_hash import KeyHash
from evercurrent.core.data.errors import CorruptFileError
from evercurrent.core.data.schema import DIFF, EPOCH

from ..store import Buffer, Item, Store
from .bounded import Bounded
from .commits import DeltaRef, PieceRef
from .marker import DELTAS, key_hash_of
from .piece_files import Content, as_bytes, as_plain_bytes, from_bytes

OWN_FILE = 1 << 20
"""Pieces of so many bytes have a file of their own; smaller ones that are written together share one."""

ALIGNED = 64
"""Where a piece may begin: Arrow's buffers are aligned in memory if they are in the file."""

PADDING = bytes(ALIGNED)

OPEN_FILES = 64
"""Files of several pieces that stay mapped."""

DELTAS_APART = 1 << 18
"""Deltas of a commit that are more bytes have a file of their own: runs of states may live longer, and their file with them."""

OPEN_DELTAS = 16
"""Pieces with the deltas of several epochs that stay open: who reads one epoch may read the next."""

DELTA_ROWS = 1024
"""About so many rows of the deltas of a view are one piece: who reads one epoch reads no more."""

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

    @cached_property
    def key_hash(self) -> KeyHash:
        """What the keys in pieces of states are hashed by. Cost: reading the marker, once.

        Raises:
            CheckpointError: by what this process cannot compute.
        """
        return key_hash_of(self.store)

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

    def read_delta(self, ref: DeltaRef) -> pl.DataFrame:
        """The delta of one epoch. Of a piece that holds several, the frame is remembered for the next of them.

        Raises:
            MissingFileError, CorruptFileError, CheckpointError: as ``read``.
        """
        if ref.rows is None:
            return self._read(ref.piece, None)
        frame = self._shared.deltas.get(ref.piece)
        if frame is None:
            frame = self._read(ref.piece, None)
            self._shared.deltas.put(ref.piece, frame)
        # Copied, as they are few: a slice would hold on to all, and its bits would begin in the middle of a byte.
        rows = pl.Series(np.arange(ref.first, ref.first + ref.rows, dtype=np.uint32))
        return pl.DataFrame([column.gather(rows) for column in frame.get_columns()])

    def batch(self) -> Batch:
        """Frames and deltas to be written in one go."""
        return Batch(self)

    def read(self, ref: PieceRef) -> pl.DataFrame:
        """The frame that was written, its columns mapped. Its checksum is computed the first time in a process.

        Raises:
            MissingFileError, CorruptFileError: by name.
            CheckpointError: its keys are hashed in another way than this process can, or it is of a newer format.
        """
        return self._read(ref, self.key_hash)

    def _read(self, ref: PieceRef, key_hash: KeyHash | None) -> pl.DataFrame:
        where = f"{self.store.url}: {ref.file}"
        frame = from_bytes(where, self.content(ref), key_hash)
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
    """Frames and deltas to be written in one go. Where each will be is known at once; it is there after ``put``.

    What is small is together in one file of its folder: states and deltas of a commit are one file.
    """

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._files: list[tuple[str, list[Buffer]]] = []
        self._shared: dict[str, _SharedFile] = {}

    def add(self, frames: Sequence[pl.DataFrame], folder: str = "pieces") -> list[PieceRef]:
        """Write these too, to files in a folder of the checkpoint."""
        return [self._add(as_bytes(frame, self._pieces.key_hash), frame.height, folder) for frame in frames]

    def add_copies(self, refs: Sequence[PieceRef]) -> list[PieceRef]:
        """Write copies of pieces to new files; the small ones to one file."""
        parts = [self._pieces.content(ref) for ref in refs]
        return [
            self._add(Content([part], part.size, ref.crc), ref.rows, "pieces")
            for ref, part in zip(refs, parts, strict=True)
        ]

    def _add(self, content: Content, rows: int, folder: str) -> PieceRef:
        if content.size >= OWN_FILE:
            return self._add_file(unique_name(f"{folder}/"), content, rows)
        if folder not in self._shared:
            self._shared[folder] = _SharedFile(unique_name(f"{folder}/"))
        return self._shared[folder].add(content, rows)

    def add_delta(self, view: str, epoch: int, frame: pl.DataFrame) -> DeltaRef:
        """Write the delta of a view too, to a file of its own. ``_epoch`` is added if it is not there."""
        content = as_plain_bytes(_with_epoch(epoch, frame), self._pieces.key_hash)
        return DeltaRef(epoch, self._add_file(_name_of_deltas(view, epoch), content, frame.height))

    def add_deltas(self, deltas: Sequence[tuple[str, int, pl.DataFrame]]) -> list[DeltaRef]:
        """Write deltas of views too, each with its epoch: those of a view together, ``DELTA_ROWS`` at a time.

        Large ones have files of their own, as ``add_delta`` makes them.
        """
        by_view: dict[str, list[int]] = {}
        for at, (view, _, _) in enumerate(deltas):
            by_view.setdefault(view, []).append(at)
        parts = [
            _Together(view, part, [_with_epoch(*deltas[at][1:]) for at in part], self._pieces.key_hash)
            for view, places in by_view.items()
            for part in _in_parts(places, [deltas[at][2].height for at in places])
        ]
        small = sum(part.content.size for part in parts if part.content.size < OWN_FILE)
        folder = "pieces" if small <= DELTAS_APART else DELTAS.rstrip("/")
        refs: dict[int, DeltaRef] = {}
        for part in parts:
            piece = self._add_together(part, deltas[part.places[0]][1], folder)
            first = 0
            for at, frame in zip(part.places, part.frames, strict=True):
                is_all = len(part.places) == 1
                refs[at] = DeltaRef(deltas[at][1], piece, first, None if is_all else frame.height)
                first += frame.height
        return [refs[at] for at in range(len(deltas))]

    def _add_together(self, part: _Together, epoch: int, folder: str) -> PieceRef:
        if part.content.size >= OWN_FILE:
            return self._add_file(_name_of_deltas(part.view, epoch), part.content, part.rows)
        return self._add(part.content, part.rows, folder)

    def put(self) -> None:
        """Write everything that was added.

        Raises:
            CheckpointError: the store fails. Some files may be there: nobody names them, a sweep deletes them.
        """
        files = self._taken()
        if files:
            self._pieces.store.put_all(files)

    def put_ahead(self) -> Sequence[Item]:
        """Write everything but what is better written with the commit that names it: returns that.

        Raises:
            CheckpointError: as ``put``.
        """
        files = self._taken()
        return self._pieces.store.put_ahead(files) if files else ()

    def _taken(self) -> list[tuple[str, list[Buffer]]]:
        """The files that are to be written; from now on it is not for this batch to do so."""
        files = [*self._files, *((shared.name, shared.parts) for shared in self._shared.values())]
        self._files, self._shared = [], {}
        return files

    def _add_file(self, name: str, content: Content, rows: int) -> PieceRef:
        self._files.append((name, content.parts))
        return PieceRef(name, 0, content.size, content.crc, rows)


@dataclass(slots=True)
class _SharedFile:
    """A file of several pieces, one behind the other."""

    name: str
    parts: list[Buffer] = field(default_factory=list)
    size: int = 0

    def add(self, content: Content, rows: int) -> PieceRef:
        """Append a piece."""
        ref = PieceRef(self.name, self.size, content.size, content.crc, rows)
        padding = -content.size % ALIGNED
        self.parts += [*content.parts, PADDING[:padding]]
        self.size += content.size + padding
        return ref


class _Together:
    """Deltas of a view that are one piece: their places among all, and the piece."""

    def __init__(
        self, view: str, places: Sequence[int], frames: Sequence[pl.DataFrame], key_hash: KeyHash
    ) -> None:
        self.view = view
        self.places = places
        self.frames = frames
        self.rows = sum(frame.height for frame in frames)
        self.content = as_plain_bytes(frames[0] if len(frames) == 1 else pl.concat(frames), key_hash)


def _with_epoch(epoch: int, frame: pl.DataFrame) -> pl.DataFrame:
    """A delta with the column of its epoch, before ``_diff``."""
    if EPOCH in frame.columns:
        return frame
    number = pl.Series(EPOCH, np.full(frame.height, epoch, np.uint64))
    columns = [column for column in frame.get_columns() if column.name != DIFF]
    return pl.DataFrame([*columns, number, frame.get_column(DIFF)])


def _name_of_deltas(view: str, epoch: int) -> str:
    return unique_name(f"{DELTAS}{folder_of(view)}/{epoch:012d}-")


def _in_parts(places: Sequence[int], heights: Sequence[int]) -> Iterator[list[int]]:
    """The places in their order, in parts of about ``DELTA_ROWS`` rows; what has more is a part of its own."""
    part: list[int] = []
    rows = 0
    for place, height in zip(places, heights, strict=True):
        if part and rows + height > DELTA_ROWS:
            yield part
            part, rows = [], 0
        part.append(place)
        rows += height
    if part:
        yield part


class _Shared:
    """What a process knows of a store."""

    def __init__(self) -> None:
        self.checked = Bounded(CHECKED)
        self.files = Bounded(OPEN_FILES)
        self.deltas = Bounded(OPEN_DELTAS)


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
