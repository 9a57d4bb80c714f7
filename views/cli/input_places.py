"""How far the input of a run was taken, as positions of its sources.

The position of files maps their names to the number of rows that were taken from each, so new rows and files with new names
are taken once, wherever a name is in the order. If an application puts the rows of several files in an order of its own, they
are counted together, under a name made of these files and their sizes: with another file or more rows, a count would not show
which rows are new. For rows from elsewhere the position is their number, as it was in earlier versions for a single file.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import counted

from ..connectors.lines import STANDARD_INPUT
from ..connectors.positions import Position
from .feeds import Chunk

Stretch = tuple[str, str | None]
"""A source, and one of its files, or all of them together, as named in the position; None if there is one count."""


class InputPlaces:
    """The positions of the chunks of a run, which reads its sources from the first row on.

    Positions count rows, so the sizes of batches in earlier runs do not matter.
    """

    def __init__(self, positions: Mapping[str, Position]) -> None:
        """``positions`` are those that earlier runs have reached."""
        self._taken = positions
        self._read: dict[Stretch, int] = {}
        self._files: dict[Stretch, Path] = {}

    def pass_over(self, chunk: Chunk) -> tuple[Position, int]:
        """Return the position at the end of a chunk, and how many rows at its start earlier runs have taken.

        Raises:
            InputError: files cannot be matched with those of an earlier run.
        """
        position = self._taken.get(chunk.source)
        file = _named_file(chunk, position)
        stretch = (chunk.source, file)
        if chunk.file is not None and (not chunk.is_end or _rows_taken(position, file)):
            self._require_one_of_a_name(stretch, chunk.file)
        elif len(chunk.mixed_files) == 1:
            self._files[stretch] = Path(chunk.mixed_files[0][0])
        start = self._read.get(stretch, 0)
        end = self._read[stretch] = start + chunk.frame.height
        rows_taken = min(max(_rows_taken(position, file) - start, 0), chunk.frame.height)
        return (end if file is None else {file: end}), rows_taken

    def require_all_taken(self) -> None:
        """Check, when files were read to their ends, that they have the rows that earlier runs have taken of them.

        Raises:
            InputError: one has fewer rows, so it is another file now; names it.
        """
        for (source, file), path in self._files.items():
            rows, rows_taken = self._read[source, file], _rows_taken(self._taken.get(source), file)
            if rows < rows_taken:
                raise InputError(
                    f"{path}: has {counted(rows)}, but {rows_taken:,} {'was' if rows_taken == 1 else 'were'} taken from it before for source {source!r}: it is another "
                    "file now, and its new rows cannot be told from the old ones; write new rows after those that were "
                    "there, or to a file with a new name"
                )

    def _require_one_of_a_name(self, stretch: Stretch, path: Path) -> None:
        other = self._files.setdefault(stretch, path)
        if other != path:
            raise InputError(
                f"source {stretch[0]!r}: {other} and {path} have the same name, under which a checkpoint records how far each was "
                "read; give one of them another name"
            )


def _named_file(chunk: Chunk, position: Position | None) -> str | None:
    """Return the name of a chunk's file in the position, or None if all rows of the source are counted together."""
    is_one_input = len(chunk.mixed_files) < 2 if chunk.file is None else chunk.is_only_file
    is_unnamed = chunk.file in (None, STANDARD_INPUT) and not chunk.mixed_files
    counts_rows = isinstance(position, int) or (position is None and is_unnamed)
    if is_one_input and counts_rows:
        return None
    if position is not None and not isinstance(position, Mapping):
        raise InputError(
            f"source {chunk.source!r}: an earlier run has taken {counted(position)} of a single input, and it is unknown in which of the files now these "
            f"rows are ({chunk.file or chunk.where} is one of several); give the file that was given then, or begin "
            "another checkpoint"
        )
    if chunk.file is None:
        return _name_together(chunk, position or {})
    return quote(os.fsencode(chunk.file.name), safe=" ")  # A name may be no text.


def _name_together(chunk: Chunk, positions: Mapping[str, Position]) -> str:
    """Return the name of the files whose rows were put in one order."""
    files = sorted(b"%b/%d" % (os.fsencode(file), size) for file, size in chunk.mixed_files)
    name = f"{len(files)} files in order of arrival, {hashlib.sha256(b'/'.join(files)).hexdigest()[:16]}"
    if positions and name not in positions:
        raise InputError(
            f"source {chunk.source!r}: an earlier run has taken rows of other files than these ({len(files)} now), or one had "
            "another size then. The application puts the rows of all files in an order of its own, so that new rows "
            "cannot be told from old ones; give the files of the earlier run as they were, follow them (--follow), which takes rows as "
            "they come, or begin another checkpoint"
        )
    return name


def _rows_taken(position: Position | None, file: str | None) -> int:
    part = position.get(file, 0) if isinstance(position, Mapping) else position
    return part if isinstance(part, int) else 0
