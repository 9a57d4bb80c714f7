"""The heartbeat for PySpark 4.2 and newer, which has no beats while a query runs over the available data."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from .beat_clocks import Clock


class StoppingClock(Clock, SupportsTriggerAvailableNow):
    """A clock without beats under ``trigger(availableNow=True)``."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self._stands_still = False

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return {"beat": start["beat"] if self._stands_still else max(start["beat"], self._now())}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._stands_still = True
