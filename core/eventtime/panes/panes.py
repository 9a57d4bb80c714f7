"""Panes: what a window emits when its trigger fires, and what it retracts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from ...data.clock import END_OF_TIME, START_OF_TIME, Clock, Now
from ...data.columns.comparisons import differ
from ...data.columns.grouping import group
from ...data.columns.kernels import (
    Index,
    Ints,
    Keys,
    Mask,
    at,
    frame_of,
    gather,
    key_words,
    physical,
    stack,
)
from ...data.delta import Delta
from ...data.schema import DIFF
from ...data.tags import tagged
from ...state.channels import Finding, Lookup
from ...state.lookup import all_rows
from ...state.operator_contract import Operator
from ...state.partitioning import KeyColumns
from ...state.protocol import State
from ...state.run import Layout, make_run, run_of_groups
from ...state.spine import Spine
from ..triggers.firing import EARLY, NO_KEYS, ON_TIME, Firing, places_among

Mode = Literal["discarding", "accumulating", "retracting"]

Always = bool | Literal["on_time"]
"""Whether panes that have not changed are emitted: all, none, or those on time."""

TIMINGS = ("EARLY", "ON_TIME", "LATE")

PANE_INFO = pl.Schema(
    {
        "pane_index": pl.Int64(),
        "nonspeculative_index": pl.Int64(),
        "timing": pl.String(),
        "is_first": pl.Boolean(),
        "is_last": pl.Boolean(),
        "pane_processing_time": pl.Datetime("us", "UTC"),
        "pane_watermark": pl.Datetime("us", "UTC"),
    }
)
"""The columns of pane information."""

PANES, ON_TIME_PANES, BOUND, EMPTIED = "panes", "on time", "end", "emptied"
"""The counters of a window: its panes, those that are not early, the end for which they were counted, and whether it has lost all
its rows while its trigger awaits a signal."""


GroupLookup = Lookup[[Keys, Mask | None], tuple[Mask, pl.DataFrame]]
"""Returns which of some ascending, distinct groups exist now or are in the mask, and their rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Withdrawn:
    """Accumulating panes that are no longer the last ones of their windows, although these emit no other: one beside them stands.

    ``keys`` are the windows that they are part of now, and ``diffs`` how often each was emitted.
    """

    keys: Keys
    panes: pl.DataFrame
    diffs: Ints


@dataclass(frozen=True, slots=True)
class PaneSpec:
    """How panes of a window relate, and which columns are added to them.

    ``keys`` are the columns that identify a (key, window), ``by`` the first of them if only these determine its bucket,
    ``window_end`` the column of ends if it is not among them. ``stamp`` names the column into which the watermark is
    written, ``dated`` the one of event time from the rows: a pane without rows has that of its window's end. If it ``awaits``
    signals, the keys of windows that have discarded or lost all their rows are kept, since a signal may come after that.
    """

    mode: Mode
    keys: tuple[str, ...]
    always: Always = False
    info: bool = False
    by: tuple[str, ...] | None = None
    window_end: str | None = None
    stamp: str | None = None
    dated: str | None = None
    awaits: bool = False


