"""Tests on a real Spark: one session for all of them, so all of them in one worker (see ``tests/conftest.py``)."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evercurrent.spark_bridge import deploy
from evercurrent.spark_bridge.runtime.java import JavaMissingError
from evercurrent.spark_bridge.runtime.session import local_session
from evercurrent.spark_bridge.runtime.spark_types import frame_to_spark_arrow, spark_schema
from started import paths


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The session. Starting it takes some seconds."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed")
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # of the workers: many of them share the cores
    # Java and its workers have it from the start, what other tests start does not.
    given = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = paths(*([given] if given else []))
    try:
        # A task may fail three times, as on a cluster: locally it may not by default.
        # A server of Spark Connect that is started in it takes any free port.
        own = {"spark.master": "local[2,4]", "spark.connect.grpc.binding.port": "0"}
        session = local_session("evercurrent tests", settings=own)
    except JavaMissingError as missing:
        pytest.skip(str(missing))
    finally:
        del os.environ["PYTHONPATH"]
        if given is not None:
            os.environ["PYTHONPATH"] = given
    yield session
    session.stop()
    end_java()


def end_java() -> None:
    """End the Java of this process, which otherwise goes on until the process ends."""
    from pyspark import SparkContext

    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


@pytest.fixture(scope="session")
def environment_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of this environment with a module ``helpful`` of the user's, alone in its folder."""
    pytest.importorskip("pandas")
    folder = tmp_path_factory.mktemp("archive")
    (folder / "own").mkdir()
    (folder / "own" / "helpful.py").write_text("x = 1")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder / "own"))
        return deploy.archive(folder / "out" / "environment.tar.gz", include=["helpful"], level=0)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A folder for a checkpoint of ours; Spark's own goes beside it."""
    return tmp_path / "checkpoint"


Feed = Callable[[Sequence[pl.DataFrame]], Any]


@pytest.fixture
def feed(spark: Any, tmp_path: Path) -> Feed:
    """A stream made of frames: each is a file and a micro-batch, in the order given.

    Further frames can be fed to the same stream: ``feed(more, into=name)`` adds files to the folder of that name.
    A frame without rows is a file too; Spark makes a micro-batch of it all the same.
    """
    counts: dict[str, int] = {}

    def fed(frames: Sequence[pl.DataFrame], into: str = "input") -> Any:
        folder = tmp_path / into
        folder.mkdir(exist_ok=True)
        for frame in frames:
            number = counts[into] = counts.get(into, 0) + 1
            write_one_file(frame, folder / f"{number:06}.parquet", number)
        reader = spark.readStream.schema(spark_schema(f"feed {into}", frames[0].schema))
        return reader.option("maxFilesPerTrigger", 1).parquet(str(folder))

    return fed


def write_one_file(frame: pl.DataFrame, path: Path, number: int) -> None:
    """A parquet file that Spark reads as that frame, dated so that ``number`` is its place in the order of files."""
    from pyarrow import parquet

    hidden = path.with_name(f".{path.name}")
    parquet.write_table(frame_to_spark_arrow(frame), hidden)
    os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
    hidden.rename(path)


@pytest.fixture
def socket_path() -> Iterator[str]:
    """A path that has room for a socket, as those of ``tmp_path`` may not."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield f"{folder}/socket"
