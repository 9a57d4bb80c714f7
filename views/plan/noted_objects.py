"""What is noted of objects is forgotten with them."""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class NotedObjects(Generic[V]):
    """Values of objects, in the order in which these were noted, each as long as its object is there.

    Objects are distinguished by identity. Other threads may note some, and drop some, at any time.
    """

    def __init__(self) -> None:
        self._by_id: dict[int, tuple[weakref.ref[Any], V]] = {}

    def items(self) -> list[tuple[Any, V]]:
        """Return the objects that are there now, with their values."""
        noted = [(reference(), value) for reference, value in list(self._by_id.values())]
        return [(each, value) for each, value in noted if each is not None]

    def get(self, each: Any) -> V | None:
        """Return the value of an object; None if none was noted."""
        reference, value = self._by_id.get(id(each), (None, None))
        # An interrupt in ``_forget`` is ignored by Python, and another object may have the place of one that is gone.
        return value if reference is not None and reference() is each else None

    def put(self, each: Any, value: V) -> None:
        """Note the value of an object, in the place of an earlier one if there is one."""
        # By a weak reference, as the values of a plan that is gone would otherwise stay until garbage is collected.
        reference = weakref.ref(each, partial(_forget, weakref.ref(self), id(each)))
        self._by_id[id(each)] = reference, value

    def add(self, each: Any, value: V) -> bool:
        """Note the value of an object for which none was noted, and return whether that is so."""
        is_new = self.get(each) is None
        if is_new:
            self.put(each, value)
        return is_new

    def forget(self, each: Any) -> None:
        """Forget an object."""
        self._by_id.pop(id(each), None)


def _forget(noted: weakref.ref[NotedObjects[Any]], key: int, reference: weakref.ref[Any]) -> None:
    objects = noted()
    if objects is not None and objects._by_id.get(key, (None,))[0] is reference:
        del objects._by_id[key]
