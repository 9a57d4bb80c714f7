"""Triggers of the simulator: each object is the trigger of one window, with its state. Plain Python.

Read out of the Dataflow Model (section 2.3), Streaming 102 and the rulings. A trigger *observes* what happens
to its window (``observe``), answers once per epoch whether it is ``ready``, and is notified when the window has emitted on
its account (``fire``). Once finished, it is never ready until it is begun ``anew``.

Choices where the texts leave room:

- Parts that it is not the turn of (later ones of a sequence, ``late`` before the end) neither observe nor latch.
- After a merge a part is as far as the one that was least far: it is finished, latched or late only if it was so
  in all. Counts add up, of timers the earliest holds, and parts whose turn has not come yet are as new.
- ``after_count`` counts rows that come and rows that go; ``after_bytes`` and ``punctuation`` only those that come.
- ``every`` sets its timer when there is something to emit and none is set; under ``always`` at once.
- ``after_watermark``, begun anew when the end is past, is ready whenever there is something to emit.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """What one window has seen in one epoch. ``came`` counts rows added or retracted, ``added`` are the former."""

    end: int
    watermark_before: int
    watermark: int
    processing_time: int
    came: int = 0
    added: tuple[Row, ...] = ()
    pending: bool = False
    changed: bool = False
    always: bool = False
    signalled: bool = False

    @property
    def is_past(self) -> bool:
        """Whether the watermark has passed the end."""
        return self.watermark >= self.end

    def without_rows(self) -> Seen:
        """The same moment after the window has emitted."""
        return replace(self, came=0, added=(), pending=False, changed=False)


@dataclass
class Trigger:
    """What all triggers have in common: parts, and whether it is finished."""

    finished: bool = field(default=False, init=False)

    @property
    def parts(self) -> list[Trigger]:
        """What it is composed of."""
        return []

    def fresh(self) -> Trigger:
        """A trigger of this kind for a new window."""
        new = copy.deepcopy(self)
        new.anew()
        return new

    def observe(self, seen: Seen) -> None:
        """Take note of what happened."""
        for part in self.parts:
            part.observe(seen)

    def ready(self, seen: Seen) -> bool:
        """Whether the window is to emit now."""
        return not self.finished and self.is_met(seen)

    def is_met(self, seen: Seen) -> bool:
        """Whether this would fire if it is not finished."""
        raise NotImplementedError

    def fire(self, seen: Seen) -> None:
        """Take note that the window fired."""
        self.finished = True

    def anew(self) -> None:
        """Begin again."""
        self.finished = False
        for part in self.parts:
            part.anew()

    def join(self, other: Any) -> None:
        """Two windows became one: take over the state of the other's trigger."""
        self.finished = self.finished and other.finished
        for mine, its in zip(self.parts, other.parts, strict=True):
            mine.join(its)

    def ends_later(self) -> None:
        """The window's end has moved beyond the watermark again."""
        for part in self.parts:
            part.ends_later()


@dataclass
class EveryEpoch(Trigger):
    """At the end of each epoch in which something changed."""

    def is_met(self, seen: Seen) -> bool:
        return seen.changed

    def fire(self, seen: Seen) -> None:
        """Never finished."""


@dataclass
class AfterCount(Trigger):
    """After at least so many rows that came or went."""

    limit: int
    total: int = field(default=0, init=False)

    def amount(self, seen: Seen) -> int:
        """What this epoch adds."""
        return seen.came

    def observe(self, seen: Seen) -> None:
        self.total += self.amount(seen)

    def is_met(self, seen: Seen) -> bool:
        return self.total >= self.limit

    def anew(self) -> None:
        super().anew()
        self.total = 0

    def fire(self, seen: Seen) -> None:
        super().fire(seen)
        self.total = 0

    def join(self, other: Any) -> None:
        super().join(other)
        self.total += other.total


@dataclass
class AfterBytes(AfterCount):
    """When a column of the rows that came adds up to a limit."""

    column: str

    def amount(self, seen: Seen) -> int:
        return sum(row[self.column] for row in seen.added)


@dataclass
class Punctuation(AfterCount):
    """When a row came in which a column is true."""

    limit: int = field(default=1, init=False)
    column: str = "flag"

    def amount(self, seen: Seen) -> int:
        return sum(row[self.column] is True for row in seen.added)


@dataclass
class Every(Trigger):
    """When processing time reaches the first aligned boundary after there was something to emit."""

    period: int
    aligned_to: int = 0
    timer: int | None = field(default=None, init=False)

    def observe(self, seen: Seen) -> None:
        if self.timer is None and not self.finished and (seen.pending or seen.always):
            boundaries = (seen.processing_time - self.aligned_to) // self.period + 1
            self.timer = self.aligned_to + boundaries * self.period

    def is_met(self, seen: Seen) -> bool:
        return self.timer is not None and seen.processing_time >= self.timer

    def fire(self, seen: Seen) -> None:
        super().fire(seen)
        self.timer = None

    def anew(self) -> None:
        super().anew()
        self.timer = None

    def join(self, other: Any) -> None:
        super().join(other)
        set_ones = [timer for timer in (self.timer, other.timer) if timer is not None]
        self.timer = min(set_ones, default=None)


