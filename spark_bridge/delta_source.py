"""A view's deltas as a source of other Spark queries, each epoch exactly once.

After ``register(spark)``:

    spark.readStream.format("evercurrent").option("path", "/data/checkpoint").option("view", "depth").load()

gives the view's columns, ``_epoch`` and ``_diff``; ``spark.read`` gives those that are there. Offsets are epochs, and only
what is committed is read, so that a query which starts again goes on where its own checkpoint says.

Options: ``path``, a folder or url of a checkpoint, and ``view``; ``since``, the epoch after which to begin (without, with
the first, 0), or ``latest``, only what comes, which is settled when the query's first micro-batch is done; ``until``, for
``spark.read``, the last epoch; ``maxEpochsPerTrigger``, for ``spark.readStream``. Other ones are refused, and epochs that
are still to come.

Rows of a micro-batch come in no order: ``_epoch`` says which came first. An epoch is never in two micro-batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from evercurrent.core.errors import CheckpointError, InputError
from evercurrent.core.schema import DIFF, EPOCH, listed
from evercurrent.views.checkpoint import Commit, CommitLog, DeltaRef, Pieces
from evercurrent.views.dtype_reading import dtype_of_text
from evercurrent.views.history import BEFORE_ALL
from evercurrent.views.past import BORN, delta_files
from evercurrent.views.store import store_at

from .spark_types import frame_to_spark_arrow, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "evercurrent"
"""The name to give to ``spark.readStream.format``."""

PARTITION_BYTES = 32 << 20
"""Delta files are read together in one task until they are so large."""

OPTIONS = ("path", "view", "since", "until", "maxEpochsPerTrigger")

OF_SEVERAL, OF_TABLES = "paths", "provider"
"""Options that Spark adds: for ``load([one, other])``, and where a table is made of a format."""


def register(spark: SparkSession) -> None:
    """Make the format "evercurrent" known to a session. Once more does no harm."""
    spark.dataSource.register(ViewDeltas)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the options ask for. ``since`` is None for what comes from now on."""

    path: str
    view: str
    since: int | None
    until: int | None
    most_epochs: int | None

    @property
    def where(self) -> str:
        """The view in its checkpoint, as messages show it."""
        return f"view {self.view!r} of checkpoint {self.path}"

    def log(self) -> CommitLog:
        """The commits, as they are now.

        Raises:
            InputError: an epoch that is asked for is still to come.
        """
        log = CommitLog(store_at(self.path))
        last = log.last
        for name, epoch, otherwise in (
            ("since", self.since, "'latest' for what is still to come"),
            ("until", self.until, "leave it out"),
        ):
            if epoch is not None and last is not None and epoch > last.epoch:
                raise InputError(
                    f"format {FORMAT!r}: option {name!r} is {epoch}, and {self.where} is at epoch {last.epoch}; give one "
                    f"up to that, or {otherwise}"
                )
        return log


def asked(options: Any) -> Asked:
    """The options, checked.

    Raises:
        InputError: one is missing, unknown or no epoch; names it.
    """
    _require_known(options)
    for name in ("path", "view"):
        if not options.get(name):
            raise InputError(
                f"format {FORMAT!r}: option {name!r} is missing; give .option('path', checkpoint).option('view', name)"
            )
    wanted = Asked(
        path=options["path"],
        view=options["view"],
        since=None if options.get("since") == "latest" else _whole(options, "since", BEFORE_ALL),
        until=_whole(options, "until", None),
        most_epochs=_whole(options, "maxEpochsPerTrigger", None),
    )
    if wanted.since is not None and wanted.until is not None and wanted.until < wanted.since:
        raise InputError(
            f"format {FORMAT!r}: option 'until' is {wanted.until}, which is before 'since', {wanted.since}; exchange them"
        )
    return wanted


def _require_known(options: Any) -> None:
    # Spark writes their names small.
    known = {name.lower() for name in OPTIONS}
    unknown = [name for name in options if name.lower() not in known]
    if OF_TABLES in unknown:
        raise InputError(
            f"format {FORMAT!r} is for no table, as Spark tells the readers of one no option; make a view: CREATE "
            f"TEMPORARY VIEW name USING {FORMAT} OPTIONS (path '...', view '...')"
        )
    if OF_SEVERAL in unknown:
        raise InputError(f"format {FORMAT!r} reads one checkpoint; load each, and unite them with union()")
    if unknown:
        raise InputError(
            f"format {FORMAT!r}: there is no option {listed(unknown)}; there are {listed(OPTIONS)}: correct it, or leave "
            "it out"
        )


def _forbid(given: object, name: str, reader: str, other: str) -> None:
    if given is not None:
        raise InputError(
            f"format {FORMAT!r}: option {name!r} is for {other}, and this is {reader}; leave it out"
        )


