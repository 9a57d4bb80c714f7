"""Readers of a view's deltas, epoch by epoch, with the interface of every PySpark from 4.0 on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from evercurrent.core.data.errors import CheckpointError
from evercurrent.core.data.schema import listed
from evercurrent.views.checkpoint import Commit, DeltaRef, Pieces
from evercurrent.views.durability.time_travel import BORN, delta_files
from evercurrent.views.epochs.history import BEFORE_ALL
from evercurrent.views.store import store_at

from ..runtime.spark_types import frame_to_spark_arrow
from .delta_options import ReadOptions

PARTITION_BYTES = 32 << 20
"""The bytes up to which delta files are read together in one task."""


class Files(InputPartition):
    """Delta files that one task reads."""

    def __init__(self, refs: tuple[DeltaRef, ...]) -> None:
        super().__init__(None)
        self.refs = refs


def in_partitions(refs: Sequence[DeltaRef]) -> list[Files]:
    """Return partitions of delta files in the order of their epochs, small ones together."""
    groups: list[list[DeltaRef]] = []
    size = PARTITION_BYTES
    for ref in sorted(refs, key=lambda ref: ref.epoch):
        if size + ref.nbytes > PARTITION_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(ref)
        size += ref.nbytes
    return [Files(tuple(group)) for group in groups]


def batches_of(options: ReadOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition, file by file."""
    assert isinstance(partition, Files)
    pieces = Pieces.of(store_at(options.path))
    for ref in partition.refs:
        yield from frame_to_spark_arrow(pieces.read_delta(ref)).to_batches()


class BatchReader(DataSourceReader):
    """Reads the epochs that are committed, once."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        log = self._options.log()
        last = log.last
        if self._options.since is None or last is None:
            return [Files(())]
        end = last.epoch if self._options.until is None else self._options.until
        refs = delta_files(log, self._options.view, self._options.since, last.facts.get(BORN, {}))
        # Without partitions Spark makes one that is None.
        return in_partitions([ref for ref in refs if ref.epoch <= end]) or [Files(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return batches_of(self._options, partition)


class EpochReader(DataSourceStreamReader):
    """Reads the deltas of epochs. An offset is the epoch up to which all have been read."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._log = options.log()
        self._columns = _columns_of(self._log.last, options.view)
        self._first: int | None = options.since

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        # Spark calls this more than once in a first micro-batch, so it must not advance with the commits.
        if self._first is None:
            self._first = self._last()
        return {"epoch": self._first}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        self._require_reached(end["epoch"], start["epoch"])
        return in_partitions(self._refs(start["epoch"], end["epoch"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return batches_of(self._options, partition)

    def _last(self) -> int:
        commit = self._log.refresh()
        return BEFORE_ALL if commit is None else commit.epoch

    def _require_reached(self, there: int, read: int) -> None:
        if there < read:
            raise CheckpointError(
                f"{self._options.where} is at epoch {there}, but this query has read up to epoch {read}: it is not "
                "the checkpoint that the query began with; put that one back, or begin with a new checkpointLocation"
            )

    def _require_same_view(self, last: Commit | None) -> None:
        columns = _columns_of(last, self._options.view)
        if columns == self._columns or last is None:
            return
        if columns is None:
            raise CheckpointError(
                f"{self._options.where} is no longer there, it was dropped by epoch {last.epoch}; stop this query, or declare the view "
                "again and begin with a new checkpointLocation"
            )
        raise CheckpointError(
            f"{self._options.where} has other columns by epoch {last.epoch}, {listed(columns)}, and this query began with "
            f"{listed(self._columns or {})}; begin with a new checkpointLocation"
        )

    def _refs(self, since: int, until: int) -> list[DeltaRef]:
        last = self._log.refresh()
        self._require_same_view(last)
        born = {} if last is None else last.facts.get(BORN, {})
        refs = delta_files(self._log, self._options.view, since, born)
        return [ref for ref in refs if ref.epoch <= until]


def _columns_of(commit: Commit | None, view: str) -> Mapping[str, str] | None:
    """Return the columns of a view as of a commit, with their types; None if there is no such view."""
    declared = {} if commit is None else commit.plan["views"].get(view, {})
    columns: Mapping[str, str] | None = declared.get("columns")
    return columns


class UnlimitedReader(EpochReader):
    """Reads all committed epochs in each micro-batch, for PySpark 4.0 and 4.1."""

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override, unused-ignore]  # noqa: N802
        return {"epoch": self._last()}
