"""Times in milliseconds that Spark's microseconds do not reach are refused by one sentence with their column and value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent import spark_bridge
from evercurrent.spark_bridge.runtime.spark_times import FURTHEST
from evercurrent.spark_bridge.runtime.spark_types import frame_to_spark_arrow

TYPES: dict[str, tuple[Any, str]] = {
    "time": (pl.Datetime("ms"), "a time of {} milliseconds since 1970"),
    "instant": (pl.Datetime("ms", "Europe/Berlin"), "a time of {} milliseconds since 1970"),
    "span": (pl.Duration("ms"), "a duration of {} milliseconds"),
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("value", [FURTHEST + 1, -FURTHEST - 1, 2**63 - 1])
def test_a_time_that_is_too_far_is_named_at_any_depth(kind: str, value: int) -> None:
    dtype, text = TYPES[kind]
    near, far = (pl.Series("at", [None, 0, each], pl.Int64).cast(dtype) for each in (FURTHEST, value))
    shapes = (
        lambda times: times,
        lambda times: times.implode().alias("at"),
        lambda times: times.alias("x").to_frame().to_struct("at"),
        lambda times: times.alias("x").implode().to_frame().to_struct("at"),
    )
    for shape in shapes:
        table = frame_to_spark_arrow(shape(near).to_frame(), "view 'v'")
        assert table.num_rows in (1, 3)
        with pytest.raises(
            ec.InputError,
            match=rf"^view 'v': column 'at' has {text.format(value)}, and Spark's micro.*filter",
        ):
            frame_to_spark_arrow(shape(far).to_frame(), "view 'v'")


def test_times_of_other_units_are_not_looked_at() -> None:
    frame = pl.DataFrame(
        {"at": pl.Series([2**63 - 1], dtype=pl.Int64).cast(pl.Duration("us")), "n": [2**63 - 1]}
    )
    assert frame_to_spark_arrow(frame).num_rows == 1


@pytest.mark.parametrize("method", ["to_spark", "deltas_to_spark"])
def test_a_task_of_spark_ends_with_the_sentence(spark: Any, tmp_path: Path, method: str) -> None:
    def declared(checkpoint: Path | None = None) -> ec.Engine:
        engine = ec.Engine(checkpoint=checkpoint)
        engine.view("far", engine.source("rows", {"at": pl.Datetime("ms")}))
        return engine

    with declared(tmp_path / "here") as engine:
        engine.push("rows", pl.DataFrame({"at": pl.Series([2**60], dtype=pl.Int64).cast(pl.Datetime("ms"))}))
    view = spark_bridge.views(declared(), tmp_path / "here", spark)["far"]
    with pytest.raises(
        Exception, match=rf"view 'far': column 'at' has a time of {2**60} milliseconds"
    ) as raised:
        getattr(view, method)().collect()
    assert "Traceback" not in str(raised.value).partition("view 'far'")[0]
    assert "frame_to_spark_arrow" not in str(raised.value)
