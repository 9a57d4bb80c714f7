"""The drawing of a run: what is where, what is written, what is left out."""

from __future__ import annotations

import random
import re
import struct
import sys
import types
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise

import polars as pl
import pytest

import evercurrent as ec
from drawings import (
    CURVE,
    MARKS,
    RETRACTING,
    SESSIONS,
    TEN,
    US,
    Drawn,
    PaneCells,
    at,
    marks_of,
    micros,
    on,
    panes_frame,
    recorded,
    rows_of,
)
from evercurrent.core.data.clock import END_OF_TIME, START_OF_TIME
from evercurrent.core.data.errors import PlanError
from evercurrent.views.inspection.timeline import Look, Recording, Timeline, png
from evercurrent.views.inspection.timeline import timeline as timeline_module
from evercurrent.views.inspection.timeline.axes import ClockFace, Scale
from evercurrent.views.inspection.timeline.dots import dots_of
from evercurrent.views.inspection.timeline.labels import labels
from evercurrent.views.inspection.timeline.panes import Pane, panes_of
from evercurrent.views.inspection.timeline.placing import Box, Placing
from evercurrent.views.inspection.timeline.recording import instants
from evercurrent.views.inspection.timeline.svg import MINUS, TIMES

EARLY, ON_TIME, LATE = "#d68a0c", "#2a72b5", "#b0307a"


class TestRectangles:
    def test_as_wide_as_the_window_and_as_high_as_the_time_since_the_pane_before(self):
        drawn = Drawn(recorded())
        x = {minute: drawn.tick(f"12:0{minute}", "x") for minute in (0, 2, 4)}
        y = {clock: drawn.tick(clock, "y") for clock in ("12:06:00", "12:07:00", "12:07:30")}
        close = {"abs": 0.2}
        left, top, right, bottom = drawn.place("14\n", "early")
        assert (left, right) == pytest.approx((x[2], x[4]), **close)
        assert (top, bottom) == pytest.approx((y["12:07:00"], y["12:06:00"]), **close)
        _, top, _, bottom = drawn.place("22\n", "on time")
        assert (top, bottom) == pytest.approx((y["12:07:30"], y["12:07:00"]), **close)

    def test_the_first_pane_begins_at_the_first_row_of_its_window(self):
        drawn = Drawn(recorded())
        (seven,) = drawn.hinted("g", "7\nevent time", "12:05:39")
        middle = next(
            float(each.get("y", "nan")) + float(each.get("height", "nan")) / 2 for each in seven.iter("rect")
        )
        assert drawn.place("7\n", "[2015-08-31 12:02:00")[3] == pytest.approx(middle, abs=0.2)

    def test_early_on_time_and_late_differ_in_colour_and_word(self):
        drawn = Drawn(recorded())
        for value, word, colour in (("7", "early", EARLY), ("22", "on time", ON_TIME), ("14", "late", LATE)):
            (body,) = drawn.hinted("rect", f"{value}\n", f"{word} pane")
            assert body.get("fill") == colour
            (label,) = (each for each in drawn.hinted("g", f"{value}\n", f"{word} pane"))
            assert [each.get("fill") for each in label.iter("text") if each.text == word] == [colour]

    def test_without_timing_there_is_no_word(self):
        drawn = Drawn(recorded([(*RETRACTING[0][:5], None)]))
        (label,) = drawn.hinted("g", "5\nwindow")
        assert ["".join(each.itertext()) for each in label.iter("text")] == ["5"]
        assert "pane" in drawn.texts

    def test_all_of_time_goes_from_edge_to_edge(self):
        drawn = Drawn(
            recorded([(None, None, "12", 1, "12:06:00", "EARLY"), (None, None, "10", 1, "12:07:00", "EARLY")])
        )
        frame = next(each for each in drawn.root.iter("rect") if each.get("fill") == "none")
        left, right = (
            float(frame.get("x", "nan")),
            float(frame.get("x", "nan")) + float(frame.get("width", "nan")),
        )
        first, second = drawn.place("12\n", "all of time"), drawn.place("10\n", "all of time")
        assert (first[0], first[2]) == (second[0], second[2]) == pytest.approx((left, right), abs=0.2)
        assert first[1] == pytest.approx(second[3], abs=0.2)

    def test_a_merged_session_spans_those_it_was_merged_from(self):
        drawn = Drawn(recorded(SESSIONS))
        outer, inner = drawn.place("39\n", "late"), drawn.place("10\n", "early")
        assert outer[0] < inner[0]
        assert outer[2] == pytest.approx(inner[2], abs=0.2)
        assert outer[1] < inner[1] < inner[3] < outer[3]
        order = [
            each.find("title").text for each in drawn.root.iter("rect") if each.find("title") is not None
        ]  # type: ignore[union-attr]
        assert [text.partition("\n")[0] for text in order if text][:2] == ["39", "25"]

    def test_what_is_taken_back_is_written_at_the_pane_that_takes_it(self):
        drawn = Drawn(recorded(SESSIONS))
        (label,) = drawn.hinted("g", "39\n")
        texts = [each.text for each in label.iter("text")]
        assert texts == ["39", f"{MINUS}5", f"{MINUS}25", "late"]
        assert len(list(label.iter("line"))) == 0
        (gone,) = drawn.hinted("g", "25\n", "retracted")
        assert len(list(gone.iter("line"))) == 1
        assert {"retraction", "later retracted"} <= set(drawn.texts)

    def test_what_is_only_taken_back_is_written_alone(self):
        drawn = Drawn(recorded([*RETRACTING[:1], ("12:00:00", "12:02:00", "5", -1, "12:07:00", "ON_TIME")]))
        assert f"{MINUS}5" in drawn.texts

    def test_equal_panes_of_one_epoch_are_written_once(self):
        drawn = Drawn(recorded([("12:00:00", "12:02:00", "5", 3, "12:06:00", "EARLY")]))
        assert f"5 {TIMES}3" in drawn.texts


