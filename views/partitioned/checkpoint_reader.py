"""Reading views of a checkpoint while another process keeps them current: no lock is taken, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, TypeVar

import polars as pl

from evercurrent.core.data.errors import CheckpointError, InputError
from evercurrent.core.data.schema import EPOCH, listed
from evercurrent.core.state.ledger import Ledger

from ..checkpoint import Commit, CommitLog, DeltaRef, Pieces
from ..checkpoint.beside_writer import read_beside_writer
from ..compiler.builder import Compiled
from ..compiler.compiler import compile_plan
from ..concurrency.polars_threads import require_polars_threads
from ..durability.digest_schemes import EarlierNames
from ..durability.plan_diff import require_all_states
from ..durability.plan_match import check_plan, plan_record
from ..durability.time_travel import BORN, Past, PastCircuit, delta_files
from ..epochs.history import BEFORE_ALL
from ..epochs.records import require_epoch
from ..epochs.refused_rows import LEDGER_ROWS
from ..epochs.snapshot import Snapshot
from ..plan.plan import Plan
from ..store import Store

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True, eq=False)
class _Declared:
    """The plan that a reader has, and what follows from it."""

    plan: Plan
    compiled: Compiled
    record: Mapping[str, Any]
    earlier: EarlierNames
    circuit: PastCircuit

    def is_plan_of(self, commit: Commit) -> bool:
        """Return whether a commit was written with this plan."""
        theirs = commit.plan
        return bool(
            theirs["views"] == self.record["views"] and list(theirs["states"]) == list(self.record["states"])
        )


class CheckpointReader:
    """Reads the commits of a checkpoint of a plan, in any number of buckets, including those that come later.

    Each call reads the latest commit. Several threads may call it. ``keeps`` is an object that has to live as long as the
    reader, such as a temporary folder.
    """

    def __init__(
        self, plan: Plan, store: Store, drop: Sequence[str] = (), *, allow_pickle: bool = False
    ) -> None:
        self.keeps: object = None
        self.store = store
        self.pieces: Pieces = Pieces.of(store)
        self._drop = tuple(drop)
        self._allow_pickle = allow_pickle
        require_polars_threads()
        self._declared = self._declared_as(plan)
        self._expected: _Declared | None = None
        self._guard = RLock()
        self._checked: Mapping[str, Any] | None = None
        read_beside_writer(store, self._look)

    def expect(self, plan: Plan | None) -> None:
        """Expect a commit with a plan that has changed, from which on that one is read; None: there will be none."""
        self._expected = None if plan is None else self._declared_as(plan)

    def _declared_as(self, plan: Plan) -> _Declared:
        compiled = compile_plan(plan, Ledger(LEDGER_ROWS), allow_pickle=self._allow_pickle)
        return _Declared(
            plan,
            compiled,
            plan_record(plan, compiled),
            EarlierNames(plan, compiled),
            PastCircuit(plan, allow_pickle=self._allow_pickle),
        )

    def last(self) -> Commit:
        """Return the last commit up to now. Cost: the records that others have written since the last call.

        Raises:
            CheckpointError: there is none, or it is of another plan.
        """
        return self._steadily(self._last)

    def commit(self, view: str, epoch: int | None = None) -> Commit:
        """Return the commit of an epoch, by default the last, in which the view has its present definition.

        Raises:
            InputError: that is not an epoch, or it is still to come.
            EpochGoneError: its commit is no longer retained, or the view did not exist or had another definition.
        """
        return self._steadily(lambda: self._commit(view, epoch))

    def snapshot(self, view: str, epoch: int | None = None) -> Snapshot:
        """Return the contents of a view after an epoch, by default the last, and the number of that epoch.

        Raises:
            InputError, EpochGoneError: as ``commit``.
        """

        def read() -> Snapshot:
            commit = self._commit(view, epoch)
            return Snapshot(commit.epoch, self._past.contents(view, commit.epoch))

        return self._steadily(read)

    def delta_files(self, view: str, since: int | None) -> list[DeltaRef]:
        """Return the files of a view's deltas after an epoch, in the order of epochs; None starts from the first.

        Raises:
            InputError: that is not an epoch, or it is still to come.
            EpochGoneError: they are no longer all retained.
        """

        def read() -> list[DeltaRef]:
            self._look()  # This does not read the files, so it would not notice that some were swept.
            return self._delta_files(view, since)

        return self._steadily(read)

    def deltas(self, view: str, since: int | None) -> list[tuple[int, pl.DataFrame]]:
        """Return the epochs and frames of the files that ``delta_files`` returns.

        Raises:
            InputError, EpochGoneError: as ``delta_files``.
        """

        def read() -> list[tuple[int, pl.DataFrame]]:
            frames = map(self.pieces.read_delta, self._delta_files(view, since))
            return [(frame.item(0, EPOCH), frame) for frame in frames]

        return self._steadily(read)

    def begins(self, view: str) -> int:
        """Return the epoch after which all deltas are retained; -1 if all are, including the rows before any input."""

        def read() -> int:
            self._look()  # New records do not show which old ones were swept.
            self._last()
            return self._past.begins(view)

        return self._steadily(read)

    def first(self, view: str) -> int:
        """Return the first epoch of the present definition of a view; 0 if it is the only one."""
        with self._guard:
            self.last()
            return self._past.first(view)

    def _last(self) -> Commit:
        commit = self._log.refresh()
        if commit is None:
            raise CheckpointError(
                f"{self.store.url}: nothing is committed there; first start the engine or query that writes it, or correct "
                "the path"
            )
        commit = self._declared.earlier.renewed(commit)
        if commit.plan != self._checked:
            expected = self._expected
            if expected is not None and expected.is_plan_of(commit):
                self._declared, self._expected = expected, None
                self._look()
            else:
                self._require_plan(commit)
            self._checked = commit.plan
        self._past.born = commit.facts.get(BORN, {})
        return commit

    def _commit(self, view: str, epoch: int | None) -> Commit:
        last = self._last()
        if epoch is None:
            return last
        self._require_epoch(view, "epoch", epoch, last)
        return self._past.commit(view, epoch)

    def _delta_files(self, view: str, since: int | None) -> list[DeltaRef]:
        last = self._last()
        if since is not None:
            self._require_epoch(view, "since", since, last, BEFORE_ALL)
        return delta_files(self._log, view, BEFORE_ALL if since is None else since, self._past.born)

    def _require_epoch(self, view: str, name: str, epoch: int, last: Commit, least: int = 0) -> None:
        where = f"view {view!r}"
        require_epoch(where, name, epoch, least=least)
        if epoch > last.epoch:
            raise InputError(
                f"{where}: {name}={epoch} is still to come, the checkpoint {self.store.url} is at epoch {last.epoch}; read it "
                "when it is there, or leave the number out"
            )

    def _require_plan(self, commit: Commit) -> None:
        match = check_plan(commit.plan, self._declared.plan, self._declared.compiled, self._drop)
        before = {} if self._checked is None else self._checked["views"]
        if dropped := [view for view in match.to_fill if view in before and view not in commit.plan["views"]]:
            raise CheckpointError(
                f"view {listed(dropped)} is no longer in the checkpoint {self.store.url}, its writer has dropped it by epoch "
                f"{commit.epoch}; make a reader of the views that are there"
            )
        if match.to_fill:
            raise CheckpointError(
                f"view {listed(match.to_fill)} is new to the checkpoint {self.store.url}, which has no rows of it "
                "to read; leave it out, or open the checkpoint once with Engine(checkpoint=...), which fills views "
                "from retained rows"
            )
        require_all_states(self.store.url, match)

    def _steadily(self, read: Callable[[], Read]) -> Read:
        """Return the result of a function that reads files, begun again if its writer has just deleted one."""
        require_polars_threads()
        with self._guard:
            return read_beside_writer(self.store, read, self._look)

    def _look(self) -> None:
        """Read the log of the checkpoint from the start."""
        self._log = CommitLog(self.store)
        declared = self._declared
        self._past = Past(
            declared.plan,
            declared.record,
            self._log,
            self.pieces,
            allow_pickle=self._allow_pickle,
            earlier=declared.earlier,
            circuit=declared.circuit,
        )
