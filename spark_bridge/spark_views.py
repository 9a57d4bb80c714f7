"""A view of a query: read from the checkpoint, with Spark or without."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import polars as pl

from evercurrent.core.errors import InputError
from evercurrent.core.schema import listed
from evercurrent.views.asking import shown_watermark
from evercurrent.views.checkpoint import Commit, CommitLog, Pieces, Saver
from evercurrent.views.engine import Engine
from evercurrent.views.ledger import ledger_frame, source_ledger_frame
from evercurrent.views.store import store_at

from .clocks import Clocks
from .frames import contents, delta_schema, from_files
from .jobs import Setup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkViews:
    """The views of an engine in a checkpoint, and what stands there beside them."""

    def __init__(
        self, engine: Engine, setup: Setup, log: CommitLog, spark: SparkSession, *, keeps: object = None
    ) -> None:
        self._engine = engine
        self._setup = setup
        self._log = log
        self._spark = spark
        self._keeps = keeps

    def view(self, name: str) -> SparkView:
        """A view, to be read as of its last epoch or an older one.

        Raises:
            InputError: there is no view of this name.
        """
        if name not in self._engine.views:
            raise InputError(f"there is no view {name!r}; there are {listed(self._engine.views)}")
        return SparkView(name, self._engine.views[name].schema, self._setup, self._log, self._spark)

    @property
    def epoch(self) -> int:
        """The last epoch that is committed."""
        return self._last.epoch

    @property
    def watermarks(self) -> dict[str, datetime | int | None]:
        """How far the event time of each source is complete; None: nothing is known, ``END_OF_TIME``: it has ended."""
        clocks = self._clocks()
        return {name: shown_watermark(clock.before) for name, clock in clocks.compiled.clocks.items()}

    def ledger(self, source: str | None = None) -> pl.DataFrame:
        """Every refused row and why, as ``Engine.ledger`` has it."""
        refused = self._clocks().ledger.refused
        if source is None:
            return ledger_frame(refused)
        if source not in self._engine.sources:
            raise InputError(f"there is no source {source!r}; there are {listed(self._engine.sources)}")
        return source_ledger_frame(refused, source, self._engine.sources[source].schema)

    @property
    def _last(self) -> Commit:
        last = self._log.refresh()
        assert last is not None, "there is a commit before the first epoch"
        return last

    def _clocks(self) -> Clocks:
        clocks = Clocks(self._setup.unpickled())
        clocks.restore(Saver(Pieces.of(store_at(self._setup.store))), self._last)
        return clocks


class SparkView:
    """A named result in a checkpoint, as of its last epoch or an older one that is retained."""

    def __init__(
        self, name: str, schema: pl.Schema, setup: Setup, log: CommitLog, spark: SparkSession
    ) -> None:
        self.name = name
        self.schema = schema
        self._setup = setup
        self._log = log
        self._spark = spark

    @property
    def epoch(self) -> int:
        """The last epoch that is committed."""
        return self._at(None).epoch

    @property
    def earliest(self) -> int:
        """The deltas of all epochs after this one are there; -1: of all epochs, with what the view held before any."""
        self._log.refresh()
        return min(self._log.epochs(), default=0) or -1

    def read(self, epoch: int | None = None) -> pl.DataFrame:
        """The contents as a polars frame, as of an epoch, by default the last. Cost: the view; no Spark job.

        Raises:
            EpochGoneError: the commit of that epoch is no longer retained.
        """
        commit, runner = self._at(epoch), self._setup.runner()
        found = [runner.contents(self.name, bucket, commit.states) for bucket in range(commit.buckets)]
        return pl.concat([self.schema.to_frame(), *(frame for frame in found if frame is not None)])

    def to_spark(self, epoch: int | None = None) -> DataFrame:
        """The contents as a Spark DataFrame, as of an epoch, by default the last; read by Spark's tasks.

        Raises:
            EpochGoneError: the commit of that epoch is no longer retained.
        """
        return contents(self._spark, self._setup, self.name, self._at(epoch), self.schema)

    def deltas(self, since: int = -1) -> Iterator[pl.DataFrame]:
        """The changes after an epoch, one frame per epoch that changed the view, with ``_epoch`` and ``_diff``.

        Raises:
            EpochGoneError: they are no longer all retained.
        """
        pieces = Pieces.of(store_at(self._setup.store))
        self._log.refresh()
        by_epoch: dict[int, list[pl.DataFrame]] = {}
        for ref in self._log.deltas(self.name, since):
            by_epoch.setdefault(ref.epoch, []).append(pieces.read(ref.piece))
        return (pl.concat(frames) for _, frames in sorted(by_epoch.items()))

    def deltas_to_spark(self, since: int = -1) -> DataFrame:
        """The changes after an epoch as a Spark DataFrame; for a stream of them ask ``readStream.format("evercurrent")``."""
        self._log.refresh()
        refs = [ref.piece for ref in self._log.deltas(self.name, since)]
        return from_files(self._spark, self.name, self._setup.store, refs, delta_schema(self.schema))

    def __repr__(self) -> str:
        """Name, epoch and the first rows."""
        return f"View {self.name!r} at epoch {self.epoch}\n{self.read()}"

    def _at(self, epoch: int | None) -> Commit:
        last = self._log.refresh()
        assert last is not None, "a query has a commit before its first micro-batch"
        return last if epoch is None or epoch == last.epoch else self._log.at(epoch)
