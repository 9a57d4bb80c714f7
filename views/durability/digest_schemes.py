"""Commits with identities of an earlier scheme of digests, read with those of the present scheme.

Names of an earlier scheme are computed again for the present plan; those of the first scheme depend on versions, so these
have to be the ones that wrote the checkpoint. The next commit has present names, which do not depend on versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from evercurrent.core.state.ledger import Ledger

from ..checkpoint import Commit
from ..compiler.builder import Compiled
from ..compiler.compiler import compile_plan
from ..plan.digests import FIRST, SCHEME, written_by
from ..plan.plan import Plan
from .plan_match import plan_record, state_ids

Record = Mapping[str, Any]


class EarlierNames:
    """The names of a plan's views, sources, states and nodes in commits of an earlier scheme."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._names: dict[int, _Names] = {}

    def renewed(self, commit: Commit) -> Commit:
        """Return the commit with the present names; what is not of this plan keeps its own."""
        scheme = commit.plan.get("digests", FIRST)
        if scheme == SCHEME:
            return commit
        if scheme not in self._names:
            self._names[scheme] = _Names.of(self._plan, scheme)
        return self._names[scheme].renewed(commit)


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
        nodes = zip(then.circuit.nodes, compiled.circuit.nodes, strict=True)
        return _Names(
            earlier,
            plan_record(plan, compiled),
            dict(zip(_in_order(then), _in_order(compiled), strict=True)),
            {one.identity: other.identity for one, other in nodes},
        )

    def renewed(self, commit: Commit) -> Commit:
        states = {
            f"{self._state(name)}/{bucket}": record
            for (name, _, bucket), record in (
                (key.rpartition("/"), record) for key, record in commit.states.items()
            )
        }
        return replace(commit, plan=self._record(commit.plan), states=states)

    def _state(self, name: str) -> str:
        return self.states.get(name, name)

    def _record(self, was: Record) -> Record:
        """Return a record with present identities, wherever it has those that the earlier scheme gives this plan."""
        states = list(map(self._state, was["states"]))
        order = sorted(range(len(states)), key=states.__getitem__)
        made = {
            **was,
            "views": self._declared(was, "views", ("identity",), lambda view: view),
            "sources": self._declared(was, "sources", ("identity", "watermark"), self._source),
            "states": [states[place] for place in order],
            "holds": sorted(self.nodes.get(identity, identity) for identity in was["holds"]),
            "digests": SCHEME,
        }
        for part in ("spines", "labels"):
            if part in was:
                made[part] = {self._state(name): what for name, what in was[part].items()}
        if "forms" in was:
            forms = list(map(self._form, was["states"], was["forms"]))
            made["forms"] = [forms[place] for place in order]
        return made

    def _declared(
        self, was: Record, part: str, digests: tuple[str, ...], renew: Callable[[Record], Record]
    ) -> dict[str, Record]:
        """Return the views or sources of a record, with present digests where their declarations have not changed."""
        made = {}
        for name, then in was[part].items():
            was_called, now = self.earlier[part].get(name), self.now[part].get(name)
            same = (
                {}
                if was_called is None
                else {each: now[each] for each in digests if then[each] == was_called[each]}
            )
            made[name] = renew({**then, **same})
        return made

    def _source(self, source: Record) -> Record:
        rows = source["retained"]
        return {**source, "retained": None if rows is None else self._state(rows)}

    def _form(self, state: str, form: str) -> str:
        """Return the form of a state, which may be a digest too."""
        earlier = dict(zip(self.earlier["states"], self.earlier["forms"], strict=True))
        now = dict(zip(self.now["states"], self.now["forms"], strict=True))
        return now[self.states[state]] if state in self.states and earlier[state] == form else form


def _in_order(compiled: Compiled) -> list[str]:
    """Return the names of all states, in the order of the circuit."""
    return list(state_ids(compiled))
