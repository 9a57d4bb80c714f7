"""Purging what belongs to keys that are over, in the epoch in which they are read for the last time."""

from __future__ import annotations

import numpy as np

from ..data.columns.grouping import group
from ..data.columns.kernels import Keys, expand, gather, stack
from ..data.schema import DIFF
from .run import Run, empty_run, make_run, run_of_groups
from .run_merge import words_of_parts
from .spine import Spine


def entries_gone(spine: Spine, delta: Run, keys: Keys) -> Run:
    """Return the run that purges these keys when it is added to a state of rows. Cost: their entries."""
    owners, payloads, entries, diffs = [], [], [], []
    for run in (*spine.runs, delta):
        positions, owner = expand(*run.find(keys))
        if len(positions):
            owners.append(owner)
            payloads.append(gather(run.payload, positions))
            entries.append((run, positions))
            diffs.append(-run.sums[DIFF][positions])
    if not owners:
        return empty_run(spine.layout)
    of, payload = keys.take(np.concatenate(owners)), stack(payloads)
    return make_run(
        spine.layout, of, payload, {DIFF: np.concatenate(diffs)}, words_of_parts(payload, entries)
    )


def sums_gone(spine: Spine, delta: Run, keys: Keys) -> Run:
    """Return the run that purges these ascending, distinct keys when it is added, with a delta, to a state of one entry per key."""
    matches = spine.matches(keys, delta)
    gone = {name: -column for name, column in matches.totals().items()}
    return run_of_groups(group(keys), matches.payload(spine.layout), gone)
