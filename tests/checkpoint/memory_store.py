"""A store in a dictionary, for tests: quick, and its files can be damaged."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

import pyarrow as pa

from evercurrent.core.data.errors import MissingFileError, NameTakenError
from evercurrent.views.store import Acknowledged, Buffer, FileBytes, Item, Listed

NUMBERS = count()


class MemoryStore:
    """Files by name, as (bytes, when written)."""

    excludes_writers = True

    def __init__(self) -> None:
        self.url = f"memory {next(NUMBERS)}"
        self.files: dict[str, tuple[bytes, float]] = {}
        self.reads: list[str] = []
        self.note: Acknowledged | None = None

    def put(self, name: str, data: Sequence[Buffer]) -> None:
        if name in self.files:
            raise NameTakenError(f"{self.url}: {name} is there")
        content = b"".join(bytes(memoryview(part)) for part in data)
        self.files[name] = content, time.time()

    def put_all(self, items: Sequence[Item]) -> None:
        for name, data in items:
            self.put(name, data)

    def put_ahead(self, items: Sequence[Item]) -> Sequence[Item]:
        self.put_all(items)
        return ()

    def commit(self, items: Sequence[Item], name: str, data: Sequence[Buffer]) -> None:
        self.put_all(items)
        self.put(name, data)

    def read(self, name: str) -> FileBytes:
        self.reads.append(name)
        if name not in self.files:
            raise MissingFileError(f"{self.url}: {name} is missing")
        return pa.py_buffer(self.files[name][0])

    def list(self, prefix: str = "") -> list[Listed]:
        return [
            Listed(name, len(content), modified)
            for name, (content, modified) in sorted(self.files.items())
            if name.startswith(prefix)
        ]

    def delete(self, name: str) -> None:
        self.files.pop(name, None)

    def delete_all(self, names: Sequence[str]) -> None:
        for name in names:
            self.delete(name)

    def input_log(self) -> None:
        return None

    def inputs_after(self, epoch: int) -> Sequence[memoryview]:
        return ()

    def acknowledge(self, first: int, epoch: int) -> None:
        self.note = Acknowledged.committed_after(self.note, first, epoch)

    def retain_from(self, oldest: int) -> None:
        if self.note is not None:
            self.note = replace(self.note, oldest=oldest)

    def acknowledged(self) -> Acknowledged | None:
        return self.note

    def own_faults(self) -> Sequence[tuple[str, str]]:
        return ()

    @contextmanager
    def lock(self) -> Iterator[None]:
        yield

    def replace(self, name: str, content: bytes) -> None:
        """What no store does: damage."""
        self.files[name] = content, self.files[name][1]

    def flip(self, name: str, at: int) -> None:
        """Flip a bit of the byte at a place."""
        content = bytearray(self.files[name][0])
        content[at] ^= 1 << (at % 8)
        self.replace(name, bytes(content))

    def age(self, seconds: float) -> None:
        """Make all files older."""
        self.files = {name: (content, when - seconds) for name, (content, when) in self.files.items()}


class RepeatingStore(MemoryStore):
    """A store whose client puts each file a second time, as the response to the first put was lost."""

    def put(self, name: str, data: Sequence[Buffer]) -> None:
        super().put(name, data)
        super().put(name, data)

    def put_all(self, items: Sequence[Item]) -> None:
        taken = None
        for item in items:
            try:
                self.put(*item)
            except NameTakenError as error:
                taken = error
        if taken is not None:
            raise taken
