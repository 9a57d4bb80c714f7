"""States are saved to files: new pieces are written, and pieces written before are named again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from evercurrent.core.eventtime.windows.holds import held_at_of, is_held, with_held_at
from evercurrent.core.state.partitioning import of_buckets
from evercurrent.core.state.protocol import State
from evercurrent.core.state.snapshot import NOTHING, Saved

from ..store import Item
from .commits import Commit, DeltaRef, PieceRef, StateRecord
from .early import EarlyPieces
from .pieces import Batch, Pieces

MAPPED_SHARE = 16
"""A mapped piece holds about one part in this many of its bytes in memory, for its directory."""

Delta = tuple[str, int, pl.DataFrame]
"""A view, an epoch, and the view's delta of it."""


@dataclass(frozen=True, slots=True)
class _WrittenState:
    """The last written or restored form of a state: its pieces and their places."""

    pieces: tuple[Any, ...]
    record: StateRecord
    kind: type


@dataclass(frozen=True, slots=True)
class Begun:
    """States and deltas that are being written, as a commit is to name them."""

    records: Mapping[str, StateRecord]
    deltas: list[DeltaRef]
    states: Mapping[str, _WrittenState]
    """The states to remember when all is written."""
    items: Sequence[Item] = ()
    """Files that are to be written with the commit."""


