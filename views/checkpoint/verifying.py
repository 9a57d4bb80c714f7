"""Checking every file of a checkpoint against what was written."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evercurrent.core.errors import CheckpointError, MissingFileError, first_line

from ..store import Store
from .commits import PieceRef
from .differences import refs_in
from .marker import MARKER, is_checkpoint
from .piece_files import from_bytes
from .records import Records, record_name


@dataclass(frozen=True, slots=True)
class Fault:
    """A file that is not what was written, and what is the matter with it."""

    file: str
    what: str


@dataclass(frozen=True, slots=True)
class Verified:
    """What was checked, and what was found."""

    commits: int
    files: int
    pieces: int
    bytes: int
    faults: tuple[Fault, ...]


def verify(store: Store) -> Verified:
    """Read all that the retained commits name. Cost: all bytes of the checkpoint.

    Raises:
        CheckpointError: there is no checkpoint at all.
    """
    faults: list[Fault] = []
    try:
        if not is_checkpoint(store):
            raise CheckpointError(f"{store.url}: holds no checkpoint")
    except MissingFileError as error:
        faults.append(Fault(MARKER, _without_name(error, MARKER)))
    records = Records(store)
    faults += [Fault(name, _without_name(error, name)) for name, error in records.survey().items()]
    refs, broken = _named(records)
    faults += broken
    by_file: dict[str, list[PieceRef]] = {}
    for ref in sorted(refs, key=lambda ref: (ref.file, ref.start)):
        by_file.setdefault(ref.file, []).append(ref)
    for file, parts in by_file.items():
        faults += [Fault(file, what) for what in _of_file(store, file, parts)]
    read = sum(ref.size for ref in refs)
    return Verified(len(records.firsts), len(by_file), len(refs), read, tuple(faults))


def _named(records: Records) -> tuple[set[PieceRef], list[Fault]]:
    """All pieces that the records name, and what is wrong with the records."""
    refs: set[PieceRef] = set()
    faults: list[Fault] = []
    expected: int | None = None
    begun = False
    for first in records.firsts:
        if expected is not None and first != expected:
            faults.append(Fault(record_name(expected), f"is missing, and {record_name(first)} is there"))
        try:
            body = records.read(first)
            begun = begun or body["whole"]
            refs |= refs_in(body) if begun else set()
            expected = body["epoch"] + 1
        except CheckpointError as error:
            name = records.file_of(first)
            what = _without_name(error, name)
            faults.append(Fault(name, f"{what}; what it alone names is not checked"))
            expected, begun = None, True
    if records.firsts and not begun:
        faults.append(Fault(record_name(records.firsts[0]), "goes on from a commit that is missing"))
    return refs, faults


def _of_file(store: Store, file: str, parts: Sequence[PieceRef]) -> Iterator[str]:
    try:
        buffer = store.read(file)
    except MissingFileError:
        yield "is missing"
        return
    except CheckpointError as error:
        yield _without_name(error, file)
        return
    for ref in parts:
        where = f"bytes {ref.start:,} to {ref.start + ref.size:,}"
        if ref.start + ref.size > buffer.size:
            yield f"ends after {buffer.size:,} bytes, before {where}"
            continue
        part = buffer.slice(ref.start, ref.size)
        if zlib.crc32(part) != ref.crc:
            yield f"{where} are not what was written"
            continue
        try:
            rows = from_bytes(file, part).height
        except CheckpointError as error:
            yield f"{where}: {first_line(error)}"
            continue
        if rows != ref.rows:
            yield f"{where}: {rows:,} rows, and not {ref.rows:,}"


def _without_name(error: CheckpointError, name: str) -> str:
    """What an error says of a file, which is named already, without the way out, which is the same for all."""
    return first_line(error).rpartition(name)[2].partition(";")[0].removeprefix(":").strip()
