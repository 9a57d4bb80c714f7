"""The retained deltas of a view after an epoch, as an object that is iterated or exported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape

import polars as pl

from evercurrent.core.data.columns.json_texts import printable
from evercurrent.core.data.schema import DIFF, EPOCH

from ..epochs.history import BEFORE_ALL


class Deltas:
    """The deltas of a view after an epoch: iterate for one frame per epoch, or hand it on as one Arrow stream.

    Every iteration starts again at ``since`` and ends at the last epoch; to go on, call ``view.deltas(since=last_epoch)``.
    The caller owns the frames. One object is for one thread at a time: each thread calls ``view.deltas()`` for its own.
    """

    def __init__(
        self,
        view: str,
        schema: pl.Schema,
        since: int,
        last_epoch: int,
        begin: Callable[[], tuple[int, Iterator[pl.DataFrame]]],
    ) -> None:
        self._view = view
        self._schema = pl.Schema({**schema, EPOCH: pl.UInt64(), DIFF: pl.Int64()})
        self._since = since
        self._begin = begin
        """Returns the last epoch, and the frames up to it."""
        self.last_epoch: int = last_epoch

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """Frames of the view's columns, ``_epoch`` and ``_diff``, each row once per epoch."""
        self.last_epoch, frames = self._begin()
        return frames

    def frame(self) -> pl.DataFrame:
        """Return all deltas in one frame."""
        frames: list[pl.DataFrame] = [self._schema.to_frame(), *self]
        return pl.concat(frames)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export all deltas as an Arrow C stream."""
        stream: object = self.frame().__arrow_c_stream__(requested_schema)
        return stream

    def __repr__(self) -> str:
        """Show the view, the epoch ``since``, and all deltas in one frame."""
        return f"Deltas of view {self._view!r} {self._since_text}\n{printable(self.frame())}"

    def _repr_html_(self) -> str:
        """Show the same in notebooks."""
        title = f"<b>{escape(self._view)}</b>: deltas {self._since_text}"
        return f"<p>{title}</p>{printable(self.frame())._repr_html_()}"

    @property
    def _since_text(self) -> str:
        return "from the beginning" if self._since == BEFORE_ALL else f"after epoch {self._since}"
