"""Deltas of a view as a source of another Spark query: each epoch once, in order, across restarts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

pytest.importorskip("pyspark")

import evercurrent as ec
from evercurrent.core.data.columns.polars_versions import MAP
from evercurrent.core.data.errors import CheckpointError, EpochGoneError, InputError
from evercurrent.spark_bridge.output import delta_readers
from evercurrent.spark_bridge.output.delta_options import read_options
from evercurrent.spark_bridge.output.delta_readers import in_partitions
from evercurrent.spark_bridge.output.delta_source import ViewDeltas
from evercurrent.spark_bridge.output.registration import register
from evercurrent.spark_bridge.runtime.spark_types import rows_from_arrow
from evercurrent.spark_bridge.runtime.spark_versions import limits_batches
from evercurrent.views.checkpoint import Commit, CommitLog, DeltaRef, PieceRef, Pieces, new_writer, versions
from evercurrent.views.expressions.dtype_reading import NAMES, dtype_of_text
from evercurrent.views.expressions.dtype_text import dtype_text
from evercurrent.views.store import store_at
from thinned import some_of

COLUMNS = pl.Schema(
    {"key": pl.String, "at": pl.Datetime("us", "Europe/Berlin"), "n": pl.UInt64, "part.of": pl.Int8}
)
TYPES = pl.Schema({**COLUMNS, "_epoch": pl.UInt64, "_diff": pl.Int64})


def delta(epoch: int, *rows: tuple[str, int]) -> pl.DataFrame:
    """Rows (key, diff) of an epoch."""
    frame = pl.DataFrame({"key": [key for key, _ in rows], "_diff": [diff for _, diff in rows]})
    return frame.select(
        pl.col("key").cast(pl.String),
        pl.lit(epoch * 1000).cast(pl.Datetime("us", "UTC")).dt.convert_time_zone("Europe/Berlin").alias("at"),
        pl.lit(2**64 - 1, pl.UInt64).alias("n"),
        pl.lit(epoch % 100, pl.Int8).alias("part.of"),
        pl.lit(epoch, pl.UInt64).alias("_epoch"),
        pl.col("_diff").cast(pl.Int64),
    )


class Writer:
    """Commits of a view "depth", as an engine would make them, and what it has written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = CommitLog(store_at(str(path)), full_every=2)
        self.pieces = Pieces.of(store_at(str(path)))
        self.frames: list[pl.DataFrame] = []

    def commit(self, *deltas: pl.DataFrame, upto: int) -> None:
        self.frames += deltas
        refs = []
        for frame in deltas:
            epoch = frame.item(0, "_epoch")
            refs.append(DeltaRef(epoch, self.pieces.write_delta("depth", epoch, frame)))
        columns = {name: dtype_text(dtype) for name, dtype in COLUMNS.items()}
        plan: Mapping[str, Any] = {"views": {"depth": {"identity": "x", "columns": columns}}}
        self.log.append(
            Commit(
                epoch=upto, buckets=1, plan=plan, states={}, deltas={"depth": tuple(refs)}, positions={}, readers={},
                epochs=(), facts={}, writer=new_writer(), versions=versions(),
            )
        )  # fmt: skip

    def written(self) -> pl.DataFrame:
        return pl.concat(self.frames)


@pytest.fixture
def writer(checkpoint):
    return Writer(checkpoint)


def reading(spark: Any, reader: Any, path: Path, **options: Any) -> Any:
    register(spark)
    made = reader.format("evercurrent").option("path", str(path)).option("view", "depth")
    for name, value in options.items():
        made = made.option(name, value)
    return made.load()


def as_polars(frame: Any) -> pl.DataFrame:
    return rows_from_arrow(frame.toArrow(), TYPES)


def test_a_batch_reads_what_is_there(spark, writer):
    writer.commit(delta(0, ("nothing", 1)), upto=0)
    writer.commit(delta(1, ("a", 1), ("b", 2)), delta(2, ("a", -1)), upto=2)
    writer.commit(upto=3)
    writer.commit(delta(4, ("c", 1)), upto=4)
    path, order = writer.path, ["_epoch", "key"]
    assert_frame_equal(as_polars(reading(spark, spark.read, path)).sort(order), writer.written().sort(order))
    some = as_polars(reading(spark, spark.read, path, since=0, until=2))
    assert sorted(some["_epoch"]) == [1, 1, 2]
    assert reading(spark, spark.read, path, since="latest").count() == 0


