"""Parts of a run, and large ones: what is drawn of a span of event time, and that labels are legible and in the axes."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import combinations
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import evercurrent as ec
from evercurrent.views.cli import app
from evercurrent.views.inspection.timeline import Timeline
from evercurrent.views.inspection.timeline.placing import Box
from evercurrent.views.inspection.timeline.rectangles import AT_EDGE, HIDDEN
from evercurrent.views.inspection.timeline.style import TEXT_SIZE
from evercurrent.views.inspection.timeline.svg import width as text_width

SVG = "{http://www.w3.org/2000/svg}"
NINE = datetime(2026, 1, 1, 9)
COLUMNS = {"k": pl.String, "v": pl.Int64, "at": pl.Datetime("us")}


def view_of_rows(rows: list[tuple[str, int, int]], dtype: Any = COLUMNS["at"]) -> ec.View:
    """Return the sums of fixed minutes; rows are key, value, and seconds after nine."""
    engine = ec.Engine(record=True)
    source = engine.source("s", {**COLUMNS, "at": dtype}, event_time="at", watermark=ec.ascending())
    view = engine.view("v", source.window(ec.fixed("1m")).group_by("k").agg(v=pl.col("v").sum()))
    zone = getattr(dtype, "time_zone", None)
    for key, value, seconds in rows:
        at = NINE + timedelta(seconds=seconds)
        row = {"k": [key], "v": [value], "at": [at.replace(tzinfo=UTC) if zone else at]}
        engine.push("s", row, at=at.replace(tzinfo=UTC) + timedelta(seconds=90))
    return view


def texts_of(drawn: Timeline) -> list[str]:
    return ["".join(each.itertext()) for each in ET.fromstring(drawn.svg()).iter(f"{SVG}text")]


def boxes(drawn: Timeline) -> tuple[list[Box], list[Box]]:
    """Return the axes of a drawing, and the plates of its labels."""
    axes, plates = [], []
    for each in ET.fromstring(drawn.svg()).iter(f"{SVG}rect"):
        left, top, width, height = (float(each.get(name, 0)) for name in ("x", "y", "width", "height"))
        box = Box(left, top, left + width, top + height)
        if each.get("fill") == "none":
            axes.append(box)
        elif each.get("rx") == "4":
            plates.append(box)
    return axes, plates


@cache
@cache
def long_run(panes: int) -> ec.View:
    """Return a view of two keys with at least so many panes: sessions that grow, end, merge and are refined."""
    drawn = random.Random(5)
    engine = ec.Engine(record=True)
    source = engine.source("s", COLUMNS, event_time="at", watermark=ec.bounded_delay("5m"))
    sessions = source.window(ec.sessions("6m")).trigger(early=ec.every("4m"), late=ec.each_row())
    counted = sessions.accumulate("retracting").lateness("1h").with_pane_info().group_by("k").agg(n=pl.len())
    view = engine.view("v", counted)
    for number in range(0, 4 * panes, 4):
        if number % 60 < 40:
            times = [NINE + timedelta(minutes=number, seconds=drawn.randint(-500, 60)) for _ in range(3)]
            rows = {"k": [drawn.choice("ab") for _ in times], "v": [1] * 3, "at": times}
            engine.push("s", rows, at=(NINE + timedelta(minutes=number, seconds=70)).replace(tzinfo=UTC))
        else:
            engine.tick(at=(NINE + timedelta(minutes=number)).replace(tzinfo=UTC))
    return view


class TestSpans:
    ROWS = (("a", 1, 10), ("a", 20, 70), ("b", 300, 80), ("a", 4000, 130))

    def test_rows_and_panes_of_other_times_are_not_drawn(self) -> None:
        view = view_of_rows(list(self.ROWS))
        drawn = texts_of(view.timeline(start="2026-01-01 09:01", end="2026-01-01 09:02"))
        assert {"20", "300"} <= set(drawn)
        assert not {"1", "4000"} & set(drawn)
        assert not [text for text in drawn if text.startswith("Left out")]

    @pytest.mark.parametrize(
        ("start", "end", "values"),
        [
            (None, None, {"1", "20", "300", "4000"}),
            (NINE + timedelta(seconds=60), None, {"20", "300", "4000"}),
            (None, "2026-01-01T09:01:00", {"1"}),
            (datetime(2026, 1, 1, 9, 2, tzinfo=UTC), None, {"4000"}),
            (date(2026, 1, 1), date(2026, 1, 2), {"1", "20", "300", "4000"}),
            ("2026-01-01 09:01:30", "2026-01-01 09:01:40", {"20", "300"}),
            ("2027-01-01", None, set()),
        ],
    )
    def test_each_end_is_a_time_and_may_be_left_out(self, start: Any, end: Any, values: set[str]) -> None:
        drawn = texts_of(view_of_rows(list(self.ROWS)).timeline(start=start, end=end))
        assert {"1", "20", "300", "4000"} & set(drawn) == values

    def test_the_axis_is_the_span_and_a_little_more(self) -> None:
        view = view_of_rows(list(self.ROWS))
        drawn = texts_of(view.timeline(start="2026-01-01 09:00:30", end="2026-01-01 09:01:30"))
        ticks = drawn[: drawn.index("event time, 2026-01-01")]
        assert {"09:00:30", "09:01:00", "09:01:30"} <= set(ticks)
        assert not {"09:00:00", "09:02:00"} & set(ticks[: ticks.index("09:01:30")])

    def test_a_pane_keeps_what_it_retracts_and_when_it_began(self) -> None:
        """Though the rows and the session before it are outside of the span."""
        engine = ec.Engine(record=True)
        source = engine.source("s", COLUMNS, event_time="at")
        view = engine.view("v", source.window(ec.sessions("2m")).group_by("k").agg(v=pl.col("v").sum()))
        for value, seconds in ((5, 0), (7, 180), (9, 100)):
            at = NINE + timedelta(seconds=seconds)
            engine.push("s", {"k": ["a"], "v": [value], "at": [at]}, at=at.replace(tzinfo=UTC))
        whole, part = view.timeline().svg(), view.timeline(start="2026-01-01 09:03:30").svg()
        assert "retracts 5 of window [2026-01-01 09:00:00, 2026-01-01 09:02:00)" in whole
        assert "retracts 5 of window [2026-01-01 09:00:00, 2026-01-01 09:02:00)" in part

    def test_in_the_zone_of_event_time(self) -> None:
        view = view_of_rows(list(self.ROWS), pl.Datetime("us", "Europe/Berlin"))
        assert {"20", "300"} <= set(texts_of(view.timeline(start="2026-01-01 10:01", end="2026-01-01 10:02")))
        with pytest.raises(ec.InputError, match=r"timeline of view 'v': start: .* has no time zone"):
            view.timeline(start=NINE)

    @pytest.mark.parametrize("wrong", ["noon", 5, "01/02/2026"])
    def test_what_is_no_time_is_refused(self, wrong: Any) -> None:
        with pytest.raises(ec.InputError, match=f"timeline of view 'v': end={wrong!r} is not a time; give"):
            view_of_rows([("a", 1, 0)]).timeline(end=wrong)

    def test_an_empty_span_is_refused(self) -> None:
        with pytest.raises(
            ec.PlanError, match=r"start 2026-01-02 .* is not before end 2026-01-01 .*; give an earlier"
        ):
            view_of_rows([("a", 1, 0)]).timeline(start="2026-01-02", end="2026-01-01")

    def test_of_the_command(self, tmp_path: Any) -> None:
        (tmp_path / "rows.csv").write_text("k,v,at\na,5,2026-01-01 09:00:10\na,77,2026-01-01 09:05:00\n")
        (tmp_path / "app.py").write_text(
            "import evercurrent as ec\nimport polars as pl\nengine = ec.Engine()\n"
            "s = engine.source('s', {'k': pl.String, 'v': pl.Int64, 'at': pl.Datetime('us')}, event_time='at')\n"
            "engine.view('v', s.window(ec.fixed('1m')).group_by('k').agg(v=pl.col('v').sum()))\n"
        )
        words = ["timeline", str(tmp_path / "app.py"), "--input", f"s={tmp_path / 'rows.csv'}"]
        words += ["-o", str(tmp_path / "run.svg")]
        done = CliRunner().invoke(app, [*words, "--start", "2026-01-01T09:03", "--end", "2026-01-01T09:10"])
        assert done.exit_code == 0, done.output
        assert ">77<" in (tmp_path / "run.svg").read_text()
        assert ">5<" not in (tmp_path / "run.svg").read_text()
        assert CliRunner().invoke(app, [*words, "--start", "noon"]).exit_code == 1


class TestLegibility:
    @pytest.mark.parametrize("seconds", [180, 237, 238, 239, 240])
    def test_no_label_of_a_time_is_cut_off_at_the_right_edge(self, seconds: int) -> None:
        """A tick may be in the margin of what is shown, at the edge of the drawing."""
        view = view_of_rows([("a", 1, 10), ("a", 1, 200)])
        drawn = view.timeline(start=NINE, end=NINE + timedelta(seconds=seconds), width=700)
        labels = [
            (float(each.get("x", 0)), str(each.text))
            for each in ET.fromstring(drawn.svg()).iter(f"{SVG}text")
            if each.get("text-anchor") == "middle" and ":" in str(each.text)
        ]
        assert len(labels) > 3
        assert all(x + text_width(text, TEXT_SIZE) / 2 <= 700.05 for x, text in labels), labels

    @pytest.mark.parametrize("width", [420, 900, 1400])
    @pytest.mark.parametrize("span", [{}, {"start": "2026-01-01 12:00", "end": "2026-01-01 14:00"}])
    def test_labels_of_300_panes_are_in_the_axes_and_do_not_cover_each_other(
        self, width: int, span: dict[str, str]
    ) -> None:
        view = long_run(300)
        assert view.timeline().recording.panes.height >= 300
        drawn = view.timeline(width=width, **span)
        axes, plates = boxes(drawn)
        assert len(axes) == 2
        assert len(plates) >= 8
        for plate in plates:
            assert any(
                each.left <= plate.left and plate.right <= each.right and each.top <= plate.top
                and plate.bottom <= each.bottom
                for each in axes
            )  # fmt: skip
        # Each label is at the edge of a pane, or a line leads to it from one.
        edges = [
            tuple(float(line.get(name, 0)) for name in ("x1", "y1", "x2", "y2"))
            for line in ET.fromstring(drawn.svg()).iter(f"{SVG}line")
        ]
        for plate in plates:
            assert any(
                (
                    y1 == y2
                    and x1 < plate.right
                    and plate.left < x2
                    and min(abs(y1 - plate.top), abs(y1 - plate.bottom)) <= AT_EDGE + 0.2
                )
                or (plate.left <= x2 <= plate.right and plate.top - 0.2 <= y2 <= plate.bottom and y1 != y2)
                for x1, y1, x2, y2 in edges
            )
        for one, other in combinations(plates, 2):
            across = min(one.right, other.right) - max(one.left, other.left)
            down = min(one.bottom, other.bottom) - max(one.top, other.top)
            assert across <= 0 or down <= 0 or across * down <= HIDDEN * min(one.area, other.area)
