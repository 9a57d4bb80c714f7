"""Faults on purpose: at a node, before or after its work, and where a state is staged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class FaultError(Exception):
    """Raised on purpose."""


class Raising:
    """An operator that raises, before or after the one that it stands for has done its work."""

    def __init__(self, operator: Any, *, after: bool) -> None:
        self.schema = operator.schema
        self._operator = operator
        self._after = after

    def step(self, *given: Any) -> Any:
        if self._after:
            self._operator.step(*given)
        raise FaultError


@contextmanager
def raising_node(node: Any, *, after: bool) -> Iterator[None]:
    """Raise where this node steps."""
    operator = node.operator
    node.operator = Raising(operator, after=after)
    try:
        yield
    finally:
        node.operator = operator


WRITING = ("stage", "stage_rows", "stage_entries", "stage_unhashed", "set", "due", "advance")
"""Methods by which something is made ready in a state."""


@contextmanager
def raising_state(state: Any, *, after: bool) -> Iterator[list[bool]]:
    """Let a state raise when a change is staged in it; the list has an entry for each call that raised."""
    calls: list[bool] = []
    names = [name for name in WRITING if hasattr(state, name)]
    assert names, f"nothing is ever staged in {state}"
    for name in names:
        setattr(state, name, _raising(getattr(state, name), calls, after=after))
    try:
        yield calls
    finally:
        for name in names:
            delattr(state, name)


def _raising(method: Callable[..., Any], calls: list[bool], *, after: bool) -> Callable[..., Any]:
    def raising(*args: Any, **named: Any) -> None:
        calls.append(True)
        if after:
            method(*args, **named)
        raise FaultError

    return raising
