"""Where the rows of a run come from: files of several sources in turn, or what an application makes itself."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from ..files import Batch, Reader
from .guards import Stop

LOOK_SECONDS = 0.25
"""How often files are looked at that may grow."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows of one epoch, of one source."""

    source: str
    frame: pl.DataFrame
    where: str
    """Where the rows stand, for messages."""


class Feed(Protocol):
    """Chunks, in the order in which they become epochs."""

    def chunks(self) -> Iterator[Chunk | None]:
        """The chunks; None where there is nothing to read now but may be later."""
        ...

    @property
    def share(self) -> float | None:
        """How much of all has been handed out, from 0 to 1; None where that is not known."""
        ...

    @property
    def notes(self) -> list[str]:
        """What the user should know at the end."""
        ...


class FileFeed:
    """Batches of files: of one source after the other in turn, one each, until all are read.

    With ``follow`` it then waits for new files and lines until ``stop`` is asked for.
    """

    def __init__(self, readers: Mapping[str, Reader], *, follow: bool, stop: Stop) -> None:
        self._readers = readers
        self._follow = follow
        self._stop = stop

    def chunks(self) -> Iterator[Chunk | None]:
        yield from self._round()
        while self._follow and not self._stop.asked:
            yield None
            time.sleep(LOOK_SECONDS)
            yield from self._round()

    def _round(self) -> Iterator[Chunk]:
        """What is there now."""
        waiting = {name: reader.batches(final=not self._follow) for name, reader in self._readers.items()}
        while waiting:
            for name in list(waiting):
                batch = next(waiting[name], None)
                if batch is None:
                    del waiting[name]
                else:
                    yield Chunk(name, batch.frame, _place(batch))

    @property
    def share(self) -> float | None:
        total = sum(reader.total_bytes for reader in self._readers.values())
        return sum(reader.done_bytes for reader in self._readers.values()) / total if total else None

    @property
    def notes(self) -> list[str]:
        """Files whose end was left because it is not complete."""
        return [
            f"{path}: not read to its end: the last line has no newline yet, or the run was stopped before"
            for reader in self._readers.values()
            for path in reader.unfinished
            if self._follow
        ]


class MadeFeed:
    """Frames that an application makes."""

    def __init__(self, made: Iterable[tuple[str, pl.DataFrame]], total_rows: int | None) -> None:
        self._made = made
        self._total = total_rows
        self._rows = 0

    def chunks(self) -> Iterator[Chunk | None]:
        for number, (source, frame) in enumerate(self._made, 1):
            self._rows += frame.height
            yield Chunk(source, frame, f"batch {number} of the application's own input")

    @property
    def share(self) -> float | None:
        return min(self._rows / self._total, 1.0) if self._total else None

    @property
    def notes(self) -> list[str]:
        return []


def _place(batch: Batch) -> str:
    return f"{batch.file}: rows {batch.first_row} to {batch.first_row + batch.frame.height - 1}"
