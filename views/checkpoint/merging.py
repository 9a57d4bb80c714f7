"""Runs of states are merged without the application, with the result that the application's own merges would have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import polars as pl

from evercurrent.core.data.schema import Order
from evercurrent.core.state.run import Layout
from evercurrent.core.state.run_columns import columns_of_run, run_of_columns
from evercurrent.core.state.run_merge import merge
from evercurrent.core.state.snapshot import PAYLOAD

from .commits import Commit, PieceRef, StateRecord
from .pieces import Pieces

MOST_MERGED = 1 << 28
"""The most bytes of runs that are merged at a time, as a state may be larger than memory."""

WASTED = "wasted"
"""Fact of a spine: the number of entries that were read in vain since all of its runs were merged."""

T = TypeVar("T")


def with_merged_runs(pieces: Pieces, commit: Commit) -> dict[str, StateRecord]:
    """Return the states of a commit with as few runs as possible; new runs are written, to be named by a commit.

    The files hold all that a merge needs except the order of a key's rows, which is in the plan's ``spines``. Other states
    stay as they are: those that are not spines, and all those of earlier versions. Cost: the
    states that have several runs, ``MOST_MERGED`` bytes at a time.

    Raises:
        CheckpointError: a file is missing or damaged, or is of another state; the store fails.
    """
    spines = commit.plan.get("spines", {})
    to_merge = [
        (name, runs)
        for name, record in commit.states.items()
        if _state_of(name) in spines
        for runs in _in_parts(sorted(record.pieces, key=_size), _size)
        if len(runs) > 1
    ]
    states = dict(commit.states)
    for part in _in_parts(to_merge, lambda each: sum(map(_size, each[1]))):
        merged = [_merged(pieces, runs, spines[_state_of(name)]) for name, runs in part]
        written = iter(pieces.write([run for run in merged if run.height]))
        for (name, runs), run in zip(part, merged, strict=True):
            states[name] = _instead(states[name], runs, [next(written)] if run.height else [])
    return states


def _state_of(name: str) -> str:
    return name.rpartition("/")[0]


def _size(ref: PieceRef) -> int:
    return ref.size


def _in_parts(items: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield the items in their order, in parts of a bounded size; an item that is too large is a part of its own."""
    part: list[T] = []
    total = 0
    for item in items:
        if part and total + size(item) > MOST_MERGED:
            yield part
            part, total = [], 0
        part.append(item)
        total += size(item)
    if part:
        yield part


def _merged(
    pieces: Pieces, runs: Sequence[PieceRef], sorted_by: Sequence[Sequence[Any]] | None
) -> pl.DataFrame:
    frames = [pieces.read(ref) for ref in runs]
    payload = {
        name.removeprefix(PAYLOAD): dtype
        for name, dtype in frames[0].schema.items()
        if name.startswith(PAYLOAD)
    }
    order = tuple(Order(*column) for column in sorted_by or ())
    layout = Layout(pl.Schema(payload), by_row=sorted_by is not None, order=order)
    return columns_of_run(merge(layout, [run_of_columns(layout, frame) for frame in frames]))


def _instead(record: StateRecord, merged: Sequence[PieceRef], by: Sequence[PieceRef]) -> StateRecord:
    """Return the record with one run, or none, in place of several; larger runs come before smaller ones, as after merges."""
    left = [*(ref for ref in record.pieces if ref not in merged), *by]
    facts = {**record.facts, WASTED: 0} if len(left) < 2 and WASTED in record.facts else record.facts
    return replace(record, pieces=tuple(sorted(left, key=lambda ref: -ref.rows)), facts=facts)
