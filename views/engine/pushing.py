"""The input of an engine: each push is an epoch, or a part of the open one (``with engine.epoch()``)."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from evercurrent.core.data.durations import instant
from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import listed
from evercurrent.core.data.tags import tagged
from evercurrent.core.state.ledger import Refused

from ..concurrency.turns import Guard
from ..connectors.positions import Position, copied
from ..dataframe.accepted_rows import accepted
from ..dataframe.bad_rows import OnBadRows, accepted_apart
from ..dataframe.source import Source
from ..epochs.records import Batch, EpochInput
from ..inspection.questions import shown_watermark
from .served_views import ServedViews

_open: ContextVar[tuple[OpenEpoch, ...]] = ContextVar("evercurrent_open_epochs", default=())
"""The blocks of all engines that this context is in."""


class OpenEpoch:
    """The input pushed in a block, until the block ends; ``number`` is that of its epoch, once there is one.

    The context is that of a thread or an asyncio task. Pushes of a task or thread that runs in a copy of the context, as
    asyncio makes it, are part of the block too, until the block ends.
    """

    def __init__(self, engine: object) -> None:
        self.number: int | None = None
        self._engine = engine
        self._input: EpochInput | None = EpochInput()
        self._guard = Guard()

    def take(self, batch: Batch, positions: Mapping[str, Position]) -> bool | None:
        """Take a batch and return True; return False if it was taken before, None if the block has ended meanwhile.

        Raises:
            InputError: a position that goes back, or a watermark that would move back.
        """
        with self._guard.lock:
            epoch_input = self._input
            if epoch_input is None:
                return None
            is_new = not epoch_input.skips(batch, positions)
            if is_new:
                epoch_input.take(batch)
            return is_new

    def close(self) -> EpochInput:
        """End the block and return its input."""
        with self._guard.lock:
            epoch_input, self._input = self._input, None
        assert epoch_input is not None, "a block ends once"
        return epoch_input

    @property
    def is_open(self) -> bool:
        """Whether the block has not ended."""
        return self._input is not None

    def is_of(self, engine: object) -> bool:
        """Return whether it is a block of this engine."""
        return self._engine is engine


def open_epoch(engine: object) -> OpenEpoch | None:
    """Return the block of an engine that this context is in, or None."""
    for block in _open.get():
        if block.is_of(engine) and block.is_open:
            return block
    return None


@contextmanager
def gathered(engine: object) -> Iterator[OpenEpoch]:
    """Begin a block, and leave it at the end; the caller closes it.

    Raises:
        InputError: this context is already in a block of this engine.
    """
    if open_epoch(engine) is not None:
        raise InputError("an epoch is open already; epochs do not nest")
    block = OpenEpoch(engine)
    _open.set((*_open.get(), block))
    try:
        yield block
    finally:
        if block.is_open:
            block.close()
        _open.set(tuple(other for other in _open.get() if other is not block))


class Pushing(ServedViews, ABC):
    """The methods of an engine that take input, each batch once, and run an epoch over it."""

    _on_bad_rows: OnBadRows

    @property
    def on_bad_rows(self) -> OnBadRows:
        """Return what happens to a row that does not fit, or with which a view cannot be computed."""
        return self._on_bad_rows

    @tagged("views.engine:Engine.push")
    def push(
        self,
        source: str,
        data: Any,
        *,
        at: datetime | str | None = None,
        watermark: datetime | str | int | None = None,
        position: Position | None = None,
    ) -> int:
        """Take one batch of changes: one epoch, or part of the open one (``with engine.epoch()``).

        Args:
            source: the name of the source.
            data: a polars frame, anything with Arrow's C stream interface, a dict of columns, or a list of rows:
                dictionaries, or tuples in the order of the declared columns, with ``_diff`` last. It may be changed
                afterwards: values in writable memory are copied. A column may be of another type if the declared one holds
                its values exactly: Int32 for Int64, ``datetime64[ns]`` in whole microseconds, a categorical for a text,
                another time zone, all nulls. In a column without a time zone an instant is its time in UTC.
            at: processing time of the batch, with time zone, or a text such as "2026-01-31T12:00:00Z"; by default the time of
                the machine's clock.
            watermark: moves the watermark of the source by hand, after these rows: a datetime, or a text as in a row;
                ``END_OF_TIME`` after the last batch.
            position: the position of the batch in its source, a whole number that grows. A batch whose position was
                reached before is skipped, so it can be pushed again after a crash and counts once. It may also be a
                growing text of fixed length; a list, such as the name of a file and a line; or a map of partitions to
                positions, each of which advances by itself: ``{0: 17, 1: 4}``. Others need
                ``source(..., position_order=...)``. A map that goes back in one of several partitions is refused.

        Returns:
            The number of the epoch, or of the last one if the batch was skipped. Inside of ``engine.epoch()``, the number
            that the epoch will have if nobody else pushes meanwhile.

        Raises:
            InputError: the batch does not fit the source, or a value cannot be computed; nothing has changed.
            CheckpointError: the epoch could not be written; nothing has changed, unless the message states otherwise.
        """
        declared, block = self._source(source), self._block(at)
        positions = declared.positions
        if position is not None:
            position = positions.kept(position)
            # Checked before the rows are, as a batch that is skipped need not fit.
            batch = Batch(source, position=position, positions=positions)
            if batch.is_taken(self._shown()[1]):
                if block is not None:
                    block.take(batch, self._shown()[1])
                return self.epoch_number
        refused: tuple[Refused, ...] = ()
        with self._running.giving_way:
            if self._on_bad_rows == "fail":
                # A subscriber may write into what was pushed.
                delta = accepted(declared, data, lambda: block is None and not self._running.readers.has_any)
            else:
                delta, refused = accepted_apart(declared, data)
            pushed = delta.pushed_reference
            moved = None if watermark is None else self._instant(source, watermark)
            batch = Batch(source, delta, moved, position, positions, refused)
            try:
                return self._take(block, batch, at)
            finally:
                del batch, delta
                if pushed is not None and (columns := pushed()) is not None:
                    columns.own()

    @tagged("views.engine:Engine.apush")
    async def apush(
        self,
        source: str,
        data: Any,
        *,
        at: datetime | str | None = None,
        watermark: datetime | str | int | None = None,
        position: Position | None = None,
    ) -> int:
        """Take one batch of changes in a thread, so that the event loop is not blocked: ``asyncio.to_thread(engine.push,
        ...)``.

        Cancelling the task does not stop an epoch that has begun.
        """
        import asyncio  # Imported here, as it takes longer than most of the package.

        return await asyncio.to_thread(self.push, source, data, at=at, watermark=watermark, position=position)

    @tagged("views.engine:Engine.advance")
    def advance(
        self, source: str, watermark: datetime | str | int, *, at: datetime | str | None = None
    ) -> int:
        """Move the watermark of a source by hand, in an epoch without rows or in the one that is open.

        Raises:
            InputError: the source has no event time, or the watermark would move back; nothing has changed.
        """
        moved, positions = self._instant(source, watermark), self._source(source).positions
        with self._running.giving_way:
            return self._take(self._block(at), Batch(source, watermark=moved, positions=positions), at)

    @tagged("views.engine:Engine.tick")
    def tick(self, *, at: datetime | str | None = None) -> int:
        """Run an epoch without rows, which advances processing time and fires the triggers that wait for it."""
        if open_epoch(self) is not None:
            raise InputError(
                "an epoch is open, and moves processing time itself: leave tick() out, and give the time to engine.epoch(at=...)"
            )
        with self._running.giving_way:
            return self._run((), at)

    def fire(self, view: str, key: object, window: object, at: datetime | str | None) -> int:
        """Run an epoch without rows in which windows of a view are fired, unless an epoch is open; see ``View.fire``."""
        if open_epoch(self) is not None:
            raise InputError(
                f"view {view!r}: fire is an epoch of its own, without the rows of the epoch that is open: call it before the "
                "block or after it"
            )
        return super().fire(view, key, window, at)

    def make_durable(self) -> int:
        """See ``ServedViews.make_durable``."""
        self._require_no_open_epoch("wait for the sink")
        return self._commit_waiting()

    def _require_no_open_epoch(self, what: str) -> None:
        if open_epoch(self) is not None:
            raise InputError(f"an epoch is open: end it first, and then {what}")

    def _block(self, at: datetime | str | None) -> OpenEpoch | None:
        """Return the epoch that is open in this context, or None."""
        block = open_epoch(self)
        if block is not None and at is not None:
            raise InputError("an epoch is open and has one processing time: give it to engine.epoch(at=...)")
        return block

    def _take(self, block: OpenEpoch | None, batch: Batch, at: datetime | str | None) -> int:
        """Add a batch to the epoch that is open, or run it as an epoch of its own."""
        if block is not None and (is_new := block.take(batch, self.positions)) is not None:
            return self.epoch_number + is_new
        return self._run((batch,), at)

    def _run(self, batches: Sequence[Batch], at: datetime | str | None) -> int:
        """Run an epoch in turn, unless all of its batches have been taken meanwhile; return the number of the last epoch.

        Raises:
            InputError: a source is not the one for which its batch was checked: that was dropped, and perhaps declared anew.
        """
        has_positions = any(batch.position is not None for batch in batches)
        with self._turn:
            for batch in batches:
                source = self.sources.get(batch.source)
                if source is None or source.positions is not batch.positions:
                    raise InputError(
                        f"source {batch.source!r} was dropped after these rows were checked for it; nothing has changed, push them "
                        "again into a source that is declared"
                    )
            positions = self._shown()[1] if has_positions else {}
            epoch_input = EpochInput.of(batches, positions, refuses_rows=self._on_bad_rows == "ledger")
            if epoch_input.is_repeated:
                return self.epoch_number
            return self._running.run(epoch_input, at)

    @property
    def positions(self) -> dict[str, Any]:
        """The last ``position`` pushed to each source, after which its input continues.

        Partitions are named by texts, as in JSON.
        """
        return copied(self._shown()[1])

    @property
    def watermarks(self) -> dict[str, datetime | int | None]:
        """How far the event time of each source is complete: None if unknown, ``END_OF_TIME`` if the source has ended."""
        return {name: shown_watermark(instant) for name, instant in self.published().watermarks.items()}

    @tagged("views.engine:Engine.epoch")
    @contextmanager
    def epoch(self, *, at: datetime | str | None = None) -> Iterator[OpenEpoch]:
        """Collect everything pushed inside the ``with`` block into one epoch, which fails as a whole if anything raises.

        If all of it was pushed before (``position=``), there is no epoch. Blocks of several threads or tasks are epochs of
        their own, one after the other as they end; ``number`` of the yielded object is the epoch's number afterwards.
        """
        self._shown()
        with gathered(self) as block:
            yield block
            epoch_input = block.close()
        if not epoch_input.is_repeated:
            with self._running.giving_way, self._turn:
                before = self.epoch_number
                try:
                    self._run(epoch_input.batches, at)
                finally:  # The epoch is done nevertheless if only a subscriber has raised.
                    block.number = before + 1 if self.epoch_number > before else None

    def _source(self, name: str) -> Source:
        if not isinstance(name, str):
            raise InputError(
                f"{type(name).__name__} is not the name of a source; there are {listed(self.sources)}: give name and rows, "
                "as in engine.push('name', rows), or write source.push(rows)"
            )
        if name not in self.sources:
            raise InputError(f"there is no source {name!r}; there are {listed(self.sources)}")
        return self.sources[name]

    def _instant(self, source: str, watermark: datetime | str | int) -> int:
        """Return a watermark by hand as an instant."""
        event_time = self._source(source).event_time
        if event_time is None:
            raise InputError(
                f"source {source!r} has no event time and so no watermark; declare it with event_time="
            )
        return instant(f"source {source!r}", watermark, self._source(source).schema[event_time])
