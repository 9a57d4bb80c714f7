"""A program as a user writes it who runs mypy and pyright in strict mode: what the README shows, with types.

It is checked and not run: ``tests/test_typed_examples.py``, and ``tests/test_users_types.py`` for its names.
"""

# pyright: strict

from collections.abc import Iterator
from datetime import datetime, timedelta

import polars as pl

import evercurrent as ec
from evercurrent import spark_bridge, testing


def orders_by_city() -> pl.DataFrame:
    """The first example: a chain of groupings over rows that are taken back."""
    engine = ec.Engine()
    orders = engine.source(
        "orders", {"customer": pl.String, "city": pl.String, "amount": pl.Int64}, kind="diffs"
    )
    customers = engine.view(
        "customers", orders.group_by("customer", "city").agg(spent=pl.col("amount").sum())
    )
    cities = engine.view(
        "cities", customers.group_by("city").agg(customers=pl.len(), best=pl.col("spent").max())
    )
    epoch: int = engine.push("orders", pl.DataFrame({"customer": ["ada"], "city": ["Oslo"], "amount": [40]}))
    engine.push("orders", {"customer": ["ada"], "city": ["Oslo"], "amount": [40], "_diff": [-1]})
    with engine.epoch():
        engine.push("orders", {"customer": ["eve"], "city": ["Bonn"], "amount": [2]})
    for delta in cities.deltas(since=epoch):
        print(delta.sort("city", "_diff"))
    refused: pl.DataFrame = engine.ledger()
    print(refused, engine.explain(), engine.positions)
    return cities.read().sort("city")


def rows_by_key(engine: ec.Engine) -> ec.View:
    """An upsert source, and methods of a LazyFrame."""
    users = engine.source(
        "users",
        {"id": pl.Int64, "name": pl.String, "changed_at": pl.Datetime("us")},
        kind="upsert",
        key="id",
        sequence_by="changed_at",
    )
    named: ec.Collection = users.filter(pl.col("name").is_not_null()).with_columns(
        short=pl.col("name").str.slice(0, 3)
    )
    both = ec.concat([named.select("id", "short"), named.select("id", "short")])
    return engine.view("named", both.join(users, on="id", how="left").unique())


def sessions_of_scores() -> Iterator[pl.DataFrame]:
    """The four questions of event time."""
    engine = ec.Engine(record=True, on_bad_rows="ledger")
    scores = engine.source(
        "scores",
        {"team": pl.String, "points": pl.Int64, "at": pl.Datetime("us")},
        event_time="at",
        watermark=ec.bounded_delay(timedelta(minutes=1)),
    )
    rounds = (
        scores.window(ec.sessions("1m"))
        .trigger(early=ec.any_of(ec.after_count(2), ec.every("1m")), late=ec.each_row())
        .accumulate("retracting")
        .lateness("1h")
        .group_by("team")
        .agg(points=pl.col("points").sum())
    )
    view = engine.view("rounds", rounds)
    engine.push(
        "scores",
        {"team": ["red"], "points": [5], "at": [datetime(2026, 1, 1, 12)]},
        watermark=datetime(2026, 1, 1, 12, 5),
    )
    reasons: str = view.why("red")
    origins = view.lineage({"team": "red"}, limit=10)
    changes = view.history("red", since=0)
    proofs = engine.prove(sample=0.5)
    proof = proofs["rounds"]
    drawn: list[str] = [origins.svg(), origins.mermaid(), changes.text(), *map(str, changes.remarks)]
    print(drawn, changes.frame(), changes[0].causes, proof.since, proof.unproved, proofs.refused)
    view.timeline("points").save("run.svg")
    print(reasons)
    latest = engine.view("now", view.latest())
    print(latest.snapshot())
    yield from view.deltas()


def kept(folder: str) -> list[str]:
    """State that survives, and errors."""
    received: list[str] = []

    def note(delta: pl.DataFrame) -> None:
        received.append(str(delta.height))

    try:
        with ec.Engine(checkpoint=ec.Checkpoint(folder, keep=3), retain=ec.Retain(epochs=10)) as engine:
            sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64}, retained=True)
            takings = engine.view("takings", sales.group_by("shop").agg(total=pl.col("price").sum()))
            takings.subscribe(note, name="mail")
            engine.push("sales", {"shop": ["north"], "price": [2]}, position=0)
            engine.checkpoint()
            print(takings.read(epoch=0), takings.schema)
    except (ec.CheckpointError, ec.PlanError, ec.InputError) as error:
        received.append(str(error))
    return received


