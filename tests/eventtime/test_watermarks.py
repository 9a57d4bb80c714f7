"""The values of watermarks, kind by kind, against definitions in plain Python; and how they and lengths of time are written."""

import itertools
import json
import math
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given

from eventtime.feeding import COLUMNS, NOON, Feed, minute, us
from evercurrent.core.data.clock import END_OF_TIME, START_OF_TIME
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.views.dataframe.watermarks import (
    ascending,
    behind_processing_time,
    bounded_delay,
    by_partition,
    custom_watermark,
    declared_watermark,
    ingress_time,
    percentile_watermark,
    perfect,
    punctuated,
)
from peer_cases import NOT_BESIDE
from strategies import of_profile

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "apex-windowed-operator" / "cases.json"
PARTS = {"at": pl.Datetime("us"), "p": pl.String(), "flag": pl.Boolean()}

Row = tuple[int, str | None, bool | None]
Batch = tuple[int, list[Row]]
"""How many minutes processing time has moved on, and the rows: event time, partition, flag."""

rows = st.tuples(
    st.integers(0, 40), st.sampled_from(["a", "b", "c", None]), st.sampled_from([True, False, None])
)
histories = st.lists(st.tuples(st.integers(0, 9), st.lists(rows, max_size=5)), max_size=12)


def highest_so_far(state: Any, frame: pl.DataFrame, processing_time: datetime) -> tuple[Any, datetime | None]:
    """A function of a user: the highest event time, less a minute."""
    highest = frame.get_column("at").max()
    state = max(filter(None, [state, highest]), default=None)
    return state, None if state is None else state - timedelta(minutes=1)


KINDS = {
    "by hand": None,
    "ascending": ascending(),
    "bounded delay": bounded_delay("5m"),
    "with a limit": bounded_delay("5m", future_limit="3m"),
    "behind processing time": behind_processing_time("10m"),
    "ingress": ingress_time(),
    "by partition": by_partition("p", bounded_delay("2m"), idle_after="10m"),
    "by partition, punctuated": by_partition("p", punctuated("flag"), idle_after=None),
    "percentile": percentile_watermark(0.9, window=7),
    "punctuated": punctuated("flag"),
    "custom": custom_watermark(highest_so_far),
}

kinds = st.sampled_from(list(KINDS))


def fed(watermark: Any, history: list[Batch]) -> Feed:
    feed, now = Feed(watermark, PARTS), 0
    for passed, batch in history:
        now += passed
        feed.push(batch, now)
    return feed


@of_profile(quick=40)
@given(kinds, histories)
def test_a050_never_moves_back(kind, history):
    feed, now, last = Feed(KINDS[kind], PARTS), 0, START_OF_TIME
    for passed, batch in history:
        now += passed
        feed.push(batch, now)
        assert feed.clock.before == feed.clock.now >= last
        last = feed.clock.now


@of_profile(quick=40)
@given(kinds, histories)
def test_a058_a_replay_gives_the_same_marks(kind, history):
    assert fed(KINDS[kind], history).shown == fed(KINDS[kind], history).shown


FROM_ROWS = ["by hand", "ascending", "bounded delay", "punctuated", "custom"]


