"""The figures and numbers of the Dataflow Model paper and of Streaming 102 (`dataflow-paper`), through the test kit.

Rulings: panes that change nothing (`optional...` in the file) do not come, so that the ten data give exactly the others.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise, permutations
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evercurrent as ec
from evercurrent.testing import Transcript, run_transcript
from evercurrent.views.testing.figures import figure_transcript, in_event_time_order
from evercurrent.views.testing.times import Times, as_datetime
from peer_cases import FOLDER, named, needs_cases, transcripts
from strategies import of_profile

FIGURES = transcripts("dataflow-paper/figures.json")
BOOK = transcripts("dataflow-paper/book_panes.json")
FILE: dict[str, Any] = (
    json.loads((FOLDER / "dataflow-paper" / "figures.json").read_text("utf-8")) if FIGURES else {}
)
TIMES = Times(clock=True)
UNBOUNDED = {"allowed_lateness": "unbounded"}


def figure(name: str) -> Transcript:
    """The figure with this name among its names."""
    (found,) = [case for case in FIGURES if name in case.id]
    return found


def values(transcript: Transcript) -> list[int]:
    """The values of all panes, in order."""
    return [pane["value"] for pane in run_transcript(transcript).panes]


@needs_cases
def test_all_cases_are_there() -> None:
    assert (len(FIGURES), len(BOOK)) == (18, 2)


@pytest.mark.parametrize("case", named(case for case in FIGURES if not case.get("input_order")))
def test_figure(case: Transcript) -> None:
    run_transcript(case).check()


@pytest.mark.parametrize(
    "case", named(case for case in FIGURES if any("optional" in str(pane) for pane in case.get("expect")))
)
def test_what_is_optional_does_not_come(case: Transcript) -> None:
    needed = [pane for pane in case.get("expect") if "optional" not in str(pane)]
    run_transcript(case.altered(expect=needed)).check()


@pytest.mark.parametrize("case", named(BOOK))
def test_panes_of_the_book(case: Transcript) -> None:
    run_transcript(case).check()


def arriving(groups: Sequence[Sequence[Mapping[str, Any]]], first: str, period: str) -> list[dict[str, Any]]:
    """Each group of data within a period of its own, the first of which ends at ``first``."""
    start, length = TIMES.instant(first), TIMES.duration(period)
    return [
        {**event, "processing_time": TIMES.written(start + number * length - (len(group) - i) * 1_000_000)}
        for number, group in enumerate(groups)
        for i, event in enumerate(group)
    ]


def cut(events: Sequence[Any], sums: Sequence[int]) -> list[list[Any]] | None:
    """The data in order, cut into groups with these sums and a rest; None where they cannot be."""
    ends = list(accumulate(event["value"] for event in events))
    totals = list(accumulate(sums))
    if not set(totals) <= set(ends):
        return None
    places = [0, *(ends.index(total) + 1 for total in totals), len(events)]
    return [list(events[start:end]) for start, end in pairwise(places)]


@needs_cases
def test_processing_time_windows_over_the_second_order() -> None:
    """Its arrival times are not published, and its three sums make 47 of 51: what is left comes after the last pane."""
    case = figure("s102/fig14-right")
    sums = [pane["value"] for pane in case.get("expect")]
    orders = (cut(order, sums) for order in permutations(case.header["events"]))
    groups = next(found for found in orders if found is not None)
    assert sum(event["value"] for event in groups[-1]) == 51 - 47
    last = "12:10:00"
    events = arriving(groups, "12:06:00", "2min")
    late = [event for event in events if event["processing_time"] > last]
    assert [event["value"] for event in late] == [event["value"] for event in groups[-1]]
    steps = figure_transcript(case, events).case["steps"]
    shown = [step for step in steps if step["processing_time"] <= last]
    transcript = figure_transcript(case, events).altered(steps=shown)
    run_transcript(transcript).check()
    assert values(transcript) == sums


@needs_cases
def test_ingress_time_gives_processing_time_windows_too() -> None:
    """Figure 15: event time is arrival, windows of two minutes, default trigger."""
    case = figure("s102/fig14-left")
    engine = ec.Engine()
    rows = engine.source(
        "rows", {"v": pl.Int64, "t": pl.Datetime("us", "UTC")}, event_time="t", watermark=ec.ingress_time()
    )
    windows = rows.window(ec.fixed("2m")).trigger(ec.after_watermark()).lateness("0s")
    panes = windows.accumulate("discarding").group_by().agg(value=pl.col("v").sum())
    view = engine.view("panes", panes)
    emitted = []
    for event in case.header["events"]:
        at = as_datetime(TIMES.instant(event["processing_time"]))
        engine.push("rows", [{"v": event["value"]}], at=at)
    engine.tick(at=as_datetime(TIMES.instant("12:10:00")))
    for delta in view.deltas():
        emitted += [(row["window_end"], row["value"], row["_diff"]) for row in delta.iter_rows(named=True)]
    expected = [(as_datetime(TIMES.instant(pane["at"])), pane["value"], 1) for pane in case.get("expect")]
    assert emitted == expected


@needs_cases
@pytest.mark.parametrize("mode", ["discarding", "accumulating", "accumulating_and_retracting"])
def test_table_1(mode: str) -> None:
    table = FILE["table1"]
    of = {
        "discarding": "s102/fig9",
        "accumulating": "fig7-right",
        "accumulating_and_retracting": "s102/fig10",
    }
    window = tuple(TIMES.instant(bound) for bound in table["window"])
    panes = [
        pane
        for pane in run_transcript(figure(of[mode])).panes
        if (pane["window_start"], pane["window_end"]) == window
    ]
    signed = [[pane["value"], *(-taken["value"] for taken in pane.get("retracts", ()))] for pane in panes]
    expected = [value if isinstance(value, list) else [value] for value in table[mode]]
    assert signed == expected
    assert panes[-1]["value"] == table["last_value_observed"][mode]
    assert sum(map(sum, signed)) == table["total_sum"][mode]


@needs_cases
def test_sliding_windows_of_section_2_2_1() -> None:
    example = FILE["worked_examples"]["sliding_assignment_section_2_2_1"]
    assert rows_in_windows(ec.sliding("2m", every="1m"), example["in"]) == sorted(flat(example["out"]))


@needs_cases
def test_sessions_of_section_2_2_2() -> None:
    example = FILE["worked_examples"]["session_merge_section_2_2_2"]
    assigned = [(key, value, *bounds(window)) for key, value, window in example["assigned"]]
    found = rows_in_windows(ec.sessions("30m"), example["in"])
    assert [(key, value, start, end) for key, value, _, start, end in found] == sorted(assigned)
    engine, source = engine_of(example["in"])
    merged = engine.view(
        "merged", source.window(ec.sessions("30m")).group_by("k").agg(pl.col("v").sort_by("t").implode())
    )
    push(engine, example["in"])
    expected = [(key, *bounds(window), sorted(rows)) for key, rows, window in example["merged"]]
    assert sorted((k, start, end, sorted(v)) for k, start, end, v in merged.read().rows()) == sorted(expected)


def engine_of(rows: Sequence[Sequence[str]]) -> tuple[ec.Engine, ec.Source]:
    engine = ec.Engine()
    schema = {"k": pl.String, "v": pl.String, "t": pl.Datetime("us", "UTC")}
    return engine, engine.source("rows", schema, event_time="t")


def push(engine: ec.Engine, rows: Sequence[Sequence[str]]) -> None:
    engine.push("rows", [(key, value, as_datetime(TIMES.instant(time))) for key, value, time in rows])


def rows_in_windows(window: Any, rows: Sequence[Sequence[str]]) -> list[tuple[Any, ...]]:
    """Each row with each of its windows."""
    engine, source = engine_of(rows)
    view = engine.view("windows", source.window(window))
    push(engine, rows)
    return sorted(view.read().rows())


def flat(rows: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    for key, value, time, window in rows:
        yield (key, value, as_datetime(TIMES.instant(time)), *bounds(window))


def bounds(window: Sequence[str]) -> tuple[Any, ...]:
    return tuple(as_datetime(TIMES.instant(bound)) for bound in window)


# Invariants


MODES = {
    "accumulating": "fig7-right",
    "discarding": "s102/fig9",
    "accumulating_and_retracting": "s102/fig10",
}


@needs_cases
@of_profile(0.1)
@given(data=st.data())
def test_final_values_depend_on_no_order_of_arrival(data: st.DataObject) -> None:
    """Without a bound on lateness: 14, 22, 3, 12 in any order, under both watermarks, from panes of every kind."""
    events = FIGURES[0].header["events"]
    order = data.draw(st.permutations(events))
    arrivals = [event["processing_time"] for event in events]
    events = [{**event, "processing_time": at} for event, at in zip(order, arrivals, strict=True)]
    mode = data.draw(st.sampled_from(sorted(MODES)))
    curve = data.draw(st.sampled_from(["heuristic", "perfect"]))
    case = figure_transcript(figure(MODES[mode]).altered(watermark=curve, **UNBOUNDED), events)
    finals: dict[str, int] = {}
    for pane in run_transcript(case).panes:
        window = TIMES.written(pane["window_start"])
        before = finals.get(window, 0) if mode == "discarding" else 0
        finals[window] = before + pane["value"]
    assert finals == {"12:00:00": 14, "12:02:00": 22, "12:04:00": 3, "12:06:00": 12}


@needs_cases
def test_the_second_order_of_figure_13_may_be_any(subtests: pytest.Subtests) -> None:
    case = figure("fig13-right")
    events = case.header["events"]
    arrivals = [event["processing_time"] for event in events]
    backwards = [
        {**event, "processing_time": at} for event, at in zip(reversed(events), arrivals, strict=True)
    ]
    for what, order, lateness in [
        ("by event time, lateness 0", in_event_time_order(events), {}),
        ("as it came", events, UNBOUNDED),
        ("backwards", backwards, UNBOUNDED),
    ]:
        with subtests.test(what):
            run_transcript(figure_transcript(case.altered(**lateness), order)).check()


@needs_cases
def test_retracting_panes_add_up_to_what_stands() -> None:
    """At every moment, per window and for all: the sum of what was emitted less what was retracted is the last value."""
    for name in ("s102/fig10", "fig14 = s102/fig17"):
        standing: dict[tuple[int, int], int] = {}
        total = 0
        for pane in run_transcript(figure(name)).panes:
            for taken in pane.get("retracts", ()):
                window = (taken["window_start"], taken["window_end"])
                assert standing.pop(window) == taken["value"]
                total -= taken["value"]
            standing[(pane["window_start"], pane["window_end"])] = pane["value"]
            total += pane["value"]
            assert total == sum(standing.values())
        assert total == 51


@needs_cases
def test_processing_time_windows_depend_on_the_order() -> None:
    case = figure("s102/fig14-left")
    other = figure_transcript(case, in_event_time_order(case.header["events"]))
    assert values(other) != values(case)
    assert sum(values(other)) == sum(values(case)) == 51
