"""Timelines of runs: put together from frames, from a view, and by the command."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from datetime import date
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import evercurrent as ec
from drawings import US, UTC_US, Drawn, at, on
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.views.cli import app
from evercurrent.views.inspection.timeline import Choice, Recording, SourceRows, timeline_of
from evercurrent.views.inspection.timeline import timeline as timeline_module
from evercurrent.views.inspection.timeline.gathering import gathered
from evercurrent.views.inspection.timeline.svg import MINUS

SOURCE = pl.DataFrame(
    {
        "team": ["a", "b", "a", "a"],
        "value": [5, 6, 7, 8],
        "at": [on("12:00:26"), on("12:00:30"), on("12:02:24"), on("12:01:00")],
        "_epoch": pl.Series([1, 1, 2, 4], dtype=pl.UInt64),
        "_diff": [1, 1, 1, 1],
    }
)
EPOCHS = pl.DataFrame(
    {
        "_epoch": pl.Series([1, 2, 3, 4], dtype=pl.UInt64),
        "processing_time": [at("12:05:00"), at("12:06:00"), at("12:07:00"), at("12:08:00")],
    }
)
LOG = pl.DataFrame(
    {
        "_epoch": pl.Series([1, 2, 3, 4], dtype=pl.UInt64),
        "source": ["scores"] * 4,
        "watermark": [None, on("12:02:00"), on("12:02:00"), on("12:04:00")],
    }
)
DELTAS = pl.DataFrame(
    {
        "team": ["a", "b", "a", "a", "a"],
        "window_start": [on("12:00:00")] * 5,
        "window_end": [on("12:02:00")] * 5,
        "total": [5, 6, 5, 13, 13],
        "_epoch": pl.Series([1, 2, 4, 4, 4], dtype=pl.UInt64),
        "_diff": [1, 1, -1, 1, 0],
    }
).filter(pl.col("_diff") != 0)


class TestGathering:
    def made(self, **choice: Any) -> Recording:
        sources = {"scores": SourceRows(SOURCE, "at", "value")}
        return gathered(
            "totals",
            DELTAS,
            sources,
            EPOCHS,
            LOG,
            Choice(**{"value": "total", "keys": ("team",), **choice}),
        )

    def test_rows_have_the_time_of_their_epoch_and_their_key(self):
        rows = self.made().rows
        assert rows.select("label", "processing_time", "key", "source").rows()[0] == (
            "5",
            at("12:05:00"),
            "a",
            "scores",
        )
        assert rows["standing"].to_list() == [None, None, None, "late"]

    def test_only_moves_of_the_watermark_are_kept(self):
        moves = self.made().watermarks
        assert moves.select("processing_time", "watermark").rows() == [
            (at("12:06:00"), on("12:02:00")),
            (at("12:08:00"), on("12:04:00")),
        ]

    def test_without_timing_panes_are_timed_by_the_watermark(self):
        timed = self.made().panes.select("label", "diff", "timing").rows()
        assert timed == [("5", 1, "EARLY"), ("6", 1, "ON_TIME"), ("5", -1, "LATE"), ("13", 1, "LATE")]

    def test_the_least_watermark_of_several_sources_counts(self):
        log = pl.concat([LOG, LOG.with_columns(source=pl.lit("others"), watermark=pl.lit(None, US))])
        sources = {"scores": SourceRows(SOURCE, "at", "value")}
        panes = gathered("totals", DELTAS, sources, EPOCHS, log, Choice("total", ("team",))).panes
        assert set(panes["timing"]) == {"EARLY"}

    def test_the_timing_of_the_view_goes_first(self):
        deltas = DELTAS.with_columns(timing=pl.lit("LATE"))
        panes = gathered("totals", deltas, {}, EPOCHS, LOG, Choice("total", ("team",))).panes
        assert set(panes["timing"]) == {"LATE"}

    def test_one_key(self):
        recording = self.made(key=("b",))
        assert recording.rows["label"].to_list() == ["6"]
        assert recording.panes["label"].to_list() == ["6"]

    def test_a_key_for_which_nothing_was_emitted(self):
        with pytest.raises(InputError, match=r"emitted nothing for the key \('c',\); its keys are 'a', 'b'"):
            self.made(key=("c",))

    def test_a_column_that_is_not_there(self):
        with pytest.raises(PlanError, match="timeline of view 'totals': unknown column 'sum'"):
            self.made(value="sum")

    def test_rows_of_the_ledger_are_refused(self):
        refused = SOURCE.filter(pl.col("value") == 8).drop("_diff")
        sources = {"scores": SourceRows(SOURCE, "at", "value", [refused], unrecorded=2)}
        recording = gathered("totals", DELTAS, sources, EPOCHS, LOG, Choice("total", ("team",)))
        assert recording.rows["standing"].to_list() == [None, None, None, "refused"]
        assert recording.unrecorded_rows == 2

    def test_sources_of_other_units_and_dates_stand_side_by_side(self):
        days = pl.DataFrame(
            {"at": [date(2015, 8, 31)], "_epoch": pl.Series([1], dtype=pl.UInt64), "_diff": [1]}
        )
        zoned = SOURCE.with_columns(pl.col("at").dt.cast_time_unit("ms").dt.replace_time_zone("UTC"))
        sources = {"scores": SourceRows(zoned, "at"), "days": SourceRows(days, "at")}
        rows = gathered("totals", DELTAS, sources, EPOCHS, LOG, Choice("total", ("team",))).rows
        assert rows.schema["event_time"] == UTC_US
        assert rows["event_time"][-1] == at("00:00:00")
        assert rows["key"].to_list() == ["a", "b", "a", "a", None]

    def test_a_view_without_windows_is_about_all_of_time(self):
        deltas = DELTAS.drop("window_start", "window_end")
        panes = gathered("totals", deltas, {}, EPOCHS, LOG, Choice("total", ("team",))).panes
        assert panes["window_start"].null_count() == panes.height

    def test_epochs_that_are_not_kept_are_left_out(self):
        sources = {"scores": SourceRows(SOURCE, "at", "value")}
        recording = gathered(
            "totals", DELTAS, sources, EPOCHS.tail(2), LOG, Choice("total", ("team",)), ["Epochs are gone."]
        )
        assert recording.rows["label"].to_list() == ["8"]
        assert recording.panes["label"].to_list() == ["5", "13"]
        assert recording.unrecorded_rows == 3
        assert {"Epochs are gone.", "Left out: 3 of 4 rows."} <= set(Drawn(recording).texts)

    def test_columns_may_have_any_name(self):
        names = {"team": "row", "value": "processing_time"}
        sources = {
            "scores": SourceRows(
                SOURCE.rename(names), "at", "processing_time", [SOURCE.rename(names).head(1)]
            )
        }
        deltas = DELTAS.rename({"team": "row", "total": "processing_time"})
        recording = gathered("totals", deltas, sources, EPOCHS, LOG, Choice("processing_time", ("row",)))
        assert recording.rows["label"].to_list() == ["5", "6", "7", "8"]
        assert recording.rows["standing"].to_list() == ["refused", None, None, "late"]
        assert recording.panes["processing_time"][0] == at("12:05:00")

    def test_panes_that_the_watermark_does_not_judge(self):
        choice = Choice("total", ("team",), is_timed=False)
        panes = gathered("totals", DELTAS, {}, EPOCHS, LOG, choice).panes
        assert panes["timing"].null_count() == panes.height

    def test_is_drawn(self):
        sources = {"scores": SourceRows(SOURCE, "at", "value")}
        timeline = timeline_of("totals", DELTAS, sources, EPOCHS, LOG, Choice("total", ("team",), ("a",)))
        assert timeline.title == "totals"
        assert f"{MINUS}5" in Drawn(timeline.recording).texts


SCORES = {"team": pl.String, "value": pl.Int64, "at": US}


def engine_with(made: Any = None, **more: Any) -> tuple[ec.Engine, ec.View]:
    """Sums of windows of two minutes, by team."""
    engine = ec.Engine(record=True, **more)
    rows = engine.source("scores", SCORES, event_time="at")
    windowed = rows.window(ec.fixed("2m")).trigger(late=ec.each_row()).lateness("3m")
    return engine, engine.view("totals", (made or summed)(windowed))


def summed(windowed: ec.Collection) -> ec.Collection:
    return windowed.group_by("team").agg(total=pl.col("value").sum())


def play(engine: ec.Engine) -> None:
    """One row on time, one late, one refused, and one of another team."""
    for team, value, event, seen in (
        ("a", 5, "12:00:26", "12:05:19"),
        ("a", 9, "12:01:25", "12:06:19"),
        ("b", 4, "12:03:53", "12:06:26"),
        ("a", 1, "12:00:00", "12:08:00"),
    ):
        if value == 9:
            engine.advance("scores", on("12:02:00"), at=at("12:06:00"))
        if value == 1:
            engine.advance("scores", on("12:06:00"), at=at("12:07:00"))
        engine.push("scores", [(team, value, on(event))], at=at(seen))


class TestViews:
    def test_a_run_is_drawn(self):
        engine, view = engine_with()
        play(engine)
        timeline = view.timeline()
        assert timeline.title == "totals"
        rows, panes = timeline.recording.rows, timeline.recording.panes
        assert rows.select("label", "standing", "key").rows() == [
            ("5", None, "a"),
            ("9", "late", "a"),
            ("4", None, "b"),
            ("1", "refused", "a"),
        ]
        assert panes.select("label", "diff", "timing", "processing_time").rows() == [
            ("5", 1, "ON_TIME", at("12:06:00")),
            ("5", -1, "LATE", at("12:06:19")),
            ("14", 1, "LATE", at("12:06:19")),
            ("4", 1, "ON_TIME", at("12:07:00")),
        ]
        assert f"{MINUS}5" in Drawn(timeline.recording).texts

    def test_timing_is_that_of_the_pane_information(self):
        engine, view = engine_with(lambda windowed: summed(windowed.with_pane_info()))
        play(engine)
        emitted = view.timeline("total").recording.panes.select("label", "diff", "timing").rows()
        assert ("5", -1, "ON_TIME") in emitted
        assert ("14", 1, "LATE") in emitted

    @pytest.mark.parametrize("key", ["b", ("b",), ["b"], {"team": "b"}])
    def test_one_key(self, key):
        engine, view = engine_with()
        play(engine)
        recording = view.timeline(key=key).recording
        assert recording.panes["label"].to_list() == recording.rows["label"].to_list() == ["4"]

    def test_a_key_that_is_null(self):
        engine, view = engine_with()
        engine.push("scores", [(None, 5, on("12:00:26"))], at=at("12:05:00"), watermark=ec.END_OF_TIME)
        assert view.timeline(key=(None,)).recording.panes["label"].to_list() == ["5"]

    def test_what_is_not_there(self):
        engine, view = engine_with()
        play(engine)
        with pytest.raises(PlanError, match="timeline of view 'totals': unknown column 'sum'"):
            view.timeline("sum")
        with pytest.raises(
            PlanError, match="no source has a column label='score'; 'scores' has 'team', 'value', 'at'"
        ):
            view.timeline(label="score")
        with pytest.raises(PlanError, match=r"key=\('a', 1\) has 2 values; the key is 'team'"):
            view.timeline(key=("a", 1))
        with pytest.raises(PlanError, match="key= has 'ip'; the key is 'team'"):
            view.timeline(key={"ip": "a"})
        with pytest.raises(InputError, match=r"emitted nothing for the key \('z',\); its keys are 'a', 'b'"):
            view.timeline(key="z")

    def test_before_any_input(self):
        _, view = engine_with()
        assert "totals" in Drawn(view.timeline().recording).texts

    def test_the_key_is_that_of_the_grouping_below(self):
        engine, view = engine_with(
            lambda windowed: summed(windowed).filter(pl.col("total") > 4).select("team", "total")
        )
        play(engine)
        assert view.timeline(key="a").recording.panes["label"].to_list() == ["5", "5", "14"]

    def test_rows_that_another_view_refused_are_not_refused_here(self):
        engine = ec.Engine(record=True)
        rows = engine.source("scores", SCORES, event_time="at")
        strict = engine.view("strict", summed(rows.window(ec.fixed("2m")).lateness("0s")))
        patient = engine.view("patient", summed(rows.window(ec.fixed("2m")).lateness("1h")))
        engine.push("scores", [("a", 1, on("12:00:00"))], at=at("12:00:01"), watermark=on("12:02:00"))
        engine.push("scores", [("a", 2, on("12:01:00"))], at=at("12:03:00"))
        assert strict.timeline().recording.rows["standing"].to_list() == [None, "refused"]
        assert patient.timeline().recording.rows["standing"].to_list() == [None, "late"]

    def test_a_view_without_windows_is_neither_early_nor_late(self):
        engine = ec.Engine(record=True)
        rows = engine.source("scores", SCORES, event_time="at")
        view = engine.view("totals", summed(rows))
        play(engine)
        recording = view.timeline(key="a").recording
        assert recording.panes.select("label", "diff").rows() == [
            ("5", 1),
            ("5", -1),
            ("14", 1),
            ("14", -1),
            ("15", 1),
        ]
        assert set(recording.panes["timing"]) == {None}

    def test_without_recorded_rows_the_panes_are_drawn(self):
        engine = ec.Engine()
        rows = engine.source("scores", SCORES, event_time="at")
        view = engine.view("totals", summed(rows.window(ec.fixed("2m"))))
        engine.push("scores", [("a", 5, on("12:00:26"))], at=at("12:05:19"))
        drawn = Drawn(view.timeline().recording)
        assert "Input rows were not recorded; Engine(record=True) keeps them." in drawn.texts
        assert "5" in drawn.texts

    def test_only_what_is_retained_is_drawn(self):
        engine, view = engine_with(retain=ec.Retain(epochs=2))
        play(engine)
        timeline = view.timeline()
        assert timeline.recording.rows["label"].to_list() == ["1"]
        assert any(
            text.startswith("Epochs before 5 are no longer kept") for text in Drawn(timeline.recording).texts
        )

    def test_looks_as_requested(self):
        engine, view = engine_with()
        play(engine)
        timeline = view.timeline(
            title="Sums", subtitle="of two minutes", width=500, height=200, legend=False, key="a"
        )
        texts = [
            "".join(each.itertext())
            for each in ET.fromstring(timeline.svg()).iter()
            if each.tag.endswith("text")
        ]
        assert texts[:2] == ["Sums", "of two minutes"]
        assert "watermark" not in texts
        assert 'width="500"' in timeline.svg()


APP = """
import polars as pl

