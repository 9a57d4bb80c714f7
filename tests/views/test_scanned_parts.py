"""Numbers are found by passes over their fingerprints as they are by passes over themselves."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import evercurrent as ec
from evercurrent.views.inspection.tracing import scans
from evercurrent.views.inspection.tracing.scans import Scan, ScannedPart, fingerprints

MANY = 200_000
"""More numbers than there are fingerprints."""


@pytest.mark.parametrize(
    "dtype", [pl.Int8, pl.UInt16, pl.Int32, pl.UInt32, pl.Int64, pl.UInt64], ids=lambda dtype: str(dtype)
)
def test_numbers_with_the_fingerprint_of_another_are_not_found(
    dtype: pl.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    low = -(MANY // 2) if dtype in (pl.Int32, pl.Int64) else 0
    numbers = np.arange(low, low + (MANY if dtype not in (pl.Int8, pl.UInt16) else 128))
    prints = fingerprints(numbers)
    of_first_two = np.flatnonzero((prints == prints[0]) | (prints == prints[1]))
    assert len(of_first_two) > 2 or len(numbers) < MANY, "others have the same fingerprints"
    frame = pl.DataFrame({"n": pl.Series(numbers, dtype=dtype)})
    for passes in (0, 1 << 62):
        monkeypatch.setattr(scans, "PASSES", passes)
        part = ScannedPart()
        for chosen in ([0], [1, 0], [len(numbers) - 1], [3, 5, 7, 9], [3, 5, 7, 9, 11]):
            scan = Scan.of(frame[chosen])
            assert scan is not None
            assert part.places(frame, scan).tolist() == sorted(chosen)


def test_a_column_has_fingerprints_after_some_passes_and_finds_the_same() -> None:
    frame = pl.DataFrame({"n": np.arange(MANY) % 1_000, "m": pl.Series(np.arange(MANY) % 7, dtype=pl.Int32)})
    part, scan = ScannedPart(), Scan.of(pl.DataFrame({"n": [5], "m": pl.Series([5], dtype=pl.Int32)}))
    assert scan is not None
    found = [part.places(frame, scan).tolist() for _ in range(scans.PASSES + 3)]
    assert all(places == found[0] for places in found)
    assert set(found[0]) <= set(range(5, MANY, 1_000))
    assert len(found[0]) == MANY // 1_000


def test_parts_take_turns_to_make_their_fingerprints() -> None:
    random, rows = np.random.default_rng(0), 1 << 18
    engine = ec.Engine()
    source = engine.source("s", {"k": pl.Int64, "v": pl.Int64}, retained=True)
    sums = engine.view("sums", source.group_by("k").agg(pl.col("v").sum()))
    for _ in range(4):
        source.push({"k": random.integers(0, 100, rows), "v": random.integers(0, 1 << 40, rows)})
    added = []
    for _ in range(scans.PASSES + scans.TURNS):
        before = made(engine)
        sums.lineage({"k": 7})
        added.append(made(engine) - before)
    assert made(engine) == 4, "each part has those of one column"
    assert max(added) == 1, "one part in a look-up"


def made(engine: ec.Engine) -> int:
    """Return how many fingerprints of columns there are."""
    return sum(len(part._fingerprints) for part in engine._indexes._scanned.values())