class Consumer:
    """A query that notes the rows of every micro-batch, and starts again at its checkpoint."""

    def __init__(self, spark: Any, path: Path, own: Path, **options: Any) -> None:
        self.spark, self.path, self.own, self.options = spark, path, own, options
        self.batches: list[pl.DataFrame] = []

    def run(self) -> None:
        """Until all that is there now is consumed."""
        stream = reading(self.spark, self.spark.readStream, self.path, **self.options)
        written = stream.writeStream.foreachBatch(self._take).trigger(availableNow=True)
        query = written.option("checkpointLocation", str(self.own)).start()
        if not query.awaitTermination(60):
            query.stop()
            raise AssertionError("the query does not come to an end")

    def _take(self, batch: Any, number: int) -> None:
        self.batches.append(as_polars(batch).sort("_epoch", "key"))

    @property
    def epochs(self) -> list[list[int]]:
        return [rows["_epoch"].unique().sort().to_list() for rows in self.batches]


needs_limits = pytest.mark.skipif(not limits_batches(), reason="PySpark 4.0 and 4.1 set no limit for a batch")


@pytest.mark.parametrize(
    "limit", some_of([pytest.param(2, marks=needs_limits), None], [2 if limits_batches() else None])
)
def test_a_stream_reads_each_epoch_once_and_goes_on_after_a_restart(spark, writer, tmp_path, limit):
    options = {} if limit is None else {"maxEpochsPerTrigger": limit}
    consumer = Consumer(spark, writer.path, tmp_path / "own", **options)
    first = [[0, 1, 2, 3, 4]] if limit is None else [[0, 1], [2, 3], [4]]
    for epoch in range(5):
        writer.commit(delta(epoch, ("a", 1), ("b", epoch + 1)), upto=epoch)
    consumer.run()
    assert consumer.epochs == first
    consumer.run()
    assert consumer.epochs == first
    writer.commit(upto=5)
    writer.commit(delta(6, ("a", -1)), upto=7)
    consumer.run()
    assert [epochs for epochs in consumer.epochs if epochs] == [*first, [6]]
    assert_frame_equal(pl.concat(consumer.batches), writer.written().sort("_epoch", "key"))


def test_a_stream_reads_commits_made_while_it_runs(spark, writer, tmp_path):
    writer.commit(delta(1, ("a", 1)), upto=1)
    seen: list[list[int]] = []
    stream = reading(spark, spark.readStream, writer.path)

    def take(batch, number):
        seen.append(as_polars(batch)["_epoch"].to_list())

    query = (
        stream.writeStream.foreachBatch(take)
        .trigger(processingTime="50 milliseconds")
        .option("checkpointLocation", str(tmp_path / "own"))
        .start()
    )
    try:
        query.processAllAvailable()
        writer.commit(delta(2, ("b", 1)), upto=2)
        query.processAllAvailable()
        writer.commit(upto=3)
        query.processAllAvailable()
    finally:
        query.stop()
    assert [epochs for epochs in seen if epochs] == [[1], [2]]


def test_only_what_comes_from_now_on(spark, writer, tmp_path):
    writer.commit(delta(1, ("a", 1)), upto=1)
    consumer = Consumer(spark, writer.path, tmp_path / "own", since="latest")
    consumer.run()
    writer.commit(delta(2, ("b", 1)), upto=2)
    consumer.run()
    assert [epochs for epochs in consumer.epochs if epochs] == [[2]]


def test_files_that_no_commit_names_are_not_read(spark, writer):
    writer.commit(delta(1, ("a", 1)), upto=1)
    writer.pieces.write_delta("depth", 1, delta(1, ("orphan", 1)))
    assert as_polars(reading(spark, spark.read, writer.path))["key"].to_list() == ["a"]


def refusal_of(spark: Any, reader: Any = None, **options: Any) -> str:
    """The error of ``load``, where nobody has read anything yet."""
    register(spark)
    with pytest.raises(Exception, match=r".") as refused:
        (reader or spark.read).format("evercurrent").options(**options).load()
    text = str(refused.value)
    assert "Traceback" not in text
    return next(line for line in text.splitlines() if "evercurrent." in line)


