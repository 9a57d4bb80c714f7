"""Sums of the additive columns of several runs: of some keys, or of all entries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..columns.kernels import FEW_VALUES, Ints, Keys
from .run import Run


def totals_in(runs: Sequence[Run], keys: Keys) -> tuple[dict[str, Ints], int]:
    """Return the additive columns of these ascending, distinct keys, zero where there is no entry, and how many entries are read."""
    totals: dict[str, Ints] = {}
    read = 0
    for run in runs:
        if not len(run):
            continue
        hit, position = run.match(keys)
        read += len(hit)
        for name, column in run.sums.items() if len(hit) else ():
            if len(hit) == len(keys):
                totals[name] = totals[name] + column[position] if name in totals else column[position]
                continue
            if name not in totals:
                totals[name] = np.zeros(len(keys), np.int64)
            totals[name][hit] += column[position]
    return totals, read


def add_totals(totals: dict[str, int], run: Run) -> None:
    """Add the sums of all entries of a run to totals, which are modulo 2^64."""
    for name, column in run.sums.items():
        added = sum(column.tolist()) if len(column) <= FEW_VALUES else int(column.sum())
        totals[name] = (totals.get(name, 0) + added) % 2**64
