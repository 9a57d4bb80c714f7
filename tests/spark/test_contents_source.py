"""The format "evercurrent": contents as of an epoch, contents and then deltas, change types, given columns, conditions on epochs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

pytest.importorskip("pyspark")

import evercurrent as ec
from evercurrent.core.data.errors import EpochGoneError, EvercurrentError, InputError
from evercurrent.spark_bridge.output.delta_options import read_options
from evercurrent.spark_bridge.output.delta_source import ViewDeltas
from evercurrent.spark_bridge.output.epoch_filters import narrowed
from evercurrent.spark_bridge.output.registration import register

APP = """
import evercurrent as ec
import polars as pl

def engine():
    made = ec.Engine()
    rows = made.source("rows", {"k": pl.Int64, "v": pl.Int64}, kind="diffs")
    made.view("sums", rows.group_by("k").agg(v=pl.col("v").sum(), parts=pl.struct(most=pl.col("v").max())))
    return made
"""


def declared(checkpoint: Path | None = None, keep: int = 1000) -> ec.Engine:
    engine = ec.Engine(checkpoint=checkpoint and ec.Checkpoint(checkpoint, keep=keep, grace="0s"))
    rows = engine.source("rows", {"k": pl.Int64, "v": pl.Int64}, kind="diffs")
    engine.view("sums", rows.group_by("k").agg(v=pl.col("v").sum(), parts=pl.struct(most=pl.col("v").max())))
    return engine


@pytest.fixture
def engine(checkpoint: Path) -> Iterator[ec.Engine]:
    with declared(checkpoint) as engine:
        for epoch in range(5):
            engine.push("rows", {"k": [epoch, 0, 1], "v": [1, epoch, 2]})
            engine.checkpoint()  # What is committed can be read elsewhere.
        yield engine


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "my_sums.py").write_text(APP)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "my_sums"


def source(checkpoint: Path, **options: str) -> ViewDeltas:
    return ViewDeltas({"path": str(checkpoint), "view": "sums", **options})


def rows_of(reader: Any, parts: Any = None) -> list[tuple]:
    """The rows of all partitions of a reader, as a task returns them."""
    batches = [
        batch for part in (reader.partitions() if parts is None else parts) for batch in reader.read(part)
    ]
    return sorted((tuple(row.values()) for batch in batches for row in batch.to_pylist()), key=repr)


def sums(view: pl.DataFrame) -> list[tuple]:
    return sorted(view.rows(), key=repr)


@pytest.mark.parametrize("named", [False, True], ids=["summed", "app"])
def test_contents_as_of_an_epoch(engine: ec.Engine, checkpoint: Path, app: str, named: bool) -> None:
    options = {"app": app} if named else {}
    for epoch in range(1, 6):
        there = rows_of(source(checkpoint, versionAsOf=str(epoch), **options).reader(None))
        assert there == sums(engine.views["sums"].read(epoch=epoch))
    assert rows_of(source(checkpoint, versionAsOf="latest", **options).reader(None)) == sums(
        engine.views["sums"].read()
    )


def test_contents_in_buckets_are_read_side_by_side(checkpoint: Path, app: str) -> None:
    from evercurrent.views.checkpoint.rebucket import rebucket
    from evercurrent.views.store import store_at

    with declared(checkpoint) as engine:
        engine.push("rows", {"k": list(range(50)), "v": [1] * 50})
        expected = sums(engine.views["sums"].read())
    rebucket(store_at(str(checkpoint)), 4)
    reader = source(checkpoint, versionAsOf="latest", app=app).reader(None)
    assert len(reader.partitions()) == 4
    assert rows_of(reader) == expected


def test_without_all_deltas_the_application_is_needed(checkpoint: Path, app: str) -> None:
    from evercurrent.views.checkpoint.compacting import compact
    from evercurrent.views.store import store_at

    with declared(checkpoint, keep=1) as engine:
        for epoch in range(5):
            engine.push("rows", {"k": [epoch % 3], "v": [1]})
        expected = sums(engine.views["sums"].read())
    compact(store_at(str(checkpoint)), keep=1, grace=0.0)
    with pytest.raises(
        EpochGoneError, match=r"no longer all retained; name the module that declares it.*'app'"
    ):
        source(checkpoint, versionAsOf="latest").reader(None).partitions()
    assert rows_of(source(checkpoint, versionAsOf="latest", app=app).reader(None)) == expected


def test_a_stream_begins_with_the_contents(engine: ec.Engine, checkpoint: Path) -> None:
    stream = source(checkpoint, since="contents").streamReader(None)
    start = stream.initialOffset()
    first = rows_of(stream, stream.partitions(start, {"epoch": 3}))
    assert [row[:-2] for row in first] == [tuple(row) for row in as_dicts(engine.views["sums"].read(epoch=3))]
    assert {row[-2:] for row in first} == {(3, 1)}
    again = source(checkpoint, since="contents").streamReader(None)
    assert rows_of(again, again.partitions(again.initialOffset(), {"epoch": 3})) == first
    later = rows_of(stream, stream.partitions({"epoch": 3}, {"epoch": 5}))
    deltas = source(checkpoint, since="3").reader(None)
    assert later == rows_of(deltas)


def as_dicts(frame: pl.DataFrame) -> list[tuple]:
    return sorted((tuple(row.values()) for row in frame.to_dicts()), key=repr)


def test_change_types_are_those_of_deltas_feed(engine: ec.Engine, checkpoint: Path) -> None:
    """A source with ``format=ec.ChangeFeed()`` takes them."""
    engine.push("rows", {"k": [2], "v": [1], "_diff": [-1]})
    engine.checkpoint()
    reader = source(checkpoint, changeTypes="true", key="k").reader(None)
    frames = [pl.DataFrame(batch) for part in reader.partitions() for batch in reader.read(part)]
    feed = pl.concat(frames)
    assert set(feed["_change_type"]) == {"insert", "update_preimage", "update_postimage", "delete"}
    assert feed.columns == ["k", "v", "parts", "_epoch", "_change_type"]
    other = ec.Engine()
    schema = dict(engine.views["sums"].schema)
    rows = other.source("rows", schema, kind="diffs", format=ec.ChangeFeed())
    copied = other.view("copy", rows.filter(pl.lit(True)))
    for epoch in sorted(feed["_epoch"].unique()):
        other.push("rows", feed.filter(pl.col("_epoch") == epoch).drop("_epoch"))
    assert sums(copied.read()) == sums(engine.views["sums"].read())


def test_first_and_last_epoch(engine: ec.Engine, checkpoint: Path) -> None:
    one = source(checkpoint, startingEpoch="3", endingEpoch="4").reader(None)
    other = source(checkpoint, since="2", until="4").reader(None)
    assert rows_of(one) == rows_of(other) != []


def test_conditions_on_epochs_limit_the_files() -> None:
    filters = pytest.importorskip("pyspark.sql.datasource")
    if not hasattr(filters, "EqualTo"):
        pytest.skip("PySpark 4.0 passes no conditions")
    of = ("_epoch",)
    cases = [
        ([filters.EqualTo(of, 3)], (2, 3)),
        ([filters.GreaterThan(of, 3)], (3, None)),
        ([filters.GreaterThanOrEqual(of, 3), filters.LessThan(of, 5)], (2, 4)),
        ([filters.LessThanOrEqual(of, 5), filters.EqualTo(("k",), 9)], (-1, 5)),
        ([filters.In(of, (7, 4))], (3, 7)),
        ([filters.Not(filters.EqualTo(of, 3)), filters.EqualTo(of, None)], (-1, None)),
    ]
    for conditions, span in cases:
        assert narrowed((-1, None), conditions) == span
    assert narrowed((2, 4), [filters.GreaterThan(of, 0), filters.LessThan(of, 9)]) == (2, 4)


def test_conditions_only_leave_rows_out(tmp_path: Path) -> None:
    """Of a view that was declared again, deltas begin with its present definition, whatever epochs a condition names."""
    filters = pytest.importorskip("pyspark.sql.datasource")
    if not hasattr(filters, "EqualTo"):
        pytest.skip("PySpark 4.0 passes no conditions")
    checkpoint = tmp_path / "checkpoint"
    with ec.Engine(checkpoint=checkpoint) as engine:
        rows = engine.source("rows", {"k": pl.Int64}, retained=True)
        engine.view("sums", rows.group_by("k").len("n"))
        for k in range(3):
            rows.push({"k": [k]})
        engine.drop_view("sums")
        engine.view("sums", rows.group_by("k").agg(most=pl.col("k").max()))
        rows.push({"k": [7]})
        born = engine.epoch_number
    everything = rows_of(source(checkpoint).reader(None))
    assert everything
    of = ("_epoch",)
    for condition in (filters.GreaterThan(of, 1), filters.In(of, (2, born)), filters.EqualTo(of, 2)):
        reader: Any = source(checkpoint).reader(None)
        reader.pushFilters([condition])
        expected = [] if isinstance(condition, filters.EqualTo) else everything
        assert rows_of(reader) == expected
    with pytest.raises(
        EpochGoneError, match=r"begins at epoch \d+, .*; read its contents with option 'versionAsOf'"
    ):
        rows_of(source(checkpoint, since="1").reader(None))
    with pytest.raises(
        EpochGoneError,
        match=r"; begin with option 'since', 'contents', and a new checkpoint of this query \(checkpointLocation, or checkpoint=",
    ):
        source(checkpoint, since="1").streamReader(None).partitions({"epoch": 1}, {"epoch": born})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"versionAsOf": "1", "until": "2"},
            r"option 'until' is for deltas, and 'versionAsOf' reads contents",
        ),
        ({"since": "1", "startingEpoch": "2"}, r"options 'since' and 'startingEpoch' are both given"),
        ({"key": "k"}, r"option 'key' is for 'changeTypes'; give"),
        ({"app": "x"}, r"option 'app' is for contents, as with 'versionAsOf' or since 'contents'"),
        ({"changeTypes": "yes"}, r"option 'changeTypes' is 'yes'; give 'true' or 'false'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_options({"path": "p", "view": "v", **options})


def test_what_does_not_fit_the_view_is_refused(engine: ec.Engine, checkpoint: Path) -> None:
    from pyspark.sql.types import LongType, StringType, StructType

    for options, schema, message in (
        (
            {},
            StructType().add("w", LongType()),
            r"there is no column 'w'; there are 'k', 'v', 'parts', '_epoch', '_diff'",
        ),
        (
            {},
            StructType().add("k", StringType()),
            r"column 'k' is bigint, and the schema that is given has string",
        ),
        (
            {"changeTypes": "true", "key": "w"},
            None,
            r"option 'key' has 'w'; view 'sums' .* has 'k', 'v', 'parts'",
        ),
        (
            {"since": "contents"},
            None,
            r"is for spark.readStream, and this is spark.read; give option 'versionAsOf'",
        ),
        ({"versionAsOf": "9"}, None, r"option 'versionAsOf' is 9, and view 'sums' .* is at epoch 5"),
    ):
        with pytest.raises(EvercurrentError, match=message):
            source(checkpoint, **options).reader(schema)


def test_from_sql_and_as_a_stream(
    spark: Any, engine: ec.Engine, checkpoint: Path, app: str, tmp_path: Path
) -> None:
    """No engine is in the job: contents as of an epoch, a condition on epochs, given columns, and errors without a traceback."""
    register(spark)
    by_file = tmp_path / "my_sums.py"  # Spark's processes do not have the path of modules of this one.
    options = f"path '{checkpoint}', view 'sums'"
    spark.sql(
        f"create temporary view now_sums using evercurrent options ({options}, versionAsOf 'latest', app '{by_file}')"
    )
    spark.sql(
        f"create temporary view feed (k bigint, _epoch bigint, _diff bigint) using evercurrent options ({options})"
    )
    try:
        read = engine.views["sums"].read()
        assert sorted(spark.sql("select k, v, parts.most from now_sums").collect()) == sorted(
            zip(read["k"], read["v"], read["parts"].struct.field("most"), strict=True)
        )
        some = spark.sql("select * from feed where _epoch = 4 and _diff > 0")
        assert some.columns == ["k", "_epoch", "_diff"]
        assert sorted(row["k"] for row in some.collect()) == sorted(
            next(delta for delta in engine.views["sums"].deltas(since=3)).filter(pl.col("_diff") > 0)["k"]
        )
    finally:
        for name in ("now_sums", "feed"):
            spark.catalog.dropTempView(name)
    taken: list[tuple[int, list[tuple]]] = []
    stream = spark.readStream.format("evercurrent").option("path", str(checkpoint)).option("view", "sums")
    query = (
        stream.option("since", "contents").load().select("k", "v", "_epoch", "_diff").writeStream
        .foreachBatch(lambda rows, number: taken.append((number, sorted(map(tuple, rows.collect())))))
        .option("checkpointLocation", str(tmp_path / "own")).start()
    )  # fmt: skip
    try:
        query.processAllAvailable()
        engine.push("rows", {"k": [9], "v": [9]})
        engine.checkpoint()
        query.processAllAvailable()
    finally:
        query.stop()
    assert taken == [
        (0, sorted((k, v, 5, 1) for k, v in read.select("k", "v").rows())),
        (1, [(9, 9, 6, 1)]),
    ]
