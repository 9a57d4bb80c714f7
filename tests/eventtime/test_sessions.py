"""Sessions against plain Python: every history of rows that come and go, their ends, and what went into what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import given

import evercurrent.core.data.columns.directory as directory_module
import evercurrent.core.data.columns.grouping as grouping
import evercurrent.core.data.columns.kernels as kernels
import evercurrent.core.eventtime.sessions.batches as batches_module
import evercurrent.core.eventtime.sessions.cells as cells_module
import evercurrent.core.eventtime.sessions.rows as rows_module
import evercurrent.core.state.merge_policy as levels_module
import evercurrent.core.state.run as run_module
from evercurrent.core.circuit.checked import Checked
from evercurrent.core.data.clock import END_OF_TIME, START_OF_TIME, Epoch, Now
from evercurrent.core.data.columns.kernels import Keys, key_words
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.schema import DIFF
from evercurrent.core.eventtime.sessions.sessions import SessionEnds, Sessions
from evercurrent.core.eventtime.triggers.firing import Moves
from strategies import of_profile

ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)

Key = tuple[Any, ...]
Row = tuple[Key, int, Any]
"""Key, event time in microseconds, another column."""

Id = tuple[Key, int]
"""Key and start of a session."""


@dataclass
class Hands:
    """A clock moved by hand."""

    before: int = START_OF_TIME
    now: int = START_OF_TIME


def spans(instants: Sequence[int], gap: int) -> list[tuple[int, int]]:
    """The sessions of these instants, as first instants and ends."""
    found: list[tuple[int, int]] = []
    for instant in sorted(instants):
        if found and instant < found[-1][1]:
            found[-1] = found[-1][0], instant + gap
        else:
            found.append((instant, instant + gap))
    return found


@dataclass
class Oracle:
    """The rows that are there, one by one, and the sessions that they make."""

    gap: int
    rows: Counter[Row] = field(default_factory=Counter)

    def ends(self) -> dict[Id, int]:
        by_key: dict[Key, list[int]] = {}
        for key, instant, _ in self.rows.elements():
            by_key.setdefault(key, []).append(instant)
        return {
            (key, start): end for key, instants in by_key.items() for start, end in spans(instants, self.gap)
        }

    def started(self) -> dict[tuple[Row, int], int]:
        """How often each row is there, with the start of its session."""
        ends = self.ends()
        found = {}
        for row, count in self.rows.items():
            (start,) = [s for (key, s), end in ends.items() if key == row[0] and s <= row[1] < end]
            found[row, start] = count
        return found

    def change(self, entries: Sequence[tuple[Row, int]]) -> dict[Id, Id]:
        """Apply an epoch; which session went into which."""
        before, old = Counter(self.rows), self.ends()
        for row, diff in entries:
            self.rows[row] += diff
        assert all(count >= 0 for count in self.rows.values())
        self.rows = +self.rows
        new, moves = self.ends(), {}
        for key, start in old.keys() - new.keys():
            left = [
                row[1]
                for row in before
                if row[0] == key and start <= row[1] < old[key, start] and self.rows[row]
            ]
            if left:
                (moves[key, start],) = [
                    (k, s) for (k, s), e in new.items() if k == key and s <= min(left) < e
                ]
        return moves

    def close(self, horizon: int) -> None:
        """Forget the sessions that end no later."""
        over = [(key, start, end) for (key, start), end in self.ends().items() if end <= horizon]
        for row in list(self.rows):
            if any(row[0] == key and start <= row[1] < end for key, start, end in over):
                del self.rows[row]


class Running:
    """Both operators, their sums of deltas, and how to run them through an epoch."""

    def __init__(
        self,
        gap: int,
        *,
        keys: Mapping[str, Any] | None = None,
        lateness: int | None = None,
        may_retract: bool = True,
        time_zone: str | None = None,
    ) -> None:
        self.keys = dict(keys if keys is not None else {"k": pl.Int64()})
        time = pl.Datetime("us", time_zone)
        # The time stands between other columns: the order of columns is kept.
        self.types = pl.Schema(
            {**self.keys, "window_start": time, "window_end": time, "x": pl.String(), "y": pl.Float64()}
        )
        self.gap, self.clock = gap, Hands()
        self.sessions = Sessions(
            self.types, list(self.keys), gap, lateness=lateness, clock=self.clock, may_retract=may_retract
        )
        self.ends = SessionEnds(self.sessions.ids, self.sessions.changes)
        self.states = self.sessions.states
        self.nodes = Checked("sessions", self.sessions, self.states), Checked("ends", self.ends, self.states)
        self.epoch = 0
        self.rows: Counter[tuple[Row, int]] = Counter()
        self.totals: Counter[Id] = Counter()
        self.last_moves: Moves | None = None

    def frame(self, entries: Sequence[tuple[Row, int]]) -> Delta:
        columns = [
            pl.Series(n, [r[0][i] for r, _ in entries], t) for i, (n, t) in enumerate(self.keys.items())
        ]
        start = pl.Series("window_start", [row[1] for row, _ in entries], pl.Int64)
        time = self.types["window_start"]
        columns += [start.cast(time), (start + self.gap).cast(time).alias("window_end")]
        columns.append(pl.Series("x", [row[2] for row, _ in entries], pl.String))
        columns.append(pl.Series("y", [None if row[2] is None else 0.5 for row, _ in entries], pl.Float64))
        return Delta.of(pl.DataFrame(columns), np.array([diff for _, diff in entries], np.int64))

    def step(self, entries: Sequence[tuple[Row, int]]) -> tuple[Delta, Delta]:
        now = Now(Epoch(self.epoch + 1), ORIGIN)
        out = self.nodes[0].step(now, self.frame(entries))
        return out, self.nodes[1].step(now, out)

    def commit(self) -> None:
        """Make what was staged the state."""
        for state in self.states:
            state.commit()
        self.last_moves = self.sessions.merging.value.moves
        self.clear()

    def discard(self) -> None:
        """Leave everything as it was before the step."""
        for state in self.states:
            state.discard()
        self.clear()

    def clear(self) -> None:
        """Forget what was found: the epoch is over."""
        self.sessions.changes.clear()
        self.sessions.merging.clear()

    def push(self, entries: Sequence[tuple[Row, int]], watermark: int | None = None) -> tuple[Delta, Delta]:
        """One epoch, tried and forgotten first: that must leave no trace."""
        self.clock.now = self.clock.before if watermark is None else watermark
        tried = self.step(entries)
        self.discard()
        out = self.step(entries)
        for once, again in zip(tried, out, strict=True):
            assert once.frame.equals(again.frame)
        self.commit()
        self.epoch += 1
        self.clock.before = self.clock.now
        for row, start, diff in self.moved_rows(out[0]):
            self.rows[row, start] += diff
            if not self.rows[row, start]:
                del self.rows[row, start]
        for session, moved in self.moved_ends(out[1]).items():
            self.totals[session] += moved
            if not self.totals[session]:
                del self.totals[session]
        return out

    def moved_rows(self, out: Delta) -> Iterator[tuple[Row, int, int]]:
        frame = out.frame.with_columns(pl.col("window_start").to_physical())
        for *key, start, x, y, diff in frame.iter_rows():
            instant, _, text = x.partition("|")
            yield (tuple(key), int(instant), text), start, diff
            assert y == 0.5

    def moved_ends(self, out: Delta) -> dict[Id, int]:
        frame, moved = out.frame.with_columns(pl.col("window_start").to_physical()), Counter[Id]()
        for *key, start, diff in frame.iter_rows():
            moved[tuple(key), start] += diff
        return {session: diff for session, diff in moved.items() if diff}

    def moves(self, ids: Sequence[Id]) -> dict[Id, Id]:
        """Return the moves of the last epoch, with the ids whose hashes the sessions stored."""
        moves = self.last_moves
        if moves is None:
            return {}
        words = self.words(ids)
        named = dict(zip(pairs(words), ids, strict=True))
        assert len(moves.old) == len(moves.new)
        found = [(named[o], named[n]) for o, n in zip(pairs(moves.old), pairs(moves.new), strict=True)]
        assert len(dict(found)) == len(found)
        return dict(found)

    def words(self, ids: Sequence[Id]) -> Keys:
        columns = [pl.Series(n, [k[i] for k, _ in ids], t) for i, (n, t) in enumerate(self.keys.items())]
        start = pl.Series("window_start", [start for _, start in ids], pl.Int64)
        return key_words([*columns, start.cast(self.types["window_start"])], len(ids), len(columns))

    @property
    def entries(self) -> list[int]:
        return [state.entries for state in self.states]

    @property
    def kept(self) -> int:
        """How many rows are kept."""
        rows = self.states[1]
        return sum(int(run.sums[DIFF].sum()) for run in rows.runs)

    @property
    def touched(self) -> int:
        return sum(state.touched for state in self.states if hasattr(state, "touched"))


def pairs(words: Keys) -> list[tuple[int, int]]:
    return list(zip(words.first.tolist(), words.seconds().tolist(), strict=True))


def row(key: Any, instant: int, text: str = "") -> Row:
    """Return a row of a key; its other column has its instant too, so that an output row shows which row it comes from."""
    return ((key,) if not isinstance(key, tuple) else key), instant, f"{instant}|{text}"


def plus(*rows: Row) -> list[tuple[Row, int]]:
    return [(each, 1) for each in rows]


def minus(*rows: Row) -> list[tuple[Row, int]]:
    return [(each, -1) for each in rows]


def plain(rows: Counter[Row]) -> Counter[Row]:
    """The rows as they are read back from the output."""
    return Counter({(key, instant, x.partition("|")[2]): count for (key, instant, x), count in rows.items()})


def check(running: Running, oracle: Oracle, entries: Sequence[tuple[Row, int]]) -> None:
    """One epoch: rows, ends and moves as the oracle has them."""
    before = oracle.ends()
    moves = oracle.change(entries)
    running.push(entries)
    assert running.moves([*(before | oracle.ends())]) == moves
    assert running.totals == totals_of(oracle.ends())
    assert running.rows == Oracle(oracle.gap, plain(oracle.rows)).started()


def totals_of(ends: dict[Id, int]) -> Counter[Id]:
    """The ends as sums of diffs: one that is at the origin of time adds up to zero."""
    return Counter({session: end for session, end in ends.items() if end})


# Histories

GAPS = st.sampled_from([1, 2, 3, 5, 10])
TEXTS = st.sampled_from(["", "a"])


@st.composite
def histories(draw: st.DrawFn, *, retract: bool) -> tuple[int, list[list[tuple[Row, int]]]]:
    """A gap and epochs of entries that take back only what is there."""
    gap = draw(GAPS)
    far = draw(st.sampled_from([4, 12, 40]))
    instants = st.one_of(st.integers(-far, far), st.integers(-far // gap, far // gap).map(lambda n: n * gap))
    rows = st.builds(row, st.sampled_from([0, 1, None]), instants, TEXTS)
    held: Counter[Row] = Counter()
    epochs = []
    if draw(st.booleans()):
        # A long session to begin with.
        epochs.append(plus(*(row(0, instant) for instant in range(-far, far, max(1, gap - 1)))))
        held.update(each for each, _ in epochs[0])
    for _ in range(draw(st.integers(1, 6))):
        entries: list[tuple[Row, int]] = []
        for _ in range(draw(st.integers(0, 9))):
            there = sorted(+held, key=repr)
            if retract and there and draw(st.booleans()):
                gone = draw(st.sampled_from(there))
                diff = -draw(st.integers(1, held[gone]))
                entries.append((gone, diff))
            else:
                entries.append((draw(rows), draw(st.sampled_from([1, 1, 1, 2]))))
            held[entries[-1][0]] += entries[-1][1]
        epochs.append(draw(st.permutations(entries)))
    return gap, epochs


SETTINGS = st.sampled_from(["usual", "tiny", "colliding", "unpacked"])


@contextmanager
def ways(setting: str) -> Iterator[None]:
    """The code as it is; with little data on the ways of much; with words that agree in part; without packed sorts."""
    with (
        patch.multiple(
            levels_module, FLOOR=1 if setting != "usual" else 512, FAN=2 if setting != "usual" else 4
        ),
        patch.multiple(directory_module, FROM=1 if setting == "tiny" else 4096, STEPS=1, FEW_AHEAD=0),
        patch.multiple(run_module, FEW=0 if setting == "tiny" else 64),
        patch.multiple(grouping, SMALL=0 if setting == "tiny" else 256),
        patch.multiple(kernels, MANY_ROWS=1 if setting == "unpacked" else 4096),
        patch.multiple(cells_module, MOST_AHEAD=1 if setting == "unpacked" else 1 << 18),
        patch.multiple(batches_module, WORD=1 if setting == "unpacked" else 64),
    ):
        if setting != "colliding":
            yield
            return
        with (
            patch.multiple(cells_module, CELL=np.uint64(1)),
            patch.multiple(rows_module, LOW=np.uint64(2**63 - 1)),
            patch.object(batches_module, "key_words", colliding),
            patch.object(rows_module, "key_words", colliding),
        ):
            yield


def colliding(columns: Sequence[pl.Series], height: int) -> Keys:
    """Key words of which the first of a hash takes one of three values."""
    words = key_words(columns, height)
    if words.second is None or kernels.is_one_word([column.dtype for column in columns]):
        return words
    return Keys(np.array([0, 2**63, 2**64 - 1], np.uint64)[words.first % np.uint64(3)], words.second)


@of_profile(quick=40)
@given(history=histories(retract=True), setting=SETTINGS)
def test_rows_that_come_and_go(history: tuple[int, list[list[tuple[Row, int]]]], setting: str) -> None:
    gap, epochs = history
    with ways(setting):
        running, oracle = Running(gap), Oracle(gap)
        for entries in epochs:
            check(running, oracle, entries)
        gone = [(each, -count) for each, count in oracle.rows.items()]
        check(running, oracle, gone)
        assert running.entries == [0, 0]


@of_profile(quick=40)
@given(history=histories(retract=False), setting=SETTINGS)
def test_rows_that_only_come(history: tuple[int, list[list[tuple[Row, int]]]], setting: str) -> None:
    gap, epochs = history
    with ways(setting):
        running, oracle = Running(gap, may_retract=False, time_zone="Europe/Berlin"), Oracle(gap)
        for entries in epochs:
            check(running, oracle, entries)


KEYS: tuple[tuple[dict[str, Any], list[Key]], ...] = (
    ({}, [()]),
    ({"k": pl.String()}, [("a",), ("",), (None,)]),
    ({"k": pl.Int64(), "l": pl.String()}, [(1, "a"), (1, None), (None, "a")]),
    ({"k": pl.Float64()}, [(0.5,), (None,), (1e300,)]),
    ({"k": pl.UInt64()}, [(2**64 - 1,), (0,), (None,)]),
)


@of_profile(quick=40)
@given(
    history=histories(retract=True), which=st.sampled_from(KEYS), setting=SETTINGS, may_retract=st.booleans()
)
def test_keys_of_any_kind(
    history: tuple[int, list[list[tuple[Row, int]]]],
    which: tuple[dict[str, Any], list[Key]],
    setting: str,
    may_retract: bool,
) -> None:
    (gap, epochs), (types, keys) = history, which
    numbers = {0: 0, 1: 1, None: 2}
    with ways(setting):
        running, oracle = Running(gap, keys=types, may_retract=may_retract), Oracle(gap)
        for entries in epochs:
            renamed = [
                ((keys[numbers[key[0]] % len(keys)], instant, text), diff)
                for (key, instant, text), diff in entries
                if diff > 0 or may_retract
            ]
            check(running, oracle, renamed)


@of_profile(quick=40)
@given(
    history=histories(retract=True),
    lateness=st.sampled_from([0, 1, 7]),
    steps=st.lists(st.integers(0, 12), min_size=12, max_size=12),
    setting=SETTINGS,
)
def test_what_closes_is_forgotten(
    history: tuple[int, list[list[tuple[Row, int]]]], lateness: int, steps: list[int], setting: str
) -> None:
    """With a watermark that moves on, in epochs with rows and without, and rows that are late left out."""
    gap, epochs = history
    with ways(setting):
        running, oracle = Running(gap, lateness=lateness), Oracle(gap)
        watermark = START_OF_TIME
        for number, entries in enumerate(epochs):
            accepted, left = [], Counter(oracle.rows)
            for each, diff in sorted(entries, key=lambda entry: -entry[1]):
                # As upstream: late rows are dropped, and so is what would take back rows that are not there.
                if each[1] + gap + lateness > running.clock.before and left[each] + diff >= 0:
                    accepted.append((each, diff))
                    left[each] += diff
            watermark = max(watermark, -45) + steps[number]
            before = oracle.ends()
            moves = oracle.change(accepted)
            out = running.push(accepted, watermark)
            assert running.moves([*(before | oracle.ends())]) == moves
            assert running.moved_ends(out[1]) == changes(before, oracle.ends())
            rows_now = Oracle(gap, plain(oracle.rows)).started()
            assert {each: count for each, count in running.rows.items() if each in rows_now} == rows_now
            oracle.close(watermark - lateness)
            assert running.kept == sum(oracle.rows.values())
            running.rows = Counter(Oracle(gap, plain(oracle.rows)).started())
            if steps[-1 - number] < 4:
                watermark += 3
                assert [len(out) for out in running.push([], watermark)] == [0, 0]
                oracle.close(watermark - lateness)
                assert running.kept == sum(oracle.rows.values())
                running.rows = Counter(Oracle(gap, plain(oracle.rows)).started())
        for instant in sorted({end for end in oracle.ends().values() if end + lateness > watermark}):
            for at in (instant - 1, instant):
                running.push([], max(watermark, at + lateness))
                oracle.close(max(watermark - lateness, at))
                assert running.kept == sum(oracle.rows.values())
        running.push([], END_OF_TIME)
        assert running.entries == [0, 0, 0]


def changes(before: dict[Id, int], after: dict[Id, int]) -> Counter[Id]:
    moved = {
        session: after.get(session, 0) - before.get(session, 0) for session in before.keys() | after.keys()
    }
    return Counter({session: diff for session, diff in moved.items() if diff})


# The worked cases, a gap of ten

A, B = "a", "b"


def started(running: Running, out: Delta) -> dict[tuple[Any, int, int], int]:
    """Key, instant and start of the rows of a delta, with the sums of their diffs."""
    found: Counter[tuple[Any, int, int]] = Counter()
    for (key, instant, _), start, diff in running.moved_rows(out):
        found[key[0] if key else None, instant, start] += diff
    return {each: diff for each, diff in found.items() if diff}


def steps(running: Running, *epochs: Sequence[tuple[Row, int]]) -> list[tuple[Any, Any, Any]]:
    """Of each epoch, what came out: rows with their starts, ends, and what went into what."""
    found, oracle = [], Oracle(running.gap)
    for entries in epochs:
        ids = oracle.ends()
        oracle.change(entries)
        rows, ends = running.push(entries)
        moves = running.moves([*(ids | oracle.ends())])
        shown = {(old[0][0], old[1]): new[1] for old, new in moves.items()}
        moved = {(key[0], start): diff for (key, start), diff in running.moved_ends(ends).items()}
        found.append((started(running, rows), moved, shown))
    return found


def by_letter() -> Running:
    return Running(10, keys={"k": pl.String()})


def test_a073_sessions_by_key_and_gap() -> None:
    (came,) = steps(by_letter(), plus(row(A, 0), row(A, 7), row(A, 30), row(B, 3)))
    assert came == (
        {(A, 0, 0): 1, (A, 7, 0): 1, (A, 30, 30): 1, (B, 3, 3): 1},
        {(A, 0): 17, (A, 30): 40, (B, 3): 13},
        {},
    )


@pytest.mark.parametrize("at", [0, 3, -7, -10])
def test_a074_rows_one_gap_apart_stay_apart(at: int) -> None:
    running = by_letter()
    steps(running, plus(row(A, at), row(A, at + 10)), plus(row(B, at), row(B, at + 9)))
    assert dict(running.totals) == totals_of(
        {((A,), at): at + 10, ((A,), at + 10): at + 20, ((B,), at): at + 19}
    )


def test_a074_of_a_minute_less_a_microsecond() -> None:
    minute = int(timedelta(minutes=1) / timedelta(microseconds=1))
    running = Running(minute)
    steps(running, plus(row(0, minute - 1), row(0, 2 * minute - 2), row(0, 3 * minute - 2)))
    assert dict(running.totals) == {
        ((0,), minute - 1): 3 * minute - 2,
        ((0,), 3 * minute - 2): 4 * minute - 2,
    }


def test_a075_a_row_inside_moves_nothing() -> None:
    found = steps(by_letter(), plus(row(A, 1), row(A, 8), row(A, 14)), plus(row(A, 9)))
    assert found[1] == ({(A, 9, 1): 1}, {}, {})


def test_a076_a_later_row_extends_without_moving_rows() -> None:
    found = steps(by_letter(), plus(row(A, 1), row(A, 8)), plus(row(A, 17)))
    assert found[1] == ({(A, 17, 1): 1}, {(A, 1): 9}, {})


def test_a076_an_earlier_row_moves_the_session() -> None:
    found = steps(by_letter(), plus(row(A, 1), row(A, 8)), plus(row(A, -8)))
    assert found[1] == (
        {(A, -8, -8): 1, (A, 1, 1): -1, (A, 8, 1): -1, (A, 1, -8): 1, (A, 8, -8): 1},
        {(A, -8): 18, (A, 1): -18},
        {(A, 1): -8},
    )


def test_a077_bridge_retracts_both() -> None:
    """The earlier session keeps its start: its end moves; the later one is taken back and goes into it."""
    found = steps(by_letter(), plus(row(A, 2), row(A, 20)), plus(row(A, 11, "bridge")))
    assert found[1] == (
        {(A, 11, 2): 1, (A, 20, 20): -1, (A, 20, 2): 1},
        {(A, 2): 30 - 12, (A, 20): -30},
        {(A, 20): 2},
    )


def test_a077_a_bridge_and_an_earlier_row_retract_both() -> None:
    found = steps(by_letter(), plus(row(A, 2), row(A, 20)), plus(row(A, 11), row(A, -3)))
    assert found[1][0] == {
        (A, -3, -3): 1,
        (A, 11, -3): 1,
        (A, 2, 2): -1,
        (A, 2, -3): 1,
        (A, 20, 20): -1,
        (A, 20, -3): 1,
    }
    assert found[1][1:] == ({(A, -3): 30, (A, 2): -12, (A, 20): -30}, {(A, 2): -3, (A, 20): -3})


def test_a078_a_row_far_away_is_a_new_session() -> None:
    found = steps(by_letter(), plus(row(A, 2)), plus(row(A, 100), row(A, -100)))
    assert found[1] == ({(A, 100, 100): 1, (A, -100, -100): 1}, {(A, 100): 110, (A, -100): -90}, {})


def test_a079_worked_run() -> None:
    """Sums of values by session as they go: 5; 7; 10; 8 joins 7 and 10 to 25; 9 joins 5 and 25 to 39; 12 elsewhere."""
    running, sums = by_letter(), Counter[tuple[Any, int]]()
    panes: list[dict[tuple[Any, int], int]] = []
    for rows in (
        [row(A, 0, "5")],
        [row(A, 12, "7")],
        [row(A, 30, "3"), row(A, 33, "4"), row(A, 35, "3")],
        [row(A, 21, "8")],
        [row(A, 6, "9")],
        [row(A, 60, "3"), row(A, 62, "8"), row(A, 61, "1")],
    ):
        before = Counter(sums)
        for (key, _, text), start, diff in running.moved_rows(running.push(plus(*rows))[0]):
            sums[key[0], start] += int(text) * diff
        panes.append({each: sums[each] for each in sums if sums[each] != before[each]})
    assert panes == [
        {(A, 0): 5},
        {(A, 12): 7},
        {(A, 30): 10},
        {(A, 12): 25, (A, 30): 0},
        {(A, 0): 39, (A, 12): 0},
        {(A, 60): 12},
    ]
    assert sum(sums.values()) == 51


def test_a_split_leaves_the_id_to_the_part_with_the_start() -> None:
    found = steps(by_letter(), plus(row(A, 2), row(A, 11), row(A, 20), row(A, 25)), minus(row(A, 11)))
    assert found[1] == (
        {(A, 11, 2): -1, (A, 20, 2): -1, (A, 20, 20): 1, (A, 25, 2): -1, (A, 25, 20): 1},
        {(A, 2): 12 - 35, (A, 20): 35},
        {},
    )


def test_without_its_first_row_a_session_moves() -> None:
    found = steps(by_letter(), plus(row(A, 2), row(A, 11), row(A, 20)), minus(row(A, 2)))
    assert found[1][1:] == ({(A, 2): -30, (A, 11): 30}, {(A, 2): 11})


def test_a_first_row_that_stands_twice_goes_once() -> None:
    found = steps(by_letter(), [(row(A, 2), 2), (row(A, 11), 1)], minus(row(A, 2)), minus(row(A, 2)))
    assert found[1] == ({(A, 2, 2): -1}, {}, {})
    assert found[2] == (
        {(A, 2, 2): -1, (A, 11, 2): -1, (A, 11, 11): 1},
        {(A, 2): -21, (A, 11): 21},
        {(A, 2): 11},
    )


def test_another_row_in_the_place_of_the_only_one_is_another_session() -> None:
    found = steps(by_letter(), plus(row(A, 2)), [*minus(row(A, 2)), *plus(row(A, 4))])
    assert found[1] == ({(A, 2, 2): -1, (A, 4, 4): 1}, {(A, 2): -12, (A, 4): 14}, {})


def test_a_row_that_comes_and_goes_in_one_epoch_joins_nothing() -> None:
    bridge = row(A, 11)
    found = steps(by_letter(), plus(row(A, 2), row(A, 20)), [*plus(bridge), *minus(bridge)])
    assert found[1] == ({}, {}, {})


def test_rows_that_are_gone_are_not_emitted_again() -> None:
    running = Running(10, lateness=0)
    running.push(plus(row(0, 5), row(0, 7), row(0, 8)))
    running.push(minus(row(0, 7)))
    assert len(running.push(plus(row(0, 4)))[0]) == 1 + 2 * 2
    running.push([], 18)
    running.push(plus(row(0, 9)))
    rows, _ = running.push([*plus(row(0, 8, "again"))])
    assert len(rows) == 1 + 2 * 1


def test_a_long_session_moves_though_rows_come_for_it_in_many_places() -> None:
    running, oracle = Running(10), Oracle(10)
    check(running, oracle, plus(*(row(0, 5 * n) for n in range(200))))
    inside = [row(0, instant, "inside") for instant in (37, 42, 251, 333, 338, 801, 992, 999)]
    check(running, oracle, plus(row(0, -4), *inside))
    check(running, oracle, minus(row(0, -4), row(0, 0), row(0, 5), row(0, 10), *inside))


def test_a_retraction_where_none_was_announced_is_a_bug() -> None:
    running = Running(10, may_retract=False)
    running.push(plus(row(0, 1)))
    with pytest.raises(AssertionError, match="retraction"):
        running.step(minus(row(0, 1)))


def test_a_session_that_ends_at_the_watermark_closes() -> None:
    running = Running(10, lateness=5)
    for at, entries in ((14, [1, 2, 2]), (16, [1, 2, 2]), (17, [0, 0, 0])):
        running.push(plus(row(0, 1), row(0, 2)) if at == 14 else [], at)
        assert (running.entries[0] > 0) == (entries[0] > 0), at
    assert running.entries == [0, 0, 0]
    # A row that is not late itself begins anew, though it would have been of the session that closed.
    rows, ends = running.push(plus(row(0, 3)), 17)
    assert started(running, rows) == {(0, 3, 3): 1}
    assert running.moved_ends(ends) == {((0,), 3): 13}


def test_a_session_that_is_over_as_it_comes_is_not_kept() -> None:
    running = Running(10, lateness=0)
    rows, ends = running.push(plus(row(0, 1), row(0, 9), row(0, 30)), 25)
    assert started(running, rows) == {(0, 1, 1): 1, (0, 9, 1): 1, (0, 30, 30): 1}
    assert running.moved_ends(ends) == {((0,), 1): 19, ((0,), 30): 40}
    running.push([], 40)
    assert running.entries == [0, 0, 0]


# Work


def spent(running: Running, entries: Sequence[tuple[Row, int]], watermark: int | None = None) -> int:
    before = running.touched
    running.clock.now = running.clock.before if watermark is None else watermark
    running.step(entries)
    running.discard()
    return running.touched - before


def test_extending_one_session_of_many_touches_few_entries() -> None:
    running = Running(10, lateness=10**6)
    running.push(plus(*(row(0, 30 * n) for n in range(1000)), *(row(n, 7) for n in range(1, 1000))))
    assert spent(running, plus(row(0, 30 * 500 + 5))) <= 4


def test_extending_a_long_session_touches_few_entries() -> None:
    running = Running(10)
    running.push(plus(*(row(0, 5 * n) for n in range(1000))))
    assert spent(running, plus(row(0, 5 * 1000))) <= 4
    assert spent(running, plus(row(0, 5 * 500, "inside"))) <= 4


def test_a_merge_touches_the_rows_of_the_session_that_moves() -> None:
    running = Running(10)
    running.push(
        plus(*(row(0, 5 * n) for n in range(1000)), *(row(0, 5 * n + 10) for n in range(1000, 1020)))
    )
    out, _ = running.push([])
    assert not len(out)
    # The later session has 20 rows in 10 cells, some looked up in vain; of the earlier one the last cell is enough.
    assert 30 <= spent(running, plus(row(0, 5003))) <= 60


def test_deleting_inside_a_cell_reads_no_row() -> None:
    running = Running(1000)
    running.push(plus(*(row(0, n) for n in range(500))))
    assert spent(running, minus(row(0, 250))) <= 4
    assert spent(running, minus(row(0, 0))) >= 500


def test_closing_touches_what_closes() -> None:
    running = Running(10, lateness=0)
    running.push(plus(*(row(n, 100 * n) for n in range(1000)), *(row(-1, 5 * n - 100) for n in range(5))))
    assert spent(running, [], -71) == 0
    assert spent(running, [], -70) <= 20


def test_a_long_session_is_walked_in_few_rounds() -> None:
    running, oracle = Running(10), Oracle(10)
    check(running, oracle, plus(*(row(0, 5 * n) for n in range(1, 3000))))
    rounds = 0
    look_up = running.sessions._cells.look_up

    def counted(*given: Any) -> Any:
        nonlocal rounds
        rounds += 1
        return look_up(*given)

    with patch.object(running.sessions._cells, "look_up", counted):
        rows, _ = running.step(plus(row(0, 0)))
    assert len(rows) == 1 + 2 * 2999
    assert rounds <= 20


@pytest.mark.parametrize("may_retract", [True, False])
def test_many_rows_as_polars_has_them(may_retract: bool) -> None:
    """A few thousand keys, tens of thousands of rows, against a sort of all of them."""
    random, gap = np.random.default_rng(5), 100
    running = Running(gap, keys={"k": pl.String()}, may_retract=may_retract)
    schema, outs, ends, ins = running.types, [], [], []
    for number in range(12):
        count = 9000
        key = random.integers(0, 3000, count)
        instants = random.integers(0, 1500, count) + number * (0 if number % 3 else 300)
        frame = pl.DataFrame(
            {
                "k": pl.Series(key).cast(pl.String),
                "window_start": pl.Series(instants).cast(pl.Datetime("us")),
                "window_end": pl.Series(instants + gap).cast(pl.Datetime("us")),
                "x": pl.Series(instants).cast(pl.String),
                "y": pl.Series(random.random(count)),
            },
            schema=schema,
        )
        diffs = np.ones(count, np.int64)
        if may_retract and ins:
            gone = ins[-1].filter(pl.Series(random.random(len(ins[-1])) < 0.4) & (pl.col(DIFF) > 0))
            frame = pl.concat([frame, gone.drop(DIFF)])
            diffs = np.concatenate([diffs, np.full(len(gone), -1)])
        delta = Delta.of(frame, diffs)
        ins.append(delta.frame)
        now = Now(Epoch(number + 1), ORIGIN)
        out = running.nodes[0].step(now, delta)
        ends.append(running.nodes[1].step(now, out).frame)
        outs.append(out.frame)
        running.commit()
        if number % 4 == 3:
            assert_as_polars(ins, outs, ends, gap)


def assert_as_polars(
    ins: Sequence[pl.DataFrame], outs: Sequence[pl.DataFrame], ends: Sequence[pl.DataFrame], gap: int
) -> None:
    names = ["k", "x", "y"]
    rows = pl.concat(ins).group_by([*names, "window_start"]).agg(pl.col(DIFF).sum()).filter(pl.col(DIFF) > 0)
    time = pl.col("window_start").to_physical()
    rows = rows.sort("k", "window_start").with_columns(
        begins=(time - time.shift() >= gap).over("k").fill_null(True)
    )
    rows = rows.with_columns(session=pl.col("begins").cast(pl.Int64).cum_sum())
    rows = rows.with_columns(
        start=pl.col("window_start").min().over("session"), end=time.max().over("session") + gap
    )
    expected = rows.select(*names, "start", DIFF).sort(*names, "start")
    found = (
        pl.concat(outs).group_by([*names, "window_start"]).agg(pl.col(DIFF).sum()).filter(pl.col(DIFF) != 0)
    )
    assert (
        found.rename({"window_start": "start"})
        .select(expected.columns)
        .sort(*names, "start")
        .equals(expected)
    )
    expected = rows.select("k", "start", "end").unique().sort("k", "start")
    found = (
        pl.concat(ends).group_by("k", "window_start").agg(end=pl.col(DIFF).sum()).filter(pl.col("end") != 0)
    )
    assert found.rename({"window_start": "start"}).sort("k", "start").equals(expected)
