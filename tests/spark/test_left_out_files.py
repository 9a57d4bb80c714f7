"""A file that is deleted between Spark's listing and its reading ends the query, where Spark leaves out its rows without an error."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import polars as pl
import pytest

pytest.importorskip("pyspark")

import evercurrent as ec
from evercurrent.core.data.errors import FileError
from evercurrent.spark_bridge import run
from evercurrent.spark_bridge.execution.left_out_files import IGNORED, ListedFiles
from spark.conftest import write_one_file
from thinned import IS_LONG


class Sequence(list[Any]):
    """Stands for one of Scala."""

    size = list.__len__
    apply = list.__getitem__

    def mkString(self, between: str) -> str:  # noqa: N802
        return between.join(self)

    def toString(self) -> str:  # noqa: N802
        return f"Map({', '.join(self)})"


def of_class(name: str, **members: Any) -> Any:
    """An object of Java of this class, whose methods return these members."""
    members = {"nodeName": name, "toString": f"org.apache.spark.{name}(...)", **members}
    return SimpleNamespace(**{each: partial(dict.get, members, each) for each in members})


def session(*leaves: Any, settings: dict[str, str] | None = None) -> Any:
    """A session with a query whose micro-batch reads these."""
    plan = of_class("Project", collectLeaves=Sequence(leaves))
    running = of_class("MicroBatchExecution", lastExecution=of_class("Execution", logical=plan))
    java = of_class(
        "SparkSession", sharedState=of_class("SharedState", activeStreamingQueries={"id": running})
    )
    uuid = SimpleNamespace(fromString=lambda text: text)
    jvm = SimpleNamespace(java=SimpleNamespace(util=SimpleNamespace(UUID=uuid)))
    return SimpleNamespace(_jsparkSession=java, _jvm=jvm, conf=settings or {})


def files(
    listed: list[str],
    there: list[str],
    *,
    streaming: bool = True,
    options: tuple[str, ...] = (),
    index_kind: str = "InMemoryFileIndex",
) -> Any:
    """The part of a plan that reads files."""
    paths = Sequence(f"file:/in/{name}" for name in listed)
    names = [f"file:///in/{quote(name)}" for name in there]
    text = f"org.apache.spark.{index_kind}({','.join(paths)})"
    index = of_class(index_kind, rootPaths=paths, inputFiles=names, toString=text)
    relation = of_class("HadoopFsRelation", location=index, options=Sequence(options))
    return of_class("LogicalRelation", isStreaming=streaming, relation=relation)


OTHER = of_class("LogicalRDD", isStreaming=True)


def test_the_files_that_are_left_out_are_named() -> None:
    odd = "a b%20\u00fc.parquet"
    ListedFiles().require(session(OTHER, files(["1", odd], ["1", odd])), "id")
    for leaves in ([files(["1", odd], ["1"]), OTHER], [files(["2"], ["2"]), files([odd, "1"], ["1"])]):
        with pytest.raises(
            FileError, match=f"without an error: file:/in/{odd}; nothing .* is committed: put the"
        ):
            ListedFiles().require(session(*leaves), "id")
    with pytest.raises(FileError, match="file:/in/0, file:/in/1, file:/in/2 and 7 more;"):
        ListedFiles().require(session(files(list("0123456789"), [])), "id")
    ListedFiles().require(session(files(["a,b", "c"], ["a,b", "c"])), "id")
    with pytest.raises(FileError, match="without an error: file:/in/a,b;"):
        ListedFiles().require(session(files(["a,b", "c"], ["c"])), "id")


def test_what_does_not_change_is_looked_up_once_and_the_running_query_each_time() -> None:
    first, later = session(files(["1"], ["1"])), session(files(["1", "2"], ["1"]))
    queries, started_again = (
        each._jsparkSession.sharedState().activeStreamingQueries() for each in (first, later)
    )
    listed = ListedFiles()
    listed.require(first, "id")
    first._jsparkSession = object()
    listed.require(first, "id")
    queries.update(started_again)
    with pytest.raises(FileError, match="without an error: file:/in/2;"):
        listed.require(first, "id")


def test_where_it_is_wished_or_is_no_stream_or_cannot_be_seen_nothing_is_raised() -> None:
    gone = files(["1", "2"], ["1"])
    ListedFiles().require(session(gone, settings={IGNORED: "true"}), "id")
    ListedFiles().require(session(files(["1"], [], options=("ignoreMissingFiles -> true",))), "id")
    ListedFiles().require(session(files(["folder"], [], streaming=False)), "id")
    ListedFiles().require(session(files(["table"], [], index_kind="TahoeBatchFileIndex")), "id")
    ListedFiles().require(session(gone), "another version of Spark")
    ListedFiles().require(session(gone), None)
    connected: Any = SimpleNamespace(conf={})
    ListedFiles().require(connected, "id")


@pytest.mark.skipif(not IS_LONG, reason="three queries for one sentence: make test-long")
def test_a_micro_batch_that_is_repeated_without_a_file(spark: Any, tmp_path: Path) -> None:
    """Put back, the file is read: Spark had it in its log of the source before, and would not have read it again."""
    folder, away = tmp_path / "in", tmp_path / f"{uuid4()}.parquet"
    folder.mkdir()
    failing = tmp_path / "failing"

    def sink(*_: Any) -> None:
        if failing.exists():
            raise RuntimeError("a sink fails")

    def finished() -> Any:
        engine = ec.Engine()
        engine.view("counts", engine.source("rows", {"k": pl.Int64}).group_by("k").len("n"))
        stream = spark.readStream.schema("k bigint").parquet(str(folder))
        query = run(
            engine,
            {"rows": stream},
            checkpoint=tmp_path / "checkpoint",
            buckets=2,
            trigger={"availableNow": True},
            on_epoch=sink,
        )
        query.await_termination()
        return query

    failing.touch()
    for number in range(2):
        write_one_file(pl.DataFrame({"k": [number]}), folder / f"{number}.parquet", number)
    with pytest.raises(Exception, match="a sink fails"):
        finished()
    failing.unlink()
    (folder / "1.parquet").rename(away)
    with pytest.raises(FileError, match=r"without an error: file:\S*/in/1\.parquet; nothing"):
        finished()
    away.rename(folder / "1.parquet")
    assert sorted(finished().view("counts").read().rows()) == [(0, 1), (1, 1)]
