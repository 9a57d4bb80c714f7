"""Records of old commits are packed into one file: a line that lists them, and then each of them as it was written.

A pack holds consecutive records, the first of them whole, and a sweep drops whole packs. It is written before the files of
its records are deleted, so each record can be read at any time; of a record that is there twice, the one in the pack
counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from evercurrent.core.data.errors import CorruptFileError, MissingFileError, NameTakenError

from ..store import Store
from .marker import COMMITS
from .record_files import decoded, encoded_record, is_intact

PACK = re.compile(rf"{COMMITS}(\d{{12}})-(\d{{12}})\.jsonl")

LEAST = 16
"""The fewest records that are packed."""


@dataclass(frozen=True, slots=True)
class Pack:
    """A file of records, with the place and size of each by the first epoch that it covers."""

    name: str
    places: dict[int, tuple[int, int]]

    def read(self, store: Store, first: int) -> bytes:
        """Return the bytes of a record.

        Raises:
            MissingFileError: the pack is gone.
        """
        start, size = self.places[first]
        buffer = store.read(self.name)
        data: bytes = buffer.slice(start, max(0, min(size, buffer.size - start))).to_pybytes()
        return data


def pack_name(firsts: Sequence[int]) -> str:
    """Return the name of the file of a pack of these records.

    >>> pack_name([64, 65, 127])
    'commits/000000000064-000000000127.jsonl'
    """
    return f"{COMMITS}{firsts[0]:012d}-{firsts[-1]:012d}.jsonl"


def content_of(records: Sequence[tuple[int, bytes]]) -> list[bytes]:
    """Return the bytes of a pack."""
    head = {"records": [[first, len(data)] for first, data in records]}
    return [encoded_record(head), *(data for _, data in records)]


def open_pack(store: Store, name: str) -> Pack:
    """Read which records are in a pack.

    Raises:
        MissingFileError, CorruptFileError: by name.
    """
    content = store.read(name).to_pybytes()
    head = content[: content.find(b"\n") + 1] or content
    records = decoded(f"{store.url}: {name}", head).get("records", [])
    starts = list(accumulate([size for _, size in records], initial=len(head)))
    firsts = [first for first, _ in records]
    held = pack_name(firsts) if firsts else "no records"
    if starts[-1] != len(content) or held != name:
        raise CorruptFileError(
            f"{store.url}: {name} is not what was written: it has {len(content)} bytes, and its header gives {starts[-1]} for "
            f"{held}; restore it from a copy of the checkpoint"
        )
    return Pack(name, {first: (start, size) for (first, size), start in zip(records, starts, strict=False)})


def closed_segments(firsts: Sequence[int], wholes: Iterable[int]) -> list[list[int]]:
    """Return the runs of records from each whole one to the next that have enough records to be packed.

    >>> [(each[0], each[-1]) for each in closed_segments(range(50), {0, 16, 20, 40})]
    [(0, 15), (20, 39)]
    """
    there = set(wholes)
    starts = [at for at, first in enumerate(firsts) if first in there]
    segments = [list(firsts[start:end]) for start, end in pairwise(starts)]
    return [segment for segment in segments if len(segment) >= LEAST]


def write_pack(store: Store, firsts: Sequence[int], names: Sequence[str]) -> Pack | None:
    """Write a pack of records that are in files of their own, and delete these files.

    It returns None if one of them is gone or damaged; a later read of that record raises and names it.

    Raises:
        CheckpointError: the store fails; all records can still be read.
    """
    try:
        records = [(first, store.read(name).to_pybytes()) for first, name in zip(firsts, names, strict=True)]
    except MissingFileError:
        return None
    if not all(is_intact(data) and data.count(b"\n") == 1 for _, data in records):
        return None
    name, content = pack_name(firsts), content_of(records)
    try:
        store.put(name, content)
    except NameTakenError:  # The store lost the response and tried again; or the pack is damaged.
        if store.read(name).to_pybytes() != b"".join(content):
            return None
    pack = open_pack(store, name)
    store.delete_all(names)
    return pack
