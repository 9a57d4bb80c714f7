"""A sink that has epochs which the view has never had, or no longer has, is written anew or refused, and never added to."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.views.sinks.origin import Origin
from evercurrent.views.sinks.parquet_folder import ParquetFolder
from evercurrent.views.store import LocalStore
from sink_places import Place, ordered

ADDS = ("delta log", "parquet")
"""The sinks that hold deltas, which are not taken back."""


def pushed(checkpoint: Path | ec.Checkpoint | None, place: Place | None, *words: str) -> list[tuple]:
    """Push batches, deliver after the first one, and return what the view holds then."""
    with ec.Engine(checkpoint=checkpoint) as engine:
        log = engine.source("log", {"word": pl.String})
        view = engine.view("hits", log.group_by("word").agg(n=pl.len().cast(pl.Int64)))
        for number, word in enumerate(words):
            log.push({"word": [word]})
            if place is not None and not number:
                delivery = place.deliver(view)
        if place is not None:
            assert delivery.join(20)
        return ordered(view.read().rows())


def left_by(restore: Callable[[Path, Path], object], place: Place, folder: Path, every: int) -> ec.Checkpoint:
    """Write three epochs there, go back to the first, and evaluate three others without the sink."""
    checkpoint = ec.Checkpoint(folder / "checkpoint", every=every)
    pushed(checkpoint, place, "a")
    shutil.copytree(checkpoint.path, folder / "backup")
    pushed(checkpoint, place, "b", "b")
    restore(Path(checkpoint.path), folder / "backup")
    pushed(checkpoint, None, "c")
    pushed(checkpoint, None, "c", "d")
    return checkpoint


def replaced(checkpoint: Path, backup: Path) -> None:
    shutil.rmtree(checkpoint)
    shutil.copytree(backup, checkpoint)


def wiped(checkpoint: Path, _: Path) -> None:
    shutil.rmtree(checkpoint)


@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("restore", [replaced, wiped])
def test_epochs_of_a_checkpoint_before_it_was_restored_are_corrected(
    place: Place, tmp_path: Path, restore, every: int
) -> None:
    if place.kind == "function":
        pytest.skip("a function does not show what it has had")
    checkpoint = left_by(restore, place, tmp_path, every)
    if place.kind in ADDS:
        before = place.rows()
        with pytest.raises(ec.SinkError, match=r"another .*engine|before it was restored"):
            pushed(checkpoint, place, "e")
        assert place.rows() == before
        return
    assert pushed(checkpoint, place, "e") == place.rows()


def test_of_a_copy_and_its_original_each_has_its_own_epochs(place: Place, tmp_path: Path) -> None:
    if place.kind in (*ADDS, "function"):
        pytest.skip("the table of one of them, which the other takes over")
    pushed(tmp_path / "one", place, "a")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    pushed(tmp_path / "one", place, "b", "b")
    assert pushed(tmp_path / "two", place, "c", "c", "c") == place.rows()
    assert pushed(tmp_path / "one", place, "d", "d") == place.rows()


def test_an_intact_checkpoint_is_gone_on_with_however_often_it_is_opened(
    place: Place, tmp_path: Path
) -> None:
    for number in range(6):
        with_place = place if number % 2 == 0 else None
        expected = pushed(tmp_path / "checkpoint", with_place, f"w{number}", "w")
        if with_place is not None:
            assert place.rows() == expected


def test_a_step_over_the_epochs_of_several_writers_is_gone_on_with(tmp_path: Path) -> None:
    """What a sink has missed is written in one step, whichever processes have evaluated it."""
    writers = [(-1, "first"), (2, "second"), (4, "third")]
    sink = ParquetFolder(LocalStore(tmp_path), Origin("hits", lambda: writers), {})
    contents = pl.DataFrame({"word": ["a"], "_diff": [1]}, schema_overrides={"_diff": pl.Int64})
    sink.begin(contents.drop("_diff"), 2)
    sink.write(pl.concat(contents.with_columns(_epoch=pl.lit(epoch, pl.UInt64)) for epoch in (3, 4, 5, 6)))
    later = ParquetFolder(LocalStore(tmp_path), Origin("hits", lambda: [*writers, (6, "fourth")]), {})
    assert later.position() == 6
    restored = ParquetFolder(LocalStore(tmp_path), Origin("hits", lambda: [*writers, (5, "fourth")]), {})
    with pytest.raises(ec.SinkError, match="before it was restored"):
        restored.position()


def test_an_opened_checkpoint_that_is_restored_before_anything_is_written_is_gone_on_with(
    place: Place, tmp_path: Path
) -> None:
    if place.kind == "function":
        pytest.skip("a function does not show what it has had")
    path = tmp_path / "checkpoint"
    pushed(path, place, "a", "b")
    shutil.copytree(path, tmp_path / "backup")
    with ec.Engine(checkpoint=path) as engine:
        log = engine.source("log", {"word": pl.String})
        view = engine.view("hits", log.group_by("word").agg(n=pl.len().cast(pl.Int64)))
        assert place.deliver(view).join(20)
    replaced(path, tmp_path / "backup")
    assert pushed(path, place, "c") == place.rows()


def test_two_views_do_not_share_a_place(place: Place) -> None:
    if place.kind == "function":
        pytest.skip("a function may be called for several views")
    engines = {"first": ec.Engine(), "second": ec.Engine()}
    logs = [engine.source("log", {"word": pl.String}) for engine in engines.values()]
    first, second = (
        engine.view(name, log.group_by("word").agg(n=pl.len()))
        for log, (name, engine) in zip(logs, engines.items(), strict=True)
    )
    for log in logs:
        log.push({"word": ["a", "b"]})
    assert place.deliver(first).join(20)
    later = place.deliver(second)
    for log in logs:
        log.push({"word": ["c"]})
    with pytest.raises(ec.SinkError, match=r"another view|this view has not written it"):
        later.join(20)
    assert first.subscriptions[0].delivery.join(20)
    assert place.rows() == ordered(first.read().rows())


def test_a_view_declared_anew_is_not_added_to_the_rows_of_the_one_before(
    place: Place, tmp_path: Path
) -> None:
    if place.kind == "function":
        pytest.skip("its memory is forgotten with the view")
    path = tmp_path / "checkpoint"
    with ec.Engine(checkpoint=path) as engine:
        log = engine.source("log", {"word": pl.String}, retained=True)
        view = engine.view("hits", log.group_by("word").agg(n=pl.len()))
        delivery = place.deliver(view)
        log.push({"word": ["a", "b", "b"]})
        assert delivery.join(20)
    before = place.rows()
    with ec.Engine(checkpoint=ec.Checkpoint(path, drop=("hits",))) as engine:
        log = engine.source("log", {"word": pl.String}, retained=True)
        view = engine.view("hits", log.filter(pl.col("word") != "a").group_by("word").agg(n=pl.len()))
        delivery = place.deliver(view)
        if place.kind in ADDS:
            with pytest.raises(ec.SinkError):
                delivery.join(20)
            assert place.rows() == before
        else:
            assert delivery.join(20)
            assert place.rows() == [("b", 2)]


def test_a_view_replaced_by_other_columns_while_its_sink_was_closed(place: Place) -> None:
    if place.kind in ("function", "delta", "iceberg"):
        pytest.skip("for tables, and for feeds")
    engine = ec.Engine()
    log = engine.source("log", {"word": pl.String}, retained=True)
    view = engine.view("hits", log.group_by("word").agg(n=pl.len()))
    delivery = place.deliver(view)
    log.push({"word": ["a", "b", "b"]})
    assert delivery.join(20)
    delivery.close()
    before = place.rows()
    other = engine.view("hits", log.group_by("word").agg(n=pl.len().cast(pl.String)), replace=True)
    with pytest.raises(ec.SinkError, match=r"has the columns .* and the view has|give another"):
        place.deliver(other).join(20)
    assert place.rows() == before


def test_a_fed_source_of_a_restored_checkpoint_is_refused(tmp_path: Path) -> None:
    second = ec.Engine()
    fed = second.source("fed", {"word": pl.String, "n": pl.Int64}, kind="diffs")
    same = second.view("same", fed)
    place = Place("source", tmp_path, [], [])
    place.deliver = lambda view, **_: view.to_source(second, "fed")  # type: ignore[method-assign]
    checkpoint = left_by(replaced, place, tmp_path, 1)
    before = ordered(same.read().rows())
    with pytest.raises(ec.SinkError, match="or of a checkpoint before it was restored, up to epoch 3"):
        pushed(checkpoint, place, "e")
    assert ordered(same.read().rows()) == before


def test_an_origin_has_what_each_writer_has_written_up_to_the_next() -> None:
    writers = [(-1, "one"), (4, "two"), (9, "three")]
    origin = Origin("v", lambda: writers)
    for epoch in range(15):
        assert origin.has(origin.token(epoch), epoch)
    tokens = [origin.token(epoch) for epoch in (4, 9, 14)]
    assert len(set(tokens)) == 3
    for token, last in zip(tokens, (4, 9, 99), strict=True):
        assert origin.has(token, last)
        assert not origin.has(token, last + 1) or last == 99
    assert not Origin("w", lambda: writers).has(tokens[0], 1)


def test_a_reader_of_a_checkpoint_goes_on_through_openings_and_notices_a_backup(tmp_path: Path) -> None:
    """The sink is written by a process that only reads the checkpoint, as beside a query."""
    from evercurrent import spark_bridge

    checkpoint = tmp_path / "checkpoint"
    place = Place("parquet", tmp_path, [], [])
    pushed(checkpoint, None, "a")

    def read() -> ec.Delivery:
        declared = ec.Engine()
        log = declared.source("log", {"word": pl.String})
        declared.view("hits", log.group_by("word").agg(n=pl.len().cast(pl.Int64)))
        return place.deliver(spark_bridge.views(declared, checkpoint)["hits"])  # type: ignore[arg-type]

    delivery = read()
    assert delivery.join(20)
    shutil.copytree(checkpoint, tmp_path / "backup")
    for word in "bc":
        expected = pushed(checkpoint, None, word, word)
        assert delivery.join(20)
        assert place.rows() == expected
    delivery.close()
    delivery = read()
    assert delivery.join(20)
    delivery.close()
    assert place.rows() == expected
    replaced(checkpoint, tmp_path / "backup")
    for _ in range(6):
        pushed(checkpoint, None, "d")
    with pytest.raises(ec.SinkError, match="before it was restored"):
        read().join(20)
    assert place.rows() == expected
