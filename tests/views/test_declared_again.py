"""Views that are declared again as others, and on others that are not there yet, are renamed, proved and dropped like any."""

from __future__ import annotations

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.views.engine import fills
from evercurrent.views.engine.declarations import Declarations
from evercurrent.views.engine.retaken import retake

ROWS = {"k": pl.Int64(), "x": pl.Int64()}


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fills begin when they are completed."""
    monkeypatch.setattr(fills.Filling, "start", lambda _: None)


def app(engine: ec.Engine, name: str) -> tuple[ec.View, ec.View]:
    rows = engine.source("rows", ROWS, retained=True)
    first = engine.view(name, rows.unique())
    return first, engine.view("sizes", first.group_by("k").agg(n=pl.len()), replace=True)


def started(name: str) -> ec.Engine:
    engine = ec.Engine()
    app(engine, name)
    engine.push("rows", [(1, 2), (1, 2), (1, 3)])
    return engine


def test_a_view_on_which_others_stand_is_renamed() -> None:
    engine = started("old")
    _, sizes = app(engine, "new")
    assert sizes is engine.views["sizes"]
    engine.drop_view("old")
    with pytest.raises(ec.PlanError, match="view 'new': view 'sizes' is declared on it"):
        engine.drop_view("new")
    engine.push("rows", [(1, 4)])
    assert sizes.read().rows() == [(1, 3)]
    assert engine.prove()


def test_a_view_on_which_others_stand_is_renamed_in_an_edited_program() -> None:
    engine, edited = started("old"), ec.Engine()
    app(edited, "new")
    assert retake(engine, edited) == "new new; old dropped"
    assert engine.views["sizes"].read().rows() == [(1, 2)]
    assert engine.prove()


def test_a_renaming_that_is_refused_with_others_is_undone() -> None:
    engine = started("old")

    def renamed(declarations: Declarations) -> None:
        unique = engine.sources["rows"].unique()
        new = declarations.view("new", unique, replace=False, backfill=None)
        declarations.view("sizes", new.group_by("k").agg(n=pl.len()), replace=True, backfill=None)
        declarations.drop_source("none")

    with pytest.raises(ec.PlanError, match="no source"), engine.redeclaring("all of it") as declarations:
        renamed(declarations)
    assert list(engine.views) == ["old", "sizes"]
    with pytest.raises(ec.PlanError, match="view 'old': view 'sizes' is declared on it"):
        engine.drop_view("old")


def test_a_view_that_is_declared_as_itself_stays_as_it_was() -> None:
    engine = started("old")
    old = engine.views["old"]
    assert engine.view("old", old) is old
    assert engine.view("old", engine.view("same", old)) is old
    assert engine.prove()


@pytest.mark.usefixtures("no_threads")
@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")], ids=" then ".join)
def test_views_are_proved_whichever_of_them_appears_first(order: tuple[str, str]) -> None:
    engine = ec.Engine()
    rows = engine.source("rows", ROWS, retained=True)
    engine.push("rows", [(1, 2)])
    first = engine.view("first", rows.unique(), background=True)
    second = engine.view("second", first.group_by("k").agg(n=pl.len()), background=True)
    for name in order:
        with engine.turn:
            {"first": first, "second": second}[name].wait()
        engine.push("rows", [(2, 3)])
        assert engine.prove()
        assert engine.fork().prove()
    assert second.read().sort("k").rows() == [(1, 1), (2, 1)]


@pytest.mark.usefixtures("no_threads")
def test_what_an_edited_program_does_not_declare_goes_also_while_it_is_filled() -> None:
    engine, edited = started("old"), ec.Engine()
    others = engine.source("others", ROWS, retained=True)
    engine.push("others", [(1, 2)])
    engine.view("more", others.unique(), background=True)
    app(edited, "old")
    assert retake(engine, edited) == "more, source others dropped"
    assert list(engine.views) == ["old", "sizes"]
    assert list(engine.sources) == ["rows"]


@pytest.mark.usefixtures("no_threads")
def test_a_reader_that_takes_no_other_columns_is_named_before_the_fill() -> None:
    engine = started("old")
    engine.views["sizes"].subscribe(lambda _: None)
    with pytest.raises(ec.PlanError, match="the one that replaces it has other columns"):
        engine.view("sizes", engine.views["old"], replace=True, background=True)
    assert not engine.filling
