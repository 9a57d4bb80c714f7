"""Earlier epochs of a checkpoint: deltas from their files, contents from old commits, times and watermarks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from evercurrent.core.data.columns.kernels import gather, stack
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import EpochGoneError
from evercurrent.core.data.schema import EPOCH
from evercurrent.core.state.ledger import Ledger
from evercurrent.core.state.protocol import State

from ..checkpoint import Commit, CommitLog, DeltaRef, Pieces, Saver
from ..compiler.builder import Compiled
from ..compiler.compiler import compile_plan
from ..epochs.history import BEFORE_ALL
from ..epochs.records import EvaluatedEpoch, Noted
from ..plan.plan import Plan
from .digest_schemes import EarlierNames
from .plan_match import BORN as BORN
from .plan_match import lost_in, state_ids


class PastCircuit:
    """The circuit of a plan for earlier epochs: states are restored in it, it takes part in none.

    It is compiled when contents are first read, and kept without rows, so that further reads have only files to read.
    One thread may use it at a time.
    """

    def __init__(self, plan: Plan, *, allow_pickle: bool = False) -> None:
        self._plan = plan
        self._allow_pickle = allow_pickle

    @cached_property
    def _compiled(self) -> Compiled:
        return compile_plan(self._plan, Ledger(0), allow_pickle=self._allow_pickle)

    @cached_property
    def _names(self) -> dict[int, str]:
        """The names of its states, by their ids in this process."""
        return {id(state): name for name, state in state_ids(self._compiled).items()}

    def required(self, view: str) -> set[str]:
        """Return the names of the states that have to be in a commit for a view to be read from it."""
        nodes = self._compiled.circuit.nodes
        node = nodes[self._compiled.kept_at[view]]
        return {
            self._names[id(state)]
            for each in (node, *(nodes[at] for at in node.reads))
            for state in each.states
        }

    def contents(self, view: str, commit: Commit, pieces: Pieces) -> pl.DataFrame:
        """Return the contents of a view as of a commit with the present names. Cost: the states from which they are made.

        Raises:
            CheckpointError: a file of these states is missing or damaged.
        """
        compiled, saver = self._compiled, Saver(pieces)
        node, readable = compiled.kept_at[view], compiled.contents[view]
        states = {self._names[id(state)]: state for state in readable.reads}
        stage = compiled.cut.stages[compiled.cut.stage_of[node]]
        parts = [self._plan[self._plan.views[view]].schema.to_frame()]
        try:
            for bucket in range(commit.buckets):
                if node in stage.in_bucket(bucket):
                    saver.restore(
                        {f"{name}/{bucket}": state for name, state in states.items()}, commit.states
                    )
                    parts.append(readable.contents())
        finally:
            saver.restore(states, {})
        return parts[1] if len(parts) == 2 else pl.concat(parts)


class Past:
    """The retained epochs of a checkpoint.

    ``waiting`` are epochs that are done and not yet committed. ``born`` are the first epochs of views that were added later:
    older files under their names belong to other views.
    """

    def __init__(
        self,
        plan: Plan,
        record: Mapping[str, Any],
        log: CommitLog,
        pieces: Pieces,
        *,
        allow_pickle: bool = False,
        earlier: EarlierNames | None = None,
        circuit: PastCircuit | None = None,
    ) -> None:
        self.waiting: tuple[EvaluatedEpoch, ...] = ()
        self.born: Mapping[str, int] = {}
        self._plan = plan
        self._record = record
        self._earlier = earlier or EarlierNames(plan)
        self._circuit = circuit or PastCircuit(plan, allow_pickle=allow_pickle)
        self._log = log
        self._pieces = pieces
        self._allow_pickle = allow_pickle

    def over(self, record: Mapping[str, Any], born: Mapping[str, int]) -> Past:
        """Return the same for the plan as it is declared now."""
        other = Past(self._plan, record, self._log, self._pieces, allow_pickle=self._allow_pickle)
        other.waiting, other.born = self.waiting, born
        return other

    @property
    def last_epoch(self) -> int:
        """Return the epoch of the last commit; ``BEFORE_ALL`` if there is none."""
        last = self._log.last
        return BEFORE_ALL if last is None else last.epoch

    def begins(self, view: str) -> int:
        """Return the epoch after which all deltas of a view are retained."""
        first = min(self._log.epochs(), default=0) or BEFORE_ALL
        return max(first, self.born.get(view, 0) - 1)

    def first(self, view: str) -> int:
        """Return the first epoch of the present definition of a view; 0 if it is the only one."""
        return self.born.get(view, 0)

    def deltas(self, view: str, since: int, until: int) -> Iterator[pl.DataFrame]:
        """Yield the deltas of a view after one epoch and up to another, from files and from epochs not yet written.

        Raises:
            EpochGoneError: they are no longer retained.
            CheckpointError: a file is missing or damaged.
        """
        written, waiting = self.delta_places(view, since, until)
        return chain(map(self._pieces.read_delta, written), waiting)

    def delta_places(
        self, view: str, since: int, until: int
    ) -> tuple[Sequence[DeltaRef], Sequence[pl.DataFrame]]:
        """Return the places of the same deltas in files, and the frames of those not yet written.

        Raises:
            EpochGoneError: they are no longer retained.
        """
        refs = delta_files(self._log, view, since, self.born)
        waiting = [
            evaluated.deltas[view]
            for evaluated in self.waiting
            if view in evaluated.deltas and since < evaluated.epoch <= until
        ]
        return [ref for ref in refs if ref.epoch <= until], waiting

    def delta(self, view: str, ref: DeltaRef) -> pl.DataFrame:
        """Return the delta of one epoch of a view, if the log still has its commit.

        Raises:
            EpochGoneError: it is no longer retained.
            CheckpointError: its file is missing or damaged.
        """
        delta_files(self._log, view, ref.epoch - 1, {})
        return self._pieces.read_delta(ref)

    def past_epochs(self) -> Iterator[Noted]:
        """Yield times and watermarks of all epochs of the retained commits, the latest first."""
        for epoch in reversed(self._log.epochs()):
            yield from reversed(self._log.at(epoch).epochs)

    def commit(self, view: str, epoch: int, read: int | None = None) -> Commit:
        """Return the commit of an epoch, in which the view had its present definition, to ``read`` a later epoch from it.

        Raises:
            EpochGoneError: there is no commit of the epoch, or the view did not exist or had another definition.
            CheckpointError: a file is missing or damaged.
        """
        try:
            commit = self._earlier.renewed(self._log.at(epoch))
        except EpochGoneError as error:
            raise EpochGoneError(f"view {view!r}: {error}") from error
        then = commit.plan["views"].get(view)
        if then is None or then["identity"] != self._record["views"][view]["identity"]:
            before = (
                "the view did not exist"
                if then is None
                else "the view or a source of it had another definition"
            )
            first, then_read = self.first(view), epoch if read is None else read
            begins, later = (
                (f"at epoch {first}", f"epoch {first} or a later one")
                if first
                else ("later", "a later epoch")
            )
            raise EpochGoneError(
                f"view {view!r}: after epoch {then_read} {before}; its present definition begins {begins}: read {later}"
            )
        return commit

    def contents(self, view: str, epoch: int) -> pl.DataFrame:
        """Return the contents of a view after an epoch: those of the last commit up to it, plus the deltas since.

        Raises:
            EpochGoneError: there is no such commit, or the view did not exist or had another definition.
            CheckpointError: a file is missing or damaged.
        """
        committed = max((each for each in self._log.epochs() if each <= epoch), default=epoch)
        rows = self._committed(view, committed, epoch)
        if committed == epoch:
            return rows
        changes = [frame.drop(EPOCH) for frame in self.deltas(view, committed, epoch)]
        before = Delta.of(rows, np.ones(rows.height, np.int64))
        after = Delta(stack([before.frame, *changes])).consolidate()
        return gather(after.rows, np.repeat(np.arange(len(after)), np.maximum(after.diffs, 0)))

    def _committed(self, view: str, epoch: int, read: int) -> pl.DataFrame:
        """Return the contents of a view as of a commit, to ``read`` a later epoch from them.

        Raises:
            EpochGoneError: see ``commit``; or another version has written its states in another form.
            CheckpointError: a file is missing or damaged.
        """
        commit = self.commit(view, epoch, read)
        if lost_in(commit.plan, self._record, self._circuit.required(view)):
            raise EpochGoneError(
                f"view {view!r}: its state after epoch {commit.epoch} was written by a version that kept it in another form; "
                "read it with that version, or a later epoch"
            )
        return self._circuit.contents(view, commit, self._pieces)


def delta_files(
    log: CommitLog, view: str, since: int, born: Mapping[str, int], remedy: str = "start from view.snapshot()"
) -> list[DeltaRef]:
    """Return the files of a view's deltas after an epoch, in order; ``born`` as in ``Past``.

    ``remedy`` is what a reader does who gets none.

    Raises:
        EpochGoneError: they are no longer retained, or the view did not exist or had another definition.
    """
    first = born.get(view, 0)
    if BEFORE_ALL < since < first:
        raise EpochGoneError(
            f"view {view!r}: its present definition begins at epoch {first}, so that there are no deltas of it after epoch "
            f"{since}; {remedy}"
        )
    try:
        return log.deltas(view, max(since, first - 1))
    except EpochGoneError as error:
        raise EpochGoneError(
            f"view {view!r}: {error}; {remedy}, or keep more commits with Checkpoint(keep=...)"
        ) from error


def in_bucket_0(compiled: Compiled) -> dict[str, State]:
    """Return all states by the names that they have with one bucket."""
    return {f"{name}/0": state for name, state in state_ids(compiled).items()}
