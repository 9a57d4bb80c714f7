"""Bounded DataFrames are run through the views of an engine in one epoch."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evercurrent.core.data.clock import END_OF_TIME
from evercurrent.views.checkpoint import Checkpoint
from evercurrent.views.engine.engine import Engine
from evercurrent.views.partitioned.checkpoint_reader import CheckpointReader

from .execution.arguments import require_declarations, require_flag
from .execution.bucket_number import BUCKETS
from .execution.options import OnEpoch
from .input.inputs import check_sources, tagged
from .input.origins import require_no_shuffle
from .output.spark_views import InSpark, SparkViews
from .query import DRIVER_ROWS, prepared
from .runtime.session import require_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def run_batch(
    engine: Engine,
    sources: Mapping[str, DataFrame],
    *,
    checkpoint: str | Path | Checkpoint | None = None,
    buckets: int = BUCKETS,
    on_epoch: OnEpoch | None = None,
    driver_rows: int = DRIVER_ROWS,
    is_all: bool = False,
) -> SparkViews:
    """Return the views of an engine over bounded DataFrames, all of whose rows are one epoch.

    The result is that of an engine into which the same rows were pushed in one epoch. With ``is_all`` no row will come
    after these: every watermark moves to the end of time, so that all windows close.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> from evercurrent import spark_bridge
    >>> engine = ec.Engine()
    >>> hits = engine.source("hits", {"ip": pl.String})
    >>> _ = engine.view("visitors", hits.group_by("ip").len("n"))
    >>> spark = spark_bridge.local_session()  # doctest: +SKIP
    >>> views = spark_bridge.run_batch(engine, {"hits": spark.read.parquet("hits")})  # doctest: +SKIP
    >>> views.view("visitors").to_spark().show()  # doctest: +SKIP

    Args:
        engine: an engine with sources and views, into which nothing was pushed.
        sources: a DataFrame for every source.
        checkpoint: where views and states are kept; it has to be new. By default they are kept in a folder that is
            deleted with the result and its views.
        buckets: the number of parts into which states are cut.
        on_epoch: as for ``run``.
        driver_rows: as for ``run``.
        is_all: whether no more rows will come.

    Raises:
        InputError, PlanError, CheckpointError: as for ``run``; CheckpointError also if the checkpoint has epochs already.
    """
    require_spark()
    require_declarations(engine)
    require_flag("is_all", is_all)
    check_sources(engine, sources, is_streaming=False)
    require_no_shuffle(sources, engine.sources)
    folder: Any = None
    if checkpoint is None:
        folder = tempfile.TemporaryDirectory(prefix="evercurrent-", ignore_cleanup_errors=True)
        checkpoint = folder.name
    spark = next(iter(sources.values())).sparkSession
    batches = prepared(engine, spark, checkpoint, buckets, driver_rows, on_epoch)
    batches.require_new()
    promised = (
        {name: END_OF_TIME for name, source in engine.sources.items() if source.event_time} if is_all else {}
    )
    batches.run(tagged(sources, engine.sources), 0, promised)
    setup = batches.setup
    reader = CheckpointReader(setup.unpickled(), batches.store, allow_pickle=setup.allow_pickle)
    reader.keeps = folder
    return SparkViews(engine, reader, InSpark(spark, setup))
