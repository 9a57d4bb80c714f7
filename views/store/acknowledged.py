"""How far a store's writer has come, in its own words: whoever finds less than that knows that a file was lost.

A missing file at the end of a log looks like one that was never written. So the writer notes, after each commit and each
entry of the log of inputs, that it is there. The note is small, is written over the one before, and nobody waits for it:
a killed process leaves it as it is, and after a power failure it may be older than what is there, never newer. One that
cannot be read proves nothing.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

NOTE = struct.Struct("<8sQQQ16s")
"""What it is, the first epoch of the newest record, the last, the last epoch in the log of inputs, the log's token."""

MAGIC = b"evcrack1"


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What was acknowledged: the record of the epochs from ``first`` to ``committed``, and input up to epoch ``logged``.

    ``token`` is that of the log of inputs.
    """

    first: int
    committed: int
    logged: int
    token: bytes = bytes(16)

    def as_bytes(self) -> bytes:
        """The note, with its checksum."""
        return sealed(NOTE.pack(MAGIC, self.first, self.committed, self.logged, self.token))

    @staticmethod
    def from_bytes(data: bytes) -> Acknowledged | None:
        """The note, or None where it is not what was written."""
        said = unsealed(NOTE, MAGIC, data)
        return None if said is None else Acknowledged(*said[1:])


def sealed(data: bytes) -> bytes:
    """Bytes with their checksum."""
    return data + zlib.crc32(data).to_bytes(4, "little")


def unsealed(layout: struct.Struct, magic: bytes, data: bytes) -> tuple[Any, ...] | None:
    """What such bytes hold, or None where they are not as they were written."""
    body = data[: layout.size]
    if data[: layout.size + 4] != sealed(body) or body[: len(magic)] != magic:
        return None
    return layout.unpack(body)
