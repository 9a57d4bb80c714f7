"""The kinds of triggers, which decide when a window emits a pane; which of them finish, and which would lose rows.

An algebra in the sense of the Dataflow Model, section 2.3: leaves that wait for the watermark, for processing
time, for rows or for a signal from outside, composed by any, all, sequence, repeat and until. A trigger that
*finishes* fires once and never again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ...data.instants import spelled
from ...data.tags import tagged


@tagged("core.eventtime.triggers:Trigger")
class Trigger:
    """The base class of triggers.

    A new kind is a frozen dataclass derived from this class, beside the ``Leaf`` that keeps its state
    (``leaves.state_of``). The members are those of one without parts that waits for something other than the watermark,
    and then finishes; a kind overrides those in which it differs, and prints itself as users write it.

    >>> import evercurrent as ec
    >>> trigger: ec.Trigger = ec.after_count(3)
    >>> trigger == ec.after_count(3), trigger == ec.after_count(4)
    (True, False)
    """

    __slots__ = ()

    depends_on_order: ClassVar[bool] = False
    """Whether it goes by the order in which rows come; its parts aside."""

    refines_only: ClassVar[bool] = False
    """Whether it fires in each epoch that brings rows, and never else."""

    @property
    def components(self) -> tuple[Trigger, ...]:
        """Return the triggers of which it is directly composed."""
        return ()

    @property
    def finishes(self) -> bool:
        """Return whether it may finish, after which it never fires again."""
        return True

    @property
    def finishes_on_time(self) -> bool:
        """Return whether it finishes when the watermark passes the end of the window, and not before."""
        return False

    @property
    def waits_for_watermark_only(self) -> bool:
        """Return whether it may reach a state in which only the watermark passing the end of the window makes it fire."""
        return False

    @property
    def summed(self) -> tuple[str, ...]:
        """Return the columns of numbers or lengths that it adds up over rows."""
        return ()

    @property
    def flags(self) -> tuple[str, ...]:
        """Return the Boolean columns that it needs."""
        return ()

    @property
    def added_up(self) -> tuple[str, ...]:
        """Return all columns that it adds up: numbers, and how many rows have a flag."""
        return (*self.summed, *(() if self.patterns else self.flags))

    @property
    def patterns(self) -> tuple[tuple[str, str], ...]:
        """Return the pairs of Boolean columns of which one has to come after the other."""
        return ()

    @property
    def awaited_share(self) -> float | None:
        """Return the share of the rows for whose watermark it waits; None if it waits for none."""
        return None

    @property
    def awaits_signal(self) -> bool:
        """Return whether it, without its parts, waits for a signal."""
        return False

    @property
    def repeated(self) -> str:
        """Return it in words where it is repeated."""
        return f"repeat({self})"

    def every_part(self) -> Iterator[Trigger]:
        """Yield it and all of which it is composed, each before its parts."""
        yield self
        for part in self.components:
            yield from part.every_part()


@tagged("core.eventtime.triggers:EveryEpoch")
@dataclass(frozen=True, slots=True)
class EveryEpoch(Trigger):
    """Fires at the end of every epoch that brought rows. Never finishes."""

    refines_only = True
    finishes = False

    def __str__(self) -> str:
        return "every epoch"


@tagged("core.eventtime.triggers:AfterWatermark")
@dataclass(frozen=True, slots=True)
class AfterWatermark(Trigger):
    """Fires when the watermark passes the end of the window; with ``early`` also before, with ``late`` also after.

    ``early`` and ``late`` start again whenever they have finished. Without ``late`` it finishes on time.
    """

    early: Trigger | None = None
    late: Trigger | None = None

    @property
    def components(self) -> tuple[Trigger, ...]:
        """Return the early and the late one, as far as they are given."""
        return tuple(part for part in (self.early, self.late) if part is not None)

    @property
    def finishes(self) -> bool:
        """Return whether it has no late part."""
        return self.late is None

    @property
    def finishes_on_time(self) -> bool:
        """Return whether it has no late part."""
        return self.late is None

    @property
    def waits_for_watermark_only(self) -> bool:
        """Return whether no early part fires before that."""
        return self.early is None or self.early.waits_for_watermark_only

    def __str__(self) -> str:
        parts = [f"{name}={part}" for name, part in (("early", self.early), ("late", self.late)) if part]
        return f"after_watermark({', '.join(parts)})"


@tagged("core.eventtime.triggers:AtPeriod")
@dataclass(frozen=True, slots=True)
class AtPeriod(Trigger):
    """Fires when processing time reaches the first multiple of a period after rows came. Finishes.

    Multiples count from ``aligned_to``; both in microseconds.
    """

    period: int
    aligned_to: int = 0

    def __str__(self) -> str:
        return f"at_period {self._length}"

    @property
    def repeated(self) -> str:
        """Return it in words where it is repeated."""
        return f"every {self._length}"

    @property
    def _length(self) -> str:
        return spelled(self.period) + (f" from {spelled(self.aligned_to)}" if self.aligned_to else "")


@tagged("core.eventtime.triggers:AfterCount")
@dataclass(frozen=True, slots=True)
class AfterCount(Trigger):
    """Fires after at least this many rows since the last time. Finishes."""

    count: int

    def __str__(self) -> str:
        return f"after_count({self.count})"

    @property
    def repeated(self) -> str:
        """Return it in words where it is repeated."""
        return "each row" if self.count == 1 else f"repeat({self})"


@tagged("core.eventtime.triggers:AfterSum")
@dataclass(frozen=True, slots=True)
class AfterSum(Trigger):
    """Fires when a column of the rows since the last time, such as bytes, adds up to a limit. Finishes."""

    input: str
    limit: int

    @property
    def summed(self) -> tuple[str, ...]:
        """Return the column."""
        return (self.input,)

    def __str__(self) -> str:
        return f"after_bytes({self.limit}, {self.input})"


@tagged("core.eventtime.triggers:Punctuation")
@dataclass(frozen=True, slots=True)
class Punctuation(Trigger):
    """Fires when a row comes in which a Boolean column is true. Finishes."""

    input: str

    @property
    def flags(self) -> tuple[str, ...]:
        """Return the column."""
        return (self.input,)

    def __str__(self) -> str:
        return f"punctuation({self.input})"


@tagged("core.eventtime.triggers:Pattern")
@dataclass(frozen=True, slots=True)
class Pattern(Trigger):
    """Fires when a row with ``stop`` comes after a row with ``start``, in order of arrival. Finishes."""

    depends_on_order = True

    start: str
    stop: str

    @property
    def flags(self) -> tuple[str, ...]:
        """Return both columns."""
        return self.start, self.stop

    @property
    def patterns(self) -> tuple[tuple[str, str], ...]:
        """Return the pair of columns."""
        return ((self.start, self.stop),)

    def __str__(self) -> str:
        return f"pattern({self.start}, {self.stop})"


@tagged("core.eventtime.triggers:AfterPercentile")
@dataclass(frozen=True, slots=True)
class AfterPercentile(Trigger):
    """Fires when a watermark that waits only for this share of the rows passes the end of the window. Finishes."""

    depends_on_order = True
    waits_for_watermark_only = True

    share: float

    @property
    def awaited_share(self) -> float:
        """Return the share."""
        return self.share

    def __str__(self) -> str:
        return f"after_percentile({self.share:g})"


@tagged("core.eventtime.triggers:Signal")
@dataclass(frozen=True, slots=True)
class Signal(Trigger):
    """Fires on a signal from outside. Finishes."""

    @property
    def awaits_signal(self) -> bool:
        """Return that it does."""
        return True

    def __str__(self) -> str:
        return "signal()"


@tagged("core.eventtime.triggers:AnyOf")
@dataclass(frozen=True, slots=True)
class AnyOf(Trigger):
    """Fires when one of the parts would; that finishes it."""

    parts: tuple[Trigger, ...]

    @property
    def components(self) -> tuple[Trigger, ...]:
        """Return the parts."""
        return self.parts

    @property
    def finishes_on_time(self) -> bool:
        """Return whether all of the parts do."""
        return all(part.finishes_on_time for part in self.parts)

    @property
    def waits_for_watermark_only(self) -> bool:
        """Return whether all of the parts do."""
        return all(part.waits_for_watermark_only for part in self.parts)

    def __str__(self) -> str:
        return f"any_of({', '.join(map(str, self.parts))})"


@tagged("core.eventtime.triggers:AllOf")
@dataclass(frozen=True, slots=True)
class AllOf(Trigger):
    """Fires when each of the parts would fire or would have fired; that finishes it."""

    parts: tuple[Trigger, ...]

    @property
    def components(self) -> tuple[Trigger, ...]:
        """Return the parts."""
        return self.parts

    @property
    def finishes(self) -> bool:
        """Return whether all of the parts do."""
        return all(part.finishes for part in self.parts)

    @property
    def finishes_on_time(self) -> bool:
        """Return whether any of the parts does."""
        return any(part.finishes_on_time for part in self.parts)

    @property
    def waits_for_watermark_only(self) -> bool:
        """Return whether any of the parts does."""
        return any(part.waits_for_watermark_only for part in self.parts)

    def __str__(self) -> str:
        return f"all_of({', '.join(map(str, self.parts))})"


@tagged("core.eventtime.triggers:Sequence")
@dataclass(frozen=True, slots=True)
class Sequence(Trigger):
    """Fires as the parts do, one after the other, each until it finishes."""

    parts: tuple[Trigger, ...]

    @property
    def components(self) -> tuple[Trigger, ...]:
        """Return the parts."""
        return self.parts

    @property
    def finishes(self) -> bool:
        """Return whether all of the parts do."""
        return all(part.finishes for part in self.parts)

    @property
    def finishes_on_time(self) -> bool:
        """Return whether the last part does."""
        return self.parts[-1].finishes_on_time

    @property
    def waits_for_watermark_only(self) -> bool:
        """Return whether any of the parts does."""
        return any(part.waits_for_watermark_only for part in self.parts)

    def __str__(self) -> str:
        return f"sequence({', '.join(map(str, self.parts))})"


@tagged("core.eventtime.triggers:Repeat")
@dataclass(frozen=True, slots=True)
class Repeat(Trigger):
    """Fires as the part does, which begins again whenever it finishes. Never finishes."""

    finishes = False

    part: Trigger

    @property
    def components(self) -> tuple[Trigger, ...]:
        """Return the part."""
        return (self.part,)

    @property
    def waits_for_watermark_only(self) -> bool:
        """Return whether the part does."""
        return self.part.waits_for_watermark_only

    def __str__(self) -> str:
        return self.part.repeated


@tagged("core.eventtime.triggers:Until")
@dataclass(frozen=True, slots=True)
class Until(Trigger):
    """Fires as the part does until ``end`` would fire; then ``end`` fires, and both have finished."""

    part: Trigger
    end: Trigger

    @property
    def components(self) -> tuple[Trigger, ...]:
        """Return both."""
        return self.part, self.end

    @property
    def finishes_on_time(self) -> bool:
        """Return whether only ``end`` finishes it, on time."""
        return not self.part.finishes and self.end.finishes_on_time

    @property
    def waits_for_watermark_only(self) -> bool:
        """Return whether both do."""
        return all(part.waits_for_watermark_only for part in self.components)

    def __str__(self) -> str:
        return f"until({self.part}, {self.end})"
