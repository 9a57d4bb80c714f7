"""Rows in the order of event time: against a sort in plain Python, and what it costs."""

from collections import Counter
from datetime import date
from itertools import permutations
from typing import Any

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given

from eventtime.feeding import NOON, Feed, minute, us
from evercurrent.core.circuit.placement import Placement
from evercurrent.core.data.clock import END_OF_TIME, Epoch, Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.eventtime.watermarks.reorder import Buffer, ReleaseInOrder
from evercurrent.core.eventtime.watermarks.source_clock import SourceClock
from evercurrent.core.state.ledger import Ledger
from evercurrent.views.dataframe.watermarks import BY_HAND, ascending, behind_processing_time, bounded_delay
from strategies import of_profile

Entry = tuple[int, int, int]
"""Event time, value, diff."""


class Ordered(Feed):
    """A source whose rows are put in order."""

    def __init__(self, watermark: Any = None, columns: Any = None, **options: Any) -> None:
        super().__init__(watermark, columns)
        self.operator = ReleaseInOrder("s", self.schema, "at", self.clock, self.ledger, **options)
        states = [self.operator.buffer, self.operator.refused, self.ledger]
        self.last = self.circuit.add(
            "in order", self.operator, self.last, states=states, placement=Placement(by=())
        )

    def out(self, rows: Any = (), at: float = 0, **options: Any) -> list[Entry]:
        """What is handed on in one epoch, with times in minutes past noon."""
        frame = self.push(rows, at, **options)
        return [((time - minute(0)).total_seconds() / 60, *rest) for time, *rest in frame.rows()]


