"""Pieces are frames in files: each is written once, under a unique name, and mapped when it is read."""

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

from evercurrent.core.data.columns.key_hash import KeyHash
from evercurrent.core.data.errors import CorruptFileError, NameTakenError
from evercurrent.core.data.schema import DIFF, EPOCH

from ..store import Buffer, FileBytes, Item, Store
from ..store.repeated_puts import are_there, put_all_own
from .bounded import Bounded
from .commits import DeltaRef, PieceRef
from .marker import DELTAS, key_hash_of
from .piece_files import Content, as_bytes, as_plain_bytes, from_bytes

OWN_FILE = 1 << 20
"""Pieces from this many bytes on have a file of their own; smaller ones that are written together share one."""

ALIGNED = 64
"""Pieces begin at multiples of this, as Arrow's buffers are aligned in memory only if they are in the file."""

PADDING = bytes(ALIGNED)

OPEN_FILES = 64
"""The most files of several pieces that stay mapped."""

DELTAS_APART = 1 << 18
"""Larger deltas of a commit have a file of their own, as runs in a shared file may keep that file much longer."""

OPEN_DELTAS = 16
"""The most pieces with deltas of several epochs that stay open, as a reader of one epoch often reads the next."""

DELTA_ROWS = 1024
"""About how many rows of a view's deltas are one piece, which bounds what a read of one epoch has to read."""

CHECKED = 100_000
"""How many pieces are remembered as checked; the checksums of others are computed again."""

STORES = 16
"""The most stores whose shared caches a process keeps."""

MOST_DECODED, MOST_DECODED_BYTES = 20_000, 256 << 20
"""The most decoded pieces that are cached, and the most bytes of those that are not mapped."""

LONGEST_FOLDER = 120


class Pieces:
    """The frames in the files of a store.

    All objects made for a store with ``of`` share the caches of the process: the pieces whose checksums were verified,
    and the pieces that a ``Saver`` has decoded.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._shared = _Shared()

    @cached_property
    def key_hash(self) -> KeyHash:
        """Return the hash of keys in pieces of states. Cost: reading the marker, once.

        Raises:
            CheckpointError: this process cannot compute the hash.
        """
        return key_hash_of(self.store)

    @staticmethod
    def of(store: Store) -> Pieces:
        """Return the pieces of a store, with the caches of this process."""
        pieces = Pieces(store)
        shared = _SHARED.get(store.url)
        if shared is None:
            _SHARED.put(store.url, pieces._shared)
        else:
            pieces._shared = shared
        return pieces

    def write(self, frames: Sequence[pl.DataFrame], folder: str = "pieces") -> list[PieceRef]:
        """Write frames together; the small ones share one file.

        Raises:
            CheckpointError: a column of a type that Arrow does not have; the store fails.
        """
        batch = self.batch()
        refs = batch.add(frames, folder)
        batch.put()
        return refs

    def write_delta(self, view: str, epoch: int, frame: pl.DataFrame) -> PieceRef:
        """Write the delta of a view to a file of its own that any reader of Arrow can read: columns, ``_epoch``, ``_diff``."""
        batch = self.batch()
        ref = batch.add_delta(view, epoch, frame)
        batch.put()
        return ref.piece

    def read_delta(self, ref: DeltaRef) -> pl.DataFrame:
        """Return the delta of one epoch; the frame of a piece with several of them is cached for the next one.

        Raises:
            MissingFileError, CorruptFileError, CheckpointError: as ``read``.
        """
        if ref.rows is None:
            return self._read(ref.piece, None)
        frame = self._shared.deltas.get(ref.piece)
        if frame is None:
            frame = self._read(ref.piece, None)
            self._shared.deltas.put(ref.piece, frame)
        # The few rows are copied: a slice would keep the whole piece, and its bits may begin in the middle of a byte.
        rows = pl.Series(np.arange(ref.first, ref.first + ref.rows, dtype=np.uint32))
        return pl.DataFrame([column.gather(rows) for column in frame.get_columns()])

    def batch(self) -> Batch:
        """Return a batch of frames and deltas to be written together."""
        return Batch(self)

    def read(self, ref: PieceRef) -> pl.DataFrame:
        """Return the frame of a piece, its columns mapped; its checksum is verified at the first read in a process.

        Raises:
            MissingFileError, CorruptFileError: by name.
            CheckpointError: its keys are of a hash that this process cannot compute, or its format is newer.
        """
        return self._read(ref, self.key_hash)

    def _read(self, ref: PieceRef, key_hash: KeyHash | None) -> pl.DataFrame:
        where = f"{self.store.url}: {ref.file}"
        frame = from_bytes(where, self.content(ref), key_hash)
        if frame.height != ref.rows:
            raise CorruptFileError(f"{where} has {frame.height} rows at byte {ref.start}, and not {ref.rows}")
        return frame

    def content(self, ref: PieceRef) -> FileBytes:
        """Return the bytes of a piece, mapped.

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
        """Return the cache of pieces that savers of this process have decoded, by the url of the store and more."""
        return _DECODED

    def _buffer(self, ref: PieceRef) -> FileBytes:
        buffer: FileBytes | None = self._shared.files.get(ref.file)
        if buffer is None:
            buffer = self.store.read(ref.file)
            if ref.start or ref.size + ALIGNED < buffer.size:
                self._shared.files.put(ref.file, buffer)
        return buffer


