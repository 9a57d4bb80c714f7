"""Epochs that are collected in a block, ``with engine.epoch()``: each belongs to the context in which it was begun."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from evercurrent.core.data.errors import InputError

from ..concurrency.turns import Guard
from ..connectors.positions import Position
from ..epochs.records import Batch, EpochInput

_open: ContextVar[tuple[OpenEpoch, ...]] = ContextVar("evercurrent_open_epochs", default=())
"""The blocks that this context is in, of all engines."""


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
