"""Windows that depend on the other rows of the key, against definitions in plain Python, over random histories."""

import json
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any
from unittest.mock import patch

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
from evercurrent.core.circuit.checked import Checked
from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import InputError
from evercurrent.core.eventtime.windows.assign_windows import AssignWindows
from evercurrent.core.eventtime.windows.kinds import (
    Count,
    Custom,
    Fixed,
    LastRows,
    windowed_schema,
)
from evercurrent.core.eventtime.windows.row_windows import WindowByKey, layout_of, merge_overlapping, rewindow
from evercurrent.core.operators.arrange import Arrange
from evercurrent.core.state import ranked_runs
from evercurrent.views.dataframe.windows import custom_windows
from harness import frame_of_entries, hold_to_contract, summed
from peer_cases import NOT_BESIDE
from strategies import of_profile

FIGURES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "dataflow-paper" / "figures.json"
NOW = Now(Epoch(1), datetime(2026, 1, 1, tzinfo=UTC))
ORIGIN = datetime(1970, 1, 1)

Row = tuple[Any, ...]
Entry = tuple[Row, int]
Windowed = list[tuple[Row, int, int]]

SCHEMA = {"key": pl.String(), "at": pl.Datetime("us"), "name": pl.String()}


class Chain:
    """Rows with their first windows, arranged by key, and in the windows that they make together."""

    def __init__(
        self,
        window: Count | LastRows | Custom,
        schema: dict[str, Any] = SCHEMA,
        keys: tuple[str, ...] = ("key",),
    ) -> None:
        columns = windowed_schema(pl.Schema(schema), window, "at")
        self.input_schema = schema
        self.arrange = Arrange(columns, keys, layout_of(window, columns))
        by_key = WindowByKey(columns, self.arrange.spine, rewindow("view 'v'", window, keys))
        self.nodes = [
            Checked("assign", AssignWindows("view 'v'", columns, window, "at"), []),
            Checked("arrange", self.arrange, [self.arrange.spine]),
            Checked("by key", by_key, [self.arrange.spine]),
        ]
        self.total: Counter[Row] = Counter()

    def push(self, entries: list[Entry]) -> dict[Row, int]:
        """The delta of one epoch; instants are whole microseconds."""
        place = list(self.input_schema).index("at")
        moments = [
            ((*row[:place], ORIGIN + timedelta(microseconds=row[place]), *row[place + 1 :]), diff)
            for row, diff in entries
        ]
        return self.push_frame(frame_of_entries(self.input_schema, moments))

    def push_frame(self, frame: pl.DataFrame) -> dict[Row, int]:
        delta = Delta(frame)
        try:
            for node in self.nodes:
                delta = node.step(NOW, delta)
        except InputError:
            self.arrange.spine.discard()
            raise
        self.arrange.spine.commit()
        assert delta.is_consolidated or not len(delta)
        found = {
            row[:-1]: row[-1]
            for row in delta.frame.with_columns(pl.selectors.datetime().to_physical()).rows()
        }
        self.total.update(found)
        return found

    @property
    def contents(self) -> dict[Row, int]:
        return {row: diff for row, diff in self.total.items() if diff}


# The definitions: from all rows of a key, in order, to rows with their windows.


def counted(size: int) -> Callable[[list[Row]], Windowed]:
    def windows(rows: list[Row]) -> Windowed:
        found: Windowed = []
        taken: set[tuple[int, int]] = set()
        for begin in range(0, len(rows), size):
            part = rows[begin : begin + size]
            start, end = part[0][1], part[-1][1] + 1
            while any(start == s and end <= e for s, e in taken):
                end += 1
            taken.add((start, end))
            found += [(row, start, end) for row in part]
        return found

    return windows


def the_last(size: int) -> Callable[[list[Row]], Windowed]:
    def windows(rows: list[Row]) -> Windowed:
        part = rows[-size:]
        return [(row, part[0][1], part[-1][1] + 1) for row in part]

    return windows


