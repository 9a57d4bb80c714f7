"""Reading the records of a log, and what is remembered of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from evercurrent.core.errors import CorruptFileError, MissingFileError

from ..store import Store
from .commits import Commit, JsonObject
from .differences import Rebuilt, refs_in
from .marker import COMMITS
from .record_files import decoded

RECORD = re.compile(rf"{COMMITS}(\d{{12}})\.json")


def record_name(first: int) -> str:
    """The file of the record whose first epoch this is.

    >>> record_name(7)
    'commits/000000000007.json'
    """
    return f"{COMMITS}{first:012d}.json"


@dataclass(frozen=True, slots=True)
class Known:
    """What is remembered of a record: its commit's epoch, the record before it, the files that it names."""

    epoch: int
    before: int | None
    whole: bool
    files: frozenset[str]
    deltas: JsonObject

    @staticmethod
    def of(body: JsonObject) -> Known:
        """What is to be remembered of a record with this body."""
        files = frozenset(ref.file for ref in refs_in(body))
        return Known(body["epoch"], body["before"], body["whole"], files, body["deltas"])


def covers(body: JsonObject, first: int) -> bool:
    """Whether a record is that of the epochs that begin with this one."""
    before = body["before"]
    return first <= body["epoch"] and (before is None or before < first)


class Records:
    """The records of a log: a record is known by the first epoch that it covers.

    ``firsts`` are those that there were when they were listed, and those added since, ascending.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.firsts: list[int] = []
        self._known: dict[int, Known] = {}

    def look(self) -> None:
        """List the records that there are."""
        found = [RECORD.fullmatch(each.name) for each in self.store.list(COMMITS)]
        self.firsts = [int(match[1]) for match in found if match]
        there = set(self.firsts)
        self._known = {first: known for first, known in self._known.items() if first in there}

    def add(self, first: int, body: JsonObject) -> None:
        """Take note of a record that was written after all others."""
        self.firsts.append(first)
        self._known[first] = Known.of(body)

    def forget(self, firsts: Sequence[int]) -> None:
        """Records that are deleted."""
        gone = set(firsts)
        self.firsts = [first for first in self.firsts if first not in gone]
        for first in firsts:
            self._known.pop(first, None)

    def known(self, first: int) -> Known:
        """What is to be known of a record; it is read once."""
        if first not in self._known:
            self.read(first)
        return self._known[first]

    def read(self, first: int) -> JsonObject:
        """The body of a record.

        Raises:
            MissingFileError, CorruptFileError: by name.
        """
        name = record_name(first)
        body = decoded(f"{self.store.url}: {name}", self.store.read(name).to_pybytes())
        if not covers(body, first):
            raise CorruptFileError(
                f"{self.store.url}: {name} is another record, that of epoch {body['epoch']}, under this name; restore it "
                "from a copy of the checkpoint"
            )
        self._known[first] = Known.of(body)
        return body

    def retained(self) -> list[int]:
        """The records of all commits that can be read: from the first whole record on.

        Raises:
            MissingFileError: there are records, and none is whole.
        """
        start = next((at for at, first in enumerate(self.firsts) if self.known(first).whole), None)
        if start is None and self.firsts:
            before = self.known(self.firsts[0]).before
            raise self._lost(before if before is not None else 0, self.firsts[0])
        return self.firsts[start:]

    def known_in_order(self, firsts: Sequence[int]) -> list[Known]:
        """What is to be known of records that follow one another.

        Raises:
            MissingFileError: there should be another one between two of them.
        """
        known = [self.known(first) for first in firsts]
        for one, after in zip(known, firsts[1:], strict=False):
            if one.epoch + 1 != after:
                raise self._lost(one.epoch + 1, after)
        return known

    def commit(self, first: int) -> tuple[Commit, int]:
        """The commit of a record, and how many differences lead to it from a whole one.

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
