"""Records are written as JSON with a checksum of itself, so that flipped bits are detected.

``{"format":1,"body":...,"crc":"89abcdef"}``: the checksum is the CRC-32 of all that stands before it.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

from evercurrent.core.data.errors import CheckpointError, CorruptFileError, first_line

from .commits import JsonObject

FORMAT = 2
"""The format of a checkpoint as a whole, which is that of the hash of its keys; formats from 1 to this are opened."""

RECORD_FORMAT = 2
"""The format of records; formats from 1 to this are read. In format 1 each delta of an epoch is a piece of its own."""

TAIL = b',"crc":"%08x"}\n'
TAIL_SIZE = len(TAIL % 0)


def encoded_record(body: JsonObject) -> bytes:
    """Return the bytes of a commit's record, or of a file of records.

    Raises:
        CheckpointError: something in it is not JSON.
    """
    return encoded(body, RECORD_FORMAT)


def encoded(body: JsonObject, form: int = 1) -> bytes:
    """Return a file with this body.

    Raises:
        CheckpointError: something in it is not JSON.
    """
    try:
        text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError) as error:
        where = _culprit(body)
        raise CheckpointError(f"commit: {where} cannot be written as JSON: {first_line(error)}") from error
    data = b'{"format":%d,"body":%b' % (form, text.encode())
    return data + TAIL % zlib.crc32(data)


def is_latest_form(data: bytes) -> bool:
    """Return whether a record is of the latest format, which earlier versions refuse."""
    return data.startswith(b'{"format":%d,' % RECORD_FORMAT)


def checksum_of(data: bytes) -> str:
    """Return the checksum with which an intact record ends, which no other record of the checkpoint has."""
    return data[-len('89abcdef"}\n') : -len('"}\n')].decode()


def is_intact(data: bytes) -> bool:
    """Return whether the bytes end in their own checksum."""
    return data[-TAIL_SIZE:] == TAIL % zlib.crc32(data[:-TAIL_SIZE])


def decoded(name: str, data: bytes) -> JsonObject:
    """Return the body of a record; messages name it by ``name``.

    Raises:
        CorruptFileError: it is not what was written.
        CheckpointError: it is of another format.
    """
    if not is_intact(data):
        raise CorruptFileError(
            f"{name}: these {len(data)} bytes are not what was written, the checksum differs; restore the file from a "
            "copy of the checkpoint"
        )
    record = json.loads(data)
    if not 1 <= record["format"] <= RECORD_FORMAT:
        raise CheckpointError(
            f"{name}: is of format {record['format']}, and this version of evercurrent reads formats up to {RECORD_FORMAT}; "
            "open it with the version that wrote it"
        )
    body: JsonObject = record["body"]
    return body


def _culprit(body: JsonObject) -> str:
    """Return which part of the body is not JSON."""
    states: JsonObject = body.get("states", {})
    parts: list[tuple[str, Any]] = [(f"state {name!r}", state) for name, state in states.items()]
    for name, part in [*parts, *body.items()]:
        try:
            json.dumps(part)
        except (TypeError, ValueError):
            return name
    return "it"
