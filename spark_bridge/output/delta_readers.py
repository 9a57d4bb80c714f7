"""Readers of a view's deltas, epoch by epoch, with the interface of every PySpark from 4.0 on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from evercurrent.core.data.errors import CheckpointError, EpochGoneError, MissingFileError
from evercurrent.core.data.schema import listed
from evercurrent.views.checkpoint import Commit, DeltaRef, Pieces
from evercurrent.views.durability.time_travel import BORN, delta_files
from evercurrent.views.epochs.history import BEFORE_ALL
from evercurrent.views.sinks.counted_rows import counted
from evercurrent.views.store import store_at

from ..runtime.sentences import in_a_sentence
from ..runtime.spark_types import frame_to_spark_arrow
from .change_types import with_change_types
from .contents_partitions import Bucket, Summed, contents_partitions
from .delta_options import ReadOptions
from .epoch_filters import Span, narrowed

BEFORE_CONTENTS = BEFORE_ALL - 1
"""The offset before a first micro-batch that has the contents."""

Offset: TypeAlias = dict[str, Any]
"""An epoch, and who committed it, where that is known: a checkpoint that begins anew counts its epochs from the start, too."""

FROM_CONTENTS = "read its contents with option 'versionAsOf'"
NEW_CHECKPOINT = "a new checkpoint of this query (checkpointLocation, or checkpoint= of spark_bridge.run)"
FROM_CONTENTS_ON = f"begin with option 'since', 'contents', and {NEW_CHECKPOINT}"
"""What a reader and a stream do whose first deltas are not there."""

OTHER_CHECKPOINT = (
    f"it is not the checkpoint that the query began with; put that one back, or begin with {NEW_CHECKPOINT}"
)

PARTITION_BYTES = 32 << 20
"""The bytes up to which delta files are read together in one task."""


class Files(InputPartition):
    """Delta files that one task reads."""

    def __init__(self, refs: tuple[DeltaRef, ...]) -> None:
        super().__init__(None)
        self.refs = refs


class ContentsAt(InputPartition):
    """A part of the contents as of an epoch, read as rows of that epoch."""

    def __init__(self, part: Bucket | Summed, epoch: int) -> None:
        super().__init__(None)
        self.part, self.epoch = part, epoch


def in_partitions(refs: Sequence[DeltaRef], *, whole_epochs: bool = False) -> list[Files]:
    """Return partitions of delta files in the order of their epochs, small ones together.

    ``whole_epochs``: all files of an epoch are in one partition.
    """
    groups: list[list[DeltaRef]] = []
    size = PARTITION_BYTES
    for ref in sorted(refs, key=lambda ref: ref.epoch):
        may_divide = not (whole_epochs and groups and groups[-1][-1].epoch == ref.epoch)
        if size + ref.nbytes > PARTITION_BYTES and may_divide:
            groups.append([])
            size = 0
        groups[-1].append(ref)
        size += ref.nbytes
    return [Files(tuple(group)) for group in groups]


@dataclass(frozen=True, slots=True)
class Reading:
    """What the tasks of a reader return: the options, and the names of the columns."""

    options: ReadOptions
    columns: tuple[str, ...]

    def partitions(self, refs: Sequence[DeltaRef]) -> list[Files]:
        """Return partitions of delta files."""
        return in_partitions(refs, whole_epochs=bool(self.options.keys))

    def batches(self, partition: InputPartition, epoch: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition; contents as those of an epoch, each row with its count, if one is given."""
        with in_a_sentence():
            for frame in self._frames(partition, epoch):
                yield from frame_to_spark_arrow(frame.select(self.columns), self.options.where).to_batches()

    def _frames(self, partition: InputPartition, epoch: int | None) -> Iterator[pl.DataFrame]:
        if isinstance(partition, Bucket | Summed):
            contents = partition.contents(self.options)
            if contents is not None:
                yield contents if epoch is None else self._named(counted(contents, epoch))
            return
        assert isinstance(partition, Files)
        pieces = Pieces.of(store_at(self.options.path))
        by_epoch = groupby(partition.refs, key=lambda ref: ref.epoch if self.options.keys else ref)
        for _, refs in by_epoch:
            yield self._named(pl.concat(pieces.read_delta(ref) for ref in refs))

    def _named(self, delta: pl.DataFrame) -> pl.DataFrame:
        return with_change_types(delta, self.options.keys) if self.options.change_types else delta


