"""The contents of a view, with the epoch that they are of."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from evercurrent.core.data.tags import tagged


@tagged("views.view:Snapshot")
@dataclass(frozen=True, slots=True)
class Snapshot:
    """The contents of a view at the end of an epoch: follow it with ``view.deltas(since=snapshot.epoch)``.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> engine = ec.Engine()
    >>> words = engine.source("words", {"word": pl.String})
    >>> counts = engine.view("counts", words.group_by("word").len())
    >>> _ = words.push({"word": ["a"]})
    >>> snapshot = counts.snapshot()
    >>> _ = words.push({"word": ["b"]})
    >>> snapshot.epoch, snapshot.frame.rows(), [delta.rows() for delta in counts.deltas(since=snapshot.epoch)]
    (1, [('a', 1)], [[('b', 1, 2, 1)]])
    """

    epoch: int
    frame: pl.DataFrame
