"""A commit names the pieces of each state, the files of its deltas, and the positions of its sources."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any
from uuid import uuid4

import polars as pl

from evercurrent.core.data.release import VERSION

JsonObject = dict[str, Any]

Passed = tuple[int, int, Mapping[str, int]]
"""An epoch, its processing instant in microseconds, and the watermark of each source after it."""


@dataclass(frozen=True, slots=True)
class PieceRef:
    """The place of a piece: a range of a file, its checksum (CRC-32) and its number of rows."""

    file: str
    start: int
    size: int
    crc: int
    rows: int

    def as_json(self) -> list[Any]:
        """Return the five fields as a list."""
        return [self.file, self.start, self.size, self.crc, self.rows]


@dataclass(frozen=True, slots=True)
class StateRecord:
    """The record of a state: its pieces in order, its facts, and the route by which it may be cut into buckets."""

    pieces: tuple[PieceRef, ...]
    facts: Mapping[str, Any]
    route: Mapping[str, Any] | None

    def as_json(self) -> list[Any]:
        """Return the three fields as a list."""
        return [[ref.as_json() for ref in self.pieces], self.facts, self.route]

    @staticmethod
    def from_json(fields: list[Any]) -> StateRecord:
        """Return the inverse of ``as_json``."""
        refs, facts, route = fields
        return StateRecord(tuple(PieceRef(*ref) for ref in refs), facts, route)


@dataclass(frozen=True, slots=True)
class DeltaRef:
    """The place of a view's delta of one epoch: rows of a piece, which may hold the epochs before and after it too.

    ``rows`` is None where the piece is that delta and nothing else.
    """

    epoch: int
    piece: PieceRef
    first: int = 0
    rows: int | None = None

    @property
    def height(self) -> int:
        """Return how many rows the delta has."""
        return self.piece.rows if self.rows is None else self.rows

    @property
    def nbytes(self) -> int:
        """Return about how many bytes of the piece are this delta's."""
        return self.piece.size * self.height // max(1, self.piece.rows)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: all states at one epoch, and the epochs and deltas since the commit before.

    ``states`` are named ``"<state id>/<bucket>"``. ``deltas``, by view, and ``epochs`` (epoch, processing instant
    in microseconds, watermark by source) cover the epochs after the commit before, up to this one. ``plan`` and
    ``facts`` are the engine's own and are only carried.
    """

    epoch: int
    buckets: int
    plan: Mapping[str, Any]
    states: Mapping[str, StateRecord]
    deltas: Mapping[str, tuple[DeltaRef, ...]]
    positions: Mapping[str, Any]
    readers: Mapping[str, int]
    epochs: tuple[Passed, ...]
    facts: Mapping[str, Any]
    writer: str
    versions: Mapping[str, str]

    def as_json(self) -> JsonObject:
        """Return the whole commit as a JSON object."""
        return {
            "epoch": self.epoch,
            "buckets": self.buckets,
            "plan": self.plan,
            "states": {name: state.as_json() for name, state in self.states.items()},
            "deltas": deltas_as_json(self.deltas),
            "positions": self.positions,
            "readers": self.readers,
            "epochs": self.epochs,
            "facts": self.facts,
            "writer": self.writer,
            "versions": self.versions,
        }

    @staticmethod
    def from_json(body: Mapping[str, Any]) -> Commit:
        """Return the inverse of ``as_json``."""
        return Commit(
            epoch=body["epoch"],
            buckets=body["buckets"],
            plan=body["plan"],
            states={name: StateRecord.from_json(state) for name, state in body["states"].items()},
            deltas=deltas_from_json(body["deltas"]),
            positions=body["positions"],
            readers=body["readers"],
            epochs=epochs_from_json(body["epochs"]),
            facts=body["facts"],
            writer=body["writer"],
            versions=body["versions"],
        )


def deltas_as_json(deltas: Mapping[str, tuple[DeltaRef, ...]]) -> JsonObject:
    """Return the pieces of deltas by view, each with its epochs and the rows that each of them has there, to be written."""
    return {view: _pieces_of_deltas(refs) for view, refs in deltas.items()}


def _pieces_of_deltas(refs: tuple[DeltaRef, ...]) -> list[JsonObject]:
    pieces: list[JsonObject] = []
    end: tuple[PieceRef, int] | None = None
    for ref in refs:
        if end != (ref.piece, ref.first):
            pieces.append({**asdict(ref.piece), "epochs": []})
        pieces[-1]["epochs"].append([ref.epoch, ref.height])
        end = ref.piece, ref.first + ref.height
    return pieces


def deltas_from_json(written: Mapping[str, Any]) -> dict[str, tuple[DeltaRef, ...]]:
    """Return the inverse of ``deltas_as_json``."""
    return {view: tuple(delta_refs(parts)) for view, parts in written.items()}


def delta_refs(written: Iterable[Any]) -> Iterator[DeltaRef]:
    """Yield the deltas of a view in the order of their epochs, from its part of a record.

    Records of format 1 have a list for each epoch: the epoch, and its piece.
    """
    for part in written:
        if isinstance(part, list):
            yield DeltaRef(part[0], PieceRef(*part[1:]))
            continue
        piece, first = piece_of_deltas(part), 0
        if len(part["epochs"]) == 1:
            yield DeltaRef(part["epochs"][0][0], piece)
            continue
        for epoch, rows in part["epochs"]:
            yield DeltaRef(epoch, piece, first, rows)
            first += rows


def piece_of_deltas(part: Any) -> PieceRef:
    """Return the piece of one part of a record's deltas."""
    if isinstance(part, list):
        return PieceRef(*part[1:])
    return PieceRef(part["file"], part["start"], part["size"], part["crc"], part["rows"])


def epochs_from_json(written: list[Any]) -> tuple[Passed, ...]:
    """Return the written epochs of a commit, with the instant and the watermarks of each."""
    return tuple((epoch, instant, watermarks) for epoch, instant, watermarks in written)


def new_writer() -> str:
    """Return a token that no other writer has."""
    return uuid4().hex


def versions() -> dict[str, str]:
    """Return the versions of this package, of polars and of Python that write here."""
    return {
        "evercurrent": VERSION,
        "polars": pl.__version__,
        "python": platform.python_version(),
    }
