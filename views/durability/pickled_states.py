"""Pickles in a checkpoint: refused when it is opened, or, if they are allowed, kept in another form from then on."""

from __future__ import annotations

from collections.abc import Callable

from evercurrent.core.group.user_states import PICKLES_REFUSED, StateUnreadableError
from evercurrent.core.state.spine import Spine

from ..checkpoint import Commit, CommitLog, Saver
from ..checkpoint.rebucket import following, to_go_on_from
from ..compiler.builder import Compiled
from .plan_match import state_ids


def without_pickles(
    compiled: Compiled, saver: Saver, log: CommitLog, renewed: Callable[[Commit], Commit], *, may_commit: bool
) -> Commit | None:
    """Keep the states of users' aggregates, which are restored, in the form in which they would be written now.

    Only if pickles are allowed; then they are converted with one more commit, an epoch in which nothing happens, which
    is returned, with the names of today as ``renewed`` has them. Unless it ``may_commit``: with the next commit then. Nothing changes where there are no pickles, nor
    where they have to stay, as the states are nothing else. Cost: those states.

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
