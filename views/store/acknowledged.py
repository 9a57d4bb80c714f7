"""How far a store's writer has come, in its own words: whoever finds less than that knows that a file was lost.

A missing file at the end of a log looks like one that was never written. So the writer notes, after each commit and each
entry of the log of inputs, that it is there. The note is small, is written over the one before, and nobody waits for it:
a killed process leaves it as it is, and after a power failure it may be older than what is there, never newer. One that
cannot be read proves nothing.

Old records go when they are swept, and a missing oldest one looks like that. So what a sweep retains is noted before it
deletes anything, and the disk is waited for.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace
from typing import Any

NOTE = struct.Struct("<8sQQQ16sQ")
"""What it is, the first epoch of the newest record, the last, the last epoch in the log of inputs, the log's token, the
first epoch of the oldest record."""

MAGIC = b"evcrack2"

FORMER_NOTE, FORMER_MAGIC = struct.Struct("<8sQQQ16s"), b"evcrack1"
"""The same without the oldest record."""

UNKNOWN = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What was acknowledged: the record of the epochs from ``first`` to ``committed``, and input up to epoch ``logged``.

    ``token`` is that of the log of inputs, ``oldest`` the first epoch of the oldest record that is retained (None: it is
    not known).
    """

    first: int
    committed: int
    logged: int
    token: bytes = bytes(16)
    oldest: int | None = None

    def as_bytes(self) -> bytes:
        """The note, with its checksum."""
        oldest = UNKNOWN if self.oldest is None else self.oldest
        return sealed(NOTE.pack(MAGIC, self.first, self.committed, self.logged, self.token, oldest))

    @staticmethod
    def from_bytes(data: bytes) -> Acknowledged | None:
        """The note, or None where it is not what was written."""
        said = unsealed(NOTE, MAGIC, data)
        if said is None:
            former = unsealed(FORMER_NOTE, FORMER_MAGIC, data)
            return None if former is None else Acknowledged(*former[1:])
        _, first, committed, logged, token, oldest = said
        return Acknowledged(first, committed, logged, token, None if oldest == UNKNOWN else oldest)

    @staticmethod
    def committed_after(before: Acknowledged | None, first: int, epoch: int) -> Acknowledged:
        """The note after a commit. The first one of all is the oldest."""
        if before is None or first == 0:
            return Acknowledged(first, epoch, epoch, oldest=0 if first == 0 else None)
        return replace(before, first=first, committed=epoch, logged=epoch)


def sealed(data: bytes) -> bytes:
    """Bytes with their checksum."""
    return data + zlib.crc32(data).to_bytes(4, "little")


def unsealed(layout: struct.Struct, magic: bytes, data: bytes) -> tuple[Any, ...] | None:
    """What such bytes hold, or None where they are not as they were written."""
    body = data[: layout.size]
    if data[: layout.size + 4] != sealed(body) or body[: len(magic)] != magic:
        return None
    return layout.unpack(body)
