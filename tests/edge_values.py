"""Values at the edges of every type that has order words, in order."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from math import inf, nan
from typing import Any

import polars as pl

VALUES: dict[Any, list[Any]] = {
    pl.Int64: [-(2**63), -1, 0, 1, 2**63 - 1],
    pl.Int8: [-128, -1, 0, 127],
    pl.UInt64: [0, 1, 2**63 - 1, 2**63, 2**64 - 1],
    pl.UInt32: [0, 1, 2**32 - 1],
    pl.Float64: [-inf, -1e300, -5e-324, 0.0, 5e-324, 1.5, inf, nan],
    pl.Float32: [-inf, -1.5, 0.0, 1.5, inf, nan],
    pl.Boolean: [False, True],
    pl.Date: [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
    pl.Datetime("us"): [dt.datetime(1, 1, 1), dt.datetime(1970, 1, 1), dt.datetime(2026, 1, 1)],
    pl.Datetime("ms", "Europe/Berlin"): [dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)],
    pl.Duration("ns"): [dt.timedelta(-1), dt.timedelta(0), dt.timedelta(microseconds=1)],
    pl.Decimal(9, 2): [Decimal("-9999999.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("0.01"), Decimal("9999999.99")],
    pl.Decimal(38, 0): [
        *(Decimal(-number) for number in (10**38 - 1, 2**64 + 1, 2**64, 2**63, 1)),
        *(Decimal(number) for number in (0, 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 3 * 2**63, 10**38 - 1)),
    ],
    pl.Time: [dt.time(0), dt.time(12), dt.time(23, 59, 59)],
}  # fmt: skip
