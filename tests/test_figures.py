"""What ``docs/figures.md`` shows is what the engine does."""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def made() -> Iterator[Any]:
    """The script."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        yield importlib.import_module("make_figures")


@pytest.fixture(scope="module")
def drawings(made) -> dict[str, str]:
    """What it makes, by the names of files."""
    return dict(made.drawings())


def test_the_drawings_are_those_that_the_script_makes(drawings):
    kept = {path.name: path.read_text("utf-8") for path in (DOCS / "figures").iterdir()}
    assert sorted(kept) == sorted(drawings)
    assert [name for name, drawing in drawings.items() if kept[name] != drawing] == [], (
        "run: python docs/make_figures.py"
    )


def test_the_page_shows_each_of_them(drawings):
    shown = set(re.findall(r"\(figures/([^)]+)\)", (DOCS / "figures.md").read_text("utf-8")))
    assert shown == set(drawings)


def test_no_label_lies_across_the_watermark(drawings):
    """Its plate may be beside or below the line: a line through a text is hard to read."""
    across = {}
    for name, drawing in drawings.items():
        rectangles = re.findall(r"<rect [^>]*>", drawing)
        plates = [[float(re.search(rf' {of}="([^"]+)"', each)[1]) for of in ("x", "y", "width", "height")] for each in rectangles if 'rx="4"' in each]  # type: ignore[index]  # fmt: skip
        for line in re.findall(r'<path d="M([^"]+)" fill="none"', drawing):
            points = [tuple(map(float, point.split())) for point in line.split("L")]
            for (x, y), (to_x, to_y) in itertools.pairwise(points):
                for left, top, wide, high in plates:
                    is_beside = max(x, to_x) <= left or min(x, to_x) >= left + wide
                    if not is_beside and max(y, to_y) > top and min(y, to_y) < top + high:
                        across.setdefault(name, []).append((x, y, to_x, to_y))
    assert across == {}


def test_the_second_order_is_one_of_the_same_rows(made):
    first, second = (
        sorted((row.value, row.event_time) for row in rows) for rows in (made.FIRST_ORDER, made.SECOND_ORDER)
    )
    assert first == second
    assert all(row.processing_time.replace(tzinfo=None) >= row.event_time for row in made.SECOND_ORDER)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("s102-14-left-processing-time", [12, 21, 18]),
        ("s102-14-right-processing-time", [7, 36, 4, 4]),
        ("s102-15-right-ingress-time", [7, 36, 4, 4]),
        ("s102-08-allowed-lateness", [5, 7, 11, 14, 3, 22, 3, 12]),
    ],
)
def test_the_panes_are_those_on_the_page(made, name, values):
    (figure,) = (figure for figure in made.FIGURES if figure.name == name)
    panes = (
        made.played(figure).deltas().frame().sort("_epoch", "window_start" if "fixed" in name else "total")
    )
    assert sorted(panes.filter(pl.col("_diff") > 0)["total"].to_list()) == sorted(values)


def test_micro_batches_emit_the_panes_of_a_trigger_every_minute(made):
    (figure,) = (figure for figure in made.FIGURES if figure.name.startswith("paper-11"))
    by_trigger = made.played(figure).deltas().frame()
    engine = ec.Engine()
    rows = engine.source("scores", made.SCHEMA, event_time="at")
    view = engine.view("totals", made.totals(made.FIXED, mode="accumulating")(rows))
    for minute in range(6, 10):
        end = datetime(2015, 8, 31, 12, minute, tzinfo=UTC)
        batch = [
            ("blue", row.value, row.event_time)
            for row in made.FIRST_ORDER
            if end - timedelta(minutes=1) <= row.processing_time < end
        ]
        engine.push("scores", batch, at=end)
    columns = ["window_start", "total", "pane_processing_time"]
    assert sorted(view.deltas().frame().select(columns).rows()) == sorted(by_trigger.select(columns).rows())