class TestPanes:
    def named(self, emitted: Sequence[PaneCells], limit: int = 100) -> dict[str | None, Pane]:
        return {pane.label: pane for pane in panes_of(recorded(emitted), limit).drawn}

    def test_a_value_is_gone_when_it_is_taken_back(self):
        found = {(pane.label, pane.timing): pane for pane in panes_of(recorded(), 100).drawn}
        assert found["7", "EARLY"].gone_at == micros("12:07:00")
        assert found["14", "EARLY"].gone_at == micros("12:07:30")
        assert found["22", "ON_TIME"].gone_at is None
        assert found["14", "LATE"].gone_at is None

    def test_a_value_emitted_twice_is_retracted_in_order(self):
        window = ("12:00:00", "12:02:00")
        emitted: list[PaneCells] = [
            (*window, "5", 1, "12:06:00", None),
            (*window, "5", -1, "12:06:10", None),
            (*window, "6", 1, "12:06:10", None),
            (*window, "6", -1, "12:06:20", None),
            (*window, "5", 1, "12:06:20", None),
        ]
        gone = [(pane.label, pane.gone_at) for pane in panes_of(recorded(emitted), 100).drawn]
        assert gone == [("5", micros("12:06:10")), ("6", micros("12:06:20")), ("5", None)]

    def test_merged_sessions_are_taken_back_by_the_session_that_holds_them(self):
        found = self.named(SESSIONS)
        assert [gone.label for gone in found["39"].takes_back] == ["5", "25"]
        assert [gone.label for gone in found["25"].takes_back] == ["7", "10"]
        assert found["39"].since == micros("12:05:19")

    def test_another_key_takes_nothing_back(self):
        frame = panes_frame(SESSIONS).with_columns(
            key=pl.when(pl.col("label") == "39").then(pl.lit("b")).otherwise(pl.lit("a"))
        )
        drawn = panes_of(Recording(rows_of(TEN), marks_of(CURVE), frame), 100).drawn
        (whole,) = (pane for pane in drawn if pane.label == "39")
        assert whole.takes_back == ()
        assert [pane.takes_back[0].label for pane in drawn if pane.label is None] == ["5", "25"]

    def test_rows_of_other_keys_do_not_begin_a_pane(self):
        rows = rows_of(TEN).with_columns(
            key=pl.when(pl.col("label") == "5").then(pl.lit("b")).otherwise(pl.lit("a"))
        )
        frame = panes_frame(RETRACTING[:1]).with_columns(key=pl.lit("a"))
        (pane,) = panes_of(Recording(rows, marks_of(CURVE), frame), 100).drawn
        assert pane.since == pane.fired == micros("12:06:00")  # the 9 came later

    def test_thinned_out_panes_keep_their_extent(self):
        emitted: list[PaneCells] = [
            (None, None, str(number), 1, f"12:06:{number:02d}", None) for number in range(50)
        ]
        found = panes_of(recorded(emitted), 11)
        assert found.total == 50
        assert [pane.label for pane in found.drawn][:2] == ["0", "5"]
        assert found.drawn[-1].label == "49"
        assert all(pane.fired - pane.since == 1_000_000 for pane in found.drawn[1:])

    def test_none_at_all(self):
        assert panes_of(recorded([]), 10).drawn == ()


