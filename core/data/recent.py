"""A queue of the newest items, for one thread that writes and any number that read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")

SPENT_SHARE = 8
"""Dropped items leave the list when they are more than one part in this many of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Stretch(Generic[Item]):
    """A range of a list; items that any thread adds to the list later are not in it."""

    items: list[Item]
    start: int
    stop: int

    def __len__(self) -> int:
        """Return the number of items."""
        return self.stop - self.start

    def __iter__(self) -> Iterator[Item]:
        """Iterate over the items, the oldest first."""
        return iter(self.items[self.start : self.stop])

    def past(self, place: int) -> list[Item]:
        """Return the items from this place on."""
        return self.items[self.start + place : self.stop]

    def __getitem__(self, place: int) -> Item:
        """Return the item at this place, which must exist; a negative place counts from the end."""
        return self.items[self.start + place if place >= 0 else self.stop + place]


class Recent(Generic[Item]):
    """Items that are added at the end and dropped at the front.

    ``present`` are the present items. They are in a list in which no item moves, so nothing is copied, and what was
    present once never changes. A new list is begun when much of the old one was dropped, so each item is moved a bounded
    number of times.
    """

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._items = list(items)
        self._start = 0
        self.present: Stretch[Item] = Stretch(self._items, 0, len(self._items))

    def append(self, item: Item) -> int:
        """Add an item at the end, and return how many there are."""
        self._items.append(item)
        stop = len(self._items)
        self.present = Stretch(self._items, self._start, stop)
        return stop - self._start

    def popleft(self) -> Item:
        """Drop the oldest item."""
        item = self._items[self._start]
        self._start += 1
        if self._start * SPENT_SHARE > len(self._items):
            self._items, self._start = self._items[self._start :], 0
        self.present = Stretch(self._items, self._start, len(self._items))
        return item

    def clear(self) -> None:
        """Drop all items."""
        self._items, self._start = [], 0
        self.present = Stretch(self._items, 0, 0)

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._items) - self._start

    def __iter__(self) -> Iterator[Item]:
        """Iterate over the items, the oldest first."""
        return iter(self.present)

    def __getitem__(self, place: int) -> Item:
        """See ``Stretch``."""
        return self.present[place]


class Limited(Recent[Item], ABC):
    """A queue that has at most so many items, with at most so large a ``size_of`` all of them together; older ones are dropped."""

    def __init__(self, most: int, largest: int, size_of: Callable[[Item], int]) -> None:
        super().__init__()
        self._most, self._largest = most, largest
        self._size_of = size_of
        self._size = 0

    def append(self, item: Item) -> int:
        """Add an item at the end, drop the oldest ones beyond the limits, and return how many there are."""
        count = super().append(item)
        self._size += self._size_of(item)
        while count and (count > self._most or self._size > self._largest):
            oldest, count = self.popleft(), count - 1
            self._size -= self._size_of(oldest)
            self._dropped(oldest)
        return count

    def clear(self) -> None:
        """Drop all items, without a note."""
        super().clear()
        self._size = 0

    def go_on_as(self, other: Limited[Item]) -> None:
        """Have the items that another queue has now, in place of its own."""
        self._items, self._start, self._size = list(other), 0, other._size
        self.present = Stretch(self._items, 0, len(self._items))

    @abstractmethod
    def _dropped(self, item: Item) -> None:
        """Note that an item was dropped that is beyond the limits."""
