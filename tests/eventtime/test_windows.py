"""Into which windows rows fall: against definitions in plain Python, and the cases of others."""

import json
import struct
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
from evercurrent.core.circuit.checked import Checked
from evercurrent.core.data.clock import END_OF_TIME, START_OF_TIME, Epoch, Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.core.eventtime.windows.assign_windows import AssignWindows
from evercurrent.core.eventtime.windows.kinds import (
    Calendar,
    Count,
    Custom,
    Fixed,
    Given,
    Global,
    LastRows,
    Sessions,
    Sliding,
    Window,
    assign,
    key_phases,
    last_window,
    windowed_schema,
)
from evercurrent.core.eventtime.windows.row_windows import merge_overlapping
from evercurrent.views.dataframe import windows as made
from harness import frame_of_entries
from peer_cases import NOT_BESIDE
from strategies import of_profile

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"
NOW = Now(Epoch(1), datetime(2026, 1, 1, tzinfo=UTC))
SECOND = 1_000_000
MINUTE = 60 * SECOND
ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)

Span = tuple[int, int]


def read(path: str) -> Any:
    """A file of cases; the test is skipped where the cases are not there."""
    file = CASES / path
    if not file.exists():
        pytest.skip(f"{path}: {NOT_BESIDE}")
    return json.loads(file.read_text())


def us(moment: datetime) -> int:
    return (moment - ORIGIN) // timedelta(microseconds=1)


def windows_of(window: Window, times: list[int], phases: list[int] | None = None) -> list[list[Span]]:
    """The windows of each instant, in the order in which they are given."""
    shifts = None if phases is None else np.array(phases, np.int64)
    rows, starts, ends = assign(window, np.array(times, np.int64), shifts)
    numbers = range(len(times)) if rows is None else rows.tolist()
    found: list[list[Span]] = [[] for _ in times]
    for row, start, end in zip(numbers, starts.tolist(), ends.tolist(), strict=True):
        found[row].append((start, end))
    return found


def all_that_hold(time: int, size: int, period: int, offset: int) -> list[Span]:
    """The definition of sliding windows: every [s, s + size) on the grid that holds the instant."""
    starts = range(time - size + 1, time + 1)
    return [(start, start + size) for start in starts if (start - offset) % period == 0]


def operator(window: Window, schema: dict[str, Any], at: str = "at", **options: Any) -> Checked:
    columns = windowed_schema(pl.Schema(schema), window, at)
    return Checked("w", AssignWindows("view 'v'", columns, window, at, **options), [])


def windowed(window: Window, frame: pl.DataFrame, at: str = "at", **options: Any) -> pl.DataFrame:
    """The rows of a frame with their windows."""
    step = operator(window, dict(frame.schema), at, **options).step
    delta = step(NOW, Delta.of(frame, np.ones(frame.height, np.int64)))
    assert (delta.diffs == 1).all()
    return delta.rows


def instants(name: str, times: list[int], dtype: pl.DataType | None = None) -> pl.Series:
    return pl.Series(name, times, pl.Int64).cast(dtype or pl.Datetime("us"))


def spans(frame: pl.DataFrame) -> list[Span]:
    bounds = frame.select(pl.col("window_start", "window_end").to_physical())
    return [(start, end) for start, end in bounds.iter_rows()]


# Cases of others.


def window_of_case(given: dict[str, Any]) -> Window:
    """A window of a case file, times in the unit of the file, through what users call."""

    def length(name: str) -> timedelta:
        return timedelta(microseconds=given.get(name, 0))

    match given["type"]:
        case "fixed":
            return made.fixed(length("size"), offset=length("offset"))
        case "sliding":
            return made.sliding(length("size"), every=length("period"), offset=length("offset"))
        case "session":
            return made.sessions(length("gap"))
    raise NotImplementedError(given)


def merged(found: list[Span]) -> list[Span]:
    """What proto-sessions of one key become, in the same order."""
    order = sorted(range(len(found)), key=found.__getitem__)
    frame = pl.DataFrame([found[row] for row in order], schema=["window_start", "window_end"], orient="row")
    rows = merge_overlapping(frame).rows()
    return [rows[order.index(row)] for row in range(len(found))]


BEAM = [
    "fixed/simple",
    "fixed/offset",
    "fixed/time_unit_ms",
    "fixed/py_offset2",
    "fixed/py_no_offset",
    "fixed/py_offset_out_of_range",
    "sliding/simple",
    "session/simple",
    "session/consecutive",
]


def beam_case(name: str) -> dict[str, Any]:
    (case,) = [case for case in read("beam-windowing/window_assignment.json")["cases"] if case["id"] == name]
    assert isinstance(case, dict)
    return case


