"""The comparison of a plan with that of a checkpoint: the states and views they share, and what happens to the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from evercurrent.core.data.errors import CheckpointError
from evercurrent.core.state.protocol import State
from evercurrent.core.state.spine import Spine

from ..compiler.builder import Compiled
from ..compiler.state_forms import is_read, state_forms
from ..compiler.state_labels import state_labels
from ..plan.digest_scheme import scheme
from ..plan.digests import digest_of, is_covered
from ..plan.function_versions import function_digests, have_one_function, require_one_function
from ..plan.node_identities import plan_identities
from ..plan.nodes import Input, PlanId, PlanNode
from ..plan.plan import Plan
from .equal_nodes import equal_nodes
from .evolution import source_changes
from .evolved_records import Evolution, evolved
from .plan_diff import PlanMatch as PlanMatch
from .plan_diff import clock_id, obstacles, versions
from .replaced_columns import column_texts

BORN = "born"
"""The fact of a commit that holds the first epochs of views that were added later."""

LEDGER = "ledger"
"""The name of the ledger among the states."""


def state_ids(compiled: Compiled) -> dict[str, State]:
    """Return all states of a circuit, each once, under names that identify what is computed, in any plan.

    The ledger is "ledger", the clock of a source "clock:<source>", any other "<identity of its node>:<ordinal>".
    """
    states: dict[str, State] = {LEDGER: compiled.ledger}
    states |= {clock_id(name): clock for name, clock in compiled.clocks.items()}
    seen = {id(state) for state in states.values()}
    for node in compiled.circuit.nodes:
        for ordinal, state in enumerate(node.states):
            if id(state) not in seen:
                seen.add(id(state))
                states[f"{node.identity}:{ordinal}"] = state
    return states


def plan_record(plan: Plan, compiled: Compiled) -> dict[str, Any]:
    """Return what a checkpoint keeps of a plan: names, columns and identities, as JSON values; no expression and no code.

    ``spines`` and ``labels`` are for tools that have the checkpoint but not the plan; earlier versions wrote neither, and
    no ``forms``, which are in the order of ``states``. ``digests`` is the scheme of identities; a record without it has the
    first one (``digest_schemes``). Only a record of equal nodes has ``equal`` (``equal_nodes``).

    Raises:
        CheckpointError: two functions look the same, but refer to different objects that cannot be inspected.
    """
    identities = plan_identities(plan)
    require_distinguishable(plan, identities, plan.needed())
    states = state_ids(compiled)
    forms = state_forms(compiled, states)
    named = {id(state): name for name, state in states.items()}
    rows = {name: named[id(retained.spine)] for name, retained in compiled.retained.items()}
    views = {
        name: {"identity": identities[place], "columns": column_texts(plan[place].schema)}
        for name, place in sorted(plan.views.items())
    }
    sources = {
        declared.name: _source_record(plan[place], declared, identities[place], rows.get(declared.name))
        for place, declared in plan.inputs.items()
    }
    equal = equal_nodes(plan, compiled)
    return {
        **({"equal": equal} if equal else {}),
        "views": views,
        "sources": {name: sources[name] for name in sorted(sources)},
        "states": sorted(states),
        "holds": sorted(_holds(compiled)),
        "versions": versions(),
        "digests": scheme(),
        "spines": {name: _sorted_by(state) for name, state in states.items() if isinstance(state, Spine)},
        "labels": state_labels(plan, compiled, states),
        "forms": [forms.get(name, "") for name in sorted(states)],
        "functions": function_digests(plan),
        "order": {declared.name: plan[place].schema.names() for place, declared in plan.inputs.items()},
    }


def names_in(plan: Plan, compiled: Compiled) -> dict[str, Any]:
    """Return the part of a plan's record by which equal nodes are matched (``equal_nodes.renaming``)."""
    identities = plan_identities(plan)
    return {
        "views": {name: {"identity": identities[place]} for name, place in plan.views.items()},
        "states": frozenset(state_ids(compiled)),
        "equal": equal_nodes(plan, compiled),
    }


