"""The engine, as far as views use it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import polars as pl

from ..concurrency.turns import Turn
from ..epochs.subscriptions import Followed, Readers
from ..sinks.delivered_view import Beginning
from ..sinks.origin import Origin
from .published import Published

if TYPE_CHECKING:
    from ..inspection.proving.proof import Proof
    from ..inspection.tracing.history import History as RowHistory
    from ..inspection.tracing.lineage import Lineage


class ViewKeeper(Protocol):
    """The engine, as far as views use it."""

    @property
    def views(self) -> Mapping[str, Followed]:
        """The views by name."""
        ...

    @property
    def epoch_number(self) -> int:
        """The number of the last epoch."""
        ...

    @property
    def durable_epoch(self) -> int:
        """The last epoch that no crash takes back."""
        ...

    def make_durable(self) -> int:
        """Commit the epochs that a crash would take back, wake the sinks, and return the last one."""
        ...

    def require_not_closed(self) -> None:
        """Check that epochs may still come."""
        ...

    @property
    def readers(self) -> Readers:
        """The subscriptions, and the last epochs delivered to those with a name."""
        ...

    def published(self) -> Published:
        """Return the object that was published after the last epoch, which later epochs do not change."""
        ...

    def reading(self, view: str) -> AbstractContextManager[Published]:
        """Yield what is published, for a reader of this view inside of the block."""
        ...

    @property
    def turn(self) -> Turn:
        """The lock that a writer holds while all others wait."""
        ...

    def origin(self, view: str) -> Origin:
        """Return the token that distinguishes the epochs of a view from those of other engines and checkpoints."""
        ...

    def beginning(self, view: str, name: str) -> Beginning | None:
        """Return where the epoch is noted with which the sink of a name begins; None if nothing outlives this process."""
        ...

    def contents(self, view: str, epoch: int | None = None) -> pl.DataFrame:
        """All rows of a view now, or after an epoch."""
        ...

    def fire(self, view: str, key: object, window: object, at: datetime | str | None) -> int:
        """Run an epoch without rows in which windows of a view are fired."""
        ...

    def why(self, view: str, key: object, window: object) -> list[str]:
        """Explain why windows of a view emit no panes."""
        ...

    def elsewhere(self, view: str) -> str:
        """Where the rows of a view are, if a query that runs has them; else empty."""
        ...

    def lineage_of(self, view: str, row: object, limit: int) -> Lineage:
        """Return the rows of sources from which a row of a view comes."""
        ...

    def history_of(self, view: str, key: object, since: int | None) -> RowHistory:
        """Return the changes of the rows of a key, and their causes."""
        ...

    def proof_of(self, view: str, sample: float | None = None) -> Proof:
        """Evaluate a view's definition in a batch, and compare that with what the view holds."""
        ...

    def watermark_of(self, view: str) -> datetime | int | None:
        """How far the event time of a view's rows is complete."""
        ...