@pytest.mark.parametrize("name", BEAM)
def test_window_assignment_of_beam(name: str) -> None:
    case = beam_case(name)
    times = case["timestamps"]
    found = windows_of(window_of_case(case["window"]), times)
    if case["window"]["type"] == "session":
        found = [[span] for span in merged([span for spans in found for span in spans])]
    members = defaultdict(list)
    for time, held in zip(times, found, strict=True):
        for span in held:
            members[span].append(time)
    assert members == {tuple(each["window"]): each["members"] for each in case["expect"]}


def test_beam_refuses_a_negative_size_and_so_do_we() -> None:
    with pytest.raises(PlanError, match=r"fixed: size: .* is negative; give a time of more than 0"):
        window_of_case(beam_case("fixed/java_invalid_neg_size")["window"])


@pytest.mark.parametrize("name", ["fixed/java_invalid_offset_ge_size", "fixed/java_invalid_neg_offset"])
def test_beam_refuses_some_offsets_and_by_ruling_9_any_is_taken_modulo_the_period(name: str) -> None:
    case = beam_case(name)
    assert case["expect_error"]
    assert windows_of(window_of_case(case["window"]), [-1, 0, 5]) == [[(-1, 0)], [(0, 1)], [(5, 6)]]


def test_every_case_of_window_assignment_is_looked_at() -> None:
    known = {*BEAM, *(f"fixed/java_invalid_{why}" for why in ("neg_size", "offset_ge_size", "neg_offset"))}
    assert {case["id"] for case in read("beam-windowing/window_assignment.json")["cases"]} == known


def test_sliding_assignment_of_apex() -> None:
    cases = read("apex-windowed-operator/cases.json")["cases"]
    (case,) = [case for case in cases if case["id"] == "apex/SlidingAssignment"]
    for step in case["steps"]:
        found = windows_of(window_of_case(case["window"]), [step["assign"]])
        assert found == [[(start, end) for start, end in step["expect_windows"]]]


def clock(text: str) -> int:
    """ "13:02" of some day."""
    return us(datetime.fromisoformat(f"2015-01-01T{text}+00:00"))


def test_a072_sliding_assignment_of_the_paper() -> None:
    example = read("dataflow-paper/figures.json")["worked_examples"]["sliding_assignment_section_2_2_1"]
    rows = [(key, value, clock(at)) for key, value, at in example["in"]]
    frame = pl.DataFrame(rows, schema=["key", "value", "at"], orient="row")
    frame = frame.with_columns(pl.col("at").cast(pl.Datetime("us")))
    found = windowed(made.sliding("2m", every="1m"), frame)
    given = found.with_columns(pl.col("at", "window_start", "window_end").to_physical()).rows()
    assert given == [
        (key, value, clock(at), clock(start), clock(end)) for key, value, at, (start, end) in example["out"]
    ]


def test_a073_sessions_of_the_paper_start_as_proto_sessions() -> None:
    example = read("dataflow-paper/figures.json")["worked_examples"]["session_merge_section_2_2_2"]
    found = windows_of(made.sessions("30m"), [clock(at) for *_, at in example["in"]])
    assert found == [[(clock(start), clock(end))] for *_, (start, end) in example["assigned"]]


# Against definitions.

TIMES = st.lists(st.integers(-300, 300), max_size=20)
SIZES = st.integers(1, 40)
OFFSETS = st.integers(-100, 100)


def test_a070_the_global_window_holds_all_and_adds_no_columns() -> None:
    assert windows_of(Global(), [-5, 5]) == [[(START_OF_TIME, END_OF_TIME)]] * 2
    frame = pl.DataFrame([instants("at", [1, 2])])
    assert windowed(Global(), frame).equals(frame)


@given(times=TIMES, size=SIZES, offset=OFFSETS)
def test_a071_fixed_windows_are_the_ones_on_the_grid_that_hold_the_instant(
    times: list[int], size: int, offset: int
) -> None:
    expected = [all_that_hold(time, size, size, offset) for time in times]
    assert windows_of(Fixed(size, offset), times) == expected
    assert windows_of(Fixed(size, offset % size), times) == expected


def test_a071_two_minute_windows_of_the_paper() -> None:
    events = read("dataflow-paper/figures.json")["events"]
    frame = pl.DataFrame(
        {
            "value": [event["value"] for event in events],
            "at": [clock(event["event_time"]) for event in events],
        }
    ).with_columns(pl.col("at").cast(pl.Datetime("us")))
    sums = windowed(made.fixed("2m"), frame).group_by("window_start").agg(pl.col("value").sum())
    assert sums.sort("window_start")["value"].to_list() == [14, 22, 3, 12]


