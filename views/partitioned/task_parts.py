"""A task whose rows do not fit a worker's memory is run in parts, one after the other, in the same epoch.

Each part has all rows of some keys, and begins with the states that the part before it has written: keys of one bucket have
nothing to do with each other, so the parts of a task are to it what the buckets are to a stage. Rows are read file by file, and
combined where the operator that they go to allows it; if they are still too many, they are cut by their keys, into files again.
So a worker holds the rows of one part, and each row is read and written once more.

What is not cut: rows that all have to be together, as those of a group without keys; rows of one key; and the stages of windows
and other nodes that clocks move, since the windows of all keys of a bucket close in the same step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import polars as pl

from evercurrent.core.circuit.circuit import Circuit
from evercurrent.core.circuit.stages import Cut, Exchange, Stage
from evercurrent.core.state.merge_policy import FLOOR
from evercurrent.core.state.protocol import State
from evercurrent.core.state.spine import Spine

from ..checkpoint import PieceRef, Pieces
from ..checkpoint.memory_limit import USUAL_ENTRY
from .held_states import HeldStates
from .leaving_rows import LeavingRows
from .limits import MEBIBYTE
from .tasks import Parts, RowBatch, Task

PART_BYTES = 64 * MEBIBYTE
"""About the most bytes of rows that a task takes at a time."""

MOST_PARTS = 1 << 12
"""The most parts of a task; a task with more rows has larger parts."""

RowsByExchange = Mapping[Exchange, Parts]
"""The rows of a task."""


class TaskParts:
    """Cuts the rows of a task into parts, each with at most about ``most_bytes``."""

    def __init__(
        self,
        circuit: Circuit,
        cut: Cut,
        pieces: Pieces | HeldStates,
        leaving: LeavingRows,
        most_bytes: int = PART_BYTES,
    ) -> None:
        self.most_bytes = most_bytes
        self._circuit = circuit
        self._cut = cut
        self._pieces = pieces
        self._leaving = leaving

    def of(self, task: Task) -> list[RowsByExchange]:
        """Return the rows of each part of a task, at least of one.

        Cost: nothing if they fit; else each row is read once, and written once if it cannot be combined with others.
        """
        if task.bytes <= self.most_bytes:
            return [task.rows]
        count = min(-(-task.bytes // self.most_bytes), MOST_PARTS)
        written: list[dict[Exchange, list[RowBatch]]] = [{} for _ in range(count)]
        held: dict[Exchange, list[pl.DataFrame]] = {}
        may_cut, size, limit = self._may_cut(self._cut.stages[task.stage]), 0, self.most_bytes
        for exchange, batches in task.rows.items():
            for batch in batches:
                frame = self.frame_of(batch)
                held.setdefault(exchange, []).append(frame)
                size += int(frame.estimated_size())
                if size <= limit:
                    continue
                size = self._combine(held)
                if may_cut and size > limit // 2:
                    self._write(held, written)
                    held, size = {}, 0
                elif size > limit // 2:
                    limit = 2 * size
        if not any(written):
            return [{exchange: _in_memory(frames) for exchange, frames in held.items()}]
        self._write(held, written)
        return [{each: tuple(parts) for each, parts in rows.items()} for rows in written if rows]

    def frame_of(self, batch: RowBatch) -> pl.DataFrame:
        """Return rows, mapped if they are in a file."""
        return self._pieces.read(batch.held) if isinstance(batch.held, PieceRef) else batch.held

    @contextmanager
    def small_merges(self, states: Iterable[State]) -> Iterator[None]:
        """Keep runs of these states apart, within the context, that would not fit memory if they were merged.

        Else each part would merge what the parts before it have added.
        """
        spines = [state for state in states if isinstance(state, Spine)]
        for spine in spines:
            spine.most_merged, spine.is_growing = max(FLOOR, self.most_bytes // USUAL_ENTRY), True
        try:
            yield
        finally:
            for spine in spines:
                spine.most_merged, spine.is_growing = None, False

    def _may_cut(self, stage: Stage) -> bool:
        """Return whether the keys of a bucket have nothing to do with each other in this stage."""
        nodes = (self._circuit.nodes[place] for place in stage.nodes)
        return not any(node.operator.has_timers or node.timed_by for node in nodes)

    def _combine(self, held: dict[Exchange, list[pl.DataFrame]]) -> int:
        """Combine the rows that may be combined, and return the size of all."""
        for exchange, frames in held.items():
            if exchange.combined_for is not None and len(frames) > 1:
                held[exchange] = [
                    self._leaving.combined(exchange, self._leaving.together(exchange, frames)).frame
                ]
        return sum(int(frame.estimated_size()) for frames in held.values() for frame in frames)

    def _write(
        self, held: Mapping[Exchange, list[pl.DataFrame]], written: list[dict[Exchange, list[RowBatch]]]
    ) -> None:
        """Cut rows into parts, and write them to files of their own, as no other process needs them after the task."""
        places: list[tuple[Exchange, int]] = []
        frames: list[pl.DataFrame] = []
        for exchange, several in held.items():
            rows = self._leaving.together(exchange, several).frame
            for part, frame in self._leaving.by_part(exchange.route, rows, len(written)):
                places.append((exchange, part))
                frames.append(frame)
        refs = self._pieces.write(frames, folder="exchange")
        for (exchange, part), frame, ref in zip(places, frames, refs, strict=True):
            written[part].setdefault(exchange, []).append(RowBatch(frame.height, ref))


def _in_memory(frames: list[pl.DataFrame]) -> Parts:
    return tuple(RowBatch(frame.height, frame) for frame in frames)
