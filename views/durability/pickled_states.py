"""Pickles in a checkpoint are refused when it is opened or, if they are allowed, converted to another form."""

from __future__ import annotations

from collections.abc import Callable

from evercurrent.core.operators.group.user_states import PICKLES_REFUSED, StateUnreadableError
from evercurrent.core.state.spine import Spine

from ..checkpoint import Commit, CommitLog, Saver
from ..checkpoint.rebucket import following, to_go_on_from
from ..compiler.builder import Compiled
from .plan_match import state_ids


def without_pickles(
    compiled: Compiled, saver: Saver, log: CommitLog, renewed: Callable[[Commit], Commit], *, may_commit: bool
) -> Commit | None:
    """Convert the restored states of users' aggregates to the form in which they would be written now.

    This requires that pickles are allowed. They are converted with one more commit, of an empty epoch, which is returned
    with present names as ``renewed`` makes them; if it may not be made now (``may_commit``), with the next commit. Without
    pickles nothing changes, nor with states that can only be pickled. Cost: those states.

    Raises:
        CheckpointError: there are pickles, and they are not allowed; names the aggregate.
    """
    names = {id(state): name for name, state in state_ids(compiled).items()}
    converted: dict[str, Spine] = {}
    for node in compiled.circuit.nodes:
        for state in node.operator.user_states:
            if state.has_pickles():
                if not compiled.allow_pickle:
                    raise StateUnreadableError(f"{log.store.url}: {state.refusal(PICKLES_REFUSED)}")
                if state.convert():
                    converted[f"{names[id(state.spine)]}/0"] = state.spine
    if not converted or not may_commit:
        return None
    last = renewed(to_go_on_from(log))
    written = saver.write({name: (spine, spine.saved()) for name, spine in converted.items()})
    commit = following(last, states={**last.states, **written})
    log.append(commit, whole=True)
    return commit
