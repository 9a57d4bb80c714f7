"""Change messages as a topic has them, in a stream and in a batch: the same as in an engine. On a real Spark, without a broker."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.errors import InputError
from evercurrent.spark_bridge import run, run_batch
from recorded_changes import ROW, SMALL, recorded
from spark.test_query import ONCE, assert_same
from thinned import some_of

BAD = pl.DataFrame(
    {
        "key": [b"k", b"k"],
        "value": [b"{", b"\xff"],
        "topic": "shop.public.orders",
        "partition": 0,
        "offset": [90, 91],
    },
    schema_overrides={"partition": pl.Int32},
)


def declare(engine: ec.Engine, kind: Any) -> None:
    if kind == "diffs":
        orders = engine.source("orders", ROW, kind=kind, format=ec.Debezium(time_unit="us"))
    else:
        orders = engine.source(
            "orders", {**ROW, "offset": pl.Int64}, kind=kind, key="id", sequence_by="offset",
            format=ec.Debezium(columns={"offset": "kafka.offset"}, time_unit="us"),
        )  # fmt: skip
    engine.view("states", orders.group_by("state").agg(n=pl.len(), price=pl.col("price").sum()))
    engine.view("now", orders)


@pytest.mark.parametrize(
    ("driver_rows", "kind"),
    some_of(product([200_000, 0], ["diffs", "upsert"]), [(200_000, "upsert"), (0, "diffs")]),
)
def test_a_stream_of_messages_is_the_same_as_pushed_ones(
    feed: Any, checkpoint: Path, driver_rows: int, kind: str
) -> None:
    """In the driver and in workers; bad messages are in the ledger, with their texts."""
    plain, wrapped = recorded("debezium-plain"), recorded("debezium-with-schema")
    frames = [plain[:2], pl.concat([wrapped[2:5], BAD]), plain[5:]]
    engine, embedded = ec.Engine(), ec.Engine(on_bad_rows="ledger")
    declare(engine, kind)
    declare(embedded, kind)
    for frame in frames:
        embedded.push("orders", frame)
    query = run(
        engine, {"orders": feed(frames)}, checkpoint=checkpoint, buckets=3, trigger=ONCE, driver_rows=driver_rows,
        on_bad_rows="ledger",
    )  # fmt: skip
    query.await_termination()
    assert_same(query, embedded)
    assert query.view("now").read().height == 2
    assert sorted(query.ledger().rows()) == sorted(embedded.ledger().rows())
    assert query.ledger().height == 2


def test_changes_as_rows_come_in_a_batch(spark: Any) -> None:
    """Delta's feed, and both sides of a change in columns, beside a source of plain rows; without a key a text does for messages."""
    engine = ec.Engine()
    feed = engine.source("feed", SMALL, kind="diffs", format=ec.ChangeFeed())
    pairs = engine.source("pairs", SMALL, kind="diffs", format=ec.BeforeAfter())
    texts = engine.source("texts", SMALL, kind="append", format=ec.Debezium())
    plain = engine.source("plain", SMALL)
    engine.view("all", ec.concat([feed, pairs, texts, plain]).group_by("name").len("n"))
    done = run_batch(
        engine,
        {
            "feed": spark.sql(
                "select * from values (1L, 'a', 'insert', 1L), (1L, 'a', 'update_preimage', 2L), (1L, 'b', 'update_postimage', 2L) "
                "as t(id, name, _change_type, _commit_version)"
            ),
            "pairs": spark.sql(
                "select * from values (null, null, 2L, 'b'), (2L, 'b', 3L, 'c') as t(before_id, before_name, after_id, after_name)"
            ),
            "texts": spark.sql(
                "select to_json(struct('c' as op, struct(4L as id, 'd' as name) as after)) as value"
            ),
            "plain": spark.sql("select 5L as id, 'd' as name"),
        },
    )
    assert sorted(done.view("all").read().rows()) == [("b", 1), ("c", 1), ("d", 2)]


@pytest.mark.parametrize(
    ("select", "words"),
    [
        ("select 'c' as op", r"column 'value' is missing, in which messages come; there are 'op'.*to_json"),
        ("select '{}' as value, 1 as more", r"column 'more' is no part of a message"),
        ("select 1 as value", r"column 'value' is int, and messages have Binary there"),
    ],
)
def test_other_columns_are_refused_before_anything_runs(spark: Any, select: str, words: str) -> None:
    engine = ec.Engine()
    engine.view("now", engine.source("pets", SMALL, format=ec.Debezium()))
    with pytest.raises(InputError, match=words):
        run_batch(engine, {"pets": spark.sql(select)})