class Batch:
    """A batch of frames and deltas to be written together; their places are known at once, the files are there after ``put``.

    Small pieces of a folder share one file: states and deltas of a commit are one file.
    """

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._files: list[tuple[str, list[Buffer]]] = []
        self._shared: dict[str, _SharedFile] = {}

    def add(self, frames: Sequence[pl.DataFrame], folder: str = "pieces") -> list[PieceRef]:
        """Add frames, to be written to files in a folder of the checkpoint."""
        return [self._add(as_bytes(frame, self._pieces.key_hash), frame.height, folder) for frame in frames]

    def add_copies(self, refs: Sequence[PieceRef]) -> list[PieceRef]:
        """Add copies of pieces, to be written to new files; the small ones share one file."""
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
        """Add the delta of a view, with a file of its own. ``_epoch`` is added if it is not there."""
        content = as_plain_bytes(_with_epoch(epoch, frame), self._pieces.key_hash)
        return DeltaRef(epoch, self._add_file(_name_of_deltas(view, epoch), content, frame.height))

    def add_deltas(self, deltas: Sequence[tuple[str, int, pl.DataFrame]]) -> list[DeltaRef]:
        """Add deltas of views, each with its epoch: those of a view together, ``DELTA_ROWS`` at a time.

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
            CheckpointError: the store fails. Some files may be there, which no record names and a sweep deletes.
        """
        files = self._taken()
        if files:
            put_all_own(self._pieces.store, files)

    def put_ahead(self) -> Sequence[Item]:
        """Write all files except those that are better written with the commit that names them, and return these.

        Raises:
            CheckpointError: as ``put``.
        """
        files = self._taken()
        if not files:
            return ()
        try:
            return self._pieces.store.put_ahead(files)
        except NameTakenError:
            if not are_there(self._pieces.store, files):
                raise
            return ()

    def _taken(self) -> list[tuple[str, list[Buffer]]]:
        """Return the files to be written, and remove them from this batch."""
        files = [*self._files, *((shared.name, shared.parts) for shared in self._shared.values())]
        self._files, self._shared = [], {}
        return files

    def _add_file(self, name: str, content: Content, rows: int) -> PieceRef:
        self._files.append((name, content.parts))
        return PieceRef(name, 0, content.size, content.crc, rows)


@dataclass(slots=True)
class _SharedFile:
    """A file of several pieces, one after the other."""

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
    """Deltas of a view that share one piece: their places among all deltas, and the piece."""

    def __init__(
        self, view: str, places: Sequence[int], frames: Sequence[pl.DataFrame], key_hash: KeyHash
    ) -> None:
        self.view = view
        self.places = places
        self.frames = frames
        self.rows = sum(frame.height for frame in frames)
        self.content = as_plain_bytes(frames[0] if len(frames) == 1 else pl.concat(frames), key_hash)


def _with_epoch(epoch: int, frame: pl.DataFrame) -> pl.DataFrame:
    """Return a delta with the column of its epoch, before ``_diff``."""
    if EPOCH in frame.columns:
        return frame
    number = pl.Series(EPOCH, np.full(frame.height, epoch, np.uint64))
    columns = [column for column in frame.get_columns() if column.name != DIFF]
    return pl.DataFrame([*columns, number, frame.get_column(DIFF)])


def _name_of_deltas(view: str, epoch: int) -> str:
    return unique_name(f"{DELTAS}{folder_of(view)}/{epoch:012d}-")


def _in_parts(places: Sequence[int], heights: Sequence[int]) -> Iterator[list[int]]:
    """Yield the places in their order, in parts of about ``DELTA_ROWS`` rows; a larger delta is a part of its own."""
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
    """The caches of a process for a store."""

    def __init__(self) -> None:
        self.checked = Bounded(CHECKED)
        self.files = Bounded(OPEN_FILES)
        self.deltas = Bounded(OPEN_DELTAS)


_SHARED = Bounded(STORES)
_DECODED = Bounded(MOST_DECODED, MOST_DECODED_BYTES)


def unique_name(prefix: str) -> str:
    """Return a unique name for a new file, over all processes and calls.

    The part that is unique to a process is chosen anew in a fork of it.
    """
    global _process, _token
    if _process != os.getpid():
        _process, _token = os.getpid(), uuid4().hex
    return f"{prefix}{_token}-{next(_counter)}.arrow"


_process, _token = 0, ""
_counter = itertools.count()


def folder_of(view: str) -> str:
    """Return the folder of a view's deltas: its name, with characters that folders cannot have in hexadecimal.

    >>> folder_of("by day"), folder_of("a/b"), folder_of("..")
    ('by day', 'a%2Fb', '%2E.')
    """
    name = quote(view, safe=" +,()=")
    name = "%2E" + name[1:] if name.startswith(".") else name
    return name[:LONGEST_FOLDER]