def sessions(gap: int) -> Callable[[list[Row]], Windowed]:
    def windows(rows: list[Row]) -> Windowed:
        found: Windowed = []
        session: list[Row] = []
        for row in [*rows, None]:
            if session and (row is None or row[1] >= session[-1][1] + gap):
                found += [(each, session[0][1], session[-1][1] + gap) for each in session]
                session = []
            if row is not None:
                session.append(row)
        return found

    return windows


def in_order(row: Row) -> Any:
    """By event time, then by the columns, null first."""
    return row[1], [(cell is not None, cell) for cell in row]


def expected(counts: Counter[Row], windows: Callable[[list[Row]], Windowed]) -> dict[Row, int]:
    rows = sorted(
        (row for row, count in counts.items() for _ in range(count)),
        key=lambda row: (str(row[0]), in_order(row)),
    )
    found: Counter[Row] = Counter()
    for _, group in groupby(rows, key=lambda row: str(row[0])):
        found.update((*row, start, end) for row, start, end in windows(list(group)))
    return dict(found)


def proto(gap: int) -> Callable[[pl.DataFrame], pl.DataFrame]:
    def assign(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.select(window_start="at", window_end=pl.col("at") + pl.duration(microseconds=gap))

    return assign


ENTRIES = st.lists(
    st.tuples(
        st.tuples(st.sampled_from(["a", "b", None]), st.integers(-8, 8), st.sampled_from(["x", "y", None])),
        st.integers(-2, 3).filter(bool),
    ),
    max_size=8,
)
HISTORIES = st.lists(ENTRIES, min_size=1, max_size=5)


def never_below_zero(history: list[list[Entry]]) -> list[list[Entry]]:
    """The history without retractions of rows that are not there, which never reach these windows."""
    counts, accepted = Counter[Row](), list[list[Entry]]()
    for entries in history:
        after = counts.copy()
        for row, diff in entries:
            after[row] += diff
        accepted.append([(row, diff) for row, diff in entries if diff > 0 or after[row] >= 0])
        for row, diff in accepted[-1]:
            counts[row] += diff
    return accepted


def check(
    window: Count | LastRows | Custom, windows: Callable[[list[Row]], Windowed], history: list[list[Entry]]
) -> None:
    """After every epoch the sum of the deltas is the definition over the rows that are there."""
    chain = Chain(window)
    counts: Counter[Row] = Counter()
    for entries in history:
        chain.push(entries)
        for row, diff in entries:
            counts[row] += diff
        assert chain.contents == expected(counts, windows)


@of_profile(quick=40)
@given(
    history=HISTORIES.map(never_below_zero),
    size=st.integers(1, 4),
    near=st.sampled_from([0, 64]),
)
def test_a083_a092_counted_windows(history: list[list[Entry]], size: int, near: int) -> None:
    with patch.multiple(ranked_runs, NEAR=near, READ_AT_ONCE=32 * near, FEW_RANGES=near):
        check(Count(size), counted(size), history)


@of_profile(quick=20)
@given(seed=st.integers(0, 2**32), size=st.integers(1, 4), late=st.booleans())
def test_a083_counted_windows_of_many_rows(seed: int, size: int, late: bool) -> None:
    """Rows come at the end, or anywhere, many of them at the same instants; some are taken back."""
    draw, there, history = random.Random(seed), list[Row](), list[list[Entry]]()
    for epoch in range(12):
        instants = range(-8 * epoch if late else 8 * epoch, 8 * epoch + draw.choice([1, 8]))
        come = [
            (draw.choice("ab"), draw.choice(instants), draw.choice("xyz")) for _ in range(draw.randrange(12))
        ]
        gone = draw.sample(there, min(len(there), draw.choice([0, 0, 1, 3])))
        history.append([(row, 1) for row in come] + [(row, -1) for row in gone])
        there = list((Counter(there) + Counter(come) - Counter(gone)).elements())
    with patch.multiple(ranked_runs, NEAR=0, READ_AT_ONCE=0):
        check(Count(size), counted(size), history)


@pytest.mark.parametrize("size", [1, 10])
def test_a083_counted_windows_of_a_long_key_whose_first_rows_were_taken_back(size: int) -> None:
    """Rows come to a window of their own, so that none of those before it is looked for."""
    engine = ec.Engine()
    rows = engine.source("rows", {"at": pl.Datetime("us"), "x": pl.Int64}, kind="diffs", event_time="at")
    view = engine.view("v", rows.window(ec.count_window(size)).group_by().agg(pl.col("x").sum()))
    every = pl.DataFrame({"at": np.arange(10_030), "x": np.arange(10_030)}).cast({"at": pl.Datetime("us")})
    rows.push(every.head(10_000))
    rows.push(every.head(200).with_columns(_diff=pl.lit(-1)))
    for row in every.tail(30).iter_slices(1):
        rows.push(row)
    left = every.tail(9_830).with_columns(window=pl.int_range(9_830) // size)
    expected = left.group_by("window", maintain_order=True).agg(pl.col("x").sum())["x"]
    assert view.read().sort("window_start")["x"].equals(expected)


@of_profile(quick=40)
@given(history=HISTORIES, size=st.integers(1, 4))
def test_a084_the_last_rows(history: list[list[Entry]], size: int) -> None:
    check(LastRows(size), the_last(size), history)


@of_profile(quick=40)
@given(history=HISTORIES, gap=st.integers(1, 6))
def test_a015_a073_a074_sessions_the_generic_way(history: list[list[Entry]], gap: int) -> None:
    check(Custom(proto(gap), merge_overlapping), sessions(gap), history)


@given(history=HISTORIES, gap=st.integers(1, 6))
def test_a081_windows_of_a_key_do_not_depend_on_other_keys(history: list[list[Entry]], gap: int) -> None:
    together = Chain(Custom(proto(gap), merge_overlapping))
    apart = {key: Chain(Custom(proto(gap), merge_overlapping)) for key in ("a", "b", None)}
    for entries in history:
        whole = together.push(entries)
        parts = [
            chain.push([entry for entry in entries if entry[0][0] == key]) for key, chain in apart.items()
        ]
        assert whole == {row: diff for part in parts for row, diff in part.items()}


@given(ids=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 4)), max_size=15))
def test_a080_a_known_session_id_gives_the_same_sessions(ids: list[tuple[str, int, int]]) -> None:
    """Rows of a session are at most 4 apart from its start, sessions 100: the id is what the gap finds out."""
    rows = [(key, session * 100 + step, str(session)) for key, session, step in ids]
    chain = Chain(Custom(proto(5), merge_overlapping))
    chain.push([(row, 1) for row in rows])
    bounds: dict[tuple[str, str], tuple[int, int]] = {}
    for key, at, session in rows:
        first, last = bounds.get((key, session), (at, at + 5))
        bounds[key, session] = min(first, at), max(last, at + 5)
    assert chain.contents == Counter((*row, *bounds[row[0], row[2]]) for row in rows)


