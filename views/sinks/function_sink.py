"""A function of the user's own as a sink: it gets each delta, and again if it raised."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import polars as pl

from evercurrent.core.data.errors import SinkError
from evercurrent.core.data.schema import EPOCH

from .counted_rows import counted


class FunctionSink:
    """A function that is called with deltas. It remembers nothing itself: the engine does, in its next commit."""

    remembers, most_rows = False, 1
    """The engine remembers how far it is, and each epoch is passed on its own."""

    def __init__(
        self, function: Callable[[pl.DataFrame], Any], position: int | None, place: str | None = None,
        target: Hashable = None,
    ) -> None:  # fmt: skip
        self._function = function
        self._position = None if position is None or position < 0 else position
        self.target = target
        self.place = place or f"function {getattr(function, '__qualname__', repr(function))}"

    def position(self) -> int | None:
        """See ``Sink.position``: the epoch of the last call that returned, or what the engine remembers."""
        return self._position

    def begin(self, contents: pl.DataFrame, epoch: int) -> None:
        """See ``Sink.begin``: the contents are passed as a delta of this epoch.

        Raises:
            SinkError: it has had epochs before, to which the contents would be added.
        """
        if self._position is not None:
            raise SinkError(
                f"{self.place} has had the epochs up to {self._position}, and the deltas since are no longer retained, or the view "
                "was replaced; retain more with Engine(retain=Retain(...)) or Checkpoint(keep=...), or give another name=, and "
                "it begins with the contents"
            )
        if contents.height:
            self._function(counted(contents, epoch))
        self._position = epoch

    def write(self, delta: pl.DataFrame) -> None:
        """See ``Sink.write``."""
        self._function(delta)
        self._position = delta.item(0, EPOCH)

    def close(self) -> None:
        """See ``Sink.close``."""
