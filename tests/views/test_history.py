"""The history of a key: each change, its times, and what caused it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest

import evercurrent as ec

HITS = {"ip": pl.String, "bytes": pl.Int64, "at": pl.Datetime("us")}


def minute(number: int) -> datetime:
    return datetime(2026, 1, 1, 12, number)


def visited(**options: Any) -> ec.Engine:
    engine = ec.Engine(**options)
    hits = engine.source("hits", HITS, event_time="at", watermark=ec.bounded_delay("1m"))
    who = engine.source("who", {"ip": pl.String, "name": pl.String}, kind="upsert", key="ip")
    visits = engine.view(
        "visits",
        hits.filter(pl.col("bytes") > 0).window(ec.sessions("30m")).group_by("ip").agg(pages=pl.len()),
    )
    named = engine.view("named", visits.join(who, on="ip", how="left"))
    engine.view("depth", named.group_by("name").agg(visits=pl.len(), most=pl.col("pages").max()))
    waiting = hits.window(ec.fixed("10m")).trigger(ec.after_watermark())
    engine.view("final", waiting.group_by("ip").agg(n=pl.len()))
    at = "2026-01-01T12:{:02}:00Z"
    engine.push("who", {"ip": ["a", "b"], "name": ["Ann", "Bob"]}, at=at.format(0))
    rows = {"ip": ["a", "a", "b"], "bytes": [10, 0, 20], "at": [minute(1), minute(2), minute(3)]}
    engine.push("hits", rows, at=at.format(5))
    engine.push("hits", {"ip": ["a"], "bytes": [30], "at": [minute(20)]}, at=at.format(21))
    engine.push("who", {"ip": ["a"], "name": ["Anna"]}, at=at.format(30))
    engine.advance("hits", "2026-01-01T13:00:00", at=at.format(40))
    return engine


def test_each_change_has_its_times_and_what_caused_it() -> None:
    engine = visited(record=True)
    found = engine.views["depth"].history("Ann")
    assert [(change.epoch, change.processing_time) for change in found] == [
        (2, datetime(2026, 1, 1, 12, 5, tzinfo=UTC)),
        (3, datetime(2026, 1, 1, 12, 21, tzinfo=UTC)),
        (4, datetime(2026, 1, 1, 12, 30, tzinfo=UTC)),
    ]
    causes = [{name: rows.rows() for name, rows in change.causes.items()} for change in found]
    assert causes == [
        {"hits": [("a", 10, minute(1), 1)]},
        {"hits": [("a", 30, minute(20), 1)]},
        {"who": [("a", "Ann", -1), ("a", "Anna", 1)]},
    ]
    assert not found.remarks
    assert found.frame().drop("processing_time").rows() == [
        (2, 1, "Ann", 1, 1),
        (3, -1, "Ann", 1, 1),
        (3, 1, "Ann", 1, 2),
        (4, -1, "Ann", 1, 2),
    ]
    assert found.text() == repr(found)
    assert (
        "epoch 4, 2026-01-01 12:30:00\n  -1 name Ann, visits 1, most 2\n    by who: -1 ip a, name Ann"
        in repr(found)
    )
    assert [change.epoch for change in engine.views["depth"].history("Ann", since=2)] == [3, 4]


def test_what_time_has_caused_is_named() -> None:
    found = visited(record=True).views["final"].history({"ip": "b"})
    assert [change.epoch for change in found] == [3]
    assert not found[0].causes
    assert found[0].why == "no rows of it came: time has passed, watermark of hits 2026-01-01 12:19:00+00:00"


def test_where_changes_are_not_kept_it_names_what_would_keep_them() -> None:
    engine = visited()
    found = engine.views["visits"].history({"ip": "a"})
    assert [change.epoch for change in found] == [2, 3]
    assert not any(change.causes for change in found)
    assert (
        "source 'hits' are not kept by epoch; make the engine with Engine(record=True), or declare a view"
        in repr(found)
    )
    depth = engine.views["depth"].history("Ann")
    assert list(depth[0].causes) == ["visits"]
    assert "source 'who' are not kept by epoch" in repr(depth)


def test_rows_that_are_no_longer_recorded_are_named() -> None:
    engine = ec.Engine(record=True, retain=ec.Retain(rows=3))
    sales = engine.source("sales", {"shop": pl.String})
    shops = engine.view("shops", sales.group_by("shop").len())
    for _ in range(4):
        engine.push("sales", {"shop": ["north"]})
    found = shops.history("north")
    assert "are no longer kept; keep more with Engine(retain=Retain(...))" in repr(found)
    assert found[-1].causes["sales"].rows() == [("north", 1)]


def test_a_group_that_has_no_view_is_named() -> None:
    engine = ec.Engine(record=True)
    sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64})
    sizes = sales.group_by("shop").agg(n=pl.len())
    view = engine.view("sizes", sizes.group_by("n").agg(shops=pl.len()))
    engine.push("sales", {"shop": ["north"], "price": [1]})
    assert "(group by shop: n) of source 'sales' are not kept by epoch; declare a view of it" in repr(
        view.history(1)
    )


def test_it_goes_back_to_the_commits_of_a_checkpoint(tmp_path: Path) -> None:
    for _ in range(2):
        with ec.Engine(checkpoint=tmp_path) as engine:
            sales = engine.source("sales", {"shop": pl.String})
            shops = engine.view("shops", sales.group_by("shop").len())
            engine.push("sales", {"shop": ["north"]})
            found = shops.history("north")
    assert found.frame().select("_epoch", "_diff", "len").rows() == [(1, 1, 1), (2, -1, 1), (2, 1, 2)]


def test_drawings_are_well_formed_and_show_what_the_text_shows() -> None:
    engine = visited(record=True)
    history, lineage = engine.views["depth"].history("Ann"), engine.views["depth"].lineage({"name": "Anna"})
    for drawn in (history, lineage):
        picture = ElementTree.fromstring(drawn.svg())
        written = " ".join(text for text in picture.itertext())
        assert "ip a, bytes 30" in written if drawn is history else "depth" in written
        assert drawn.mermaid().startswith("flowchart LR\n" if drawn is history else "flowchart TD\n")
        assert drawn._repr_html_() == drawn.svg()
    assert "c2s0 --> c2" in history.mermaid()
    assert "left join on 'ip'" in lineage.text()


def test_a_name_with_markup_is_written_as_text() -> None:
    engine = ec.Engine(record=True)
    words = engine.source("words", {"w": pl.String}, retained=True)
    counts = engine.view("<b>", words.group_by("w").len())
    engine.push("words", {"w": ['"<i>&#\n']})
    for drawn in (counts.history('"<i>&#\n'), counts.lineage({"w": '"<i>&#\n'})):
        ElementTree.fromstring(drawn.svg())
        assert "<i>" not in drawn.mermaid()
        assert "\n" not in "".join(drawn.text().splitlines())


def test_keys_that_are_none_are_refused() -> None:
    view = visited(record=True).views["depth"]
    for wrong, message in (
        (None, "give the key whose history"),
        ({"nobody": 1}, "unknown key 'nobody'"),
        (
            ("a", "b"),
            "has 2 values, for the keys 'name'; give a dictionary with the values of some of them, as {'name'",
        ),
        (1, "does not go with the column"),
    ):
        with pytest.raises(ec.InputError, match=message):
            view.history(wrong)
    assert len(view.history("nobody")) == 0


def redeclared(**options: Any) -> tuple[ec.Engine, ec.View]:
    """An engine of which a view was replaced in the fourth epoch by one with other columns."""
    engine = ec.Engine(record=True, **options)
    hits = engine.source("hits", {"ip": pl.String}, retained=True)
    engine.view("visits", hits.group_by("ip").agg(n=pl.len()))
    for _ in range(3):
        hits.push([("a",)])
    visits = engine.view("visits", hits.group_by("ip").agg(visits=pl.len()), replace=True)
    hits.push([("a",)])
    return engine, visits


def test_a_view_that_was_replaced_has_no_earlier_changes_to_keep() -> None:
    _, visits = redeclared()
    found = visits.history("a")
    assert found.remarks == ("the view was declared or replaced in epoch 4; it has no changes before",)
    assert [(change.epoch, change.why[:22], list(change.causes)) for change in found] == [
        (4, "no rows of it came: th", []),
        (5, "", ["hits"]),
    ]


def test_rows_that_were_recorded_before_a_restart_are_distinguished_from_those_that_never_were(
    tmp_path: Path,
) -> None:
    redeclared(checkpoint=tmp_path)[0].close()
    with ec.Engine(record=True, checkpoint=tmp_path) as engine:
        hits = engine.source("hits", {"ip": pl.String}, retained=True)
        visits = engine.view("visits", hits.group_by("ip").agg(visits=pl.len()))
        hits.push([("a",)])
        found = visits.history("a")
        assert [change.epoch for change in found if change.causes] == [6]
        assert found[0].why.startswith("no rows of it came: the view was declared or replaced")
        assert [remark[:40] for remark in found.remarks] == [
            "the view was declared or replaced in epo",
            "what caused the change of epoch 5 is not",
        ]
        assert "source 'hits' are recorded from epoch 6 on, in the memory of this process" in found.remarks[1]


def test_a_fork_of_a_checkpoint_does_not_take_its_views_for_replaced_ones(tmp_path: Path) -> None:
    engine, _ = redeclared(checkpoint=tmp_path)
    engine.checkpoint()
    fork = engine.fork(checkpoint=tmp_path)
    fork.push("hits", [("a",)])
    for each in (fork, fork.fork()):
        found = each.views["visits"].history("a")
        assert [change.epoch for change in found] == [6]
        assert "a fork has only those since it was made" in found.remarks[0]
        with pytest.raises(
            ec.EpochGoneError,
            match=r"a fork of a checkpoint has .* those after 5, and not those after epoch 4",
        ):
            each.views["visits"].deltas(since=4).frame()
    engine.close()


def test_an_epoch_that_is_still_to_come_is_refused() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.Int64})
    view = engine.view("counts", rows.group_by("k").agg(n=pl.len()))
    rows.push({"k": [1]})
    assert len(view.history(1, since=1)) == 0
    with pytest.raises(ec.InputError, match="epoch 2 is still to come, the engine is at epoch 1"):
        view.history(1, since=2)


def test_a_watermark_that_is_not_a_time() -> None:
    """A history names the end of time in words; a watermark before the year 1, which no datetime can hold, is no error."""
    engine = ec.Engine(record=True)
    hits = engine.source("hits", HITS, event_time="at", watermark=ec.bounded_delay("1d"))
    waiting = hits.window(ec.fixed("10m")).trigger(ec.after_watermark()).group_by("ip").agg(n=pl.len())
    final = engine.view("final", waiting)
    engine.push("hits", {"ip": ["a"], "bytes": [1], "at": [datetime(1, 1, 1)]})
    assert not final.history({"ip": "a"})
    engine.advance("hits", ec.END_OF_TIME)
    assert "time has passed, watermark of hits the end of time" in str(final.history({"ip": "a"}))