@of_profile(quick=40)
@given(history=HISTORIES, gap=st.integers(1, 6))
def test_a015_sessions_and_the_generic_way_give_the_same_deltas(history: list[list[Entry]], gap: int) -> None:
    engine = ec.Engine()
    source = engine.source("rows", SCHEMA, event_time="at", kind="diffs")
    views = []
    for number, window in enumerate(
        (ec.sessions(timedelta(microseconds=gap)), ec.custom_windows(proto(gap), merge_overlapping))
    ):
        grouped = source.window(window).group_by("key").agg(n=pl.len(), name=pl.col("name").max())
        views.append(engine.view(str(number), grouped))
    hold_to_contract(engine)
    counts: Counter[Row] = Counter()
    for epoch, entries in enumerate(history, 1):
        # What is gone before it came is no row: where rows start and end is a matter of those that are there.
        kept = []
        for row, diff in entries:
            if counts[row] + diff >= 0:
                counts[row] += diff
                kept.append((row, diff))
        moments = [((key, ORIGIN + timedelta(microseconds=at), name), diff) for (key, at, name), diff in kept]
        engine.push("rows", frame_of_entries(SCHEMA, moments))
        optimised, generic = (summed(view.deltas(since=epoch - 1)) for view in views)
        assert optimised == generic


