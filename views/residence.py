"""State that is larger than memory: pieces that are on disk are mapped from there instead of held."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from evercurrent.core.protocol import State
from evercurrent.core.spine import FLOOR, Spine

from .checkpoint import Saver, StateRecord

SHARE_OF_MERGE = 4
"""No merge makes a run of more than this part of the limit."""

USUAL_ENTRY = 64
"""Bytes of an entry, as long as there is none to look at."""


class Residence:
    """Keeps the pieces of states, by ``"<state id>/<bucket>"``, that are held in memory within a limit.

    A piece is held from the epoch that makes it until its state is mapped; what was mapped is read through the
    system's page cache, which gives way when memory is needed.
    """

    def __init__(self, states: Mapping[str, State], saver: Saver, limit: int | None) -> None:
        self._states = states
        self._saver = saver
        self._limit = limit
        self._records: Mapping[str, StateRecord] = {}
        self._mapped: dict[str, dict[int, Any]] = {}
        """Of each state, the pieces that are mapped, by identity."""
        for state in self._spines():
            # The runs are on disk: to hold them in another form would be to hold them twice.
            state.keeps_runs = True
        self._bound_merges()

    def restored(self) -> None:
        """All states are as they were read: mapped."""
        for name, state in self._states.items():
            self._note(name, state.saved().pieces)
        self._bound_merges()

    def committed(self, records: Mapping[str, StateRecord]) -> None:
        """The states are on disk, as these records say."""
        self._records = records

    def keep_within(self) -> None:
        """Map the states of which most is held, until what is held is within the limit. Right after a commit."""
        if self._limit is None:
            return
        held = {name: self._held(name, state) for name, state in self._states.items()}
        excess = sum(held.values()) - self._limit
        for name in sorted(held, key=held.__getitem__, reverse=True):
            if excess <= 0:
                break
            excess -= held[name]
            state = self._states[name]
            mapped = self._saver.mapped(state, self._records[name])
            state.restore(mapped)
            self._note(name, mapped.pieces)
        self._bound_merges()

    def _held(self, name: str, state: State) -> int:
        """Bytes of the pieces of a state that are not mapped."""
        record, pieces = self._records.get(name), state.saved().pieces
        if record is None:
            return 0
        mapped = self._mapped.get(name, {})
        self._note(name, [piece for piece in pieces if id(piece) in mapped])
        pairs = zip(pieces, record.pieces, strict=True)
        return sum(ref.size for piece, ref in pairs if id(piece) not in mapped)

    def _note(self, name: str, mapped: Iterable[Any]) -> None:
        self._mapped[name] = {id(piece): piece for piece in mapped}

    def _spines(self) -> list[Spine]:
        return [state for state in self._states.values() if isinstance(state, Spine)]

    def _bound_merges(self) -> None:
        if self._limit is None:
            return
        for state in self._spines():
            entry = state.nbytes / state.entries if state.entries else USUAL_ENTRY
            state.most_merged = max(FLOOR, int(self._limit / SHARE_OF_MERGE / entry))
