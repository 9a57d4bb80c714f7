"""What a commit says: which pieces each state is made of, which files hold its deltas, where its sources stand."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from uuid import uuid4

import polars as pl

from evercurrent.core.kernels import HASH_NAME

JsonObject = dict[str, Any]

Passed = tuple[int, int, Mapping[str, int]]
"""An epoch, its processing instant in microseconds, and the watermark of each source after it."""


@dataclass(frozen=True, slots=True)
class PieceRef:
    """Where columns are kept: a range of a file, its checksum (CRC-32) and its number of rows."""

    file: str
    start: int
    size: int
    crc: int
    rows: int

    def as_json(self) -> list[Any]:
        """A list of the five."""
        return [self.file, self.start, self.size, self.crc, self.rows]


@dataclass(frozen=True, slots=True)
class StateRecord:
    """What is kept of a state: its pieces in order, its facts, and the route by which it may be cut into buckets."""

    pieces: tuple[PieceRef, ...]
    facts: Mapping[str, Any]
    route: Mapping[str, Any] | None

    def as_json(self) -> list[Any]:
        """A list of the three."""
        return [[ref.as_json() for ref in self.pieces], self.facts, self.route]

    @staticmethod
    def from_json(said: list[Any]) -> StateRecord:
        """The inverse of ``as_json``."""
        refs, facts, route = said
        return StateRecord(tuple(PieceRef(*ref) for ref in refs), facts, route)


@dataclass(frozen=True, slots=True)
class DeltaRef:
    """The file of a view's delta of one epoch."""

    epoch: int
    piece: PieceRef

    def as_json(self) -> list[Any]:
        """A list of six, the epoch before the piece's five."""
        return [self.epoch, *self.piece.as_json()]

    @staticmethod
    def from_json(said: list[Any]) -> DeltaRef:
        """The inverse of ``as_json``."""
        return DeltaRef(said[0], PieceRef(*said[1:]))


@dataclass(frozen=True, slots=True)
class Commit:
    """All states at one epoch, and what led there since the commit before.

    ``states`` are named ``"<state id>/<bucket>"``. ``deltas``, by view, and ``epochs`` (epoch, processing instant
    in microseconds, watermark by source) cover the epochs after the commit before, up to this one. ``plan`` and
    ``facts`` are the engine's own and are only carried.
    """

    epoch: int
    buckets: int
    plan: Mapping[str, Any]
    states: Mapping[str, StateRecord]
    deltas: Mapping[str, tuple[DeltaRef, ...]]
    positions: Mapping[str, int]
    readers: Mapping[str, int]
    epochs: tuple[Passed, ...]
    facts: Mapping[str, Any]
    writer: str
    versions: Mapping[str, str]

    def as_json(self) -> JsonObject:
        """Everything, to be written."""
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
    def from_json(said: Mapping[str, Any]) -> Commit:
        """The inverse of ``as_json``."""
        return Commit(
            epoch=said["epoch"],
            buckets=said["buckets"],
            plan=said["plan"],
            states={name: StateRecord.from_json(state) for name, state in said["states"].items()},
            deltas=deltas_from_json(said["deltas"]),
            positions=said["positions"],
            readers=said["readers"],
            epochs=epochs_from_json(said["epochs"]),
            facts=said["facts"],
            writer=said["writer"],
            versions=said["versions"],
        )


def deltas_as_json(deltas: Mapping[str, tuple[DeltaRef, ...]]) -> JsonObject:
    """The delta files by view, to be written."""
    return {view: [ref.as_json() for ref in refs] for view, refs in deltas.items()}


def deltas_from_json(said: Mapping[str, Any]) -> dict[str, tuple[DeltaRef, ...]]:
    """The inverse of ``deltas_as_json``."""
    return {view: tuple(DeltaRef.from_json(ref) for ref in refs) for view, refs in said.items()}


def epochs_from_json(said: list[Any]) -> tuple[Passed, ...]:
    """The epochs of a commit with the instant and the watermarks of each, as they were written."""
    return tuple((epoch, instant, watermarks) for epoch, instant, watermarks in said)


def new_writer() -> str:
    """A token that no other writer has."""
    return uuid4().hex


def versions() -> dict[str, str]:
    """What writes here: versions of this package, of polars and of Python, and the hash that orders keys."""
    try:
        own = version("evercurrent")
    except PackageNotFoundError:
        own = "unknown"
    return {
        "evercurrent": own,
        "polars": pl.__version__,
        "python": platform.python_version(),
        "hash": HASH_NAME,
    }
