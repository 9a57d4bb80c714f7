"""Keepers of an engine's epochs: one for states in memory, which writes nothing, and one for a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import polars as pl

from evercurrent.core.data.clock import Now

from ..connectors.positions import Position
from ..durability.durability import Durability
from ..epochs.records import CommitMetadata
from .evaluators import EpochResult, TakenInput

MetadataOf = Callable[[Mapping[str, Position], Mapping[str, pl.DataFrame]], CommitMetadata]
"""A function that returns the metadata of a commit, given the positions that an epoch moves and the rows that it brings."""


class InMemory:
    """Keeps epochs only in the states of this process: nothing is written, and nothing can fail."""

    def log(self, now: Now, taken_input: TakenInput) -> None:
        """See ``Keeper``: there is no log."""

    def write(self, now: Now, evaluated: EpochResult) -> None:
        """See ``Keeper``: there are no files."""

    def append(self) -> None:
        """See ``Keeper``: the commit of the states is the commit point."""

    def discard(self) -> None:
        """See ``Keeper``: nothing was begun."""

    def tidy(self) -> None:
        """See ``Keeper``: spines tidy themselves."""


class OnDisk:
    """Keeps epochs in a checkpoint, with the metadata that ``metadata`` returns.

    ``delivered`` returns the last epochs that were delivered to named subscriptions.
    """

    def __init__(
        self, durability: Durability, metadata: MetadataOf, delivered: Callable[[], Mapping[str, int]]
    ) -> None:
        self._durability = durability
        self._metadata = metadata
        self._delivered = delivered

    def log(self, now: Now, taken_input: TakenInput) -> None:
        """See ``Keeper``."""
        if taken_input.log == "to write":
            self._durability.log(now, taken_input.epoch_input, taken_input.arrived, self._delivered())
        elif taken_input.log == "written":
            self._durability.logged_before()

    def write(self, now: Now, evaluated: EpochResult) -> None:
        """See ``Keeper``."""
        for delta in evaluated.epoch.deltas.unread.values():
            _ = delta.frame  # Now, and not all at once in the commit that writes many epochs.
        metadata = self._metadata(evaluated.positions, evaluated.rows)
        self._durability.write(evaluated.epoch, metadata, evaluated.elsewhere)

    def append(self) -> None:
        """See ``Keeper``."""
        self._durability.append()

    def discard(self) -> None:
        """See ``Keeper``."""
        self._durability.discard()

    def tidy(self) -> None:
        """See ``Keeper``."""
        self._durability.tidy()
