"""Rows that wait in a state are read without sorting them: only those that may have been retracted are brought together."""

from __future__ import annotations

import numpy as np
import polars as pl

from ..data.columns.grouping import group
from ..data.columns.kernels import Ints, frame_of, gather, keep, key_words, of_one_chunk, stack
from ..data.columns.marks import marked, marked_columns, marks_of
from ..data.schema import DIFF
from .waiting import Chunk, Waiting

FEW_MARKED = 2
"""Where more than one row in so many may have been retracted, all are sorted."""


def in_one_chunk(waiting: Waiting) -> Chunk | None:
    """Return rows that wait as one chunk, in the order in which they came, without those that were retracted since.

    A retraction removes the earliest of equal rows: so the order of those that are left does not depend on when others read them.
    None where many rows may have been retracted, or where that cannot be seen by their marks. Cost: a copy of the rows; none if
    they are one chunk without retractions.
    """
    frames, key_hash = [chunk.frame for chunk in waiting], waiting[0].key_hash
    if not any(chunk.retracting for chunk in waiting):
        return waiting[0] if len(waiting) == 1 else Chunk(of_one_chunk(stack(frames)), key_hash)
    columns = marked_columns(dict(list(frames[0].schema.items())[:-1]))
    if not columns:
        return None
    marks = np.concatenate([marks_of([frame.get_column(name) for name in columns]) for frame in frames])
    diffs = np.concatenate([frame.get_column(DIFF).to_numpy() for frame in frames])
    candidates = marked(marks, marks[diffs < 0])
    if FEW_MARKED * len(candidates) > len(diffs):
        return None
    ends = np.cumsum([frame.height for frame in frames])
    cuts = np.searchsorted(candidates, ends[:-1])
    starts = ends - [frame.height for frame in frames]
    marked_rows = [
        gather(frame, positions - start)
        for frame, positions, start in zip(frames, np.split(candidates, cuts), starts, strict=True)
    ]
    left = diffs.copy()
    left[candidates] = _left_of(stack(marked_rows))
    remaining = [
        keep(frame_of(frame.get_columns()[:-1]), is_left)
        for frame, is_left in zip(frames, np.split(left != 0, ends[:-1]), strict=True)
    ]
    left = left[left != 0]
    rows = of_one_chunk(stack(remaining)).get_columns()
    return Chunk(frame_of([*rows, pl.Series(DIFF, left)]), key_hash, retracting=int((left < 0).sum()))


def present_rows(chunk: Chunk) -> pl.DataFrame:
    """Return the rows of a chunk ``in_one_chunk``, each as many times as its diff. Cost: none, if all are there once."""
    diffs = chunk.frame.get_column(DIFF).to_numpy()
    rows = frame_of(chunk.frame.get_columns()[:-1])
    if (diffs == 1).all():
        return rows
    return gather(rows, np.repeat(np.arange(len(diffs)), np.maximum(diffs, 0)))


def _left_of(frame: pl.DataFrame) -> Ints:
    """Return what is left of the diff of each row, given in order of arrival: as many of the last additions of equal rows as they add up to.

    If they add up to less than zero, that is the diff of the last of them.
    """
    diffs = frame.get_column(DIFF).to_numpy()
    groups = group(key_words(frame.get_columns()[:-1], frame.height))
    order, starts = groups.order, groups.starts
    ordered = diffs[order]
    ends = np.append(starts[1:], len(order))
    owners = np.repeat(np.arange(len(starts)), ends - starts)
    totals = np.add.reduceat(ordered, starts)
    added = np.maximum(ordered, 0)
    through = np.cumsum(added)
    later = through[ends - 1][owners] - through
    left = np.clip(totals[owners] - later, 0, added)
    below = np.flatnonzero(totals < 0)
    left[ends[below] - 1] = totals[below]
    result: Ints = np.empty_like(left)
    result[order] = left
    return result