def test_what_is_wrong_is_named(spark, writer):
    path = str(writer.path)
    assert "option 'view' is missing" in refusal_of(spark, path=path)
    assert "option 'since' is 'soon'" in refusal_of(spark, path=path, view="depth", since="soon")
    assert "view 'depth' of checkpoint" in (nothing := refusal_of(spark, path=path, view="depth"))
    assert "nothing is committed there" in nothing
    writer.commit(delta(1, ("a", 1)), upto=1)
    assert "there is no such view; the views are 'depth'" in refusal_of(spark, path=path, view="width")
    beyond = refusal_of(spark, spark.readStream, path=path, view="depth", since=2)
    assert "option 'since' is 2, and view 'depth' of checkpoint" in beyond
    assert beyond.endswith("is at epoch 1; give one up to that, or 'latest' for what comes from now on")
    assert (
        "there is no option 'sinse'; the options are 'path', 'view', 'since', 'until', 'startingEpoch', 'endingEpoch'"
        in refusal_of(spark, path=path, view="depth", sinse=1)
    )


def test_what_spark_adds_to_the_options(spark, writer):
    """Names in small letters, and the path that is given to ``load``. What it adds for a table is below."""
    writer.commit(delta(1, ("a", 1)), delta(2, ("b", 1)), upto=2)
    register(spark)
    reader = spark.read.format("evercurrent").option("VIEW", "depth").option("Since", 1)
    assert [row["key"] for row in reader.load(str(writer.path)).collect()] == ["b"]
    with pytest.raises(Exception, match="reads one checkpoint; load each one, and combine them"):
        reader.load([str(writer.path), str(writer.path)])
    options = f"using evercurrent options (path '{writer.path}', view 'depth', until '1')"
    spark.sql(f"create temporary view deltas {options}")
    assert [row["key"] for row in spark.sql("select * from deltas").collect()] == ["a"]
    spark.catalog.dropTempView("deltas")


def of_a_writer(writer: Writer, **options: str) -> ViewDeltas:
    writer.commit(delta(1, ("a", 1)), upto=1)
    writer.commit(delta(2, ("a", 1)), upto=3)
    return ViewDeltas({"path": str(writer.path), "view": "depth", **options})


@pytest.mark.parametrize("name", ["since", "until"])
def test_epochs_that_are_still_to_come_are_refused_by_every_method(writer, name):
    """Spark does not call for the columns where a user has given them."""
    source = of_a_writer(writer, **{name: "4"})
    readers = [source.schema, lambda: source.reader(None).partitions()]
    for read in [*readers, *([lambda: source.streamReader(None)] if name == "since" else [])]:
        with pytest.raises(
            InputError, match=f"option '{name}' is 4, and view 'depth' .* is at epoch 3; give one up to"
        ):
            read()
    there = ViewDeltas({**source.options, name: "3"})
    assert there.schema() is not None
    assert there.reader(None).partitions() is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"startingEpoch": "5"},
            r"option 'startingEpoch' is 5, .* give one up to the next, or since 'latest' for",
        ),
        ({"endingEpoch": "4"}, r"option 'endingEpoch' is 4, .* give one up to that, or leave it out"),
    ],
)
def test_options_are_named_as_they_are_given(writer, options, message):
    with pytest.raises(InputError, match=message):
        of_a_writer(writer, **options).schema()
    following = ViewDeltas({"path": str(writer.path), "view": "depth", "startingEpoch": "4"})
    assert [part.refs for part in following.reader(None).partitions()] == [()]


def test_options_of_the_other_reader_are_refused(writer):
    source = of_a_writer(writer, until="1")
    with pytest.raises(
        InputError, match=r"'until' is for spark.read, and this is spark.readStream; leave it out"
    ):
        source.streamReader(None)
    assert source.reader(None)
    source = ViewDeltas({"path": str(writer.path), "view": "depth", "maxEpochsPerTrigger": "1"})
    with pytest.raises(
        InputError, match=r"'maxEpochsPerTrigger' is for spark.readStream, and this is spark.read;"
    ):
        source.reader(None)
    if limits_batches():
        assert source.streamReader(None)


@needs_limits
def test_a_checkpoint_that_has_begun_anew_is_not_waited_for(writer):
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    """Until it had come as far as the one before, the query would have read nothing, and then gone on in the middle."""
    stream = of_a_writer(writer).streamReader(None)
    assert stream.latestOffset({"epoch": 3}, ReadAllAvailable()) == {"epoch": 3}
    with pytest.raises(
        CheckpointError,
        match=r"is at epoch 3, but this query has read up to epoch 9: it is not the checkpoint",
    ):
        stream.latestOffset({"epoch": 9}, ReadAllAvailable())


