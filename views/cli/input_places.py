"""How far the input of a run was taken, as positions of its sources.

The position of a source of several files is a map of their names to the number of rows taken of each. So new rows of a file
and files with new names are taken once, wherever the name is in the order of names. The position of a source of one file, or
whose rows come from elsewhere, is the number of rows.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from evercurrent.core.data.errors import InputError

from ..connectors.positions import Position
from .feeds import Chunk

Stretch = tuple[str, str | None]
"""A source, and one of its files as it is named in the position; None where all rows are counted together."""


class InputPlaces:
    """Where the chunks of a run stand in their sources, whose rows are handed out from the first on in each run.

    Positions count rows, so that it does not matter if the batches of an earlier run were larger.
    """

    def __init__(self, taken: Mapping[str, Position]) -> None:
        """``taken`` are the positions that earlier runs have reached."""
        self._taken = taken
        self._read: dict[Stretch, int] = {}
        self._files: dict[Stretch, Path] = {}

    def pass_over(self, chunk: Chunk) -> tuple[Position, int]:
        """Return the position at the end of a chunk, and how many rows at its start earlier runs have taken.

        Raises:
            InputError: files cannot be matched with those of an earlier run.
        """
        taken = self._taken.get(chunk.source)
        file = _named_file(chunk, taken)
        stretch = (chunk.source, file)
        if chunk.file is not None:
            self._require_one_of_a_name(stretch, chunk.file)
        start = self._read.get(stretch, 0)
        end = self._read[stretch] = start + chunk.frame.height
        known = min(max(_rows_taken(taken, file) - start, 0), chunk.frame.height)
        return (end if file is None else {file: end}), known

    def require_all_taken(self) -> None:
        """Check, when files were read to their ends, that they have the rows that earlier runs have taken of them.

        Raises:
            InputError: one has fewer rows, so that it is another file by now; names it.
        """
        for (source, file), path in self._files.items():
            rows, taken = self._read[source, file], _rows_taken(self._taken.get(source), file)
            if rows < taken:
                raise InputError(
                    f"{path}: has {rows:,} rows, and {taken:,} were taken of it before for source {source!r}: it is another "
                    "file by now, and which of its rows are new cannot be known; write new rows behind those that were "
                    "there, or to a file with a new name"
                )

    def _require_one_of_a_name(self, stretch: Stretch, path: Path) -> None:
        other = self._files.setdefault(stretch, path)
        if other != path:
            raise InputError(
                f"source {stretch[0]!r}: {other} and {path} have one name, by which a checkpoint knows how far each was "
                "read; give one of them another name"
            )


def _named_file(chunk: Chunk, taken: Position | None) -> str | None:
    """Return the name of a chunk's file in the position, None where all rows of the source are counted together."""
    if chunk.file is None or (chunk.is_only_file and not isinstance(taken, Mapping)):
        return None
    if taken is not None and not isinstance(taken, Mapping):
        raise InputError(
            f"source {chunk.source!r}: an earlier run has taken {taken:,} rows of one input, and which of the files now these "
            f"are cannot be known ({chunk.file} is one of several); give the file that was given then, or begin another checkpoint"
        )
    return quote(os.fsencode(chunk.file.name), safe=" ")  # A name may be no text.


def _rows_taken(taken: Position | None, file: str | None) -> int:
    part = taken.get(file, 0) if isinstance(taken, Mapping) else taken
    return part if isinstance(part, int) else 0
