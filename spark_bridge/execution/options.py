"""The options of a query, and what a feeder states of a micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from evercurrent.core.data.clock import Epoch, Now
from evercurrent.views.checkpoint import Checkpoint
from evercurrent.views.partitioned.limits import DRIVER_BYTES, DriverLimits

OnEpoch = Callable[[str, Any, int], None]
"""A user's sink, called with the name of a view, its delta of an epoch as a Spark DataFrame, and the epoch."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a query, besides its plan; plain data, so that they can be sent to another process.

    ``driver_rows`` and ``driver_bytes``: see ``limits``, which hold for the first stage, too.
    """

    checkpoint: Checkpoint
    driver_rows: int
    on_epoch: OnEpoch | None = None
    driver_bytes: int = DRIVER_BYTES

    @property
    def limits(self) -> DriverLimits:
        """Return the limits on what runs in the driver process."""
        return DriverLimits(self.driver_rows, self.driver_bytes)


@dataclass(frozen=True, slots=True)
class Planned:
    """The metadata of a micro-batch from its feeder: its processing time in microseconds, and positions by source."""

    at: int
    positions: Mapping[str, Any]


def instant_of(at: datetime | None) -> int:
    """Return a processing time in microseconds; for None that of the clock.

    Raises:
        InputError: it has no time zone.
    """
    return Now(Epoch(0), datetime.now(UTC) if at is None else at).instant
