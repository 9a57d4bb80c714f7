"""Commits are recorded as differences from the record before."""

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
"""Parts that a difference holds, whole, only if they have changed."""

NUMBERS = ("positions", "readers")
"""Parts of which a difference holds the changed entries, and the names of removed ones."""


def difference(before: Commit, after: Commit) -> JsonObject:
    """Return the record of ``after`` as a difference from ``before``. Cost: the states, not their pieces."""
    body: JsonObject = {"epoch": after.epoch, "writer": after.writer}
    body |= {part: getattr(after, part) for part in WHOLE if getattr(after, part) != getattr(before, part)}
    for part in NUMBERS:
        old, new = getattr(before, part), getattr(after, part)
        if old != new:
            changed = {name: number for name, number in new.items() if old.get(name) != number}
            body[part] = [changed, [name for name in old if name not in new]]
    states = {
        name: _state_difference(before.states.get(name), state)
        for name, state in after.states.items()
        if (old_state := before.states.get(name)) is not state and old_state != state
    }
    gone = [name for name in before.states if name not in after.states]
    return body | {
        "states": states,
        "gone": gone,
        "deltas": deltas_as_json(after.deltas),
        "epochs": after.epochs,
    }


def _state_difference(before: StateRecord | None, after: StateRecord) -> list[Any]:
    """Return how many leading pieces are kept, the pieces after them, the facts and the route."""
    prefix_length = 0
    if before is not None:
        for old, new in zip(before.pieces, after.pieces, strict=False):
            if old is not new and old != new:
                break
            prefix_length += 1
    return [prefix_length, [ref.as_json() for ref in after.pieces[prefix_length:]], after.facts, after.route]


class Rebuilt:
    """A commit that is rebuilt from a whole one and the differences after it.

    The parts are copied once, however many differences there are.
    """

    def __init__(self, commit: Commit) -> None:
        self._parts: dict[str, Any] = {
            part: getattr(commit, part) for part in ("epoch", "writer", "deltas", "epochs", *WHOLE)
        }
        self._parts |= {part: dict(getattr(commit, part)) for part in NUMBERS}
        self._states = dict(commit.states)

    def go_on(self, body: Mapping[str, Any]) -> None:
        """Apply a difference.

        Raises:
            KeyError, ValueError, IndexError: it does not apply to this commit.
        """
        self._parts |= {part: body[part] for part in ("epoch", "writer", *WHOLE) if part in body}
        for part in NUMBERS:
            changed, gone = body.get(part, ({}, ()))
            _apply(self._parts[part], changed, gone)
        changed = {name: self._state(name, state) for name, state in body["states"].items()}
        _apply(self._states, changed, body["gone"])
        self._parts["deltas"] = deltas_from_json(body["deltas"])
        self._parts["epochs"] = epochs_from_json(body["epochs"])

    def commit(self) -> Commit:
        """Return the rebuilt commit; call it once."""
        return Commit(states=self._states, **self._parts)

    def _state(self, name: str, difference: list[Any]) -> StateRecord:
        prefix_length, added, facts, route = difference
        before = self._states[name].pieces if prefix_length else ()
        if prefix_length > len(before):
            raise ValueError(f"state {name} had {len(before)} pieces, of which {prefix_length} are to stay")
        return StateRecord((*before[:prefix_length], *(PieceRef(*ref) for ref in added)), facts, route)


def _apply(entries: dict[str, Any], changed: Mapping[str, Any], removed: Iterable[str]) -> None:
    entries |= changed
    for name in removed:
        del entries[name]


def refs_in(body: Mapping[str, Any]) -> set[PieceRef]:
    """Return the pieces that a record's body names, which in a difference are those that it adds."""
    at = 0 if body["whole"] else 1
    pieces = {PieceRef(*ref) for state in body["states"].values() for ref in state[at]}
    return pieces | {piece_of_deltas(part) for parts in body["deltas"].values() for part in parts}
