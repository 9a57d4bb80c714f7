"""Commits with names of an earlier scheme of digests, or of states that held more, read with the present names.

Names of an earlier scheme are computed again for the present plan; those of the first scheme depend on versions, so these
have to be the ones that wrote the checkpoint. The next commit has present names, which do not depend on versions.

The same is done for the names of equal nodes, which are numbered anew in each plan (``equal_nodes``).

A state that holds less than it did in earlier versions has a name of its own, under which what these have written
(``Node.identity_before``) is read, with all that it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from evercurrent.core.state.ledger import Ledger

from ..checkpoint import Commit
from ..compiler.builder import Compiled
from ..compiler.compiler import compile_plan
from ..plan.digest_scheme import FIRST, FOURTH, SCHEME, written_by
from ..plan.plan import Plan
from .equal_nodes import renaming
from .plan_match import BORN, names_in, plan_record, state_ids
from .renamed_records import Record, renamed_commit, renamed_record


class EarlierNames:
    """The names of a plan's views, sources, states and nodes in commits of an earlier scheme."""

    def __init__(self, plan: Plan, compiled: Compiled | None = None) -> None:
        """``compiled`` is the circuit of the plan, where there is one; otherwise the plan is compiled when that is needed."""
        self._plan = plan
        self._compiled = compiled
        self._names: dict[int, _Names] = {}
        self._present: _Present | None = None

    def renewed(self, commit: Commit) -> Commit:
        """Return the commit with the present names; what is not of this plan keeps its own."""
        scheme = commit.plan.get("digests", FIRST)
        if scheme != SCHEME:
            if scheme not in self._names:
                self._names[scheme] = _Names.of(self._plan, scheme)
            commit = self._names[scheme].renewed(commit)
        if self._present is None:
            self._present = _Present.of(self._plan, self._compiled or compile_plan(self._plan, Ledger(0)))
            self._compiled = None
        commit = _under_new_names(commit, self._present.kept_less, self._present.record["states"])
        # Earlier schemes have no record of which equal nodes served which views: their states go by their numbers.
        return self._present.with_own_states(commit) if scheme > FOURTH else commit


@dataclass(frozen=True, slots=True)
class _Present:
    """The present names of a plan.

    ``kept_less`` are the earlier and the present name of each state that holds less than in earlier versions.
    """

    kept_less: list[tuple[str, str]]
    record: Record

    @staticmethod
    def of(plan: Plan, compiled: Compiled) -> _Present:
        nodes = [node for node in compiled.circuit.nodes if node.identity_before]
        names = [(f"{node.identity_before}:0", f"{node.identity}:0") for node in nodes]
        return _Present(names, names_in(plan, compiled))

    def with_own_states(self, commit: Commit) -> Commit:
        """Return the commit with the states of equal nodes under the names that these have in the present plan."""
        names = renaming(commit.plan, self.record, filled_later=commit.facts.get(BORN, {}))
        return names.commit(commit) if names.is_needed else commit


@dataclass(frozen=True, slots=True)
class _Names:
    """The record of a plan by an earlier scheme and by this one, with the names of states and nodes in both."""

    earlier: Record
    now: Record
    states: Mapping[str, str]
    nodes: Mapping[str, str]

    @staticmethod
    def of(plan: Plan, scheme: int) -> _Names:
        with written_by(scheme):
            then = compile_plan(plan, Ledger(0))
            earlier = plan_record(plan, then)
        compiled = compile_plan(plan, Ledger(0))
        nodes = list(zip(then.circuit.nodes, compiled.circuit.nodes, strict=True))
        held_more = {
            f"{one.identity_before}:0": f"{other.identity_before}:0"
            for one, other in nodes
            if one.identity_before
        }
        return _Names(
            earlier,
            plan_record(plan, compiled),
            held_more | dict(zip(_in_order(then), _in_order(compiled), strict=True)),
            {one.identity: other.identity for one, other in nodes},
        )

    def renewed(self, commit: Commit) -> Commit:
        return replace(renamed_commit(commit, self._state, self._node), plan=self._record(commit.plan))

    def _state(self, name: str) -> Sequence[str]:
        return (self.states.get(name, name),)

    def _node(self, identity: str) -> Sequence[str]:
        return (self.nodes.get(identity, identity),)

    def _record(self, was: Record) -> Record:
        """Return a record with present identities, wherever it has those that the earlier scheme gives this plan."""
        with_forms = {**was, "forms": self._forms(was)} if "forms" in was else was
        return {
            **renamed_record(with_forms, self._state, self._node),
            "views": self._declared(was, "views", ("identity",), lambda view: view),
            "sources": self._declared(was, "sources", ("identity", "watermark"), self._source),
            "digests": SCHEME,
        }

    def _declared(
        self, was: Record, part: str, digests: tuple[str, ...], renew: Callable[[Record], Record]
    ) -> dict[str, Record]:
        """Return the views or sources of a record, with present digests where their declarations have not changed."""
        declared = {}
        for name, then in was[part].items():
            was_called, now = self.earlier[part].get(name), self.now[part].get(name)
            same = (
                {}
                if was_called is None
                else {each: now[each] for each in digests if then[each] == was_called[each]}
            )
            declared[name] = renew({**then, **same})
        return declared

    def _source(self, source: Record) -> Record:
        rows = source["retained"]
        return {**source, "retained": None if rows is None else self._state(rows)[0]}

    def _forms(self, was: Record) -> list[str]:
        """Return the forms of the states of a record, which may be digests too."""
        earlier = dict(zip(self.earlier["states"], self.earlier["forms"], strict=True))
        now = dict(zip(self.now["states"], self.now["forms"], strict=True))
        return [
            now[self.states[state]] if state in earlier and earlier[state] == form else form
            for state, form in zip(was["states"], was["forms"], strict=True)
        ]


def _under_new_names(commit: Commit, names: Sequence[tuple[str, str]], present: Collection[str]) -> Commit:
    """Return the commit with what it has under the first name of each pair under the second one.

    States of the plan that have one of the first names are ``present``: they are kept as well.
    """
    states = commit.plan["states"]
    renamed: dict[str, list[str]] = {}
    for old, new in names:
        if old in states and new not in states:
            renamed.setdefault(old, [old] if old in present else []).append(new)
    return renamed_commit(commit, lambda name: renamed.get(name, (name,))) if renamed else commit


def _in_order(compiled: Compiled) -> list[str]:
    """Return the names of all states, in the order of the circuit."""
    return list(state_ids(compiled))