def test_ties_of_windows_by_rows_do_not_depend_on_what_is_aggregated() -> None:
    """The last row of an instant is the last by the whole row, not by the columns that a view reads."""
    engine = ec.Engine()
    source = engine.source("rows", {**SCHEMA, "x": pl.Int64}, event_time="at")
    last = source.window(ec.last_rows(1)).group_by("key")
    views = [
        engine.view("narrow", last.agg(pl.col("x").sum())),
        engine.view("wide", last.agg(pl.col("x").sum(), pl.col("name").max())),
    ]
    engine.push(
        "rows",
        frame_of_entries(source.schema, [(("a", ORIGIN, "p", 9), 1), (("a", ORIGIN, "q", 1), 1)]).drop(
            "_diff"
        ),
    )
    assert [view.read()["x"].to_list() for view in views] == [[1], [1]]


# Worked examples.


def plus(*rows: Row) -> list[Entry]:
    return [(row, 1) for row in rows]


def minus(*rows: Row) -> list[Entry]:
    return [(row, -1) for row in rows]


def test_a083_tuple_windows_are_time_windows_over_a_logical_clock() -> None:
    """Fig 9: with the number of arrival as event time, windows of two rows and of two ticks give the same five sums."""
    if not FIGURES.exists():
        pytest.skip(NOT_BESIDE)
    figures = json.loads(FIGURES.read_text())
    (figure,) = [case for case in figures["cases"] if case["id"] == "paper/fig9"]
    values = [event["value"] for event in figures["events"]]
    schema = {"key": pl.Int64(), "at": pl.Datetime("us"), "value": pl.Int64()}
    frame = pl.DataFrame(
        {"key": [1] * 10, "at": [*range(10)], "value": values, "_diff": [1] * 10}, schema_overrides=schema
    )
    frame = frame.with_columns(pl.col("at").cast(pl.Datetime("us")))
    chain = Chain(Count(2), schema)
    chain.push_frame(frame)
    columns = windowed_schema(pl.Schema(schema), Fixed(2), "at")
    by_clock = AssignWindows("v", columns, Fixed(2), "at").step(NOW, Delta(frame)).frame
    assert chain.contents == {
        row[:-1]: 1 for row in by_clock.with_columns(pl.selectors.datetime().to_physical()).rows()
    }
    sums: Counter[int] = Counter()
    for _, _, value, start, _ in chain.contents:
        sums[start] += value
    assert [sums[start] for start in sorted(sums)] == [pane["value"] for pane in figure["expect"]]


def test_a092_a_late_row_moves_the_later_ones_and_its_retraction_moves_them_back() -> None:
    chain = Chain(Count(2))
    chain.push(plus(*(("a", at, "x") for at in (10, 20, 30, 40))))
    late = chain.push(plus(("a", 15, "late")))
    assert late == {
        ("a", 10, "x", 10, 21): -1,
        ("a", 10, "x", 10, 16): 1,
        ("a", 15, "late", 10, 16): 1,
        ("a", 20, "x", 10, 21): -1,
        ("a", 20, "x", 20, 31): 1,
        ("a", 30, "x", 30, 41): -1,
        ("a", 30, "x", 20, 31): 1,
        ("a", 40, "x", 30, 41): -1,
        ("a", 40, "x", 40, 41): 1,
    }
    assert chain.push(minus(("a", 15, "late"))) == {row: -diff for row, diff in late.items()}


def test_a092_rows_of_one_instant_are_counted_apart() -> None:
    chain = Chain(Count(2))
    chain.push([(("a", 5, "x"), 5), (("a", 7, "x"), 1)])
    assert chain.contents == {
        ("a", 5, "x", 5, 6): 2,
        ("a", 5, "x", 5, 7): 2,
        ("a", 5, "x", 5, 8): 1,
        ("a", 7, "x", 5, 8): 1,
    }


