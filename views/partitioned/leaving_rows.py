"""The rows that leave a task: combined as far as they can be, cut into buckets, and handed on in memory or in files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

import numpy as np
import polars as pl

from evercurrent.core.circuit.circuit import Circuit, NodeId
from evercurrent.core.circuit.stages import Columns, Exchange
from evercurrent.core.data.columns.kernels import ROUTED_BITS, gather, key_words
from evercurrent.core.data.columns.key_hash import hashing_by
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.schema import DIFF
from evercurrent.core.operators.group.partial_aggregates import ADDED_UP
from evercurrent.core.state.ledger import Ledger
from evercurrent.core.state.partitioning import bucket_of

from ..checkpoint import Pieces
from .delta_frames import together, with_epoch
from .held_states import HeldStates
from .limits import InlineLimits
from .tasks import RowBatch, TaskResult

FEW_BUCKETS = 8
"""Up to this many buckets, searching for the rows of each costs less than sorting the rows by their buckets."""

SAMPLE, FAR_FEWER = 256, 4
"""Rows are combined in memory if that leaves at most one in four."""


class LeavingRows:
    """Passes the rows of tasks on to later stages. Without ``inline`` limits all of them are passed on in memory."""

    def __init__(
        self, circuit: Circuit, pieces: Pieces | HeldStates, buckets: int, inline: InlineLimits | None
    ) -> None:
        self._circuit = circuit
        self._pieces = pieces
        self._buckets = buckets
        self._inline = inline
        self._left: float = inf
        """The bytes that may still be passed on in memory."""

    def begin(self, most_bytes: int) -> None:
        """Limit what is passed on in memory from here on, in all: a task of Spark may have many chunks, buckets or parts."""
        self._left = most_bytes

    def combined(self, exchange: Exchange, delta: Delta) -> Delta:
        """Combine the rows as far as the operator that they go to allows; it may need none of them."""
        if exchange.combined_for is None:
            return delta
        if self._inline is None and not self._is_far_fewer(exchange, delta):
            return delta
        return self._combined_for(exchange.combined_for, delta)

    def together(self, exchange: Exchange, frames: Sequence[pl.DataFrame]) -> Delta:
        """Return all rows of an exchange, given those of several tasks, each of which has combined its own or has not.

        If some are added up, the others are now: they have no columns of sums, which would count as zero.
        """
        if exchange.combined_for is not None and len(frames) > 1:
            others = [frame for frame in frames if ADDED_UP not in frame.columns]
            if 0 < len(others) < len(frames):
                added_up = [frame for frame in frames if ADDED_UP in frame.columns]
                frames = [*added_up, self._combined_for(exchange.combined_for, Delta(together(others))).frame]
        return Delta(frames[0] if len(frames) == 1 else together(frames))

    def _combined_for(self, reader: NodeId, delta: Delta) -> Delta:
        with hashing_by(self._pieces.key_hash):
            combined = self._circuit.nodes[reader].operator.combine(delta)
        return delta if combined is None else combined

    def _is_far_fewer(self, exchange: Exchange, delta: Delta) -> bool:
        """Return whether the groups of rows seem to be far fewer than the rows. It is not decisive: sums are the same."""
        if len(delta) <= SAMPLE or not exchange.route:
            return True
        places = np.arange(0, len(delta), len(delta) // SAMPLE)
        sample = [delta.frame.get_column(name)[places] for name in exchange.route]
        with hashing_by(self._pieces.key_hash):
            words = key_words(sample, len(places)).first
        return len(np.unique(words)) <= len(places) // FAR_FEWER

    def cut_rows(self, result: TaskResult, leaving: Mapping[Exchange, Delta]) -> None:
        """Pass the rows of each exchange on, a part for each bucket that gets any."""
        places: list[tuple[Exchange, int]] = []
        frames: list[pl.DataFrame] = []
        for exchange, delta in leaving.items():
            for bucket, frame in self.by_bucket(exchange.route, delta):
                places.append((exchange, bucket))
                frames.append(frame)
        for (exchange, bucket), part in zip(places, self._handed_on(frames), strict=True):
            result.rows.setdefault(exchange, {})[bucket] = part

    def by_bucket(self, route: Columns | None, delta: Delta) -> Iterable[tuple[int, pl.DataFrame]]:
        """Return the rows of each bucket by the words of some columns; None: of all."""
        return self._cut(route, delta.frame, self._buckets, 0)

    def by_part(
        self, route: Columns | None, frame: pl.DataFrame, parts: int
    ) -> Iterable[tuple[int, pl.DataFrame]]:
        """Return the rows of each part of a bucket, by bits of the same words on which the buckets do not depend."""
        return self._cut(route, frame, parts, ROUTED_BITS)

    def _cut(
        self, route: Columns | None, frame: pl.DataFrame, count: int, skipped: int
    ) -> Iterable[tuple[int, pl.DataFrame]]:
        if not frame.height:
            return []
        if route == () or count == 1:
            return [(0, frame)]
        names = route or [name for name in frame.columns if name != DIFF]
        with hashing_by(self._pieces.key_hash):
            words = key_words([frame.get_column(name) for name in names], frame.height).first
        places = bucket_of(words << np.uint64(skipped), count)
        if count <= FEW_BUCKETS:
            rows_by_place = ((place, np.flatnonzero(places == place)) for place in range(count))
            return [(place, gather(frame, rows)) for place, rows in rows_by_place if len(rows)]
        counts = np.bincount(places, minlength=count)
        # Numbers of 16 bits are sorted by counting.
        ordered = gather(frame, np.argsort(places.astype(np.uint16), kind="stable"))
        spans = zip((np.cumsum(counts) - counts).tolist(), counts.tolist(), strict=True)
        return [(place, ordered.slice(start, size)) for place, (start, size) in enumerate(spans) if size]

    def _handed_on(self, frames: Sequence[pl.DataFrame]) -> list[RowBatch]:
        if self._is_inline(frames):
            return [RowBatch(frame.height, frame) for frame in frames]
        refs = self._pieces.write(frames, folder="exchange")
        return [RowBatch(frame.height, ref) for frame, ref in zip(frames, refs, strict=True)]

    def row_batch(self, view: str, epoch: int, frame: pl.DataFrame) -> RowBatch:
        """Return the delta of a view, in a file if it has many rows."""
        if self._is_inline([frame]):
            return RowBatch(frame.height, frame)
        return RowBatch(frame.height, self._pieces.write_delta(view, epoch, with_epoch(frame, epoch)))

    def _is_inline(self, frames: Sequence[pl.DataFrame]) -> bool:
        """Return whether these rows are passed on in memory."""
        return self._inline is None or self._allows(sum(frame.height for frame in frames), _size(frames))

    def _allows(self, rows: int, size: int) -> bool:
        assert self._inline is not None, "there are limits"
        if size > self._left or not self._inline.allow(rows, size):
            return False
        self._left -= size
        return True

    def refuse(self, result: TaskResult, ledger: Ledger) -> None:
        """Put the refused rows into the result of a task, or into files if they are large."""
        result.refused = ledger.staged
        frames = [refused.frame for refused in result.refused]
        if self._inline is not None and not self._allows(0, _size(frames)):
            result.refused_files = tuple(self._pieces.write(frames, folder="exchange"))
            result.refused = tuple(
                replace(refused, frame=refused.frame.clear()) for refused in result.refused
            )


def _size(frames: Iterable[pl.DataFrame]) -> int:
    return sum(int(frame.estimated_size()) for frame in frames)
