"""Feeds, from which the rows of a run come: files of several sources in turn, or rows that an application makes."""

import time
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

import polars as pl

from evercurrent.core.data.schema import counted

from ..connectors.files import Batch, Reader
from ..connectors.line_files import TextFile
from ..connectors.log_files import LogFile
from .applications import Arrivals, Made
from .guards import Stop

LOOK_SECONDS = 0.25
"""The seconds between two looks at files that may grow."""

LONGEST_EXCERPT = 200
"""The most characters of a refused line that are shown, with what is wrong with it before."""


MOST_LEFT_OUT = 20
"""The most files that the end of a run names as left out."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows of one epoch, of one source."""

    source: str
    frame: pl.DataFrame
    where: str
    """The place of the rows, for messages."""
    at: datetime | None = None
    """The recorded processing time; None: the time when they are pushed."""
    file: Path | None = None
    """The file whose consecutive rows they are; None where they are not of one file."""
    is_only_file: bool = False
    """Whether this file is the source's only input."""
    mixed_files: tuple[tuple[str, int], ...] = ()
    """Names and sizes of the files whose rows an application has put in an order of its own."""
    is_end: bool = False
    """Whether it has no row and is no epoch: it shows that files were read to their ends, as they may have lost all rows."""


class Feed(Protocol):
    """Chunks, in the order in which they become epochs."""

    def chunks(self) -> Iterator[Chunk | None]:
        """Yield the chunks; None if there is nothing to read now but may be later."""
        ...

    @property
    def sources(self) -> Set[str]:
        """The sources of which it has had rows, or reads files."""
        ...

    @property
    def share(self) -> float | None:
        """The share of the input that has been read, from 0 to 1; None if unknown."""
        ...

    @property
    def refused(self) -> list[str]:
        """Rows that could not be read, by reason."""
        ...

    @property
    def notes(self) -> list[str]:
        """Remarks for the user at the end of the run."""
        ...

    def news(self) -> list[str]:
        """Return what could not be read since the last call, to be shown at once."""
        ...


class FileFeed:
    """Batches of files, one of each source in turn, until all are read.

    With ``follow`` it then waits for new files and lines until ``stop`` is set.
    """

    def __init__(self, readers: Mapping[str, Reader], *, follow: bool, stop: Stop) -> None:
        self._readers = readers
        self._follow = follow
        self._stop = stop
        self._announced: set[str] = set()
        self._without_rows: set[tuple[str, Path]] = set()
        """Sources and their files that have no row, which were yielded."""

    def chunks(self) -> Iterator[Chunk | None]:
        yield from self._round()
        while self._follow and not self._stop.is_requested:
            yield None
            time.sleep(LOOK_SECONDS)
            yield from self._round()

    def _round(self) -> Iterator[Chunk]:
        """Yield what can be read now."""
        waiting = {name: reader.batches(final=not self._follow) for name, reader in self._readers.items()}
        while waiting:
            for name in list(waiting):
                batch = next(waiting[name], None)
                if batch is None:
                    del waiting[name]
                    yield from self._empty(name)
                else:
                    yield self._chunk(name, batch.file, batch.frame, _place(batch))

    def _empty(self, name: str) -> Iterator[Chunk]:
        """Yield a chunk for each file of a source that has no row, once."""
        for path in self._readers[name].without_rows:
            if (name, path) not in self._without_rows:
                self._without_rows.add((name, path))
                yield replace(self._chunk(name, path, pl.DataFrame(), str(path)), is_end=True)

    def _chunk(self, name: str, file: Path, frame: pl.DataFrame, where: str) -> Chunk:
        return Chunk(name, frame, where, file=file, is_only_file=self._readers[name].is_one_file)

    @property
    def sources(self) -> Set[str]:
        return self._readers.keys()

    @property
    def sizes(self) -> dict[str, tuple[tuple[str, int], ...]]:
        """Return the names and sizes of the files of each source, as they are now."""
        return {name: reader.sizes for name, reader in self._readers.items()}

    @property
    def share(self) -> float | None:
        total = sum(reader.total_bytes for reader in self._readers.values())
        done_bytes = sum(reader.done_bytes for reader in self._readers.values())
        return min(done_bytes / total, 1.0) if total else None  # A file may grow while it is read.

    @property
    def refused(self) -> list[str]:
        """Refused lines of text files, and files that were left out."""
        readers = self._readers.values()
        lines = [line for reader in readers for log in reader.logs for line in _refused(log)]
        return lines + _shortened([reason for reader in readers for reason in reader.left_out.values()])

    def news(self) -> list[str]:
        left_out = {reason for reader in self._readers.values() for reason in reader.left_out.values()}
        new, self._announced = left_out - self._announced, left_out
        return [f"left out until it changes: {reason}" for reason in sorted(new)]

    @property
    def notes(self) -> list[str]:
        """Name sources of which no row was read, and files whose last line is not complete and was not read."""
        empty = [
            f"no row of source {name!r} was read" for name, reader in self._readers.items() if not reader.rows
        ]
        return empty + [
            f"{path}: not read to its end: {reader.why_unfinished(path)}"
            for reader in self._readers.values()
            for path in reader.unfinished
            if self._follow
        ]