def test_a092_a_row_with_a_huge_diff_is_cut_without_being_written_out() -> None:
    chain = Chain(Count(2**30))
    chain.push([(("a", 5, "x"), 2**31 - 1)])
    assert chain.contents == {("a", 5, "x", 5, 6): 2**30, ("a", 5, "x", 5, 7): 2**30 - 1}


def test_a084_only_rows_that_move_over_the_boundary_and_bounds_that_change_are_emitted() -> None:
    chain = Chain(LastRows(2))
    chain.push(plus(("a", 1, "x"), ("a", 2, "x"), ("b", 9, "x")))
    assert chain.contents == {("a", 1, "x", 1, 3): 1, ("a", 2, "x", 1, 3): 1, ("b", 9, "x", 9, 10): 1}
    assert chain.push(plus(("a", 0, "x"))) == {}
    assert chain.push(plus(("a", 3, "x"))) == {
        ("a", 1, "x", 1, 3): -1,
        ("a", 2, "x", 1, 3): -1,
        ("a", 2, "x", 2, 4): 1,
        ("a", 3, "x", 2, 4): 1,
    }


def test_a084_ties_at_the_boundary_are_settled_by_the_whole_row() -> None:
    chain = Chain(LastRows(1))
    chain.push(plus(("a", 5, None), ("a", 5, "x"), ("a", 5, "y")))
    assert chain.contents == {("a", 5, "y", 5, 6): 1}


def test_a076_a077_a_row_that_bridges_two_sessions_takes_both_back() -> None:
    chain = Chain(Custom(proto(10), merge_overlapping))
    chain.push(plus(("a", 0, "x"), ("a", 15, "x")))
    assert chain.push(plus(("a", 8, "y"))) == {
        ("a", 0, "x", 0, 10): -1,
        ("a", 15, "x", 15, 25): -1,
        ("a", 0, "x", 0, 25): 1,
        ("a", 8, "y", 0, 25): 1,
        ("a", 15, "x", 0, 25): 1,
    }


def test_a075_a_row_inside_a_session_leaves_the_others_alone() -> None:
    chain = Chain(Custom(proto(10), merge_overlapping))
    chain.push(plus(("a", 0, "x"), ("a", 9, "x")))
    assert chain.push(plus(("a", 4, "y"))) == {("a", 4, "y", 0, 19): 1}


def test_a088_an_auction_ends_when_its_time_is_up_however_many_bids_come() -> None:
    """Bids open a window of ten; the auction is its first one, and later ones that begin inside it are part of it."""

    def auctions(windows: pl.DataFrame) -> pl.DataFrame:
        # Row by row in Python: a user's function may be as slow as the user likes.
        rows: list[tuple[Any, Any, Any]] = []
        for key, start, end in windows.rows():
            inside = rows and rows[-1][0] == key and start < rows[-1][2]
            rows.append(rows[-1] if inside else (key, start, end))
        return pl.DataFrame(rows, schema=windows.schema, orient="row")

    chain = Chain(custom_windows(proto(10), auctions))
    chain.push(plus(*(("a", at, "bid") for at in (3, 8, 12, 13, 20)), ("b", 12, "bid")))
    bounds = {(row[0], row[1]): row[-2:] for row in chain.contents}
    assert bounds == {
        ("a", 3): (3, 13),
        ("a", 8): (3, 13),
        ("a", 12): (3, 13),
        ("a", 13): (13, 23),
        ("a", 20): (13, 23),
        ("b", 12): (12, 22),
    }
    assert {row[-2:] for row in chain.push(plus(("a", 1, "bid"))) if row[0] == "b"} == set()
    assert {row[1]: row[-2:] for row in chain.contents if row[0] == "a"}[20] == (12, 22)


