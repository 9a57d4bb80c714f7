"""The states of a checkpoint are split into another number of buckets without the application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from evercurrent.core.data.columns.key_hash import hashing_by
from evercurrent.core.data.errors import CheckpointError
from evercurrent.core.data.schema import listed
from evercurrent.core.eventtime.windows.holds import held_at_of, is_held, with_held_at
from evercurrent.core.state.partitioning import MOST_BUCKETS, Route, in_buckets

from ..store import Store
from .commits import Commit, StateRecord, new_writer, versions
from .log import CommitLog
from .pending import require_committed
from .pieces import Pieces
from .reader_offsets import read_note

TOGETHER = "together"
"""The fact of a commit whose states have the rows of each group together: an earlier version could group some apart in buckets."""


def has_together(commit: Commit) -> bool:
    """Return whether the states of a commit have the rows of each group together. Commits of earlier versions do not record it."""
    return bool(commit.facts.get(TOGETHER, commit.buckets == 1))


def rebucket(store: Store, buckets: int) -> Commit:
    """Split every state into ``buckets`` buckets and commit that, as an epoch in which nothing else happens.

    Nothing is written if the last commit has this number already. Earlier commits stay as they are. Cost: all states, one
    after the other, one of them in memory at a time.

    Raises:
        CheckpointError: there is no commit, the number of buckets is not valid, or a state has no route;
            a file is missing or damaged.
    """
    if not 1 <= buckets <= MOST_BUCKETS:
        raise CheckpointError(f"{buckets} buckets: give a number from 1 to {MOST_BUCKETS:,}")
    log, pieces = CommitLog(store), Pieces(store)
    last = to_go_on_from(log)
    require_committed(store, last, log.last_crc)
    if last.buckets == buckets:
        return last
    by_state = _by_state(last)
    _require_routes(store, by_state)
    states: dict[str, StateRecord] = {}
    for state, records in by_state.items():
        cut = _cut(pieces, records, buckets)
        states |= {f"{state}/{bucket}": record for bucket, record in enumerate(cut) if record is not None}
    facts = {**last.facts, TOGETHER: has_together(last)}
    commit = following(last, states=states, buckets=buckets, facts=facts)
    log.append(commit, whole=True)
    return commit


def moved(pieces: Pieces, last: Commit, routes: Mapping[str, Route]) -> dict[str, StateRecord]:
    """Return the states of a commit, by these rules of their states: what is kept by others goes to its buckets.

    A plan without another view, or with one, may be cut otherwise, so that the rows of a view meet by other columns. Cost: the
    states that are kept by other rules, which are written anew.
    """
    states = dict(last.states)
    for state, records in _by_state(last).items():
        route = routes.get(state)
        before = [record.route for record in records if record is not None and record.pieces]
        if route is None or None in before or all(each == route.as_json() for each in before):
            continue
        for bucket, record in enumerate(_cut(pieces, records, last.buckets, route.as_json())):
            states.pop(f"{state}/{bucket}", None)
            if record is not None:
                states[f"{state}/{bucket}"] = record
    return states


def to_go_on_from(log: CommitLog) -> Commit:
    """Return the last commit, with the offsets of its readers since then.

    Raises:
        CheckpointError: there is none.
    """
    last = log.last
    if last is None:
        raise CheckpointError(f"{log.store.url}: there is no checkpoint, or one without a commit")
    offsets = read_note(log.store, last.epoch)
    return last if offsets is None else replace(last, readers=offsets)


def following(last: Commit, **changed: Any) -> Commit:
    """Return a commit of the epoch after the last, without rows and without a change of time."""
    instant, watermarks = last.epochs[-1][1:] if last.epochs else (0, {})
    return replace(
        last,
        epoch=last.epoch + 1,
        deltas={},
        epochs=((last.epoch + 1, instant, watermarks),),
        writer=new_writer(),
        versions=versions(),
        **changed,
    )


def _by_state(commit: Commit) -> dict[str, list[StateRecord | None]]:
    """Return the records of each state, one per bucket."""
    records: dict[str, list[StateRecord | None]] = {}
    for name, record in commit.states.items():
        state, _, bucket = name.rpartition("/")
        records.setdefault(state, [None] * commit.buckets)[int(bucket)] = record
    return records


def _require_routes(store: Store, by_state: Mapping[str, Sequence[StateRecord | None]]) -> None:
    silent = [
        state
        for state, records in by_state.items()
        if any(record is not None and record.route is None and record.pieces for record in records)
    ]
    if silent:
        raise CheckpointError(
            f"{store.url}: state {listed(silent[:3])} does not record to which bucket its entries belong; begin a new "
            "checkpoint with this number of buckets and replay the input"
        )


def _cut(
    pieces: Pieces,
    records: Sequence[StateRecord | None],
    buckets: int,
    route: Mapping[str, Any] | None = None,
) -> Sequence[StateRecord | None]:
    """Return the records of a state in so many buckets, by this rule, or by the one that is recorded."""
    there = [record for record in records if record is not None]
    if any(is_held(record.facts) for record in there):
        return [_held(there)] * buckets
    route = route or next((record.route for record in there if record.route is not None), None)
    if route is None or route["kind"] == "one":
        return [records[0], *[None] * (buckets - 1)]
    saved = [([pieces.read(ref) for ref in record.pieces], record.facts) for record in there]
    with hashing_by(pieces.key_hash):
        cut = in_buckets(Route.from_json(route), saved, buckets)
    return _written(pieces, cut, route)


def _written(
    pieces: Pieces, cut: Sequence[tuple[list[pl.DataFrame], Mapping[str, Any]]], route: Mapping[str, Any]
) -> list[StateRecord | None]:
    refs = iter(pieces.write([frame for frames, _ in cut for frame in frames]))
    return [
        StateRecord(tuple(next(refs) for _ in frames), facts, route) if frames else None
        for frames, facts in cut
    ]


def _held(records: Sequence[StateRecord]) -> StateRecord:
    """Return the record of a held watermark for every bucket, as it is unknown to which bucket the holding windows go."""
    held_at = min(held_at_of(record.facts) for record in records)
    return replace(records[0], facts=with_held_at(records[0].facts, held_at))
