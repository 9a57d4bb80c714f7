"""Records of an epoch: its input, its results as they are written, and the end of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import InputError
from evercurrent.core.data.instants import shown
from evercurrent.core.state.ledger import Refused

from ..connectors.positions import Position, Positions, joined
from .view_deltas import ViewDeltas

Noted = tuple[int, int, Mapping[str, int]]
"""A finished epoch: its number, its processing time in microseconds, the watermarks after it."""


def require_epoch(where: str, name: str, epoch: object, *, least: int = 0) -> None:
    """Check that an argument is the number of an epoch; with ``least=-1`` the very beginning is one too.

    Raises:
        InputError: it is something else.
    """
    if isinstance(epoch, bool) or not isinstance(epoch, int | np.integer):
        raise InputError(f"{where}: {name}={epoch!r}; give the number of an epoch")
    if epoch < least:
        beginning = ", and -1 stands for the very beginning" if least < 0 else ""
        raise InputError(f"{where}: {name}={epoch}; epochs are counted from 0{beginning}")


def require_since(view: str, since: object) -> None:
    """Check that an argument is the number of the epoch after which deltas are read.

    Raises:
        InputError: it is something else.
    """
    require_epoch(f"view {view!r}", "since", since, least=-1)


def require_past(view: str, since: int | None, epoch: int) -> None:
    """Check that ``since`` is None, or the number of an epoch that is not after the present one, as that of another engine may be.

    Raises:
        InputError: it is something else, or still to come.
    """
    if since is None:
        return
    require_since(view, since)
    if since > epoch:
        raise InputError(
            f"view {view!r}: epoch {since} is still to come, the engine is at epoch {epoch}; "
            "a new engine begins at epoch 0: read view.snapshot() first"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The input of one push: changes of a source, a watermark by hand, or both; and its position in the source."""

    source: str
    delta: Delta | None = None
    watermark: int | None = None
    position: Position | None = None
    positions: Positions = field(default=Positions(""), repr=False)
    """How positions of the source are compared."""
    refused: tuple[Refused, ...] = ()
    """The rows of the push that do not fit the source."""

    def is_taken(self, positions: Mapping[str, Position]) -> bool:
        """Return whether the batch was taken before, where sources were taken up to these positions.

        Raises:
            InputError: the position cannot be compared with the last one; names the source.
        """
        return self.position is not None and self.positions.is_taken(
            self.position, positions.get(self.source)
        )


@dataclass(frozen=True, slots=True)
class FireRequest:
    """A request to fire windows of a view: of which key (None: all), with which bounds (None: all)."""

    view: str
    key: object = None
    window: object = None


