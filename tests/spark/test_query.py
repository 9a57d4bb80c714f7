"""Views inside a real Spark: what the embedded engine has, after every micro-batch, whatever happens on the way."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.errors import CheckpointError, InputError, PlanError
from evercurrent.spark_bridge import run, run_batch
from spark.twins import counted

LONG = os.environ.get("EVERCURRENT_TEST_PROFILE") == "long"
ONCE = {"availableNow": True}
NOON = datetime(2026, 1, 31, 12)

Declare = Callable[[ec.Engine], None]


def declared(declare: Declare) -> ec.Engine:
    engine = ec.Engine()
    declare(engine)
    return engine


def pushed(declare: Declare, epochs: Sequence[dict[str, pl.DataFrame]]) -> ec.Engine:
    """The embedded engine after these epochs."""
    engine = declared(declare)
    for rows in epochs:
        with engine.epoch():
            for name, frame in rows.items():
                engine.push(name, frame)
    return engine


def assert_same(query: Any, engine: ec.Engine, *, since: int = -1) -> None:
    """Every view has the same deltas, epoch by epoch, and holds the same rows."""
    assert query.epoch_number == engine.epoch_number
    for name, view in engine.views.items():
        of_query = {
            frame["_epoch"][0]: counted([frame.drop("_epoch")]) for frame in query.view(name).deltas(since)
        }
        own = {frame["_epoch"][0]: counted([frame.drop("_epoch")]) for frame in view.deltas(since)}
        assert of_query == own, name
        assert counted([query.view(name).read()]) == counted([view.read()]), name


# The chain


def chain(engine: ec.Engine) -> None:
    events = engine.source("events", {"key": pl.Int64, "x": pl.Float64}, kind="diffs")
    by_key = engine.view("by_key", events.group_by("key").agg(n=pl.len(), x=pl.col("x").sum()))
    histogram = by_key.group_by("n").agg(keys=pl.len(), x=pl.col("x").sum(), most=pl.col("x").max())
    engine.view("histogram", histogram)
    engine.view("total", histogram.group_by().agg(keys=pl.col("keys").sum(), values=pl.col("x").n_unique()))


def events(epochs: int = 4, rows: int = 300) -> list[dict[str, pl.DataFrame]]:
    """Rows of some keys, a third of which are taken back an epoch later."""
    frames, before = [], None
    for epoch in range(epochs):
        numbers = pl.Series("key", range(epoch * rows, (epoch + 1) * rows))
        frame = pl.DataFrame({"key": numbers * 7919 % 101, "x": (numbers % 13) / 10, "_diff": [1] * rows})
        gone = None if before is None else before[::3].with_columns(_diff=pl.lit(-1, pl.Int64))
        frames.append({"events": frame if gone is None else pl.concat([frame, gone])})
        before = frame
    return frames


@pytest.mark.parametrize(("driver_rows", "buckets"), [(200_000, 4), (0, 4)])
def test_chain(spark: Any, feed: Any, checkpoint: Path, driver_rows: int, buckets: int) -> None:
    """A007: three stages of groupings with retractions, in the driver process and in tasks."""
    epochs = events()
    stream = feed([rows["events"] for rows in epochs])
    query = run(
        declared(chain),
        {"events": stream},
        checkpoint=checkpoint,
        buckets=buckets,
        trigger=ONCE,
        driver_rows=driver_rows,
    )
    query.await_termination()
    assert_same(query, pushed(chain, epochs))
    assert (query._batches.opened().ran_elsewhere > 0) == (driver_rows == 0)
    view = query.view("histogram")
    assert counted([view.to_spark().toArrow() and pl.from_arrow(view.to_spark().toArrow())]) == counted(
        [view.read()]
    )  # type: ignore[list-item]
    old = pushed(chain, epochs[:2]).views["histogram"].read()
    assert counted([view.read(epoch=2)]) == counted([old])
    assert counted([pl.from_arrow(view.to_spark(epoch=2).toArrow())]) == counted([old])  # type: ignore[list-item]


def test_batch(spark: Any) -> None:
    rows = events(1)[0]["events"]
    from evercurrent.spark_bridge.execution.frames import from_polars

    done = run_batch(declared(chain), {"events": from_polars(spark, "events", rows)}, buckets=3)
    assert_same(done, pushed(chain, [{"events": rows}]))


# Joins, several sources, time


def orders(engine: ec.Engine) -> None:
    lines = engine.source(
        "lines",
        {"user": pl.String, "amount": pl.Int64, "at": pl.Datetime("us")},
        event_time="at",
        watermark=ec.bounded_delay("10m"),
    )
    users = engine.source("users", {"user": pl.String, "town": pl.String}, kind="upsert", key="user")
    engine.view("named", lines.join(users, on="user", how="left"))
    by_town = (
        lines.join(users, on="user")
        .group_by("town")
        .agg(amount=pl.col("amount").sum(), users=pl.col("user").n_unique())
    )
    engine.view("towns", by_town)
    sessions = (
        lines.window(ec.sessions("20m"))
        .with_pane_info()
        .trigger(ec.after_watermark(early=ec.after_count(2), late=ec.each_row()))
        .accumulate("retracting")
        .lateness("30m")
        .group_by("user")
        .agg(lines=pl.len(), amount=pl.col("amount").sum(), first=pl.col("amount").first())
    )
    engine.view("visits", sessions)
    engine.view("depth", sessions.group_by("lines").agg(visits=pl.len()))
    engine.view("late", lines.window(ec.fixed("1h")).lateness("5m").group_by("user").agg(pl.len()))


def line(user: str, amount: int, minute: float) -> dict[str, Any]:
    return {"user": user, "amount": amount, "at": NOON + timedelta(minutes=minute)}


def lines(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"user": pl.String, "amount": pl.Int64, "at": pl.Datetime("us")})


LINES = [
    lines(line("a", 1, 0), line("b", 2, 5), line("a", 3, 30)),
    lines(line("a", 4, 15), line("c", 5, 90), line("b", 6, 60)),  # joins two sessions of a
    lines(line("b", 7, 400), line("a", 8, 3)),  # one too late
    lines(line("d", 9, 700)),
]
USERS = [
    pl.DataFrame({"user": ["a", "b"], "town": ["Ulm", "Bern"], "_diff": [1, 1]}),
    pl.DataFrame({"user": ["a", "c"], "town": ["Graz", "Ulm"], "_diff": [1, 1]}),
    pl.DataFrame({"user": ["b"], "town": [None], "_diff": [-1]}, schema_overrides={"town": pl.String}),
    pl.DataFrame({"user": ["d"], "town": ["Bern"], "_diff": [1]}),
]


def test_sources_joins_and_sessions(spark: Any, feed: Any, checkpoint: Path) -> None:
    """A163: several sources in one micro-batch, joins, sessions that merge, panes, the ledger."""
    sources = {"lines": feed(LINES, "lines"), "users": feed(USERS, "users")}
    query = run(declared(orders), sources, checkpoint=checkpoint, buckets=4, trigger=ONCE)
    query.await_termination()
    query.finish()
    embedded = pushed(orders, [{"lines": a, "users": b} for a, b in zip(LINES, USERS, strict=True)])
    embedded.advance("lines", ec.END_OF_TIME)
    untimed = ("pane_processing_time",)
    for name, view in embedded.views.items():
        of_query = counted([frame.drop(untimed, strict=False) for frame in query.view(name).deltas()])
        assert of_query == counted([frame.drop(untimed, strict=False) for frame in view.deltas()]), name
    assert query.watermarks == embedded.watermarks
    assert query.ledger().sort("row", "reason").equals(embedded.ledger().sort("row", "reason"))
    assert query.ledger("lines").height == embedded.ledger("lines").height > 0


# Starting again


def test_it_goes_on_where_it_ended(spark: Any, feed: Any, checkpoint: Path) -> None:
    """A micro-batch that Spark has not recorded as done is skipped; one that is not done is run."""
    epochs = [rows["events"] for rows in events(4)]
    stream = feed(epochs[:2])
    first = run(declared(chain), {"events": stream}, checkpoint=checkpoint, buckets=4, trigger=ONCE)
    first.await_termination()
    forget_last_commit(checkpoint / "spark")
    feed(epochs[2:])
    again = run(declared(chain), {"events": stream}, checkpoint=checkpoint, buckets=4, trigger=ONCE)
    again.await_termination()
    assert_same(again, pushed(chain, [{"events": frame} for frame in epochs]))


def forget_last_commit(folder: Path) -> None:
    """Leave Spark's checkpoint as it is when the driver dies after our commit and before Spark's."""
    last = max(
        (path for path in (folder / "commits").iterdir() if path.name.isdigit()),
        key=lambda path: int(path.name),
    )
    last.unlink()
    (folder / "commits" / f".{last.name}.crc").unlink(missing_ok=True)


def test_both_checkpoints_belong_together(spark: Any, feed: Any, checkpoint: Path) -> None:
    stream = feed([rows["events"] for rows in events(2)])
    run(declared(chain), {"events": stream}, checkpoint=checkpoint, trigger=ONCE).await_termination()
    shutil.rmtree(checkpoint / "commits")
    feed([rows["events"] for rows in events(1)])
    with pytest.raises(CheckpointError, match="was committed and acknowledged, and there is no commit"):
        run(declared(chain), {"events": stream}, checkpoint=checkpoint, trigger=ONCE)
    # Nor does it go on if the note of what was acknowledged is gone as well.
    (checkpoint / "writer.acknowledged").unlink()
    broken = run(declared(chain), {"events": stream}, checkpoint=checkpoint, trigger=ONCE)
    with pytest.raises(Exception, match="belong together"):
        broken.await_termination()


def test_tasks_that_fail_are_run_again(spark: Any, feed: Any, checkpoint: Path) -> None:
    """Injected failures of first attempts, in the first stage and in a later one."""

    def fails_at_first(frame: pl.DataFrame) -> pl.DataFrame:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0:
            raise RuntimeError("the first attempt fails")
        return frame

    def wavering(engine: ec.Engine) -> None:
        source = engine.source("events", {"key": pl.Int64, "x": pl.Float64}, kind="diffs", trusted=True)
        counts = source.map_batches(fails_at_first, schema=source.schema).group_by("key").agg(n=pl.len())
        engine.view(
            "histogram",
            counts.map_batches(fails_at_first, schema=counts.schema).group_by("n").agg(keys=pl.len()),
        )

    def steady(engine: ec.Engine) -> None:
        source = engine.source("events", {"key": pl.Int64, "x": pl.Float64}, kind="diffs", trusted=True)
        engine.view("histogram", source.group_by("key").agg(n=pl.len()).group_by("n").agg(keys=pl.len()))

    epochs = events(
        2 if LONG else 1
    )  # Each task fails once, and with it ends a worker: starting others takes longer than the rest.
    stream = feed([rows["events"] for rows in epochs])
    query = run(
        declared(wavering), {"events": stream}, checkpoint=checkpoint, buckets=2, trigger=ONCE, driver_rows=0
    )
    query.await_termination()
    assert_same(query, pushed(steady, epochs))


# From one driver to the other


def test_from_spark_to_embedded_and_back(spark: Any, feed: Any, checkpoint: Path) -> None:
    """A161: a checkpoint is the same for both drivers, however many buckets each has."""
    epochs = events(6)
    stream = feed([rows["events"] for rows in epochs[:2]])
    run(
        declared(chain), {"events": stream}, checkpoint=checkpoint, buckets=4, trigger=ONCE
    ).await_termination()
    with ec.Engine(checkpoint=checkpoint) as engine:
        chain(engine)
        for rows in epochs[2:4]:
            engine.push("events", rows["events"])
    feed([rows["events"] for rows in epochs[4:]])
    query = run(declared(chain), {"events": stream}, checkpoint=checkpoint, buckets=3, trigger=ONCE)
    query.await_termination()
    embedded = pushed(chain, epochs)
    for name, view in embedded.views.items():
        assert counted([query.view(name).read()]) == counted([view.read()]), name
        assert counted(list_without_epochs(query.view(name).deltas())) == counted(
            list_without_epochs(view.deltas())
        ), name


def list_without_epochs(frames: Any) -> list[pl.DataFrame]:
    return [frame.drop("_epoch") for frame in frames]


# Sinks


def test_a_sink_receives_every_epoch(spark: Any, feed: Any, checkpoint: Path) -> None:
    received: list[tuple[str, int, Any]] = []

    def receive(view: str, delta: Any, epoch: int) -> None:
        received.append((view, epoch, counted([pl.from_arrow(delta.toArrow())])))  # type: ignore[list-item]

    epochs = events(3)
    stream = feed([rows["events"] for rows in epochs])
    query = run(
        declared(chain), {"events": stream}, checkpoint=checkpoint, buckets=2, trigger=ONCE, on_epoch=receive
    )
    query.await_termination()
    delivered = {(view, epoch): rows for view, epoch, rows in received}
    embedded = pushed(chain, epochs)
    for name, view in embedded.views.items():
        for delta in view.deltas(since=0):
            assert delivered[name, delta["_epoch"][0]] == counted([delta])


def test_a_sink_receives_the_epoch_of_the_end(spark: Any, feed: Any, checkpoint: Path) -> None:
    received: list[tuple[str, int]] = []

    def hourly(engine: ec.Engine) -> None:
        source = engine.source("hits", {"key": pl.String, "at": pl.Datetime("us")}, event_time="at")
        windows = source.window(ec.fixed("1h")).trigger(ec.after_watermark()).lateness("0s")
        engine.view("counts", windows.group_by("key").agg(n=pl.len()))

    def receive(view: str, delta: Any, epoch: int) -> None:
        received.append((view, epoch))

    stream = feed([pl.DataFrame({"key": ["a", "b"], "at": [NOON, NOON]})])
    query = run(
        declared(hourly), {"hits": stream}, checkpoint=checkpoint, buckets=2, trigger=ONCE, on_epoch=receive
    )
    query.await_termination()
    assert not received
    assert query.finish() == 2
    assert received == [("counts", 2)]


def test_windows_are_emitted_on_request(spark: Any, feed: Any, checkpoint: Path) -> None:
    def by_hand(engine: ec.Engine) -> None:
        source = engine.source("hits", {"key": pl.String, "at": pl.Datetime("us")}, event_time="at")
        windows = source.window(ec.fixed("1h")).trigger(ec.repeat(ec.signal()))
        engine.view("counts", windows.group_by("key").agg(n=pl.len()))

    hits = [pl.DataFrame({"key": ["a", "b"], "at": [NOON, NOON]}), pl.DataFrame({"key": ["c"], "at": [NOON]})]
    stream = feed(hits[:1])
    first = run(declared(by_hand), {"hits": stream}, checkpoint=checkpoint, buckets=2, trigger=ONCE)
    first.await_termination()
    assert first.view("counts").read().is_empty()
    first.fire("counts", "b")
    feed(hits[1:])
    second = run(declared(by_hand), {"hits": stream}, checkpoint=checkpoint, buckets=2, trigger=ONCE)
    second.await_termination()
    assert second.view("counts").read()["key"].to_list() == ["b"]


def test_a_word_that_no_window_waits_for_is_refused_at_once(spark: Any, feed: Any, checkpoint: Path) -> None:
    def both(engine: ec.Engine) -> None:
        source = engine.source("hits", {"key": pl.String, "at": pl.Datetime("us")}, event_time="at")
        engine.view("plain", source.group_by("key").agg(n=pl.len()))
        windows = source.window(ec.global_window()).trigger(ec.repeat(ec.signal()))
        engine.view("signalled", windows.group_by("key").agg(n=pl.len()))

    stream = feed([pl.DataFrame({"key": ["a"], "at": [NOON]})])
    query = run(declared(both), {"hits": stream}, checkpoint=checkpoint, buckets=2, trigger=ONCE)
    query.await_termination()
    for arguments, message in (
        (("plain",), "not grouped by windows"),
        (("signalled", ("a", "b")), "has 2 values"),
        (("signalled", None, NOON), "leave out window="),
        (("none",), "there is no view 'none'"),
    ):
        with pytest.raises(InputError, match=message):
            query.fire(*arguments)
    again = run(declared(both), {"hits": stream}, checkpoint=checkpoint, buckets=2, trigger=ONCE)
    assert again.await_termination()


# What is refused before the query starts


def test_a_query_may_get_a_heartbeat_when_it_is_started_again(
    spark: Any, feed: Any, checkpoint: Path
) -> None:
    stream = feed([rows["events"] for rows in events(1)])
    sources = {"events": stream}
    for seconds in (0, -1, float("nan"), True, 1e-9, 1e300):
        with pytest.raises(PlanError, match="heartbeat_seconds="):
            run(declared(chain), sources, checkpoint=checkpoint, heartbeat_seconds=seconds)
    query = run(declared(chain), sources, checkpoint=checkpoint)
    assert not query.await_termination(0)
    assert not query.await_termination(0.2)
    query.process_all_available()
    query.stop()
    identity, rows = query.id, counted([query.view("by_key").read()])
    query = run(declared(chain), sources, checkpoint=checkpoint, heartbeat_seconds=0.2)
    before = query.epoch_number
    while query.epoch_number < before + 2:
        assert not query.await_termination(0.1)
    query.stop()
    assert (query.id, counted([query.view("by_key").read()])) == (identity, rows)


def test_what_is_refused(spark: Any, feed: Any, checkpoint: Path) -> None:
    stream = feed([rows["events"] for rows in events(1)])
    run(
        declared(chain), {"events": stream}, checkpoint=checkpoint, buckets=4, trigger=ONCE
    ).await_termination()

    def other(engine: ec.Engine) -> None:
        source = engine.source("events", {"key": pl.Int64, "x": pl.Float64}, kind="diffs")
        engine.view("by_key", source.group_by("key").agg(n=pl.col("x").max()))

    with pytest.raises(CheckpointError, match="by_key"):
        run(declared(other), {"events": stream}, checkpoint=checkpoint, buckets=4)
    with pytest.raises(ec.InputError, match="column 'x' is"):
        run(
            declared(chain),
            {"events": stream.withColumn("x", stream.x.cast("string"))},
            checkpoint=checkpoint,
        )
    used = declared(chain)
    used.push("events", events(1)[0]["events"])
    with pytest.raises(ec.PlanError, match="pushed into"):
        run(used, {"events": stream}, checkpoint=checkpoint)
    lock = __import__("threading").Lock()
    with pytest.raises(ec.PlanError, match="on_epoch"):
        run(
            declared(chain),
            {"events": stream},
            checkpoint=checkpoint,
            buckets=4,
            on_epoch=lambda *_: lock.locked(),
        )