import evercurrent as ec

engine = ec.Engine()
scores = engine.source(
    "scores", {"team": pl.String, "value": pl.Int64, "at": pl.Datetime("us")}, event_time="at",
    watermark=ec.bounded_delay("1m"),
)
windows = scores.window(ec.fixed("2m")).trigger(ec.after_watermark()).lateness("0s")
engine.view("totals", windows.group_by("team").agg(total=pl.col("value").sum()))
engine.view("of_number", windows.group_by("value").agg(n=pl.len()))
show = "totals"
"""


class TestCommand:
    @pytest.fixture
    def arguments(self, tmp_path) -> list[str]:
        (tmp_path / "app.py").write_text(APP)
        (tmp_path / "rows.csv").write_text(
            "team,value,at\na,5,2015-08-31 12:00:26\nb,3,2015-08-31 12:01:00\na,7,2015-08-31 12:02:24\n"
        )
        return ["timeline", str(tmp_path / "app.py"), "--input", f"scores={tmp_path / 'rows.csv'}"]

    def test_writes_the_drawing_and_prints_where(self, arguments, tmp_path):
        result = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "run.svg"), "--title", "Totals"])
        assert result.exit_code == 0, result.output
        assert result.stdout.splitlines()[-1] == str(tmp_path / "run.svg")
        texts = [
            "".join(each.itertext())
            for each in ET.parse(tmp_path / "run.svg").iter()
            if each.tag.endswith("text")
        ]
        assert texts[0] == "Totals"
        assert {"a", "b", "5", "3", "7"} <= set(texts)

    def test_one_key_of_another_view_as_a_page(self, arguments, tmp_path):
        more = [
            "--show",
            "of_number",
            "--key",
            "7",
            "--label",
            "team",
            "--output",
            str(tmp_path / "run.html"),
        ]
        result = CliRunner().invoke(app, [*arguments, *more])
        assert result.exit_code == 0, result.output
        page = (tmp_path / "run.html").read_text("utf-8")
        assert page.startswith("<!DOCTYPE html>")
        assert "key 7" in page
        assert "key 5" not in page

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (
                ["--show", "of_number", "--key", "x"],
                "--key 'x' is not a value of column 'value', which is Int64",
            ),
            (["--key", "a", "--key", "b"], "--key is given 2 times; the key of view 'totals' is 'team'"),
            (["--value", "sum"], "timeline of view 'totals': unknown column 'sum'"),
            (["--show", "sums"], "there is no view 'sums'"),
        ],
    )
    def test_errors(self, arguments, tmp_path, more, message):
        result = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "run.svg"), *more])
        assert result.exit_code == 1
        assert message in result.stderr
        assert not (tmp_path / "run.svg").exists()

    def test_wrong_usage(self, arguments, monkeypatch):
        monkeypatch.setattr(timeline_module, "converter", lambda: None)
        assert CliRunner().invoke(app, arguments).exit_code == 2
        result = CliRunner().invoke(app, [*arguments, "-o", "run.png"])
        assert result.exit_code == 2
        assert "the suffix has to be one of" in result.stderr
