"""The rows of all streams of a query, as one DataFrame of those that it has at the time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..execution.micro_batches import MicroBatches
from ..input.inputs import tagged
from ..input.streams import HEARTBEAT, Streams

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class UnitedRows:
    """The rows of DataFrames by name, as a function. If they are given as one, that is what they stay."""

    def __init__(self, batches: MicroBatches, rows: Mapping[str, DataFrame] | DataFrame) -> None:
        self._batches = batches
        self._rows: DataFrame | None = None
        self.frames: dict[str, DataFrame] = {}
        if isinstance(rows, Mapping):
            self.frames = dict(rows)
        else:
            self._rows = rows

    @property
    def is_fixed(self) -> bool:
        """Whether they were given as one DataFrame, to which no other can be added."""
        return self._rows is not None

    def streams(self, frames: Mapping[str, DataFrame]) -> Streams:
        """Return the streams of these DataFrames, those that there are before others."""
        now = self._batches.streams
        return Streams.of(frames, () if now is None else now.names)

    def __call__(self) -> DataFrame:
        """Return the rows of the streams with which the query goes on, in the order in which Spark counts them."""
        if self._rows is not None:
            return self._rows
        streams = self._batches.streams
        assert streams is not None, "streams by name were recorded"
        return tagged(
            self.frames,
            self._batches.setup.sources(),
            beat=self.frames.get(HEARTBEAT) if HEARTBEAT in streams.names else None,
            beat_at=streams.heartbeat_at,
        )
