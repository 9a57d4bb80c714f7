"""Views that were dropped, replaced or could not be filled can be shown, with what happened to them."""

from __future__ import annotations

import polars as pl
import pytest

from evercurrent import Engine, FillProgress, InputError, NotFilledError


def counting() -> tuple[Engine, pl.Expr]:
    engine = Engine()
    numbers = engine.source("numbers", {"k": pl.Int64}, retained=True)
    numbers.push([(1,), (2,)])
    return engine, pl.len().alias("n")


def test_a_dropped_view_is_shown_as_such_and_still_not_read() -> None:
    engine, n = counting()
    dropped = engine.view("v", engine.sources["numbers"].group_by("k").agg(n))
    engine.drop_view("v")
    assert repr(dropped) == "View 'v': view 'v' was dropped"
    assert "was dropped" in dropped._repr_html_()
    with pytest.raises(InputError, match="was dropped"):
        dropped.read()
    before = engine.view("w", engine.sources["numbers"].group_by("k").agg(n))
    after = engine.view("w", engine.sources["numbers"].unique(), replace=True)
    assert "was replaced" in repr(before)
    assert "was replaced" in before._repr_html_()
    assert "at epoch 5" in repr(after)


def test_an_interrupted_fill_has_a_reason_until_it_is_dropped() -> None:
    engine, n = counting()

    def interrupts(_: FillProgress) -> None:
        raise KeyboardInterrupt

    grouped = engine.sources["numbers"].group_by("k").agg(n)
    view = engine.view("v", grouped, background=True, on_progress=interrupts)
    with pytest.raises(
        NotFilledError, match=r"view 'v' could not be filled: KeyboardInterrupt; declare it again"
    ):
        view.wait(20)
    assert repr(view) == "View 'v': view 'v' could not be filled: KeyboardInterrupt"
    assert engine.filling["v"].as_dict()["error"] == "KeyboardInterrupt"
    engine.drop_view("v")
    assert "dropped" in repr(view)
    assert "None" not in repr(view)
    assert sorted(engine.view("v", grouped).read().rows()) == [(1, 1), (2, 1)]
    failed = engine.view("w", grouped.filter(pl.col("n") > 0), background=True, on_progress=interrupts)
    with pytest.raises(NotFilledError):
        failed.wait(20)
    engine.close()
    assert "KeyboardInterrupt" in repr(failed)
