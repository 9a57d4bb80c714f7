"""Every sink holds what the view holds: after each epoch, after a restart, after a failure, after a gap."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import evercurrent as ec
from evercurrent import Delivery, spark_bridge
from sink_places import Place, ordered


def counted(engine: ec.Engine) -> ec.View:
    words = engine.source("words", {"word": pl.String, "n": pl.Int64}, kind="diffs")
    return engine.view("counts", words.group_by("word").agg(n=pl.col("n").sum()))


def rows_of(view: ec.View) -> list[tuple]:
    return ordered(view.read().rows())


HISTORY = (
    {"word": ["a", "b", "a", None], "n": [1, 2, 3, 4]},
    {"word": ["a", "c"], "n": [1, 1], "_diff": [-1, 1]},
    {"word": ["a", None], "n": [3, 4], "_diff": [-1, -1]},
    {"word": ["x", "y", "x"], "n": [7, 8, 9]},
)


def test_each_epoch_arrives(place: Place) -> None:
    engine = ec.Engine()
    view = counted(engine)
    delivery = place.deliver(view)
    for rows in HISTORY:
        engine.push("words", rows)
        assert delivery.join(20)
        assert place.rows() == rows_of(view)
    assert (delivery.epoch, delivery.lag, delivery.error) == (4, 0, None)


def test_what_is_there_already_is_written_first(place: Place) -> None:
    engine = ec.Engine()
    view = counted(engine)
    for rows in HISTORY[:3]:
        engine.push("words", rows)
    delivery = place.deliver(view)
    engine.push("words", HISTORY[3])
    assert delivery.join(20)
    assert place.rows() == rows_of(view)


def test_it_goes_on_after_a_restart(place: Place, tmp_path: Path) -> None:
    for rows in HISTORY:
        with ec.Engine(checkpoint=tmp_path / "checkpoint") as engine:
            view = counted(engine)
            delivery = place.deliver(view)
            engine.push("words", rows)
            expected = rows_of(view)
        assert delivery.is_closed
        assert place.rows() == expected


def test_after_a_restart_only_what_is_new_is_written(place: Place, tmp_path: Path, monkeypatch) -> None:
    def begun(self: Delivery) -> None:
        raise AssertionError("written from the beginning")

    for number, rows in enumerate(HISTORY):
        with ec.Engine(checkpoint=tmp_path / "checkpoint") as engine:
            view = counted(engine)
            delivery = place.deliver(view)
            engine.push("words", rows)
            assert delivery.join(20), number
            expected = rows_of(view)
        monkeypatch.setattr(Delivery, "_begin", begun)
    assert place.rows() == expected


def test_epochs_without_the_sink_are_caught_up(place: Place, tmp_path: Path) -> None:
    for number, rows in enumerate(HISTORY):
        with ec.Engine(checkpoint=tmp_path / "checkpoint") as engine:
            view = counted(engine)
            if number in (0, 3):
                delivery = place.deliver(view)
            engine.push("words", rows)
            expected = rows_of(view)
    assert delivery.epoch == 4
    assert place.rows() == expected


def test_a_sink_closed_and_begun_again_goes_on(place: Place) -> None:
    engine = ec.Engine()
    view = counted(engine)
    for rows in HISTORY:
        delivery = place.deliver(view)
        engine.push("words", rows)
        assert delivery.join(20)
        delivery.close()
        assert delivery.is_closed
    assert place.rows() == rows_of(view)


def test_closing_the_engine_waits_for_the_sink(place: Place, tmp_path: Path) -> None:
    with ec.Engine(checkpoint=tmp_path / "checkpoint") as engine:
        view = counted(engine)
        place.deliver(view)
        for rows in HISTORY:
            engine.push("words", rows)
        expected = rows_of(view)
    assert place.rows() == expected


@pytest.mark.parametrize("place", ["function"], indirect=True)
def test_a_function_that_raises_is_called_again(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    engine = ec.Engine()
    view = counted(engine)
    delivery = place.deliver(view)
    assert delivery.join(20)
    place.failing.extend([ValueError("no disk"), OSError("no net")])
    for rows in HISTORY:
        engine.push("words", rows)
    assert delivery.join(20)
    assert place.rows() == rows_of(view)
    assert [delta["_epoch"][0] for delta in place.deltas] == [1, 2, 3, 4]
    assert "no net" in caplog.text
    assert (delivery.failures, delivery.error) == (0, None)


def test_figures_of_a_sink(place: Place) -> None:
    engine = ec.Engine()
    view = counted(engine)
    delivery = place.deliver(view)
    engine.push("words", HISTORY[0])
    assert delivery.join(20)
    [(name, figures)] = engine.stats()["sinks"].items()
    assert name == f"counts/{delivery.name}"
    assert {**figures, "place": ""} == {
        "view": "counts", "place": "", "epoch": 1, "lag": 0, "failures": 0, "error": None,
    }  # fmt: skip
    assert f'evercurrent_sink_lag{{view="counts",sink="counts/{delivery.name}"}} 0' in ec.prometheus_text(
        engine.stats()
    )


def test_two_deliveries_of_a_name_are_refused(place: Place) -> None:
    engine = ec.Engine()
    view = counted(engine)
    place.deliver(view)
    is_function = place.kind == "function"
    message = "is in use; close that subscription first" if is_function else "is being written already, from"
    with pytest.raises(ec.PlanError, match=message):
        place.deliver(view)


def test_one_place_is_of_one_view(place: Place) -> None:
    engine = ec.Engine()
    view = counted(engine)
    other = engine.view("other", engine.sources["words"].group_by("word").len("m"))
    delivery = place.deliver(view)
    if place.kind == "function":
        place.deliver(other)
        return
    with pytest.raises(
        ec.PlanError, match=r"view 'other': .* is being written already, from view 'counts'; close"
    ):
        place.deliver(other)
    assert other.subscriptions == ()
    delivery.close()
    place.deliver(view).close()


def test_one_place_is_of_one_view_of_a_checkpoint(place: Place, tmp_path: Path) -> None:
    """As of a query in Spark, whose views are read in the same way."""

    def declared(checkpoint: Path | None = None) -> ec.Engine:
        engine = ec.Engine(checkpoint=checkpoint)
        counted(engine)
        engine.view("other", engine.sources["words"].group_by("word").len("m"))
        return engine

    with declared(tmp_path / "checkpoint") as engine:
        engine.push("words", HISTORY[0])
    views = spark_bridge.views(declared(), tmp_path / "checkpoint")
    delivery = place.deliver(views["counts"])
    if place.kind == "function":
        place.deliver(views["other"]).close()
        return
    assert delivery.join(20)
    with pytest.raises(
        ec.PlanError, match=r"view 'other': .* is being written already, from view 'counts'; close"
    ):
        place.deliver(views["other"])
    assert views["other"].deliveries == ()
    delivery.close()
    place.deliver(views["counts"]).close()


def test_what_cannot_be_mended_ends_the_delivery(tmp_path: Path) -> None:
    engine = ec.Engine()
    view = counted(engine)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    delivery = view.to_parquet(tmp_path / "mine")
    with pytest.raises(ec.SinkError, match=r"letter\.txt is not of this view; give an empty folder"):
        delivery.join(20)
    assert delivery.is_closed
    engine.push("words", HISTORY[0])
    assert view.to_parquet(tmp_path / "other").join(20)


@pytest.mark.parametrize("what", ["moved", "emptied"])
def test_a_folder_that_is_moved_away_is_not_begun_anew_without_its_files(what: str, tmp_path: Path) -> None:
    """What is summed there later would be without all earlier deltas, and nothing would show it."""
    engine = ec.Engine(checkpoint=tmp_path / "checkpoint")
    view, feed = counted(engine), tmp_path / "feed"
    delivery = view.to_parquet(feed)
    engine.push("words", HISTORY[0])
    assert delivery.join(20)
    feed.rename(tmp_path / "away")
    if what == "emptied":
        feed.mkdir()
    engine.push("words", HISTORY[1])
    with pytest.raises(ec.SinkError, match=r"feed are gone: .* and call to_parquet again"):
        delivery.join(20)
    assert not feed.exists() or not list(feed.iterdir())
    for folder, epochs in (tmp_path / "away", {1, 2}), (feed, {2}):
        again = view.to_parquet(folder)
        assert again.join(20)
        again.close()
        rows = pl.read_parquet(folder / "*.parquet")
        assert set(rows["_epoch"]) == epochs
        sums = rows.group_by("word", "n").agg(pl.col("_diff").sum()).filter(pl.col("_diff") != 0)
        assert ordered(sums.select("word", "n").rows()) == rows_of(view)
    engine.close()


def test_a_view_without_a_key_is_refused_with_the_way_out() -> None:
    engine = ec.Engine()
    view = engine.view("all", engine.source("s", {"a": pl.Int64, "b": pl.Int64}))
    with pytest.raises(ec.PlanError, match=r"to_sql: its rows have no key; give key=\[...\].*'a', 'b'"):
        view.to_sql("sqlite://", "t")
    with pytest.raises(ec.PlanError, match="'c'"):
        view.to_sql("sqlite://", "t", key="c")


def test_a_fork_has_no_sinks(place: Place) -> None:
    engine = ec.Engine()
    view = counted(engine)
    delivery = place.deliver(view)
    engine.push("words", HISTORY[0])
    assert delivery.join(20)
    fork = engine.fork()
    fork.push("words", HISTORY[3])
    assert fork.stats()["sinks"] == {}
    assert place.rows() == rows_of(view)


def fed(engine: ec.Engine) -> ec.View:
    counts = engine.source("counts", {"word": pl.String, "n": pl.Int64}, kind="diffs", retained=True)
    engine.view("depth", counts.group_by("n").len("words"))
    return engine.view("same", counts)


def test_one_engine_feeds_another_through_restarts_of_both(tmp_path: Path) -> None:
    for number, rows in enumerate(HISTORY):
        with ec.Engine(checkpoint=tmp_path / "first") as first:
            view = counted(first)
            for second_run in range(2):
                if number == 1 and second_run == 0:
                    first.push("words", rows)
                    continue  # An epoch while nobody listens.
                with ec.Engine(checkpoint=tmp_path / "second") as second:
                    same = fed(second)
                    delivery = view.to_source(second, "counts")
                    if number != 1 and second_run == 0:
                        first.push("words", rows)
                    assert delivery.join(20)
                    delivery.close()
                    assert rows_of(same) == rows_of(view)
                    assert not second.ledger().height
                    depth = second.views["depth"].read()
            assert depth["words"].sum() == len(rows_of(view))


def test_a_source_that_takes_nothing_back_is_refused() -> None:
    first, second = ec.Engine(), ec.Engine()
    view = counted(first)
    second.source("facts", {"word": pl.String, "n": pl.Int64})
    with pytest.raises(ec.PlanError, match="source 'facts' is of kind 'append'"):
        view.to_source(second, "facts")
    with pytest.raises(ec.PlanError, match="there is no source 'x'; there are 'facts'"):
        view.to_source(second, "x")


def test_one_view_feeds_sources_of_one_name_in_two_engines() -> None:
    first, engines = ec.Engine(), (ec.Engine(), ec.Engine())
    view = counted(first)
    views = [fed(engine) for engine in engines]
    deliveries = [view.to_source(engine, "counts") for engine in engines]
    first.push("words", HISTORY[0])
    for delivery, same in zip(deliveries, views, strict=True):
        assert delivery.join(20)
        assert rows_of(same) == rows_of(view)
    with pytest.raises(ec.PlanError, match="source 'counts' of another engine is being written already"):
        view.to_source(engines[1], "counts")


def test_a_source_fed_by_an_engine_that_is_gone_is_not_fed_twice(tmp_path: Path) -> None:
    second = ec.Engine()
    same = fed(second)
    for run in range(2):
        first = ec.Engine()
        view = counted(first)
        first.push("words", HISTORY[0])
        delivery = view.to_source(second, "counts")
        if run == 0:
            assert delivery.join(20)
            delivery.close()
            before = rows_of(same)
        else:
            with pytest.raises(ec.SinkError, match="holds rows of the same view of another engine"):
                delivery.join(20)
    assert rows_of(same) == before
