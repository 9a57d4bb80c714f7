"""What time it is inside an epoch: an argument of every operator, never read from a clock."""

from dataclasses import dataclass
from datetime import datetime
from typing import NewType

Epoch = NewType("Epoch", int)
"""Number of an atomic step of the engine: 1 for the first, without gaps. 0 is "before any input"."""


@dataclass(frozen=True, slots=True)
class Now:
    """The clocks of one epoch, recorded with its input so that a replay sees the same ones.

    ``processing_time`` is when the batch was accepted, in UTC.
    """

    epoch: Epoch
    processing_time: datetime
