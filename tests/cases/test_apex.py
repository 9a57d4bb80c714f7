"""Apex Malhar's WindowedOperator (`apex-windowed-operator`): early firings by processing time, generated watermarks.

Ruling: an unchanged value is emitted again only with ``always``.
"""

from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.testing import HandClock, Transcript, run_transcript
from evercurrent.views.testing.times import Times, as_datetime
from peer_cases import named, needs_cases, only_always, transcripts

CASES = transcripts("apex-windowed-operator/cases.json")
TIMES = Times("ms")
DIALOGUES = [case for case in CASES if "trigger" in case.case]
SCHEMA = {"key": pl.String, "v": pl.Int64, "t": pl.Datetime("us", "UTC")}


def instant(number: int) -> datetime:
    return as_datetime(TIMES.instant(number))


def rows(step: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": row.get("key"), "v": row["v"], "t": instant(row["t"])} for row in step["input"]]


def with_step(word: str) -> list[Transcript]:
    return [case for case in CASES if any(word in step for step in case.get("steps"))]


@needs_cases
def test_all_cases_are_there() -> None:
    assert len(CASES) == 9
    others = [with_step(word) for word in ("expect_watermarks", "expect_state", "assign")]
    assert len(DIALOGUES) + sum(map(len, others)) == 9


@pytest.mark.parametrize("case", named(DIALOGUES))
def test_early_firings(case: Transcript) -> None:
    run_transcript(case, always=only_always(case)).check()


@pytest.mark.parametrize("case", named(filter(only_always, DIALOGUES)))
def test_without_always_an_unchanged_value_is_not_emitted_again(case: Transcript) -> None:
    emitted: list[Any] = []
    steps = []
    for step in case.get("steps"):
        if "expect_values" in step:
            step = {"expect_values": [value for value in step["expect_values"] if value not in emitted]}
            emitted = step["expect_values"] or emitted
        steps.append(step)
    run_transcript(case.altered(steps=steps)).check()
    assert not run_transcript(case).passed


@pytest.mark.parametrize("case", named(with_step("expect_watermarks")))
def test_watermark_follows_the_highest_event_time(case: Transcript) -> None:
    lag = timedelta(milliseconds=case.get("watermark_generator")["fixed_lag"])
    engine, clock = ec.Engine(), HandClock()
    source = engine.source("rows", SCHEMA, event_time="t", watermark=ec.bounded_delay(lag))
    lateness = timedelta(milliseconds=case.get("allowed_lateness"))
    size = timedelta(milliseconds=case.get("window")["size"])
    windows = source.window(ec.fixed(size)).lateness(lateness)
    engine.view("sums", windows.group_by("key").agg(pl.col("v").sum()))
    seen: list[datetime] = []
    for step in case.get("steps"):
        match step:
            case {"input": _}:
                engine.push("rows", rows(step), at=clock.now)
            case {"tick": _}:
                engine.tick(at=clock.advance("500ms"))
                now = engine.watermarks["rows"]
                if now is not None and now not in seen:
                    assert isinstance(now, datetime)
                    seen.append(now)
            case {"expect_watermarks": expected}:
                assert seen == [instant(each) for each in expected]
            case _:
                raise NotImplementedError(step)


@pytest.mark.parametrize("case", named(with_step("expect_state")))
def test_state_before_any_firing(case: Transcript) -> None:
    """The contents of a view without a trigger are what a trigger has yet to emit."""
    engine = ec.Engine()
    source = engine.source("rows", SCHEMA, event_time="t")
    window = ec.fixed(timedelta(milliseconds=case.get("window")["size"]))
    view = engine.view("sums", source.window(window).group_by("key").agg(pl.col("v").sum()))
    for step in case.get("steps"):
        match step:
            case {"input": _}:
                engine.push("rows", rows(step))
            case {"expect_state": expected}:
                state = [(each["key"], *map(instant, each["window"]), each["value"]) for each in expected]
                assert sorted(view.read().rows()) == sorted(state)
            case _:
                raise NotImplementedError(step)


@pytest.mark.parametrize("case", named(with_step("assign")))
def test_windows_of_an_instant(case: Transcript) -> None:
    size, period = (timedelta(milliseconds=case.get("window")[name]) for name in ("size", "period"))
    for step in case.get("steps"):
        engine = ec.Engine()
        source = engine.source("rows", SCHEMA, event_time="t")
        view = engine.view("windows", source.window(ec.sliding(size, every=period)))
        engine.push("rows", [("a", 1, instant(step["assign"]))])
        expected = [tuple(map(instant, window)) for window in step["expect_windows"]]
        assert sorted(view.read().select("window_start", "window_end").rows()) == expected
