"""A micro-batch of Spark that a sink may have had before its commit: no other epoch may be committed under its number.

A query records a micro-batch just before it passes the deltas to a sink that does not record what is committed. If its process ends
before the commit, the micro-batch is repeated, with the same rows and so under the same number, unless another epoch takes that.
"""

from __future__ import annotations

import json

from evercurrent.core.data.errors import CheckpointError

from ..store import Store
from .commits import Commit

SPARK = "spark"
"""The fact of a commit about micro-batches."""

BATCHES = "batches"
"""The folder of the records of micro-batches."""


def record_of(batch: int) -> str:
    """Return the name of the file with the record of a micro-batch."""
    return f"{BATCHES}/{batch:012}"


def next_batch(last: int | None) -> int:
    """Return the number of the micro-batch after the last one that is committed."""
    return 0 if last is None else last + 1


def require_not_taken(url: str, batch: int, recorded: int | None, epoch: int) -> None:
    """Check that a micro-batch becomes the epoch that is recorded for it; an early record has none.

    Raises:
        CheckpointError: others have committed that epoch.
    """
    if recorded not in (None, epoch):
        raise CheckpointError(
            f"{url}: on_epoch= may have the deltas of micro-batch {batch} as those of epoch {recorded}, which others "
            f"have committed without them since, so that it would get them once more as those of epoch {epoch}; delete them "
            f"where on_epoch= has put them, and then {record_of(batch)} in the checkpoint"
        )


def _recorded_epoch(store: Store, batch: int) -> int | None:
    """Return the epoch that a micro-batch was to become; None if its record does not have it."""
    try:
        epoch = json.loads(store.read(record_of(batch)).to_pybytes())["epoch"]
    except (ValueError, LookupError, TypeError):
        return None  # The query that repeats it reports what is wrong with the record.
    return epoch if isinstance(epoch, int) else None


def require_none_begun(store: Store, last: Commit, remedy: str) -> None:
    """Check that the epoch after the ``last`` one may be another than that of the next micro-batch.

    Raises:
        CheckpointError: a sink may have the deltas of that micro-batch under this number; ``remedy`` is the way out. Or it may have
            them under an earlier number, which another epoch has.
    """
    batch = next_batch(last.facts.get(SPARK, {}).get("batch"))
    if store.list(record_of(batch)):
        require_not_taken(store.url, batch, _recorded_epoch(store, batch), last.epoch + 1)
        raise CheckpointError(
            f"{store.url}: micro-batch {batch} ended before its commit, and on_epoch= may have its deltas as those of epoch "
            f"{last.epoch + 1}, which has to be theirs: {remedy}"
        )
