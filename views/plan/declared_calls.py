"""The calls that declare collections are recorded, so that they can be repeated over sources with other columns.

A checkpoint has a digest of what each view computed, columns of its sources included. Where a source is now declared with
other columns, the same calls over its earlier columns show which of the views are unchanged.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

from evercurrent.core.data.errors import first_line

K = TypeVar("K", bound=type)

NAMED = ""
"""In place of a method: the collection was given a name, as a view."""

_within = threading.local()


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredCall:
    """One call of a method on a collection, and its result."""

    receiver: Any
    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any


def noting_calls(kind: K) -> K:
    """Return the class with public methods that record their calls in the plan; calls within other calls are not recorded."""
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
            result = function(self, *args, **kwargs)
        finally:
            _within.call = False
        self._plan.calls.append(DeclaredCall(self, name, args, kwargs, result))
        return result

    return noted


def by_results(calls: list[DeclaredCall]) -> dict[int, DeclaredCall]:
    """Return the calls by the ``id`` of what they returned; of several with one result the first."""
    return {id(call.result): call for call in reversed(calls) if call.result is not call.receiver}


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


def stands_on(calls: list[DeclaredCall], collection: Any, others: Iterable[Any]) -> list[Any]:
    """Return those of the others from which a collection was declared, by any number of calls."""
    by_result = by_results(calls)
    waiting, seen = [collection], set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if (call := by_result.get(id(value))) is not None:
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

    def __init__(self, calls: list[DeclaredCall], begun: Mapping[int, Any]) -> None:
        self._made = dict(begun)
        self.failed: dict[int, str] = {}
        by_result = by_results(calls)
        for value in in_order(by_result, [call.result for call in calls]):
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
