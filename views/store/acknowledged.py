"""The note in which a store's writer records its progress: a store that holds less than noted has lost a file.

A missing file at the end of a log looks like one that was never written. So the writer notes each commit and each entry
of the log of inputs once it is durable. The note is small, replaces the one before, and is not waited for: a killed
process leaves it as it is, and after a power failure it may be older than the files, never newer. A note that cannot be
read proves nothing.

Old records are deleted by sweeps, and a lost oldest record looks like a swept one. So what a sweep retains is noted,
durably, before it deletes anything.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace
from typing import Any

NOTE = struct.Struct("<8sQQQ16sQ")
"""The magic, the first epoch of the newest record, the last, the last epoch in the log of inputs, the log's token, the
first epoch of the oldest record."""

MAGIC = b"evcrack2"

FORMER_NOTE, FORMER_MAGIC = struct.Struct("<8sQQQ16s"), b"evcrack1"
"""The note of an earlier version, without the oldest record."""

UNKNOWN = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The acknowledged state: the record of the epochs from ``first`` to ``committed``, and input up to epoch ``logged``.

    ``token`` is that of the log of inputs, ``oldest`` the first epoch of the oldest retained record, None if unknown.
    """

    first: int
    committed: int
    logged: int
    token: bytes = bytes(16)
    oldest: int | None = None

    def as_bytes(self) -> bytes:
        """Return the note, with its checksum."""
        oldest = UNKNOWN if self.oldest is None else self.oldest
        return sealed(NOTE.pack(MAGIC, self.first, self.committed, self.logged, self.token, oldest))

    @staticmethod
    def from_bytes(data: bytes) -> Acknowledged | None:
        """Return the note, or None where the bytes are damaged."""
        fields = unsealed(NOTE, MAGIC, data)
        if fields is None:
            former = unsealed(FORMER_NOTE, FORMER_MAGIC, data)
            return None if former is None else Acknowledged(*former[1:])
        _, first, committed, logged, token, oldest = fields
        return Acknowledged(first, committed, logged, token, None if oldest == UNKNOWN else oldest)

    @staticmethod
    def committed_after(before: Acknowledged | None, first: int, epoch: int) -> Acknowledged:
        """Return the note after a commit; the first commit is also the oldest."""
        if before is None or first == 0:
            return Acknowledged(first, epoch, epoch, oldest=0 if first == 0 else None)
        return replace(before, first=first, committed=epoch, logged=epoch)


def sealed(data: bytes) -> bytes:
    """Return bytes with their checksum."""
    return data + zlib.crc32(data).to_bytes(4, "little")


def unsealed(layout: struct.Struct, magic: bytes, data: bytes) -> tuple[Any, ...] | None:
    """Return the fields of sealed bytes, or None where they are damaged."""
    body = data[: layout.size]
    if data[: layout.size + 4] != sealed(body) or body[: len(magic)] != magic:
        return None
    return layout.unpack(body)
