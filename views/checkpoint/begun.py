"""A micro-batch of Spark that a sink may have had before its commit: no other epoch may be committed under its number.

A query records a micro-batch just before it passes the deltas to a sink that does not know what is committed. If its process ends
before the commit, the micro-batch is repeated, with the same rows and so under the same number, unless another epoch takes that.
"""

from __future__ import annotations

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


def require_none_begun(store: Store, last: Commit, remedy: str) -> None:
    """Check that the epoch after the ``last`` one may be another than that of the next micro-batch.

    Raises:
        CheckpointError: a sink may have the deltas of that micro-batch under this number; ``remedy`` is the way out.
    """
    batch = next_batch(last.facts.get(SPARK, {}).get("batch"))
    if store.list(record_of(batch)):
        raise CheckpointError(
            f"{store.url}: micro-batch {batch} ended before its commit, and on_epoch= may have its deltas as those of epoch "
            f"{last.epoch + 1}, which has to be theirs: {remedy}"
        )
