"""Refused rows as frames."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from evercurrent.core.instants import time_of
from evercurrent.core.json_texts import json_rows
from evercurrent.core.kernels import Index, gather
from evercurrent.core.ledger import MISSED, Refused
from evercurrent.core.schema import DIFF, EPOCH

from .plan import BOUNDS

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
        "windows": pl.List(pl.Struct(dict.fromkeys(BOUNDS, TIME))),
    }
)
"""A row is JSON as ``core.json_texts`` writes it. Bounds and watermark are those of rows that came too late; null for
others, and where there is no such instant. ``windows`` are all that a row missed, ``window_start`` and ``window_end`` the
last of them."""


def ledger_frame(refused: Iterable[Refused]) -> pl.DataFrame:
    """All refused rows, each as JSON, in the order of their refusals. Cost: the rows, and little for each refusal."""
    return _in_order(LEDGER_SCHEMA, [(of, _as_json(of, frame)) for of, frame in _alike(refused)])


def source_ledger_frame(refused: Iterable[Refused], source: str, schema: pl.Schema) -> pl.DataFrame:
    """The refused rows of one source, with its columns: they can be mended and pushed again.

    Not those that missed some of their windows and are in others: pushed again, they would be there twice.
    """
    reason = "reason"
    while reason in schema:
        reason = f"_{reason}"
    columns = pl.Schema({EPOCH: pl.UInt64(), reason: pl.String(), **schema, DIFF: pl.Int64()})
    lost = (entry for entry in refused if entry.source == source and not entry.elsewhere)
    return _in_order(
        columns,
        [
            (of, _said(of).select(EPOCH, pl.col("reason").alias(reason)).hstack(frame.select(*schema, DIFF)))
            for of, frame in _alike(lost)
            if schema.items() <= frame.schema.items()
        ],
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Alike:
    """Refusals of a source and a kind that have the same columns; ``at`` has, for each of their rows, whose it is."""

    entries: list[Refused]
    places: Index
    at: Index


def _alike(refused: Iterable[Refused]) -> Iterator[tuple[_Alike, pl.DataFrame]]:
    """All refusals, by what they have in common, each with their rows."""
    groups: dict[Hashable, list[tuple[int, Refused]]] = {}
    for place, entry in enumerate(refused):
        kind = (entry.source, entry.watermark is not None, *entry.frame.schema.items())
        groups.setdefault(kind, []).append((place, entry))
    for group in groups.values():
        entries = [entry for _, entry in group]
        at = np.repeat(np.arange(len(group)), [entry.frame.height for entry in entries])
        alike = _Alike(entries, np.array([place for place, _ in group])[at], at)
        yield alike, pl.concat([entry.frame for entry in entries])


def _said(of: _Alike) -> pl.DataFrame:
    """What is said of refusals, for each of their rows."""
    watermarks = [None if entry.watermark is None else time_of(entry.watermark) for entry in of.entries]
    said = pl.DataFrame(
        {
            EPOCH: pl.Series([entry.epoch for entry in of.entries], dtype=pl.UInt64),
            "source": pl.Series([entry.source for entry in of.entries], dtype=pl.String),
            "reason": pl.Series([entry.reason for entry in of.entries], dtype=pl.String),
            "watermark": pl.Series(watermarks, dtype=TIME),
        }
    )
    return gather(said, of.at)


def _as_json(of: _Alike, frame: pl.DataFrame) -> pl.DataFrame:
    is_late = of.entries[0].watermark is not None
    missed = (*BOUNDS, MISSED) if is_late else ()
    own = [name for name in frame.columns if name != DIFF and name not in missed]
    bounds = [_bound(frame, name, is_late) for name in BOUNDS]
    rows = frame.select(*bounds, DIFF, _missed(frame, is_late)).with_columns(json_rows(frame.select(own)))
    return _said(of).hstack(rows).select(*LEDGER_SCHEMA)


def _in_order(schema: pl.Schema, parts: Sequence[tuple[_Alike, pl.DataFrame]]) -> pl.DataFrame:
    """The rows of all parts, in the order of their refusals."""
    if not parts:
        return schema.to_frame()
    order = np.argsort(np.concatenate([of.places for of, _ in parts]), kind="stable")
    return gather(pl.concat([frame for _, frame in parts]), order)


def _bound(frame: pl.DataFrame, name: str, is_late: bool) -> pl.Expr:
    if not is_late or name not in frame.columns:
        return pl.lit(None, TIME).alias(name)
    return _instant(pl.col(name)).alias(name)


def _missed(frame: pl.DataFrame, is_late: bool) -> pl.Expr:
    """The windows that late rows missed: those that are listed, or else the one that there was."""
    dtype = LEDGER_SCHEMA["windows"]
    if not is_late or not {*BOUNDS} <= {*frame.columns}:
        return pl.lit(None, dtype).alias("windows")
    if MISSED in frame.columns:
        bounds = [_instant(pl.element().struct.field(name)).alias(name) for name in BOUNDS]
        return pl.col(MISSED).list.eval(pl.struct(bounds)).cast(dtype).alias("windows")
    window = pl.struct(_instant(pl.col(name)).alias(name) for name in BOUNDS)
    return pl.concat_list(window).cast(dtype).alias("windows")


def _instant(bound: pl.Expr) -> pl.Expr:
    """A bound as a time; null where it is in no year from 1 to 9999."""
    instant = bound.to_physical().cast(pl.Int64)
    return pl.when(instant.is_between(*YEARS)).then(instant).cast(TIME)
