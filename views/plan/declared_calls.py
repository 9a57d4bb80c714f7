"""The calls that declare collections are recorded, so that they can be repeated over sources with other columns.

A checkpoint has a digest of what each view computed, columns of its sources included. Where a source is now declared with
other columns, the same calls over its earlier columns show which of the views are unchanged.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

from evercurrent.core.data.errors import first_line

from .noted_objects import NotedObjects

K = TypeVar("K", bound=type)

NAMED = ""
"""In place of a method: the collection was given a name, as a view."""

_within = threading.local()

_kinds: list[type] = []
"""The classes whose calls are noted, and that are noted as results of calls."""


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredCall:
    """One call of a method on a collection, and its result."""

    receiver: Any
    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any


class DeclaredCalls:
    """The calls by which that was declared which is still there, in their order: a call is forgotten with its result.

    A result is there as long as a view stands on it, or a user holds it. Memory: a few hundred bytes for each.
    """

    def __init__(self) -> None:
        self._noted: NotedObjects[_Noted] = NotedObjects()
        self.count: int = 0
        """How many were noted, those that are forgotten included."""

    def __iter__(self) -> Iterator[DeclaredCall]:
        """Yield the calls of which the result is there now."""
        return (noted.call_of(result) for result, noted in self._noted.items())

    def note(
        self, receiver: Any, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any
    ) -> None:
        """Note a call. The first one of several with one result stands."""
        noted = _Noted(receiver, method, args, kwargs, self.count)
        if result is not receiver and self._noted.add(result, noted):
            self.count += 1

    def put(self, call: DeclaredCall) -> None:
        """Have this call be the one that declared its result, in the place of another one if there is one."""
        before = self._noted.get(call.result)
        number = self.count if before is None else before.number
        self.count += before is None
        self._noted.put(call.result, _Noted(call.receiver, call.method, call.args, call.kwargs, number))

    def of(self, result: Any) -> DeclaredCall:
        """Return the call that declared this."""
        noted = self._noted.get(result)
        assert noted is not None, "a view was declared by giving a collection its name"
        return noted.call_of(result)

    def forget_names_since(self, count: int) -> None:
        """Forget by which calls names were given when more than so many calls were noted."""
        for result, noted in self._noted.items():
            if noted.number >= count and noted.method == NAMED:
                self._noted.forget(result)


@dataclass(frozen=True, slots=True, eq=False)
class _Noted:
    """A call without its result, by which it is noted."""

    receiver: Any
    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    number: int

    def call_of(self, result: Any) -> DeclaredCall:
        """Return the call with its result."""
        return DeclaredCall(self.receiver, self.method, self.args, self.kwargs, result)


def noting_calls(kind: K) -> K:
    """Return the class with public methods that record their calls in the plan; calls within other calls are not recorded."""
    _kinds.append(kind)
    for name, function in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_"):
            setattr(kind, name, _noting(name, function))
    return kind


def _noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(_within, "call", False):
            return function(self, *args, **kwargs)
        _within.call = True
        try:
            with self._plan.declaring():
                result = function(self, *args, **kwargs)
        finally:
            _within.call = False
        if isinstance(result, tuple(_kinds)):
            self._plan.calls.note(self, name, args, kwargs, result)
        return result

    return noted


def by_results(calls: Iterable[DeclaredCall]) -> dict[int, DeclaredCall]:
    """Return the calls by the ``id`` of what they returned."""
    return {id(call.result): call for call in calls}


def in_order(calls: Mapping[int, DeclaredCall], values: Iterable[Any]) -> list[Any]:
    """Return all values from which these were declared, and these, each after those from which it was.

    That need not be the order of the calls: a view may be declared on one that is declared again later. ``calls`` are by result.
    """
    ordered, seen = [], set[int]()
    pending = [(value, False) for value in values]
    while pending:
        value, is_behind = pending.pop()
        if is_behind:
            ordered.append(value)
        elif id(value) not in seen:
            seen.add(id(value))
            pending.append((value, True))
            if (call := calls.get(id(value))) is not None:
                pending += [(each, False) for each in (call.receiver, call.args, call.kwargs)]
            elif isinstance(value, Mapping):
                pending += [(each, False) for each in value.values()]
            elif type(value) in (list, tuple):
                pending += [(each, False) for each in value]
    return ordered


def stands_on(calls: Mapping[int, DeclaredCall], collection: Any, others: Iterable[Any]) -> list[Any]:
    """Return those of the others from which a collection was declared, by any number of calls, which are by result."""
    waiting, seen = [collection], set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if (call := calls.get(id(value))) is not None:
            waiting += [call.receiver, call.args, call.kwargs]
        elif isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value
    return [other for other in others if other is not collection and id(other) in seen]


class Replay:
    """Declared calls, repeated over other collections; ``failed`` has the reason for each that could not be repeated.

    ``begun`` are the collections to begin with, by the ``id`` of those that they replace.
    """

    def __init__(self, calls: Iterable[DeclaredCall], begun: Mapping[int, Any]) -> None:
        self._made = dict(begun)
        self.failed: dict[int, str] = {}
        by_result = by_results(calls)
        for value in in_order(by_result, [call.result for call in by_result.values()]):
            if (call := by_result.get(id(value))) is not None:
                self._again(call)

    def of(self, collection: Any) -> Any | None:
        """Return the replacement of a collection; None if it could not be made."""
        return self._made.get(id(collection))

    def _again(self, call: DeclaredCall) -> None:
        try:
            receiver, args, kwargs = self._standing((call.receiver, call.args, dict(call.kwargs)))
            named = call.method == NAMED
            self._made[id(call.result)] = (
                receiver if named else getattr(receiver, call.method)(*args, **kwargs)
            )
        except _MissingError as missing:
            self.failed[id(call.result)] = str(missing)
        except Exception as error:  # Functions of users run where a plan is declared.
            self.failed[id(call.result)] = first_line(error)

    def _standing(self, value: Any) -> Any:
        """Return a value with all collections in it replaced."""
        if id(value) in self.failed:
            raise _MissingError(self.failed[id(value)])
        if id(value) in self._made:
            return self._made[id(value)]
        if isinstance(value, dict):
            return {key: self._standing(each) for key, each in value.items()}
        if isinstance(value, list | tuple) and type(value) in (list, tuple):
            return type(value)(map(self._standing, value))
        return value


class _MissingError(Exception):
    """A collection that could not be declared again, and the reason."""
