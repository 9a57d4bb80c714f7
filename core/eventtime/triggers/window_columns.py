"""The state of a window as columns besides those of its trigger, and how states are merged when windows merge.

All columns are int64 and zero at first, so that the state of a window is an entry of a spine; those of the trigger
are named by its parts (``leaves``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...data.columns.kernels import Index, Ints, Mask
from .leaves import NO_TIMER, TriggerState

OPEN, END, START, ROWS, PENDING, PAST, EMITTED = "open", "end", "start", "rows", "pending", "past", "said"
"""State of a window: whether it exists; its end; where it holds the watermark; its rows; whether it has something to emit;
whether it has emitted since the watermark passed its end; the earliest end, above the start of time, with which a session
has emitted."""


@dataclass(frozen=True, slots=True)
class TriggerColumns:
    """The state columns of a trigger, by how they are combined when windows merge: see ``TriggerState``."""

    counters: tuple[str, ...]
    timers: tuple[str, ...]
    flags: tuple[str, ...]

    @staticmethod
    def of(trigger: TriggerState) -> TriggerColumns:
        """Return the columns of all parts of a trigger."""
        parts = list(trigger.every())
        return TriggerColumns(
            tuple(name for part in parts for name in part.counters()),
            tuple(name for part in parts for name in part.timers()),
            tuple(name for part in parts for name in part.flags()),
        )


def merge_states(
    columns: TriggerColumns,
    columns_of_windows: dict[str, Ints],
    state: dict[str, Ints],
    old: Index,
    new: Index,
    was_open: Mask,
) -> None:
    """Add up the states of windows that have merged, in place.

    ``old`` are the places of the windows that no longer exist, ``new`` those of the windows that they are part of. Among the
    ``columns_of_windows``, ``EMITTED`` and ``PAST`` add up; all columns of the trigger's ``state`` do, and become zero in the old.
    """
    if not len(old):
        return
    for name in columns.counters:
        if name in state:
            np.add.at(state[name], new, state[name][old])
    columns_of_windows[EMITTED] = _least(columns_of_windows[EMITTED], old, new, 0)
    for name in columns.timers:
        if name in state:
            state[name] = _least(state[name], old, new, NO_TIMER)
    joined = np.unique(new)
    fresh = joined[~was_open[joined]]
    for column in (*(state[name] for name in columns.flags if name in state), columns_of_windows[PAST]):
        column[fresh] = 1
        np.minimum.at(column, new, column[old])
    for column in state.values():
        column[old] = 0


def _least(timers: Ints, old: Index, new: Index, unset: int) -> Ints:
    """Return the earliest of the timers that become one, as far as they are set."""
    latest = np.iinfo(np.int64).max
    set_timers = np.where(timers == unset, latest, timers)
    np.minimum.at(set_timers, new, set_timers[old])
    return np.where(set_timers == latest, unset, set_timers)
