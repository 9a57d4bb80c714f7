"""The calls that declared an engine's collections, as those of a fork: nothing of the engine that was forked is in them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from .declared_calls import DeclaredCall, DeclaredCalls
from .plan import Plan


def note_forked(
    into: DeclaredCalls,
    calls: Iterable[DeclaredCall],
    origin: object,
    fork: Plan,
    stand_in: Callable[[Any], Any],
) -> None:
    """Note calls over the plan of a ``fork`` in place of its ``origin``. Cost: the calls.

    ``stand_in`` returns what stands for a source or a view, None for any other collection: that becomes a copy. So the engine that
    was forked is freed, and its checkpoint released, as soon as nobody else holds it.
    """
    forks: dict[int, Any] = {}

    def forked(value: Any) -> Any:
        if id(value) in forks:
            return forks[id(value)]
        if type(value) in (list, tuple):
            return type(value)(map(forked, value))
        if type(value) is dict:
            return {name: forked(each) for name, each in value.items()}
        if getattr(value, "_plan", None) is not origin:
            return value
        other = forks[id(value)] = stand_in(value)
        if other is None:
            other = forks[id(value)] = copy.copy(value)
            for name, each in vars(value).items():
                setattr(other, name, fork if each is origin else forked(each))
            if "_place" in vars(other):
                fork.hold(other, other._place)
        return other

    for call in calls:
        into.note(
            forked(call.receiver),
            call.method,
            forked(call.args),
            forked(dict(call.kwargs)),
            forked(call.result),
        )
