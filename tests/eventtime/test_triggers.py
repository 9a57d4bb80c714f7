"""Triggers, part by part: when each is ready, what state it keeps, and which are refused where they are declared."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.eventtime.triggers import kinds
from evercurrent.core.eventtime.triggers.combinators import trigger_state
from evercurrent.core.eventtime.triggers.kinds import Trigger
from evercurrent.core.eventtime.triggers.leaves import LEAVES, TriggerContext, TriggerState

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Window:
    """One window from 0 to ``end``, and its trigger, an epoch at a time."""

    def __init__(self, trigger: Trigger, end: int = 100, *, always: bool = False) -> None:
        self.part: TriggerState = trigger_state(trigger)
        self.state: dict[str, np.ndarray] = {}
        self.end, self.watermark, self.pending, self.always = end, -1, False, always

    def epoch(
        self, rows: int = 0, *, watermark: int | None = None, at: int = 0, signal: bool = False
    ) -> bool:
        """Return whether the trigger fires after these rows, with the watermark and processing time as they are then."""
        before = self.watermark
        self.watermark = before if watermark is None else watermark
        self.pending |= rows > 0
        moment = TriggerContext(
            ends=np.array([self.end]),
            rows=np.array([rows]),
            inputs={},
            patterns={},
            signalled=np.array([signal]),
            pending=np.array([self.pending]),
            watermark_before=before,
            watermark=self.watermark,
            processing_time=at,
            always=self.always,
            state=self.state,
        )
        self.part.observe(moment, np.array([True]))
        ready = self.part.ready(moment)
        assert (self.part.ready(moment) == ready).all(), "ready() changes nothing"
        self.part.fire(moment, ready)
        self.pending &= not ready[0]
        return bool(ready[0])


def test_each_kind_without_parts_has_a_state() -> None:
    """A kind that has none would be refused when the first engine compiles it, and not when it is written."""
    composed = {kinds.AfterWatermark, kinds.AnyOf, kinds.AllOf, kinds.Sequence, kinds.Repeat, kinds.Until}
    declared = {each for each in vars(kinds).values() if isinstance(each, type) and issubclass(each, Trigger)}
    assert declared - composed - {Trigger} <= LEAVES.keys()
    assert composed.isdisjoint(LEAVES)


def test_after_count_counts_since_it_last_fired() -> None:
    window = Window(ec.repeat(ec.after_count(3)))
    assert [window.epoch(rows) for rows in (2, 1, 2, 5, 3, 0)] == [False, True, False, True, True, False]


def test_after_count_alone_fires_once() -> None:
    window = Window(ec.after_count(2))
    assert [window.epoch(rows) for rows in (2, 2, 2)] == [True, False, False]


def test_a_period_is_due_at_the_first_multiple_after_the_rows() -> None:
    window = Window(ec.every(timedelta(microseconds=10)))
    assert [window.epoch(rows, at=at) for rows, at in ((1, 3), (0, 9), (0, 10))] == [False, False, True]
    # At a multiple itself, the next one is due.
    assert [window.epoch(rows, at=at) for rows, at in ((1, 20), (0, 29), (1, 35))] == [False, False, True]
    # No rows since, no timer.
    assert [window.epoch(at=at) for at in (40, 50)] == [False, False]


def test_periods_are_counted_from_where_they_are_aligned_to() -> None:
    start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=4)
    window = Window(ec.every(timedelta(microseconds=10), aligned_to=start))
    assert [window.epoch(rows, at=at) for rows, at in ((1, 3), (0, 4), (1, 5), (0, 13), (0, 14))] == [
        False, True, False, False, True,
    ]  # fmt: skip


def test_after_watermark_fires_once_and_again_only_if_repeated() -> None:
    once, again = Window(ec.after_watermark()), Window(ec.repeat(ec.after_watermark()))
    steps = [(1, 99), (1, 100), (0, 120), (1, 130)]
    assert [once.epoch(rows, watermark=mark) for rows, mark in steps] == [False, True, False, False]
    assert [again.epoch(rows, watermark=mark) for rows, mark in steps] == [False, True, False, True]


def test_early_and_late_have_their_own_counts() -> None:
    """A127: time and count separately for the early and the late phase."""
    window = Window(ec.after_watermark(early=ec.after_count(2), late=ec.after_count(3)))
    early = [window.epoch(rows, watermark=10) for rows in (1, 1, 1, 1)]
    on_time = window.epoch(watermark=100)
    late = [window.epoch(rows, watermark=110) for rows in (2, 1, 2)]
    assert (early, on_time, late) == ([False, True, False, True], True, [False, True, False])


def test_shorthand_equals_the_composed_form() -> None:
    """A122: early, on time and late as one call, and as sequence, until and repeat."""
    short = Window(ec.after_watermark(early=ec.after_count(2), late=ec.after_count(1)))
    composed = Window(
        ec.sequence(
            ec.until(ec.repeat(ec.after_count(2)), ec.after_watermark()), ec.repeat(ec.after_count(1))
        )
    )
    steps = [(1, 5), (1, 5), (3, 6), (1, 50), (1, 100), (0, 101), (1, 101), (2, 300)]
    assert [short.epoch(rows, watermark=mark) for rows, mark in steps] == [
        composed.epoch(rows, watermark=mark) for rows, mark in steps
    ]


def test_any_fires_with_the_first_part_and_restarts_all_parts() -> None:
    window = Window(ec.repeat(ec.any_of(ec.after_count(3), ec.signal())))
    assert [window.epoch(2), window.epoch(signal=True), window.epoch(2), window.epoch(1)] == [
        False, True, False, True,
    ]  # fmt: skip


def test_all_waits_for_each_and_remembers_those_that_were_ready() -> None:
    """A117: AND fires once all children have fired."""
    window = Window(ec.repeat(ec.all_of(ec.after_count(2), ec.signal())))
    assert [window.epoch(signal=True), window.epoch(1), window.epoch(1)] == [False, False, True]
    assert [window.epoch(2), window.epoch(), window.epoch(signal=True)] == [False, False, True]


def test_sequence_runs_one_after_the_other() -> None:
    window = Window(ec.sequence(ec.after_count(2), ec.signal(), ec.after_count(1)))
    assert [window.epoch(1, signal=True), window.epoch(1), window.epoch(9), window.epoch(signal=True)] == [
        False, True, False, True,
    ]  # fmt: skip
    assert [window.epoch(1), window.epoch(1, signal=True)] == [True, False]


def test_until_ends_both() -> None:
    window = Window(ec.until(ec.repeat(ec.after_count(1)), ec.signal()))
    assert [window.epoch(1), window.epoch(1), window.epoch(signal=True), window.epoch(1)] == [
        True, True, True, False,
    ]  # fmt: skip


def test_always_sets_its_timer_without_rows() -> None:
    window = Window(ec.every(timedelta(microseconds=10)), always=True)
    assert [window.epoch(at=at) for at in (0, 10)] == [False, True]


@pytest.mark.parametrize(
    ("trigger", "ends", "ends_on_time", "waits"),
    [
        (ec.every_epoch(), False, False, False),
        (ec.each_row(), False, False, False),
        (ec.after_count(1), True, False, False),
        (ec.after_watermark(), True, True, True),
        (ec.after_watermark(early=ec.every("1m")), True, True, False),
        (ec.after_watermark(late=ec.each_row()), False, False, True),
        (ec.repeat(ec.after_watermark()), False, False, True),
        (ec.until(ec.every("1m"), ec.after_watermark()), True, True, False),
        (ec.until(ec.every("1m"), ec.signal()), True, False, False),
        (ec.any_of(ec.after_watermark(), ec.signal()), True, False, False),
        (ec.all_of(ec.after_watermark(), ec.signal()), True, True, True),
        (ec.sequence(ec.after_count(1), ec.each_row()), False, False, False),
        (ec.sequence(ec.after_count(1), ec.after_watermark()), True, True, True),
    ],
)
def test_what_is_known_of_a_trigger(trigger: Trigger, ends: bool, ends_on_time: bool, waits: bool) -> None:
    found = trigger.finishes, trigger.finishes_on_time, trigger.waits_for_watermark_only
    assert found == (ends, ends_on_time, waits)


@pytest.mark.parametrize(
    ("make", "sums_of_epochs"),
    [
        (lambda: ec.every("0s"), "every: the period: .* is zero"),
        (lambda: ec.every("-1m"), "negative"),
        (lambda: ec.every("1mo"), "no fixed length"),
        (lambda: ec.every("1m", aligned_to=datetime(2026, 1, 1)), "every: aligned_to=.* with its zone"),
        (
            lambda: ec.at_period("1m", aligned_to=datetime(2026, 1, 1)),
            "at_period: aligned_to=.* with its zone",
        ),
        (lambda: ec.after_count(0), "whole number from 1"),
        (lambda: ec.after_bytes(0, "x"), "whole number from 1"),
        (lambda: ec.after_bytes(10, pl.col("x")), "not the name of a column"),  # type: ignore[arg-type]
        (lambda: ec.after_percentile(0), "between|above 0"),
        (lambda: ec.any_of(), "at least one trigger"),
        (lambda: ec.repeat("1m"), "is not a trigger"),  # type: ignore[arg-type]
        (lambda: ec.sequence(ec.each_row(), ec.after_count(1)), "never finishes"),
        (
            lambda: ec.custom_trigger(state="n", on_rows=len, should_fire=len, on_fire=len),  # type: ignore[arg-type]
            "in a list",
        ),
        (
            lambda: ec.custom_trigger(state=["rows"], on_rows=len, should_fire=len, on_fire=len),  # type: ignore[arg-type,return-value]
            "is given to the hooks anyway",
        ),
        (
            lambda: ec.custom_trigger(state=["n"], on_rows=None, should_fire=len, on_fire=len),  # type: ignore[arg-type]
            "cannot be called",
        ),
    ],
)
def test_what_makes_no_trigger_is_refused(make: object, sums_of_epochs: str) -> None:
    assert callable(make)
    with pytest.raises(ec.PlanError, match=sums_of_epochs):
        make()


def opened(trigger: Trigger | None = None, **schema: pl.DataType) -> tuple[ec.Engine, ec.Collection]:
    """An engine and rows in windows of a minute with this trigger."""
    engine = ec.Engine()
    rows = engine.source("rows", {"v": pl.Int64, "t": pl.Datetime("us"), **schema}, event_time="t")
    windowed = rows.window(ec.fixed("1m"))
    return engine, windowed if trigger is None else windowed.trigger(trigger)


def sums_by_epoch(engine: ec.Engine, batches: list[dict[str, list[object]]]) -> list[list[int]]:
    """Push the batches, an epoch each, and return the sums that the view emits in each epoch, discarding."""
    sums_of_epochs: list[list[int]] = []
    view = engine.views["sums"]
    for number, batch in enumerate(batches):
        times = [datetime(2026, 1, 1, 12)] * len(next(iter(batch.values())))
        engine.push("rows", {**batch, "t": times}, at=NOON + timedelta(seconds=number))
        sums_of_epochs.append(
            [int(v) for frame in view.deltas(engine.epoch_number - 1) for v in frame["sum"]]
        )
    return sums_of_epochs


def declare(engine: ec.Engine, rows: ec.Collection) -> None:
    engine.view("sums", rows.accumulate("discarding").group_by().agg(sum=pl.col("v").sum()))


def test_after_bytes_adds_up_a_column_or_the_length_of_a_text() -> None:
    """A113: a byte count trigger."""
    engine, rows = opened(ec.repeat(ec.after_bytes(10, "s")), s=pl.String())
    declare(engine, rows)
    texts: list[list[object]] = [["four"], ["five!", None], ["1"], ["0123456789"]]
    batches = [{"v": [1] * len(text), "s": text} for text in texts]
    assert sums_by_epoch(engine, batches) == [[], [], [4], [1]]
    engine, rows = opened(ec.repeat(ec.after_bytes(10, "v")))
    declare(engine, rows)
    assert sums_by_epoch(engine, [{"v": [4]}, {"v": [6]}, {"v": [10]}]) == [[], [10], [10]]


def test_after_bytes_fires_though_its_sum_does_not_fit_64_bits() -> None:
    huge = 1 << 62
    for batches in ([{"v": [huge] * 4}], [{"v": [huge - 1]}, {"v": [5]}, {"v": [huge - 1]}]):
        engine, rows = opened(ec.repeat(ec.all_of(ec.after_bytes(10, "v"), ec.after_count(3))))
        engine.view("sums", rows.accumulate("discarding").group_by().agg(sum=pl.len()))
        assert sums_by_epoch(engine, batches)[-1] == [sum(len(batch["v"]) for batch in batches)]


def test_a_punctuation_row_fires() -> None:
    """A114: a flush record fires the pane."""
    engine, rows = opened(ec.repeat(ec.punctuation("flush")), flush=pl.Boolean())
    declare(engine, rows)
    batches = [{"v": [1], "flush": [False]}, {"v": [2], "flush": [None]}, {"v": [3], "flush": [True]}]
    assert sums_by_epoch(engine, batches) == [[], [], [6]]


def test_a_pattern_fires_when_stop_follows_start() -> None:
    """A115: a start/stop pattern, in order of arrival, within a batch and across batches."""
    engine, rows = opened(ec.repeat(ec.pattern("a", "b")), a=pl.Boolean(), b=pl.Boolean())
    declare(engine, rows)
    both: list[dict[str, list[object]]] = [
        {"v": [1, 1], "a": [False, True], "b": [True, False]},
        {"v": [1], "a": [False], "b": [False]},
        {"v": [1], "a": [False], "b": [True]},
        {"v": [1], "a": [False], "b": [True]},
        {"v": [1, 1], "a": [True, False], "b": [False, True]},
    ]
    assert sums_by_epoch(engine, both) == [[], [], [4], [], [3]]


def test_a_start_behind_the_last_stop_begins_the_next_pattern() -> None:
    engine, rows = opened(ec.repeat(ec.pattern("a", "b")), a=pl.Boolean(), b=pl.Boolean())
    declare(engine, rows)
    batches: list[dict[str, list[object]]] = [
        {"v": [1, 1, 1], "a": [True, False, True], "b": [False, True, False]},
        {"v": [1], "a": [False], "b": [True]},
        {"v": [1], "a": [False], "b": [True]},
    ]
    assert sums_by_epoch(engine, batches) == [[3], [1], []]


def test_state_of_a_trigger_of_ones_own_has_names_of_its_own() -> None:
    def counted(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(pl.col("done") + pl.col("rows"))

    trigger = ec.custom_trigger(
        state=["done"],
        on_rows=counted,
        should_fire=lambda frame: frame["done"] >= 2,
        on_fire=lambda frame: frame.with_columns(done=pl.lit(0)),
    )
    engine, rows = opened(ec.repeat(trigger))
    declare(engine, rows)
    assert sums_by_epoch(engine, [{"v": [1]}, {"v": [1]}, {"v": [1]}, {"v": [1]}]) == [[], [2], [], [2]]


def test_after_a_percentile_comes_the_end_of_time() -> None:
    engine, rows = opened(ec.repeat(ec.after_percentile(0.9)))
    declare(engine, rows)
    assert sums_by_epoch(engine, [{"v": [1]}]) == [[]]
    engine.advance("rows", ec.END_OF_TIME)
    assert engine.views["sums"].read()["sum"].to_list() == [1]


def test_a_trigger_of_ones_own() -> None:
    """A123: a user's trigger with the four hooks; here, when three batches with rows have come."""

    def counted(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(batches=pl.col("batches") + 1)

    trigger = ec.custom_trigger(
        state=["batches"],
        on_rows=counted,
        should_fire=lambda frame: frame["batches"] >= 3,
        on_fire=lambda frame: frame.with_columns(batches=pl.lit(0)),
        on_merge=lambda frame: frame,
        name="three batches",
    )
    engine, rows = opened(ec.repeat(trigger))
    declare(engine, rows)
    assert sums_by_epoch(engine, [{"v": [1, 1]}, {"v": [1]}, {"v": [1]}, {"v": [1]}]) == [[], [], [4], []]


def test_a_trigger_of_ones_own_that_fails_changes_nothing() -> None:
    trigger = ec.custom_trigger(
        state=["n"],
        on_rows=lambda frame: frame.drop("n"),
        should_fire=lambda frame: frame["n"] > 0,
        on_fire=lambda frame: frame,
        name="broken",
    )
    engine, rows = opened(ec.repeat(trigger))
    declare(engine, rows)
    with pytest.raises(
        ec.InputError, match=r"trigger 'broken': a hook raised TypeError.*nothing has changed"
    ):
        sums_by_epoch(engine, [{"v": [1]}])
    assert engine.epoch_number == 0


def test_a_wake_up_of_ones_own() -> None:
    """A123: a processing time timer of a user's trigger: five seconds after the first row."""

    def wake(frame: pl.DataFrame) -> pl.DataFrame:
        later = pl.col("processing_time") + 5_000_000
        return frame.with_columns(wake_at=pl.when(pl.col("wake_at") == 0).then(later).otherwise("wake_at"))

    trigger = ec.custom_trigger(
        state=["wake_at"],
        on_rows=wake,
        should_fire=lambda frame: (frame["wake_at"] > 0) & (frame["wake_at"] <= frame["processing_time"]),
        on_fire=lambda frame: frame.with_columns(wake_at=pl.lit(0)),
    )
    engine, rows = opened(ec.repeat(trigger))
    declare(engine, rows)
    engine.push("rows", {"v": [1], "t": [datetime(2026, 1, 1, 12)]}, at=NOON)
    engine.tick(at=NOON + timedelta(seconds=4))
    assert engine.views["sums"].read().is_empty()
    engine.tick(at=NOON + timedelta(seconds=5))
    assert engine.views["sums"].read()["sum"].to_list() == [1]


def test_firing_from_outside() -> None:
    """A124: an outside signal, for one key and window or for all."""
    engine = ec.Engine()
    rows = engine.source("rows", {"k": pl.String, "t": pl.Datetime("us")}, event_time="t")
    waiting = rows.window(ec.fixed("1m")).trigger(ec.repeat(ec.signal()))
    view = engine.view("counts", waiting.group_by("k").agg(n=pl.len()))
    first, second = datetime(2026, 1, 1, 12), datetime(2026, 1, 1, 12, 1)
    engine.push("rows", {"k": ["a", "a", "b"], "t": [first, second, first]})
    assert view.read().is_empty()
    view.fire("a", first)
    assert view.read().select("k", "window_start").rows() == [("a", first)]
    view.fire(key={"k": "b"})
    assert view.read().height == 2
    view.fire()
    assert view.read().height == 3
    with pytest.raises(ec.InputError, match="2 values, for the keys 'k'"):
        view.fire(("a", "b"))


def test_a_percentile_of_the_rows_is_enough() -> None:
    """A116: fires when a share of the rows is expected to be there; the others come late."""
    engine = ec.Engine()
    rows = engine.source("rows", {"t": pl.Datetime("us")}, event_time="t", watermark=ec.bounded_delay("1h"))
    soon = rows.window(ec.fixed("1m")).trigger(ec.repeat(ec.after_percentile(0.9)))
    view = engine.view("counts", soon.group_by().agg(n=pl.len()))
    start = datetime(2026, 1, 1, 12)
    for second in range(59):
        engine.push("rows", {"t": [start + timedelta(seconds=second)]})
    assert view.read().is_empty()
    engine.push("rows", {"t": [start + timedelta(seconds=70)]})
    assert view.read()["n"].to_list() == [59]


@pytest.mark.parametrize("lateness", ["0s", "1d"])
def test_late_rows_of_windows_with_the_default_late_part(lateness: str) -> None:
    engine = ec.Engine()
    source = engine.source("s", {"at": pl.Datetime("us")}, event_time="at")
    windows = source.window(ec.fixed("1m")).trigger(ec.after_watermark()).lateness(lateness)
    engine.view("n", windows.group_by().len())
    late = engine.view("late", windows.late_rows())
    source.push({"at": ["2026-01-01"]}, watermark="2026-02-01")
    source.push({"at": ["2026-01-01"]})
    assert late.read().height == 1
