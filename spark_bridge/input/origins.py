"""The origins of a micro-batch's rows, partition and file, are checked if the order of rows matters.

In an upsert source without ``sequence_by`` the last row of a key wins. Spark does not define the order of partitions, and
packs files into them by size: only rows of one partition, and of one file in it, have an intended order. After a shuffle,
such as ``repartition(1)``, rows of several partitions and files look like those of one; shuffles are detected in the plan of
the DataFrame, before anything runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import listed
from evercurrent.views.dataframe.source import Source
from evercurrent.views.partitioned.tasks import Origins

from .inputs import TAG, arriving, is_tagged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITION, FILE = "evercurrent:partition", "evercurrent:file"
"""Additional columns of rows: the number of their partition, and a hash of the name of their file, if there is one."""

_STEP = re.compile(r"^[\s:+*|-]*(?:\(\d+\) )?([A-Za-z]+)", re.MULTILINE)
"""The operator of each line of a plan that Spark explains."""


def sources_in_order(sources: Mapping[str, Source]) -> list[str]:
    """Return the sources for which the order of rows matters."""
    return [name for name, source in sources.items() if source.kind == "upsert" and not source.sequence_by]


def require_no_shuffle(frames: Mapping[str, DataFrame], sources: Mapping[str, Source]) -> None:
    """Check that no rows are shuffled before a source in which their order matters.

    Rows that are sorted after the shuffle have an intended order.

    Raises:
        InputError: some are; names the source and the remedies.
    """
    for name in sources_in_order(sources):
        steps = _STEP.findall(explained(frames[name]))
        if "Exchange" in steps and "Sort" not in steps[: steps.index("Exchange")]:
            raise InputError(
                f"source {name!r}: its rows are shuffled on their way (by repartition, a join, a grouping or the like), "
                "after which Spark does not keep the order in which they came, and the last row of a key has to win. Declare "
                "the source with sequence_by=, a column that orders the changes of a key, or leave the shuffle "
                "out: .coalesce(1) makes one partition without it"
            )


def require_no_aggregation(frames: Mapping[str, DataFrame]) -> None:
    """Check that no stream is aggregated by Spark without a watermark, since its results change and are not rows of their own.

    Raises:
        InputError: one is; names the source and the remedy.
    """
    for name, frame in frames.items():
        plan = explained(frame)
        if "StateStoreSave" in _STEP.findall(plan) and "EventTimeWatermark" not in plan:
            raise InputError(
                f"source {name!r}: Spark aggregates its rows (groupBy, or the like) before they come, and would pass on results "
                "that later ones replace; give the rows as they are, and declare the grouping as a view: .group_by(...).agg(...)"
            )


_FILES = re.compile(r"FileSource\[([^\]]*)\]")


def paths_of(plan: str) -> list[str]:
    """Return the paths of the files that a stream with this plan reads, in their order; of other streams none are known."""
    return [
        f"/{path.removeprefix('file:').strip('/')}" if "://" not in path else path
        for path in _FILES.findall(plan)
    ]


def explained(frame: DataFrame) -> str:
    """Return the physical plan of a DataFrame, as ``explain`` prints it."""
    untyped: Any = frame
    if hasattr(untyped, "_jdf"):
        utils = untyped.sparkSession._jvm.PythonSQLUtils
        return str(utils.explainString(untyped._jdf.queryExecution(), "simple"))
    return str(untyped._explain_string(mode="simple"))


def with_origins(rows: DataFrame, sources: Mapping[str, Source]) -> DataFrame:
    """Return the rows, with their partition and file if the order of rows matters."""
    from pyspark.sql import functions as F  # noqa: N812 (the usual name)

    if not sources_in_order(sources):
        return rows
    return rows.withColumns({PARTITION: F.spark_partition_id(), FILE: F.xxhash64(F.input_file_name())})


def origins_apart(table: pa.Table, sources: Mapping[str, Source]) -> tuple[pa.Table, Origins]:
    """Return the rows as they were before ``with_origins``, and the partitions and files of each source's rows."""
    if PARTITION not in table.column_names:
        return table, {}
    rows, columns = table.drop_columns([PARTITION, FILE]), arriving(sources)
    pairs = np.stack([table.column(name).to_numpy().astype(np.int64) for name in (PARTITION, FILE)], axis=1)
    tags = rows.column(TAG).to_numpy() if is_tagged(rows.column_names, columns) else np.zeros(len(pairs))
    origins_by_source: dict[str, frozenset[tuple[int, int]]] = {}
    for name in sources_in_order(sources):
        own = np.unique(pairs[tags == list(columns).index(name)], axis=0)
        origins_by_source[name] = frozenset((int(partition), int(file)) for partition, file in own)
    return rows, origins_by_source


def require_order(all_origins: Iterable[Origins]) -> None:
    """Check that the rows of each source are of one partition and one file, as the last row is undefined otherwise.

    Raises:
        InputError: they are not; names the sources and the remedies.
    """
    together: dict[str, frozenset[tuple[int, int]]] = {}
    for origins in all_origins:
        for name, own in origins.items():
            together[name] = together.get(name, frozenset()) | own
    for what, way in (
        (1, "one file per micro-batch (maxFilesPerTrigger=1)"),
        (0, "one partition (.coalesce(1), where its order is that of the changes)"),
    ):
        counts = {name: len({origin[what] for origin in own}) for name, own in together.items()}
        if several := [name for name, count in counts.items() if count > 1]:
            raise InputError(
                f"source {listed(several)}: a micro-batch has rows of {counts[several[0]]} {('partitions', 'files')[what]}, "
                "whose order Spark does not define, and the last row of a key has to win; nothing has changed. Declare "
                f"the source with sequence_by=, a column that orders the changes of a key, or give {way}"
            )