def operated(engine: ec.Engine, view: ec.View) -> str:
    """Figures, events, and names that users of other systems bring."""
    events: list[ec.EpochEvent] = []
    engine.watch(events.append)
    subscription = view.subscribe(print, queue=10, on_full="drop")
    subscription.close()
    found: pl.DataFrame = view.lookup("red", team="red") if len(view) > 3 else view.head()
    engine.sources["scores"].push({"team": ["red"]}, at="2026-01-31T12:00:00Z")
    totals: ec.Collection = (
        view.group_by("team").len("n").unique("n", keep="last", by="team").unpivot(index="team")
    )
    return ec.prometheus_text(engine.stats()) + str((events, found, totals, view.to_arrow().num_rows))


def declared_later(engine: ec.Engine, orders: ec.Source) -> ec.View:
    """A view that is declared while the engine runs, and follows its columns."""
    changes: list[ec.SchemaChange] = []
    rows = {"orders": ec.Backfill([{"amount": 3}], position=7)}
    view = engine.view("late", orders.group_by("city").len(), replace=True, backfill=rows)
    view.subscribe(print, on_schema=changes.append)
    pieces: list[ec.FillProgress] = []
    later = engine.view("later", view.group_by("city").len(), background=True, on_progress=pieces.append)
    try:
        later.wait(timeout=10.0)
    except ec.NotFilledError as error:
        progress = later.filling or engine.filling["later"]
        print(error, progress.share, progress.seconds_left, later.follow(on_schema=changes.append))
    return view


async def followed(engine: ec.Engine, view: ec.View) -> int:
    """A task that pushes and follows."""
    epoch: int = await engine.apush("scores", {"team": ["red"]}, watermark="2026-01-31")
    async for delta in view.follow(since=epoch):
        return delta.height
    return 0


def in_spark(engine: ec.Engine, folder: str) -> pl.DataFrame:
    """The same views inside Spark."""
    spark = spark_bridge.local_session()
    stream = spark.readStream.schema("ip string").parquet(folder)
    query = spark_bridge.run(
        engine, {"hits": stream}, checkpoint="hits.checkpoint", buckets=4, trigger={"availableNow": True}
    )
    engine.source("clicks", {"ip": pl.String})
    query.add_streams({"clicks": spark.readStream.schema("ip string").parquet("clicks")})
    query.await_termination()
    query.view("visitors").to_spark().createOrReplaceTempView("visitors")
    spark_bridge.run_batch(engine, {"hits": spark.read.parquet(folder)}, checkpoint="other.checkpoint")
    print(spark_bridge.views(engine, "hits.checkpoint")["depth"].read())
    progress: spark_bridge.EpochProgress | None = query.progress()
    if progress is not None and progress.slowest is not None:
        print(progress.slowest.slowest_bucket, progress.stages[0].ran_in, query.explain())
    return query.view("depth").read()


def on_a_cluster(engine: ec.Engine, master: str) -> spark_bridge.Query:
    """Executors get this environment, and nothing else."""
    environment = spark_bridge.deploy.archive("environment.tar.gz", include=["my_functions"], level=0)
    try:
        spark = spark_bridge.session("views", master=master, archive=environment)
        stream = spark.readStream.schema("ip string").parquet("hits")
        return spark_bridge.run(engine, {"hits": stream}, checkpoint="hits.checkpoint", driver_bytes=1 << 24)
    except spark_bridge.PreflightError as error:
        raise SystemExit(str(error)) from error


def played(engine: ec.Engine) -> None:
    """The test kit."""
    clock = testing.HandClock()
    dialogue = testing.play(engine)
    print(clock, dialogue)


def graph(engine: ec.Engine) -> int:
    """The plan as a graph of networkx."""
    return len(engine.plan.nodes)


