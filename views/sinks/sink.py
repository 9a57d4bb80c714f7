"""What a sink is: a place outside that remembers up to which epoch it was written."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import polars as pl


class Sink(Protocol):
    """A place outside that holds the contents of a view, or its deltas.

    The rows of an epoch and its number are written in one step, which happens whole or not at all. So a writer reads
    ``position`` and goes on behind it, and each epoch is there once, whichever side has crashed.
    """

    @property
    def place(self) -> str:
        """The place as errors and logs show it: its kind, and a path, url or table without any password."""
        ...

    @property
    def target(self) -> Hashable:
        """What is equal for sinks that write to one place, and is not shown; None for a function, which any number may call."""
        ...

    @property
    def remembers(self) -> bool:
        """Whether the place itself records how far it is."""
        ...

    @property
    def most_rows(self) -> int:
        """How many rows of deltas are written in one step; several epochs go together up to this many."""
        ...

    def position(self) -> int | None:
        """Return the epoch up to which the place was written from this engine; None if it never was, or from another one since.

        Raises:
            SinkError: what is there is of nobody's view, or deltas of another engine, so that writing would harm it.
        """
        ...

    def begin(self, contents: pl.DataFrame, epoch: int) -> None:
        """Make the place hold these contents as of an epoch, whatever it holds of this sink so far.

        Raises:
            SinkError: it holds deltas that cannot be taken back.
        """
        ...

    def write(self, delta: pl.DataFrame) -> None:
        """Write the delta of one or several epochs that follow the position: columns of the view, ``_epoch`` and ``_diff``."""
        ...

    def close(self) -> None:
        """Release connections. Closing twice is no error."""
        ...
