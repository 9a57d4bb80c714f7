"""A checkpoint is compacted: old commits and their files are dropped, and the runs of states merged."""

from __future__ import annotations

import logging
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

LOG = logging.getLogger("evercurrent")

MOSTLY = 0.5
"""The share of a file that must be needed for it to be kept as it is."""


MOST_WASTED = 16 << 20
"""A running query leaves so many bytes in files that are mostly unneeded, and copies nothing."""


def compact(store: Store, *, keep: int, grace: float) -> tuple[Commit, Swept]:
    """Merge the runs of the last commit's states, copy pieces out of mostly unneeded files, and drop all but ``keep`` commits.

    The result is one more commit, of an empty epoch, which counts as one of the kept ones. Timers and rows that wait for
    their order are not runs, and are only copied. Cost: the states that have several runs, of which some 256 MB are in
    memory at a time.

    Raises:
        CheckpointError: there is no commit, or a named reader has not received deltas that would be deleted; a file
            is missing or damaged.
    """
    log = CommitLog(store)
    last = to_go_on_from(log)
    require_committed(store, last, log.last_crc)
    _require_received(log, last, keep)
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
    LOG.info(
        "runs of %s are merged in epoch %d", store.url, commit.epoch,
        extra={"event": "merge", "epoch": commit.epoch, "checkpoint": store.url, "copied": len(copies)},
    )  # fmt: skip
    return commit, log.sweep(keep, grace)


def without_waste(store: Store, last: Commit, most_wasted: int | None = None) -> Commit | None:
    """Return a commit after the last one, whose states are copied out of mostly unneeded files; None if these waste little.

    Little are ``most_wasted`` bytes, by default ``MOST_WASTED``. It is not appended yet. Runs are not merged, as the application does that. Cost: a list of the files, and the copies, which
    are less than half of the files that are no longer needed for them.

    Raises:
        CheckpointError: a file is missing or damaged, or the store fails.
    """
    wasteful = _wasteful(store, last.states)
    sizes = {each.name: each.size for each in store.list("pieces/")}
    files = {ref.file for ref in wasteful}
    wasted = sum(sizes[file] for file in files) - sum(ref.size for ref in wasteful)
    if wasted <= (MOST_WASTED if most_wasted is None else most_wasted):
        return None
    copies = _copied(Pieces.of(store), wasteful)
    states = {
        name: replace(record, pieces=tuple(copies.get(ref, ref) for ref in record.pieces))
        for name, record in last.states.items()
    }
    return replace(following(last, states=states), writer=last.writer)


def _require_received(log: CommitLog, last: Commit, keep: int) -> None:
    epochs = log.epochs()
    oldest = epochs[len(epochs) - keep] if keep <= len(epochs) else -1
    behind = [(reached, name) for name, reached in last.readers.items() if reached < oldest]
    if behind:
        reached, name = min(behind)
        needed = len([epoch for epoch in epochs if epoch > reached]) + 1
        raise CheckpointError(
            f"{log.store.url}: reader {name!r} has received deltas up to epoch {reached}, and later ones would be deleted; "
            f"keep {needed} commits or more, or let it receive the rest first"
        )


def _wasteful(store: Store, states: Mapping[str, StateRecord]) -> list[PieceRef]:
    """Return the needed pieces of mostly unneeded files."""
    refs = {ref for record in states.values() for ref in record.pieces}
    needed: dict[str, int] = {}
    for ref in refs:
        needed[ref.file] = needed.get(ref.file, 0) + ref.size
    sizes = {each.name: each.size for each in store.list("pieces/")}
    wasteful = [ref for ref in refs if needed[ref.file] < MOSTLY * sizes.get(ref.file, 0)]
    return sorted(wasteful, key=lambda ref: (ref.file, ref.start))


def _copied(pieces: Pieces, refs: list[PieceRef]) -> dict[PieceRef, PieceRef]:
    batch = pieces.batch()
    copies = batch.add_copies(refs)
    batch.put()
    return dict(zip(refs, copies, strict=True))