class Saver:
    """The saver writes and restores states, by ``"<state id>/<bucket>"``.

    The place of a piece is remembered while it is part of the last record of its state, so that a piece is written once. Pieces are cached by ``Pieces``, within bounds: restoring the same ones again costs microseconds.
    """

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._kept: dict[str, _WrittenState] = {}
        self.early: EarlyPieces = EarlyPieces(pieces)

    def write(self, states: Mapping[str, tuple[State, Saved]]) -> dict[str, StateRecord]:
        """Write the new pieces of these states together. Cost: the new pieces.

        Raises:
            CheckpointError: a column of a type that Arrow does not have; the store fails.
        """
        return self.write_all(states, ())[0]

    def write_all(
        self, states: Mapping[str, tuple[State, Saved]], deltas: Sequence[Delta]
    ) -> tuple[dict[str, StateRecord], list[DeltaRef]]:
        """Write the new pieces of these states and the deltas of views together, so that files share waits for the disk.

        Raises:
            CheckpointError: as ``write``.
        """
        batch, begun = self._begun(states, deltas)
        batch.put()
        self.keep(begun)
        return dict(begun.records), begun.deltas

    def write_ahead(self, states: Mapping[str, tuple[State, Saved]], deltas: Sequence[Delta]) -> Begun:
        """Write as ``write_all``, but leave some files to be written with the commit; call ``keep`` when it is there.

        Raises:
            CheckpointError: as ``write``.
        """
        batch, begun = self._begun(states, deltas)
        return replace(begun, items=batch.put_ahead())

    def write_early(self, states: Mapping[str, State]) -> None:
        """Begin to write large pieces of these states, which the next commits will name. Cost: the number of pieces."""
        self.early.begin(states, lambda name, run: name in self._kept and run in self._kept[name].pieces)

    def keep(self, begun: Begun) -> None:
        """Remember the places of pieces that were begun and are now on disk."""
        for name, after in begun.states.items():
            before = self._kept.get(name)
            self._kept[name] = after
            self.early.keep(name, after.pieces)
            if before is not None and before.record.pieces is after.record.pieces:
                continue
            old = set(before.record.pieces) if before is not None else set()
            for ref in old.difference(after.record.pieces):  # These were merged.
                self._pieces.decoded.drop(self._key(name, after.kind, ref))
            for piece, ref in zip(after.pieces, after.record.pieces, strict=True):
                if ref not in old:
                    self._remember(name, after.kind, ref, piece, ref.size)

    def restore(self, states: Mapping[str, State], records: Mapping[str, StateRecord]) -> None:
        """Restore the states from these records; a state without a record becomes empty.

        Raises:
            MissingFileError, CorruptFileError, CheckpointError: naming the first piece that cannot be read.
                States before it are restored already.
        """
        for name, state in states.items():
            record = records.get(name)
            if record is None:
                self._kept.pop(name, None)
                state.restore(Saved((), {}))
                continue
            pieces = tuple(self._piece(name, state, ref) for ref in record.pieces)
            state.restore(Saved(pieces, record.facts))
            self._kept[name] = _WrittenState(pieces, record, type(state))

    def restore_whole(self, states: Mapping[str, State], commit: Commit) -> None:
        """Restore these states, by their ids, from the records of all their buckets. Their pieces are shared and not copied.

        Raises:
            MissingFileError, CorruptFileError, CheckpointError: as ``restore``.
        """
        for name, state in states.items():
            in_buckets = (f"{name}/{bucket}" for bucket in range(commit.buckets))
            records = {each: commit.states[each] for each in in_buckets if each in commit.states}
            parts = [
                Saved(tuple(self._piece(each, state, ref) for ref in record.pieces), record.facts)
                for each, record in records.items()
            ]
            if any(is_held(part.facts) for part in parts):
                held_at = min(held_at_of(part.facts) for part in parts)
                state.restore(Saved(parts[0].pieces, with_held_at(parts[0].facts, held_at)))
            else:
                state.restore(of_buckets(parts or [NOTHING]))

    def close(self) -> None:
        """Drop all states and their cached pieces, as none will be restored soon."""
        self.keep_only(())

    def keep_only(self, names: Collection[str]) -> None:
        """Drop all other states and their cached pieces, as they are no longer kept."""
        for name in self._kept.keys() - names:
            last = self._kept.pop(name)
            for ref in last.record.pieces:
                self._pieces.decoded.drop(self._key(name, last.kind, ref))

    def mapped(self, state: State, record: StateRecord, *, larger_than: int = 0) -> Saved:
        """Return the state of this record, its last one, with pieces of more than ``larger_than`` bytes mapped.

        ``state.restore`` of the result, between epochs, frees the memory of these pieces.
        """
        name = next((name for name, last in self._kept.items() if last.record == record), None)
        if name is None:
            raise KeyError("this is not the last record that was written or restored of a state")
        last = self._kept[name]
        pieces = list(last.pieces)
        for at, ref in enumerate(record.pieces):
            if ref.size > larger_than:
                pieces[at] = state.piece_of(self._pieces.read(ref))
                self._remember(name, type(state), ref, pieces[at], ref.size // MAPPED_SHARE)
        self._kept[name] = _WrittenState(tuple(pieces), record, type(state))
        return Saved(tuple(pieces), record.facts)

    def _refs(self, name: str, saved: Saved) -> Mapping[Any, PieceRef] | None:
        """Return the places of a state's pieces; None if they are those of the last record, in this order."""
        last = self._kept.get(name)
        if last is None:
            return {}
        if _same(last.pieces, saved.pieces):
            return None
        return dict(zip(last.pieces, last.record.pieces, strict=True))

    def _begun(
        self, states: Mapping[str, tuple[State, Saved]], deltas: Sequence[Delta]
    ) -> tuple[Batch, Begun]:
        new = {
            name: [piece for piece in saved.pieces if piece not in refs_before]
            for name, (_, saved) in states.items()
            if (refs_before := self._refs(name, saved)) is not None
        }
        batch = self._pieces.batch()
        early = {name: self.early.refs(name, pieces) for name, pieces in new.items()}
        others = {
            name: [piece for piece in pieces if piece not in early[name]] for name, pieces in new.items()
        }
        refs = iter(
            batch.add([states[name][0].columns_of(piece) for name in others for piece in others[name]])
        )
        new_refs = {name: early[name] | {piece: next(refs) for piece in others[name]} for name in new}
        written = batch.add_deltas(deltas)
        written_states = {
            name: self._next(name, state, saved, new_refs.get(name, {}))
            for name, (state, saved) in states.items()
        }
        return batch, Begun(
            {name: each.record for name, each in written_states.items()}, written, written_states
        )

    def _next(self, name: str, state: State, saved: Saved, new: Mapping[Any, PieceRef]) -> _WrittenState:
        """Return the form of a state to remember, as it is now."""
        last = self._kept.get(name)
        route = None if state.route is None else state.route.as_json()
        if last is not None and _same(last.pieces, saved.pieces):
            if last.record.facts == saved.facts and last.record.route == route:
                return last
            refs = last.record.pieces
        else:
            before = dict(zip(last.pieces, last.record.pieces, strict=True)) if last is not None else {}
            refs = tuple(new[piece] if piece in new else before[piece] for piece in saved.pieces)
        return _WrittenState(saved.pieces, StateRecord(refs, saved.facts, route), type(state))

    def _piece(self, name: str, state: State, ref: PieceRef) -> Any:
        piece = self._pieces.decoded.get(self._key(name, type(state), ref))
        if piece is None:
            piece = state.piece_of(self._pieces.read(ref))
            self._remember(name, type(state), ref, piece, ref.size // MAPPED_SHARE)
        return piece

    def _remember(self, name: str, kind: type, ref: PieceRef, piece: Any, nbytes: int) -> None:
        self._pieces.decoded.put(self._key(name, kind, ref), piece, nbytes)

    def _key(self, name: str, kind: type, ref: PieceRef) -> tuple[Any, ...]:
        """Return the cache key of a piece: its columns, and the kind and id of its state, in any bucket."""
        return self._pieces.store.url, ref.file, ref.start, name.rpartition("/")[0], kind


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return one is other or (len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True)))
