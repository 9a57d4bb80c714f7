"""The shapes of stages: how the rows of an operation follow from those of its inputs, for whoever follows them back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from evercurrent.core.data.schema import Order
from evercurrent.core.eventtime.windows.kinds import Window
from evercurrent.core.operators.group.aggregates import Column
from evercurrent.core.operators.join import JoinColumn, JoinKind


class EventTime(Protocol):
    """The event time of rows: a column, plus a shift in microseconds."""

    @property
    def column(self) -> str:
        """The column of instants."""
        ...

    @property
    def shift(self) -> int:
        """The microseconds that are added to it."""
        ...


@dataclass(frozen=True, slots=True)
class Same:
    """Rows of the input, perhaps not all of them, and perhaps later."""


@dataclass(frozen=True, slots=True)
class Entered:
    """Rows that enter from outside."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The rows of the input for which a condition is true."""

    condition: Column


@dataclass(frozen=True, slots=True)
class Computed:
    """A row for each row of the input, with columns computed of it."""

    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Exploded:
    """A row for each element of lists."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unnested:
    """A row for each row of the input, with the fields of structs."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Assigned:
    """A row for each window into which a row of the input falls."""

    window: Window
    event_time: EventTime


@dataclass(frozen=True, slots=True)
class Retimed:
    """The rows of the input with another event time."""


@dataclass(frozen=True, slots=True)
class Union:
    """All rows of all inputs."""


@dataclass(frozen=True, slots=True)
class Negated:
    """The rows of the input with opposite diffs."""


@dataclass(frozen=True, slots=True)
class Once:
    """Each row of the input once."""


@dataclass(frozen=True, slots=True)
class Grouped:
    """A row for each group of rows with the same keys."""

    keys: tuple[str, ...]
    key_columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Panes:
    """Rows of groups by keys and window."""

    window: Window
    keys: tuple[str, ...]
    key_columns: tuple[Column, ...]
    event_time: EventTime


@dataclass(frozen=True, slots=True)
class Paired:
    """Pairs of rows of two inputs, or the rows that have a partner or none."""

    kind: JoinKind
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    nulls_equal: bool
    columns: tuple[JoinColumn, ...]


@dataclass(frozen=True, slots=True)
class First:
    """The first rows of each group of the input."""

    keys: tuple[str, ...]
    order: tuple[Order, ...]
    count: int


@dataclass(frozen=True, slots=True)
class InTurn:
    """The rows of the input, each when the watermark has passed it."""


@dataclass(frozen=True, slots=True)
class TooLate:
    """The rows of the input that come too late for their windows."""


@dataclass(frozen=True, slots=True)
class LastOnes:
    """The last row of each key and window of the input."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """What a user's function makes of the rows of the input."""


Shape = (
    Same
    | Entered
    | Chosen
    | Computed
    | Exploded
    | Unnested
    | Assigned
    | Retimed
    | Union
    | Negated
    | Once
    | Grouped
    | Panes
    | Paired
    | First
    | InTurn
    | TooLate
    | LastOnes
    | Unknown
)
