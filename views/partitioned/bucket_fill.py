"""The epoch in which views that are new to a checkpoint in buckets get their rows: it has no input.

One commit has the new states, and all rows of the new views as their first deltas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from evercurrent.core.data.clock import Now
from evercurrent.core.data.columns.kernels import stack
from evercurrent.core.data.columns.key_hash import hashing_by
from evercurrent.core.data.delta import Delta

from ..checkpoint import Commit, Pieces, StateRecord
from ..durability.nodes_to_fill import OnRead
from ..durability.replaced_columns import with_replaced
from ..durability.time_travel import BORN
from .bucket_evaluator import BucketInput, BucketResult
from .bucket_states import BucketStates
from .clocks import Clocks
from .stage_runner import StageRunner
from .tasks import RowBatch


@dataclass(frozen=True, slots=True, eq=False)
class Replaced:
    """The ``views`` that take the place of others with the same columns, and the plan and the commit that these are of."""

    views: tuple[str, ...]
    runner: StageRunner
    last: Commit


class BucketFill:
    """Evaluates the epoch in which views that are new to a checkpoint get their rows. It has no input.

    ``runner`` runs the plan that the ``filling`` computes states for. A view that has ``replaced`` one goes on with the difference.
    ``on_read`` is called for each bucket of rows that is read.
    """

    def __init__(
        self,
        pieces: Pieces,
        runner: StageRunner,
        clocks: Clocks,
        filling: BucketStates,
        replaced: Replaced | None = None,
        on_read: OnRead | None = None,
    ) -> None:
        self._pieces, self._runner, self._clocks = pieces, runner, clocks
        self._filling, self._replaced, self._on_read = filling, replaced, on_read

    def promise(self, taken_input: BucketInput) -> None:
        """See ``Evaluator``: the epoch has no input."""

    def evaluate(self, now: Now, taken_input: BucketInput) -> BucketResult:
        """See ``Evaluator``."""
        filling, last = self._filling, self._filling.last
        for read_entries in filling.pieces():
            if self._on_read is not None:
                self._on_read(filling.views, read_entries, filling.entries)
        self._clocks.held_at |= filling.new_holds()
        every = {**last.states, **filling.new_states()}
        replaced = () if self._replaced is None else self._replaced.views
        begun = [view for view in filling.views if view not in replaced]
        deltas = {view: list(self._rows_of(view, every, now)) for view in begun}
        deltas |= {view: list(self._difference_of(view, every, now)) for view in replaced}
        born = {**last.facts.get(BORN, {}), **dict.fromkeys(begun, int(now.epoch))}
        born = {view: epoch for view, epoch in born.items() if view not in filling.match.gone_views}
        facts = with_replaced({**last.facts, BORN: born}, born, filling.match.replaced)
        taken_input = BucketInput(taken_input.arrive, facts=facts)
        return BucketResult(
            taken_input, every, deltas={view: parts for view, parts in deltas.items() if parts}
        )

    def commit(self, evaluated: BucketResult) -> None:
        """See ``Evaluator``."""
        self._clocks.commit()

    def discard(self) -> None:
        """See ``Evaluator``."""
        self._clocks.discard()

    def _rows_of(self, view: str, states: Mapping[str, StateRecord], now: Now) -> Iterator[RowBatch]:
        """Yield all rows of a view, bucket by bucket, as its first delta."""
        for delta in self._contents(self._runner, view, states):
            yield self._runner.leaving.row_batch(view, int(now.epoch), delta.frame)

    def _difference_of(self, view: str, states: Mapping[str, StateRecord], now: Now) -> Iterator[RowBatch]:
        """Yield the change from the rows of the view that is replaced, whose rows may be in other buckets."""
        assert self._replaced is not None, "a view is replaced"
        parts: dict[int, list[pl.DataFrame]] = {}
        before = self._contents(self._replaced.runner, view, self._replaced.last.states)
        for delta in (*self._contents(self._runner, view, states), *(each.negate() for each in before)):
            for bucket, frame in self._runner.leaving.by_bucket(None, delta):
                parts.setdefault(bucket, []).append(frame)
        for frames in parts.values():
            with hashing_by(self._pieces.key_hash):
                change = Delta(stack(frames)).consolidate()
            if len(change):
                yield self._runner.leaving.row_batch(view, int(now.epoch), change.frame)

    def _contents(self, runner: StageRunner, view: str, states: Mapping[str, StateRecord]) -> Iterator[Delta]:
        """Yield the rows of a view, bucket by bucket."""
        kept_at = runner.compiled.kept_at[view]
        for bucket in range(self._filling.last.buckets):
            if runner.put_for(kept_at, bucket, states):
                with hashing_by(self._pieces.key_hash):
                    delta = runner.compiled.contents[view].emitted().consolidate()
                if len(delta):
                    yield delta