class ContentsReader(DataSourceReader):
    """Reads the contents as of an epoch, once."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def partitions(self) -> Sequence[InputPartition]:
        options = self._reading.options
        assert options.version is not None, "contents are read"
        with in_a_sentence():
            return contents_partitions(options, options.log(), options.version)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reading.batches(partition)


class BatchReader(DataSourceReader):
    """Reads the deltas of the epochs that are committed, once. Conditions on ``_epoch`` limit the files that are read."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._options = reading.options
        self._span: Span = (
            BEFORE_ALL if self._options.since is None else self._options.since,
            self._options.until,
        )

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 (Spark's name)
        """Limit the epochs; Spark checks each row, too."""
        self._span = narrowed(self._span, filters)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        with in_a_sentence():
            log = self._options.log()
            last, (since, until) = log.last, self._span
            if self._options.since is None or last is None:
                return [Files(())]
            born = last.facts.get(BORN, {})
            # Without the conditions all deltas of the present definition are read, and conditions only leave rows out.
            if self._options.since == BEFORE_ALL and since < born.get(self._options.view, 0):
                since = BEFORE_ALL
            refs = delta_files(log, self._options.view, since, born, FROM_CONTENTS)
            # Without partitions Spark makes one that is None.
            there = [ref for ref in refs if until is None or ref.epoch <= until]
            return self._reading.partitions(there) or [Files(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reading.batches(partition)


class EpochReader(DataSourceStreamReader):
    """Reads the deltas of epochs. An offset is the epoch up to which all have been read, with the writer of its commit.

    With the contents first, the first micro-batch has those as of the epoch at its end, and those after it deltas.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._options = options = reading.options
        self._log = options.log()
        self._columns = _columns_of(self._log.last, options.view)
        self._first: int | None = options.since
        self._is_continued = False

    def initialOffset(self) -> Offset:  # noqa: N802
        # Spark calls this more than once in a first micro-batch, so it must not advance with the commits.
        if self._first is None:
            self._first = BEFORE_CONTENTS if self._options.has_contents else self._last()
        return self._offset(self._first)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        with in_a_sentence():
            self._require_reached(end["epoch"], start["epoch"])
            self._require_same_writers(start, end)
            if start["epoch"] == BEFORE_CONTENTS:
                self._log.refresh()
                parts = contents_partitions(self._options, self._log, end["epoch"])
                return [ContentsAt(part, end["epoch"]) for part in parts]
            return self._reading.partitions(self._refs(start["epoch"], end["epoch"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, ContentsAt):
            return self._reading.batches(partition.part, partition.epoch)
        return self._reading.batches(partition)

    def _last(self) -> int:
        commit = self._log.refresh()
        return BEFORE_ALL if commit is None else commit.epoch

    def _offset(self, epoch: int) -> Offset:
        writer = self._writer_of(epoch)
        return {"epoch": epoch} if writer is None else {"epoch": epoch, "writer": writer}

    def _writer_of(self, epoch: int) -> str | None:
        """Return who has committed this epoch; None where it has no commit of its own, or that is no longer retained."""
        try:
            return self._log.at(epoch).writer
        except (EpochGoneError, MissingFileError):  # Its writer may delete it just now.
            return None

    def _is_another(self, offset: Offset) -> bool:
        """Return whether the epoch of an offset was not committed by the writer that the offset has, as far as commits are retained."""
        epoch, retained = offset["epoch"], self._log.epochs()
        if "writer" not in offset or not retained or epoch < retained[0]:
            return False
        # An offset has a writer only where its epoch had a commit of its own.
        return epoch not in retained or self._writer_of(epoch) not in (None, offset["writer"])

    def _require_same_writers(self, *offsets: Offset) -> None:
        """Check, once in a process, that the epochs at these offsets are those that the query has read.

        Raises:
            CheckpointError: others were committed under their numbers.
        """
        if self._is_continued:
            return
        self._log.refresh()
        for offset in offsets:
            if self._is_another(offset):
                raise CheckpointError(
                    f"{self._options.where} has another epoch {offset['epoch']} than the one that this query has read: {OTHER_CHECKPOINT}"
                )
        self._is_continued = True

    def _require_reached(self, there: int, read: int) -> None:
        if there < read:
            raise CheckpointError(
                f"{self._options.where} is at epoch {there}, but this query has read up to epoch {read}: {OTHER_CHECKPOINT}"
            )

    def _require_same_view(self, last: Commit | None) -> None:
        columns = _columns_of(last, self._options.view)
        if columns == self._columns or last is None:
            return
        if columns is None:
            raise CheckpointError(
                f"{self._options.where} is no longer there, it was dropped by epoch {last.epoch}; stop this query, or declare the view "
                f"again and begin with {NEW_CHECKPOINT}"
            )
        raise CheckpointError(
            f"{self._options.where} has other columns by epoch {last.epoch}, {listed(columns)}, and this query began with "
            f"{listed(self._columns or {})}; begin with {NEW_CHECKPOINT}"
        )

    def _refs(self, since: int, until: int) -> list[DeltaRef]:
        last = self._log.refresh()
        self._require_same_view(last)
        born = {} if last is None else last.facts.get(BORN, {})
        refs = delta_files(self._log, self._options.view, since, born, FROM_CONTENTS_ON)
        return [ref for ref in refs if ref.epoch <= until]


def _columns_of(commit: Commit | None, view: str) -> Mapping[str, str] | None:
    """Return the columns of a view as of a commit, with their types; None if there is no such view."""
    declared = {} if commit is None else commit.plan["views"].get(view, {})
    columns: Mapping[str, str] | None = declared.get("columns")
    return columns


class UnlimitedReader(EpochReader):
    """Reads all committed epochs in each micro-batch, for PySpark 4.0 and 4.1."""

    def latestOffset(self) -> Offset:  # type: ignore[override, unused-ignore]  # noqa: N802
        return self._offset(self._last())
