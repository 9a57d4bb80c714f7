"""All rows that a node has emitted so far, read from a state or given by a user: at once, or a range of keys at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from evercurrent.core.data.delta import Delta
from evercurrent.core.state.run import Run
from evercurrent.core.state.run_merge import merge
from evercurrent.core.state.spine import Spine, Version

from ..concurrency.ahead import computed_ahead

GREATEST_WORD = (1 << 64) - 1

RowsReader = Callable[[], Delta]
"""Gives all that a node has emitted so far, added up."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptRows:
    """The rows that a node has emitted so far, in states that nobody changes while they are read.

    ``read`` returns them as of versions of the ``spines``, None being the last commit. The first spine has an entry for
    each row. Rows that a user gives are in no spine. ``is_sum``: the rows are the sum of the runs, each of which can be read alone.
    ``calls_users``: reading them may call a function of a user.
    """

    read: Callable[[Sequence[Version] | None], Delta]
    spines: tuple[Spine, ...] = ()
    is_sum: bool = False
    calls_users: bool = False

    @staticmethod
    def given(reader: RowsReader) -> KeptRows:
        """Return rows that are read once, by this function: a user's iterator cannot be read twice."""
        rows = cache(reader)
        return KeptRows(lambda _: rows(), calls_users=True)

    def all(self) -> Delta:
        """Return all rows. Cost: the state."""
        return self.read(None)

    @property
    def entries(self) -> int:
        """How many entries there are; 0 if that is known only when they are read."""
        return self.spines[0].entries if self.spines else 0

    def pieces(self, most: int) -> Iterator[tuple[int, Delta]]:
        """Yield all rows in pieces of about ``most`` entries, each with the number of its entries. Cost: one piece at a time.

        A row and what cancels it are in one piece, so that no piece retracts a row before it is added.
        """
        if not self.spines:
            rows = self.all()
            for start in range(0, len(rows), most):
                piece = Delta(rows.frame.slice(start, most))
                yield len(piece), piece
            return
        first, *others = self.spines
        if self.entries <= most:
            yield self.entries, self.all()
            return
        versions = [spine.version for spine in others]

        def rows_of(run: Run) -> Delta:
            return self.read([first.version.with_parts((run,), (), merging=()), *versions])

        merged = _merged_ranges(first, most)
        if self.calls_users:
            for entries, run in computed_ahead(merged):
                yield entries, rows_of(run)
        else:
            yield from computed_ahead((entries, rows_of(run)) for entries, run in merged)


def _merged_ranges(spine: Spine, most: int) -> Iterator[tuple[int, Run]]:
    """Yield the entries of a state, a range of keys at a time, as one run each, with the number of entries in it."""
    runs = spine.runs
    for least, greatest in _ranges(runs, most):
        if cut := [part for run in runs if len(part := run.between(least, greatest))]:
            yield sum(map(len, cut)), merge(spine.layout, cut)


def _ranges(runs: Sequence[Run], most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of first words that together hold all, each with about ``most`` entries, judged by the largest run."""
    largest = max(runs, key=len)
    step = max(1, most * len(largest) // sum(map(len, runs)))
    least = 0
    for word in largest.keys.first[step::step].tolist():
        if word > least:
            yield least, word - 1
            least = word
    yield least, GREATEST_WORD