@tagged("core.eventtime.panes:Panes")
class Panes(Operator):
    """Emit the panes of the windows that fire.

    Discarding: the row of the changes since the last pane. Accumulating: the row as it is now. Retracting: the row as it
    is now, and minus every row that it replaces: the last pane of the window, and those of all windows that merged into it.
    A row that has not changed is not emitted again, unless ``always``, or with "on_time" in the pane on time.
    State: the last pane of every open window, by window; none for discarding panes, or for accumulating ones that ``always``
    emit.
    Cost: the windows that fire, close or merge.
    """

    emits_without_rows = True
    awaits_clocks = True
    role = "last panes"
    other_roles = ("counts of panes",)
    is_replayable = False

    def __init__(
        self,
        rows: pl.Schema,
        schema: pl.Schema,
        spec: PaneSpec,
        firing: Finding[Firing],
        groups: GroupLookup,
        clock: Clock,
    ) -> None:
        self.schema = schema
        self._rows = rows
        self.spec = spec
        self._firing = firing
        self._groups = groups
        self.looks_at = (firing, groups)
        self.withdrawn = Finding[Withdrawn | None]("withdrawn panes", None)
        self.gives = (self.withdrawn,)
        self._clock = clock
        self.clocks = (clock,)
        route = KeyColumns.of(spec.keys, spec.by).route
        self.emitted = Spine(Layout(schema, by_row=True), route)
        self.counts = Spine(Layout(pl.Schema({key: rows[key] for key in spec.keys})), route)
        self._nothing = Delta.empty(schema)
        # A session may be kept under its words and have had another start when it last emitted.
        fixed = spec.keys if spec.window_end is None else spec.keys[:-1]
        self._compared = [name for name in rows if name not in fixed]
        self._is_counted = spec.info or bool(spec.always) or (spec.awaits and spec.mode == "discarding")
        # If nothing is retracted and nothing is left out, earlier panes do not matter.
        self._is_log = spec.mode == "discarding" or (spec.mode == "accumulating" and spec.always is True)

    @property
    def states(self) -> list[State]:
        """Return its states."""
        return [self.emitted, self.counts]

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the panes of the windows that fire in this epoch."""
        firing = self._firing.value
        if not (len(firing.keys) or len(firing.over) or len(firing.emptied) or firing.moves is not None):
            return self._nothing
        is_log = self._is_log
        again = self._emits_again(firing)
        # A window that holds rows emits, even if no rows came since the last time.
        even = None if again is None or self.spec.mode != "discarding" else firing.holds_rows & again
        exists, rows = self._groups(firing.keys, even)
        if even is not None:
            rows = self._dated(self._with_stored_names(firing.keys.take(np.flatnonzero(exists)), rows))
        emits, last = exists, None if is_log else self._last_panes(firing)
        if last is not None and len(last.diffs):
            last.stand(self._equal(exists if again is None else exists & ~again, exists, rows, last))
            emits = exists & ~last.has_standing(len(firing.keys))
        # The place of each emitting window among the rows of all windows that exist.
        place = np.cumsum(exists) - 1
        new = gather(rows, place[emits])
        panes = self._written(now, firing, np.flatnonzero(emits), new)
        if last is None:
            return Delta.of(panes, np.ones(panes.height, np.int64)) if panes.height else self._nothing
        return self._change(firing, emits, last, panes)

    def _emits_again(self, firing: Firing) -> Mask | None:
        """Return which firing windows emit a row that has not changed; None: none of them do."""
        if self.spec.always == "on_time":
            on_time: Mask = firing.timing == ON_TIME
            return on_time
        return np.ones(len(firing.keys), np.bool_) if self.spec.always else None

    # Earlier panes

    def _last_panes(self, firing: Firing) -> _LastPanes:
        """Return the last panes of the windows that fire, of those that merged into others, and of those that end without firing.

        They are read at once.
        """
        moves, quiet = firing.moves, _quiet_ends(firing)
        olds = group(NO_KEYS if moves is None else moves.old)
        windows = Keys.concat([firing.keys, olds.keys, quiet])
        read = all_rows(self.emitted, windows)
        ends = np.cumsum([len(firing.keys), len(olds)])
        own, merged = read.owners.searchsorted(ends).tolist()
        keys = of = windows.take(read.owners[:merged])
        places = read.owners[:merged]
        if moves is not None and own < merged:
            heirs = moves.new.take(olds.first_entries[read.owners[own:merged] - len(firing.keys)])
            of = Keys.concat([keys.cut(0, own), heirs])
            places = np.concatenate([places[:own], places_among(heirs, firing.keys)])
        stands = np.zeros(merged, np.bool_)
        ended = windows.take(read.owners[merged:]), read.payload.slice(merged), read.diffs[merged:]
        return _LastPanes(
            keys, of, places, read.payload.head(merged), read.diffs[:merged], stands, own, ended
        )

    def _equal(self, compares: Mask, exists: Mask, rows: pl.DataFrame, last: _LastPanes) -> Mask:
        """Return which last panes equal the row that their window has now, among the windows that are to be compared."""
        equal: Mask = last.places >= 0
        equal[equal] = compares[last.places[equal]]
        place = np.cumsum(exists) - 1
        for name in self._compared:
            if not len(among := np.flatnonzero(equal)):
                break
            before, now = last.payload.get_column(name), rows.get_column(name)
            equal[among] = ~differ(at(before, among), at(now, place[last.places[among]]))
        return equal

    # New panes

    def _written(self, now: Now, firing: Firing, places: Index, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows as panes, with the watermark and the pane information if they are declared."""
        columns = rows.get_columns()
        if self.spec.stamp is not None:
            columns.append(self._stamp(self.spec.stamp, rows))
        if self._is_counted:
            counted = self._counted(firing, places, rows)
            if self.spec.info:
                columns += self._info(now, firing, places, counted)
        elif len(firing.emptied) or (self.spec.awaits and len(firing.over)):
            self._counted(firing, places[:0], rows.head(0))
        return frame_of(columns)

    def _stamp(self, name: str, rows: pl.DataFrame) -> pl.Series:
        """Return the watermark; if it is not a time, the end of the window less a microsecond."""
        watermark, dtype = self._clock.now, self.schema[name]
        if START_OF_TIME < watermark < END_OF_TIME or "window_end" not in rows.columns:
            return _instants(name, [watermark], rows.height, dtype)
        return pl.Series(name, physical(rows.get_column("window_end")) - 1).cast(dtype)

    def _info(self, now: Now, firing: Firing, places: Index, counted: Mapping[str, Ints]) -> list[pl.Series]:
        timing = firing.timing[places]
        index, on_time = counted[PANES], counted[ON_TIME_PANES]
        names = pl.Series(TIMINGS, dtype=pl.String)
        utc = PANE_INFO["pane_watermark"]
        return [
            pl.Series("pane_index", index),
            pl.Series("nonspeculative_index", np.where(timing == EARLY, on_time - 1, on_time)),
            names.gather(pl.Series(timing, dtype=pl.UInt32)).alias("timing"),
            pl.Series("is_first", index == 0),
            pl.Series("is_last", firing.is_last[places]),
            _instants("pane_processing_time", [now.instant], len(places), utc),
            _instants("pane_watermark", [self._clock.now], len(places), utc),
        ]

    def _counted(self, firing: Firing, places: Index, rows: pl.DataFrame) -> dict[str, Ints]:
        """Return how many panes the emitting windows had before, with these bounds, and count the new ones."""
        moves = firing.moves
        gone = [firing.over] if moves is None else [firing.over, moves.old]
        keys = group(Keys.concat([firing.keys, *gone, firing.emptied])).keys
        before = self.counts.totals(keys)
        nothing = np.zeros(len(keys), np.int64)
        after = {name: before.get(name, nothing).copy() for name in (PANES, ON_TIME_PANES, BOUND, EMPTIED)}
        emitting = places_among(firing.keys.take(places), keys)
        ends = nothing[: len(emitting)]
        if self.spec.window_end is not None:
            ends = physical(rows.get_column(self.spec.window_end))
        other = emitting[after[BOUND][emitting] != ends]
        after[PANES][other] = after[ON_TIME_PANES][other] = 0
        counted = {name: after[name][emitting] for name in (PANES, ON_TIME_PANES)}
        after[BOUND][emitting] = ends
        after[PANES][emitting] += 1
        after[ON_TIME_PANES][emitting] += firing.timing[places] != EARLY
        emptied = places_among(firing.emptied, keys)
        after[EMPTIED][emptied] = 1
        for over in gone:
            ended = places_among(over, keys)
            for column in after.values():
                column[ended] = 0
        names = self._names(keys, [(emitting, rows), (emptied, firing.names)])
        change = {name: column - before.get(name, nothing) for name, column in after.items()}
        self.counts.stage(run_of_groups(group(keys), names, change))
        return counted

    def _names(self, keys: Keys, fresh: Sequence[tuple[Index, pl.DataFrame]]) -> pl.DataFrame:
        """Return the key columns of windows: those that are stored, or fresh ones of the windows at these places."""
        stored = self.counts.matches(keys, self.counts.delta).payload(self.counts.layout)
        parts, place = [stored], np.arange(len(keys))
        for places, rows in fresh:
            if len(places):
                place[places] = sum(part.height for part in parts) + np.arange(len(places))
                parts.append(frame_of([rows.get_column(name) for name in self.spec.keys]))
        return gather(stack(parts), place) if self.spec.keys else parts[0]

    def _dated(self, rows: pl.DataFrame) -> pl.DataFrame:
        name = self.spec.dated
        if name is None or "window_end" not in rows.columns:
            return rows
        return rows.with_columns(pl.col(name).fill_null(pl.col("window_end") - pl.duration(microseconds=1)))

    def _with_stored_names(self, keys: Keys, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows, with the key columns of windows that have emitted and that the grouping has purged."""
        names = [rows.get_column(name) for name in self.spec.keys]
        if not names:
            return rows
        is_counted, stored = self.counted_names(keys)
        place = np.arange(len(keys)) + np.where(is_counted, 0, len(keys))
        return rows.with_columns(gather(stack([stored, pl.DataFrame(names)]), place).get_columns())

    def counted_names(self, keys: Keys) -> tuple[Mask, pl.DataFrame]:
        """Return which of these ascending, distinct windows have panes that are counted, and their key columns, else nulls."""
        return self._named_by(PANES, keys)

    def emptied_names(self, keys: Keys) -> tuple[Mask, pl.DataFrame]:
        """Return which of these windows are kept as ones that have lost all their rows, and their key columns, else nulls."""
        return self._named_by(EMPTIED, keys)

    def _named_by(self, column: str, keys: Keys) -> tuple[Mask, pl.DataFrame]:
        counted = self.counts.totals(keys).get(column, np.zeros(len(keys), np.int64)) > 0
        return counted, self.counts.matches(keys, self.counts.delta).payload(self.counts.layout)

    def _change(self, firing: Firing, emits: Mask, last: _LastPanes, panes: pl.DataFrame) -> Delta:
        """Return minus the replaced panes, plus the new ones; stage the same for windows that stay open."""
        self._keep(firing, emits, last, panes)
        new = np.ones(panes.height, np.int64)
        replaced = np.where(last.places >= 0, last.diffs - last.stands, 0)
        entries = np.flatnonzero(replaced)
        if self.spec.mode == "accumulating":
            beside = entries[last.has_standing(len(firing.keys))[last.places[entries]]]
            if len(beside):
                withdrawn = last.of.take(beside), gather(last.payload, beside), replaced[beside]
                self.withdrawn.set(Withdrawn(*withdrawn))
            return Delta.of(panes, new) if panes.height else self._nothing
        parts = [gather(last.payload, entries), panes]
        out = Delta.of(stack(parts), np.concatenate([-replaced[entries], new]))
        return out if len(out) else self._nothing

    def _keep(self, firing: Firing, emits: Mask, last: _LastPanes, panes: pl.DataFrame) -> None:
        """Stage the last panes by window, and none for a window that is over."""
        fires = last.places >= 0
        stays = np.where(fires, last.stands, last.diffs)
        stays[fires] *= ~firing.is_over[last.places[fires]]
        changes = stays != last.diffs
        changes[last.own :] = True
        old, new = np.flatnonzero(changes), np.flatnonzero(changes & (stays != 0))
        open_still = np.flatnonzero(~firing.is_over[emits])
        entries = [
            (last.keys.take(old), gather(last.payload, old), -last.diffs[old]),
            (last.of.take(new), gather(last.payload, new), stays[new]),
            (
                firing.keys.take(np.flatnonzero(emits)[open_still]),
                gather(panes, open_still),
                np.ones(len(open_still), np.int64),
            ),
        ]
        keys, rows, diffs = last.quiet
        entries.append((keys, rows, -diffs))
        entries = [entry for entry in entries if len(entry[0])]
        if not entries:
            return
        payload = stack([rows for _, rows, _ in entries])
        words = Keys.concat([keys for keys, _, _ in entries])
        diffs = np.concatenate([diffs for _, _, diffs in entries])
        row_words = key_words(payload.get_columns(), payload.height)
        self.emitted.stage(make_run(self.emitted.layout, words, payload, {DIFF: diffs}, row_words))


Entries = tuple[Keys, pl.DataFrame, Ints]
"""Windows, each with a pane and its diff."""


@dataclass(slots=True, eq=False)
class _LastPanes:
    """The last panes of firing windows, and of windows that moved.

    ``keys`` are the windows under which they are kept, ``of`` those that they are part of now, and ``places`` the places of the
    latter among the firing ones, -1 if they do not fire. The first ``own`` are of windows that have not moved. A pane that
    ``stands`` is equal to what its window would emit, and is not replaced. ``quiet`` are the last panes of windows that are over
    without firing.
    """

    keys: Keys
    of: Keys
    places: Index
    payload: pl.DataFrame
    diffs: Ints
    stands: Mask
    own: int
    quiet: Entries

    def stand(self, equal: Mask) -> None:
        """Let the first of the equal panes of each window stand: a session that has moved and moved back may have others."""
        entries = np.flatnonzero(equal)
        _, firsts = np.unique(self.places[entries], return_index=True)
        self.stands[entries[firsts]] = True

    def has_standing(self, windows: int) -> Mask:
        """Return which of the firing windows have a pane that stands."""
        standing = np.zeros(windows, np.bool_)
        standing[self.places[self.stands]] = True
        return standing


def _quiet_ends(firing: Firing) -> Keys:
    """Return the windows that are over without firing."""
    places = places_among(firing.over, firing.keys)
    return firing.over.take(np.flatnonzero(places < 0))


def _instants(name: str, instants: list[int], height: int, dtype: pl.DataType) -> pl.Series:
    """Return a column with one instant in every row; null if it is not an instant."""
    values = [None if instant in (START_OF_TIME, END_OF_TIME) else instant for instant in instants]
    return pl.Series(name, values, pl.Int64).cast(dtype).new_from_index(0, height).alias(name)
