"""Channels by which operators read each other besides rows: findings of an epoch, and look-ups in state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")


class Channel:
    """One thing that a node gives: an operator that reads it is constructed with it and lists it in ``Operator.looks_at``.

    ``kind`` names it in a word or two. ``guard`` is called before each read, if tests have set one.
    """

    __slots__ = ("guard", "kind")

    def __init__(self, kind: str) -> None:
        self.kind: str = kind
        self.guard: Callable[[], None] | None = None


class Finding(Channel, Generic[T]):
    """A result of an operator for operators after it: it is not state, and valid for one epoch only.

    It is set once, while its operator steps, and is ``nothing`` again when the epoch is committed or discarded. So it is
    ``nothing`` in every epoch in which the operator sets none, or is not visited.
    """

    __slots__ = ("_nothing", "_value")

    def __init__(self, kind: str, nothing: T) -> None:
        super().__init__(kind)
        self._nothing = self._value = nothing

    @property
    def value(self) -> T:
        """The value of this epoch."""
        if self.guard is not None:
            self.guard()
        return self._value

    @property
    def is_set(self) -> bool:
        """Whether a value was set in this epoch."""
        return self._value is not self._nothing

    def set(self, value: T) -> None:
        """Set the value of this epoch, at most once."""
        assert self._value is self._nothing, f"{self.kind}: found twice in one epoch"
        self._value = value

    def clear(self) -> None:
        """Reset the value, as the epoch is over."""
        self._value = self._nothing


class Lookup(Channel, Generic[P, R]):
    """A function of an operator that reads its state as it is after this epoch's step."""

    __slots__ = ("_answer",)

    def __init__(self, kind: str, answer: Callable[P, R]) -> None:
        super().__init__(kind)
        self._answer = answer

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result, as of the last commit and the changes that are staged."""
        if self.guard is not None:
            self.guard()
        return self._answer(*args, **kwargs)
