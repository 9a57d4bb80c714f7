"""The circuit of a plan that has changed while an engine runs: it takes over states, and fills those of new views."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from evercurrent.core.data.columns.kernels import stack
from evercurrent.core.data.columns.key_hash import hashing_by
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import CheckpointError, PlanError
from evercurrent.core.state.ledger import Ledger
from evercurrent.core.state.snapshot import Saved
from evercurrent.core.state.spine import Spine

from ..compiler.builder import Compiled
from ..compiler.compiler import compile_plan
from ..plan.node_identities import plan_identities
from ..plan.nodes import PlanId
from ..plan.plan import Plan
from .equal_nodes import UNCHANGED, Renaming, renaming
from .nodes_to_fill import Remedies
from .piecewise_fill import AllRows, PiecewiseFill
from .plan_diff import PlanMatch, lacks_watermarks
from .plan_match import plan_record, require_distinguishable, state_ids, states_between

WHILE_RUNNING = Remedies(
    heading="",
    rows="Declare a source with retained=True before its first rows come, build the view on existing views, or give the rows that "
    "were pushed: engine.view(..., backfill={{{source!r}: ROWS}})",
    time="Leave out its trigger, lateness or order, build it on existing views, or declare it in a new engine and push all rows "
    "into that",
)


@dataclass(frozen=True, slots=True)
class Before:
    """A plan and its circuit before a change of declarations: what a checkpoint would record, and the nodes in use."""

    compiled: Compiled
    record: Mapping[str, Any]
    needed: tuple[PlanId, ...]

    @staticmethod
    def of(plan: Plan, compiled: Compiled) -> Before:
        """Return the present state of a plan.

        Raises:
            CheckpointError: two functions look the same, but refer to different objects that cannot be inspected.
        """
        return Before(compiled, plan_record(plan, compiled), tuple(plan.needed()))


@dataclass(frozen=True, slots=True)
class Changed:
    """The declarations that have changed: views to be filled, and sources that have had no input so far.

    ``backfill`` gives the rows of sources that do not retain them.
    """

    views: tuple[str, ...] = ()
    untouched: Iterable[str] = ()
    backfill: Mapping[str, Callable[[], Delta]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Recompiled:
    """The circuit of a changed plan with its states, its record, and all rows of each view that was filled.

    ``moved`` are identities that other nodes have now, or none.
    """

    compiled: Compiled
    record: Mapping[str, Any]
    filled: Mapping[str, AllRows]
    moved: frozenset[str]


def recompiled(
    plan: Plan, before: Before, changed: Changed, computed: PiecewiseFill | None = None
) -> Recompiled:
    """Return the circuit of a plan that has changed, with the states of all that computes the same. Nothing is changed.

    ``computed`` has the states of the new views, if they were filled before this. Cost: compiling, a few pointers for each
    state that is taken over, and the rows that a fill reads and computes.

    Raises:
        PlanError: a view cannot be filled; names it, and what would fill it.
        InputError: a value cannot be computed.
    """
    compiled, record, match, moved = _taken_over(plan, before, changed)
    filled: Mapping[str, AllRows] = {}
    with hashing_by(compiled.circuit.key_hash):
        if computed is not None:
            filled = computed.adopt(compiled, match, record)
        elif match.to_fill or match.lost:
            fill = PiecewiseFill(plan, compiled, match, changed.backfill, WHILE_RUNNING)
            filled = fill.at_once(compiled, match)
    return Recompiled(compiled, record, filled, moved)


def piecewise(plan: Plan, before: Before, changed: Changed) -> PiecewiseFill:
    """Begin to fill the views of a plan that has changed, from the states as they are now. Nothing is changed.

    Cost: compiling twice, and a few pointers for each state.

    Raises:
        PlanError, CheckpointError: a view cannot be filled; names it, and what would fill it.
    """
    compiled, _, match, _ = _taken_over(plan, before, changed)
    with hashing_by(compiled.circuit.key_hash):
        return PiecewiseFill(plan, compiled, match, changed.backfill, WHILE_RUNNING)


def _taken_over(
    plan: Plan, before: Before, changed: Changed
) -> tuple[Compiled, Mapping[str, Any], PlanMatch, frozenset[str]]:
    """Return the circuit of a plan that has changed with the states that are unchanged, its record, the match of both, and ``moved``."""
    was = before.compiled
    places = sorted({*before.needed, *plan.needed()})
    require_distinguishable(plan, plan_identities(plan, places), places)
    compiled = compile_plan(plan, Ledger(was.ledger.limit), allow_pickle=was.allow_pickle)
    compiled.circuit.key_hash = was.circuit.key_hash
    record = plan_record(plan, compiled)
    names = renaming(before.record, record, changed.views)
    record_before = names.record(before.record) if names.is_needed else before.record
    unchanged, new, gone = states_between(record_before, record)
    _require_tracked(record_before, record, changed.views)
    match = PlanMatch(
        unchanged,
        new,
        gone,
        new_views=changed.views,
        new_sources=tuple(changed.untouched),
        lost=_lost(before.record, record, new, changed.views),
    )
    take_over(compiled, was, unchanged, names)
    return compiled, record, match, names.moved


def take_over(compiled: Compiled, was: Compiled, names: Iterable[str], renamed: Renaming = UNCHANGED) -> None:
    """Give a circuit the states of another one that have these names, there perhaps others; pieces are shared, not copied."""
    ours = state_ids(compiled)
    theirs = {name: state for before, state in state_ids(was).items() for name in renamed.of_state(before)}
    for name in names:
        state, other = ours[name], theirs[name]
        if isinstance(state, Spine) and isinstance(other, Spine):
            state.share(other.version)
        else:
            saved = other.saved()
            state.restore(Saved(saved.pieces, deepcopy(saved.facts)))
    measured = {name: node for node in was.circuit.nodes for name in renamed.of(node.identity)}
    for node in compiled.circuit.nodes:
        if (then := measured.get(node.identity)) is not None:
            node.seconds, node.epochs = then.seconds, then.epochs
            node.rows_in, node.rows_out = then.rows_in, then.rows_out


def difference(now: Delta, before: Delta) -> Delta:
    """Return the change from some rows to others."""
    frames = [delta.frame for delta in (now, before.negate()) if len(delta)]
    return Delta(stack(frames)).consolidate() if frames else now


def _lost(
    record: Mapping[str, Any], now: Mapping[str, Any], new: frozenset[str], filled: Iterable[str]
) -> dict[str, str]:
    """Return the new states that also serve declarations that are as before, which need them with all rows that came."""
    lost: dict[str, str] = {}
    for name in sorted(new):
        what, views, sources = now["labels"].get(name, ("state", (), ()))
        served = [f"view {view!r}" for view in views if view in record["views"] and view not in filled]
        served += [f"source {source!r}" for source in sources if source in record["sources"]]
        if served:
            lost[name] = f"{what!r} of {', '.join(served)}"
    return lost


def _require_tracked(record: Mapping[str, Any], now: Mapping[str, Any], views: Iterable[str]) -> None:
    """Check that no existing window has to hold back a watermark that was not tracked so far: for open ones it is unknown.

    Raises:
        PlanError: one has to; names the views that need it.
    """
    if lacks_watermarks(record, now):
        names = ", ".join(repr(view) for view in views)
        raise PlanError(
            f"view {names} has windows over the panes of existing views, whose watermark was not tracked so far, so that it "
            "is unknown for windows that are open. Leave out the windows, or declare all of it in a new engine and push all "
            "rows into that"
        )


def as_refusal(where: str, error: CheckpointError) -> PlanError:
    """Return the refusal of a declaration that was found with the means of a checkpoint, by the name of the declaration."""
    lines = [line.removeprefix("- ") for line in str(error).splitlines()]
    return PlanError(
        "\n".join([line if where in line else f"{where}: {line}" for line in lines[:1]] + lines[1:])
    )
