"""Windows that a user's function merges, and that close: the rows of each key are kept until their window is final."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ...data.clock import Clock, Now
from ...data.columns.grouping import group
from ...data.columns.json_texts import shown_row
from ...data.columns.kernels import Ints, Keys, Mask, gather, key_words, stack
from ...data.delta import Delta
from ...data.errors import InputError
from ...data.instants import shown
from ...data.schema import DIFF
from ...data.tags import tagged
from ...state.channels import Finding
from ...state.lookup import KeyRows, rows_change
from ...state.negative_counts import NeverBelowZero, counts_of_retracted
from ...state.operator_contract import Operator
from ...state.partitioning import KeyColumns
from ...state.protocol import State
from ...state.run import Run, empty_run, make_run, run_of_rows
from ...state.spine import Spine
from ...state.timers import Timers
from ..triggers.firing import MergedEnds, Merging, NothingMerged, places_among
from .end_timers import closing
from .kinds import WINDOW_END, WINDOW_START, Window
from .merge_changes import MergeChanges, MergedRows, numbered
from .row_windows import Rewritten, bounds_of, layout_of, rewindow

REMEDY = "or leave out .lateness(...): then every row is kept"


@tagged("core.eventtime.merging:MergeWindows")
class MergeWindows(Operator):
    """Adds to every row the start of the window into which a user's function has merged its own; windows close.

        out(A) = the rows of A by key, each with the start of merge(own windows of the key)

    Rows come with their own window, before others are looked at, in ``window_start`` and ``window_end``. They are emitted
    with ``window_start`` only, that of the merged window: as with ``Sessions``, a window that grows at its end moves
    no row. If the start changes, rows are retracted and emitted again.

    A window is closed when the clock passes its end plus the lateness: its rows are purged, and nothing is emitted for that.
    That is exact as long as no row comes for an own window that is closed, and under three conditions, which are checked: a merged
    window contains the own windows that are in it; those of a key have different starts; and the function gives the
    remaining own windows of a key the same windows once the others are gone.

    Without ``may_split`` no row may leave a window of which other rows stay together: discarding panes do not keep their rows.

    No row has a negative count: the input guarantees that, or ``never_below_zero`` refuses the epoch.

    The findings are those of ``Sessions``: ``changes`` has the ends, and ``merging`` what merged into what. State: the rows of open
    windows by key, in the order of ``layout_of``, and timers of keys. Cost: all rows that are kept of each key that the epoch
    touches, or of which a window closes; three calls of the function with all of their windows, and one when any close.

    Raises:
        InputError: the function fails, or one of the conditions does not hold; names a row.
    """

    may_wake = True
    has_timers = True
    awaits_clocks = True
    gains_by_buckets = True
    role = "rows of merging windows"
    other_roles = ("timers of merging windows",)

    def __init__(
        self,
        where: str,
        schema: pl.Schema,
        keys: Sequence[str],
        window: Window,
        *,
        lateness: int,
        clock: Clock,
        may_retract: bool,
        may_split: bool,
        never_below_zero: NeverBelowZero | None = None,
    ) -> None:
        self.schema = pl.Schema({name: dtype for name, dtype in schema.items() if name != WINDOW_END})
        self.ids = pl.Schema({name: schema[name] for name in (*keys, WINDOW_START)})
        self._keys = KeyColumns.of(tuple(keys))
        self._lateness = lateness
        self._clock = clock
        self.clocks = (clock,)
        self._may_retract = may_retract
        self._may_split = may_split
        self._never_below_zero = never_below_zero
        self._windows = ClosingWindows(where, window, tuple(keys))
        self._rows = Spine(layout_of(window, schema), self._keys.route)
        self._timers = Timers(self._keys.route)
        self._nothing = Delta.empty(self.schema)
        self.changes = Finding[MergedEnds | None]("ends", None)
        self.merging = Finding[Merging]("moves", NothingMerged())
        self.gives = (self.changes, self.merging)

    @property
    def states(self) -> list[State]:
        """Return its states."""
        return [self._rows, self._timers]

    def is_due(self, now: Now) -> bool:
        """Return whether a step without rows might close a window."""
        return self._timers.is_due(self._clock.now)

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the rows that came or went, and those whose window has another start now."""
        delta = deltas[0].net(may_retract=self._may_retract)
        added = run_of_rows(self._rows.layout, self._keys, delta.frame) if len(delta) else None
        change = empty_run(self._rows.layout) if added is None else added
        due = self._timers.due(self._clock.now)
        keys = group(Keys.concat([change.keys, due])).keys
        if not len(keys):
            return self._nothing
        if self._never_below_zero is not None:
            self._never_below_zero.require(*counts_of_retracted(self._rows, change))
        rows_before, rows_after = rows_change(self._rows, keys, None, change)
        before, after = self._windows.merged(rows_before), self._windows.merged(rows_after)
        self._windows.check(after)
        self._set_timers(keys, before, after)
        self._rows.stage(change, self._purged(keys, after))
        return self._output(delta, keys, before, after) if len(delta) else self._nothing

    def _output(self, delta: Delta, keys: Keys, before: MergedRows, after: MergedRows) -> Delta:
        """Return the rows that came or went, with their present windows, and earlier rows that moved."""
        owners = places_among(self._keys.words(delta.frame), keys)
        change = KeyRows(owners, delta.frame, delta.diffs)
        names = list(self._keys.names)
        # A row of each key of which rows came or went; keys that are only due have no changes.
        row_of_key = np.zeros(len(keys), np.intp)
        row_of_key[owners] = np.arange(len(owners))
        key_columns = gather(delta.frame.select(names), row_of_key) if names else pl.DataFrame()
        changes = MergeChanges.of(before, after, change, key_columns, self.ids)
        if not self._may_split and changes.left.any():
            row = int(changes.moved_rows[np.flatnonzero(changes.left)[0]])
            raise self._windows.refused_as_split(before, row)
        self.changes.set(changes)
        self.merging.set(changes)
        came, old, new = changes.starts
        out = [self._with_start(delta.frame, came)]
        if not len(changes.moved):
            return Delta.of(out[0], delta.diffs)
        moved = before.take(changes.moved_rows)
        out += [self._with_start(moved.payload, starts) for starts in (old, new)]
        return Delta.of(stack(out), np.concatenate([delta.diffs, -moved.diffs, moved.diffs]))

    def _with_start(self, rows: pl.DataFrame, starts: Ints) -> pl.DataFrame:
        column = pl.Series(WINDOW_START, starts).cast(self.schema[WINDOW_START])
        return pl.DataFrame(
            [column if name == WINDOW_START else rows.get_column(name) for name in self.schema]
        )

    # Closing

    def _set_timers(self, keys: Keys, before: MergedRows, after: MergedRows) -> None:
        """Set timers for the keys at the instants when windows may close that have not ended there before."""
        closes = closing(after.ends, self._lateness)
        is_open = np.flatnonzero(closes > self._clock.now)
        owners = np.concatenate([before.rows.owners, after.rows.owners[is_open]])
        numbers, first = numbered(owners, np.concatenate([before.ends, after.ends[is_open]]))
        is_new = np.ones(len(first), np.bool_)
        is_new[numbers[: len(before)]] = False
        fresh = first[is_new]
        self._timers.set(closes[is_open[fresh - len(before)]], keys.take(owners[fresh]))

    def _purged(self, keys: Keys, after: MergedRows) -> Run | None:
        """Return the run that purges the rows of all windows that are closed by the clock."""
        is_closed = closing(after.ends, self._lateness) <= self._clock.now
        closed = np.flatnonzero(is_closed)
        if not len(closed):
            return None
        self._windows.check_without(after, is_closed)
        rows = after.take(closed)
        words = key_words(rows.payload.get_columns(), len(closed))
        return make_run(self._rows.layout, keys.take(rows.owners), rows.payload, {DIFF: -rows.diffs}, words)


