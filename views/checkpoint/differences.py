"""Commits as differences: a record says what has changed since the record before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .commits import (
    Commit,
    JsonObject,
    PieceRef,
    StateRecord,
    deltas_as_json,
    deltas_from_json,
    epochs_from_json,
    piece_of_deltas,
)

WHOLE = ("buckets", "plan", "facts", "versions")
"""Parts that a difference has only if they have changed, and then as they are."""

NUMBERS = ("positions", "readers")
"""Parts of which a difference has the entries that have changed, and the names of those that are gone."""


def difference(before: Commit, after: Commit) -> JsonObject:
    """What ``after`` says that does not follow from ``before``. Cost: the states, not their pieces."""
    said: JsonObject = {"epoch": after.epoch, "writer": after.writer}
    said |= {part: getattr(after, part) for part in WHOLE if getattr(after, part) != getattr(before, part)}
    for part in NUMBERS:
        old, new = getattr(before, part), getattr(after, part)
        if old != new:
            changed = {name: number for name, number in new.items() if old.get(name) != number}
            said[part] = [changed, [name for name in old if name not in new]]
    states = {
        name: _state_difference(before.states.get(name), state)
        for name, state in after.states.items()
        if (old_state := before.states.get(name)) is not state and old_state != state
    }
    gone = [name for name in before.states if name not in after.states]
    return said | {
        "states": states,
        "gone": gone,
        "deltas": deltas_as_json(after.deltas),
        "epochs": after.epochs,
    }


def _state_difference(before: StateRecord | None, after: StateRecord) -> list[Any]:
    """How many leading pieces stay, the pieces after them, the facts and the route."""
    kept = 0
    if before is not None:
        for old, new in zip(before.pieces, after.pieces, strict=False):
            if old is not new and old != new:
                break
            kept += 1
    return [kept, [ref.as_json() for ref in after.pieces[kept:]], after.facts, after.route]


class Rebuilt:
    """A commit that is put together from a whole one and the differences after it.

    The parts are copied once, however many differences there are.
    """

    def __init__(self, commit: Commit) -> None:
        self._parts: dict[str, Any] = {
            part: getattr(commit, part) for part in ("epoch", "writer", "deltas", "epochs", *WHOLE)
        }
        self._parts |= {part: dict(getattr(commit, part)) for part in NUMBERS}
        self._states = dict(commit.states)

    def go_on(self, said: Mapping[str, Any]) -> None:
        """Apply a difference.

        Raises:
            KeyError, ValueError, IndexError: it is not one to what there is here.
        """
        self._parts |= {part: said[part] for part in ("epoch", "writer", *WHOLE) if part in said}
        for part in NUMBERS:
            changed, gone = said.get(part, ({}, ()))
            _apply(self._parts[part], changed, gone)
        changed = {name: self._state(name, state) for name, state in said["states"].items()}
        _apply(self._states, changed, said["gone"])
        self._parts["deltas"] = deltas_from_json(said["deltas"])
        self._parts["epochs"] = epochs_from_json(said["epochs"])

    def commit(self) -> Commit:
        """The commit that this has become; to be asked once."""
        return Commit(states=self._states, **self._parts)

    def _state(self, name: str, said: list[Any]) -> StateRecord:
        kept, added, facts, route = said
        before = self._states[name].pieces if kept else ()
        if kept > len(before):
            raise ValueError(f"state {name} had {len(before)} pieces, of which {kept} are to stay")
        return StateRecord((*before[:kept], *(PieceRef(*ref) for ref in added)), facts, route)


def _apply(entries: dict[str, Any], changed: Mapping[str, Any], gone: Iterable[str]) -> None:
    entries |= changed
    for name in gone:
        del entries[name]


def refs_in(said: Mapping[str, Any]) -> set[PieceRef]:
    """The pieces that a record's body names, whole or difference: all that it adds to those before it."""
    at = 0 if said["whole"] else 1
    found = {PieceRef(*ref) for state in said["states"].values() for ref in state[at]}
    return found | {piece_of_deltas(part) for parts in said["deltas"].values() for part in parts}
