"""Every file of a checkpoint is verified against its checksums."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evercurrent.core.data.errors import CheckpointError, CorruptFileError, MissingFileError, first_line

from ..store import Acknowledged, Store
from .beside_writer import TRIES, records_there
from .commits import PieceRef
from .differences import refs_in
from .marker import MARKER, is_checkpoint
from .pending import lost_oldest, pending_inputs, require_acknowledged
from .piece_files import from_bytes
from .reader_offsets import read_note
from .records import RecordFacts, Records, record_name


@dataclass(frozen=True, slots=True)
class Fault:
    """A damaged file, and what is wrong with it."""

    file: str
    what: str


ONE_COPY = "restore one whole copy into an empty folder"
"""The remedy where single files of a copy do not help."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The numbers of checked files, and the faults."""

    commits: int
    files: int
    pieces: int
    bytes: int
    faults: tuple[Fault, ...]


def verify(store: Store) -> Verified:
    """Read all files that the retained commits name, and those that an application would read to continue from there.

    Where a writer has meanwhile deleted commits with their files, those that are retained now are read. Cost: all bytes of the
    checkpoint.

    Raises:
        CheckpointError: there is no checkpoint at all.
    """
    for _ in range(TRIES):
        before = records_there(store)
        checked = _verified(store)
        if not checked.faults or records_there(store) == before:
            break
    return checked


def _verified(store: Store) -> Verified:
    acknowledged, faults = _acknowledged(store), []
    try:
        if not is_checkpoint(store):
            if acknowledged is None:
                raise CheckpointError(
                    f"{store.url}: there is no checkpoint here; give the folder that was given to an engine or a run"
                )
            faults.append(Fault(MARKER, "is missing"))
    except (MissingFileError, CorruptFileError) as error:
        faults.append(Fault(MARKER, _without_name(error, MARKER)))
    records = Records(store)
    faults += [Fault(name, _without_name(error, name)) for name, error in records.survey().items()]
    refs, broken = _named(records)
    faults += broken
    if records.firsts and (lost := lost_oldest(acknowledged, records.firsts[0])):
        faults.append(Fault(*lost.split(" ", 1)))
    by_file: dict[str, list[PieceRef]] = {}
    for ref in sorted(refs, key=lambda ref: (ref.file, ref.start)):
        by_file.setdefault(ref.file, []).append(ref)
    for file, parts in by_file.items():
        faults += [Fault(file, what) for what in _of_file(store, file, parts)]
    faults += _of_the_end(store, records, acknowledged)
    faults += [Fault(name, what) for name, what in store.own_faults()]
    read = sum(ref.size for ref in refs)
    return Verified(len(records.firsts), len(by_file), len(refs), read, tuple(faults))


def _acknowledged(store: Store) -> Acknowledged | None:
    """Return the writer's note, if it can be read; a damaged note is among the faults of the store's own files."""
    try:
        return store.acknowledged()
    except CheckpointError:
        return None


def _of_the_end(store: Store, records: Records, acknowledged: Acknowledged | None) -> Iterator[Fault]:
    """Yield the faults of the newest files: the last commit itself, uncommitted input, notes of readers."""
    try:
        facts = records.facts(records.firsts[-1]) if records.firsts else None
    except CheckpointError:
        return  # It is among the faults, and without it the place to continue from is unknown.
    try:
        last, crc = (None, None) if facts is None else (facts.epoch, facts.crc)
        require_acknowledged(store, acknowledged, last)
        pending_inputs(store, last, crc)
        if last is not None:
            read_note(store, last)
    except CheckpointError as error:
        name, _, what = first_line(error).removeprefix(store.url).lstrip(":/ ").partition(" ")
        yield Fault(name, what.partition(";")[0])


def _named(records: Records) -> tuple[set[PieceRef], list[Fault]]:
    """Return all pieces that the records name, and the faults of the records."""
    refs: set[PieceRef] = set()
    faults: list[Fault] = []
    before: RecordFacts | None = None
    expected: int | None = None
    begun = False
    for first in records.firsts:
        if expected is not None and first != expected:
            faults.append(Fault(record_name(expected), f"is missing, and {record_name(first)} is there"))
        try:
            body = records.read(first)
            if before is not None and (other := records.other_history(before, first)):
                faults.append(Fault(records.file_of(first), f"{other}; {ONE_COPY}"))
            before = records.facts(first)
            begun = begun or body["whole"]
            refs |= refs_in(body) if begun else set()
            expected = before.epoch + 1
        except CheckpointError as error:
            name = records.file_of(first)
            what = _without_name(error, name)
            faults.append(Fault(name, f"{what}; what it alone names is not checked"))
            before, expected, begun = None, None, True
    if records.firsts and not begun:
        first = records.firsts[0]
        lost = record_name(records.facts(first).before or 0)
        faults.append(Fault(lost, f"is missing, and {record_name(first)} goes on from it"))
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
    """Return the message of an error without the name of the file and without the remedy, which is the same for all."""
    return first_line(error).rpartition(name)[2].partition(";")[0].removeprefix(":").strip()
