"""The sizes of commits and states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .commits import Commit, PieceRef
from .log import CommitLog


@dataclass(frozen=True, slots=True)
class CommitSize:
    """The size of a commit: entries and bytes of its states, and the bytes of pieces and deltas that it has added."""

    commit: Commit
    entries: int
    bytes: int
    new_bytes: int
    delta_rows: int
    delta_bytes: int


@dataclass(frozen=True, slots=True)
class StateSize:
    """The size of a state over all its buckets, with its largest piece, which shows its columns."""

    state: str
    buckets: int
    pieces: int
    entries: int
    bytes: int
    largest: PieceRef | None


def commit_sizes(log: CommitLog, most: int) -> Iterator[CommitSize]:
    """Yield the sizes of the last commits, the newest first. Cost: their records, and those back to a whole one."""
    epochs = log.epochs()
    for at in range(len(epochs) - 1, max(-1, len(epochs) - 1 - most), -1):
        commit = log.at(epochs[at])
        before = set() if at == 0 else set(_pieces(log.at(epochs[at - 1])))
        pieces = set(_pieces(commit))
        deltas = {ref.piece for refs in commit.deltas.values() for ref in refs}
        yield CommitSize(
            commit,
            entries=sum(ref.rows for ref in pieces),
            bytes=sum(ref.size for ref in pieces),
            new_bytes=sum(ref.size for ref in pieces - before),
            delta_rows=sum(ref.rows for ref in deltas),
            delta_bytes=sum(ref.size for ref in deltas),
        )


def state_sizes(commit: Commit) -> list[StateSize]:
    """Return the states of a commit, the largest first."""
    pieces: dict[str, list[PieceRef]] = {}
    buckets: dict[str, int] = {}
    for name, record in commit.states.items():
        state = name.rpartition("/")[0]
        pieces.setdefault(state, []).extend(record.pieces)
        buckets[state] = buckets.get(state, 0) + bool(record.pieces)
    sizes = [
        StateSize(
            state,
            buckets[state],
            len(refs),
            sum(ref.rows for ref in refs),
            sum(ref.size for ref in refs),
            max(refs, key=lambda ref: ref.size, default=None),
        )
        for state, refs in pieces.items()
    ]
    return sorted(sizes, key=lambda size: (-size.bytes, size.state))


def _pieces(commit: Commit) -> Iterable[PieceRef]:
    return (ref for record in commit.states.values() for ref in record.pieces)
