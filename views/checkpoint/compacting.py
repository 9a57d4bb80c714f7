"""Making a checkpoint small: dropping old commits and what only they need, merging the runs of states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evercurrent.core.data.errors import CheckpointError

from ..store import Store
from .commits import Commit, PieceRef, StateRecord
from .log import CommitLog
from .merging import with_merged_runs
from .pending import require_committed
from .pieces import Pieces
from .rebucket import following, to_go_on_from
from .sweeping import Swept

MOSTLY = 0.5
"""A file is kept as it is if at least this part of it is needed."""


def compact(store: Store, *, keep: int, grace: float) -> tuple[Commit, Swept]:
    """Make the last commit's states of few runs, in files that are mostly needed, and drop all but ``keep`` commits.

    Runs of a state are merged, and what is left in files that are mostly not needed is copied. One more commit names all
    that: an epoch in which nothing happens. It counts as one of those kept. Timers and rows that wait for their time are
    no runs: they are copied at most. Cost: the states that are of several runs; they are in memory some 256 MB at a time.

    Raises:
        CheckpointError: there is no commit, or a named reader has still to hear deltas that would go; a file is
            missing or damaged.
    """
    log = CommitLog(store)
    last = to_go_on_from(log)
    require_committed(store, last)
    _require_heard(log, last, keep)
    pieces = Pieces(store)
    merged = with_merged_runs(pieces, last)
    copies = _copied(pieces, _wasteful(store, merged))
    states = {
        name: replace(record, pieces=tuple(copies.get(ref, ref) for ref in record.pieces))
        for name, record in merged.items()
    }
    commit = following(last, states=states)
    assert keep > 0, "the last commit is kept"
    log.append(commit, whole=True)
    return commit, log.sweep(keep, grace)


def _require_heard(log: CommitLog, last: Commit, keep: int) -> None:
    epochs = log.epochs()
    oldest = epochs[len(epochs) - keep] if keep <= len(epochs) else -1
    behind = [(heard, name) for name, heard in last.readers.items() if heard < oldest]
    if behind:
        heard, name = min(behind)
        needed = len([epoch for epoch in epochs if epoch > heard]) + 1
        raise CheckpointError(
            f"{log.store.url}: reader {name!r} has heard up to epoch {heard}, and deltas after that would be deleted; "
            f"keep {needed} commits or more, or let it hear the rest first"
        )


def _wasteful(store: Store, states: Mapping[str, StateRecord]) -> list[PieceRef]:
    """The pieces that lie in files of which little else is needed."""
    refs = {ref for record in states.values() for ref in record.pieces}
    needed: dict[str, int] = {}
    for ref in refs:
        needed[ref.file] = needed.get(ref.file, 0) + ref.size
    sizes = {each.name: each.size for each in store.list("pieces/")}
    found = [ref for ref in refs if needed[ref.file] < MOSTLY * sizes.get(ref.file, 0)]
    return sorted(found, key=lambda ref: (ref.file, ref.start))


def _copied(pieces: Pieces, refs: list[PieceRef]) -> dict[PieceRef, PieceRef]:
    batch = pieces.batch()
    copies = batch.add_copies(refs)
    batch.put()
    return dict(zip(refs, copies, strict=True))