@given(times=TIMES, size=SIZES, period=SIZES, offset=OFFSETS)
def test_a072_e8_sliding_windows_of_any_size_and_period(
    times: list[int], size: int, period: int, offset: int
) -> None:
    window = Sliding(size, period, offset)
    found = windows_of(window, times)
    assert found == [all_that_hold(time, size, period, offset) for time in times]
    for held in found:
        assert len(held) in {size // period, -(-size // period)}
        assert len(held) == size // period or size % period


@given(times=TIMES, size=SIZES, offset=OFFSETS)
def test_a072_fixed_windows_are_sliding_ones_with_the_size_as_period(
    times: list[int], size: int, offset: int
) -> None:
    assert windows_of(Fixed(size, offset), times) == windows_of(Sliding(size, size, offset), times)


def test_e8_rows_in_the_gaps_of_sliding_windows_are_in_no_window() -> None:
    assert windows_of(Sliding(2, 5), [-1, 0, 1, 2, 4, 5]) == [[], [(0, 2)], [(0, 2)], [], [], [(5, 7)]]
    frame = pl.DataFrame([instants("at", [2, 3, 4])])
    assert windowed(Sliding(2, 5), frame).height == 0


def test_a074_rows_exactly_one_gap_apart_are_in_different_sessions() -> None:
    assert merged([(0, 10), (10, 20)]) == [(0, 10), (10, 20)]
    assert merged([(0, 10), (9, 19)]) == [(0, 19), (0, 19)]


@given(times=TIMES, size=SIZES, period=SIZES, offset=OFFSETS)
def test_the_last_window_of_a_row_is_the_one_that_closes_last(
    times: list[int], size: int, period: int, offset: int
) -> None:
    window = Sliding(size, period, offset)
    rows, starts, ends = assign(window, np.array(times, np.int64))
    each = np.arange(len(times)) if rows is None else rows
    last = last_window(window, np.array(times, np.int64)[each], starts)
    latest = {row: max(end for r, end in zip(each, ends, strict=True) if r == row) for row in set(each)}
    assert last.tolist() == [latest[row] == end for row, end in zip(each, ends, strict=True)]


@pytest.mark.parametrize("window", [Fixed(5), Sessions(5), Calendar("1d"), Count(2), LastRows(2), Global()])
def test_the_only_window_of_a_row_is_its_last(window: Window) -> None:
    times = np.array([-7, 0, 12])
    _, starts, _ = assign(window, times)
    assert last_window(window, times, starts).all()


# Shifted by key.


@given(times=TIMES, size=SIZES, offset=OFFSETS, data=st.data())
def test_a082_phases_shift_the_windows_row_by_row(
    times: list[int], size: int, offset: int, data: st.DataObject
) -> None:
    phases = data.draw(st.lists(st.integers(0, size - 1), min_size=len(times), max_size=len(times)))
    found = windows_of(Fixed(size, offset, True), times, phases)
    assert found == [
        all_that_hold(time, size, size, offset + phase) for time, phase in zip(times, phases, strict=True)
    ]


def test_a082_bounds_differ_by_key_and_every_row_is_in_one_window() -> None:
    frame = pl.DataFrame(
        [pl.Series("ip", [f"10.0.0.{n % 50}" for n in range(500)]), instants("at", [*range(500)])]
    )
    found = windowed(Fixed(100, shifted_by_key=True), frame, keys=["ip"])
    assert found.drop("window_start", "window_end").equals(frame)
    bounds = found.with_columns(pl.col("window_start").to_physical() % 100)
    by_ip = bounds.group_by("ip").agg(pl.col("window_start").n_unique().alias("n"), pl.first("window_start"))
    assert (by_ip["n"] == 1).all()
    assert by_ip["window_start"].n_unique() > 30
    assert found.filter(~pl.col("at").is_between("window_start", "window_end", closed="left")).height == 0


def test_a082_a_row_is_late_when_the_window_of_its_key_is_closed() -> None:
    engine = ec.Engine()
    source = engine.source("hits", {"ip": pl.String, "at": pl.Datetime("us")}, event_time="at")
    shifted = source.window(ec.fixed("10s", shifted_by_key=True)).lateness("0s")
    view = engine.view("v", shifted.group_by("ip").agg(n=pl.len()))
    start = datetime(2026, 1, 1)
    ips = [f"10.0.0.{n}" for n in range(50)]
    rows = pl.DataFrame({"ip": ips, "at": [start + timedelta(seconds=9)] * 50}).cast(
        {"at": pl.Datetime("us")}
    )
    engine.push("hits", rows, watermark=start + timedelta(seconds=11))
    engine.push("hits", rows)
    open_until = pl.col("window_end") > start + timedelta(seconds=11)
    counted = view.read().select(pl.col("n") == pl.when(open_until).then(2).otherwise(1))
    assert counted["n"].all()


def test_late_rows_of_windows_shifted_by_key_are_refused() -> None:
    # They were those of windows that are not shifted: others than the view of the groups refused.
    engine = ec.Engine()
    source = engine.source("hits", {"ip": pl.String, "at": pl.Datetime("us")}, event_time="at")
    shifted = source.window(ec.fixed("10s", shifted_by_key=True)).lateness("0s")
    for each_window in (False, True):
        with pytest.raises(
            ec.PlanError, match=r"shifted by key depend on the keys of group_by.*engine\.ledger\(\)"
        ):
            shifted.late_rows(each_window=each_window)


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.map_batches(lambda frame: frame),
        lambda rows: rows.drop("at"),
        lambda rows: rows.with_columns(at=pl.col("at") + pl.duration(hours=1)),
    ],
    ids=["map_batches", "drop", "with_columns"],
)
def test_windows_shifted_by_key_need_event_time_where_rows_are_grouped(change: Any) -> None:
    # They were shifted from the ends of windows that are not shifted, so that a row was in one that does not hold its time.
    engine = ec.Engine()
    source = engine.source("hits", {"ip": pl.String, "at": pl.Datetime("us")}, event_time="at")
    shifted = source.window(ec.fixed("10s", shifted_by_key=True))
    with pytest.raises(ec.PlanError, match=r"computed from event time when rows are grouped.*put \.window"):
        change(shifted).group_by("ip").len()


