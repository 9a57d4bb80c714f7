"""Messages as topics have them, in ``tests/data/changes``, and the columns of the tables that they are of."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

RECORDED = Path(__file__).parent / "data" / "changes"

ROW = {
    "id": pl.Int64,
    "state": pl.String,
    "price": pl.Decimal(10, 2),
    "at": pl.Datetime("us"),
    "due": pl.Date,
}

SMALL = {"id": pl.Int64, "name": pl.String}


def recorded(name: str) -> pl.DataFrame:
    """The messages of a topic, as Spark's reader of Kafka returns them."""
    lines = [json.loads(line) for line in (RECORDED / f"{name}.jsonl").read_text().splitlines()]
    binary = {
        side: [None if each[side] is None else each[side].encode() for each in lines]
        for side in ("key", "value")
    }
    return pl.DataFrame(
        {
            **binary,
            "topic": "shop.public.orders",
            "partition": 0,
            "offset": [each["offset"] for each in lines],
        },
        schema_overrides={"key": pl.Binary, "value": pl.Binary, "partition": pl.Int32},
    )
