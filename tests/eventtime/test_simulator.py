"""The simulator against the published numbers, and against lines of the texts that can be worked out by hand."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from eventtime import simulated_triggers as when
from eventtime import simulated_windows as where
from eventtime import simulator as sim
from eventtime.simulated_windows import END_OF_TIME
from eventtime.simulator import Outcome, Pane, Pipeline, Simulator
from peer_cases import NOT_BESIDE

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "cases"
FIGURES: dict[str, Any] = {}
TRANSCRIPTS: list[dict[str, Any]] = []
if FOLDER.exists():
    FIGURES = json.loads((FOLDER / "dataflow-paper" / "figures.json").read_text())
    TRANSCRIPTS = json.loads((FOLDER / "beam-windowing" / "transcripts.json").read_text())["cases"]

NOT_HERE = {
    "beam-transcript/07-timestamp_combiner_custom_timestamping_earliest": "a window function that moves timestamps",
    "beam-transcript/10-garbage_collection": "a trigger that finishes and loses rows is refused at definition",
}
MODES: dict[str, sim.Mode] = {
    "discarding": "discarding",
    "accumulating": "accumulating",
    "accumulating_and_retracting": "retracting",
}


def test_the_cases_are_there() -> None:
    if FOLDER.exists():
        assert len(FIGURES["cases"]) == 18
        assert len(TRANSCRIPTS) == 18


def seconds(text: Any) -> int:
    """A time of the day, a length of time or a number, in seconds."""
    if not isinstance(text, str):
        return int(text)
    if ":" in text:
        return sum(int(part) * unit for part, unit in zip(text.split(":"), (3600, 60, 1), strict=False))
    for unit, size in (("min", 60), ("s", 1), ("d", 86400)):
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * size
    return int(text)


def window_of(case: dict[str, Any]) -> where.Window:
    given = case["window"]
    if given["type"] == "global":
        return where.Global()
    if given["type"] == "session":
        return where.Sessions(seconds(given["gap"]))
    return where.Sliding(seconds(given["size"]), seconds(given.get("period", given["size"])))


def trigger_of(words: dict[str, Any]) -> when.Trigger:
    ((word, given),) = words.items()
    match word:
        case "default":
            return when.Repeat(when.AfterWatermark())
        case "after_watermark":
            parts = {name: trigger_of(given[name]) for name in ("early", "late") if name in given}
            return when.AfterWatermark(**parts)
        case "after_count":
            return when.AfterCount(given)
        case "at_period":
            return when.Every(seconds(given["period"]), seconds(given["aligned_to"]))
        case "repeatedly":
            return when.Repeat(trigger_of(given))
        case "after_each":
            return when.Sequence([trigger_of(part) for part in given])
        case "or_finally":
            return when.Until(*(trigger_of(part) for part in given))
        case "micro_batch":
            return when.EveryEpoch()
    raise NotImplementedError(word)


def pipeline_of(case: dict[str, Any], **more: Any) -> Pipeline:
    lateness = case.get("allowed_lateness", 0)
    aggregate = {"sum": where.total, "collect_sorted": where.values}[case["aggregate"]]
    return Pipeline(
        window_of(case),
        {"value": aggregate("v")},
        trigger=trigger_of(case["trigger"]),
        mode=MODES[case["accumulation"]],
        lateness=None if lateness in ("unbounded", "inf") else seconds(lateness),
        time="t",
        **more,
    )


# The figures


def history_of(case: dict[str, Any]) -> list[tuple[int, list[when.Row], int | None]]:
    """Processing time, rows and watermark, epoch by epoch: one row at a time, and every full minute."""
    rows = [*FIGURES["events"], *([case["extra_input"]] if "extra_input" in case else [])]
    arrivals: dict[int, list[when.Row]] = {}
    for row in rows:
        given = {"v": row["value"], "t": seconds(row["event_time"])}
        arrivals.setdefault(seconds(row["processing_time"]), []).append(given)
    if case["watermark"] == "batch":
        everything = [row for _, at_once in sorted(arrivals.items()) for row in at_once]
        return [(seconds("12:10:00"), everything, END_OF_TIME)]
    if "micro_batch" in case["trigger"]:
        minutes = range(seconds("12:06:00"), seconds("12:10:00"), 60)
        return [
            (
                end,
                [row for at, rows in sorted(arrivals.items()) if end - 60 <= at < end for row in rows],
                None,
            )
            for end in minutes
        ]
    curve = {
        seconds(point["processing_time"]): seconds(point["watermark"])
        for point in FIGURES["watermarks"][case["watermark"]]
    }
    ticks = range(seconds("12:05:00"), seconds("12:11:00"), 60)
    return [(at, arrivals.get(at, []), curve.get(at)) for at in sorted({*arrivals, *curve, *ticks})]


def described(pane: Pane, case: dict[str, Any]) -> tuple[Any, ...]:
    bounds = "global" if case["window"]["type"] == "global" else pane.bounds
    return bounds, pane.values[0]


def expected(panes: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(
        (
            pane["window"] if pane["window"] == "global" else tuple(map(seconds, pane["window"])),
            pane["value"],
        )
        for pane in panes
    )


def check_figure(case: dict[str, Any]) -> None:
    is_final_only = case.get("order_insensitive", False)
    simulator = Simulator(pipeline_of({**case, "allowed_lateness": "inf"} if is_final_only else case))
    outcomes: dict[int, Outcome] = {}
    for instant, rows, watermark in history_of(case):
        outcomes[instant] = simulator.step([(row, 1) for row in rows], watermark, instant)
    required = [
        p for p in case["expect"] if not (p.get("optional_if_unchanged") or p.get("optional_if_empty"))
    ]
    if is_final_only:
        # Of another order of arrival, "lateness permitting".
        finals = Counter((bounds[:2], bounds[2]) for bounds in simulator.contents)
        assert expected(required) <= finals
        return
    panes = [pane for each in outcomes.values() for pane in each.panes]
    assert Counter(described(pane, case) for pane in panes) == expected(required)
    for pane in required:
        of_it = [p for each in outcomes.values() for p in each.panes if expected([pane])[described(p, case)]]
        if "timing" in pane:
            assert pane["timing"] in {p.timing for p in of_it}, pane
        if ":" in pane.get("at", "") and " " not in pane["at"]:
            then = outcomes[seconds(pane["at"])]
            assert any(expected([pane])[described(p, case)] for p in then.panes), pane
            if "retracts" in pane:
                assert expected(pane["retracts"]) <= Counter(described(p, case) for p in then.taken_back), (
                    pane
                )
    assert sum(sum(each.late.values()) for each in outcomes.values()) == len(case.get("dropped", [])) or (
        "lateness 0" in case["what"]
    )
    if "net_changes" in case:
        signed = [
            (sign, p.values[0])
            for each in outcomes.values()
            for sign, some in (("-", each.taken_back), ("+", each.panes))
            for p in some
        ]
        assert Counter(signed) == Counter((sign, value) for sign, value in case["net_changes"])


@pytest.mark.parametrize("case", FIGURES.get("cases", []), ids=lambda case: case["id"])
def test_a_figure_of_the_texts(case: dict[str, Any]) -> None:
    if case.get("input_order", "").startswith("second"):
        pytest.skip("the arrival times of the second order are not published")
    check_figure(case)


def test_table_1_of_streaming_102() -> None:
    """A140, A141, A142: the second window, in three modes; the totals are 22, 43 and 22."""
    case = next((c for c in FIGURES.get("cases", []) if c["id"] == "s102/fig9"), None)
    if case is None:
        pytest.skip(NOT_BESIDE)
    bounds = tuple(map(seconds, FIGURES["table1"]["window"]))
    for mode, emitted_sums in (("discarding", [7, 7, 8]), ("accumulating", [7, 14, 22])):
        panes = panes_of({**case, "accumulation": mode})
        assert [pane.values[0] for pane in panes if pane.bounds == bounds] == emitted_sums
        assert sum(emitted_sums) == FIGURES["table1"]["total_sum"][mode]


def panes_of(case: dict[str, Any]) -> list[Pane]:
    simulator = Simulator(pipeline_of(case))
    return [
        pane
        for at, rows, watermark in history_of(case)
        for pane in simulator.step([(row, 1) for row in rows], watermark, at).panes
    ]


# The transcripts of Beam


def matches(pane: Pane, expected_pane: dict[str, Any], combiner: str) -> bool:
    stamp = {"output_at_earliest": pane.earliest, "output_at_latest": pane.latest}.get(
        combiner, pane.bounds[1] - 1
    )
    found = {
        "window": list(pane.bounds),
        "values": list(pane.values[0]),
        "timestamp": stamp,
        "early": pane.timing == "EARLY",
        "late": pane.timing == "LATE",
        "final": pane.is_last,
        "index": pane.index,
        "nonspeculative_index": pane.nonspeculative_index,
    }
    return all(found[name] == value for name, value in expected_pane.items())


def unlike(case: dict[str, Any], *, always: bool = False) -> list[Any]:
    """Return the expected panes that were not emitted, and the emitted ones that were not expected."""
    simulator = Simulator(pipeline_of(case, always=always))
    waiting: list[Pane] = []
    faults: list[Any] = []
    for step in case["steps"]:
        if "input" in step:
            waiting += simulator.step([({"v": row["v"], "t": row["t"]}, 1) for row in step["input"]]).panes
        elif "watermark" in step:
            waiting += simulator.step([], step["watermark"]).panes
        elif "expect" in step:
            for expected_pane in step["expect"]:
                found = [pane for pane in waiting if matches(pane, expected_pane, case["timestamp_combiner"])]
                if found:
                    waiting.remove(found[0])
                else:
                    faults.append(expected_pane)
            faults += waiting
            waiting = []
    return faults + waiting


@pytest.mark.parametrize("case", TRANSCRIPTS, ids=lambda case: case["id"])
def test_a_transcript_of_beam(case: dict[str, Any]) -> None:
    if case["id"] in NOT_HERE:
        pytest.skip(NOT_HERE[case["id"]])
    faults = unlike(case, always="only under `always`" in case.get("ruling", ""))
    assert bool(faults) == case["negative"], faults


def test_an_empty_pane_is_emitted_only_under_always() -> None:
    case = next((c for c in TRANSCRIPTS if "ruling" in c and "`always`" in c["ruling"]), None)
    if case is None:
        pytest.skip(NOT_BESIDE)
    (missing,) = unlike(case)
    assert missing["window"] == [10, 20]
    assert missing["values"] == []


# By hand


def run(pipeline: Pipeline, *epochs: tuple[Any, ...]) -> list[dict[sim.Output, int]]:
    """Run epochs of rows as (t, v) or (t, v, diff), a watermark and a processing time; return the delta of each epoch."""
    simulator, deltas = Simulator(pipeline), []
    for rows, *clocks in epochs:
        changes = [({"t": t, "v": v}, diff[0] if diff else 1) for t, v, *diff in rows]
        deltas.append(dict(simulator.step(changes, *clocks).delta))
    return deltas


def sums(window: where.Window, **more: Any) -> Pipeline:
    return Pipeline(window, {"sum": where.total("v")}, time="t", **more)


def test_sessions_by_hand() -> None:
    """A077, A079 and what deletions do: rows a gap apart stay apart, one between them joins, and goes again."""
    assert run(
        sums(where.Sessions(10)),
        ([(0, 7), (10, 1), (20, 9)],),
        ([(5, 8)],),
        ([(15, 14)],),
        ([(5, 8, -1), (0, 7, -1)],),
        ([(15, 14, -1)],),
    ) == [
        {(0, 10, 7): 1, (10, 20, 1): 1, (20, 30, 9): 1},
        {(0, 10, 7): -1, (10, 20, 1): -1, (0, 20, 16): 1},
        {(0, 20, 16): -1, (20, 30, 9): -1, (0, 30, 39): 1},
        {(0, 30, 39): -1, (10, 30, 24): 1},
        {(10, 30, 24): -1, (10, 20, 1): 1, (20, 30, 9): 1},
    ]


def test_sliding_windows_by_hand() -> None:
    """A072: a row is in size / period windows; fixed windows are sliding ones; with long periods there are gaps."""
    assert where.Sliding(2, 1).of(12) == [(11, 13), (12, 14)]
    assert where.fixed(10, offset=3).of(2) == [(-7, 3)]
    assert where.Sliding(4, 10).of(3) == [(0, 4)]
    assert where.Sliding(4, 10).of(4) == []
    assert where.Sliding(5, 2).of(5) == [(2, 7), (4, 9)]
    assert where.Sliding(5, 2).of(4) == [(0, 5), (2, 7), (4, 9)]


def test_lateness_by_hand() -> None:
    """A148, A149: late rows within the horizon are emitted, others refused; then nothing is remembered."""
    trigger = when.AfterWatermark(late=when.AfterCount(1))
    simulator = Simulator(
        sums(where.fixed(10), trigger=trigger, mode="accumulating", lateness=5, pane_info=True)
    )
    row = {"t": 1, "v": 1}
    steps = [
        simulator.step([(row, 1)], 10, 100),
        simulator.step([(row, 1)], 14, 101),
        simulator.step([(row, 1)], 15, 102),
        simulator.step([(row, 1)], 15, 103),
    ]
    assert [pane.info for outcome in steps for pane in outcome.panes] == [
        (0, 0, "ON_TIME", True, False, 100, 10),
        (1, 1, "LATE", False, False, 101, 14),
        (2, 2, "LATE", False, True, 102, 15),
    ]
    assert [outcome.late for outcome in steps] == [{}, {}, {}, {(1, 1): 1}]
    assert simulator.remembered == 0


@pytest.mark.parametrize(
    ("trigger", "emitted_sums"),
    [
        (when.Repeat(when.AfterCount(2)), [0, 3, 0, 6, 0]),
        (when.Repeat(when.AnyOf([when.AfterCount(2), when.Every(10)])), [0, 3, 0, 6, 6]),
        (when.Repeat(when.AllOf([when.AfterCount(1), when.Every(10)])), [0, 3, 0, 0, 6]),
        (when.Sequence([when.AfterCount(1), when.Repeat(when.AfterCount(2))]), [1, 0, 6, 0, 0]),
        (when.Sequence([when.Until(when.Repeat(when.Every(10)), when.AfterWatermark()), when.Repeat(when.AfterCount(1))]), [0, 3, 6, 6, 0]),
        (when.AfterWatermark(when.Every(10), when.AfterCount(2)), [0, 3, 6, 0, 0]),
        (when.Repeat(when.AfterBytes(3, column="v")), [0, 3, 6, 0, 0]),
    ],
)  # fmt: skip
def test_triggers_by_hand(trigger: when.Trigger, emitted_sums: list[int]) -> None:
    simulator = Simulator(sums(where.fixed(10), trigger=trigger, mode="accumulating", always=True))
    history = [([1], None, 0), ([2], None, 10), ([3], 10, 15), ([0], None, 18), ([], None, 20)]
    found = []
    for values, watermark, at in history:
        outcome = simulator.step([({"t": 1, "v": value}, 1) for value in values], watermark, at)
        found.append(sum(pane.values[0] for pane in outcome.panes))
    assert found == emitted_sums
