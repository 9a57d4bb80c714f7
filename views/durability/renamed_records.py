"""The record of a commit with other names: of its states, and of the nodes that have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..checkpoint import Commit, StateRecord

Record = Mapping[str, Any]

Names = Callable[[str], Sequence[str]]
"""The names that a state or node now has, by its name before: none if it is gone, several if it became several."""


def same_name(name: str) -> Sequence[str]:
    """Return the name itself."""
    return (name,)


def renamed_commit(was: Commit, states: Names, nodes: Names = same_name) -> Commit:
    """Return a commit with these names of its states and nodes."""
    records: dict[str, StateRecord] = {}
    for key, record in was.states.items():
        state, _, bucket = key.rpartition("/")
        records |= {f"{name}/{bucket}": record for name in states(state)}
    return replace(was, plan=renamed_record(was.plan, states, nodes), states=records)


def renamed_record(was: Record, states: Names, nodes: Names = same_name) -> Record:
    """Return the record of a plan with these names. Those of views and sources, which are declared, stay as they are."""
    forms = dict(zip(was["states"], was["forms"], strict=True)) if "forms" in was else {}
    before = {name: state for state in was["states"] for name in states(state)}
    renamed: dict[str, Any] = {
        **was,
        "states": sorted(before),
        "holds": sorted({name for node in was["holds"] for name in nodes(node)}),
    }
    for part, names_of in (("spines", states), ("labels", states), ("equal", nodes)):
        if part in was:
            renamed[part] = {name: what for each, what in was[part].items() for name in names_of(each)}
    if forms:
        renamed["forms"] = [forms[before[name]] for name in renamed["states"]]
    return renamed
