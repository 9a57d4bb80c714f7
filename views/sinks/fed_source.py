"""A source of another engine as a sink: the deltas of a view are pushed into it, each epoch once."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import polars as pl

from evercurrent.core.data.errors import PlanError, SinkError
from evercurrent.core.data.schema import EPOCH

from .counted_rows import counted
from .origin import Origin


class Fed(Protocol):
    """A source, as far as it is fed."""

    @property
    def kind(self) -> str:
        """What a row means."""
        ...


class FedEngine(Protocol):
    """An engine, as far as it is fed: any ``Engine``."""

    @property
    def sources(self) -> Mapping[str, Fed]:
        """The sources by name."""
        ...

    @property
    def positions(self) -> Mapping[str, Any]:
        """The position up to which each source was taken."""
        ...

    def push(self, source: str, data: Any, *, position: Any = None) -> int:
        """Take one batch of changes."""
        ...

    def require_not_closed(self) -> None:
        """Check that batches may still come."""
        ...


_numbers: WeakKeyDictionary[FedEngine, int] = WeakKeyDictionary()
"""The engines of this process that are fed."""


def fed_name(engine: FedEngine, source: str) -> str:
    """Return the name of a source that is fed, which is another one for each engine: names of sources are used by several.

    >>> class Another:
    ...     pass
    >>> first, second = Another(), Another()
    >>> len({fed_name(first, "hits"), fed_name(second, "hits"), fed_name(first, "hits")})
    2
    """
    used = set(_numbers.values())
    number = _numbers.setdefault(engine, next(number for number in count(1) if number not in used))
    return f"source {source}" if number == 1 else f"source {source} of engine {number}"


class FedSource:
    """A source with diffs whose position is the last epoch of the view that feeds it, with its writer: one partition for each view."""

    remembers, most_rows = True, 1
    """Each epoch of the view becomes an epoch there."""

    def __init__(self, engine: FedEngine, source: str, view: str, origin: Origin) -> None:
        self._engine, self._source, self._partition, self._origin = engine, source, f"{view}@", origin
        self.target = (engine, source, self._partition)
        self.place = f"source {source!r} of another engine"

    def position(self) -> int | None:
        """See ``Sink.position``: the engine's own, which is part of its commits."""
        partitions = self._engine.positions.get(self._source) or {}
        if not isinstance(partitions, Mapping):
            raise SinkError(
                f"{self.place} has the position {partitions!r} of other input; feed a source of its own"
            )
        if self._partition not in partitions:
            return None
        epoch, writer = partitions[self._partition]
        if not self._origin.has(writer, epoch):
            raise SinkError(
                f"{self.place} holds rows of the same view of another engine, or of a checkpoint before it was restored, up to epoch "
                f"{epoch}, which are not taken back; feed a source of its own, or drop this one and declare it again"
            )
        return int(epoch)

    def begin(self, contents: pl.DataFrame, epoch: int) -> None:
        """See ``Sink.begin``.

        Raises:
            SinkError: it has deltas up to another epoch, which are not taken back.
        """
        position = self.position()
        if position is not None:
            raise SinkError(
                f"{self.place} has the deltas up to epoch {position}, and those since are no longer retained, or that epoch is still "
                "to come; feed a source of its own, or drop this one and declare it again"
            )
        self._push(counted(contents, epoch), epoch)

    def write(self, delta: pl.DataFrame) -> None:
        """See ``Sink.write``."""
        self._push(delta, delta.item(0, EPOCH))

    def close(self) -> None:
        """See ``Sink.close``: the engine stays open."""

    def _push(self, rows: pl.DataFrame, epoch: int) -> None:
        self._engine.push(
            self._source, rows.drop(EPOCH), position={self._partition: [epoch, self._origin.token(epoch)]}
        )


def require_diffs(view: str, source: str, kind: str) -> None:
    """Check that a source takes rows with diffs.

    Raises:
        PlanError: it does not.
    """
    if kind != "diffs":
        raise PlanError(
            f"view {view!r}: to_source: source {source!r} is of kind {kind!r}, and the deltas of a view take rows back; declare "
            "it with kind='diffs'"
        )
