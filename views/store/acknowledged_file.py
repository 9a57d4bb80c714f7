"""The file in which the writer of a folder notes its progress and that of its journal: see ``acknowledged``."""

import os
import struct
import threading
from collections.abc import Sequence
from dataclasses import replace

from .acknowledged import Acknowledged, sealed, unsealed
from .protocol import ACKNOWLEDGED, JOURNALS
from .syncing import sync_data, sync_folder

ENDS = struct.Struct("<8s16sQ16sQ")
"""The magic, and for both journal files the token of the pass and the number of its entries on the disk."""

MAGIC = b"evcrend1"

ENDS_AT = 512
"""The place in the file where these begin, in a sector of their own."""

JournalEnd = tuple[bytes, int]
"""The token of a pass over a journal file, and its entries."""

NO_ENDS: tuple[JournalEnd, JournalEnd] = ((bytes(16), 0), (bytes(16), 0))


class AcknowledgedFile:
    """The note in a folder, for one writer, whose threads may write concurrently. The file is created with the first note.

    Raises:
        OSError: the path exists and is not a file; from methods that write, the disk fails.
    """

    def __init__(self, folder: str) -> None:
        self._path = f"{folder}/{ACKNOWLEDGED}"
        self.note = read_acknowledged(folder)
        self._ends = list(read_journal_ends(folder) or NO_ENDS)
        self._guard = threading.Lock()
        self._descriptor: int | None = None

    def committed(self, first: int, epoch: int) -> None:
        """Note that a record is there."""
        self._write(Acknowledged.committed_after(self.note, first, epoch))

    def retained_from(self, oldest: int) -> None:
        """Note durably that no record before the one of this first epoch is needed, if there is a note."""
        if self.note is not None and self.note.oldest != oldest:
            self._write(replace(self.note, oldest=oldest))
            sync_data(self._opened())

    def logged(self, epoch: int, token: bytes) -> None:
        """Note that the input of an epoch is there, and that of all epochs since the newest record."""
        note = Acknowledged(0, 0, 0) if self.note is None else self.note
        self._write(replace(note, logged=epoch, token=token))

    def take_back(self, epoch: int) -> None:
        """Note durably that the input of an epoch is not there, if the note has it."""
        note = self.note
        if note is not None and note.logged >= epoch:
            try:
                self._write(replace(note, logged=max(epoch - 1, note.committed)))
                sync_data(self._opened())
            except OSError:
                self.note = note  # So that it is written again when this is tried again.
                raise

    def forget_inputs(self) -> None:
        """Note that the log of inputs is not needed."""
        note = self.note
        if note is not None and note.logged > note.committed:
            self._write(replace(note, logged=note.committed))

    def end_of_journal(self, which: int, end: JournalEnd) -> None:
        """Note how many entries of a journal file are on the disk."""
        with self._guard:
            self._ends[which] = end
            (one, many), (other, more) = self._ends
            os.pwrite(self._opened(), sealed(ENDS.pack(MAGIC, one, many, other, more)), ENDS_AT)

    def shorten_journal(self, which: int, end: JournalEnd) -> None:
        """Note durably that a journal file has no more entries than these, before others are removed."""
        token, count = self._ends[which]
        if count > (end[1] if token == end[0] else 0):
            try:
                self.end_of_journal(which, end)
                sync_data(self._opened())
            except OSError:
                self._ends[which] = token, count  # So that it is written again when this is tried again.
                raise

    def forget_journals(self) -> None:
        """Note durably that no entries of a journal are needed."""
        for which in range(len(JOURNALS)):
            self.shorten_journal(which, NO_ENDS[which])

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _write(self, note: Acknowledged) -> None:
        self.note = note
        os.pwrite(self._opened(), note.as_bytes(), 0)

    def _opened(self) -> int:
        if self._descriptor is None:
            flags = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
            try:
                self._descriptor = os.open(self._path, flags)
            except FileNotFoundError:
                self._descriptor = os.open(self._path, flags | os.O_CREAT, 0o666)
                sync_folder(os.path.dirname(self._path))  # A durable note needs a durable name.
        return self._descriptor


def read_acknowledged(folder: str) -> Acknowledged | None:
    """Return the note in a folder; None if there is none.

    Raises:
        OSError: it exists and is not a file.
    """
    return Acknowledged.from_bytes(_content(folder)[:ENDS_AT])


def read_journal_ends(folder: str) -> Sequence[JournalEnd] | None:
    """Return how many entries each journal file of a folder had; None if that is not noted.

    Raises:
        OSError: it exists and is not a file.
    """
    fields = unsealed(ENDS, MAGIC, _content(folder)[ENDS_AT:])
    return None if fields is None else ((fields[1], fields[2]), (fields[3], fields[4]))


def _content(folder: str) -> bytes:
    try:
        with open(f"{folder}/{ACKNOWLEDGED}", "rb") as file:
            return file.read(2 * ENDS_AT)
    except (FileNotFoundError, NotADirectoryError):
        return b""
