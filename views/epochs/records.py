"""An epoch before and after: what it is given, what is written of it, and where a checkpoint leaves off."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import InputError
from evercurrent.core.data.instants import shown

from ..connectors.positions import Position, Positions, joined

Noted = tuple[int, int, Mapping[str, int]]
"""An epoch that has gone by: its number, its processing time in microseconds, the watermarks after it."""


def require_epoch(view: str, name: str, epoch: object) -> None:
    """Check that this is the number of an epoch.

    Raises:
        InputError: it is something else.
    """
    if isinstance(epoch, bool) or not isinstance(epoch, int | np.integer):
        raise InputError(f"view {view!r}: {name}={epoch!r}; give the number of an epoch")


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """What one push brings: changes of a source, a watermark by hand, or both; and its place in the source."""

    source: str
    delta: Delta | None = None
    watermark: int | None = None
    position: Position | None = None
    positions: Positions = field(default=Positions(""), repr=False)
    """What the order of these positions is."""

    def is_taken(self, taken: Mapping[str, Position]) -> bool:
        """Whether it was taken before, if sources were taken so far.

        Raises:
            InputError: it has no order to what was taken; names the source.
        """
        return self.position is not None and self.positions.is_taken(self.position, taken.get(self.source))


@dataclass(slots=True)
class EpochInput:
    """The input of an epoch: gathered push by push while it is open, and then taken as a whole or not at all.

    ``positions`` are the last ones of this epoch by source, ``skipped`` counts batches that were taken before,
    ``batches`` are all that it is made of. ``is_all``: nothing else bears on the epoch, such as a window that was told to
    speak.
    """

    deltas: dict[str, list[Delta]] = field(default_factory=dict)
    watermarks: dict[str, int] = field(default_factory=dict)
    positions: dict[str, Position] = field(default_factory=dict)
    skipped: int = 0
    is_all: bool = True
    batches: list[Batch] = field(default_factory=list)

    def take(self, batch: Batch) -> None:
        """Take what a push brings.

        Raises:
            InputError: the watermark would move back within the epoch.
        """
        if batch.watermark is not None:
            self.promise(batch.source, batch.watermark)
        if batch.delta is not None:
            self.add(batch.source, batch.delta, batch.position)
        self.batches.append(batch)

    def without(self, taken: Mapping[str, Position]) -> EpochInput:
        """What of it was not taken by other epochs meanwhile, by these positions of the sources.

        Raises:
            InputError: a position has no order to what was taken meanwhile.
        """
        left = [batch for batch in self.batches if not batch.is_taken(taken)]
        if len(left) == len(self.batches):
            return self
        offered = EpochInput(skipped=self.skipped + len(self.batches) - len(left), is_all=self.is_all)
        for batch in left:
            offered.take(batch)
        return offered

    def add(self, source: str, delta: Delta, position: Position | None) -> None:
        """Take the changes of one push, and how far the source is taken with it."""
        self.deltas.setdefault(source, []).append(delta)
        if position is not None:
            self.positions = joined(self.positions, {source: position})

    def promise(self, source: str, watermark: int) -> None:
        """Take a watermark by hand.

        Raises:
            InputError: it would move back within the epoch.
        """
        if watermark < (known := self.watermarks.get(source, watermark)):
            raise InputError(
                f"source {source!r}: the watermark cannot move back from {shown(known)} to {shown(watermark)} "
                "within an epoch"
            )
        self.watermarks[source] = watermark

    def skips(self, batch: Batch, taken: Mapping[str, Position]) -> bool:
        """Whether a batch was taken before, in this epoch or an earlier one.

        Raises:
            InputError: its position has no order to what was taken.
        """
        is_known = batch.is_taken(joined(taken, self.positions))
        self.skipped += is_known
        return is_known

    @property
    def is_repeated(self) -> bool:
        """Whether all of it was taken before: then there is no epoch."""
        return bool(self.skipped) and not (self.deltas or self.watermarks)

    def among(self, sources: Container[str], timed: Container[str]) -> EpochInput:
        """What is for these sources, and the watermarks for those of them that have event time."""
        return replace(
            self,
            deltas={name: deltas for name, deltas in self.deltas.items() if name in sources},
            watermarks={name: at for name, at in self.watermarks.items() if name in timed},
            positions={name: at for name, at in self.positions.items() if name in sources},
        )

    def arrived(self) -> dict[str, Delta]:
        """The changes of each source as one delta."""
        return {
            name: deltas[0] if len(deltas) == 1 else Delta(pl.concat([delta.frame for delta in deltas]))
            for name, deltas in self.deltas.items()
        }


@dataclass(frozen=True, slots=True)
class Logged:
    """An epoch that is to be evaluated again: its number, processing time in microseconds, and input.

    ``heard``: the last epochs that named subscriptions had heard when it came.
    """

    epoch: int
    instant: int
    offered: EpochInput = field(repr=False)
    heard: Mapping[str, int]

    def conformed(self, arrived: Callable[[str, Delta], Delta]) -> Logged:
        """The same with the rows of each source as a function gives them."""
        deltas = {
            name: [arrived(name, delta) for delta in deltas] for name, deltas in self.offered.deltas.items()
        }
        return replace(self, offered=replace(self.offered, deltas=deltas))

    @property
    def now(self) -> Now:
        """The clocks of the epoch."""
        return Now(Epoch(self.epoch), datetime.fromtimestamp(0, UTC) + timedelta(microseconds=self.instant))


@dataclass(frozen=True, slots=True)
class EvaluatedEpoch:
    """An epoch as it is written: processing time in microseconds, watermarks after it, deltas by view."""

    epoch: int
    instant: int
    watermarks: Mapping[str, int]
    deltas: Mapping[str, pl.DataFrame]


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """What a commit says beside states and deltas.

    ``positions`` of the sources, last epochs that ``readers`` have heard, and how many ``rows`` of each source with
    event time have come.
    """

    positions: Mapping[str, Position]
    readers: Mapping[str, int]
    rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """Where a checkpoint ends.

    ``last`` is the last epoch that it knows the time and watermarks of; ``filled`` are views that are new in the
    program: they hold what they would if they had been there, and nobody has been told yet. ``logged`` are epochs after
    the last commit, which are to be evaluated again; ``is_same_plan``: by the program that has done it before. Up to
    ``acknowledged`` they were done. ``is_computed``: states that were not there were computed, and are to be written.
    """

    epoch: int
    positions: Mapping[str, Position]
    readers: Mapping[str, int]
    rows: Mapping[str, int]
    last: Noted
    filled: Mapping[str, Delta]
    logged: Sequence[Logged] = ()
    acknowledged: int = 0
    is_same_plan: bool = True
    is_computed: bool = False
