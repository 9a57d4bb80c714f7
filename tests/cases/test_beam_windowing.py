"""Beam's windows, triggers and pane information (`beam-windowing`), through the test kit of the library.

Rulings: cases whose trigger would lose rows are refused, and what is named as their equivalent is run; empty panes come
with ``always`` only; offsets are taken modulo the period, so no offset is wrong.
"""

import re
from typing import Any

import pytest

import evercurrent as ec
from evercurrent.testing import Transcript, run_transcript
from peer_cases import cases, is_refused, named, needs_cases, only_always, transcripts

TRANSCRIPTS = [
    case
    for file in ("transcripts", "trigger_test", "reduce_fn")
    for case in transcripts(f"beam-windowing/{file}.json")
]
ASSIGNMENTS = cases("beam-windowing/window_assignment.json")


def without_empty_panes(case: Transcript) -> Transcript:
    """The same case without the panes that have no values."""
    steps = [
        {"expect": [pane for pane in step["expect"] if pane.get("values") != []]}
        if "expect" in step
        else step
        for step in case.case["steps"]
    ]
    return case.altered(steps=steps)


@needs_cases
def test_all_cases_are_there() -> None:
    assert len(TRANSCRIPTS) == 18 + 6 + 1
    assert len(ASSIGNMENTS) == 12
    assert sum(map(is_refused, TRANSCRIPTS)) == 7
    assert sum(map(only_always, TRANSCRIPTS)) == 2
    assert sum(case.get("negative", False) for case in TRANSCRIPTS) == 5


@pytest.mark.parametrize("case", named(case for case in TRANSCRIPTS if not is_refused(case)))
def test_transcript(case: Transcript) -> None:
    report = run_transcript(case, always=only_always(case))
    if case.get("negative"):
        assert not report.passed
        assert re.search(case.get("error_regex"), str(report))
    else:
        report.check()


@pytest.mark.parametrize("case", named(filter(only_always, TRANSCRIPTS)))
def test_without_always_empty_panes_are_absent(case: Transcript) -> None:
    run_transcript(without_empty_panes(case)).check()
    assert not run_transcript(case).passed


@pytest.mark.parametrize("case", named(filter(is_refused, TRANSCRIPTS)))
def test_trigger_that_would_lose_rows_is_refused(case: Transcript) -> None:
    with pytest.raises(ec.PlanError, match="finishes"):
        run_transcript(case)


@pytest.mark.parametrize(
    "case", named(case for case in TRANSCRIPTS if "repeatedly(after_watermark)" in case.get("ruling", ""))
)
def test_the_same_panes_come_from_what_the_ruling_names(case: Transcript) -> None:
    run_transcript(case.altered(trigger={"repeatedly": {"after_watermark": {}}})).check()


def assignment(case: dict[str, Any]) -> Transcript:
    """An assignment of windows as a transcript: every epoch lists which instants are in which window."""
    times = case.get("timestamps", [0])
    expected = [{"window": each["window"], "values": each["members"]} for each in case.get("expect", [])]
    return Transcript(
        case["id"],
        "window-transcript/1",
        {
            "window": {"offset": case.get("window_offset", 0), **case["window"]},
            "trigger": {"every_epoch": {}},
            "allowed_lateness": "inf",
            "steps": [{"input": [{"t": t, "v": t} for t in times]}, {"expect": expected}],
        },
    )


@pytest.mark.parametrize("case", named(case for case in ASSIGNMENTS if not case.get("expect_error")))
def test_windows_of_timestamps(case: dict[str, Any]) -> None:
    run_transcript(assignment(case)).check()


@pytest.mark.parametrize("case", named(case for case in ASSIGNMENTS if case.get("expect_error")))
def test_wrong_windows_are_refused_and_offsets_are_not(case: dict[str, Any]) -> None:
    transcript = assignment(case)
    if case["window"]["size"] <= 0:
        with pytest.raises(ec.PlanError, match="size"):
            run_transcript(transcript)
        return
    size, offset = case["window"]["size"], case["window_offset"]
    report = run_transcript(transcript)
    (pane,) = report.panes
    start, end = (pane[name] // 1_000_000 for name in ("window_start", "window_end"))
    assert (start % size, end - start) == (offset % size, size)
    assert start <= 0 < end
