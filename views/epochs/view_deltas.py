"""The deltas of views as readers see them: consolidated, with the number of their epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import polars as pl

from evercurrent.core.data.columns.kernels import frame_of
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.schema import EPOCH


class ViewDelta:
    """The delta of a view in one epoch.

    Its frame has the view's columns, ``_epoch`` and ``_diff``, each row once. It is made when it is first read, as rows may be
    many and nobody may ever look at them; several threads may do it, with the same result.
    ``entries`` counts what the view's operator has emitted: a row may be in it more than once.
    """

    __slots__ = ("_delta", "_frame", "entries", "epoch")

    def __init__(self, epoch: int, delta: Delta) -> None:
        self.epoch: int = epoch
        self.entries: int = len(delta)
        # Without what was computed of it, which would be held as long as the delta.
        self._delta: Delta | Callable[[], Delta] | None = delta.bare()
        self._frame = pl.DataFrame()

    @staticmethod
    def later(epoch: int, entries: int, read: Callable[[], Delta]) -> ViewDelta:
        """Return a delta that a function reads when it is needed, of about so many entries; none if there are no rows."""
        delta = object.__new__(ViewDelta)
        delta.epoch, delta.entries, delta._delta, delta._frame = epoch, entries, read, pl.DataFrame()
        return delta

    @staticmethod
    def of(epoch: int, delta: Delta) -> ViewDelta | None:
        """Return the delta of a view; None if its rows cancel."""
        remaining = delta.without_cancelled()
        return None if remaining is None else ViewDelta._of_remaining(epoch, remaining)

    @staticmethod
    def _of_remaining(epoch: int, remaining: Delta) -> ViewDelta:
        of_view = object.__new__(ViewDelta)
        of_view.epoch, of_view.entries = epoch, remaining.height
        of_view._delta, of_view._frame = remaining, pl.DataFrame()
        return of_view

    @property
    def frame(self) -> pl.DataFrame:
        """Return the rows. Cost: the first time, that of consolidating them."""
        delta = self._delta
        if delta is not None:
            if not isinstance(delta, Delta):
                delta = delta()
            columns = delta.consolidate().frame.get_columns()
            epochs = pl.Series(EPOCH, [self.epoch], pl.UInt64).new_from_index(0, len(columns[-1]))
            self._frame = frame_of([*columns[:-1], epochs, columns[-1]])
            self._delta = None
        return self._frame


class ViewDeltas(Mapping[str, pl.DataFrame]):
    """The deltas of the views that an epoch changes, by name; a frame is made when it is taken."""

    def __init__(self, deltas: Mapping[str, ViewDelta]) -> None:
        self.unread = deltas

    @staticmethod
    def of(epoch: int, deltas: Iterable[tuple[str, Delta]]) -> ViewDeltas:
        """Return the deltas of views by name, each of which is ``bare`` and has rows."""
        return ViewDeltas({name: ViewDelta._of_remaining(epoch, delta) for name, delta in deltas})

    def __getitem__(self, view: str) -> pl.DataFrame:
        """Return the rows of a view."""
        return self.unread[view].frame

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the views."""
        return iter(self.unread)

    def __len__(self) -> int:
        """Return the number of views."""
        return len(self.unread)

    def __contains__(self, view: object) -> bool:
        """Return whether the epoch changes a view."""
        return view in self.unread
