"""Refused rows as frames."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from evercurrent.core.operators.inputs import Refused
from evercurrent.core.schema import DIFF, EPOCH

LEDGER_SCHEMA = pl.Schema(
    {EPOCH: pl.UInt64(), "source": pl.String(), "reason": pl.String(), DIFF: pl.Int64(), "row": pl.String()}
)


def ledger_frame(refused: Iterable[Refused]) -> pl.DataFrame:
    """All refused rows, each as JSON."""
    parts = [
        entry.frame.select(
            pl.lit(entry.epoch, pl.UInt64).alias(EPOCH),
            pl.lit(entry.source).alias("source"),
            pl.lit(entry.reason).alias("reason"),
            DIFF,
            pl.struct(pl.all().exclude(DIFF)).struct.json_encode().alias("row"),
        )
        for entry in refused
    ]
    return pl.concat([LEDGER_SCHEMA.to_frame(), *parts])


def source_ledger_frame(refused: Iterable[Refused], source: str, schema: pl.Schema) -> pl.DataFrame:
    """The refused rows of one source, with its columns: they can be mended and pushed again."""
    empty = pl.Schema({EPOCH: pl.UInt64(), "reason": pl.String(), **schema, DIFF: pl.Int64()}).to_frame()
    parts = [
        entry.frame.select(
            pl.lit(entry.epoch, pl.UInt64).alias(EPOCH), pl.lit(entry.reason).alias("reason"), *schema, DIFF
        )
        for entry in refused
        if entry.source == source
    ]
    return pl.concat([empty, *parts])