@pytest.mark.parametrize("how", ["anew", "restored", "restored, with fewer commits"])
def test_a_stream_does_not_go_on_in_the_epochs_of_another_checkpoint(checkpoint, how):
    """It would have deltas of contents that it has not read, under numbers that follow those that it has."""

    def source() -> ViewDeltas:
        return ViewDeltas({"path": str(checkpoint), "view": "depth", "since": "latest"})

    def offset() -> dict[str, Any]:
        return json.loads(json.dumps(source().streamReader(None).initialOffset()))

    copy = checkpoint.with_name("copy")
    first = Writer(checkpoint)
    for epoch in (1, 2, 3):
        first.commit(delta(epoch, ("a", 1)), upto=epoch)
        if epoch == 2:
            shutil.copytree(checkpoint, copy)
            shared = offset()
    read = offset()
    shutil.rmtree(checkpoint)
    if how != "anew":
        shutil.copytree(copy, checkpoint)
    other = Writer(checkpoint)
    others = {epoch: delta(epoch, ("b", 1)) for epoch in range(1 if how == "anew" else 3, 6)}
    if how == "restored, with fewer commits":
        other.commit(others.pop(3), others.pop(4), upto=4)
    for epoch, frame in others.items():
        other.commit(frame, upto=epoch)
    for start, end, differs in (
        (read, offset(), 3),
        (shared, read, 2 if how == "anew" else 3),
    ):
        message = (
            f"has another epoch {differs} than the one that this query has read: it is not the checkpoint"
        )
        with pytest.raises(CheckpointError, match=message):
            source().streamReader(None).partitions(start, end)
    if how != "anew":
        assert epochs_of(source().streamReader(None).partitions(shared, offset())) == [3, 4, 5]


def test_a_stream_goes_on_from_offsets_without_a_writer(writer):
    """Earlier versions wrote such offsets."""
    stream = of_a_writer(writer, since="latest").streamReader(None)
    assert epochs_of(stream.partitions({"epoch": 1}, stream.initialOffset())) == [2]


def epochs_of(parts: Any) -> list[int]:
    return [ref.epoch for part in parts for ref in part.refs]


def test_deltas_of_a_view_that_was_declared_anew_begin_with_it(checkpoint):
    """Those before, under the same name and in other columns, were of another view."""

    def engine(drop: tuple[str, ...] = (), **columns: pl.Expr) -> ec.Engine:
        made = ec.Engine(checkpoint=ec.Checkpoint(checkpoint, drop=drop))
        rows = made.source("rows", {"k": pl.Int64}, retained=True)
        made.view("depth", rows.group_by("k").agg(**columns))
        return made

    with engine(n=pl.len()) as before:
        before.push("rows", {"k": [1]})
    with engine(drop=("depth",), last=pl.col("k").max()) as anew:
        anew.push("rows", {"k": [2]})
    options = {"path": str(checkpoint), "view": "depth"}
    batch, stream = ViewDeltas(options).reader(None), ViewDeltas(options).streamReader(None)
    for parts in (batch.partitions(), stream.partitions(stream.initialOffset(), {"epoch": 3})):
        assert [ref.epoch for part in parts for ref in part.refs] == [2, 3]
    for read in (
        lambda: ViewDeltas({**options, "since": "1"}).reader(None).partitions(),
        lambda: stream.partitions({"epoch": 1}, {"epoch": 3}),
    ):
        with pytest.raises(EpochGoneError, match="its present definition begins at epoch 2"):
            read()


def test_a_stream_of_a_view_that_is_dropped_or_gets_other_columns_ends(checkpoint):
    """It would wait for ever, or get rows that do not fit."""
    engine = ec.Engine(checkpoint=checkpoint)
    rows = engine.source("rows", {"k": pl.Int64}, retained=True)
    for name in ("dropped", "replaced", "kept"):
        engine.view(name, rows.group_by("k").len())
    engine.push("rows", {"k": [1]})
    engine.checkpoint()
    streams = {
        name: ViewDeltas({"path": str(checkpoint), "view": name}).streamReader(None)
        for name in ("dropped", "replaced", "kept")
    }
    engine.drop_view("dropped")
    engine.view("replaced", rows.group_by("k").agg(least=pl.col("k").min()), replace=True)
    engine.push("rows", {"k": [2]})
    engine.checkpoint()
    there = {"epoch": engine.epoch_number}
    assert streams["kept"].partitions({"epoch": 1}, there)
    with pytest.raises(
        CheckpointError, match=r"view 'dropped' of .* is no longer there, it was dropped by epoch"
    ):
        streams["dropped"].partitions({"epoch": 1}, there)
    with pytest.raises(
        CheckpointError, match=r"other columns by epoch .*'k', 'least', and this query began with 'k', 'len'"
    ):
        streams["replaced"].partitions({"epoch": 1}, there)
    engine.close()


