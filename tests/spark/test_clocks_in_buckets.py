"""How the rows of a batch move the clocks, in whichever buckets and beside whichever rows they are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from spark.twins import WAYS, TwinEngine, Way

START = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.fixture(params=WAYS, ids=repr)
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    TwinEngine.way = request.param
    yield request.param
    TwinEngine.way = Way()


def pushed(rows: list[tuple[int, str, int]], **options: Any) -> Any:
    """How many seconds the watermark is at after a batch of rows: seconds, text, diff."""
    engine = TwinEngine()
    source = engine.source("s", {"at": pl.Datetime("us"), "x": pl.String}, event_time="at", **options)
    engine.view("rows", source)
    frame = pl.DataFrame(
        [((START + timedelta(seconds=at)).replace(tzinfo=None), x, diff) for at, x, diff in rows],
        schema={"at": pl.Datetime("us"), "x": pl.String, "_diff": pl.Int64},
        orient="row",
    )
    engine.push("s", frame, at=START)
    mark = engine.watermarks["s"]
    return (mark - START).total_seconds() if isinstance(mark, datetime) else mark


GONE = [(30, "a", 1), (12, "b", 1), (30, "a", -1)]


@pytest.mark.parametrize("beside", [[], [(1, "c", -1)], [(1, text, -1) for text in "cdefgh"]], ids=len)
def test_a_row_that_goes_with_its_batch_does_not_move_it(way: Way, beside: list[Any]) -> None:
    """Once it depended on whether another row of the batch was refused."""
    rows = [*GONE, *beside]
    assert pushed(rows, kind="diffs", watermark=ec.bounded_delay("0s")) == 12
    by = ec.by_partition("x", ec.ascending(), idle_after=None, at_least=2)
    assert pushed([*rows, (9, "z", 1)], kind="diffs", watermark=by) == 9


@pytest.mark.parametrize("options", [{"kind": "diffs"}, {"kind": "upsert", "key": "x"}], ids=str)
def test_lags_are_behind_the_rows_that_came_before(way: Way, options: dict[str, Any]) -> None:
    """Rows are checked by what they are, or replaced by key, and come to the clock in the order in which they came."""
    rows = [(at, f"{at}", 1) for at in range(20)]
    assert pushed(rows, watermark=ec.percentile_watermark(1.0), **options) == 19
    assert pushed([*rows, (16, "late", 1)], watermark=ec.percentile_watermark(1.0), **options) == 16
    assert pushed([(1, "x", -1), *rows], watermark=ec.percentile_watermark(1.0), **options) == 19
