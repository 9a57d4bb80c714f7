"""The states of a fork: shared with the engine that was forked, or read from a commit of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from evercurrent.core.data.columns.key_hash import hashing_by
from evercurrent.core.data.errors import CheckpointError
from evercurrent.core.data.schema import listed
from evercurrent.core.state.ledger import Ledger

from ..checkpoint import Checkpoint, Commit, CommitLog, Pieces, Saver
from ..checkpoint.beside_writer import read_beside_writer
from ..checkpoint.marker import is_checkpoint
from ..compiler.builder import Compiled
from ..compiler.compiler import compile_plan
from ..epochs.records import Noted
from ..plan.node_identities import plan_identities
from ..plan.plan import Plan
from .digest_schemes import EarlierNames
from .plan_diff import PlanMatch, require_all_states
from .plan_match import check_plan, state_ids
from .redeclared import take_over


class ForkedStates(NamedTuple):
    """A circuit with states, and the rest from which an engine continues."""

    compiled: Compiled
    epoch: int
    positions: Mapping[str, Any]
    rows: Mapping[str, int]
    """How many rows of each source with event time have come."""
    last: Noted | None


def shared_states(plan: Plan, was: Compiled) -> Compiled:
    """Return a circuit of a copy of a plan with the same states. Cost: compiling, and a few pointers for each state."""
    compiled = compile_plan(plan, Ledger(was.ledger.limit), allow_pickle=was.allow_pickle)
    compiled.circuit.key_hash = was.circuit.key_hash
    take_over(compiled, was, state_ids(compiled))
    return compiled


def committed_states(plan: Plan, checkpoint: Checkpoint, epoch: int | None, rows: int) -> ForkedStates:
    """Return a circuit with the states of a commit, the last one if there is no ``epoch``. Nothing is locked or written.

    Views and sources of the commit that the plan does not have, such as those dropped since, are left out.

    ``rows`` is how many rows the ledger keeps.

    Raises:
        EpochGoneError: there is no commit of that epoch, or it is no longer retained.
        CheckpointError: it is no checkpoint, is of another plan, or is damaged.
    """
    return read_beside_writer(checkpoint.store, lambda: _committed_states(plan, checkpoint, epoch, rows))


def _committed_states(plan: Plan, checkpoint: Checkpoint, epoch: int | None, rows: int) -> ForkedStates:
    store, where = checkpoint.store, checkpoint.store.url
    if not is_checkpoint(store):
        raise CheckpointError(f"{where}: there is no checkpoint to fork; give the place of one")
    log, pieces = CommitLog(store), Pieces.of(store)
    last = log.last if epoch is None else log.at(epoch)
    if last is None:
        raise CheckpointError(f"{where}: there is no commit yet; push something into its engine first")
    compiled = compile_plan(plan, Ledger(rows), allow_pickle=checkpoint.allow_pickle)
    compiled.circuit.key_hash = pieces.key_hash
    commit = EarlierNames(plan, compiled).renewed(last)
    match = _matched(where, plan, compiled, commit)
    with hashing_by(pieces.key_hash):
        Saver(pieces).restore_whole(state_ids(compiled), commit)
    noted = commit.epochs[-1] if commit.epochs else None
    positions = match.positions(commit.positions)
    return ForkedStates(compiled, commit.epoch, positions, commit.facts.get("rows", {}), noted)


def _matched(where: str, plan: Plan, compiled: Compiled, commit: Commit) -> PlanMatch:
    """Return what a plan has in common with that of a commit, which has all its states.

    Raises:
        CheckpointError: it has not; names the difference.
    """
    record, then = commit.plan, f"in the commit of epoch {commit.epoch}"
    identities = plan_identities(plan)
    changed = [
        declared.name
        for place, declared in plan.inputs.items()
        if record["sources"].get(declared.name, {}).get("identity", identities[place]) != identities[place]
    ]
    unchanged = [name for name in record["sources"] if name not in changed]
    try:
        # The checkpoint loses nothing by what a fork leaves out. A view that is another one is refused below.
        match = check_plan(record, plan, compiled, (*record["views"], *unchanged))
    except CheckpointError as error:
        if not changed:
            raise
        what = f"source {listed(changed)} is declared in another way {then}"
        raise CheckpointError(f"{where}: {what}; {_DECLARE_AS_THEN}") from error
    require_all_states(where, match)
    if match.new or match.to_fill or match.new_sources:
        missing = listed([*match.to_fill, *match.new_sources]) or "some of the states"
        raise CheckpointError(f"{where}: {missing} is not {then} as it is declared now; {_DECLARE_AS_THEN}")
    return match


_DECLARE_AS_THEN = (
    "make an engine that declares what was declared then, fork the checkpoint with its fork(checkpoint, epoch=...), and declare "
    "more in the fork"
)
