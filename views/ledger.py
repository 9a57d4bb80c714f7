"""Refused rows as frames."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from evercurrent.core.instants import time_of
from evercurrent.core.ledger import Refused
from evercurrent.core.schema import DIFF, EPOCH

from .plan import BOUNDS

TIME = pl.Datetime("us", "UTC")

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
"""Bounds and watermark are those of rows that came too late; null for others, and where there is no such instant."""


def ledger_frame(refused: Iterable[Refused]) -> pl.DataFrame:
    """All refused rows, each as JSON."""
    return pl.concat([LEDGER_SCHEMA.to_frame(), *map(_entry, refused)])


def _entry(entry: Refused) -> pl.DataFrame:
    is_late = entry.watermark is not None
    bounds = [_bound(entry.frame, name, is_late) for name in BOUNDS]
    watermark = None if entry.watermark is None else time_of(entry.watermark)
    own = [name for name in entry.frame.columns if name != DIFF and not (is_late and name in BOUNDS)]
    # JSON has no bytes.
    binary = [pl.col(name).bin.encode("hex") for name in own if entry.frame.schema[name] == pl.Binary]
    return entry.frame.select(
        pl.lit(entry.epoch, pl.UInt64).alias(EPOCH),
        pl.lit(entry.source).alias("source"),
        pl.lit(entry.reason).alias("reason"),
        *bounds,
        pl.lit(watermark, TIME).alias("watermark"),
        DIFF,
        pl.struct(pl.col(own).exclude(pl.Binary), *binary).struct.json_encode().alias("row"),
    )


def _bound(frame: pl.DataFrame, name: str, is_late: bool) -> pl.Expr:
    if not is_late or name not in frame.columns:
        return pl.lit(None, TIME).alias(name)
    return pl.col(name).to_physical().cast(TIME).alias(name)


def source_ledger_frame(refused: Iterable[Refused], source: str, schema: pl.Schema) -> pl.DataFrame:
    """The refused rows of one source, with its columns: they can be mended and pushed again."""
    empty = pl.Schema({EPOCH: pl.UInt64(), "reason": pl.String(), **schema, DIFF: pl.Int64()}).to_frame()
    parts = [
        entry.frame.select(
            pl.lit(entry.epoch, pl.UInt64).alias(EPOCH), pl.lit(entry.reason).alias("reason"), *schema, DIFF
        )
        for entry in refused
        if entry.source == source and set(schema) <= set(entry.frame.columns)
    ]
    return pl.concat([empty, *parts])
