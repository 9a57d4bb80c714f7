"""Records as bytes: JSON with a checksum of itself, so that no flipped bit is taken for a fact.

``{"format":1,"body":...,"crc":"89abcdef"}``: the checksum is the CRC-32 of all that stands before it.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

from evercurrent.core.data.errors import CheckpointError, CorruptFileError, first_line

from .commits import JsonObject

FORMAT = 2
"""Version of a checkpoint as a whole, which is that of the hash of its keys; they are opened from 1 on. A newer one is refused."""

RECORD_FORMAT = 2
"""Version of what records say; they are read from 1 on. In 1 each delta of an epoch is a piece of its own."""

TAIL = b',"crc":"%08x"}\n'
TAIL_SIZE = len(TAIL % 0)


def encoded_record(body: JsonObject) -> bytes:
    """A commit's record, or what goes with records.

    Raises:
        CheckpointError: something in it is no JSON.
    """
    return encoded(body, RECORD_FORMAT)


def encoded(body: JsonObject, form: int = 1) -> bytes:
    """A file with this body.

    Raises:
        CheckpointError: something in it is no JSON.
    """
    try:
        text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError) as error:
        where = _culprit(body)
        raise CheckpointError(f"commit: {where} cannot be written as JSON: {first_line(error)}") from error
    data = b'{"format":%d,"body":%b' % (form, text.encode())
    return data + TAIL % zlib.crc32(data)


def is_latest_form(data: bytes) -> bool:
    """Whether a record says what records say today, so that versions that do not know all of it refuse it."""
    return data.startswith(b'{"format":%d,' % RECORD_FORMAT)


def is_intact(data: bytes) -> bool:
    """Whether the bytes end in their own checksum."""
    return data[-TAIL_SIZE:] == TAIL % zlib.crc32(data[:-TAIL_SIZE])


def decoded(name: str, data: bytes) -> JsonObject:
    """The body of a record; ``name`` says where it lies.

    Raises:
        CorruptFileError: it is not what was written.
        CheckpointError: it is of another format.
    """
    if not is_intact(data):
        raise CorruptFileError(
            f"{name}: these {len(data)} bytes are not what was written, the checksum differs; restore the file from a "
            "copy of the checkpoint"
        )
    said = json.loads(data)
    if not 1 <= said["format"] <= RECORD_FORMAT:
        raise CheckpointError(
            f"{name}: is of format {said['format']}, and this version of evercurrent reads formats up to {RECORD_FORMAT}; "
            "open it with the version that wrote it"
        )
    body: JsonObject = said["body"]
    return body


def _culprit(body: JsonObject) -> str:
    """Which part of the body is no JSON."""
    states: JsonObject = body.get("states", {})
    found: list[tuple[str, Any]] = [(f"state {name!r}", state) for name, state in states.items()]
    for name, part in [*found, *body.items()]:
        try:
            json.dumps(part)
        except (TypeError, ValueError):
            return name
    return "it"
