"""Deltas of a view are read by PySpark 4.2 and newer with a limit of epochs per micro-batch, and to the end of a bounded run."""

from __future__ import annotations

from itertools import islice

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from ..runtime.sentences import in_a_sentence
from .delta_readers import BEFORE_CONTENTS, EpochReader, Offset, Reading


class LimitedReader(EpochReader, SupportsTriggerAvailableNow):
    """Reads at most ``maxEpochsPerTrigger`` epochs in a micro-batch, and in a bounded run only those that were there at its start."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading)
        self._target: int | None = None

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.most_epochs
        # Only Spark's own kinds of limits are possible, of which files are nearest to epochs.
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        with in_a_sentence():
            end = self._latest(start["epoch"], limit)
            # The same offset, whether it has a writer or not, means that there is nothing new.
            return start if end == start["epoch"] else self._offset(end)

    def _latest(self, start: int, limit: ReadLimit) -> int:
        there = self._last()
        self._require_reached(there, start)
        last = there if self._target is None else self._target
        if isinstance(limit, ReadMaxFiles) and last > start > BEFORE_CONTENTS:
            epochs = sorted({ref.epoch for ref in self._refs(start, last)})
            last = next(islice(epochs, limit.max_files - 1, None), last)
        return max(last, start)

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        return self._offset(self._last())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._last()
