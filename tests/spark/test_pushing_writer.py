"""``writeStream.format("evercurrent")`` pushes each micro-batch into a source, once, also if Spark repeats it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import datasource

from evercurrent import spark_bridge
from evercurrent.core.data.errors import EvercurrentError, InputError
from evercurrent.spark_bridge.output.delta_source import ViewDeltas
from evercurrent.spark_bridge.runtime.spark_types import frame_to_spark_arrow
from evercurrent.views.cli.applications import load
from evercurrent.views.store import store_at
from spark.test_query import forget_last_commit

pytestmark = pytest.mark.skipif(
    not hasattr(datasource, "DataSourceStreamArrowWriter"), reason="PySpark 4.0 has no writers of Arrow"
)

APP = """
import evercurrent as ec
import polars as pl

def engine():
    made = ec.Engine()
    rows = made.source("rows", {"k": pl.UInt8, "v": pl.Int64}, kind="diffs")
    made.view("sums", rows.group_by("k").agg(v=pl.col("v").sum()))
    return made
"""


@pytest.fixture
def app(tmp_path: Path) -> str:
    path = tmp_path / "my_sums.py"
    path.write_text(APP)
    return str(path)


def contents(app: str, checkpoint: Path) -> tuple[int, list[tuple]]:
    """The epoch and the rows of the view."""
    view = spark_bridge.views(load(app).engine, checkpoint)["sums"]
    return view.epoch, sorted(view.read().rows())


def test_each_micro_batch_is_an_epoch_once(
    spark: Any, feed: Any, checkpoint: Path, app: str, tmp_path: Path
) -> None:
    spark_bridge.register(spark)
    frames = [
        pl.DataFrame({"k": [1, 2, 1], "v": [1, 2, 3], "_diff": [1, 1, 1]}),
        pl.DataFrame({"k": [1], "v": [1], "_diff": [-1]}),
    ]
    stream = feed(frames)

    def run() -> None:
        written = stream.writeStream.format("evercurrent").option("path", str(checkpoint))
        written = (
            written.option("app", app)
            .option("source", "rows")
            .option("checkpointLocation", str(tmp_path / "own"))
        )
        written.trigger(availableNow=True).start().awaitTermination()

    run()
    assert contents(app, checkpoint) == (2, [(1, 3), (2, 2)])
    forget_last_commit(tmp_path / "own")  # Spark repeats the last one.
    feed([pl.DataFrame({"k": [7], "v": [7], "_diff": [1]})])
    run()
    assert contents(app, checkpoint) == (3, [(1, 3), (2, 2), (7, 7)])
    assert not list(checkpoint.glob("exchange/*"))


def test_a_commit_that_is_repeated_or_of_another_query(checkpoint: Path, app: str) -> None:
    """Without Spark: the messages are what its tasks return."""
    from evercurrent.spark_bridge.output.pushing_writer import Pushed, PushingWriter

    writer = PushingWriter({"path": str(checkpoint), "app": app, "source": "rows"})

    def file(number: int, rows: pl.DataFrame) -> str:
        sink = pa.BufferOutputStream()
        table = frame_to_spark_arrow(rows)
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        name = f"exchange/pushed-{number}.arrow"
        store_at(str(checkpoint)).put(name, [memoryview(sink.getvalue())])
        return name

    one, two = pl.DataFrame({"k": [1, 2], "v": [1, 2]}), pl.DataFrame({"k": [1], "v": [5]})
    writer.commit([Pushed(1, file(1, two), "q"), Pushed(0, file(0, one), "q"), Pushed(2, None, "q")], 0)
    assert contents(app, checkpoint) == (1, [(1, 6), (2, 2)])
    writer.commit([Pushed(0, file(2, one), "q")], 0)
    assert contents(app, checkpoint) == (1, [(1, 6), (2, 2)])
    writer.commit([Pushed(0, file(3, two), "another")], 0)
    writer.commit([Pushed(0, file(4, two), "q")], 1)
    writer.commit([Pushed(0, None, "q")], 2)
    assert contents(app, checkpoint) == (3, [(1, 16), (2, 2)])
    writer.abort([Pushed(0, file(5, two), "q"), None], 3)
    assert not list(checkpoint.glob("exchange/*"))
    with pytest.raises(InputError, match=r"the stream lacks columns 'v' of source 'rows'; it has 'k'"):
        writer.commit([Pushed(0, file(6, one.drop("v")), "q")], 3)
    writer = PushingWriter({"path": str(checkpoint), "app": app, "source": "row"})
    with pytest.raises(InputError, match=r"declares no source 'row'; there are 'rows'"):
        writer.commit([Pushed(0, file(7, one), "q")], 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "p", "app": "a"}, r"option 'source' is missing; give the checkpoint as 'path', the module"),
        ({"path": "p", "app": "a", "source": "s", "view": "v"}, r"there is no option 'view' of a writer"),
    ],
)
def test_options_are_checked(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ViewDeltas(options).streamWriter(None, overwrite=False)


def test_what_replaces_rows_is_refused() -> None:
    with pytest.raises(EvercurrentError, match=r"a source takes rows once; give .outputMode\('append'\)"):
        ViewDeltas({"path": "p", "app": "a", "source": "s"}).streamWriter(None, overwrite=True)
