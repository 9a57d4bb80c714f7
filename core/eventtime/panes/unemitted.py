"""Rows that have not been emitted yet, by window, from which discarding panes of merging windows are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ...data.clock import Now
from ...data.columns.grouping import group
from ...data.columns.kernels import Index, Keys, frame_of, gather, key_words, physical, stack
from ...data.delta import Delta
from ...data.schema import DIFF
from ...data.tags import tagged
from ...state.channels import Finding
from ...state.lookup import all_rows
from ...state.operator_contract import Operator
from ...state.partitioning import WORDS, KeyColumns, Route
from ...state.protocol import State
from ...state.purge import entries_gone
from ...state.run import Layout, make_run
from ...state.snapshot import KEY, SECOND, Saved
from ...state.spine import Spine
from ...state.staged import StagedValue
from ..triggers.firing import NO_KEYS, Firing, Merging, places_among


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class _Windows:
    """A piece: the words of some windows, ascending."""

    keys: Keys


class EmittedWindows(StagedValue[_Windows]):
    """The windows that emitted in the epoch before: their rows are no longer pending.

    It is not a spine, as nothing accumulates: each epoch replaces it as a whole.
    """

    def __init__(self, route: Route | None = WORDS) -> None:
        super().__init__(_Windows(NO_KEYS), route)

    @property
    def keys(self) -> Keys:
        """Return the words of these windows, ascending."""
        return self._committed.keys

    def stage(self, keys: Keys) -> None:
        """Stage these windows, in place of the earlier ones."""
        self._staged = _Windows(keys)

    @property
    def entries(self) -> int:
        """Return the number of these windows."""
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """Return bytes held."""
        return self.keys.nbytes

    def saved(self) -> Saved:
        """See ``State``: one piece, or none."""
        windows = self._latest
        return Saved((windows,) if len(windows.keys) else (), {})

    def restore(self, saved: Saved) -> None:
        """See ``State``. Several pieces, such as those of several buckets, are merged."""
        self._committed, self._staged = _Windows(NO_KEYS), None
        if len(saved.pieces) == 1:
            (self._committed,) = saved.pieces
        elif saved.pieces:
            self._committed = _Windows(group(Keys.concat([piece.keys for piece in saved.pieces])).keys)

    def columns_of(self, piece: _Windows) -> pl.DataFrame:
        """See ``State``."""
        return pl.DataFrame(dict(zip((KEY, SECOND), piece.keys.words(), strict=False)))

    def piece_of(self, columns: pl.DataFrame) -> _Windows:
        """See ``State``."""
        words = [columns.get_column(name).to_numpy() for name in (KEY, SECOND) if name in columns.columns]
        return _Windows(Keys(*words))


@tagged("core.eventtime.pending:PendingRows")
class PendingRows(Operator):
    """The rows of each session that came since it last emitted.

    When sessions become one, so do their pending rows. Emitted rows are retracted in the next epoch, since the panes of this
    epoch are still made of them. Rows of a session that closes are purged, and nothing is emitted for that. Input: rows
    with the start of their session, those that came in this epoch first, and no retractions. ``keys`` are the columns that
    identify a session, of which the first, ``by``, determine its bucket.
    Cost: the delta, the pending rows of sessions that emitted or merged.
    """

    emits_without_rows = True
    role = "rows not emitted yet"
    other_roles = ("windows that emitted last",)
    is_replayable = False

    def __init__(
        self,
        schema: pl.Schema,
        keys: Sequence[str],
        start: str,
        firing: Finding[Firing],
        merging: Finding[Merging],
        by: Sequence[str] | None = None,
    ) -> None:
        self.schema = schema
        self._key_columns = KeyColumns.of(keys, by)
        self.spine = Spine(Layout(schema, by_row=True), self._key_columns.route)
        self.emitted = EmittedWindows(self._key_columns.route)
        self._start = start
        self._firing = firing
        self._merging = merging
        self.looks_at = (firing, merging)
        self._nothing = Delta.empty(schema)

    @property
    def states(self) -> list[State]:
        """Return its states."""
        return [self.spine, self.emitted]

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return the change of the pending rows."""
        (delta,) = deltas
        firing = self._firing.value
        arrived = Delta(delta.frame.head(self._merging.value.arrivals))
        parts = [arrived] if len(arrived) else []
        if len(self.emitted.keys):
            emitted_rows = all_rows(self.spine, self.emitted.keys)
            parts.append(Delta.of(emitted_rows.payload, -emitted_rows.diffs))
        if firing.moves is not None and len(firing.moves.old):
            parts.append(self._moved(delta, firing.moves.old, firing.moves.new))
        self._stage(parts, firing.closed)
        open_still = places_among(firing.keys, firing.closed) < 0
        self.emitted.stage(firing.keys.take(np.flatnonzero(open_still)))
        return Delta(stack([part.frame for part in parts])) if parts else self._nothing

    def _moved(self, delta: Delta, old: Keys, new: Keys) -> Delta:
        """Return the pending rows of sessions that merged into others: minus as they were, plus as they are."""
        olds = group(old)
        pending = all_rows(self.spine, olds.keys)
        own = places_among(olds.keys, self.emitted.keys)[pending.owners] < 0
        rows, diffs = gather(pending.payload, np.flatnonzero(own)), pending.diffs[own]
        owners = olds.first_entries[pending.owners[own]]
        starts = self._starts(delta, new)[owners]
        column = rows.get_column(self._start)
        moved = pl.Series(self._start, starts).cast(column.dtype)
        after = frame_of([moved if one.name == self._start else one for one in rows.get_columns()])
        return Delta.of(stack([rows, after]), np.concatenate([-diffs, diffs]))

    def _starts(self, delta: Delta, keys: Keys) -> Index:
        """Return the starts of these sessions, each of which has rows in this epoch."""
        groups = group(self._key_columns.words_of(delta))
        starts = physical(delta.frame.get_column(self._start))[groups.first_entries]
        return starts[places_among(keys, groups.keys)]

    def _stage(self, parts: Sequence[Delta], closed: Keys) -> None:
        layout = self.spine.layout
        frame = stack([part.frame for part in parts]) if parts else self._nothing.frame
        payload = frame_of(frame.get_columns()[:-1])
        words = self._key_columns.words(frame)
        rows = key_words(payload.get_columns(), frame.height)
        run = make_run(layout, words, payload, {DIFF: frame.get_column(DIFF).to_numpy()}, rows)
        self.spine.stage(run, entries_gone(self.spine, run, closed) if len(closed) else None)
