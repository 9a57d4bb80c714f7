"""The input and the result of a task: plain data, so that they can go to another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from evercurrent.core.circuit.circuit import NodeId
from evercurrent.core.circuit.stages import Exchange
from evercurrent.core.data.columns.kernels import Keys
from evercurrent.core.data.delta import Delta
from evercurrent.core.state.ledger import Refused

from ..checkpoint import PieceRef, StateRecord
from ..epochs.records import FireRequest as FireRequest
from .clock_evidence import ClockEvidence


@dataclass(frozen=True, slots=True, eq=False)
class RowBatch:
    """Rows with diffs between stages: in a file or, if they are few, in memory."""

    rows: int
    held: pl.DataFrame | PieceRef

    @property
    def bytes(self) -> int:
        """Return the size of the rows, in memory or in the file."""
        return self.held.size if isinstance(self.held, PieceRef) else int(self.held.estimated_size())


Parts = tuple[RowBatch, ...]

Origins = Mapping[str, frozenset[tuple[int, int]]]
"""The partitions and files of the rows of sources."""


Measures = tuple[float, int, int]
"""The measures of a node in a task: seconds, rows in and rows out."""


@dataclass(frozen=True, slots=True)
class Instant:
    """The time of an epoch: its number, its processing time in microseconds, and watermarks by the state id of clocks.

    ``clocks`` has the watermark as of the epoch before, and that after the rows of this one if already computed.
    """

    epoch: int
    processing_time: int
    clocks: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Task:
    """One bucket of a stage in one epoch: its states as of the epoch before, and the rows for it.

    ``signals`` are windows that are fired, by the node that tracks them. ``visits_all``: all nodes are stepped, as it is
    unknown which have something to do; else those with rows, signals or timers that are due.
    """

    stage: int
    bucket: int
    instant: Instant
    states: Mapping[str, StateRecord]
    rows: Mapping[Exchange, Parts]
    signals: Mapping[NodeId, Keys] = field(default_factory=dict)
    visits_all: bool = False

    @property
    def size(self) -> int:
        """Return the number of rows for the task."""
        return sum(part.rows for parts in self.rows.values() for part in parts)

    @property
    def bytes(self) -> int:
        """Return the size of these rows."""
        return sum(part.bytes for parts in self.rows.values() for part in parts)


@dataclass(slots=True)
class TaskResult:
    """The result of a task: states that changed, rows for later stages by their buckets, deltas of views.

    ``place`` is the bucket or, in the first stage, the place of the rows in the batch. ``arrived`` is their number,
    ``arrived_bytes`` their size, and ``origins`` has their partitions and files, where these matter. Refused rows that are
    too large to be passed on in memory are in ``refused_files``, in their order, and ``refused`` has them without rows.
    ``held_at`` is how far windows hold back the watermark after them, by state id. It took ``seconds``, and
    ``ran_elsewhere`` if not in the process of the driver. ``measured`` has the measures of the nodes whose state the stage
    keeps, ``emitted`` the rows of those that are watched.
    """

    stage: int
    place: int
    states: dict[str, StateRecord] = field(default_factory=dict)
    rows: dict[Exchange, dict[int, RowBatch]] = field(default_factory=dict)
    deltas: dict[str, RowBatch] = field(default_factory=dict)
    refused: tuple[Refused, ...] = ()
    witnessed: dict[str, ClockEvidence] = field(default_factory=dict)
    held_at: dict[str, int] = field(default_factory=dict)
    measured: dict[NodeId, Measures] = field(default_factory=dict)
    emitted: dict[NodeId, Delta] = field(default_factory=dict)
    arrived: int = 0
    arrived_bytes: int = 0
    seconds: float = 0.0
    ran_elsewhere: bool = False
    refused_files: tuple[PieceRef, ...] = ()
    origins: Origins = field(default_factory=dict)