@dataclass
class AfterProcessingTime(Every):
    """When a length of processing time has passed since there was first something to emit."""

    def observe(self, seen: Seen) -> None:
        if self.timer is None and not self.finished and (seen.pending or seen.always):
            self.timer = seen.processing_time + self.period


@dataclass
class Signal(Trigger):
    """When it is requested from outside."""

    def is_met(self, seen: Seen) -> bool:
        return seen.signalled


@dataclass
class AfterWatermark(Trigger):
    """Before the end ``early`` again and again, once on time, after that ``late`` again and again."""

    early: Trigger | None = None
    late: Trigger | None = None
    is_late: bool = field(default=False, init=False)

    @property
    def parts(self) -> list[Trigger]:
        return [part for part in (self.early, self.late) if part is not None]

    @property
    def current(self) -> Trigger | None:
        """The part whose turn it is."""
        return self.late if self.is_late else self.early

    def observe(self, seen: Seen) -> None:
        if self.current is not None:
            self.current.observe(seen)

    def is_met(self, seen: Seen) -> bool:
        if not self.is_late and seen.is_past:
            return seen.pending or seen.end > seen.watermark_before
        return self.current is not None and self.current.ready(seen)

    def fire(self, seen: Seen) -> None:
        if self.is_late or not seen.is_past:
            assert self.current is not None
            fire_again(self.current, seen)
            return
        self.is_late = True
        for part in self.parts:
            part.anew()
        self.finished = self.late is None

    def anew(self) -> None:
        super().anew()
        self.is_late = False

    def join(self, other: Any) -> None:
        both = self.is_late and other.is_late
        super().join(other)
        self.is_late = both
        if not both and self.late is not None:
            self.late.anew()

    def ends_later(self) -> None:
        if self.is_late:
            self.anew()


def fire_again(part: Trigger, seen: Seen) -> None:
    """Fire a part that begins anew as soon as it is finished."""
    part.fire(seen)
    if part.finished:
        part.anew()


@dataclass
class AnyOf(Trigger):
    """When one of them is ready."""

    children: list[Trigger]

    @property
    def parts(self) -> list[Trigger]:
        return self.children

    def is_met(self, seen: Seen) -> bool:
        ready = [part.ready(seen) for part in self.children]
        return any(ready)


@dataclass
class AllOf(Trigger):
    """When each of them is ready or has been."""

    children: list[Trigger]
    latched: list[bool] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.latched = [False] * len(self.children)

    @property
    def parts(self) -> list[Trigger]:
        return self.children

    def is_met(self, seen: Seen) -> bool:
        self.latched = [
            was or part.ready(seen) for was, part in zip(self.latched, self.children, strict=True)
        ]
        return all(self.latched)

    def anew(self) -> None:
        super().anew()
        self.latched = [False] * len(self.children)

    def join(self, other: Any) -> None:
        super().join(other)
        self.latched = [mine and its for mine, its in zip(self.latched, other.latched, strict=True)]


@dataclass
class Sequence(Trigger):
    """One after the other, each until it is finished."""

    children: list[Trigger]
    place: int = field(default=0, init=False)

    @property
    def parts(self) -> list[Trigger]:
        return self.children

    @property
    def current(self) -> Trigger:
        """The part whose turn it is; the last one when all are over."""
        return self.children[min(self.place, len(self.children) - 1)]

    def observe(self, seen: Seen) -> None:
        self.current.observe(seen)

    def is_met(self, seen: Seen) -> bool:
        return self.current.ready(seen)

    def fire(self, seen: Seen) -> None:
        self.current.fire(seen)
        if self.current.finished:
            self.place += 1
            self.finished = self.place == len(self.children)

    def anew(self) -> None:
        super().anew()
        self.place = 0

    def join(self, other: Any) -> None:
        super().join(other)
        self.place = min(self.place, other.place)
        for part in self.children[self.place + 1 :]:
            part.anew()


@dataclass
class Repeat(Trigger):
    """Again and again."""

    child: Trigger

    @property
    def parts(self) -> list[Trigger]:
        return [self.child]

    def is_met(self, seen: Seen) -> bool:
        return self.child.ready(seen)

    def fire(self, seen: Seen) -> None:
        fire_again(self.child, seen)


@dataclass
class Until(Trigger):
    """The child, until ``end`` is ready: then once more, and that is all."""

    child: Trigger
    end: Trigger

    @property
    def parts(self) -> list[Trigger]:
        return [self.child, self.end]

    def is_met(self, seen: Seen) -> bool:
        return any([self.child.ready(seen), self.end.ready(seen)])

    def fire(self, seen: Seen) -> None:
        if self.end.ready(seen):
            self.finished = True
        else:
            self.child.fire(seen)
            self.finished = self.child.finished