WORD = 2**64
SPREAD, NULL_WORD = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03


def mixed(word: int) -> int:
    """splitmix64."""
    word = (word + SPREAD) % WORD
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % WORD
    return word ^ (word >> 31)


def word_of(value: Any) -> int:
    """The definition of the word of a value."""
    if value is None:
        return NULL_WORD
    if isinstance(value, int):
        return value % WORD
    if isinstance(value, float):
        (word,) = struct.unpack("<Q", struct.pack("<d", value + 0.0))
        return int(word)
    if isinstance(value, dict):
        return row_word(tuple(value.values()))
    return row_word([*(value.encode() if isinstance(value, str) else value)])


def row_word(values: Sequence[Any]) -> int:
    places = (mixed((word_of(value) + place * SPREAD) % WORD) for place, value in enumerate(values))
    return mixed((sum(places) + len(values)) % WORD)


KEYS: list[tuple[pl.DataType, list[Any]]] = [
    (pl.Int64(), [0, 1, -3, None]),
    (pl.Int8(), [0, 1, -3, None]),
    (pl.UInt64(), [0, 2**64 - 1, None]),
    (pl.Boolean(), [True, False, None]),
    (pl.Float64(), [0.0, -0.0, 1.5, None]),
    (pl.String(), ["a", "", "user-1", None, "ß", "ab" * 100]),
    (pl.Categorical(), ["b", "a", None, "b"]),
    (pl.Binary(), [b"", None, b"\x00", b"\x00\x00"]),
    (pl.List(pl.Int64()), [[1, 2], [], None, [None], [2, 1]]),
    (pl.List(pl.String()), [["a", "b"], ["ab"], [""], []]),
    (pl.Array(pl.Int64(), 2), [[1, 2], [2, 1]]),
    (pl.Struct({"x": pl.Int64(), "y": pl.String()}), [{"x": 1, "y": "a"}, {"x": None, "y": ""}]),
]


@pytest.mark.parametrize(("dtype", "values"), KEYS, ids=str)
def test_a082_phases_follow_from_the_value_of_the_key_alone(dtype: pl.DataType, values: list[Any]) -> None:
    column = pl.Series("key", values, dtype)
    size = 10**9 + 7
    assert key_phases([column], size).tolist() == [row_word([value]) % size for value in values]
    assert key_phases([column[1:]], size).tolist() == key_phases([column], size).tolist()[1:]
    assert key_phases([column, column], size).tolist() == [row_word([value] * 2) % size for value in values]
    assert not len(key_phases([column.clear()], size))


def test_a082_phases_are_the_same_for_good() -> None:
    found = key_phases([pl.Series([1, 2, None]), pl.Series(["a", None, "c"])], 1_000_000)
    assert found.tolist() == [888384, 475390, 218672]


# The calendar.

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/Sao_Paulo",
    "Asia/Kathmandu",
    "America/St_Johns",
    "Pacific/Apia",
    "Pacific/Kiritimati",
    "Africa/Cairo",
]
"""Whole and odd offsets, gaps and repetitions at midnight, clocks set back at 00:01, a day that never was."""


def shown(moment: int, zone: str) -> datetime:
    """What local clocks show."""
    return (ORIGIN + timedelta(microseconds=moment)).astimezone(ZoneInfo(zone)).replace(tzinfo=None)


