"""Holds the states of tasks in the memory of this process, in place of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import polars as pl

from evercurrent.core.data.columns.key_hash import KeyHash
from evercurrent.core.state.protocol import State
from evercurrent.core.state.snapshot import NOTHING, Saved

from ..checkpoint import DeltaRef, PieceRef, StateRecord


def record_of(saved: Saved) -> StateRecord:
    """Return a record that holds the pieces of a state themselves, and not their places in files."""
    return StateRecord(cast(tuple[PieceRef, ...], saved.pieces), saved.facts, None)


def saved_in(record: StateRecord | None) -> Saved:
    """Return the state that a record holds; without a record, an empty one."""
    return NOTHING if record is None else Saved(record.pieces, record.facts)


class HeldStates:
    """Restores the states of tasks from records that hold them, and writes nothing to files.

    Pieces are immutable, so tasks in several threads can use one at the same time. Cost: the number of pieces.
    """

    def __init__(self, key_hash: KeyHash) -> None:
        self.key_hash = key_hash

    def restore(self, states: Mapping[str, State], records: Mapping[str, StateRecord]) -> None:
        """Restore the states from these records; a state without a record becomes empty."""
        for name, state in states.items():
            state.restore(saved_in(records.get(name)))

    def write_all(
        self, states: Mapping[str, tuple[State, Saved]], deltas: Sequence[tuple[str, int, pl.DataFrame]]
    ) -> tuple[dict[str, StateRecord], list[DeltaRef]]:
        """Return the records of these states. There must be no deltas, as these are handed on in memory."""
        assert not deltas, "deltas are handed on in memory"
        return {name: record_of(saved) for name, (_, saved) in states.items()}, []

    def read(self, ref: PieceRef) -> pl.DataFrame:
        """Raise an error, as there are no files."""
        raise AssertionError("rows are handed on in memory")

    def write(self, frames: Sequence[pl.DataFrame], folder: str) -> list[PieceRef]:
        """Raise an error, as there are no files."""
        raise AssertionError("rows are handed on in memory")

    def write_delta(self, view: str, epoch: int, frame: pl.DataFrame) -> PieceRef:
        """Raise an error, as there are no files."""
        raise AssertionError("deltas are handed on in memory")
