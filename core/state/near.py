"""The entries of a few keys are taken out of rows that wait, and only these are sorted.

Where many rows wait for a look-up, each epoch that looks some up has a part of them sorted, the oldest first: so none pays for
all, and those that were sorted are not looked at again.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..data.columns.directory import entries_among
from ..data.columns.grouping import group
from ..data.columns.kernels import Keys, gather, stack
from .partitioning import KeyColumns
from .run import Run, empty_run, run_of_rows
from .spine import LOOKS, Spine
from .waiting import rows_in

SORTED_AT_ONCE = 1 << 17
"""So many rows that wait are sorted with an epoch that looks some up, and more only with one that adds or looks up many."""


def near(spine: Spine, keys: Keys) -> Spine:
    """Return a spine with all entries of these ascending, distinct keys, of the last commit and of this epoch.

    Of rows that wait, only those of these keys are sorted, unless it costs little to sort them all. Cost: a look at each row that
    waits, and where these are more than ``LOOKS`` for each one that this epoch adds, a sort of some of them.
    """
    columns, change, (_, waiting) = spine.key_columns, spine.unsorted_change, spine.parts()
    if columns is None or (change is None and not waiting):
        return spine
    added = len(spine.delta) if change is None else change.height
    there = _of_waiting(spine, columns, keys, added)
    if there is None:
        return spine
    if change is None:
        return spine.with_sorted(there, spine.delta)
    entries, _ = entries_among(columns.words(change), keys)
    return spine.with_sorted(there, run_of_rows(spine.layout, columns, gather(change, entries)))


def runs_near(spine: Spine, keys: Keys) -> Sequence[Run]:
    """Return runs that have all entries of these keys as of the last commit. Keys may be repeated, in any order.

    Cost: as for ``near``, of an epoch that adds nothing.
    """
    columns, (runs, waiting) = spine.key_columns, spine.parts()
    if columns is None or rows_in(waiting) <= _most_at_once(len(keys)):
        return spine.runs
    if not len(keys):
        return ()
    there = _of_waiting(spine, columns, group(keys).keys, 0)
    return spine.runs if there is None else (*runs, *filter(len, [there]))


def count_reads(spine: Spine, looked_up: Spine) -> None:
    """Count for a spine what was read of the one that ``near`` returned."""
    if looked_up is not spine:
        spine.touched += looked_up.touched
        spine.waste(looked_up.wasted)


def _most_at_once(rows: int) -> int:
    """Return how many rows that wait may be sorted with an epoch that adds or looks up so many."""
    return max(SORTED_AT_ONCE, LOOKS * rows)


def _of_waiting(spine: Spine, columns: KeyColumns, keys: Keys, added: int) -> Run | None:
    """Return the rows that wait with these keys as one run; None if all rows that wait are to be sorted now."""
    waiting = spine.parts()[1]
    rows, most = rows_in(waiting), _most_at_once(added + len(keys))
    is_looked_at_again = rows > LOOKS * added
    if is_looked_at_again and rows <= most:
        return None
    entries_of = [entries_among(chunk.words_by(columns), keys)[0] for chunk in waiting]
    if sum(map(len, entries_of)) > most:
        return None
    if is_looked_at_again:
        spine.sort_some(most)
    spine.touched += rows + added
    frames = [
        gather(chunk.frame, entries)
        for chunk, entries in zip(waiting, entries_of, strict=True)
        if len(entries)
    ]
    return run_of_rows(spine.layout, columns, stack(frames)) if frames else empty_run(spine.layout)