class ClosingWindows:
    """A user's function that merges windows, with the checks of what it gives where windows close."""

    def __init__(self, where: str, window: Window, keys: tuple[str, ...]) -> None:
        self._where = f"{where}: merge"
        self._columns = [*keys, WINDOW_START, WINDOW_END]
        self._merged = rewindow(where, window, keys)

    def merged(self, rows: KeyRows) -> MergedRows:
        """Return the rows with the windows that theirs are merged into.

        Raises:
            InputError: the function fails, or returns something else than a window for each.
        """
        if not len(rows.diffs):
            return MergedRows(rows, np.zeros(0, np.int64), np.zeros(0, np.int64))
        rewritten = self._merged(rows)
        return MergedRows(rows, rewritten.starts, rewritten.ends)

    def check(self, moment: MergedRows) -> None:
        """Check that each window follows from its key, contains those merged into it, and that no two of a key start together.

        Raises:
            InputError: one does not.
        """
        rows = moment.rows
        self._merged.check(rows, Rewritten(np.arange(len(moment)), moment.starts, moment.ends, rows.diffs))
        own_starts, own_ends = bounds_of(rows)
        outside = np.flatnonzero((own_starts < moment.starts) | (own_ends > moment.ends))
        if len(outside):
            raise self._refused(
                moment,
                int(outside[0]),
                "which does not contain the row's own",
                "whether a row is too late follows from its own window: return windows that contain those that are merged"
                " into them, as evercurrent.merge_overlapping does",
            )
        owners = moment.rows.owners
        numbers, first = numbered(owners, moment.starts)
        others = np.flatnonzero(moment.ends != moment.ends[first][numbers])
        if len(others):
            other = int(first[numbers[others[0]]])
            raise self._refused(
                moment,
                int(others[0]),
                f"and another row of that key one to {shown(int(moment.ends[other]))} with the same start",
                "windows that close are identified by their key and start: merge the two, or start them at different instants",
            )

    def check_without(self, moment: MergedRows, is_closed: Mask) -> None:
        """Check that the windows of the remaining rows are the same once closed ones are gone. Cost: the keys that have some.

        Raises:
            InputError: one is not.
        """
        owners = moment.rows.owners
        has_closed = np.zeros(int(owners[-1]) + 1, np.bool_)
        has_closed[owners[is_closed]] = True
        left = np.flatnonzero(~is_closed & has_closed[owners])
        if not len(left):
            return
        alone = self.merged(moment.take(left))
        differs = np.flatnonzero((alone.starts != moment.starts[left]) | (alone.ends != moment.ends[left]))
        if len(differs):
            at = int(differs[0])
            start, end = (shown(int(bounds[at])) for bounds in (alone.starts, alone.ends))
            raise self._refused(
                moment,
                int(left[at]),
                f"and once the closed windows of that key are gone from {start} to {end}",
                "rows of closed windows are purged: return windows that do not depend on those that ended before them",
            )

    def refused_as_split(self, before: MergedRows, row: int) -> InputError:
        """Return the error that a row left its window, of which other rows stay together."""
        return self._refused(
            before,
            row,
            "and now another window than the other rows there",
            "discarding panes do not keep their rows, so that no window can be split: return windows that only become"
            " larger as rows come, use .accumulate('retracting')",
        )

    def _refused(self, moment: MergedRows, row: int, what: str, remedy: str) -> InputError:
        own = shown_row(moment.rows.payload.select(self._columns), row)
        start, end = (shown(int(bounds[row])) for bounds in (moment.starts, moment.ends))
        return InputError(
            f"{self._where}: the function gave the row {own} the window from {start} to {end}, {what}; nothing has"
            f" changed. With .lateness(...) {remedy}, {REMEDY}"
        )
