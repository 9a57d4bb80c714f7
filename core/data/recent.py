"""The newest of many items, for one who adds to them and any number who read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")

SPENT_SHARE = 8
"""What was dropped is let go when it is more than this part of the list."""


@dataclass(frozen=True, slots=True, eq=False)
class Stretch(Generic[Item]):
    """Some items of a list to which others may be added meanwhile, in any thread: they do not belong to it."""

    items: list[Item]
    start: int
    stop: int

    def __len__(self) -> int:
        """How many there are."""
        return self.stop - self.start

    def __iter__(self) -> Iterator[Item]:
        """The items, the oldest first."""
        return iter(self.items[self.start : self.stop])

    def past(self, place: int) -> list[Item]:
        """The items from this place on."""
        return self.items[self.start + place : self.stop]

    def __getitem__(self, place: int) -> Item:
        """The item at this place; a negative one counts from the end, which has to be there."""
        return self.items[self.start + place if place >= 0 else self.stop + place]


class Recent(Generic[Item]):
    """Items that are added at the end and dropped at the front.

    They stand in a list in which nothing ever moves, so ``now`` costs nothing and stays what it is. A new list is begun
    when much of the old one was dropped: each item is moved a bounded number of times.
    """

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._items = list(items)
        self._start = 0

    def now(self) -> Stretch[Item]:
        """The items that there are."""
        return Stretch(self._items, self._start, len(self._items))

    def append(self, item: Item) -> None:
        """Add an item at the end."""
        self._items.append(item)

    def popleft(self) -> Item:
        """Drop the oldest item."""
        item = self._items[self._start]
        self._start += 1
        if self._start * SPENT_SHARE > len(self._items):
            self._items, self._start = self._items[self._start :], 0
        return item

    def clear(self) -> None:
        """Drop all."""
        self._items, self._start = [], 0

    def __len__(self) -> int:
        """How many there are."""
        return len(self._items) - self._start

    def __iter__(self) -> Iterator[Item]:
        """The items, the oldest first."""
        return iter(self.now())

    def __getitem__(self, place: int) -> Item:
        """See ``Stretch``."""
        return self.now()[place]