@cache
def day_begins(day: date, zone: str) -> int:
    """The first minute at which local clocks show this day or a later one."""
    midnight = datetime(day.year, day.month, day.day)
    at = us(midnight.replace(tzinfo=UTC)) - 26 * 60 * MINUTE
    while shown(at, zone) < midnight:
        at += MINUTE if midnight - shown(at, zone) <= timedelta(minutes=121) else 60 * MINUTE
    return at


def first_day(day: date, every: str) -> date:
    count, unit = int(every.rstrip("dwmoqy")), every.lstrip("0123456789")
    if unit in "dw":
        days, origin = count * (7 if unit == "w" else 1), date(1970, 1, 5 if unit == "w" else 1)
        return day - timedelta(days=(day - origin).days % days)
    months = count * {"mo": 1, "q": 3, "y": 12}[unit]
    month = (day.year - 1970) * 12 + day.month - 1
    month -= month % months
    return date(1970 + month // 12, month % 12 + 1, 1)


def next_day(first: date, every: str) -> date:
    """The first day of the next step: the first one from here on that is in another."""
    day = first
    while first_day(day, every) == first:
        day += timedelta(days=1)
    return day


def calendar_window(moment: int, every: str, zone: str) -> Span:
    """The definition: steps begin when their first day begins; the one that has begun last holds the instant."""
    first = first_day(shown(moment, zone).date(), every)
    start, end = day_begins(first, zone), day_begins(next_day(first, every), zone)
    if moment >= end:  # clocks were set back over midnight, and show the day before once more
        start, end = end, day_begins(next_day(next_day(first, every), every), zone)
    return start, end


YEARS = st.integers(us(datetime(1971, 1, 1, tzinfo=UTC)), us(datetime(2036, 1, 1, tzinfo=UTC)))
EVERY = ["1d", "2d", "1w", "2w", "1mo", "5mo", "1q", "3q", "1y", "2y"]


@given(
    times=st.lists(YEARS, min_size=1, max_size=4), every=st.sampled_from(EVERY), zone=st.sampled_from(ZONES)
)
def test_a071_calendar_windows_against_zoneinfo(times: list[int], every: str, zone: str) -> None:
    found = windows_of(Calendar(every, zone), times)
    assert found == [[calendar_window(time, every, zone)] for time in times]


TURNS = [
    ("Europe/Berlin", "2026-03-29", 23),
    ("Europe/Berlin", "2026-10-25", 25),
    ("Asia/Kathmandu", "2026-03-29", 24),
    ("America/Sao_Paulo", "2018-11-04", 23),
    ("America/Sao_Paulo", "2018-02-17", 25),
    ("America/St_Johns", "2009-10-31", 24),
    ("America/St_Johns", "2009-11-01", 25),
    ("America/St_Johns", "2009-03-08", 23),
    ("Pacific/Apia", "2011-12-29", 24),
    ("Pacific/Apia", "2011-12-31", 24),
    ("Africa/Cairo", "2010-08-10", 25),
]


@pytest.mark.parametrize(("zone", "day", "hours"), TURNS)
def test_days_have_as_many_hours_as_local_clocks_give_them(zone: str, day: str, hours: int) -> None:
    """Every quarter of an hour around the turn is in the window of the definition; the day is as long as it was."""
    noon = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    around = [us(noon) + quarter * 15 * MINUTE for quarter in range(-4 * 48, 4 * 48)]
    found = windows_of(Calendar("1d", zone), around)
    assert found == [[calendar_window(time, "1d", zone)] for time in around]
    ((start, end),) = windows_of(Calendar("1d", zone), [us(noon)])[0]
    assert (end - start) / (60 * MINUTE) == hours
    assert shown(start, zone).date() == date.fromisoformat(day)


def test_the_day_that_apia_never_had() -> None:
    last_of_29th = us(datetime(2011, 12, 30, 9, 59, 59, tzinfo=UTC))
    ((start, end),) = windows_of(Calendar("1d", "Pacific/Apia"), [last_of_29th])[0]
    assert (shown(start, "Pacific/Apia"), shown(end, "Pacific/Apia")) == (
        datetime(2011, 12, 29),
        datetime(2011, 12, 31),
    )


@given(times=st.lists(YEARS, min_size=1, max_size=4), every=st.sampled_from(EVERY))
def test_calendar_windows_of_utc_start_where_polars_truncates(times: list[int], every: str) -> None:
    truncated = instants("at", times).dt.truncate(every).to_physical().to_list()
    assert [start for ((start, _),) in windows_of(Calendar(every), times)] == truncated


def test_calendar_windows_of_instants_far_apart_and_before_1970() -> None:
    far = 2**62 - 1
    found = windows_of(Calendar("1y", "Europe/Berlin"), [-far, -1, 0, far])
    assert all(start <= time < end for time, ((start, end),) in zip([-far, -1, 0, far], found, strict=True))
    assert (
        found[1]
        == found[2]
        == [(us(datetime(1969, 12, 31, 23, tzinfo=UTC)), us(datetime(1970, 12, 31, 23, tzinfo=UTC)))]
    )


def test_without_a_zone_the_calendar_is_that_of_the_event_time() -> None:
    noon = us(datetime(2026, 3, 29, 12, tzinfo=UTC))
    for zone in ("Europe/Berlin", "Asia/Kathmandu"):
        dtype = pl.Datetime("us", zone)
        found = windowed(made.calendar("1d"), pl.DataFrame([instants("at", [noon], dtype)]))
        assert found.schema == {"at": dtype, "window_start": dtype, "window_end": dtype}
        assert spans(found) == [calendar_window(noon, "1d", zone)]
    naive = windowed(made.calendar("1d"), pl.DataFrame([instants("at", [noon])]))
    assert spans(naive) == [calendar_window(noon, "1d", "UTC")]


# The operator.

ROWS = {"id": pl.Int64, "name": pl.String, "at": pl.Datetime("us")}
ENTRIES = st.lists(
    st.tuples(
        st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", None]), st.integers(-30, 30)),
        st.integers(-2, 2).filter(bool),
    ),
    max_size=12,
)
WINDOWS: list[Window] = [
    Fixed(10, 3),
    Sliding(10, 5),
    Sliding(10, 3),
    Sliding(2, 5),
    Sessions(7),
    Calendar("1d"),
    Count(3),
    LastRows(3),
]


def entries_frame(entries: list[Any]) -> pl.DataFrame:
    moments = [
        ((*cells, ORIGIN.replace(tzinfo=None) + timedelta(microseconds=at)), diff)
        for (*cells, at), diff in entries
    ]
    return frame_of_entries(ROWS, moments)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@of_profile(quick=40)
@given(entries=ENTRIES)
def test_each_row_with_its_windows_and_its_diff(window: Window, entries: list[Any]) -> None:
    step = operator(window, ROWS).step
    found = step(NOW, Delta(entries_frame(entries)).consolidate())
    expected: dict[Any, int] = defaultdict(int)
    for (number, name, at), diff in entries:
        for start, end in windows_of(window, [at])[0]:
            expected[number, name, at, start, end] += diff
    given = found.frame.with_columns(pl.col("at", "window_start", "window_end").to_physical()).rows()
    assert len(given) == len({row[:-1] for row in given})
    assert {row[:-1]: row[-1] for row in given} == {row: diff for row, diff in expected.items() if diff}


def test_the_consolidated_claim_is_given_up_where_windows_are_replaced() -> None:
    """Two panes of windows that are one in the new windows become one row."""
    schema = {"n": pl.Int64, "window_start": pl.Datetime("us"), "window_end": pl.Datetime("us")}
    columns = windowed_schema(pl.Schema(schema), Fixed(20), "window_end")
    assert list(columns) == list(schema)
    bounds = [instants(name, times) for name, times in (("window_start", [0, 10]), ("window_end", [10, 20]))]
    frame = pl.DataFrame([pl.Series("n", [1, 1]), *bounds, pl.Series("_diff", [1, 1])])
    step = Checked("w", AssignWindows("v", columns, Fixed(20), "window_end", -1), []).step
    found = step(NOW, Delta(frame, is_consolidated=True))
    assert not found.is_consolidated
    assert found.consolidate().frame.with_columns(pl.all().to_physical()).rows() == [(1, 0, 20, 2)]


def test_a089_e3_a_pane_counts_at_its_last_microsecond_in_a_chained_window_of_the_same_size() -> None:
    first = windowed(made.fixed("5s"), pl.DataFrame([instants("at", [0, 4 * SECOND, 5 * SECOND])]))
    second = windowed(made.fixed("5s"), first, "window_end", shift_us=-1)
    assert spans(second) == spans(first) == [(0, 5 * SECOND), (0, 5 * SECOND), (5 * SECOND, 10 * SECOND)]


@pytest.mark.parametrize(
    ("dtype", "value", "instant"),
    [
        (pl.Datetime("ms"), 1_999, 1_999_000),
        (pl.Datetime("ns"), 1_999, 1),
        (pl.Datetime("ns"), -1, -1),
        (pl.Datetime("us", "Asia/Kathmandu"), 5, 5),
        (pl.Datetime("ns", "UTC"), 5_000, 5),
        (pl.Date(), -1, -86_400 * SECOND),
    ],
    ids=str,
)
def test_event_time_of_every_type_counts_in_microseconds_rounded_down(
    dtype: pl.DataType, value: int, instant: int
) -> None:
    at = pl.Series("at", [value], pl.Int32 if dtype == pl.Date else pl.Int64).cast(dtype)
    found = windowed(Sessions(10), pl.DataFrame([at]))
    assert spans(found) == [(instant, instant + 10)]
    zone = dtype.time_zone if isinstance(dtype, pl.Datetime) else None
    assert found.schema["window_start"] == pl.Datetime("us", zone)
    assert found.schema["at"] == dtype


def test_given_windows_go_through() -> None:
    bounds = [instants("window_start", [0]), instants("window_end", [9])]
    frame = pl.DataFrame([*bounds, instants("at", [3])])
    assert windowed(Given(), frame).equals(frame)


# Refused.


def test_a_row_without_event_time_is_refused_with_the_way_out() -> None:
    frame = pl.DataFrame([pl.Series("at", [None, 1]).cast(pl.Datetime("us"))])
    with pytest.raises(InputError, match=r"view 'v': column 'at' is null in 1 row.*filter"):
        windowed(Fixed(5), frame)


@pytest.mark.parametrize("value", [2**62, -(2**62), 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("window", [Fixed(5), Sliding(10, 5), Sessions(5), Calendar("1d"), Count(1)], ids=str)
def test_instants_too_far_from_1970_are_refused(window: Window, value: int) -> None:
    with pytest.raises(InputError, match=r"column 'at' has the event time .* too far"):
        windowed(window, pl.DataFrame([instants("at", [0, value])]))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(pl.Datetime("ms"), 2**62 // 1000 + 1), (pl.Datetime("ms"), -(2**60)), (pl.Date(), 2**30)],
    ids=str,
)
def test_instants_of_coarse_units_do_not_wrap(dtype: pl.DataType, value: int) -> None:
    at = pl.Series("at", [value], pl.Int32 if dtype == pl.Date else pl.Int64).cast(dtype)
    with pytest.raises(InputError, match="too far"):
        windowed(Fixed(5), pl.DataFrame([at]))


@pytest.mark.parametrize("value", [2**62 - 1, -(2**62) + 1])
@pytest.mark.parametrize("window", [Fixed(2**60 + 1), Sliding(2**60, 2**59), Calendar("1y")], ids=str)
def test_windows_beyond_the_ends_of_time_are_refused(window: Window, value: int) -> None:
    with pytest.raises(InputError, match="whose window is too far away"):
        windowed(window, pl.DataFrame([instants("at", [value])]))


# Functions of users.


def by_hour(rows: pl.DataFrame) -> pl.DataFrame:
    start = pl.col("at").dt.truncate("1h")
    return rows.select("id", window_start=start, window_end=start + pl.duration(hours=1))


def test_a088_windows_by_a_function_of_the_rows() -> None:
    frame = entries_frame([((n, "a", n * 1_800 * SECOND), 1) for n in range(6)]).drop("_diff")
    hour = 3_600 * SECOND
    assert spans(windowed(Custom(by_hour), frame)) == spans(windowed(Fixed(hour), frame))
    assert windowed(Custom(by_hour), frame).columns == ["id", "name", "at", "window_start", "window_end"]


def broken(rows: pl.DataFrame) -> pl.DataFrame:
    raise KeyError("opens")


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (broken, "the function raised KeyError: 'opens'; nothing has changed"),
        (lambda rows: 3, "the function gave int; return a frame of 1 row"),
        (
            lambda rows: rows.lazy(),
            "the function gave LazyFrame of polars; return a frame .*, as a pl.DataFrame",
        ),
        (
            lambda rows: rows.to_pandas(),
            "the function gave DataFrame of pandas; return .*, as a pl.DataFrame",
        ),
        (lambda rows: by_hour(rows).clear(), "gave 0 rows of .*return a frame of 1 row"),
        (lambda rows: rows, "gave 1 row of 'id', 'name', 'at'; return"),
        (
            lambda rows: rows.select(window_start="id", window_end="id"),
            "'window_start' is Int64; make it Datetime",
        ),
        (
            lambda rows: rows.select(window_start="at", window_end="at"),
            "1 windows end at their start or before",
        ),
        (
            lambda rows: by_hour(rows).with_columns(window_start=pl.lit(None, pl.Datetime("us"))),
            "column 'window_start' is null in 1 row",
        ),
        (
            lambda rows: by_hour(rows).with_columns(pl.col("window_end").dt.replace_time_zone("UTC")),
            "give both or none a time zone",
        ),
    ],
)
def test_what_fails_in_a_function_names_the_view_and_what_it_must_return(
    function: Any, complaint: str
) -> None:
    frame = entries_frame([((1, "a", 0), 1)]).drop("_diff")
    with pytest.raises(InputError, match=rf"view 'v': assign: .*{complaint}"):
        windowed(Custom(function), frame)


# What users call.


@pytest.mark.parametrize(
    "call",
    [
        lambda: made.fixed("0s"),
        lambda: made.fixed(timedelta(-1)),
        lambda: made.sliding("0s", every="1s"),
        lambda: made.sliding("1s", every="0s"),
        lambda: made.sessions("0s"),
        lambda: made.sessions(timedelta(microseconds=-1)),
    ],
)
def test_lengths_of_time_that_are_not_above_zero_are_refused(call: Any) -> None:
    with pytest.raises(PlanError, match="more than 0"):
        call()


def test_sliding_windows_by_the_million_are_refused() -> None:
    with pytest.raises(PlanError, match="a row would be in 86,400,000,000 windows"):
        made.sliding(timedelta(days=1), every=timedelta(microseconds=1))


def test_lengths_beyond_what_can_be_counted_with_are_refused() -> None:
    with pytest.raises(PlanError, match="below 73,000 years"):
        made.fixed(timedelta(days=27_000_000))


@pytest.mark.parametrize("every", ["", "1", "d", "0d", "1h", "-1d", "1m", "1 d", "10000d", 1, None])
def test_calendars_that_there_are_not_are_refused(every: Any) -> None:
    with pytest.raises(PlanError, match="give days, weeks, months, quarters or years"):
        made.calendar(every)


@pytest.mark.parametrize("zone", ["Nowhere", "", "europe/berlin", 3])
def test_unknown_time_zones_are_refused(zone: Any) -> None:
    with pytest.raises(PlanError, match=r"the time zone .* is unknown; give .*'Europe/Berlin'"):
        made.calendar("1d", time_zone=zone)


@pytest.mark.parametrize("rows", [0, -1, 1.5, "3", True, None])
@pytest.mark.parametrize("call", [made.count_window, made.last_rows])
def test_a092_a_number_of_rows_is_a_whole_number_from_1(call: Any, rows: Any) -> None:
    with pytest.raises(PlanError, match="give a whole number from 1"):
        call(rows)


@pytest.mark.parametrize("arguments", [(None,), ("assign",), (by_hour, 3)])
def test_a088_functions_must_be_callable(arguments: Any) -> None:
    with pytest.raises(
        PlanError, match=r"custom_windows: .* give a function that takes a frame and returns one"
    ):
        made.custom_windows(*arguments)


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (made.fixed("2m", offset="30s"), "fixed windows of 2m from 30s on"),
        (made.fixed("1d", shifted_by_key=True), "fixed windows of 1d, shifted by key"),
        (made.sliding("10m", every="90s", offset="1s"), "sliding windows of 10m every 1m30s from 1s on"),
        (made.sessions("30m"), "sessions with a gap of 30m"),
        (made.calendar("1mo"), "calendar windows of 1mo"),
        (made.calendar("1w", time_zone="Asia/Tokyo"), "calendar windows of 1w in Asia/Tokyo"),
        (made.global_window(), "the global window"),
        (made.count_window(3), "windows of 3 rows"),
        (made.count_window(1), "windows of 1 row"),
        (made.last_rows(3), "the last 3 rows"),
        (made.last_rows(1), "the last row"),
        (made.custom_windows(by_hour, merge_overlapping), "windows by by_hour, merged by merge_overlapping"),
        (Given(), "the windows that are given"),
    ],
)
def test_windows_in_words(window: Window, words: str) -> None:
    assert made.described(window) == words
    assert hash(window) == hash(window)


