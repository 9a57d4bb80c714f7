"""The rows of a small micro-batch are collected in the driver process, as Python workers cost more than a few rows do.

The number and width of the rows of a micro-batch are unknown before it is read. They are expected to be those of the epoch
before; the first micro-batch is expected to be small. A plain job of Spark's Java reads the rows and returns at most as
many as are accepted, none of them wider than fits: so no micro-batch exceeds the driver's memory, however wide its rows. If
there are more, or wider ones, a job in Python workers reads them again.

Many small partitions, as Kafka has, are read by as few tasks as there are cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from evercurrent.views.partitioned.limits import MEBIBYTE, DriverLimits

from ..input.inputs import PLACE as PLACE
from ..runtime.spark_types import quoted
from .arrow_results import arrow_table
from .parallelism import heap, tasks_for, tasks_for_unknown
from .widths import is_narrow, plain_width, row_width

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FEW_ROWS = 10_000
"""The first micro-batch, about which nothing is known, is collected if it has at most this many rows."""

HEAP_SHARE = 8
"""Collected rows may take one part in this many of the memory of the driver's Java."""

IN_PARTITION = (1 << 33) - 1
"""The bits of ``PLACE`` that have the position in a partition."""

EXCEEDS = "evercurrent:exceeds"
"""Column of a row that is beyond the limits, and is returned without its values."""

_POSITION = f"({quoted(PLACE)} & {IN_PARTITION}L)"


@dataclass(frozen=True, slots=True)
class Expected:
    """The rows and bytes that a micro-batch is expected to have: those of the epoch before; None if there is none."""

    rows: int | None
    bytes: int

    def most_rows(self, limits: DriverLimits) -> int:
        """Return how many rows are collected at most; 0 if it is not tried.

        At least twice as many as are expected, so that the limit on the width of a row, which is lower for more rows, is seldom
        met. A power of two: Spark generates and compiles code with this number in it, 30 ms for each other number.

        >>> limits = DriverLimits(200_000, 1 << 26)
        >>> [Expected(rows, 100 * (rows or 0)).most_rows(limits) for rows in (None, 3, 40_000, 150_000, 300_000)]
        [10000, 10000, 131072, 200000, 0]
        >>> Expected(150_000, 150_000 * 2_000).most_rows(limits)  # too wide
        0
        """
        if self.rows is None:
            return min(limits.rows, FEW_ROWS)
        if self.rows > limits.rows or self.bytes > limits.bytes:
            return 0
        return min(limits.rows, max(1 << (2 * self.rows - 1).bit_length(), FEW_ROWS))


def collected(
    rows: DataFrame,
    most_rows: int,
    most_bytes: int,
    tasks: int,
    *,
    is_known: bool = True,
    there: int | None = None,
) -> pa.Table | None:
    """Return all rows, by (partition, position in it); None if they exceed the limits.

    ``most_rows`` is divided among the ``tasks`` that read the rows, and ``most_bytes`` among the rows: none may be wider
    than its part. With ``is_known=False`` each task ends once it has read too many rows, so that a batch that may be large is
    not read completely; where there are several this costs a shuffle of some 0.1 s. ``there`` is the number of partitions, if known.

    Expressions are texts: each function of PySpark's on columns is several calls of Java, which a micro-batch of one row would
    wait for. Cost: a scan of the rows; each task sends at most one row more than its share.
    """
    readers = max(1, min(tasks, most_rows))
    share, widest = most_rows // readers, most_bytes // (most_rows + readers)
    is_all_narrow = is_narrow(rows.schema)
    if is_all_narrow and plain_width(rows.schema) > widest:
        return None
    has_several = readers > 1
    is_shared = is_known and has_several
    # To plan it is some 2 ms. But a limit that is not the last step would shuffle what is not known to Spark as one partition.
    is_needed = there is None or there > readers or not (is_all_narrow or is_shared)
    few = rows.coalesce(readers) if is_needed else rows
    if has_several:
        few = few.selectExpr(f"monotonically_increasing_id() AS {quoted(PLACE)}", "*")
    # One task ends at a limit by itself; several would send their rows through a shuffle to count them.
    few = few.where(f"{_POSITION} <= {share}") if is_shared else few.limit(most_rows + 1)
    if not is_all_narrow:
        few = _marked(few, rows, f"{_POSITION} >= {share}" if is_shared else "false", widest)
    table = arrow_table(few)
    if table.num_rows > most_rows or _exceeds(table, share if is_shared and is_all_narrow else None):
        return None
    # A shuffle does not keep the order.
    table = table.sort_by(PLACE) if has_several and not is_known else table
    return table.select(rows.columns)


def _marked(few: DataFrame, rows: DataFrame, is_beyond: str, widest: int) -> DataFrame:
    """Return the same rows, those that are beyond the limits marked and without values."""
    width = row_width(rows.schema)
    marked = few.selectExpr(f"({is_beyond} OR {width} > {widest}) AS {quoted(EXCEEDS)}", "*")
    columns = map(quoted, rows.columns)
    values = [f"IF({quoted(EXCEEDS)}, NULL, {column}) AS {column}" for column in columns]
    places = [quoted(PLACE)] if PLACE in few.columns else []
    return marked.selectExpr(quoted(EXCEEDS), *places, *values)


def _exceeds(table: pa.Table, share: int | None) -> bool:
    """Return whether a row is marked or, where none is, is at the place of one too many for its task."""
    if share is None:
        if EXCEEDS not in table.column_names:
            return False
        import pyarrow.compute as pc  # Imported here, as it takes long and workers do not need it.

        return bool(pc.any(table.column(EXCEEDS)).as_py())
    return bool(((table.column(PLACE).to_numpy() & IN_PARTITION) >= share).any())


def most_bytes(rows: DataFrame, limits: DriverLimits) -> int:
    """Return how many bytes may be collected without harm to the driver's Java; if that is not known, twice the limit."""
    memory = heap(rows.sparkSession)
    return 2 * limits.bytes if memory is None else max(memory // HEAP_SHARE, MEBIBYTE)


def tasks_to_read(there: int, expected: Expected, cores: int) -> int:
    """Return the number of tasks that read a micro-batch with this many partitions.

    >>> few, many, wide = Expected(5_000, 40_000), Expected(1_000_000, 8_000_000), Expected(1_000, 1 << 30)
    >>> [tasks_to_read(64, expected, 2) for expected in (Expected(None, 0), few, many, wide)]
    [8, 2, 20, 64]
    """
    if expected.rows is None:
        return tasks_for_unknown(there, cores)
    return max(tasks_for(expected.rows, expected.bytes, there), min(there, cores))
