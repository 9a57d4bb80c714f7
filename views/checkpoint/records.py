"""The records of a log are read, and the facts of each are cached."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from evercurrent.core.data.errors import CheckpointError, CorruptFileError, MissingFileError

from ..store import Store
from .commits import Commit, JsonObject
from .differences import Rebuilt, refs_in
from .marker import COMMITS
from .record_files import checksum_of, decoded, is_latest_form
from .record_packs import PACK, Pack, open_pack, write_pack

RECORD = re.compile(rf"{COMMITS}(\d{{12}})\.json")


FIELDS = {"epoch", "before", "whole", "deltas"}
"""The fields of every record of a commit."""

BEFORE_CRC = "before_crc"
"""The field with the checksum of the record before: its number alone would fit a record of another history as well.

Records of earlier versions lack it.
"""


def record_name(first: int) -> str:
    """Return the file of the record whose first epoch this is.

    >>> record_name(7)
    'commits/000000000007.json'
    """
    return f"{COMMITS}{first:012d}.json"


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """The cached facts of a record: its commit's epoch, its checksum, the record before it, the files that it names.

    ``before_crc`` is None in the first record, and in those of earlier versions.
    """

    epoch: int
    crc: str
    before: int | None
    before_crc: str | None
    whole: bool
    files: frozenset[str]
    deltas: JsonObject

    @staticmethod
    def of(body: JsonObject, crc: str) -> RecordFacts:
        """Return the facts of a record with this body and checksum."""
        files = frozenset(ref.file for ref in refs_in(body))
        return RecordFacts(
            body["epoch"], crc, body["before"], body.get(BEFORE_CRC), body["whole"], files, body["deltas"]
        )

    def goes_on_from(self, before: RecordFacts) -> bool:
        """Return whether this is a record after that one, as far as it is known, and not after another one of the same epoch."""
        return self.before_crc in (None, before.crc)


def covers(body: JsonObject, first: int) -> bool:
    """Return whether a record is that of the epochs that begin with this one."""
    before = body["before"]
    return first <= body["epoch"] and (before is None or before < first)


class Records:
    """The records of a log, each identified by the first epoch that it covers.

    ``firsts`` are those that there were when they were listed, and those added since, ascending.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.firsts: list[int] = []
        self.leftovers: list[int] = []
        """Records that are in a pack and also still in files of their own."""
        self._facts: dict[int, RecordFacts] = {}
        self._packs: dict[int, Pack] = {}

    def look(self) -> None:
        """List the records in the store.

        Raises:
            CheckpointError: a pack of old ones is damaged.
        """
        for error in self.survey().values():
            raise error

    def survey(self) -> dict[str, CheckpointError]:
        """List the records in the store, and return the faults of packs by their names."""
        matches = [RECORD.fullmatch(each.name) for each in self.store.list(COMMITS)]
        loose = {int(match[1]) for match in matches if match}
        faults = (
            self._find_packs()
        )  # After the list, so that records packed in between are in one of the two.
        self.leftovers = sorted(loose & self._packs.keys())
        self.firsts = sorted(loose | self._packs.keys())
        there = set(self.firsts)
        self._facts = {first: facts for first, facts in self._facts.items() if first in there}
        return faults

    def _find_packs(self) -> dict[str, CheckpointError]:
        packs_by_name = {pack.name: pack for pack in self._packs.values()}
        faults: dict[str, CheckpointError] = {}
        packs: dict[int, Pack] = {}
        for name in [each.name for each in self.store.list(COMMITS) if PACK.fullmatch(each.name)]:
            try:
                pack = packs_by_name.get(name) or open_pack(self.store, name)
            except MissingFileError:
                continue  # Swept just now.
            except CheckpointError as error:
                faults[name] = error
                continue
            packs |= dict.fromkeys(pack.places, pack)
        self._packs = packs
        return faults

    def file_of(self, first: int) -> str:
        """Return the file that holds a record."""
        pack = self._packs.get(first)
        return record_name(first) if pack is None else pack.name

    def pack(self, firsts: Sequence[int]) -> None:
        """Pack consecutive old records, the first of them whole, into one file.

        Raises:
            CheckpointError: the store fails.
        """
        pack = write_pack(self.store, firsts, [record_name(first) for first in firsts])
        if pack is not None:
            self._packs = {**self._packs, **dict.fromkeys(pack.places, pack)}

    def add(self, first: int, facts: RecordFacts) -> None:
        """Note a record that was written after all others."""
        self.firsts.append(first)
        self._facts[first] = facts

    def forget(self, firsts: Sequence[int]) -> None:
        """Remove records that were deleted."""
        gone = set(firsts)
        self.firsts = [first for first in self.firsts if first not in gone]
        for first in firsts:
            self._facts.pop(first, None)
        self._packs = {first: pack for first, pack in self._packs.items() if first not in gone}

    def facts(self, first: int) -> RecordFacts:
        """Return the facts of a record, which is read once."""
        if first not in self._facts:
            self.read(first)
        return self._facts[first]

    def read(self, first: int, *, is_next: bool = False) -> JsonObject:
        """Return the body of a record; ``is_next``: it follows all known ones, if it is there, and is in no pack.

        Raises:
            MissingFileError, CorruptFileError: by name.
        """
        data = self._content(first, is_next)
        name = self.file_of(first)
        body = decoded(f"{self.store.url}: {name}", data)
        if not body.keys() >= FIELDS:
            raise CorruptFileError(
                f"{self.store.url}: {name} is not the record of a commit: another file of a checkpoint is in its place; restore it "
                "from a copy of the checkpoint"
            )
        if not covers(body, first):
            raise CorruptFileError(
                f"{self.store.url}: {name} holds the record of epoch {body['epoch']} in the place of that of epoch "
                f"{first}; restore it from a copy of the checkpoint"
            )
        self._facts[first] = RecordFacts.of(body, checksum_of(data))
        return body

    def crc_there(self, first: int) -> str:
        """Return the checksum that a record has in the store now.

        Raises:
            MissingFileError: it is gone.
        """
        return checksum_of(self._content(first, is_next=False))

    def is_latest_form(self, first: int) -> bool:
        """Return whether earlier versions of evercurrent refuse a record because of its format."""
        return is_latest_form(self._content(first, is_next=False))

    def _content(self, first: int, is_next: bool) -> bytes:
        pack = self._packs.get(first)
        if pack is None:
            try:
                data: bytes = self.store.read(record_name(first)).to_pybytes()
                return data
            except MissingFileError:
                if not is_next:
                    self._find_packs()  # The record was packed since the last list, or is missing.
                pack = self._packs.get(first)
                if pack is None:
                    raise
        return pack.read(self.store, first)

    def retained(self) -> list[int]:
        """Return the records of all commits that can be read: from the first whole record on.

        Raises:
            MissingFileError: there are records, but none is whole.
        """
        start = next((at for at, first in enumerate(self.firsts) if self.facts(first).whole), None)
        if start is None and self.firsts:
            before = self.facts(self.firsts[0]).before
            raise self._lost(before if before is not None else 0, self.firsts[0])
        return self.firsts[start:]

    def facts_in_order(self, firsts: Sequence[int]) -> list[RecordFacts]:
        """Return the facts of consecutive records.

        Raises:
            MissingFileError: a record between two of them is missing.
            CorruptFileError: they are not of one history.
        """
        all_facts = [self.facts(first) for first in firsts]
        for one, after in zip(all_facts, firsts[1:], strict=False):
            if one.epoch + 1 != after:
                raise self._lost(one.epoch + 1, after)
            self.require_one_history(one, after)
        return all_facts

    def require_one_history(self, before: RecordFacts, first: int) -> None:
        """Check that a record goes on from the one before it, whose facts these are.

        Raises:
            CorruptFileError: it goes on from another one of the same epoch.
        """
        if other := self.other_history(before, first):
            raise CorruptFileError(
                f"{self.store.url}: {self.file_of(first)} {other}; restore one copy of the checkpoint into an empty folder, or move "
                f"this file and all later records away: then epoch {before.epoch} is the last"
            )

    def other_history(self, before: RecordFacts, first: int) -> str:
        """Return what is wrong with a record that goes on from another one than that before it; "" if it goes on from that."""
        if before.epoch + 1 != first or self.facts(first).goes_on_from(before):
            return ""
        return (
            f"goes on from another record of epoch {before.epoch} than the one that is there: the folder has records of two "
            f"histories, of epochs up to {before.epoch} and of epochs from {first} on, as when a copy is written over another one "
            "without deleting its files"
        )

    def commit(self, first: int) -> tuple[Commit, int]:
        """Return the commit of a record, and how many differences lead to it from a whole one.

        Raises:
            MissingFileError, CorruptFileError: by name.
        """
        bodies = [(first, self.read(first))]
        while not bodies[-1][1]["whole"]:
            after, before = bodies[-1][0], bodies[-1][1]["before"]
            try:
                bodies.append((before, self.read(before)))
            except MissingFileError as error:
                raise self._lost(before, after) from error
            if bodies[-1][1]["epoch"] + 1 != after:
                raise self._lost(bodies[-1][1]["epoch"] + 1, after)
            self.require_one_history(self.facts(before), after)
        rebuilt = Rebuilt(Commit.from_json(bodies[-1][1]))
        for at, body in reversed(bodies[:-1]):
            self.go_on(rebuilt, at, body)
        return rebuilt.commit(), len(bodies) - 1

    def go_on(self, rebuilt: Rebuilt, first: int, body: JsonObject) -> None:
        """Apply a record to the commit before it.

        Raises:
            CorruptFileError: it does not fit.
        """
        try:
            rebuilt.go_on(body)
        except (LookupError, ValueError, TypeError) as error:
            raise CorruptFileError(
                f"{self.store.url}: {record_name(first)} does not go on from the record before it ({error})"
            ) from error

    def _lost(self, first: int, after: int) -> MissingFileError:
        return MissingFileError(
            f"{self.store.url}: {record_name(first)} is missing, and {record_name(after)} goes on from it; restore it "
            "from a copy of the checkpoint"
        )
