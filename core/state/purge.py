"""Purging what belongs to keys that are over, in the epoch in which they are read for the last time."""

from __future__ import annotations

import numpy as np
import polars as pl

from ..columns.grouping import group
from ..columns.kernels import Keys, expand, gather, stack
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


def sums_gone(spine: Spine, delta: Run, keys: Keys, payload: pl.DataFrame) -> Run:
    """Return the run that purges these keys, whose payload is given, when added to a state of one entry per key."""
    groups = group(keys)
    totals = spine.totals(keys)
    hit, position = delta.match(keys) if len(delta) else (np.zeros(0, np.intp), np.zeros(0, np.intp))
    for name, column in delta.sums.items():
        total = totals.setdefault(name, np.zeros(len(keys), np.int64))
        total[hit] += column[position]
    return run_of_groups(groups, payload, {name: -column for name, column in totals.items()})


def payload_of(spine: Spine, delta: Run, keys: Keys) -> pl.DataFrame:
    """Return the payload of these ascending, distinct keys in a state of one entry per key.

    Where several runs have an entry of a key, any of them will do. A key that has none gets nulls.
    """
    positions = np.full(len(keys), -1)
    parts, height = [], 0
    for run in (*spine.runs, delta):
        if not len(run):
            continue
        hit, position = run.match(keys)
        if len(hit):
            positions[hit] = height + np.arange(len(hit))
            parts.append(gather(run.payload, position))
            height += len(hit)
    if height and (positions >= 0).all():
        return gather(stack(parts), positions)
    nulls = [pl.Series(name, [None], dtype) for name, dtype in spine.layout.payload.items()]
    return gather(stack([*parts, pl.DataFrame(nulls)]), np.where(positions < 0, height, positions))