NOON = datetime(2026, 1, 1, 12)
HITS = {"k": pl.String, "at": pl.Datetime("us")}


def test_the_global_window_is_grouped_by_the_bounds_of_panes() -> None:
    engine = ec.Engine()
    hits = engine.source("hits", HITS, event_time="at")
    panes = hits.window(ec.fixed("5s")).group_by("k").agg(n=pl.len())
    ends = engine.view("ends", panes.window(ec.global_window()).group_by("window_end").agg(keys=pl.len()))
    hits.push([("a", NOON), ("b", NOON), ("a", NOON + timedelta(seconds=5))])
    assert ends.read().sort("window_end").rows() == [
        (NOON + timedelta(seconds=5), 2),
        (NOON + timedelta(seconds=10), 1),
    ]


@pytest.mark.parametrize("merge", [None, ec.merge_overlapping])
def test_windows_of_a_function_need_no_event_time(merge: Any) -> None:
    engine = ec.Engine()
    hits = engine.source("hits", HITS)

    def for_two_seconds(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.select(window_start="at", window_end=pl.col("at") + pl.duration(seconds=2))

    counted = hits.window(ec.custom_windows(for_two_seconds, merge=merge)).group_by("k").agg(n=pl.len())
    view = engine.view("view", counted)
    hits.push([("a", NOON + timedelta(seconds=second)) for second in (0, 1, 5)])
    assert sorted(view.read()["n"]) == ([1, 1, 1] if merge is None else [1, 2])
