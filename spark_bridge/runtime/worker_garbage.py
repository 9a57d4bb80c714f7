"""Keeps what a Spark worker has loaded out of the collections of garbage that PySpark runs after each task."""

from __future__ import annotations

import gc


def freeze_what_is_loaded() -> None:
    """Let Python's later collections of garbage pass over all objects that this worker has now, if it is one.

    PySpark collects garbage after each task of a worker that it uses again. Over the modules of polars, pyarrow and this package
    that takes 40 ms of processor time, several times as long as a small task; over what a task leaves behind, less than one.

    What was frozen before is part of one more collection, so that a plan that is no longer used is freed. Cost: that collection.
    """
    from pyspark import TaskContext

    if TaskContext.get() is None:
        return
    gc.unfreeze()
    gc.collect()
    gc.freeze()
