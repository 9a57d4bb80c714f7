"""A version is what a state is as of one commit: parts that add up, and what was made of them since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import ref as weakref

import polars as pl

from ..data.schema import DIFF
from .gradual import GradualMerge
from .run import Run
from .waiting import Chunk, Waiting

Parts = tuple[tuple[Run, ...], Waiting]
"""The parts that add up to a state: its runs, the oldest first, and rows that wait."""

NO_PARTS: Parts = ((), ())


@dataclass(slots=True, eq=False)
class Version:
    """A version of a spine, as of one commit: its parts, their totals, and the counters for the next full merge.

    ``parts`` are its runs and the rows that still wait. Its contents never change. Its waiting rows become a run when somebody
    first needs them by key (``settle``), whoever it is; it does not matter which of several threads did it first. Totals are modulo 2^64, as the sums of columns wrap.
    ``attempt_after`` is how many entries have to be added before it is tried again whether all cancel each other.
    ``retracting`` counts entries of runs that were added while rows waited, and that may retract these. ``merging`` are merges
    of large runs that are under way. ``merged`` has all parts as one run, once a reader has merged them. ``merged_at_origin``
    is the same of the version of another spine that this one shares: what its readers merge is merged here too, and not the
    other way round. The version itself is not kept, as its parts may be others by now.
    """

    parts: Parts
    totals: Mapping[str, int] = field(default_factory=dict)
    attempt_after: int = 0
    wasted: int = 0
    retracting: int = 0
    merging: tuple[GradualMerge, ...] = ()
    merged: list[Run] = field(default_factory=list)
    merged_at_origin: list[Run] = field(default_factory=list)
    _settled: list[tuple[Run, ...]] = field(default_factory=list, repr=False)

    @property
    def whole(self) -> Run | None:
        """All parts as one run, the one that replaces them in later versions; None if no reader has merged them."""
        return next(iter(self.merged_at_origin or self.merged), None)

    def settle(self, runs: tuple[Run, ...]) -> tuple[Run, ...]:
        """Make these runs all that there is, unless another thread was faster, and return what is there now."""
        self._settled.append(runs)
        self.parts = (self._settled[0], ())
        return self._settled[0]

    def wait_as(self, chunk: Chunk) -> None:
        """Make this chunk all that there is, unless another thread has sorted the rows meanwhile."""
        if not self._settled:
            self.parts = ((), (chunk,))

    def rows_apart(self) -> Iterator[pl.DataFrame]:
        """Yield the rows of all runs with their diffs, as they are: one row may be in several, and nothing is sorted or merged."""
        runs, waiting = self.parts
        for run in runs:
            yield pl.DataFrame([*run.payload.get_columns(), pl.Series(DIFF, run.sums[DIFF])])
        for chunk in waiting:
            yield chunk.frame

    def with_parts(self, runs: tuple[Run, ...], waiting: Waiting, **changed: Any) -> Version:
        """Return the same version with other parts, not merged yet."""
        return replace(self, parts=(runs, waiting), merged=[], merged_at_origin=[], _settled=[], **changed)

    def shared(self) -> Version:
        """Return the same version for a spine that goes its own way: merges that are under way are left to this one."""
        return replace(self, merging=(), merged=[], merged_at_origin=self.merged, _settled=[])


@dataclass(frozen=True, slots=True, eq=False)
class Merge:
    """A merge made outside of an epoch: the first parts of a version, and the runs, or rows that wait, that they were merged into."""

    runs: tuple[weakref[Run], ...]
    waiting: tuple[weakref[Chunk], ...]
    into: tuple[Run, ...]
    """These alone are kept alive: parts that nobody holds any more are not merged again."""
    into_waiting: Waiting = ()

    @staticmethod
    def of(parts: Parts, into: tuple[Run, ...], into_waiting: Waiting = ()) -> Merge:
        """Return the merge of these parts."""
        return Merge(tuple(map(weakref, parts[0])), tuple(map(weakref, parts[1])), into, into_waiting)

    @property
    def may_apply(self) -> bool:
        """Return whether all parts that were merged are still there; otherwise no version can have them."""
        return all(run() is not None for run in self.runs) and all(
            rows() is not None for rows in self.waiting
        )

    def applied(self, parts: Parts) -> Parts | None:
        """Return the parts with those that were merged replaced; None if they are not the first ones."""
        runs, waiting = parts
        if not (_begins(runs, self.runs) and _begins(waiting, self.waiting)):
            return None
        left = waiting[len(self.waiting) :]
        return (*self.into, *runs[len(self.runs) :]), (*self.into_waiting, *left)


def forget_lost(merges: list[Merge]) -> None:
    """Forget merges whose parts are gone. A state that is restored for each task makes some in each, and commits none.

    Other threads may append to the list meanwhile.
    """
    seen = len(merges)
    merges[:seen] = [merge for merge in merges[:seen] if merge.may_apply]


def _begins(parts: Sequence[object], merged: Sequence[weakref[Any]]) -> bool:
    return len(merged) <= len(parts) and all(ref() is part for ref, part in zip(merged, parts, strict=False))
