"""Lengths of time and instants as users write them."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import assume, given

from eventtime.feeding import NOON, us
from evercurrent.core.data.clock import END_OF_TIME, START_OF_TIME
from evercurrent.core.data.durations import instant, microseconds
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.core.data.instants import UNITS, shown, spelled, spelled_briefly, time_of

units = st.sampled_from(["w", "d", "h", "m", "s", "ms", "us"])
texts = st.tuples(
    st.sampled_from(["", "-", "+"]), st.lists(st.tuples(st.integers(0, 10**6), units), min_size=1, max_size=5)
).map(lambda drawn: drawn[0] + "".join(f"{count}{unit}" for count, unit in drawn[1]))


@given(texts)
def test_lengths_of_time_are_what_polars_reads(text):
    length = microseconds("here", text, negative=True)
    assume(abs(length) < 2**63 // 1000)  # Polars counts nanoseconds, and wraps.
    origin = pl.Series([datetime(1970, 1, 1)], dtype=pl.Datetime("us"))
    assert length == origin.dt.offset_by(text).to_physical()[0]


@given(st.integers(-(10**15), 10**15))
def test_lengths_of_time_are_spelled_as_they_are_read(length):
    assert microseconds("here", spelled(length), negative=True) == length
    assert microseconds("here", timedelta(microseconds=length), negative=True) == length


@given(st.integers(-(10**15), 10**15) | st.integers(-(10**7), 10**7))
def test_measured_lengths_are_spelled_in_two_units_and_rounded_to_the_second(length):
    text = spelled_briefly(length)
    units = "".join(letter if letter.isalpha() else " " for letter in text).split()
    assert len(units) <= 2
    sizes = list(UNITS.values())
    largest = next((at for at, size in enumerate(sizes) if abs(length) >= size), len(sizes) - 1)
    finest = sizes[min(largest + 1, len(sizes) - 1)]
    assert abs(microseconds("here", text, negative=True) - length) * 2 <= finest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            10,
            'here: 10 is not a length of time; write it as "10s", "30m", "1h30m", "500ms" or "10 minutes", or as a timedelta',
        ),
        (True, "here: True is not a length of time"),
        (1.5, "here: 1.5 is not a length of time"),
        (None, "here: None is not a length of time"),
        ("", "here: '' is not a length of time"),
        ("10", "here: '10' is not a length of time"),
        (" 5m", "here: ' 5m' is not a length of time"),
        ("1.5h", "here: '1.5h' is not a length of time"),
        ("1h-30m", "here: '1h-30m' is not a length of time"),
        ("3H", "here: '3H' is not a length of time"),
        ("3min", "here: '3min': unknown unit 'min'; the units are w, d, h, m, s, ms, us"),
        ("1mo", "here: '1mo' has no fixed length, as months and years differ; use days, as in '30d'"),
        ("1y2d", "here: '1y2d' has no fixed length"),
        ("1q", "here: '1q' has no fixed length"),
        ("5ns", "here: '5ns' is finer than a microsecond, which is as fine as time is kept"),
        ("-5m", "here: '-5m' is negative; give a time of 0 or more"),
        ("99999999999w", "here: '99999999999w' is too long a time; it must be below 73,000 years"),
        (timedelta(seconds=-1), "here: datetime.timedelta(days=-1, seconds=86399) is negative"),
    ],
)
def test_what_is_no_length_of_time_is_refused(text, message):
    with pytest.raises(PlanError) as raised:
        microseconds("here", text)
    assert str(raised.value).startswith(message)


def test_zero_is_refused_where_it_has_no_meaning():
    assert microseconds("here", "0s") == 0
    with pytest.raises(PlanError, match="here: '0s' is zero; give a time of more than 0"):
        microseconds("here", "0s", zero=False)
    assert microseconds("here", "3000ns") == 3


NAIVE, VIENNA = pl.Datetime("us"), pl.Datetime("ms", "Europe/Vienna")


@pytest.mark.parametrize(
    ("moment", "dtype", "expected"),
    [
        (datetime(1970, 1, 1, 0, 0, 1), NAIVE, 1_000_000),
        (datetime(1970, 1, 1, 1, tzinfo=ZoneInfo("Europe/Vienna")), NAIVE, 0),
        (datetime(1970, 1, 1, 1, tzinfo=ZoneInfo("Europe/Vienna")), VIENNA, 0),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), VIENNA, -1),
        (date(1970, 1, 2), pl.Date(), 86_400_000_000),
        (date(1970, 1, 2), NAIVE, 86_400_000_000),
        (END_OF_TIME, VIENNA, END_OF_TIME),
    ],
)
def test_instants(moment, dtype, expected):
    assert instant("here", moment, dtype) == expected


@pytest.mark.parametrize(
    ("moment", "message"),
    [
        (
            datetime(2026, 1, 1),
            r"here: datetime.datetime\(2026, 1, 1, 0, 0\) has no time zone, and the column of event time is in",
        ),
        (date(2026, 1, 1), "has no time zone, and the column of event time is in Europe/Vienna"),
        (
            5,
            "here: the watermark 5 is not a time; give a datetime or a text such as '2026-01-31 12:00', or END_OF_TIME if no more rows will come",
        ),
        ("now", "here: the watermark 'now' is not a time"),
        (None, "here: the watermark None is not a time"),
        (True, "here: the watermark True is not a time"),
    ],
)
def test_what_is_no_instant_is_refused(moment, message):
    with pytest.raises(InputError, match=message):
        instant("here", moment, VIENNA)


def test_instants_as_text():
    assert shown(START_OF_TIME) == "the start of time"
    assert shown(END_OF_TIME) == "the end of time"
    assert shown(us(0.5)) == "2026-01-31 12:00:30 UTC"
    assert shown(2**60) == "1152921504606846976 microseconds since 1970"
    assert time_of(us(0)) == NOON
    assert time_of(END_OF_TIME) is None
    assert time_of(START_OF_TIME) is None