def test_a088_a_merge_sees_the_windows_of_a_key_together_and_once_each() -> None:
    seen: list[pl.DataFrame] = []

    def merge(windows: pl.DataFrame) -> pl.DataFrame:
        seen.append(windows)
        return windows

    chain = Chain(Custom(proto(10), merge))
    chain.push(
        [(("a", 5, "x"), 2), (("b", 1, "x"), 1), (("a", 1, "y"), 1), (("a", 5, "y"), 1), ((None, 1, "x"), 1)]
    )
    frame, *again = seen
    # The function is called again with some of the keys, to check that its result does not depend on the others.
    assert [each.height for each in again] == [each.n_unique() for each in again]
    assert pl.concat(again).sort(pl.all()).equals(frame.sort(pl.all()))
    assert frame.columns == ["key", "window_start", "window_end"]
    keys = frame["key"].to_list()
    assert sorted(keys, key=keys.index) == keys
    assert sorted(map(str, keys)) == ["None", "a", "a", "b"]
    assert frame.filter(pl.col("key") == "a")["window_start"].to_physical().to_list() == [1, 5]


@pytest.mark.parametrize("keys", [(), ("key",), ("key", "name")], ids=str)
def test_windows_by_any_number_of_keys(keys: tuple[str, ...]) -> None:
    chain = Chain(Count(10), SCHEMA, keys)
    rows = [(key, at, name) for at, (key, name) in enumerate((k, n) for k in "ab" for n in "xy")]
    chain.push(plus(*rows))
    by_keys: dict[Row, list[int]] = {}
    place = {"key": 0, "name": 2}
    for row in rows:
        by_keys.setdefault(tuple(row[place[key]] for key in keys), []).append(row[1])
    expected_bounds = {(min(ats), max(ats) + 1) for ats in by_keys.values()}
    assert {row[-2:] for row in chain.contents} == expected_bounds
    merged = Chain(Custom(proto(10), merge_overlapping), SCHEMA, keys)
    merged.push(plus(*rows))
    assert {row[-2:] for row in merged.contents} == {(start, end + 9) for start, end in expected_bounds}


# What goes wrong.


def broken(windows: pl.DataFrame) -> pl.DataFrame:
    raise ValueError("no such auction")


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (broken, "the function raised ValueError: no such auction; nothing has changed"),
        (lambda windows: None, "the function gave NoneType; return a frame of 1 row"),
        (lambda windows: windows.clear(), "gave 0 rows of .*; return a frame of 1 row .* in the same order"),
        (lambda windows: windows.drop("window_end"), "gave 1 row of 'key', 'window_start'; return"),
        (lambda windows: windows.with_columns(window_end="window_start"), "1 windows end at their start"),
    ],
)
def test_a088_what_fails_in_a_merge_names_the_view_and_changes_nothing(function: Any, complaint: str) -> None:
    chain = Chain(Custom(proto(10), function))
    with pytest.raises(InputError, match=rf"view 'v': merge: .*{complaint}"):
        chain.push(plus(("a", 5, "x")))
    assert chain.arrange.spine.entries == 0


# Work.


def test_only_the_keys_touched_are_read() -> None:
    chain = Chain(Count(3))
    chain.push(plus(*((f"k{key}", at, "x") for key in range(300) for at in range(10))))
    spine = chain.arrange.spine
    before = spine.touched
    chain.push(plus(("k7", 4, "y")))
    assert spine.touched - before <= 12


def test_of_the_last_rows_only_these_are_read() -> None:
    chain = Chain(LastRows(3))
    chain.push(plus(*(("a", at, "x") for at in range(5_000))))
    spine = chain.arrange.spine
    before = spine.touched
    assert len(chain.push(plus(("a", 5_000, "x")))) == 6
    assert spine.touched - before <= 10


def test_many_keys_at_once_without_a_loop_over_them() -> None:
    """A large delta takes the paths for many rows: the same windows as key by key."""
    draw = np.random.default_rng(1)
    rows = [(f"k{key}", int(at), "x") for key, at in draw.integers((0, 0), (500, 1_000), (20_000, 2))]
    for window, windows in (
        (Count(7), counted(7)),
        (LastRows(7), the_last(7)),
        (Custom(proto(5), merge_overlapping), sessions(5)),
    ):
        chain = Chain(window)
        chain.push(plus(*rows))
        assert chain.contents == expected(Counter(rows), windows)
