"""What a PySpark lacks is refused by name when it is used, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.core.data.release import install_command
from evercurrent.spark_bridge.runtime import session, spark_versions
from evercurrent.spark_bridge.runtime.session import SparkMissingError, require_spark
from evercurrent.spark_bridge.runtime.spark_versions import (
    limits_batches,
    require_bounded_beats,
    spark_version,
)

pytest.importorskip("pyspark")


@pytest.fixture
def before_4_2(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PySpark that gives a source no limit for a micro-batch."""
    from evercurrent.spark_bridge.input import beats
    from evercurrent.spark_bridge.output import delta_source

    for module in (beats, delta_source, spark_versions):
        monkeypatch.setattr(module, "limits_batches", lambda: False)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A checkpoint with a view of three epochs."""
    engine = ec.Engine(checkpoint=tmp_path / "kept")
    hits = engine.source("hits", {"n": pl.Int64})
    engine.view("depth", hits.group_by("n").agg(pl.len()))
    for n in (1, 2, 3):
        engine.push("hits", {"n": [n]})
    engine.close()
    return tmp_path / "kept"


def delta_source(written: Path, **options: str) -> Any:
    from evercurrent.spark_bridge.output.delta_source import ViewDeltas

    return ViewDeltas({"path": str(written), "view": "depth", **options})


def test_limits_are_there_from_4_2_on() -> None:
    assert limits_batches() == (tuple(map(int, spark_version().split(".")[:2])) >= (4, 2))


@pytest.mark.usefixtures("before_4_2")
def test_before_4_2_a_micro_batch_reads_all_epochs(written: Path) -> None:
    source = delta_source(written, since="0")
    reader = source.streamReader(source.schema())
    assert (reader.initialOffset()["epoch"], reader.latestOffset()["epoch"]) == (0, 3)
    rows = [
        batch.num_rows
        for part in reader.partitions({"epoch": 1}, {"epoch": 3})
        for batch in reader.read(part)
    ]
    assert sum(rows) == 2


@pytest.mark.usefixtures("before_4_2")
def test_before_4_2_a_limit_of_epochs_is_refused(written: Path) -> None:
    source = delta_source(written, maxEpochsPerTrigger="2")
    with pytest.raises(
        InputError, match=r"'maxEpochsPerTrigger' is 2, and PySpark .* install PySpark 4.2 or newer"
    ):
        source.streamReader(source.schema())


@pytest.mark.usefixtures("before_4_2")
def test_before_4_2_another_checkpoint_is_refused_where_epochs_are_read(written: Path) -> None:
    source = delta_source(written)
    reader = source.streamReader(source.schema())
    with pytest.raises(ec.CheckpointError, match="is at epoch 3, but this query has read up to epoch 9"):
        reader.partitions({"epoch": 9}, {"epoch": 3})


@pytest.mark.usefixtures("before_4_2")
def test_before_4_2_a_heartbeat_over_what_is_there_is_refused() -> None:
    require_bounded_beats(None)
    require_bounded_beats({"processingTime": "1 second"})
    with pytest.raises(PlanError, match=r"heartbeat_seconds= with trigger=.*leave heartbeat_seconds out"):
        require_bounded_beats({"availableNow": True})


@pytest.mark.usefixtures("before_4_2")
def test_before_4_2_a_clock_that_is_set_back_does_not_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from evercurrent.spark_bridge.input import beat_clocks
    from evercurrent.spark_bridge.input.beats import Beats

    times = iter([100.0, 90.0, 110.0])
    monkeypatch.setattr(beat_clocks.time, "time", lambda: next(times))
    clock = Beats({"seconds": "10"}).streamReader(None)  # type: ignore[arg-type]
    assert [clock.latestOffset()["beat"] for _ in range(3)] == [10, 10, 11]
    assert len(clock.partitions({"beat": 10}, {"beat": 11})) == 1
    assert clock.partitions({"beat": 10}, {"beat": 10}) == []


def test_a_spark_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "spark_version", lambda: "3.5.8")
    with pytest.raises(SparkMissingError) as refused:
        require_spark()
    assert "PySpark 4.0 or newer, and this is 3.5.8" in str(refused.value)
    assert install_command("spark") in str(refused.value)