def split(data: st.DataObject, rows: list[Row]) -> list[Batch]:
    """The same rows in other batches, processing time standing still."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=5)))
    return [(0, rows[start:end]) for start, end in itertools.pairwise([0, *cuts, len(rows)])]


@given(st.sampled_from(FROM_ROWS), st.lists(rows, max_size=30), st.data())
def test_how_rows_are_split_does_not_change_where_it_ends(kind, everything, data):
    assert (
        fed(KINDS[kind], split(data, everything)).clock.now == fed(KINDS[kind], [(0, everything)]).clock.now
    )


@of_profile(quick=40)
@given(st.lists(rows, min_size=1, max_size=30), st.sampled_from([ascending(), punctuated("flag")]), st.data())
def test_nor_by_partition_if_it_waits_until_all_are_known(everything, inner, data):
    watermark = by_partition("p", inner, at_least=len({row[1] for row in everything}))
    assert fed(watermark, split(data, everything)).clock.now == fed(watermark, [(0, everything)]).clock.now


@given(histories)
def test_bounded_delay_is_the_highest_event_time_less_the_delay(history):
    feed, seen, now = Feed(bounded_delay("5m", future_limit="3m"), PARTS), [], 0
    for passed, batch in history:
        now += passed
        seen += [time for time, *_ in batch if time <= now + 3]
        feed.push(batch, now)
        assert feed.clock.now == (us(max(seen) - 5) if seen else START_OF_TIME)


@pytest.mark.skipif(not CASES.exists(), reason=NOT_BESIDE)
def test_apex_implicit_watermarks():
    (case,) = [
        case for case in json.loads(CASES.read_text())["cases"] if case["id"] == "apex/ImplicitWatermarks"
    ]
    lag = case["watermark_generator"]["fixed_lag"]
    feed, batch, watermarks = Feed(bounded_delay(f"{lag}ms"), {"at": pl.Datetime("ms")}), [], []
    for step in case["steps"]:
        batch += [[row["t"] / 60_000] for row in step.get("input", [])]
        if "tick" in step:
            before = feed.clock.now
            feed.push(batch, step["tick"])
            batch = []
            watermarks += [(feed.clock.now - us(0)) // 1000] if feed.clock.now != before else []
        if "expect_watermarks" in step:
            assert watermarks == step["expect_watermarks"]


def test_a051_perfect_refuses_a_row_behind_it_and_heuristics_let_it_pass():
    feed = Feed(perfect())
    feed.push([[5, 1], [3, 2], [8, 3]])
    assert feed.at == 8
    with pytest.raises(InputError) as raised:
        feed.push([[9, 4], [7, 5]])
    assert str(raised.value) == (
        "source 's': column 'at': the row {'at': datetime.datetime(2026, 1, 31, 12, 7), 'v': 5} is behind the watermark, "
        "2026-01-31 12:08:00 UTC (1 such in this batch), and the source was declared perfect(); nothing has changed. "
        "Leave them out, or declare the source with bounded_delay(...)"
    )
    assert feed.at == 8
    assert feed.clock.highest == us(8)
    assert feed.push([[8, 4]]).height == 1, "a row at the watermark is not behind it"
    assert feed.push([[3, 2]], diffs=[-1]).height == 1, "a retraction may be"
    heuristic = Feed(ascending())
    heuristic.push([[8, 3]])
    assert heuristic.push([[7, 5]]).height == 1
    assert heuristic.at == 8


def lags_watermark(times: list[int], share: float, window: int) -> float:
    """The definition, row by row."""
    highest, lags = -math.inf, []
    for time in times:
        highest = max(highest, time)
        lags.append(highest - time)
    lags = sorted(lags[-window:])
    rank = next(k for k in range(1, len(lags) + 1) if k >= round(share * len(lags), 9))
    return highest - lags[rank - 1]


@given(
    st.lists(st.integers(0, 99), min_size=1), st.sampled_from([0.1, 0.5, 0.7, 0.9, 1.0]), st.integers(1, 30)
)
def test_a054_percentile_is_the_lag_that_a_share_of_the_last_rows_did_not_exceed(times, share, window):
    feed = Feed(percentile_watermark(share, window=window), {"at": pl.Datetime("us")})
    best = START_OF_TIME
    for start in range(0, len(times), 3):
        feed.push([[time] for time in times[start : start + 3]])
        best = max(best, us(lags_watermark(times[: start + 3], share, window)))
        assert feed.clock.now == best


def test_a054_the_90th_percentile_passes_the_end_of_a_window_when_90_percent_of_its_rows_were_seen():
    """Of ten rows nine lag a minute and one a whole hour: the stragglers do not hold it back."""
    arrivals = sorted((t + (60 if t % 10 == 7 else t % 2), t) for t in range(400))
    for end in (100, 200, 300):
        feed, cautious, seen = Feed(percentile_watermark(0.9)), Feed(bounded_delay("60m")), 0
        for _, time in arrivals:
            feed.push([[time, 1]])
            cautious.push([[time, 1]])
            seen += time < end
            if feed.at >= end:
                break
        assert 0.9 <= seen / end < 1, "most rows are there and stragglers are not"
        assert cautious.at < end - 50


def test_a054_rows_with_diffs_count_that_often_and_the_first_few_may_be_left_out():
    feed = Feed(percentile_watermark(0.5, window=4, at_least=3))
    feed.push([[10, 1], [4, 2]])
    assert feed.clock.now == START_OF_TIME
    assert feed.described()[-1] == "it waits for 3 rows to estimate lag by, and 2 have come"
    feed.push([[9, 3]], diffs=[2])
    assert feed.at == 10 - 1, "of the lags 0, 6, 1, 1 the half is at most 1"
    feed.push([[3, 3]], diffs=[2**31 - 1])
    assert feed.at == 9
    assert feed.clock.entries == 4


def test_a057_three_generators():
    """Ingress, ascending per partition, and one written by a user, of the same rows."""
    batches = [(0, [(1, "a", True), (5, "b", None)]), (3, [(4, "a", None), (6, "b", None)]), (4, [])]
    assert [(mark - us(0)) / 60e6 for mark in fed(ingress_time(), batches).shown] == [0, 3, 7]
    partitioned = fed(by_partition("p", ascending()), batches)
    assert [(mark - us(0)) / 60e6 for mark in partitioned.shown] == [1, 4, 4]
    assert [(mark - us(0)) / 60e6 for mark in fed(custom_watermark(highest_so_far), batches).shown] == [
        4,
        5,
        5,
    ]


def test_a058_behind_processing_time_whatever_the_rows_are():
    feed = Feed(behind_processing_time("10s"))
    for now, batch in [(0, []), (1, [[99, 1]]), (5, [[-99, 1]]), (4, [])]:
        feed.push(batch, now)
    assert [(mark - us(0)) / 1e6 for mark in feed.shown] == [-10, 50, 290, 290]


class Partitions:
    """The definition, partition by partition."""

    def __init__(self, delay: int, idle_after: int | None):
        self.delay, self.idle_after = delay, idle_after
        self.highest: dict[Any, int] = {}
        self.seen: dict[Any, int] = {}
        self.watermark = -math.inf

    def push(self, batch: list[Row], now: int) -> float:
        for time, partition, _ in batch:
            self.highest[partition] = max(time, self.highest.get(partition, time))
            self.seen[partition] = now
        wait = math.inf if self.idle_after is None else self.idle_after
        awake = [each for each in self.seen if now < self.seen[each] + wait]
        awake = awake or [each for each in self.seen if self.seen[each] == max(self.seen.values())]
        if awake:
            self.watermark = max(self.watermark, min(self.highest[each] for each in awake) - self.delay)
        return self.watermark


@of_profile(quick=40)
@given(histories, st.sampled_from([None, 1, 5, 12]))
def test_a059_the_least_watermark_of_the_partitions_that_are_not_idle(history, idle_after):
    idle = None if idle_after is None else f"{idle_after}m"
    feed, expected, now = (
        Feed(by_partition("p", bounded_delay("2m"), idle_after=idle), PARTS),
        Partitions(2, idle_after),
        0,
    )
    for passed, batch in history:
        now += passed
        feed.push(batch, now)
        mark = expected.push(batch, now)
        assert feed.clock.now == (START_OF_TIME if mark == -math.inf else us(mark))
        assert feed.clock.entries == len(expected.seen)


@of_profile(quick=40)
@given(histories, st.integers(1, 25))
def test_a059_how_often_somebody_looks_while_all_are_idle_does_not_matter(history, later):
    end = sum(passed for passed, _ in history) + later
    seldom, often = (fed(by_partition("p", idle_after="10m"), history) for _ in range(2))
    for now in range(end - later, end):
        often.push([], now)
    seldom.push([], end)
    often.push([], end)
    assert seldom.clock.now == often.clock.now


def test_a059_an_idle_partition_rejoins_safely():
    feed = Feed(by_partition("p", idle_after="5m"), PARTS)
    feed.push([(10, "a", None), (3, "b", None)], 0)
    feed.push([(20, "a", None)], 4)
    assert feed.at == 3, "b holds it"
    feed.push([(30, "a", None)], 5)
    assert feed.at == 30, "b is idle"
    assert feed.described() == [
        "the watermark of source 's' is at 2026-01-31 12:30:00 UTC, 25m ahead of processing time",
        "it is the least of the partitions that are not idle (1): p = 'a' at 2026-01-31 12:30:00 UTC, last seen 2026-01-31 12:05:00 UTC",
        "  there it is 0s behind the highest event time so far, 2026-01-31 12:30:00 UTC",
        "idle partitions, without rows for 5m (1): p = 'b' at 2026-01-31 12:03:00 UTC, last seen 2026-01-31 12:00:00 UTC",
    ]
    assert feed.push([(4, "b", None), (40, "a", None)], 6).height == 2
    assert feed.at == 30, "b is back and behind: it does not move back, nor on"
    feed.push([(35, "b", None)], 7)
    assert feed.at == 35


def test_a059_partitions_are_limited_and_idle_ones_forgotten_first():
    feed = Feed(by_partition("p", idle_after="5m", limit=2), PARTS)
    feed.push([(1, "a", None), (2, "b", None)], 0)
    with pytest.raises(
        InputError, match=r"source 's': column 'p' has 3 partitions, of which 3 are not idle; the limit is 2"
    ):
        feed.push([(3, "c", None)], 1)
    assert feed.at == 1
    feed.push([(5, "b", None)], 3)
    feed.push([(3, "c", None)], 6)
    assert feed.at == 3
    assert feed.clock.entries == 2, "a was idle and is forgotten"
    assert feed.clock.nbytes > 0


def test_a059_waits_for_so_many_partitions():
    feed = Feed(by_partition("p", at_least=3), PARTS)
    feed.push([(1, "a", None), (2, None, None)])
    assert feed.clock.now == START_OF_TIME
    assert feed.described()[-1] == "it waits for 3 partitions of 'p', and 2 have been seen"
    feed.push([(9, "b", None)])
    assert feed.at == 1


@pytest.mark.parametrize(
    "dtype", [pl.Int64(), pl.UInt64(), pl.Date(), pl.Struct({"a": pl.Int8()}), pl.Categorical(), pl.Boolean()]
)
def test_a059_partitions_of_any_type(dtype):
    values = [{"a": 1}, {"a": 2}] if isinstance(dtype, pl.Struct) else [True, False]
    values = (
        ["x", "y"] if dtype == pl.Categorical else [date(2026, 1, 1), None] if dtype == pl.Date else values
    )
    feed = Feed(by_partition("p"), {"at": pl.Datetime("us"), "p": dtype})
    for time in range(3):
        feed.push([(time, values[0]), (time + 5, values[1])])
        assert feed.at == time
    assert feed.clock.entries == 2


def test_many_partitions_are_found_again():
    feed = Feed(by_partition("p", limit=5000), {"at": pl.Datetime("us"), "p": pl.Int64()})
    feed.push([(number % 7 + 1, number) for number in range(3000)])
    feed.push([(9, number) for number in range(4000)])
    assert feed.clock.entries == 4000
    assert feed.at == 9


def test_punctuated_the_highest_promise():
    feed = Feed(punctuated("flag"), PARTS)
    feed.push([(9, "a", None), (8, "a", False)])
    assert feed.described() == [
        "the watermark of source 's' is at the start of time",
        "it waits for a row in which 'flag' is true",
    ]
    feed.push([(5, "a", True), (3, "a", True), (20, "a", False)])
    assert feed.at == 5
    feed.push([(4, "a", True)])
    assert feed.at == 5


@pytest.mark.parametrize(
    "watermark", [pl.Series([5]), np.array([1, 2]), True], ids=["column", "array", "bool"]
)
def test_what_the_function_of_a_user_returns_is_refused_if_it_is_no_time(watermark: Any) -> None:
    """A column with the highest event time instead of the time itself ended in a TypeError of polars."""
    feed = Feed(custom_watermark(lambda state, rows, processing_time: (state, watermark)))
    with pytest.raises(InputError, match="it must be a datetime, END_OF_TIME or None"):
        feed.push([[5, 1]], 1)


def test_the_function_of_a_user_may_not_move_back_nor_leave_a_trace():
    calls: list[Any] = []

    def function(state: list[int], frame: pl.DataFrame, processing_time: datetime) -> tuple[list[int], Any]:
        calls.append((list(state), frame.rows(), processing_time))
        state.append(len(frame))
        if frame.height and frame["v"][0] < 0:
            raise KeyError("negative")
        if frame.height and frame["v"][0] == 99:
            return state, "soon"
        return state, END_OF_TIME if frame.height > 2 else (frame["at"].max() if frame.height else None)

    feed = Feed(custom_watermark(function, state=[]))
    feed.push([[5, 1]], 1)
    feed.push([], 2)
    assert feed.at == 5
    for row, message in [
        ([6, -1], "source 's': the watermark function raised KeyError: 'negative'; nothing has changed"),
        (
            [6, 99],
            "source 's': the watermark function gave the watermark 'soon'; it must be a datetime, END_OF_TIME or None",
        ),
        (
            [4, 1],
            "source 's': the watermark function moved back from 2026-01-31 12:05:00 UTC to 2026-01-31 12:04:00 UTC; a watermark "
            "never does: keep the highest in the state, and return None if there is nothing new",
        ),
    ]:
        with pytest.raises(InputError) as raised:
            feed.push([row], 3)
        assert str(raised.value) == message
    feed.push([[8, 1], [7, 3]], 3, diffs=[1, -1])
    assert calls[-1] == ([1, 0], [(minute(8), 1)], NOON + timedelta(minutes=3))
    assert feed.at == 8
    assert feed.described()[1:] == ["it is what function returned last, 2026-01-31 12:08:00 UTC"]
    feed.push([[8, 1]] * 3, 3)
    assert feed.clock.now == END_OF_TIME
    with pytest.raises(
        InputError, match=r"the watermark function gave 7; it must return \(new state, watermark or None\)"
    ):
        Feed(custom_watermark(lambda *_: 7)).push([])  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    "watermark",
    [
        ascending(future_limit="1h"),
        perfect(future_limit="1h"),
        percentile_watermark(1.0, future_limit="1h"),
        punctuated("flag", future_limit="1h"),
        by_partition("p", future_limit="1h"),
        custom_watermark(lambda _, frame, now: (None, frame["at"].max()), future_limit="1h"),
    ],
)
def test_rows_from_the_future_do_not_move_it(watermark):
    feed = Feed(watermark, PARTS)
    feed.push([(5, "a", True), (60, "a", True)], 0)
    assert feed.at == 60, "an hour ahead is within the limit"
    passed = feed.push([(61, "a", True), (5000, "b", True)], 0)
    assert passed.height == 2, "they are kept"
    assert feed.at == 60
    assert feed.clock.rows_ahead == 2
    assert feed.described()[-1] == (
        "rows dated more than 1h after the processing time of their batch are kept and do not move it; so far 2"
    )
    feed.push([(61, "a", True)], 2)
    assert feed.at == 61


def test_equal_specifications_are_equal():
    pairs = [
        (ascending(), bounded_delay("0s")),
        (bounded_delay("60m"), bounded_delay(timedelta(hours=1))),
        (perfect(), perfect()),
        (behind_processing_time("1s"), behind_processing_time("1000ms")),
        (ingress_time(), ingress_time()),
        (by_partition("p"), by_partition("p", ascending(), idle_after="300s")),
        (percentile_watermark(0.9), percentile_watermark(0.9, window=1000)),
        (punctuated("flag"), punctuated("flag")),
    ]
    for one, other in pairs:
        assert one == other
        assert hash(one) == hash(other)
    assert len({one for one, _ in pairs}) == len(pairs)
    assert bounded_delay("1s") != bounded_delay("2s")
    assert bounded_delay("1s") != behind_processing_time("1s")
    assert ascending() != perfect()
    assert ascending(future_limit="1s") != ascending()
    assert custom_watermark(highest_so_far) != custom_watermark(highest_so_far)
    own = custom_watermark(highest_so_far, state=[])
    assert {own: 1}[own] == 1


REFUSED = [
    (lambda: bounded_delay(10), 'bounded_delay(): 10 is not a length of time; write it as "10s"'),  # type: ignore[arg-type]
    (lambda: bounded_delay("-1s"), "bounded_delay(): '-1s' is negative; give a time of 0 or more"),
    (
        lambda: behind_processing_time("1mo"),
        "behind_processing_time(): '1mo' has no fixed length, as months and years differ",
    ),
    (lambda: ascending(future_limit="x"), "ascending(): future_limit: 'x' is not a length of time"),
    (lambda: by_partition("p", perfect()), "by_partition(): inner= is Perfect("),
    (
        lambda: by_partition("p", ascending(future_limit="1s")),
        "by_partition(): give future_limit= to by_partition()",
    ),
    (lambda: by_partition("p", idle_after="0s"), "by_partition(): idle_after: '0s' is zero"),
    (lambda: by_partition("p", limit=0), "by_partition(): limit=0; give a whole number above 0"),
    (
        lambda: percentile_watermark(0.5, window=2**63),
        "percentile_watermark(): window=9223372036854775808; give a whole number below 2 ** 63",
    ),
    (lambda: by_partition(3), "by_partition(): column= is 3; give the name of a column"),  # type: ignore[arg-type]
    (
        lambda: percentile_watermark(90),
        "percentile_watermark(): 90 is not a share of rows; give more than 0 and at most 1",
    ),
    (
        lambda: percentile_watermark(0.5, window=5, at_least=6),
        "percentile_watermark(): at_least=6 is more than the 5 rows of the window",
    ),
    (lambda: punctuated(None), "punctuated(): column= is None"),  # type: ignore[arg-type]
    (lambda: custom_watermark(7), "custom_watermark(): 7 is not a function"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_is_no_watermark_is_refused(make, message):
    with pytest.raises(PlanError) as raised:
        make()
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("watermark", "message"),
    [
        (
            "10m",
            "source 's': watermark='10m' is not a watermark; there are ascending(), bounded_delay('10m'), perfect()",
        ),
        (
            punctuated("at"),
            "source 's': watermark=punctuated('at'): the column is Datetime(time_unit='us', time_zone=None)",
        ),
        (
            punctuated("x"),
            "source 's': watermark=punctuated(): unknown column 'x'; there are 'at', 'p', 'flag'",
        ),
        (
            by_partition("x"),
            "source 's': watermark=by_partition(): unknown column 'x'; there are 'at', 'p', 'flag'",
        ),
        (by_partition("p", punctuated("p")), "source 's': watermark=punctuated('p'): the column is String"),
        (
            ingress_time(),
            "source 's': watermark=ingress_time() stamps each row with the processing time of its batch",
        ),
    ],
)
def test_what_does_not_suit_the_source_is_refused(watermark, message):
    with pytest.raises(PlanError) as raised:
        declared_watermark("source 's'", watermark, pl.Schema(PARTS), "at", appends=False)
    assert str(raised.value).startswith(message)


def test_a_watermark_needs_event_time():
    with pytest.raises(
        PlanError,
        match="source 's': a watermark states how far event time is complete, and the source has no event time",
    ):
        declared_watermark("source 's'", ascending(), pl.Schema(COLUMNS), None, appends=True)
    assert declared_watermark("source 's'", None, pl.Schema(COLUMNS), None, appends=True) is None