class TestDots:
    def test_are_where_their_times_are(self):
        drawn = Drawn(recorded())
        (nine,) = drawn.hinted("g", "9\nevent time")
        value = next(nine.iter("text"))
        x1, x2 = drawn.tick("12:01", "x"), drawn.tick("12:02", "x")
        assert float(value.get("x", "nan")) == pytest.approx(x1 + (x2 - x1) * 25 / 60, abs=0.3)

    def test_a_row_behind_the_watermark_is_late(self):
        late = [dot.label for dot in dots_of(recorded(), 100).drawn if dot.standing == "late"]
        assert late == ["9"]
        assert "late row" in Drawn(recorded()).texts

    def test_a_watermark_of_the_same_moment_is_not_yet_met(self):
        moves = marks_of([("12:08:19", "12:02:00")])
        dots = dots_of(Recording(rows_of(TEN), moves, panes_frame([])), 100).drawn
        assert [dot.label for dot in dots if dot.standing] == []

    def test_what_was_refused_is_crossed_out(self):
        standing = pl.when(pl.col("label") == "9").then(pl.lit("refused"))
        drawn = Drawn(
            Recording(rows_of(TEN).with_columns(standing=standing), marks_of(CURVE), panes_frame([]))
        )
        (nine,) = drawn.hinted("g", "9\nevent time", "refused")
        assert len(list(nine.iter("line"))) == 1
        assert "row refused as too late" in drawn.texts

    def test_a_row_that_is_taken_back_has_a_minus(self):
        drawn = Drawn(Recording(rows_of(TEN[:1], diff=-1), marks_of(CURVE), panes_frame([])))
        assert f"{MINUS}5" in drawn.texts
        assert "row retracted" in drawn.texts

    def test_many_rows_have_no_values_but_hints(self):
        rows = rows_of([(str(n), f"12:0{n % 8}:{n % 60:02d}", f"12:09:{n % 60:02d}") for n in range(300)])
        drawn = Drawn(Recording(rows, marks_of(CURVE), panes_frame([])), rows=200)
        assert len(list(drawn.root.iter("circle"))) == 200 + 2  # and those of the legend
        assert drawn.hinted("circle", "299\nevent time")
        assert "Left out: 100 of 300 rows." in drawn.texts

    def test_late_rows_stay_when_rows_are_thinned_out(self):
        rows = rows_of([("a", "12:05:00", "12:06:10")] * 500 + [("b", "12:00:00", "12:06:20")] * 3)
        dots = dots_of(Recording(rows, marks_of(CURVE), panes_frame([])), 50)
        assert [dot.label for dot in dots.drawn].count("b") == 3
        assert len(dots.drawn) == 50

    def test_long_values_are_cut_and_whole_in_the_hint(self):
        drawn = Drawn(
            Recording(
                rows_of([("a very long name", "12:01:00", "12:06:00")]), marks_of(CURVE), panes_frame([])
            )
        )
        assert "a very …" in drawn.texts
        assert drawn.hinted("g", "a very long name\n")


