"""Windows that a user's function merges are what lists of Python hold after every epoch, are proved, and survive a restart."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
from evercurrent.core.data.schema import DIFF
from strategies import of_profile
from thinned import IS_LONG

NOON = datetime(2026, 1, 1, 12)
COLUMNS = {"id": pl.Int64, "k": pl.String, "v": pl.Int64, "long": pl.Int64, "t": pl.Datetime("us")}
Span = tuple[int, int]
Row = tuple[int, str, int, int, int]
"""A number, the key, the value, how long its own window is, and its start, in seconds past noon."""


def when(seconds: int) -> datetime:
    return NOON + timedelta(seconds=seconds)


def seconds_of(instant: datetime) -> int:
    return int((instant - NOON).total_seconds())


def own_windows(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(window_start="t", window_end=pl.col("t") + pl.duration(seconds="long"))


# Merges, of the different windows of one key by start and end


def boxed(groups: list[list[Span]]) -> dict[Span, Span]:
    return {
        each: (min(start for start, _ in group), max(end for _, end in group))
        for group in groups
        for each in group
    }


def chains(spans: list[Span]) -> list[list[Span]]:
    groups: list[list[Span]] = []
    for span in spans:
        if groups and span[0] < max(end for _, end in groups[-1]):
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups


def overlapping(spans: list[Span]) -> dict[Span, Span]:
    return boxed(chains(spans))


def three_at_most(spans: list[Span]) -> dict[Span, Span]:
    return boxed([group[at : at + 3] for group in chains(spans) for at in range(0, len(group), 3)])


def all_of_the_key(spans: list[Span]) -> dict[Span, Span]:
    return boxed([spans])


def apart_by_parity(spans: list[Span]) -> dict[Span, Span]:
    """Two merged windows of a key may overlap."""
    return {
        each: window
        for odd in (0, 1)
        for each, window in boxed(chains([span for span in spans if span[0] % 2 == odd])).items()
    }


def ended_by_the_short(spans: list[Span]) -> dict[Span, Span]:
    """A window of three seconds is the last of its chain: when it comes, the chain is split."""
    groups: list[list[Span]] = []
    for chain in chains(spans):
        groups.append([])
        for span in chain:
            groups[-1].append(span)
            if span[1] - span[0] == 3:
                groups.append([])
    return boxed([group for group in groups if group])


def last_two(spans: list[Span]) -> dict[Span, Span]:
    """What merged before splits as rows come."""
    return boxed([*([span] for span in spans[:-2]), spans[-2:]])


def of_twenty(spans: list[Span]) -> dict[Span, Span]:
    """Rounded outwards: not associative, since own windows are longer afterwards."""
    return {span: (span[0] // 20 * 20, -(-span[1] // 20) * 20) for span in spans}


def cut_off(spans: list[Span]) -> dict[Span, Span]:
    return {(start, end): (start, end - 1) for start, end in spans}


Merge = Callable[[list[Span]], dict[Span, Span]]
MERGES: list[Merge] = [
    overlapping, three_at_most, all_of_the_key, apart_by_parity, ended_by_the_short, last_two, of_twenty, cut_off,
]  # fmt: skip


def of_frames(merge: Merge) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """The same for frames of the windows of several keys."""

    def merged(windows: pl.DataFrame) -> pl.DataFrame:
        rows = [(k, (seconds_of(start), seconds_of(end))) for k, start, end in windows.rows()]
        spans: dict[str, list[Span]] = {}
        for k, span in rows:
            spans.setdefault(k, []).append(span)
        assert all(each == sorted(set(each)) for each in spans.values())
        merged_of = {k: merge(each) for k, each in spans.items()}
        return pl.DataFrame(
            [[when(second) for second in merged_of[k][span]] for k, span in rows],
            {"window_start": pl.Datetime("us"), "window_end": pl.Datetime("us")},
            orient="row",
        )

    return merged


AGGREGATES: dict[str, tuple[Callable[[list[int]], Any], pl.Expr]] = {
    "sum": (sum, pl.col("v").sum()),
    "most": (max, pl.col("v").max()),
    "middle": (lambda values: float(median(values)), pl.col("v").median()),
    "all": (sorted, pl.col("v").sort().implode()),
}


class RefusedError(Exception):
    """An epoch that is to be refused."""


@dataclass(frozen=True)
class Oracle:
    """All accepted rows of windows that are open, and the panes of closed ones; every epoch is computed from the rows."""

    merge: Merge
    aggregate: Callable[[list[int]], Any]
    lateness: int
    watermark: int | None = None
    open_rows: Counter[Row] = field(default_factory=Counter)
    closed: tuple[Any, ...] = ()
    late: int = 0

    def after(self, changes: list[tuple[Row, int]], watermark: int | None) -> Oracle:
        """The state after an epoch, or ``RefusedError``."""
        now = self.watermark if watermark is None else watermark
        rows, late = Counter(self.open_rows), 0
        for row, diff in changes:
            if self._is_over(row[4] + row[3], self.watermark):
                late += abs(diff)
            else:
                rows[row] += diff
        rows = Counter({row: count for row, count in rows.items() if count})
        windows = self._windows(rows)
        for row, (start, end) in windows.items():
            others = {windows[other] for other in windows if other[1] == row[1]}
            if (
                start > row[4]
                or end < row[4] + row[3]
                or any(each[0] == start and each[1] != end for each in others)
            ):
                raise RefusedError
        rest = Counter({row: rows[row] for row in rows if not self._is_over(windows[row][1], now)})
        if any(window != windows[row] for row, window in self._windows(rest).items()):
            raise RefusedError
        over = Counter({row: rows[row] for row in rows if row not in rest})
        closed = (*self.closed, *self._panes(over, windows))
        return replace(self, watermark=now, open_rows=rest, closed=closed, late=self.late + late)

    @property
    def panes(self) -> list[Any]:
        return sorted(map(str, (*self.closed, *self._panes(self.open_rows, self._windows(self.open_rows)))))

    def _is_over(self, end: int, watermark: int | None) -> bool:
        return watermark is not None and end + self.lateness <= watermark

    def _windows(self, rows: Counter[Row]) -> dict[Row, Span]:
        spans: dict[str, set[Span]] = {}
        for row in rows:
            spans.setdefault(row[1], set()).add((row[4], row[4] + row[3]))
        merged = {k: self.merge(sorted(each)) for k, each in spans.items()}
        return {row: merged[row[1]][row[4], row[4] + row[3]] for row in rows}

    def _panes(self, rows: Counter[Row], windows: dict[Row, Span]) -> list[Any]:
        values: dict[Any, list[int]] = {}
        for row, count in rows.items():
            values.setdefault((row[1], *map(when, windows[row])), []).extend([row[2]] * count)
        return [(*pane, self.aggregate(each)) for pane, each in values.items()]


Change = tuple[list[tuple[Row, int]], int | None]


def history(draw: random.Random, kind: str) -> list[Change]:
    """Epochs of changes around a watermark that moves: rows that come late, meet, and are taken back or replaced."""
    epochs: list[Change] = []
    present: dict[int, Row] = {}
    watermark, number = 0, 0
    for _ in range(draw.randint(3, 12)):
        changes: list[tuple[Row, int]] = []
        before = dict(present)
        for _ in range(draw.choice([0, 1, 1, 2, 4])):
            number += 1
            start = draw.randint(watermark - 25, watermark + 40)
            row = (number, draw.choice("ab"), draw.randint(0, 5), draw.choice([3, 5, 10, 10, 16]), start)
            if kind == "upsert" and before and draw.random() < 0.4:
                at = draw.choice(sorted(before))
                changes.append((before.pop(at), -1))
                row = (at, *row[1:])
            changes.append((row, 1))
            present[row[0]] = row
        for at, row in before.items() if kind == "diffs" else ():
            if draw.random() < 0.2:
                changes.append((row, -1))
                del present[at]
        moves = draw.random() < 0.5
        watermark += draw.randint(0, 20) if moves else 0
        epochs.append((changes, watermark if moves else None))
    return [*epochs, ([], 100_000)]


@dataclass
class Run:
    """An engine with views on windows that merge, of each trigger and mode."""

    merge: Merge
    expr: pl.Expr
    lateness: int
    kind: Any
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.engine = self.opened()

    def opened(self) -> ec.Engine:
        engine = ec.Engine(**self.options)
        key = {"key": "id"} if self.kind == "upsert" else {}
        rows = engine.source("rows", COLUMNS, event_time="t", kind=self.kind, retained=True, **key)
        windowed = rows.window(ec.custom_windows(own_windows, of_frames(self.merge))).lateness(
            f"{self.lateness}s"
        )
        engine.view("refined", windowed.group_by("k").agg(x=self.expr))
        early = ec.after_watermark(early=ec.after_count(2), late=ec.after_count(3))
        for name, trigger in (("timed", early), ("counted", ec.repeat(ec.after_count(3)))):
            for mode in ("retracting", "accumulating"):
                panes = windowed.trigger(trigger).accumulate(mode).group_by("k").agg(x=self.expr)
                view = engine.view(f"{name} {mode}", panes)
                if mode == "accumulating":
                    engine.view(f"{name} last", view.latest())
        return engine

    def push(self, changes: list[tuple[Row, int]], watermark: int | None) -> None:
        if self.kind == "diffs":
            rows: list[Any] = [(*row[:4], when(row[4]), diff) for row, diff in changes]
        else:
            rows = [(*row[:4], when(row[4])) for row, diff in changes if diff > 0]
        self.engine.push("rows", rows, watermark=None if watermark is None else when(watermark))

    def panes(self, name: str) -> list[str]:
        return sorted(map(str, self.engine.views[name].read().rows()))

    def late(self) -> int:
        ledger = self.engine.ledger().filter(pl.col("reason").str.starts_with("too late for view 'refined'"))
        return int(ledger[DIFF].abs().sum())


runs = {
    "draw": st.randoms(use_true_random=False),
    "merge": st.sampled_from(MERGES),
    "aggregate": st.sampled_from(sorted(AGGREGATES)),
    "lateness": st.sampled_from([0, 5, 20]),
    "kind": st.sampled_from(["append", "diffs", "upsert"]),
}


def assert_proved(run: Run, epoch: int | None = None) -> None:
    """Prove all views that can be proved; of an epoch one of them, another in each, unless the profile is the long one."""
    provable = [name for name in run.engine.views if "accumulating" not in name]
    if epoch is not None and not IS_LONG:
        proof = run.engine.views[provable[epoch % len(provable)]].prove()
        assert proof, proof
        return
    proofs = run.engine.prove()
    assert proofs, proofs
    assert list(proofs) == provable


def check(
    draw: random.Random, merge: Merge, aggregate: str, lateness: int, kind: str, *, workers: int
) -> None:
    """After each epoch, refused ones included, which change nothing; with each trigger once all is closed."""
    in_lists, expr = AGGREGATES[aggregate]
    run, oracle = Run(merge, expr, lateness, kind, {"workers": workers}), Oracle(merge, in_lists, lateness)
    for number, (changes, watermark) in enumerate(history(draw, kind)):
        try:
            after = oracle.after(changes, watermark)
        except RefusedError:
            with pytest.raises(ec.InputError, match="nothing has changed"):
                run.push(changes, watermark)
            assert run.panes("refined") == oracle.panes
            assert_proved(run)
            return  # Later changes may be of rows that never came.
        run.push(changes, watermark)
        oracle = after
        assert run.panes("refined") == oracle.panes
        assert run.late() == oracle.late
        if workers == 1 or IS_LONG:  # A proof is of a fork, which has one worker.
            assert_proved(run, number)
    assert_proved(run)
    for name in run.engine.views:
        if "accumulating" not in name:
            assert run.panes(name) == oracle.panes, name


@pytest.mark.parametrize("seed", [1, 2, 4, 9, 16, 36])
def test_histories_in_which_planted_faults_are_found(seed: int) -> None:
    """Chosen of forty: faults in closing, moving, waiting and proving are each found in one of them. After a change of ``history``
    others have to be chosen."""
    choose = random.Random(seed)
    merge, aggregate = choose.choice(MERGES), choose.choice(sorted(AGGREGATES))
    lateness, kind = choose.choice([0, 5, 20]), choose.choice(["append", "diffs", "upsert"])
    check(random.Random(seed), merge, aggregate, lateness, kind, workers=1)


@pytest.mark.parametrize("workers", [1, 2])
@of_profile(0.2, quick=6)
@given(**runs)
def test_merging_windows_are_those_of_lists_and_are_proved(
    workers: int, draw: random.Random, merge: Merge, aggregate: str, lateness: int, kind: str
) -> None:
    check(draw, merge, aggregate, lateness, kind, workers=workers)


@of_profile(0.1, quick=4)
@given(**runs)
def test_merging_windows_go_on_after_restarts_and_in_forks(
    draw: random.Random, merge: Merge, aggregate: str, lateness: int, kind: str
) -> None:
    _, expr = AGGREGATES[aggregate]
    with TemporaryDirectory() as folder:
        once = Run(merge, expr, lateness, kind)
        often = Run(merge, expr, lateness, kind, {"checkpoint": Path(folder)})
        for changes, watermark in history(draw, kind):
            messages = []
            for run in (once, often):
                try:
                    run.push(changes, watermark)
                    messages.append("")
                except ec.InputError as error:
                    messages.append(str(error))
            assert messages[0] == messages[1]
            for name in once.engine.views:
                assert often.panes(name) == once.panes(name)
            assert often.engine.ledger().rows() == once.engine.ledger().rows()
            once.engine = once.engine.fork()
            if draw.random() < 0.7:
                if draw.random() < 0.5:
                    often.engine.checkpoint()
                often.engine.close()
                often.engine = often.opened()
            if messages[0]:
                break
        often.engine.close()


# What a function may not do


def of_all_keys(windows: pl.DataFrame) -> pl.DataFrame:
    return windows.select(pl.col("window_start").min(), pl.col("window_end").max()).select(
        pl.all().repeat_by(windows.height).explode()
    )


def of_the_key_before(windows: pl.DataFrame) -> pl.DataFrame:
    """Merges what overlaps, and forgets ``.over("k")``."""
    reached = pl.col("window_end").cum_max().shift()
    merged = (pl.col("window_start") >= reached).fill_null(True).cum_sum()
    return windows.select(pl.col("window_start").min().over(merged), pl.col("window_end").max().over(merged))


def at_random() -> Callable[[pl.DataFrame], pl.DataFrame]:
    numbers = random.Random(0)
    return lambda windows: windows.with_columns(
        pl.col("window_start") - pl.duration(microseconds=numbers.randrange(10**9))
    )


@pytest.mark.parametrize("lateness", [None, "1h"])
@pytest.mark.parametrize(
    "merge", [of_all_keys, of_the_key_before, at_random()], ids=["all", "before", "random"]
)
def test_a_merge_that_does_not_follow_from_the_windows_of_its_key_is_refused(
    merge: Any, lateness: str | None
) -> None:
    """Otherwise what it gave could not be taken back, and counts below zero would be left."""
    engine = ec.Engine()
    windowed = engine.source("rows", COLUMNS, event_time="t").window(ec.custom_windows(own_windows, merge))
    view = engine.view(
        "v", (windowed.lateness(lateness) if lateness else windowed).group_by("k").agg(n=pl.len())
    )
    rows = [(1, "a", 0, 10, 0), (2, "b", 0, 10, 5), (3, "c", 0, 10, 33)]
    with pytest.raises(ec.InputError) as refusal:
        engine.push("rows", [(*row[:4], when(row[4])) for row in rows])
    assert (
        "must follow from the windows of its key and nothing else: compute what it returns .over('k')"
        in str(refusal.value)
    )
    assert "called again, without other keys" in str(refusal.value)
    assert not view.read().height
    assert engine.epoch_number == 0


# Proofs

KINDS = {
    "sessions": ec.sessions("10s"),
    "merged": ec.custom_windows(
        lambda rows: rows.select(window_start="t", window_end=pl.col("t") + timedelta(seconds=10)),
        ec.merge_overlapping,
    ),
}


def proved(kind: str, lateness: str | None = "0s") -> tuple[ec.Engine, ec.Collection]:
    engine = ec.Engine()
    windowed = engine.source("rows", COLUMNS, event_time="t", retained=True).window(KINDS[kind])
    return engine, (windowed.lateness(lateness) if lateness else windowed).group_by("k").agg(n=pl.len())


def push(engine: ec.Engine, *starts: int, watermark: int | None = None) -> None:
    rows = [(0, "a", 0, 10, when(start)) for start in starts]
    engine.push("rows", rows, watermark=None if watermark is None else when(watermark))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_windows_that_had_closed_before_rows_came_are_named_in_proofs(kind: str) -> None:
    """A row that is in time by its own window meets one whose rows were purged: the two stay apart, as in the view."""
    engine, panes = proved(kind)
    view = engine.view("v", panes)
    push(engine, 0, 40, watermark=10)
    assert not view.prove().unproved.get("they wait for their trigger", pl.DataFrame()).height
    push(engine, 5)
    proof = view.prove()
    assert proof, proof
    assert proof.rows == 3
    reason = "they had closed, and their rows were purged, when rows came that would be merged into them"
    assert proof.unproved[reason].rows() == [("a", when(0), when(10))]
    assert f"not proved, as {reason}: window k a, window_start" in repr(proof)
    push(engine, 100, 105, watermark=300)
    push(engine, 400)
    assert view.prove().unproved[reason].rows() == [("a", when(0), when(10))]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_without_a_view_of_the_panes_windows_that_may_have_closed_before_are_not_proved(kind: str) -> None:
    engine, panes = proved(kind)
    view = engine.view("sizes", panes.group_by("n").agg(windows=pl.len()))
    push(engine, 0, 50, watermark=10)
    assert view.prove()
    push(engine, 5)
    with pytest.raises(ec.InputError, match="there is no view of their panes that shows it; declare one"):
        view.prove()


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_with_a_view_of_the_panes_what_is_made_of_them_is_proved(kind: str) -> None:
    engine, panes = proved(kind)
    engine.view("panes", panes)
    view = engine.view("sizes", panes.group_by("n").agg(windows=pl.len()))
    push(engine, 0, 50, watermark=10)
    push(engine, 5)
    assert view.prove()
    assert view.prove().over == ("source 'rows'",)


@pytest.mark.parametrize("lateness", [None, "0s", "1h"])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_proof_finds_each_planted_fault_in_windows_that_merge(kind: str, lateness: str | None) -> None:
    """A pane with another count, or gone, of windows that are open and of those that have closed."""
    engine, panes = proved(kind, lateness)
    view = engine.view("v", panes)
    push(engine, 0, 5, 30, 52, 58, watermark=40)
    push(engine, 66)
    assert view.prove()
    spine = engine._current().contents["v"].spine
    version, kept = spine.version, spine.runs
    planted = 0
    for at, run in enumerate(kept):
        for entry in range(len(run)):
            sums = {each: values.copy() for each, values in run.sums.items()}
            sums[DIFF if DIFF in sums else "length"][entry] += 1
            spine.version = version.with_parts((*kept[:at], replace(run, sums=sums), *kept[at + 1 :]), ())
            assert not view.prove()
            planted += 1
    spine.version = version
    assert planted >= 3
    assert view.prove()


def test_windows_that_a_function_assigns_and_none_merges_are_proved() -> None:
    engine = ec.Engine()
    rows = engine.source("rows", COLUMNS, event_time="t", retained=True)
    view = engine.view(
        "v", rows.window(ec.custom_windows(own_windows)).lateness("5s").group_by("k").agg(n=pl.len())
    )
    push(engine, 0, 0, 7, watermark=12)
    push(engine, 3)
    assert view.prove()
    assert view.prove().rows == 3
