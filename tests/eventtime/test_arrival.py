"""From the rows of a source to its clock: when it moves, what is refused, what is forgotten, what it reports of itself."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given

from eventtime.feeding import COLUMNS, NOON, Feed, minute, us
from evercurrent.core.circuit.circuit import Circuit
from evercurrent.core.data.clock import END_OF_TIME, START_OF_TIME, Clock, Earliest, Epoch, Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import InputError
from evercurrent.core.eventtime.watermarks.source_clock import Arrive, SourceClock
from evercurrent.core.state.ledger import Ledger
from evercurrent.core.state.operator_contract import Operator
from evercurrent.views.dataframe.watermarks import (
    BY_HAND,
    ascending,
    behind_processing_time,
    bounded_delay,
    by_partition,
    ingress_time,
    percentile_watermark,
    perfect,
    punctuated,
)

times = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=5)
histories = st.lists(st.tuples(st.integers(0, 9), times), max_size=10)


def test_a031_skew_is_a_number_over_time() -> None:
    feed, skews = Feed(bounded_delay("5m")), []
    assert feed.skew is None, "nothing is known yet"
    for now, batch in [(1, []), (2, [[3, 0]]), (7, []), (8, [[30, 0]])]:
        feed.push(batch, now)
        skews.append(feed.skew)
    minutes = 60_000_000
    assert skews == [None, 4 * minutes, 9 * minutes, -17 * minutes]
    feed.push(promised=END_OF_TIME)
    assert feed.skew is None, "there is no time any more to differ from"


@pytest.mark.parametrize(
    ("watermark", "expected"),
    [(behind_processing_time("0s"), 3), (ingress_time(), 3), (bounded_delay("0s"), 1)],
    ids=["operator", "ingress", "event"],
)
def test_a032_three_clocks(watermark: Any, expected: float) -> None:
    feed = Feed(watermark)
    out = feed.push([[1, 7]], 3)
    assert feed.at == expected
    assert out["at"].to_list() == [minute(3 if watermark == ingress_time() else 1)]


def test_a033_ingress_or_event_time_is_one_setting_at_the_source() -> None:
    """What follows the source sees columns of the same types, and a clock, either way."""
    made = [Feed(watermark) for watermark in (ingress_time(), bounded_delay("1m"))]
    frames = [feed.push([[1, 7], [2, 8]], 3) for feed in made]
    assert frames[0].schema == frames[1].schema
    assert frames[0].drop("at").equals(frames[1].drop("at"))
    assert [feed.at for feed in made] == [3, 1]


@pytest.mark.parametrize(
    "dtype",
    [
        pl.Datetime("us"),
        pl.Datetime("ns"),
        pl.Datetime("ms", "Europe/Vienna"),
        pl.Datetime("us", "UTC"),
        pl.Date(),
    ],
)
@pytest.mark.parametrize("by_hand", [None, 1.00001, 8])
def test_a035_no_row_of_ingress_time_is_ever_late(dtype: pl.DataType, by_hand: float | None) -> None:
    """Not if processing time goes back, nor if the watermark is moved ahead of it by hand."""
    feed = Feed(ingress_time(), {"at": dtype, "v": pl.Int64()})
    for number, now in enumerate([1.2345678, 5, 2, 2000, 4]):
        before = feed.clock.before
        out = feed.push([[0, 1], [99, 2]], now, watermark=by_hand if number == 0 else None)
        instants = (
            out["at"].dt.cast_time_unit("us").to_physical()
            if dtype != pl.Date
            else out["at"].cast(int) * 86_400_000_000
        )
        assert (instants >= before).all()
        assert instants.n_unique() == 1
    assert feed.ledger.entries == 0


def test_ingress_time_ignores_what_stood_in_the_column() -> None:
    feed = Feed(ingress_time())
    assert feed.push([[None, 1], [5, 2]], 3)["at"].to_list() == [minute(3)] * 2
    assert feed.push([[None, 1]], 4, promised=END_OF_TIME)["at"].to_list() == [minute(4)]
    assert feed.push([[None, 1]], 5)["at"].to_list() == [minute(5)], "late, as no more rows were to come"


def test_ingress_time_beyond_the_column_is_refused() -> None:
    feed = Feed(ingress_time(), {"at": pl.Datetime("ns")})
    with pytest.raises(
        InputError, match=r"does not fit column 'at', which is Datetime\(time_unit='ns'.*use|declare it as"
    ):
        feed.push([[None]], 300 * 366 * 24 * 60)
    assert feed.clock.now == START_OF_TIME


def test_a055_of_several_inputs_the_earliest_watermark_counts() -> None:
    one, two = Feed(ascending()), Feed(ascending())
    both: Clock = Earliest([one.clock, two.clock])
    seen = []
    for rows, more in [([[5, 0]], []), ([], [[3, 0]]), ([[9, 0]], []), ([], [[7, 0]])]:
        one.push(rows)
        two.push(more)
        seen.append(both.now)
    assert seen == [START_OF_TIME, us(3), us(3), us(7)]
    assert both.before == both.now


def test_a060_a061_the_clock_moves_at_the_commit_and_all_of_an_epoch_sees_the_same_two_instants() -> None:
    """``before`` and ``now`` differ in exactly one epoch, the one that moves the watermark."""
    feed = Feed(ascending())
    feed.push([[3, 0]])
    evaluated = feed.evaluate(feed.frame([[9, 0]]), 0)
    assert (feed.clock.before, feed.clock.now) == (us(3), us(9))
    feed.circuit.commit(evaluated)
    assert (feed.clock.before, feed.clock.now) == (us(9), us(9))
    feed.circuit.commit(feed.evaluate(feed.frame([]), 0))
    assert (feed.clock.before, feed.clock.now) == (us(9), us(9))


def test_a062_the_clock_shows_what_holds_it() -> None:
    feed = Feed(bounded_delay("10m", future_limit="1d"))
    assert feed.described() == [
        "the watermark of source 's' is at the start of time",
        "it follows the highest event time by 10m, and no row has come yet",
    ]
    feed.push([[2, 0], [5000, 0]], 4)
    assert feed.described() == [
        "the watermark of source 's' is at 2026-01-31 11:52:00 UTC, 12m behind processing time",
        "it is 10m behind the highest event time so far, 2026-01-31 12:02:00 UTC",
        "rows dated more than 1d after the processing time of their batch are kept and do not move it; so far 1",
    ]
    feed.push([], 5, watermark=3)
    assert feed.described()[:2] == [
        "the watermark of source 's' is at 2026-01-31 12:03:00 UTC, 2m behind processing time",
        "it was moved there by hand",
    ]
    feed.push([[20, 0]], 5)
    assert "by hand" not in " ".join(feed.described())


@pytest.mark.parametrize(
    ("watermark", "line"),
    [
        (None, "it is only moved by hand: push(..., watermark=...) or advance(...)"),
        (
            perfect(),
            "it is the highest event time so far, 2026-01-31 12:08:00 UTC; a row behind it is an error",
        ),
        (behind_processing_time("10s"), "it is 10s behind processing time, 2026-01-31 12:09:00 UTC"),
        (ingress_time(), "it is processing time, 2026-01-31 12:09:00 UTC, and rows are stamped with it"),
        (
            percentile_watermark(0.5),
            "it is 1m behind the highest event time so far, 2026-01-31 12:08:00 UTC: "
            "no more than that lagged 50 % of the last 3 rows",
        ),
    ],
)
def test_a062_in_words_for_every_kind(watermark: Any, line: str) -> None:
    feed = Feed(watermark)
    feed.push([[8, 0], [7, 1], [6, 2]], 9)
    assert feed.described()[1:] == [line]


KINDS = [
    ascending(),
    bounded_delay("1h"),
    behind_processing_time("0s"),
    percentile_watermark(0.1),
    by_partition("v"),
]


@given(histories, st.sampled_from(KINDS))
def test_a063_watermarks_good_or_bad_change_no_row(history: list[Any], watermark: Any) -> None:
    """What is handed on is the same under every watermark: only the clock differs."""
    feed, other, now = Feed(watermark), Feed(), 0
    for passed, batch in history:
        now += passed
        assert feed.push(batch, now).equals(other.push(batch, now))


def test_retractions_do_not_move_it() -> None:
    feed = Feed(ascending())
    feed.push([[5, 0], [9, 1]], diffs=[1, -1])
    assert feed.at == 5
    feed.push([[50, 0]], diffs=[-2])
    assert feed.at == 5


def test_rows_without_event_time_go_to_the_ledger_and_the_others_on() -> None:
    feed = Feed(ascending())
    out = feed.push([[None, 1], [5, 2], [None, 3]], diffs=[1, 1, -1])
    assert out.rows() == [(minute(5), 2, 1)]
    (refused,) = feed.ledger.refused
    assert refused.frame.rows() == [(None, 1, 1), (None, 3, -1)]
    assert (refused.epoch, refused.source) == (1, "s")
    assert refused.reason == (
        "event time 'at' is null; give the row a time, for example with .fill_null(...), and push it again"
    )
    assert feed.at == 5


@pytest.mark.parametrize(
    ("dtype", "far"), [(pl.Datetime("us"), 2**62), (pl.Datetime("ms"), 2**61), (pl.Date(), 2**31 - 1)]
)
def test_event_times_too_far_away_to_count_with_go_to_the_ledger(dtype: pl.DataType, far: int) -> None:
    feed = Feed(ascending(), {"at": dtype})
    column = pl.Series("at", [far, 7, -far, None], dtype=pl.Int32 if dtype == pl.Date else pl.Int64).cast(
        dtype
    )
    frame = pl.DataFrame([column, pl.Series("_diff", [1, 1, 1, 1])])
    feed.circuit.commit(feed.evaluate(frame, 0))
    nulls, distant = feed.ledger.refused
    assert (nulls.frame.height, distant.frame.height) == (1, 2)
    assert (
        distant.reason
        == "event time 'at' is too far from 1970 to count with; mend the time and push the row again"
    )
    assert feed.clock.now == 7 * {"us": 1, "ms": 1000}.get(getattr(dtype, "time_unit", ""), 86_400_000_000)


@pytest.mark.parametrize(
    "dtype",
    [
        pl.Datetime("us"),
        pl.Datetime("ns"),
        pl.Datetime("ms"),
        pl.Datetime("us", "UTC"),
        pl.Datetime("ns", "America/New_York"),
        pl.Datetime("ms", "Asia/Kolkata"),
    ],
)
def test_event_time_of_every_type(dtype: pl.Datetime) -> None:
    """A time with a zone is an instant, one without is read as UTC; finer ones are rounded down, before 1970 too."""
    feed = Feed(ascending(), {"at": dtype})
    feed.push([[7]])
    assert feed.at == 7
    feed = Feed(ascending(), {"at": dtype})
    feed.push([[datetime(1960, 5, 1, 0, 0, 0, 1000)]])
    assert (
        feed.clock.now
        == (datetime(1960, 5, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        + 1000
    )


def test_nanoseconds_are_rounded_down() -> None:
    feed = Feed(ascending(), {"at": pl.Datetime("ns")})
    column = pl.Series("at", [-1, -1001]).cast(pl.Datetime("ns"))
    feed.circuit.commit(feed.evaluate(pl.DataFrame([column, pl.Series("_diff", [1, 1])]), 0))
    assert feed.clock.now == -1


def test_dates_are_their_midnight() -> None:
    feed = Feed(bounded_delay("1h"), {"at": pl.Date()})
    feed.push([[date(2026, 2, 1)], [date(2026, 1, 1)]])
    assert feed.at == 11 * 60


def test_by_hand_after_the_rows_and_never_back() -> None:
    feed = Feed()
    feed.push([[50, 0]])
    assert feed.clock.now == START_OF_TIME, "rows do not move it"
    feed.push([[3, 0]], watermark=5)
    feed.push(watermark=5)
    assert feed.at == 5
    with pytest.raises(InputError) as raised:
        feed.push([[9, 1]], watermark=4.5)
    assert str(raised.value) == (
        "source 's': the watermark cannot move back from 2026-01-31 12:05:00 UTC to 2026-01-31 12:04:30 UTC; nothing has "
        "changed. Rows behind it can be pushed all the same, without watermark="
    )
    assert feed.at == 5
    feed.push(promised=END_OF_TIME)
    assert feed.clock.now == END_OF_TIME
    with pytest.raises(InputError, match="cannot move back from the end of time to 2026-01-31 13:00:00 UTC"):
        feed.push(watermark=60)


def test_by_hand_and_by_rows_the_later_one_counts() -> None:
    feed = Feed(ascending())
    feed.push([[9, 0]], watermark=5)
    assert feed.at == 9
    feed.push([[10, 0]], watermark=20)
    assert feed.at == 20
    feed.push([[15, 0]])
    assert feed.at == 20


def test_two_promises_in_one_epoch_do_not_move_back_either() -> None:
    clock = SourceClock("s", BY_HAND)
    clock.promise(us(5))
    with pytest.raises(
        InputError, match="cannot move back from 2026-01-31 12:05:00 UTC to 2026-01-31 12:03:00 UTC"
    ):
        clock.promise(us(3))
    clock.discard()
    clock.promise(us(3))


def test_without_rows_processing_time_moves_the_clock_and_nothing_comes_out() -> None:
    feed = Feed(behind_processing_time("1m"))
    for now in range(5):
        assert feed.push([], now).height == 0
        assert feed.at == now - 1


def test_before_any_input_no_time_has_passed() -> None:
    clock = SourceClock("s", behind_processing_time("1m"))
    arrive = Arrive("s", pl.Schema(COLUMNS), "at", Ledger(9), clock)
    arrive.step(Now(Epoch(0), datetime.fromtimestamp(0, UTC)), Delta.empty(pl.Schema(COLUMNS)))
    clock.commit()
    assert clock.now == START_OF_TIME


def progress_of(feed: Feed) -> tuple[Any, ...]:
    clock = feed.clock
    return (
        clock.before,
        clock.now,
        clock.highest,
        clock.rows_ahead,
        feed.skew,
        clock.entries,
        clock.nbytes,
        feed.described(),
    )


@pytest.mark.parametrize(
    "watermark",
    [
        None,
        ascending(future_limit="1h"),
        perfect(),
        behind_processing_time("1m"),
        ingress_time(),
        by_partition("v"),
        percentile_watermark(0.9),
    ],
)
def test_a_discarded_epoch_leaves_no_trace(watermark: Any) -> None:
    feed, twin = Feed(watermark), Feed(watermark)
    for each in (feed, twin):
        each.push([[5, 0], [7, 1], [None, 0]], 1, watermark=2)
    known = progress_of(feed)
    feed.clock.promise(us(4000))
    feed.evaluate(feed.frame([[3000, 5], [8, 7], [None, 9]]), 70)
    assert feed.clock.now > us(7)
    feed.circuit.discard()
    assert progress_of(feed) == known
    assert feed.ledger.entries == twin.ledger.entries
    for each in (feed, twin):
        each.push([[9, 2], [10, 0]], 2)
    assert progress_of(feed) == progress_of(twin)


def test_a_failing_node_further_down_leaves_the_clock_where_it_was() -> None:
    class Fails(Operator):
        schema = pl.Schema(COLUMNS)

        def step(self, now: Now, *deltas: Delta) -> Delta:
            raise InputError("no")

    feed = Feed(ascending())
    feed.push([[5, 0]])
    feed.circuit.add("fails", Fails(), feed.last)
    with pytest.raises(InputError, match="no"):
        feed.push([[9, 0]], watermark=50)
    assert (feed.clock.before, feed.clock.now) == (us(5), us(5))


def test_punctuation_in_the_same_batch_as_its_rows() -> None:
    feed = Feed(punctuated("f"), {"at": pl.Datetime("us"), "f": pl.Boolean()})
    assert feed.push([[5, False], [4, True], [2, False]]).height == 3
    assert feed.at == 4


def test_the_rows_are_handed_on_as_they_are() -> None:
    """No copy where nothing is refused, and the promise to be consolidated is kept."""
    schema = pl.Schema(COLUMNS)
    circuit, clock = Circuit(), SourceClock("s", BY_HAND)
    arrive = Arrive("s", schema, "at", Ledger(9), clock)
    assert circuit.states == []
    delta = Delta(Feed().frame([[1, 2]]), is_consolidated=True)
    assert arrive.step(Now(Epoch(1), NOON), delta) is delta