class TestWatermarks:
    def corners(self, recording: Recording) -> list[tuple[float, float]]:
        drawn = Drawn(recording)
        (line,) = drawn.hinted("path", "watermark")
        return [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", line.get("d", ""))]

    def test_a_step_at_every_move(self):
        drawn = Drawn(recorded())
        corners = self.corners(recorded())
        x, y = drawn.tick("12:04", "x"), drawn.tick("12:07:30", "y")
        assert any((a, b) == pytest.approx((x, y), abs=0.2) for a, b in corners)
        assert all(a == c or b == d for (a, b), (c, d) in pairwise(corners))
        assert [a for a, _ in corners] == sorted(a for a, _ in corners)

    def test_the_end_of_time_is_the_right_edge(self):
        moves = marks_of([("12:09:10", "12:00:00")]).with_columns(watermark=pl.Series([END_OF_TIME]).cast(US))
        corners = self.corners(Recording(rows_of(TEN), moves, panes_frame([])))
        assert corners[0][1] == corners[-1][1]
        assert len(corners) == 2

    def test_nothing_known_is_no_line(self):
        moves = marks_of([("12:05:00", "12:00:00")]).with_columns(watermark=pl.lit(None, US))
        drawn = Drawn(Recording(rows_of(TEN), moves, panes_frame([])))
        assert not drawn.hinted("path", "watermark of scores")
        assert "watermark" not in drawn.texts

    def test_each_source_has_its_own(self):
        moves = pl.concat([marks_of(CURVE), marks_of(CURVE[:2], "others")])
        drawn = Drawn(Recording(rows_of(TEN), moves, panes_frame([])))
        assert {"watermark of scores", "watermark of others"} <= set(drawn.texts)
        assert len(drawn.hinted("path", "watermark")) == 2

    def test_of_very_many_moves_as_many_are_drawn_as_can_be_seen(self):
        start = at("12:00:00")
        moves = pl.DataFrame(
            [(start + timedelta(seconds=n), on("12:00:00") + timedelta(seconds=n), "s") for n in range(5000)],
            schema=MARKS,
            orient="row",
        )
        assert len(Drawn(Recording(rows_of([]), moves, panes_frame([]))).svg) < 40_000

    def test_the_ideal_one_is_the_diagonal(self):
        drawn = Drawn(recorded())
        (ideal,) = drawn.hinted("line", "ideal")
        x1, y1, x2, y2 = (float(ideal.get(name, "nan")) for name in ("x1", "y1", "x2", "y2"))
        minute_across = drawn.tick("12:07", "x") - drawn.tick("12:06", "x")
        minute_up = drawn.tick("12:06:00", "y") - drawn.tick("12:07:00", "y")
        assert (y1 - y2) / (x2 - x1) == pytest.approx(minute_up / minute_across, rel=0.01)

    def test_without_time_in_common_there_is_no_ideal_one(self):
        later = rows_of(TEN).with_columns(pl.col("processing_time").dt.offset_by("1y"))
        drawn = Drawn(Recording(later, marks_of([]), panes_frame([])))
        assert not drawn.hinted("line", "ideal")
        assert "ideal watermark" not in drawn.texts


class TestDrawing:
    def test_is_labelled_with_what_it_is(self):
        drawn = Drawn(recorded())
        assert drawn.texts[:2] == ["totals", "a run"]
        assert {"event time, 2015-08-31", "processing time, 2015-08-31, UTC"} <= set(drawn.texts)
        assert drawn.root.get("aria-label") == "totals. a run"

    def test_is_the_same_every_time(self):
        assert Drawn(recorded()).svg == Drawn(recorded()).svg

    def test_needs_nothing_else(self):
        page = Timeline(recorded(), title="totals").html()
        assert "<svg" in page
        assert re.findall(r"https?://[^\"' ]+", page) == ["http://www.w3.org/2000/svg"]
        assert not re.search(r"<link|<image|url\(|src=|import|fetch", page)
        assert page.count("<script>") == 1  # The page zooms; the drawing itself has no script.
        assert "<script" not in Timeline(recorded(), title="totals").svg()

    def test_what_users_write_is_text(self):
        rows = rows_of([("<b>&\"'", "12:01:00", "12:06:00")])
        frame = panes_frame([("12:00:00", "12:02:00", "<i>", 1, "12:06:00", "EARLY")])
        timeline = Timeline(Recording(rows, marks_of(CURVE), frame), title="a < b & c", subtitle="</svg>")
        root = ET.fromstring(timeline.svg())
        assert "a < b & c" in [
            "".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")
        ]
        assert "<title>a &lt; b &amp; c</title>" in timeline.html()

    def test_what_cannot_stand_in_xml_is_replaced(self):
        drawn = Drawn(
            Recording(rows_of([("a\x00\x1b", "12:01:00", "12:06:00")]), marks_of([]), panes_frame([]))
        )
        assert "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}" in drawn.texts

    def test_several_keys_have_axes_of_their_own(self):
        names = ["ada", "ben", "eve"]
        frames = [
            panes_frame(RETRACTING[: 2 + n]).with_columns(key=pl.lit(name)) for n, name in enumerate(names)
        ]
        rows = rows_of(TEN).with_columns(key=pl.lit("eve"))
        recording = Recording(rows, marks_of(CURVE), pl.concat(frames))
        drawn = Drawn(recording, keys=2)
        assert [text for text in drawn.texts if text in names] == ["ben", "eve"]
        assert len([each for each in drawn.root.iter("rect") if each.get("fill") == "none"]) == 2
        assert len(drawn.hinted("g", "9\nevent time", "key eve")) == 1
        assert "Of 3 keys, the 2 with most panes are drawn." in drawn.texts

    def test_rows_without_a_key_are_in_every_plot(self):
        frames = [panes_frame(RETRACTING[:1]).with_columns(key=pl.lit(name)) for name in ("ada", "ben")]
        drawn = Drawn(Recording(rows_of(TEN), marks_of(CURVE), pl.concat(frames)))
        assert len(drawn.hinted("g", "9\nevent time")) == 2

    def test_names_what_is_left_out(self):
        emitted: list[PaneCells] = [
            ("12:00:00", "12:00:02", str(n), 1, f"12:06:{n:02d}", "EARLY") for n in range(60)
        ]
        drawn = Drawn(recorded(emitted, unrecorded_rows=90), panes=50, rows=5)
        assert "Left out: 95 of 100 rows and 10 of 60 panes." in drawn.texts
        assert any(re.match(r"There is no room for the values of \d+ panes", text) for text in drawn.texts)

    def test_nothing_at_all(self):
        drawn = Drawn(Recording(rows_of([]), marks_of([]), panes_frame([])))
        assert drawn.texts[0] == "totals"

    def test_one_row_alone(self):
        drawn = Drawn(Recording(rows_of(TEN[:1]), marks_of([]), panes_frame([])))
        assert "5" in drawn.texts

    def test_times_are_shown_in_the_zone_of_event_time(self):
        zoned = pl.col("event_time").dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin")
        recording = recorded()
        bounds = [
            pl.col(name).dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin")
            for name in ("window_start", "window_end")
        ]
        drawn = Drawn(
            Recording(
                recording.rows.with_columns(zoned), recording.watermarks, recording.panes.with_columns(bounds)
            )
        )
        assert "event time, 2015-08-31, Europe/Berlin" in drawn.texts
        assert "14:02" in drawn.texts

    @pytest.mark.parametrize("look", [{"width": 450}, {"width": 300, "height": 230}, {"width": 1600}])
    def test_fits_other_sizes(self, look):
        drawn = Drawn(recorded(SESSIONS), **look)
        wide = float(drawn.root.get("width", "nan"))
        assert wide == look["width"]
        for each in drawn.root.iter("text"):
            assert 0 <= float(each.get("x", 0)) <= wide

    @pytest.mark.parametrize(
        "wrong", [{"width": 10}, {"height": 0}, {"rows": -1}, {"keys": 0}, {"panes": 1.5}, {"width": True}]
    )
    def test_sizes_that_make_no_drawing(self, wrong):
        (name,) = wrong
        with pytest.raises(PlanError, match=f"timeline: {name}="):
            Look(**wrong)


class TestTimeline:
    def test_is_written_by_its_suffix(self, tmp_path, monkeypatch):
        monkeypatch.setattr(timeline_module, "converter", lambda: None)
        timeline = Timeline(recorded(), title="totals")
        assert timeline.save(tmp_path / "a.svg").read_text("utf-8") == timeline.svg() + "\n"
        assert timeline.save(str(tmp_path / "a.HTML")).read_text("utf-8") == timeline.html()
        with pytest.raises(PlanError, match=r"a\.png: the suffix has to be one of \.svg, \.html"):
            timeline.save(tmp_path / "a.png")
        assert not (tmp_path / "a.png").exists()
        with pytest.raises(PlanError, match=r"png\(\).*install cairosvg .*rsvg-convert"):
            timeline.png()
        with pytest.raises(PlanError, match=r"a\.gif: the suffix has to be one of \.svg, \.html, \.png"):
            timeline.save(tmp_path / "a.gif")
        with pytest.raises(PlanError, match=r"timeline: .*a\.svg: there is no folder '.*none'; make it"):
            timeline.save(tmp_path / "none" / "a.svg")

    def test_is_a_picture_where_a_converter_is_installed(self, tmp_path, monkeypatch):
        command = tmp_path / "rsvg-convert"
        command.write_text("#!/bin/sh\nprintf '\\211PNG '\necho $*\ncat\n")
        command.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.setattr(png, "find_spec", lambda name: None)
        timeline = Timeline(recorded(), title="totals")
        made = timeline.save(tmp_path / "a.png").read_bytes()
        assert made.startswith(b"\x89PNG --format=png --zoom=2\n")
        assert made.endswith(timeline.svg().encode())
        command.write_text("#!/bin/sh\ncat > /dev/null\necho broken fonts >&2\nexit 3\n")
        with pytest.raises(
            ec.EvercurrentError, match="rsvg-convert could not convert the drawing: broken fonts"
        ):
            timeline.png()

    def test_is_a_picture_by_a_library_too(self, monkeypatch):
        library = types.ModuleType("cairosvg")
        library.svg2png = lambda bytestring, scale: b"\x89PNG" + bytestring[:4] + bytes([scale])
        monkeypatch.setitem(sys.modules, "cairosvg", library)
        monkeypatch.setattr(png, "find_spec", lambda name: name == "cairosvg")
        assert Timeline(recorded()).png() == b"\x89PNG<svg\x02"

    @pytest.mark.skipif(
        png.converter() is None, reason="neither cairosvg, rsvg-convert nor inkscape is installed"
    )
    def test_is_a_picture_of_its_size_by_what_is_installed(self, tmp_path):
        """Not a stand-in: the size in the picture's header is that of the drawing, and it has its colours."""
        timeline = Timeline(recorded(), title="totals")
        picture = timeline.save(tmp_path / "a.png").read_bytes()
        root = ET.fromstring(timeline.svg())
        assert picture.startswith(b"\x89PNG\r\n\x1a\n")
        size = struct.unpack(">II", picture[16:24])
        assert size == tuple(png.SCALE * int(root.get(name)) for name in ("width", "height"))
        assert len(picture) > 10_000

    def test_no_plate_of_a_label_cuts_the_watermark(self):
        """The watermark is drawn after the plates behind labels, so that none of them covers it."""
        drawn = Timeline(recorded(), title="totals").svg()
        plates = [place.start() for place in re.finditer('rx="4"', drawn)]
        watermark = drawn.index('stroke-width="1.8" stroke-linejoin="round"')
        assert plates
        assert max(plates) < watermark

    def test_shows_itself_in_notebooks(self):
        timeline = Timeline(recorded(), title="totals")
        assert timeline._repr_html_() == timeline.svg()
        assert repr(timeline) == "Timeline('totals': 10 rows, 8 entries of panes; save it as .svg or .html)"


class TestRecording:
    def test_names_what_is_missing(self):
        with pytest.raises(PlanError, match="rows has no column 'label'; it has 'event_time'"):
            Recording(rows_of(TEN).drop("label"), marks_of(CURVE), panes_frame([]))

    def test_names_what_is_of_another_type(self):
        with pytest.raises(PlanError, match="column 'label' of panes is Int64; it has to be String"):
            Recording(
                rows_of(TEN),
                marks_of(CURVE),
                panes_frame(SESSIONS).with_columns(pl.col("label").cast(pl.Int64)),
            )

    def test_has_three_timings(self):
        with pytest.raises(PlanError, match="timing 'SOON'; there are 'EARLY', 'ON_TIME', 'LATE'"):
            Recording(
                rows_of(TEN), marks_of(CURVE), panes_frame(SESSIONS).with_columns(timing=pl.lit("SOON"))
            )

    @pytest.mark.parametrize("unit", ["ms", "us", "ns"])
    @pytest.mark.parametrize("zone", [None, "Asia/Kolkata"])
    def test_instants_count_from_1970_in_utc(self, unit, zone):
        column = pl.Series([on("12:00:01"), None]).cast(pl.Datetime(unit))
        if zone:
            column = column.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
        assert instants(column).to_list() == [micros("12:00:01"), START_OF_TIME]


class TestAxes:
    @pytest.mark.parametrize("span", [10**power for power in range(17)])
    @pytest.mark.parametrize("zone", [None, "America/New_York"])
    def test_marks_are_few_round_and_apart(self, span, zone):
        first = micros("12:00:00")
        ticks = ClockFace(zone).ticks(first, first + span, 8)
        assert 1 <= len(ticks) <= 9
        assert all(first <= tick.instant <= first + span for tick in ticks)
        assert all(one.text != other.text for one, other in pairwise(ticks))

    def test_days_begin_at_midnight_when_the_clock_is_changed_too(self):
        face = ClockFace("Europe/Berlin")
        first = face.instant(datetime(2024, 3, 29, 1))
        ticks = face.ticks(first, first + 5 * 86_400_000_000, 6)
        assert [tick.text for tick in ticks] == ["Mar 30", "Mar 31", "Apr 1", "Apr 2", "Apr 3"]
        assert {face.wall(tick.instant).hour for tick in ticks} == {0}

    def test_what_lies_outside_is_at_the_end(self):
        scale = Scale(0, 10, 100.0, 200.0)
        assert [scale.at(instant) for instant in (-5, 0, 5, END_OF_TIME)] == [100, 100, 150, 200]


class TestPlacing:
    def test_the_first_free_place_else_the_one_that_covers_least(self):
        placing = Placing()
        placing.take(Box(0, 0, 10, 10))
        assert placing.best([Box(5, 5, 15, 15), Box(10, 0, 20, 10)]) == (Box(10, 0, 20, 10), 0.0)
        assert placing.best([Box(0, 0, 10, 10), Box(9, 9, 19, 19)]) == (Box(9, 9, 19, 19), 1.0)

    def test_what_a_box_covers_is_the_sum_of_each_overlap(self) -> None:
        """The covered area has the bits of the sum of the overlaps, box by box: a last bit could decide between two places."""
        draw, placing, taken = random.Random(1), Placing(), []
        for _ in range(200):
            box = Box.around(*(draw.uniform(1, 40) for _ in range(4)))
            across = [min(box.right, each.right) - max(box.left, each.left) for each in taken]
            down = [min(box.bottom, each.bottom) - max(box.top, each.top) for each in taken]
            assert placing.covered(box) == sum(
                max(x, 0.0) * max(y, 0.0) for x, y in zip(across, down, strict=True)
            )
            placing.take(box)
            taken.append(box)


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([1, None], ["1", "null"]),
        ([2.0, 0.123456, 1234567.0], ["2", "0.1235", "1235000"]),
        ([True], ["true"]),
        ([date(2024, 1, 2)], ["2024-01-02"]),
        ([[1, 2], []], ["[1,2]", "[]"]),
        ([{"a": 1}], ['{"a":1}']),
        ([b"\x01\xff"], ["01ff"]),
    ],
)
def test_labels(values, written):
    assert labels(pl.Series(values)).to_list() == written
