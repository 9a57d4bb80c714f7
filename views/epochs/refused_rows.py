"""The ledger of refused rows as frames."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from evercurrent.core.data.columns.json_texts import json_rows
from evercurrent.core.data.columns.kernels import Index, gather
from evercurrent.core.data.errors import InputError
from evercurrent.core.data.instants import time_of
from evercurrent.core.data.schema import DIFF, EPOCH
from evercurrent.core.state.ledger import MISSED, Refused

from ..plan.nodes import BOUNDS

LEDGER_ROWS = 1_000_000
"""How many refused rows are kept; ``explain`` shows how many had to go."""

TIME = pl.Datetime("us", "UTC")

YEARS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""The first and the last microsecond of the years 1 to 9999."""

LEDGER_SCHEMA = pl.Schema(
    {
        EPOCH: pl.UInt64(),
        "source": pl.String(),
        "reason": pl.String(),
        "window_start": TIME,
        "window_end": TIME,
        "watermark": TIME,
        DIFF: pl.Int64(),
        "row": pl.String(),
    }
)
"""A row is JSON as ``core.json_texts`` writes it. Bounds and watermark are those of rows that came too late; null for
others, and if the watermark has no instant."""


def ledger_frame(refused: Iterable[Refused], *, each_window: bool = False) -> pl.DataFrame:
    """Return all refused rows, each as JSON, in the order of their refusals. Cost: the rows, and little for each refusal.

    A row that missed some of its windows is returned for each of these. One that missed all of them is returned once,
    with its last window, or with ``each_window`` for each of them.
    """
    parts = (_by_window(of, frame, each_window) for of, frame in _alike(refused))
    return _in_order(LEDGER_SCHEMA, [(of, _as_json(of, frame)) for of, frame in parts])


def source_ledger_frame(
    refused: Iterable[Refused], source: str, schema: pl.Schema, *, each_window: bool = False
) -> pl.DataFrame:
    """Return the refused rows of one source, with its columns: they can be corrected and pushed again.

    Rows that missed some of their windows and are in others are left out: pushed again, they would count twice there.

    Raises:
        InputError: ``each_window`` is given, so a row would be pushed once for each of its windows.
    """
    if each_window:
        raise InputError(
            f"ledger of source {source!r}: each_window= would give a row once for each window that it missed, and this frame "
            "is to be pushed again; use ledger(each_window=True), without a source"
        )
    reason = "reason"
    while reason in schema:
        reason = f"_{reason}"
    columns = pl.Schema({EPOCH: pl.UInt64(), reason: pl.String(), **schema, DIFF: pl.Int64()})
    lost = (entry for entry in refused if entry.source == source and not entry.elsewhere)
    return _in_order(
        columns,
        [
            (
                of,
                _described(of)
                .select(EPOCH, pl.col("reason").alias(reason))
                .hstack(frame.select(*schema, DIFF)),
            )
            for of, frame in _alike(lost)
            if schema.items() <= frame.schema.items()
        ],
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Alike:
    """Refusals of one source and kind with the same columns; ``at`` has, for each row, the refusal that it belongs to."""

    entries: list[Refused]
    places: Index
    at: Index


def _alike(refused: Iterable[Refused]) -> Iterator[tuple[_Alike, pl.DataFrame]]:
    """Gather refusals of the same source, kind and columns."""
    groups: dict[Hashable, list[tuple[int, Refused]]] = {}
    for place, entry in enumerate(refused):
        kind = (entry.source, entry.watermark is not None, entry.elsewhere, *entry.frame.schema.items())
        groups.setdefault(kind, []).append((place, entry))
    for group in groups.values():
        entries = [entry for _, entry in group]
        at = np.repeat(np.arange(len(group)), [entry.frame.height for entry in entries])
        alike = _Alike(entries, np.array([place for place, _ in group])[at], at)
        yield alike, pl.concat([entry.frame for entry in entries])


def _by_window(of: _Alike, frame: pl.DataFrame, each_window: bool) -> tuple[_Alike, pl.DataFrame]:
    """Return rows that may have missed several windows, with the bounds of each of these."""
    if MISSED not in frame.columns or not (each_window or of.entries[0].elsewhere):
        return of, frame
    counts = frame.get_column(MISSED).list.len().to_numpy()
    rows = frame.explode(MISSED, empty_as_null=False)
    bounds = rows.get_column(MISSED).struct.unnest().get_columns()
    return _Alike(of.entries, np.repeat(of.places, counts), np.repeat(of.at, counts)), rows.with_columns(
        bounds
    )


def _described(of: _Alike) -> pl.DataFrame:
    """Return the columns that describe a refusal, for each of its rows."""
    watermarks = [None if entry.watermark is None else time_of(entry.watermark) for entry in of.entries]
    reasons = pl.DataFrame(
        {
            EPOCH: pl.Series([entry.epoch for entry in of.entries], dtype=pl.UInt64),
            "source": pl.Series([entry.source for entry in of.entries], dtype=pl.String),
            "reason": pl.Series([entry.reason for entry in of.entries], dtype=pl.String),
            "watermark": pl.Series(watermarks, dtype=TIME),
        }
    )
    return gather(reasons, of.at)


def _as_json(of: _Alike, frame: pl.DataFrame) -> pl.DataFrame:
    is_late = of.entries[0].watermark is not None
    missed = (*BOUNDS, MISSED) if is_late else ()
    own = [name for name in frame.columns if name != DIFF and name not in missed]
    bounds = [_bound(frame, name, is_late) for name in BOUNDS]
    rows = frame.select(*bounds, DIFF).with_columns(json_rows(frame.select(own)))
    return _described(of).hstack(rows).select(*LEDGER_SCHEMA)


def _in_order(schema: pl.Schema, parts: Sequence[tuple[_Alike, pl.DataFrame]]) -> pl.DataFrame:
    """Return the rows of all parts, in the order of their refusals."""
    if not parts:
        return schema.to_frame()
    order = np.argsort(np.concatenate([of.places for of, _ in parts]), kind="stable")
    return gather(pl.concat([frame for _, frame in parts]), order)


def _bound(frame: pl.DataFrame, name: str, is_late: bool) -> pl.Expr:
    if not is_late or name not in frame.columns:
        return pl.lit(None, TIME).alias(name)
    instant = pl.col(name).to_physical().cast(pl.Int64)
    return pl.when(instant.is_between(*YEARS)).then(instant).cast(TIME).alias(name)