def is_same_record(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two records are of the same plan and the same program.

    Records of earlier versions have no forms, order, functions or equal nodes. Labels are for people, and any version may change
    them.
    """
    passed_over = {"forms": None, "order": None, "functions": None, "labels": None, "equal": None}
    return {**one, **passed_over} == {**other, **passed_over}


def check_plan(
    record: Mapping[str, Any], plan: Plan, compiled: Compiled, drop: Collection[str] = ()
) -> PlanMatch:
    """Return what a plan has in common with the one of a checkpoint; nothing is changed.

    ``drop`` names views and sources whose past may be discarded. Names that the checkpoint does not have are ignored, so
    that they can stay in the program.

    Raises:
        CheckpointError: lists all obstacles and their remedies: a view or a source that is gone or has another
            declaration and is not in ``drop``; a source that is retained now and was not.
    """
    drop = (drop,) if isinstance(drop, str) else drop
    now = plan_record(plan, compiled)
    columns = {name: was["columns"] for name, was in record["views"].items()}
    evolution = _evolution(record, now, plan, compiled, drop)
    record = record if evolution is None else evolution.record
    changed_sources = _changed(record["sources"], now["sources"])
    gone_sources = [name for name in record["sources"] if name not in now["sources"]]
    again = [name for name in changed_sources if name in drop]
    match = PlanMatch(
        *states_between(record, now, again),
        new_views=_added(record["views"], now["views"]),
        changed_views=tuple(_changed(record["views"], now["views"])),
        gone_views=_added(now["views"], record["views"]),
        new_sources=(*_added(record["sources"], now["sources"]), *again),
        gone_sources=(*gone_sources, *again),
        evolution=evolution,
        unretained=tuple(_unretained(record, now)),
    )
    replaced = [name for name in match.changed_views if name in plan.replacing and name not in drop]
    match = replace(match, replaced={name: columns[name] for name in replaced})
    if reasons := obstacles(record, now, plan, match, drop):
        raise CheckpointError("\n".join(["the checkpoint is of another plan:", *reasons]))
    unchanged_parts = _UnchangedParts.of(record, now, match)
    without_dropped = replace(unchanged_parts, sources=unchanged_parts.sources.difference(drop))
    return replace(
        match,
        lost={name: what for name in sorted(match.new) if (what := unchanged_parts.served(now, name))},
        unclaimed=tuple(
            what for name in sorted(match.gone) if (what := without_dropped.unclaimed(record, name))
        ),
    )


def _evolution(
    record: Mapping[str, Any], now: Mapping[str, Any], plan: Plan, compiled: Compiled, drop: Collection[str]
) -> Evolution | None:
    """Return the effect of changed columns of sources and of new versions of functions; None if there are none."""
    changes = source_changes(record, now, plan)
    changes = {name: change for name, change in changes.items() if name not in drop}
    return evolved(
        record, now, plan, compiled, state_ids(compiled), changes,
        lambda plan, compiled: (plan_record(plan, compiled), state_ids(compiled)),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _UnchangedParts:
    """The views and sources with unchanged declarations, and whether these are all."""

    views: frozenset[str]
    sources: frozenset[str]
    is_all: bool

    @staticmethod
    def of(record: Mapping[str, Any], now: Mapping[str, Any], match: PlanMatch) -> _UnchangedParts:
        views = frozenset(name for name in now["views"] if name in record["views"]) - set(match.changed_views)
        sources = frozenset(name for name in now["sources"] if name in record["sources"])
        sources -= {*match.new_sources, *match.gone_sources}
        return _UnchangedParts(
            views, sources, views == set(record["views"]) and sources == set(record["sources"])
        )

    def served(self, record: Mapping[str, Any], state: str) -> str:
        """Return what a state is, and which of these views and sources it serves; empty if none of them."""
        what, views, sources = record.get("labels", {}).get(state, ("state", (), ()))
        served = [f"view {name!r}" for name in views if name in self.views]
        served += [f"source {name!r}" for name in sources if name in self.sources]
        return f"{what!r} of {', '.join(served)}" if served else ""

    def unclaimed(self, record: Mapping[str, Any], state: str) -> str:
        """Return what a state is that is gone although its view or source is not; empty if a change explains it."""
        if state in record.get("labels", {}):
            what = self.served(record, state)
            return f"{what} ({state})" if what else ""
        return f"state {state}" if self.is_all else ""


def _source_record(node: PlanNode, declared: Input, identity: str, rows: str | None) -> dict[str, Any]:
    """Return the record of a source, aspect by aspect, so that a changed one can be named.

    ``rows`` is the state that holds its rows, if they are retained.
    """
    return {
        "identity": identity,
        "kind": declared.kind,
        "columns": column_texts(node.schema),
        "key": list(declared.keys),
        "event_time": None if node.event_time is None else node.event_time.column,
        "watermark": digest_of(declared.watermark),
        "bounded": declared.bounded,
        "strict": declared.strict,
        "trusted": declared.trusted,
        "retained": rows,
        # Records of earlier versions do not have it.
        **({"sequence_by": list(declared.sequence)} if declared.sequence else {}),
    }


def _sorted_by(spine: Spine) -> list[list[Any]] | None:
    """Return the order of a key's entries: columns, descending or not, nulls last or not; None if a key has one entry."""
    if not spine.layout.by_row:
        return None
    return [[order.column, order.descending, order.nulls_last] for order in spine.layout.order]


def _holds(compiled: Compiled) -> Iterator[str]:
    """Return the nodes that track how far their windows hold the watermark back, as windows downstream need it."""
    needed = {id(tracker.hold) for tracker in compiled.trackers.values() if tracker.hold.is_read}
    for node in compiled.circuit.nodes:
        if any(id(state) in needed for state in node.states):
            yield node.identity


def require_distinguishable(plan: Plan, identities: Mapping[PlanId, str], places: Iterable[PlanId]) -> None:
    """Check that nodes of one identity at these places compute the same, so that it does not matter which state is whose.

    Raises:
        CheckpointError: their functions refer to objects that cannot be inspected.
    """
    first_places: dict[str, PlanId] = {}
    for number in places:
        first = first_places.setdefault(identities[number], number)
        if first != number:
            require_one_function(plan[first], plan[number])
            operations = plan[first].operation, plan[number].operation
            if is_covered(operations[1]) or have_one_function(*operations):
                continue
            raise CheckpointError(
                f"{plan.name_of(number)} and {plan.name_of(first)} differ only by objects that cannot be "
                "inspected, so that their states could be confused; give their functions "
                "different names"
            )


def _added(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in after if name not in before)


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [name for name in after if name in before and before[name]["identity"] != after[name]["identity"]]


def _unretained(record: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Return the sources whose rows were retained and are no longer, unless a view has the same state."""
    for name, was in record["sources"].items():
        if name in now["sources"] and was["retained"] and was["retained"] not in now["states"]:
            yield name


def states_between(
    record: Mapping[str, Any], now: Mapping[str, Any], again: Iterable[str] = ()
) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Return the states that are unchanged, new, and gone. One that begins again or has another form is both new and gone."""
    before, after = set(record["states"]), set(now["states"])
    fresh = {clock_id(name) for name in again} | _other_forms(record, now)
    return (
        frozenset(before & after - fresh),
        frozenset((after - before) | (after & fresh)),
        frozenset((before - after) | (before & fresh)),
    )


def lost_in(record: Mapping[str, Any], now: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Return which of these states a record of the same plan lacks, or has in another form."""
    others = _other_forms(record, now)
    return [name for name in names if name not in record["states"] or name in others]


def _other_forms(record: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    """Return the states whose entries have another form now."""
    if "forms" not in record:
        return set()
    were = dict(zip(record["states"], record["forms"], strict=True))
    forms = zip(now["states"], now["forms"], strict=True)
    return {name for name, form in forms if not is_read(were.get(name, form), form)}