def test_epochs_that_are_no_longer_retained_are_named(spark, writer):
    for epoch in range(6):
        writer.commit(delta(epoch, ("a", 1)), upto=epoch)
    writer.log.sweep(keep=2, grace=0.0)
    with pytest.raises(Exception, match=r"EpochGoneError: .* are no longer retained"):
        reading(spark, spark.read, writer.path, since=0).collect()
    assert as_polars(reading(spark, spark.read, writer.path, since=4))["_epoch"].to_list() == [5]


def test_what_an_embedded_engine_wrote_adds_up_to_its_view(spark, checkpoint):
    """Also the row that a group of nothing has before any input."""
    engine = ec.Engine(checkpoint=checkpoint)
    words = engine.source("words", {"word": pl.String}, kind="diffs")
    total = engine.view("depth", words.group_by().agg(n=pl.len(), last=pl.col("word").max()))
    for word in "abc":
        engine.push("words", {"word": [word, "z"]})
    engine.push("words", {"word": ["z"], "_diff": [-1]})
    engine.checkpoint()  # What is committed can be read elsewhere.
    rows = rows_from_arrow(
        reading(spark, spark.read, checkpoint).toArrow(),
        {**total.schema, "_epoch": pl.UInt64(), "_diff": pl.Int64()},
    )
    summed = rows.group_by("n", "last").agg(pl.col("_diff").sum()).filter(pl.col("_diff") != 0)
    assert summed.rows() == [(5, "z", 1)]
    assert summed.drop("_diff").rows() == total.read().rows()
    assert rows["_epoch"].min() == 0
    engine.close()


def ref(epoch: int, size: int) -> DeltaRef:
    return DeltaRef(epoch, PieceRef(f"{epoch}", 0, size, 0, 1))


def test_small_files_are_read_together_in_order(monkeypatch):
    monkeypatch.setattr(delta_readers, "PARTITION_BYTES", 10)
    parts = in_partitions([ref(3, 4), ref(1, 4), ref(2, 4), ref(4, 30), ref(5, 1)])
    assert [[each.epoch for each in part.refs] for part in parts] == [[1, 2], [3], [4], [5]]
    assert in_partitions([]) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"view": None}, "option 'view' is missing"),
        ({"path": None}, "option 'path' is missing"),
        ({"maxEpochsPerTrigger": "0"}, "option 'maxEpochsPerTrigger' is '0'; give a whole number"),
        ({"since": "-1"}, "option 'since' is '-1'; give a whole number"),
        ({"until": "latest"}, "option 'until' is 'latest'; give a whole number"),
        ({"since": "3", "until": "2"}, "option 'until' is 2, which is before 'since', 3; swap them"),
        (
            {"startingEpoch": "4", "endingEpoch": "2"},
            "option 'endingEpoch' is 2, which is before 'startingEpoch', 4; swap them",
        ),
        (
            {"provider": "evercurrent", "owner": "me"},
            r"cannot be the format of a table.*; make a view: CREATE TEMPORARY VIEW",
        ),
        (
            {"untill": "2", "from": "1"},
            "there is no option 'untill', 'from'; the options are 'path', .*: correct it, or leave",
        ),
    ],
)
def test_options_are_checked(options, message):
    given = {"path": "p", "view": "v"} | options
    with pytest.raises(InputError, match=f"format 'evercurrent':? {message}"):
        read_options({name: value for name, value in given.items() if value is not None})


@pytest.mark.parametrize(
    "dtype",
    [
        *(dtype() for dtype in NAMES if dtype not in (pl.Array, pl.Enum, pl.List, MAP, pl.Struct)),
        pl.List(pl.List(pl.Datetime("ms", "Europe/Berlin"))),
        pl.Struct({"a b": pl.Enum(["x", "it's", "λ"]), "": pl.Array(pl.Int8, 3)}),
        pl.Array(pl.Int64, (2, 3)),
        *([] if MAP is None else [pl.Map(pl.String, pl.Decimal(20, 3))]),
        pl.Duration("ns"),
    ],
    ids=repr,
)  # fmt: skip
def test_types_are_read_back_from_their_words(dtype):
    assert dtype_of_text(dtype_text(dtype)) == dtype


@pytest.mark.parametrize(
    "text", ["", "Int65", "__import__('os')", "List", "List(os.system)", "7", "Int64.x", "[Int64]"]
)
def test_words_that_are_no_type_are_refused(text):
    with pytest.raises(ValueError, match=r"not a column type|not part of a column type"):
        dtype_of_text(text)