def every_trigger(column: str) -> list[ec.Trigger]:
    """When panes are emitted."""

    def counted(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.with_columns(seen=pl.col("seen") + 1)

    def due(windows: pl.DataFrame) -> pl.Series:
        return windows.get_column("seen") > 3

    def begun_again(windows: pl.DataFrame) -> pl.DataFrame:
        return windows.with_columns(seen=0)

    own = ec.custom_trigger(state=["seen"], on_rows=counted, should_fire=due, on_fire=begun_again)
    return [
        ec.every_epoch(),
        ec.after_watermark(early=ec.repeat(own), late=ec.each_row()),
        ec.at_period("1h", aligned_to=datetime(2026, 1, 1)),
        ec.all_of(ec.after_bytes(100, column), ec.punctuation(column)),
        ec.sequence(ec.pattern(column, column), ec.until(ec.after_percentile(0.9), ec.signal())),
        ec.repeat(ec.after_processing_time("10 seconds")),
    ]


def every_window(hits: ec.Collection) -> list[ec.GroupedCollection]:
    """Where in event time."""

    def around(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.select(window_start=pl.col("at"), window_end=pl.col("at").dt.offset_by("1m"))

    windows: list[ec.Window] = [
        ec.fixed("1h"),
        ec.sliding("1h", every=timedelta(minutes=5)),
        ec.calendar("1mo", time_zone="Europe/Oslo"),
        ec.global_window(),
        ec.count_window(3),
        ec.last_rows(3),
        ec.custom_windows(around, merge=ec.merge_overlapping),
    ]
    return [hits.window(window).group_by("ip") for window in windows]


def every_watermark(engine: ec.Engine) -> list[ec.Source]:
    """How far event time is complete."""

    def slowly(state: int, rows: pl.DataFrame, processing_time: datetime) -> tuple[int, datetime]:
        return state + rows.height, processing_time

    watermarks: list[ec.Watermark] = [
        ec.ascending(),
        ec.perfect(),
        ec.behind_processing_time("5s"),
        ec.ingress_time(),
        ec.by_partition("ip", ec.bounded_delay("1m"), idle_after=None),
        ec.percentile_watermark(0.9, window=100),
        ec.punctuated("last"),
        ec.custom_watermark(slowly, state=0),
    ]
    columns = {"ip": pl.String(), "last": pl.Boolean(), "at": pl.Datetime("us")}
    return [
        engine.source(f"hits {place}", columns, event_time="at", watermark=watermark)
        for place, watermark in enumerate(watermarks)
    ]


def own_aggregate(orders: ec.Source) -> ec.Collection:
    """An aggregate of one's own."""

    def added(state: set[int], values: pl.Series) -> set[int]:
        return state | set(values.to_list())

    def united(one: set[int], other: set[int]) -> set[int]:
        return one | other

    distinct = ec.aggregate(create=set[int], add=added, merge=united, extract=len, dtype=pl.Int64)
    return orders.group_by("shop").agg(distinct(pl.col("price")).alias("prices"))


def every_error(engine: ec.Engine) -> str:
    """What can be caught, and what it is a kind of."""
    try:
        engine.push("orders", {"amount": [1]}, watermark=ec.END_OF_TIME)
    except (ec.ArithmeticRefusedError, ec.FileError, ec.RetractionError) as error:
        wrong: ec.InputError = error
        return str(wrong)
    except (ec.MissingFileError, ec.NameTakenError, ec.CorruptFileError) as error:
        lost: ec.CheckpointError = error
        return str(lost)
    except (ec.EpochGoneError, ec.SinkError, ec.SubscriberError) as error:
        other: ec.EvercurrentError = error
        return str(other)
    except ec.GrowthWarning as warning:
        return str(warning)
    snapshot: ec.Snapshot = engine.views["orders"].snapshot()
    return str(snapshot)


def changes_of_other_systems(engine: ec.Engine) -> list[str]:
    """Sources whose changes come as messages."""
    schema = {"id": pl.Int64, "lsn": pl.Int64}
    debezium = ec.Debezium(columns={"lsn": "source.lsn"}, time_unit="us", tombstones="skip")
    tables = engine.source("tables", schema, kind="upsert", key="id", sequence_by="lsn", format=debezium)
    pairs = engine.source("pairs", schema, kind="diffs", format=ec.BeforeAfter(before="old_", after="new_"))
    feed = engine.source("feed", schema, kind="diffs", format=ec.ChangeFeed())
    return [each.name for each in (tables, pairs, feed)]


def kept_outside(view: ec.View, folder: str) -> bool:
    """A view as a table of a database and as files of deltas."""
    table: ec.Delivery = view.to_sql(f"sqlite:///{folder}/views.db", "sums", retry=ec.Retry(most_seconds=5))
    feed = view.to_parquet(f"{folder}/feed")
    return table.join(10) and feed.join() and table.lag == 0
