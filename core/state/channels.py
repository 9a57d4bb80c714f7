"""What an operator gives to others beside its rows: what it found in an epoch, and look-ups in what it keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")


class Channel:
    """One thing that a node gives: whoever reads it is constructed with it and has it in ``Operator.looks_at``.

    ``kind`` says what it is in a word or two. ``guard`` is called before it is read, where tests have set one.
    """

    __slots__ = ("guard", "kind")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.guard: Callable[[], None] | None = None


class Finding(Channel, Generic[T]):
    """What an operator finds in an epoch, for the operators behind it: it is no state, and counts for that epoch alone.

    It is set once, while its operator steps, and is ``nothing`` again when the epoch is committed or discarded. So it is
    ``nothing`` in every epoch in which the operator finds none, or is not visited.
    """

    __slots__ = ("_nothing", "_value")

    def __init__(self, kind: str, nothing: T) -> None:
        super().__init__(kind)
        self._nothing = self._value = nothing

    @property
    def value(self) -> T:
        """What was found in this epoch."""
        if self.guard is not None:
            self.guard()
        return self._value

    @property
    def is_set(self) -> bool:
        """Whether anything was found in this epoch."""
        return self._value is not self._nothing

    def set(self, value: T) -> None:
        """Hand on what was found in this epoch. Once per epoch at the most."""
        assert self._value is self._nothing, f"{self.kind}: found twice in one epoch"
        self._value = value

    def clear(self) -> None:
        """Be empty again: the epoch is over."""
        self._value = self._nothing


class Lookup(Channel, Generic[P, R]):
    """A question that an operator answers from its state as it is after this epoch's step."""

    __slots__ = ("_answer",)

    def __init__(self, kind: str, answer: Callable[P, R]) -> None:
        super().__init__(kind)
        self._answer = answer

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The answer, as of the last commit and what is staged beside it."""
        if self.guard is not None:
            self.guard()
        return self._answer(*args, **kwargs)
