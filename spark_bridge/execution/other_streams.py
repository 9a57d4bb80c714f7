"""A query goes on with other streams than before: Spark's own checkpoint is written anew for them, and a commit names it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from evercurrent.views.checkpoint.begun import SPARK

from ..input.streams import Streams
from .continuity import require_continued
from .micro_batches import MicroBatches
from .offset_log import FOLDER, another, delete_others, has_other_count, rewritten

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def continue_with(
    batches: MicroBatches, before: Streams | None, streams: Streams, spark: SparkSession
) -> None:
    """Have micro-batches continue with these streams, which were others ``before``. The query is not running.

    The folder of Spark's own checkpoint for them is committed by an epoch without input. Where a micro-batch was begun and a sink
    may have its deltas, that is repeated first, with the same rows and so under the same number, and its own epoch commits the
    folder.

    Raises:
        CheckpointError: Spark cannot continue with them, or it could not be written.
        InputError: a new stream is not of its own.
    """
    store, committed = batches.store, batches.facts.get("folder", FOLDER)
    folder = committed
    if before is None:
        # No micro-batch was committed: one that Spark has planned for other streams is not repeated.
        if batches.last_batch is None and has_other_count(store, folder, streams.numbered):
            folder = another(store)
    else:
        require_continued(store.url, before, streams)
        if before.numbered != streams.numbered:
            folder = rewritten(store, committed, before.numbered, streams.numbered)
            if not batches.has_begun():
                facts = {**batches.facts, **streams.as_facts(), "folder": folder}
                batches.without_rows({}, None, {SPARK: facts}, spark)
                committed = folder
    delete_others(store, {folder, committed})
    batches.streams, batches.folder = streams, folder
    batches.setup = replace(batches.setup, streams=streams.sources)
