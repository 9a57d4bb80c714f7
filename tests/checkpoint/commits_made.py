"""Commits for tests: random histories of what a commit may hold."""

from __future__ import annotations

import random
import re
import zlib
from dataclasses import replace
from typing import Any

from evercurrent.views.checkpoint import Commit, DeltaRef, PieceRef, StateRecord
from evercurrent.views.checkpoint.marker import MARKER
from evercurrent.views.checkpoint.record_files import TAIL, TAIL_SIZE, encoded
from evercurrent.views.checkpoint.records import BEFORE_CRC
from evercurrent.views.store import Store

VERSIONS = {"evercurrent": "0", "polars": "0", "python": "0"}


def begin_in_format_1(store: Store) -> None:
    """Begin a checkpoint as versions did whose keys were hashed by polars."""
    store.put(MARKER, [encoded({"evercurrent": "0.1.0"}, 1)])


def without_before_crc(record: bytes) -> bytes:
    """A record as earlier versions wrote it: without the checksum of the one before."""
    content = re.sub(rb'"%b":"\w{8}",' % BEFORE_CRC.encode(), b"", record[:-TAIL_SIZE])
    return content + TAIL % zlib.crc32(content)


def a_commit(epoch: int, **parts: Any) -> Commit:
    """A commit that holds little."""
    empty: dict[str, Any] = {
        "buckets": 1,
        "plan": {"views": {}},
        "states": {},
        "deltas": {},
        "positions": {},
        "readers": {},
        "epochs": ((epoch, epoch * 1_000_000, {"s": epoch}),),
        "facts": {},
        "writer": "me",
        "versions": VERSIONS,
    }
    return Commit(epoch=epoch, **empty | parts)


class History:
    """Commits one after the other, each a random change of the one before."""

    def __init__(self, seed: int, *, skips: bool = True) -> None:
        self.random = random.Random(seed)
        self.skips = skips
        self.commits: list[Commit] = []
        self.files = 0

    def ref(self, folder: str = "pieces") -> PieceRef:
        """A piece of a new file, or of the last one."""
        self.files += self.random.random() < 0.6
        return PieceRef(f"{folder}/{self.files}.arrow", self.random.randrange(9) * 64, 64, 7, 3)

    def delta(self, epoch: int) -> DeltaRef:
        self.files += 1
        return DeltaRef(epoch, PieceRef(f"deltas/v/{self.files}.arrow", 0, 64, 7, 3))

    def go_on(self) -> Commit:
        """The next commit."""
        last = self.commits[-1] if self.commits else a_commit(-1)
        step = self.random.choice([1, 1, 1, 4]) if self.skips else 1
        epoch = last.epoch + step
        epochs = range(last.epoch + 1, epoch + 1)
        commit = replace(
            last,
            epoch=epoch,
            states=self._states(dict(last.states)),
            deltas={
                view: tuple(self.delta(each) for each in epochs if self.random.random() < 0.8)
                for view in ("v", "w")
                if self.random.random() < 0.7
            },
            positions=self._numbers(dict(last.positions)),
            readers=self._numbers(dict(last.readers)),
            epochs=tuple((each, each * 10, {"s": each}) for each in epochs),
            facts={"n": self.random.randrange(3)},
            plan={"views": {"v": self.random.randrange(20) // 19}},
            buckets=self.random.choice([last.buckets] * 9 + [4]),
            writer=self.random.choice("ab"),
        )
        self.commits.append(commit)
        return commit

    def _states(self, states: dict[str, StateRecord]) -> dict[str, StateRecord]:
        for name in [f"{each}/0" for each in "abcd"]:
            chance = self.random.random()
            record = states.get(name, StateRecord((), {}, None))
            if chance < 0.5:
                kept = self.random.randrange(len(record.pieces) + 1)
                new = tuple(self.ref() for _ in range(self.random.randrange(3)))
                route = self.random.choice([None, {"kind": "words"}])
                facts = {"totals": {"x": self.random.randrange(3)}}
                states[name] = StateRecord((*record.pieces[:kept], *new), facts, route)
            elif chance < 0.55:
                states.pop(name, None)
        return states

    def _numbers(self, numbers: dict[str, int]) -> dict[str, int]:
        for name in "xyz":
            chance = self.random.random()
            if chance < 0.4:
                numbers[name] = self.random.randrange(100)
            elif chance < 0.5:
                numbers.pop(name, None)
        return numbers


def files_of(commit: Commit) -> set[str]:
    """All files that a commit names."""
    named = {ref.file for state in commit.states.values() for ref in state.pieces}
    return named | {ref.piece.file for refs in commit.deltas.values() for ref in refs}
