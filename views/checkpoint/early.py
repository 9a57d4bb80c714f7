"""Large pieces of states are written beside the epochs, before a commit names them, so that no epoch waits for all of their bytes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any

from evercurrent.core.state.protocol import State
from evercurrent.core.state.run import Run
from evercurrent.core.state.spine import Spine

from ..store.syncing import OneThread
from .commits import PieceRef
from .pieces import Pieces

EARLY = 4 << 20
"""Pieces from this many bytes on are written before a commit is due. Smaller ones are merged more often than commits are made."""


class EarlyPieces:
    """The pieces that no commit names yet and whose files are there, or are being written by a thread of this object.

    A file that no commit will name, as its piece was merged before, is deleted; after a crash a sweep deletes it. Each checkpoint
    has its own thread, so that a commit does not wait for the store of another one.
    """

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._begun: dict[tuple[str, Run], Future[PieceRef]] = {}
        self._deletion: Future[None] | None = None
        self._thread = OneThread("evercurrent-pieces")
        # Of an engine that is dropped, no commit will name any: what waits for the thread is not written, and keeps no state.
        weakref.finalize(self, self._thread.end)

    @property
    def is_writing(self) -> bool:
        """Return whether one of them is being written."""
        return not all(future.done() for future in self._begun.values())

    def begin(self, states: Mapping[str, State], is_named: Callable[[str, Run], bool]) -> None:
        """Begin to write large runs of these states' last commits, except those that are named; delete what became useless.

        Cost: the number of runs.
        """
        large = {
            (name, run): spine
            for name, spine in states.items()
            if isinstance(spine, Spine)
            for run in spine.version.parts[0]
            if run.size >= EARLY >> 10 and run.nbytes >= EARLY and not is_named(name, run)
        }
        if self._begun:
            self._drop(self._begun.keys() - large.keys())
        for (name, run), spine in large.items():
            if (name, run) not in self._begun:
                self._begun[name, run] = self._thread.begin(partial(_written, self._pieces, spine, run))

    def refs(self, name: str, pieces: Iterable[Any]) -> dict[Any, PieceRef]:
        """Return the places of those of a state's pieces whose files are there, waiting for those that are being written.

        A piece that could not be written is not among them.
        """
        begun = {piece: self._begun[name, piece] for piece in pieces if (name, piece) in self._begun}
        return {piece: future.result() for piece, future in begun.items() if _has_succeeded(future)}

    def keep(self, name: str, pieces: Iterable[Any]) -> None:
        """Note that a commit names these pieces of a state, so that they are as all others now."""
        for piece in pieces:
            self._begun.pop((name, piece), None)

    def close(self) -> None:
        """Delete all files that no commit names, waiting for those that are being written, and end the thread."""
        for future in self._begun.values():
            _has_succeeded(future)
        self._drop(self._begun.keys())
        if self._deletion is not None:
            _has_succeeded(self._deletion)
        self._thread.end()

    def _drop(self, useless: Collection[tuple[str, Run]]) -> None:
        files = []
        for each in [*useless]:
            future = self._begun[each]
            if future.cancel():
                del self._begun[each]
            elif future.done():
                del self._begun[each]
                files += [future.result().file] if _has_succeeded(future) else []
        if files:
            self._deletion = self._thread.begin(partial(self._pieces.store.delete_all, files))


def _written(pieces: Pieces, spine: Spine, run: Run) -> PieceRef:
    return pieces.write([spine.columns_of(run)])[0]


def _has_succeeded(future: Future[Any]) -> bool:
    """Return whether a file was written or files were deleted, waiting for that."""
    try:
        return future.exception() is None
    except CancelledError:  # It waited, and the interpreter ends.
        return False
