"""The rows of a micro-batch, for trying a failed epoch again with some of them.

Rows are numbered by (partition, position in it), as Spark reads them in that order each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from evercurrent.core.data.clock import Epoch
from evercurrent.core.data.columns.kernels import Ints
from evercurrent.core.data.halving import Span
from evercurrent.core.state.ledger import Refused
from evercurrent.views.epochs.refusing import NOT_COMPUTED
from evercurrent.views.partitioned.stage_runner import StageRunner
from evercurrent.views.partitioned.tasks import Instant, TaskResult

from ..input.origins import origins_apart
from .arrow_results import arrow_table
from .collecting import PLACE
from .jobs import Setup, SparkJobs, arrived, taken_apart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RowsHere:
    """The rows of a micro-batch that were collected in the driver process: see ``SomeRows``."""

    def __init__(self, setup: Setup, runner: StageRunner, rows: pa.Table) -> None:
        self._setup = setup
        self._runner = runner
        self._rows = rows

    @property
    def height(self) -> int:
        """See ``SomeRows``."""
        return int(self._rows.num_rows)

    def arrive(self, instant: Instant, spans: Sequence[Span]) -> list[TaskResult]:
        """See ``SomeRows``."""
        some = self._among(spans)
        return [arrived(self._setup, self._runner, instant, 0, some)] if some.num_rows else []

    def refused(self, places: Sequence[int]) -> Sequence[Refused]:
        """See ``SomeRows``."""
        return _refused(self._setup, self._among([(place, place + 1) for place in places]))

    def _among(self, spans: Sequence[Span]) -> pa.Table:
        parts = [self._rows.slice(start, end - start) for start, end in spans]
        return pa.concat_tables(parts) if parts else self._rows.slice(0, 0)


class RowsInSpark:
    """The rows of a micro-batch that stay in executors, each time read anew: see ``SomeRows``."""

    def __init__(self, setup: Setup, jobs: SparkJobs, rows: DataFrame) -> None:
        from pyspark.sql import functions as F  # noqa: N812 (the usual name)

        self._setup = setup
        self._jobs = jobs
        self._rows = rows.withColumn(PLACE, F.monotonically_increasing_id())

    @cached_property
    def _counts(self) -> tuple[Ints, Ints]:
        """The first id of each partition that has rows, and their number."""
        from pyspark.sql import functions as F  # noqa: N812 (the usual name)

        partition = F.col(PLACE).bitwiseAND(~((1 << 33) - 1)).alias("first")
        table = arrow_table(self._rows.groupBy(partition).count()).sort_by("first")
        return tuple(table.column(name).to_numpy().astype(np.int64) for name in ("first", "count"))

    @property
    def height(self) -> int:
        """See ``SomeRows``."""
        return int(self._counts[1].sum())

    def arrive(self, instant: Instant, spans: Sequence[Span]) -> list[TaskResult]:
        """See ``SomeRows``."""
        return self._jobs.arrive(self._rows, instant, among=self._ids(spans)) if spans else []

    def refused(self, places: Sequence[int]) -> Sequence[Refused]:
        """See ``SomeRows``."""
        from pyspark.sql import functions as F  # noqa: N812 (the usual name)

        ids = self._ids([(place, place + 1) for place in places])[:, 0].tolist()
        rows = arrow_table(self._rows.where(F.col(PLACE).isin(ids))).sort_by(PLACE)
        return _refused(self._setup, rows.drop_columns([PLACE]))

    def _ids(self, spans: Sequence[Span]) -> Ints:
        """Return the first and the last id of each part of a span that is in one partition."""
        first, counts = self._counts
        ends = np.cumsum(counts)
        starts = ends - counts
        parts = []
        for start, end in spans:
            low, high = np.maximum(starts, start), np.minimum(ends, end)
            own = np.flatnonzero(low < high)
            parts.append(
                np.stack(
                    [first[own] + low[own] - starts[own], first[own] + high[own] - starts[own] - 1], axis=1
                )
            )
        return np.concatenate(parts)


def _refused(setup: Setup, rows: pa.Table) -> list[Refused]:
    """Return rows as refused, of each source that has some."""
    own, _ = origins_apart(rows, setup.sources())
    fitting, _ = taken_apart(setup.sources(), own)
    return [Refused(Epoch(0), name, NOT_COMPUTED, frame) for name, frame in fitting.items() if frame.height]
