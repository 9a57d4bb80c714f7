"""Reading rows of some keys out of several runs at once: what stands there now, in order, and the first of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from .kernels import Index, Ints, Keys, expand, gather
from .run import Layout, Run, make_run
from .schema import DIFF

CUT = "cut"
"""Additive column: marks the last entry read of a run that has more of this key."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Rows found for some keys: the position of the key among those asked for, the row, and its diff.

    Rows of a key stand together, in the order of the layout; keys in the order in which they were asked for.
    """

    owners: Index
    payload: pl.DataFrame
    diffs: Ints


def all_rows(layout: Layout, runs: Sequence[Run], keys: Keys) -> Found:
    """All rows of these keys with positive diffs. Cost: the entries of these keys, sorted."""
    found = _read(layout, runs, keys, np.arange(len(keys)), None)
    diffs = found.sums.get(DIFF, np.zeros(len(found), np.int64))
    return _select(found, np.flatnonzero(diffs > 0), diffs)


def first_rows(layout: Layout, runs: Sequence[Run], keys: Keys, count: int) -> Found:
    """The first ``count`` rows of each of these keys, a row with diff n being n rows; the last may be cut.

    Of every run only the leading entries of a key are read, and more of them (four times as many) only while
    retractions leave too few: cost follows ``count`` and the retractions at the head, not the group.
    """
    pending, take, parts = np.arange(len(keys)), 2 * count + 2, []
    while len(pending):
        read = _read(layout, runs, keys, pending, take)
        part, pending = _settle(read, pending, len(keys), count)
        parts.append(part)
        take *= 4
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Found(np.zeros(0, np.intp), layout.payload.to_frame(), np.zeros(0, np.int64))
    owners = np.concatenate([part.owners for part in parts])
    order = np.argsort(owners, kind="stable")
    payload = gather(pl.concat([part.payload for part in parts]), order)
    return Found(owners[order], payload, np.concatenate([part.diffs for part in parts])[order])


def _read(layout: Layout, runs: Sequence[Run], keys: Keys, wanted: Index, take: int | None) -> Run:
    """The entries of the wanted keys as one run whose key is the number of the wanted key."""
    asked = keys.take(wanted)
    owners, payloads, rows, diffs, cuts = [], [], [], [], []
    for run in runs:
        lower, upper = run.find(asked)
        end = upper if take is None else np.minimum(upper, lower + take)
        positions, owner = expand(lower, end)
        if not len(positions):
            continue
        assert run.rows is not None, "rows are read from runs of rows"
        owners.append(wanted[owner])
        payloads.append(gather(run.payload, positions))
        rows.append(run.rows.take(positions))
        diffs.append(run.sums[DIFF][positions])
        cut = np.zeros(len(positions), np.int64)
        cut[(np.cumsum(end - lower) - 1)[end < upper]] = 1
        cuts.append(cut)
    if not owners:
        none = Keys(np.zeros(0, np.uint64))
        return Run(none, layout.payload.to_frame(), {}, none)
    numbered = Keys(np.concatenate(owners).astype(np.uint64))
    sums = {DIFF: np.concatenate(diffs), CUT: np.concatenate(cuts)}
    return make_run(layout, numbered, pl.concat(payloads), sums, Keys.concat(rows))


def _settle(read: Run, pending: Index, size: int, count: int) -> tuple[Found, Index]:
    """What is certain of the rows read, and which keys have to be read on.

    A row is certain if it does not stand behind an entry at which a run was cut: that run may hold entries
    that come in between, or that cancel it.
    """
    owners = read.keys.first.astype(np.intp)
    diffs = read.sums.get(DIFF, np.zeros(len(read), np.int64))
    frontier = np.full(size, len(read))
    if CUT in read.sums:
        cuts = np.flatnonzero(read.sums[CUT])[::-1]
        frontier[owners[cuts]] = cuts
    places = np.where(np.arange(len(read)) <= frontier[owners], np.maximum(diffs, 0), 0)
    running = np.cumsum(places)
    total = np.zeros(size, np.int64)
    np.add.at(total, owners, places)
    settled = (frontier == len(read)) | (total >= count)
    before = np.cumsum(total) - total
    kept = np.clip(count - (running - places - before[owners]), 0, places)
    found = _select(read, np.flatnonzero((kept > 0) & settled[owners]), kept)
    return found, pending[~settled[pending]]


def _select(read: Run, entries: Index, diffs: Ints) -> Found:
    return Found(read.keys.first[entries].astype(np.intp), gather(read.payload, entries), diffs[entries])