@dataclass(slots=True)
class EpochInput:
    """The input of an epoch: collected push by push while it is open, and then taken as a whole or not at all.

    ``positions`` are the last ones of this epoch by source, ``skipped`` counts batches that were taken before,
    ``batches`` are all batches in it, ``fires`` windows that are fired. ``refused`` are rows that did not fit their source.
    ``refuses_rows``: a row of which a view cannot be computed is refused, and not the epoch.
    """

    deltas: dict[str, list[Delta]] = field(default_factory=dict)
    watermarks: dict[str, int] = field(default_factory=dict)
    positions: dict[str, Position] = field(default_factory=dict)
    skipped: int = 0
    fires: Sequence[FireRequest] = ()
    batches: list[Batch] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    refuses_rows: bool = False

    @staticmethod
    def of(batches: Iterable[Batch], positions: Mapping[str, Position], *, refuses_rows: bool) -> EpochInput:
        """Return the input of these batches, without those that other epochs have taken, by these positions of the sources.

        Raises:
            InputError: a position cannot be compared with the one reached.
        """
        epoch_input = EpochInput(refuses_rows=refuses_rows)
        for batch in batches:
            if batch.position is not None and batch.is_taken(positions):
                epoch_input.skipped += 1
            else:
                epoch_input.take(batch)
        return epoch_input

    def take(self, batch: Batch) -> None:
        """Add the input of a push.

        Raises:
            InputError: the watermark would move back within the epoch.
        """
        if batch.watermark is not None:
            self.promise(batch.source, batch.watermark)
        if batch.delta is not None:
            self.add(batch.source, batch.delta, batch.position)
        self.refused += batch.refused
        self.batches.append(batch)

    def add(self, source: str, delta: Delta, position: Position | None) -> None:
        """Add the changes of one push, and the position up to which the source is taken with it."""
        self.deltas.setdefault(source, []).append(delta)
        if position is not None:
            self.positions = joined(self.positions, {source: position})

    def promise(self, source: str, watermark: int) -> None:
        """Add a watermark by hand.

        Raises:
            InputError: it would move back within the epoch.
        """
        if watermark < (current := self.watermarks.get(source, watermark)):
            raise InputError(
                f"source {source!r}: the watermark cannot move back from {shown(current)} to {shown(watermark)} "
                "within an epoch"
            )
        self.watermarks[source] = watermark

    def skips(self, batch: Batch, positions: Mapping[str, Position]) -> bool:
        """Return whether a batch was taken before, in this epoch or an earlier one, and count it if so.

        Raises:
            InputError: its position cannot be compared with the last one.
        """
        is_known = batch.is_taken(joined(positions, self.positions))
        self.skipped += is_known
        return is_known

    @property
    def is_repeated(self) -> bool:
        """Whether all of it was taken before; then no epoch is run."""
        return bool(self.skipped) and not (self.deltas or self.watermarks)

    def among(self, sources: Container[str], timed: Container[str]) -> EpochInput:
        """Return the input of these sources, and the watermarks of those that have event time."""
        return replace(
            self,
            deltas={name: deltas for name, deltas in self.deltas.items() if name in sources},
            watermarks={name: at for name, at in self.watermarks.items() if name in timed},
            positions={name: at for name, at in self.positions.items() if name in sources},
            refused=[refused for refused in self.refused if refused.source in sources],
        )

    def arrived(self) -> dict[str, Delta]:
        """Return the changes of each source as one delta."""
        return {
            name: deltas[0] if len(deltas) == 1 else Delta(pl.concat([delta.frame for delta in deltas]))
            for name, deltas in self.deltas.items()
        }


@dataclass(frozen=True, slots=True)
class Logged:
    """An epoch that is to be evaluated again: its number, processing time in microseconds, and input.

    ``delivered`` are the last epochs that had been delivered to named subscriptions when it came.
    """

    epoch: int
    instant: int
    epoch_input: EpochInput = field(repr=False)
    delivered: Mapping[str, int]

    def conformed(self, arrived: Callable[[str, Delta], Delta]) -> Logged:
        """Return the same epoch with a function applied to the rows of each source."""
        deltas = {
            name: [arrived(name, delta) for delta in deltas]
            for name, deltas in self.epoch_input.deltas.items()
        }
        return replace(self, epoch_input=replace(self.epoch_input, deltas=deltas))

    @property
    def now(self) -> Now:
        """The clocks of the epoch."""
        return Now.at(Epoch(self.epoch), self.instant)


@dataclass(frozen=True, slots=True)
class EvaluatedEpoch:
    """An epoch as it is written: its clocks, the watermarks after it, deltas by view."""

    now: Now
    watermarks: Mapping[str, int]
    deltas: ViewDeltas

    @property
    def epoch(self) -> int:
        """Its number."""
        return self.now.epoch


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """The content of a commit besides states and deltas.

    ``positions`` of the sources, the last epochs delivered to ``readers``, and how many ``rows`` of each source with
    event time have come.
    """

    positions: Mapping[str, Position]
    readers: Mapping[str, int]
    rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """The end of a checkpoint, from which an engine continues.

    ``last`` is the last epoch whose time and watermarks are recorded. ``filled`` are views that are new in the program:
    they have their rows as if they had always been there, and these have not been delivered to readers yet. ``logged`` are
    epochs after the last commit, which are to be evaluated again; those up to ``acknowledged`` were done, and with
    ``is_same_plan`` the same program evaluated them. ``is_changed``: missing states were computed, or declarations were dropped,
    which has to be written.
    ``replaced`` has the views that have replaced others: the first epoch of each, and the columns before.
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
    is_changed: bool = False
    replaced: Mapping[str, tuple[int, pl.Schema]] = field(default_factory=dict)
