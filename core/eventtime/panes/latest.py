"""The last pane of each key and window, for panes that do not retract those before them."""

from __future__ import annotations

import numpy as np
import polars as pl

from ...data.clock import Now
from ...data.columns.grouping import group
from ...data.columns.kernels import Ints, Keys, Mask, gather, key_words, stack
from ...data.delta import Delta
from ...data.schema import DIFF
from ...data.tags import tagged
from ...state.channels import Finding
from ...state.lookup import KeyRows, all_rows
from ...state.operator_contract import Operator
from ...state.partitioning import KeyColumns
from ...state.protocol import State
from ...state.purge import entries_gone
from ...state.run import Layout, Run, empty_run, make_run
from ...state.spine import Spine
from ..triggers.firing import Firing, places_among
from .panes import PaneSpec, Withdrawn


@tagged("core.eventtime.latest:LatestPanes")
class LatestPanes(Operator):
    """Keeps the last pane of each window; for accumulating panes the result is that of retracting ones.

    A pane replaces the one before, and those of the windows that merged into its window. If a window has lost all its
    rows, its accumulating pane is retracted; a discarding one stays, as it is about rows that came and went.
    State: the last pane of every window that may emit another. A closed window is purged from it, and its last pane is
    never retracted. Cost: the windows that emit, close or merge.
    """

    emits_without_rows = True
    role = "last panes that are kept"
    is_replayable = False

    def __init__(
        self,
        schema: pl.Schema,
        spec: PaneSpec,
        firing: Finding[Firing],
        withdrawn: Finding[Withdrawn | None],
    ) -> None:
        self.schema = schema
        self._mode = spec.mode
        self._firing = firing
        self._withdrawn = withdrawn
        self.looks_at = (firing, withdrawn)
        self._keys = KeyColumns.of(spec.keys, spec.by)
        self.spine = Spine(Layout(schema, by_row=True), self._keys.route)
        self._nothing = Delta.empty(schema)

    @property
    def states(self) -> list[State]:
        """Return its states."""
        return [self.spine]

    def step(self, now: Now, *deltas: Delta) -> Delta:
        """Return minus the replaced panes, plus the new ones."""
        (delta,) = deltas
        firing = self._firing.value
        if not (len(delta) or len(firing.keys) or len(firing.closed) or firing.moves is not None):
            return self._nothing
        new_panes = self._keys.words_of(delta)
        replaced = self._replaced(firing, new_panes)
        own = all_rows(self.spine, replaced)
        entries = [(new_panes, delta.rows, delta.diffs), (replaced.take(own.owners), own.payload, -own.diffs)]
        out = [(own.payload, -own.diffs), (delta.rows, delta.diffs)]
        if firing.moves is not None and len(firing.moves.old):
            olds = group(firing.moves.old)
            moved = all_rows(self.spine, olds.keys)
            heirs = firing.moves.new.take(olds.first_entries[moved.owners])
            joined = places_among(heirs, replaced) >= 0
            entries.append((olds.keys.take(moved.owners), moved.payload, -moved.diffs))
            entries.append(_part(heirs, moved, ~joined))
            _, rows, diffs = _part(heirs, moved, joined)
            out.append((rows, -diffs))
        if (withdrawn := self._withdrawn.value) is not None:
            entries.append((withdrawn.keys, withdrawn.panes, -withdrawn.diffs))
            out.append((withdrawn.panes, -withdrawn.diffs))
        run = self._run([entry for entry in entries if len(entry[0])])
        closed = firing.closed
        self.spine.stage(run, entries_gone(self.spine, run, closed) if len(closed) else None)
        return Delta.of(stack([rows for rows, _ in out]), np.concatenate([diffs for _, diffs in out]))

    def _replaced(self, firing: Firing, new_panes: Keys) -> Keys:
        """Return the windows, ascending, that have another last pane now, or none."""
        if self._mode != "accumulating":
            return group(new_panes).keys
        emptied = firing.keys.take(np.flatnonzero(~firing.holds_rows))
        return group(Keys.concat([new_panes, emptied])).keys

    def _run(self, entries: list[tuple[Keys, pl.DataFrame, Ints]]) -> Run:
        if not entries:
            return empty_run(self.spine.layout)
        payload = stack([rows for _, rows, _ in entries])
        words, diffs = Keys.concat([keys for keys, _, _ in entries]), np.concatenate([n for *_, n in entries])
        rows = key_words(payload.get_columns(), payload.height)
        return make_run(self.spine.layout, words, payload, {DIFF: diffs}, rows)


def _part(keys: Keys, panes: KeyRows, mask: Mask) -> tuple[Keys, pl.DataFrame, Ints]:
    places = np.flatnonzero(mask)
    return keys.take(places), gather(panes.payload, places), panes.diffs[places]
