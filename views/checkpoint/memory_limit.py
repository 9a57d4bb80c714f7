"""States may be larger than memory: pieces on disk are mapped from their files instead of held."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from evercurrent.core.data.allocation import give_back
from evercurrent.core.state.merge_policy import FLOOR
from evercurrent.core.state.protocol import State
from evercurrent.core.state.run import Run
from evercurrent.core.state.spine import Spine

from . import PieceRef, Saver, StateRecord

SHARE_OF_MERGE = 8
"""No merge makes a run larger than one part in this many of the limit."""

HELD = 0.4
"""The part of the limit down to which states are mapped; the rest is for merges, which hold a run twice."""

GIVE_BACK_EVERY = 8
"""Commits between two returns of free memory to the system, where there is a limit."""

USUAL_ENTRY = 64
"""Bytes assumed for an entry, as long as there is none to measure."""


class Residence:
    """Keeps the memory of states' pieces, by ``"<state id>/<bucket>"``, within a limit.

    A piece is held from the epoch that makes it until its state is mapped; a mapped piece is read through the system's
    page cache, which shrinks when memory is needed. What look-ups keep beside a mapped piece, its directory and where
    its keys begin, is held too: it counts, but cannot be freed.
    """

    def __init__(self, states: Mapping[str, State], saver: Saver, limit: int | None) -> None:
        self._states = states
        self._saver = saver
        self._limit = limit
        self._records: Mapping[str, StateRecord] = {}
        self.held: int = 0
        """Bytes of the states that are in memory of this process, as of the last commit."""
        self._commits = 0
        self._mapped: dict[str, dict[int, Any]] = {}
        """The mapped pieces of each state, by identity."""
        self._keep_runs()

    def over(self, states: Mapping[str, State]) -> Residence:
        """Return the same for other states, of which those with the same names have the same pieces."""
        other = copy.copy(self)
        other._states = states
        other._mapped = {name: dict(mapped) for name, mapped in self._mapped.items() if name in states}
        other._keep_runs()
        return other

    def restored(self) -> None:
        """Note that all states were restored, so that all pieces are mapped."""
        for name, state in self._states.items():
            self._note(name, state.saved().pieces)
        self._bound_merges()

    def committed(self, records: Mapping[str, StateRecord]) -> None:
        """Note that the states are on disk, by these records."""
        self._records = records

    @property
    def limit(self) -> int | None:
        """Return how many bytes may be held; None without a limit."""
        return self._limit

    def keep_within(self) -> None:
        """Map the largest states until the bytes in memory are within the limit; call it directly after a commit."""
        if self._limit is None:
            return
        held = {name: self._held(name, state) for name, state in self._states.items()}
        self.held = sum(held.values()) + self._held_of_mapped()
        self._commits += 1
        most = HELD * self._limit
        if self.held > most or self._commits % GIVE_BACK_EVERY == 0:
            self._map(held, most)
            give_back()

    def _map(self, held: Mapping[str, int], most: float) -> None:
        for name in sorted(held, key=held.__getitem__, reverse=True):
            if self.held <= most or not held[name]:
                break
            self.held -= held[name]
            state = self._states[name]
            mapped = self._saver.mapped(state, self._records[name])
            state.restore(mapped)
            self._note(name, mapped.pieces)
        self._bound_merges()

    def _held(self, name: str, state: State) -> int:
        """Return the bytes of a state's pieces that are not mapped."""
        record, pieces = self._records.get(name), state.saved().pieces
        if record is None:
            return 0
        mapped = self._mapped.get(name, {})
        self._note(name, [piece for piece in pieces if id(piece) in mapped])
        pairs = zip(pieces, record.pieces, strict=True)
        return sum(_size(piece, ref) for piece, ref in pairs if id(piece) not in mapped)

    def _held_of_mapped(self) -> int:
        """Return the bytes that look-ups keep beside mapped runs."""
        return sum(
            run.bytes_of_lookups
            for mapped in self._mapped.values()
            for run in mapped.values()
            if isinstance(run, Run)
        )

    def _note(self, name: str, mapped: Iterable[Any]) -> None:
        self._mapped[name] = {id(piece): piece for piece in mapped}

    def _keep_runs(self) -> None:
        for state in self._spines():
            # The runs are on disk; a merge of them for reading would hold them in memory as well.
            state.keeps_runs = True
        self._bound_merges()

    def _spines(self) -> list[Spine]:
        return [state for state in self._states.values() if isinstance(state, Spine)]

    def _bound_merges(self) -> None:
        if self._limit is None:
            return
        for state in self._spines():
            entry = state.nbytes / state.entries if state.entries else USUAL_ENTRY
            state.most_merged = max(FLOOR, int(self._limit / SHARE_OF_MERGE / entry))


def _size(piece: Any, ref: PieceRef) -> int:
    return piece.nbytes if isinstance(piece, Run) else ref.size