def _whole(options: Any, name: str, default: int | None) -> int | None:
    given = options.get(name)
    if given is None:
        return default
    if not str(given).isdecimal() or (name == "maxEpochsPerTrigger" and int(given) == 0):
        raise InputError(f"format {FORMAT!r}: option {name!r} is {given!r}; give a whole number")
    return int(given)


class ViewDeltas(DataSource):
    """The deltas of a view in a checkpoint; see the module."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The view's columns, ``_epoch`` and ``_diff``, as the last commit has them."""
        wanted = asked(self.options)
        types = {**view_schema(wanted, wanted.log().last), EPOCH: pl.UInt64(), DIFF: pl.Int64()}
        return spark_schema(wanted.where, types)

    def reader(self, schema: StructType) -> DataSourceReader:
        """What ``spark.read`` reads."""
        wanted = asked(self.options)
        _forbid(wanted.most_epochs, "maxEpochsPerTrigger", "spark.read", "spark.readStream")
        return _BatchReader(wanted)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """What ``spark.readStream`` reads."""
        wanted = asked(self.options)
        _forbid(wanted.until, "until", "spark.readStream", "spark.read")
        return _StreamReader(wanted)


def view_schema(wanted: Asked, commit: Commit | None) -> pl.Schema:
    """The columns of the view.

    Raises:
        CheckpointError: nothing is committed, or no such view.
    """
    if commit is None:
        raise CheckpointError(
            f"{wanted.where}: nothing is committed there; start what keeps the view current first, or mend the path"
        )
    views = commit.plan["views"]
    if wanted.view not in views:
        raise CheckpointError(f"{wanted.where}: there is no such view; there are {listed(views)}")
    columns = views[wanted.view]["columns"]
    return pl.Schema({name: dtype_of_text(text) for name, text in columns.items()})


class Files(InputPartition):
    """Delta files that one task reads."""

    def __init__(self, refs: tuple[DeltaRef, ...]) -> None:
        super().__init__(None)
        self.refs = refs


def in_partitions(refs: Sequence[DeltaRef]) -> list[Files]:
    """Delta files in the order of their epochs, small ones together."""
    made: list[list[DeltaRef]] = []
    size = PARTITION_BYTES
    for ref in sorted(refs, key=lambda ref: ref.epoch):
        if size + ref.nbytes > PARTITION_BYTES:
            made.append([])
            size = 0
        made[-1].append(ref)
        size += ref.nbytes
    return [Files(tuple(group)) for group in made]


def batches_of(wanted: Asked, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, file by file."""
    assert isinstance(partition, Files)
    pieces = Pieces.of(store_at(wanted.path))
    for ref in partition.refs:
        yield from frame_to_spark_arrow(pieces.read_delta(ref)).to_batches()


class _BatchReader(DataSourceReader):
    def __init__(self, wanted: Asked) -> None:
        self._wanted = wanted

    def partitions(self) -> Sequence[InputPartition]:
        log = self._wanted.log()
        last = log.last
        if self._wanted.since is None or last is None:
            return [Files(())]
        end = last.epoch if self._wanted.until is None else self._wanted.until
        refs = delta_files(log, self._wanted.view, self._wanted.since, last.facts.get(BORN, {}))
        # Of no partitions at all Spark makes one that is None.
        return in_partitions([ref for ref in refs if ref.epoch <= end]) or [Files(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return batches_of(self._wanted, partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An offset is the epoch up to which all is read."""

    def __init__(self, wanted: Asked) -> None:
        self._wanted = wanted
        self._log = wanted.log()
        self._target: int | None = None
        self._first: int | None = wanted.since

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        # Asked for more than once in a first micro-batch: it must not move on with the commits.
        if self._first is None:
            self._first = self._last()
        return {"epoch": self._first}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._wanted.most_epochs
        # Of Spark's own limits, the only ones there may be, files come nearest to epochs.
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        there = self._last()
        if there < start["epoch"]:
            raise CheckpointError(
                f"{self._wanted.where} is at epoch {there}, and this query has read it up to epoch {start['epoch']}: it is "
                "another checkpoint than the query has begun with; put that one back, or begin with a new checkpointLocation"
            )
        last = there if self._target is None else self._target
        if isinstance(limit, ReadMaxFiles) and last > start["epoch"]:
            epochs = sorted({ref.epoch for ref in self._refs(start["epoch"], last)})
            last = next(islice(epochs, limit.max_files - 1, None), last)
        return {"epoch": max(last, start["epoch"])}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return {"epoch": self._last()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._last()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return in_partitions(self._refs(start["epoch"], end["epoch"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return batches_of(self._wanted, partition)

    def _last(self) -> int:
        commit = self._log.refresh()
        return BEFORE_ALL if commit is None else commit.epoch

    def _refs(self, since: int, until: int) -> list[DeltaRef]:
        last = self._log.refresh()
        born = {} if last is None else last.facts.get(BORN, {})
        refs = delta_files(self._log, self._wanted.view, since, born)
        return [ref for ref in refs if ref.epoch <= until]