class ArrivingFeed:
    """Batches of files, in the order and at the processing times that an application gives them."""

    def __init__(self, files: FileFeed, arrivals: Arrivals, batch_rows: int) -> None:
        self._files = files
        self._arrivals = arrivals
        self._batch_rows = batch_rows
        self._mixed_files = files.sizes
        self._rows_read = 0
        self._rows = 0

    def chunks(self) -> Iterator[Chunk | None]:
        arriving = self._arrivals(self._read(), self._batch_rows)
        for chunk in _chunks(arriving, "batch {} in the order of arrival"):
            self._rows += chunk.frame.height
            yield self._mixed(chunk)
        for source in self.sources:
            yield self._mixed(Chunk(source, pl.DataFrame(), f"the files of {source}", is_end=True))

    def _mixed(self, chunk: Chunk) -> Chunk:
        return replace(chunk, mixed_files=self._mixed_files.get(chunk.source, ()))

    def _read(self) -> Iterator[tuple[str, pl.DataFrame]]:
        for chunk in self._files.chunks():
            if chunk is not None and not chunk.is_end:
                self._rows_read += chunk.frame.height
                yield chunk.source, chunk.frame

    @property
    def sources(self) -> Set[str]:
        return self._files.sources

    @property
    def share(self) -> float | None:
        """The share that has been read; rows may still wait for their time to arrive."""
        read = self._files.share
        return read * min(self._rows / self._rows_read, 1.0) if read and self._rows_read else read

    @property
    def refused(self) -> list[str]:
        return self._files.refused

    @property
    def notes(self) -> list[str]:
        return self._files.notes

    def news(self) -> list[str]:
        return self._files.news()


class MadeFeed:
    """Frames that an application makes."""

    def __init__(self, frames: Made, total_rows: int | None) -> None:
        self._made = frames
        self._total = total_rows
        self._rows = 0
        self._sources: set[str] = set()

    def chunks(self) -> Iterator[Chunk | None]:
        for chunk in _chunks(self._made, "batch {} of the application's own input"):
            self._rows += chunk.frame.height
            self._sources.add(chunk.source)
            yield chunk

    @property
    def sources(self) -> Set[str]:
        return self._sources

    @property
    def share(self) -> float | None:
        return min(self._rows / self._total, 1.0) if self._total else None

    @property
    def refused(self) -> list[str]:
        return []

    @property
    def notes(self) -> list[str]:
        return []

    def news(self) -> list[str]:
        return []


def _shortened(reasons: list[str]) -> list[str]:
    """Return the first reasons, and how many there are beside."""
    more = len(reasons) - MOST_LEFT_OUT
    return reasons[:MOST_LEFT_OUT] + ([f"and {counted(more, 'more file')}"] if more > 0 else [])


def _chunks(frames: Made, where: str) -> Iterator[Chunk]:
    for number, (source, frame, *at) in enumerate(frames, 1):
        yield Chunk(source, frame, where.format(number), at[0] if at else None)


def _refused(log: LogFile | TextFile) -> list[str]:
    """Describe the lines of a file that were refused: how many, why, and which was the first."""
    unit = (
        "row" if isinstance(log, TextFile) else "line"
    )  # Rows of text files are counted without header and empty lines.
    first = log.refused.unique("reason", keep="first", maintain_order=True)
    return [
        f"{log.refused_for[reason]:,} of the lines of {log.path}: {reason}; the first is {unit} {line}: {text[:LONGEST_EXCERPT]}"
        for line, reason, text in first.select("line", "reason", "text").iter_rows()
    ]


def _place(batch: Batch) -> str:
    return f"{batch.file}: rows {batch.first_row} to {batch.first_row + batch.frame.height - 1}"