@pytest.fixture(autouse=True)
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small histories have runs of several levels."""
    monkeypatch.setattr("evercurrent.core.state.merge_policy.FLOOR", 2)


additions = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=6)
batches = st.lists(st.tuples(additions, st.integers(0, 6)), max_size=12)


@of_profile(quick=40)
@given(batches)
def test_a040_random_order_in_sorted_out_and_nothing_released_early(history: list[Any]) -> None:
    feed, watermark, in_time, got = Ordered(), 0, [], []
    for batch, step in history:
        in_time += [row for row in batch if row[0] >= watermark]
        watermark += step
        out = feed.out(batch, watermark=watermark)
        assert all(diff == 1 and time < watermark for time, _, diff in out)
        got += [(time, value) for time, value, _ in out]
        assert got == sorted(row for row in in_time if row[0] < watermark), "sorted over all epochs"
        assert feed.operator.buffer.entries == len(in_time) - len(got)
    refused = sum(int(entry.frame["_diff"].sum()) for entry in feed.ledger.refused)
    assert refused == sum(len(batch) for batch, _ in history) - len(in_time)


@pytest.mark.parametrize("split", [1, 2, 6])
def test_a041_what_comes_out_does_not_depend_on_the_order_of_arrival(split: int) -> None:
    """So first and last, and rules that look at one row after the other, do not either."""
    rows = [[3, 1], [1, 9], [2, 5], [2, 4], [2, 5], [7, 0]]
    seen = set()
    for arrived in list(permutations(rows))[::11]:
        feed = Ordered()
        for start in range(0, 6, split):
            assert feed.out(arrived[start : start + split]) == []
        seen.add(tuple(feed.out(watermark=5)) + tuple(feed.out(promised=END_OF_TIME)))
    assert seen == {((1, 9, 1), (2, 4, 1), (2, 5, 1), (2, 5, 1), (3, 1, 1), (7, 0, 1))}


entries = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 1), st.sampled_from([1, 1, 2, -1, -2])), max_size=6
)


@of_profile(quick=60)
@given(st.lists(st.tuples(entries, st.integers(0, 5)), max_size=14), st.sampled_from(["refuse", "release"]))
def test_a040_the_sum_of_the_output_is_the_input_behind_the_watermark(history: list[Any], late: Any) -> None:
    """With retractions of rows that are kept, released, refused, and of some that never came."""
    feed, watermark, before = Ordered(late=late), 0, -1
    kept: Counter[tuple[int, int]] = Counter()
    refused: Counter[tuple[int, int]] = Counter()
    released: Counter[tuple[int, int]] = Counter()
    got: Counter[tuple[int, int]] = Counter()
    for batch, step in history:
        changes: Counter[tuple[int, int]] = Counter()
        for time, value, diff in batch:
            changes[time, value] += diff
        for row, diff in changes.items():
            if row[0] >= before:
                kept[row] += diff
            elif late == "release":
                released[row] += diff
            else:
                back = diff if diff > 0 else -min(refused[row], -diff)
                refused[row] += back
                released[row] += diff - back
        watermark += step
        before = watermark
        for row in [row for row in kept if row[0] < watermark]:
            released[row] += kept.pop(row)
        out = feed.out([row[:2] for row in batch], diffs=[row[2] for row in batch], watermark=watermark)
        for time, value, diff in out:
            got[time, value] += diff
        assert {row: n for row, n in got.items() if n} == {row: n for row, n in released.items() if n}
    out = feed.out(promised=END_OF_TIME)
    assert out == sorted(out, key=lambda row: row[:2])
    rest: Counter[tuple[int, int]] = Counter()
    for time, value, diff in out:
        rest[time, value] += diff
    assert {row: n for row, n in rest.items() if n} == {row: n for row, n in kept.items() if n}
    listed: Counter[tuple[Any, ...]] = Counter()
    for entry in feed.ledger.refused:
        for time, value, diff in entry.frame.rows():
            listed[(time - minute(0)).total_seconds() / 60, value] += diff
    assert {row: n for row, n in listed.items() if n} == {row: n for row, n in refused.items() if n}


def test_a_row_at_the_watermark_waits_for_more_of_its_kind() -> None:
    feed = Ordered()
    assert feed.out([[5, 2]], watermark=5) == []
    assert feed.out([[5, 1]], watermark=6) == [(5, 1, 1), (5, 2, 1)]


def test_rows_go_by_the_watermark_of_the_epoch_in_which_they_come() -> None:
    """They are not behind the watermark as it was, so what follows finds none of them late."""
    feed = Ordered(ascending())
    assert feed.out([[3, 0], [9, 0], [1, 0]]) == [(1, 0, 1), (3, 0, 1)]
    evaluated = feed.evaluate(feed.frame([[20, 0], [10, 1]]), 0)
    times = evaluated.deltas[feed.last].frame["at"].to_list()
    assert times == [minute(9), minute(10)]
    assert all(time >= minute(9) for time in times)
    assert (feed.clock.before, feed.clock.now) == (us(9), us(20))


def test_processing_time_alone_releases_rows() -> None:
    feed = Ordered(behind_processing_time("1m"))
    assert feed.out([[3, 0], [2, 1]], 0) == []
    assert feed.out([], 3.5) == [(2, 1, 1)]
    assert feed.out([], 4.1) == [(3, 0, 1)]


def test_a_late_row_goes_to_the_ledger_and_so_does_its_retraction() -> None:
    feed = Ordered()
    feed.push([[5, 0]], watermark=10)
    assert feed.out([[3, 7], [4, 8]]) == []
    assert feed.out([[3, 7], [5, 0]], diffs=[-1, -1]) == [(5, 0, -1)], "the released row is taken back"
    came, went = feed.ledger.refused
    assert came.frame.rows() == [(minute(3), 7, 1), (minute(4), 8, 1)]
    assert went.frame.rows() == [(minute(3), 7, -1)]
    assert came.reason == (
        "event time 'at' is behind the watermark, 2026-01-31 12:10:00 UTC: what follows it is released already"
    )
    assert (came.source, came.watermark) == ("s", us(10))
    assert feed.out([[3, 7]], diffs=[-1]) == [(3, 7, -1)], (
        "there is nothing refused to set it off against any more"
    )


def test_a_late_row_that_comes_and_goes_in_one_batch_was_never_there() -> None:
    feed = Ordered()
    feed.push(watermark=10)
    assert feed.out([[3, 7], [3, 7]], diffs=[1, -1]) == []
    assert feed.ledger.entries == 0


def test_nothing_is_remembered_of_refused_rows_where_rows_are_only_added() -> None:
    feed = Ordered(appends=True)
    feed.push(watermark=10)
    feed.push([[3, 7]] * 5)
    assert feed.ledger.entries == 1, "five times the same row is one entry"
    assert feed.ledger.refused[0].frame["_diff"].to_list() == [5]
    assert feed.operator.refused.entries == 0


def test_late_rows_may_be_released_at_once() -> None:
    feed = Ordered(late="release")
    feed.push([[50, 0]], watermark=10)
    assert feed.out([[12, 1], [7, 2], [3, 3]], watermark=20) == [(7, 2, 1), (3, 3, 1), (12, 1, 1)]
    assert feed.ledger.entries == 0


def test_a_retraction_of_a_kept_row_leaves_nothing() -> None:
    feed = Ordered()
    for number in range(40):
        feed.push([[number, 0], [number, 1]])
    for number in range(40):
        feed.push([[number, 0]], diffs=[-1])
    assert feed.operator.buffer.entries < 80, "what cancels is merged before it is more than half"
    assert feed.out(watermark=39) == [(number, 1, 1) for number in range(39)]
    feed.push([[39, 1]], diffs=[-1])
    assert feed.operator.buffer.entries == 0
    assert feed.operator.buffer.nbytes == 0


def test_rows_without_event_time_go_to_the_ledger() -> None:
    """Behind a source there are none; an event time that was computed may be null."""
    clock, ledger, schema = (
        SourceClock("s", BY_HAND),
        Ledger(9),
        pl.Schema({"at": pl.Date(), "v": pl.Int64()}),
    )
    release = ReleaseInOrder("s", schema, "at", clock, ledger)
    frame = pl.DataFrame(
        {"at": [None, date(2026, 1, 1)], "v": [1, 2], "_diff": [1, 1]}, schema_overrides=schema
    )
    assert len(release.step(Now(Epoch(1), NOON), Delta(frame))) == 0
    for state in (release.buffer, release.refused, ledger):
        state.commit()
    assert ledger.refused[0].frame.rows() == [(None, 1, 1)]
    assert ledger.refused[0].reason == "event time 'at' is null or too far from 1970 to count with"
    assert release.buffer.entries == 1


def test_an_event_time_may_stand_beside_its_column() -> None:
    """The event time of a pane is a microsecond before its end: a pane that ends at the watermark is complete."""
    feed = Ordered(shift=-1)
    assert feed.out([[5, 0], [6, 0]], watermark=5) == [(5, 0, 1)]
    assert feed.out([[5, 1]], watermark=6) == [(6, 0, 1)]
    assert feed.ledger.entries == 1


def test_a_discarded_epoch_leaves_no_trace() -> None:
    feed, twin = Ordered(bounded_delay("2m")), Ordered(bounded_delay("2m"))
    for each in (feed, twin):
        each.push([[5, 0], [3, 1], [9, 2]])
    entries, nbytes = feed.operator.buffer.entries, feed.operator.buffer.nbytes
    evaluated = feed.evaluate(feed.frame([[30, 1], [1, 1]]), 0)
    assert len(evaluated.deltas[feed.last])
    feed.circuit.discard()
    assert (feed.operator.buffer.entries, feed.operator.buffer.nbytes) == (entries, nbytes)
    assert feed.operator.refused.entries == 0
    for batch in ([[12, 0], [1, 1]], [[40, 0]]):
        assert feed.out(batch) == twin.out(batch)


ANYTHING: list[tuple[str, pl.DataType, list[Any]]] = [
    ("text", pl.String(), ["b", "a", None]),
    ("lists", pl.List(pl.Int64()), [[2], [1, 5], [1]]),
    (
        "structs",
        pl.Struct({"a": pl.Int64(), "b": pl.String()}),
        [{"a": 2, "b": "x"}, {"a": 1, "b": "y"}, {"a": 1, "b": "x"}],
    ),
    ("floats", pl.Float64(), [float("nan"), 1.0, None]),
    ("bytes", pl.Binary(), [b"b", b"a", b""]),
    ("nothing", pl.Null(), [None, None, None]),
    ("large", pl.UInt64(), [2**64 - 1, 0, 5]),
]


@pytest.mark.parametrize(("dtype", "values"), [row[1:] for row in ANYTHING], ids=[row[0] for row in ANYTHING])
def test_ties_go_by_all_columns_whatever_their_type(dtype: pl.DataType, values: list[Any]) -> None:
    outs = []
    for order in permutations(values):
        feed = Ordered(columns={"v": dtype, "at": pl.Datetime("us")})
        for value in order:
            feed.push([[value, 1]])
        outs.append(feed.push(watermark=5).drop("_diff"))
    assert all(out.equals(outs[0]) for out in outs)
    assert outs[0].equals(outs[0].sort("v"))


def test_nanoseconds_count_in_the_order() -> None:
    feed = Ordered(columns={"at": pl.Datetime("ns"), "v": pl.Int64()})
    column = pl.Series("at", [1_500, 1_200, 1_900]).cast(pl.Datetime("ns"))
    frame = pl.DataFrame([column, pl.Series("v", [0, 1, 2]), pl.Series("_diff", [1, 1, 1])])
    feed.circuit.commit(feed.evaluate(frame, 0))
    assert feed.out(promised=END_OF_TIME)[0][1:] == (1, 1)


def run_of(count: int, from_time: int, diff: int = 1) -> tuple[np.ndarray[Any, Any], pl.DataFrame]:
    times = np.random.default_rng(from_time).permutation(count) + from_time
    return times, pl.DataFrame([pl.Series("t", times), pl.Series("_diff", np.full(count, diff))])


@pytest.mark.parametrize("kept", [2_000, 200_000])
def test_work_follows_what_comes_and_goes_not_what_is_kept(
    kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evercurrent.core.state.merge_policy.FLOOR", 512)
    buffer = Buffer()
    buffer.exchange(*run_of(kept, 10**9), until=0)
    buffer.commit()
    buffer.touched = 0
    for epoch in range(64):
        buffer.exchange(*run_of(100, 1000 * epoch), until=1000 * epoch)
        buffer.commit()
    assert buffer.entries == kept + 100
    assert buffer.touched < 64 * 100 * 4


def test_work_of_taking_out_is_that_of_what_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a large buffer, bit by bit: what is left is moved a logarithmic number of times."""
    monkeypatch.setattr("evercurrent.core.state.merge_policy.FLOOR", 512)
    buffer, count, taken = Buffer(), 50_000, 0
    buffer.exchange(*run_of(count, 0), until=0)
    buffer.commit()
    empty = run_of(0, 0)
    for until in range(0, count + 100, 100):
        out = buffer.exchange(*empty, until=until)
        buffer.commit()
        taken += 0 if out is None else len(out[0])
    assert taken == count
    assert buffer.entries == 0
    assert buffer.touched < 3 * count


def test_retractions_that_find_no_row_are_not_looked_at_again_in_every_epoch() -> None:
    buffer = Buffer()
    for epoch in range(200):
        buffer.exchange(*run_of(10, 100 * epoch, diff=-1), until=-1)
        buffer.commit()
    assert buffer.entries == 2000
    assert buffer.touched < 2000 * 16
