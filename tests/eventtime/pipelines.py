"""Random windowed pipelines and histories, for the engine and for the simulator alike.

A ``Setup`` is text: the same words are read as calls of the public interface and as objects of the simulator. Times
are seconds. A ``Run`` is a setup and a history; it prints as source that can be pasted into a test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import hypothesis.strategies as st
import polars as pl

import evercurrent as ec
from eventtime import simulated_triggers as when
from eventtime import simulated_windows as where
from eventtime import simulator as sim
from strategies import Draw

Cells = tuple[Any, ...]
"""A row: key, event time, value, size, flag."""

COLUMNS = {
    "k": pl.String(),
    "at": pl.Datetime("us"),
    "v": pl.Int64(),
    "size": pl.Int64(),
    "flag": pl.Boolean(),
}
INFO = (
    "pane_index", "nonspeculative_index", "timing", "is_first", "is_last", "pane_processing_time", "pane_watermark",
)  # fmt: skip
BOUNDS = ("window_start", "window_end")


def length(seconds: float) -> timedelta:
    """A length of time as the public interface takes it."""
    return timedelta(seconds=seconds)


@dataclass(frozen=True)
class Around:
    """The own window of a row of a session, as a function of a user."""

    gap: int
    by_size: bool = False

    def __call__(self, rows: pl.DataFrame) -> pl.DataFrame:
        times = pl.col("size") if self.by_size else 1
        return rows.select(window_start="at", window_end=pl.col("at") + times * pl.lit(length(self.gap)))


@dataclass(frozen=True)
class AtMost:
    """Windows that overlap are merged, at most so many, as a function of a user."""

    most: int

    def __call__(self, windows: pl.DataFrame) -> pl.DataFrame:
        start, end = pl.col("window_start"), pl.col("window_end")
        keys = [pl.col(name) for name in windows.columns if name not in BOUNDS] or [pl.lit(0)]
        is_apart = (start >= end.cum_max().shift().over(keys)).fill_null(value=True)
        chain = [*keys, is_apart.cum_sum().over(keys).alias("chain")]
        part = [*chain, (pl.int_range(pl.len()).over(chain) // self.most).alias("part")]
        return windows.select(start.min().over(part), end.max().over(part))


OURS: dict[str, Any] = {
    "merging": lambda gap: ec.custom_windows(Around(gap), merge=ec.merge_overlapping),
    "at_most": lambda gap, most: ec.custom_windows(Around(gap), merge=AtMost(most)),
    "by_size": lambda gap: ec.custom_windows(Around(gap, by_size=True), merge=ec.merge_overlapping),
    "fixed": lambda size, offset=0: ec.fixed(length(size), offset=length(offset)),
    "sliding": lambda size, period, offset=0: ec.sliding(
        length(size), every=length(period), offset=length(offset)
    ),
    "sessions": lambda gap: ec.sessions(length(gap)),
    "global_window": lambda: ec.global_window(),
    "every_epoch": lambda: ec.every_epoch(),
    "after_watermark": lambda early=None, late=None: ec.after_watermark(early=early, late=late),
    "at_period": lambda period: ec.at_period(length(period)),
    "after_processing_time": lambda delay: ec.after_processing_time(length(delay)),
    "after_count": lambda count: ec.after_count(count),
    "after_bytes": lambda limit: ec.after_bytes(limit, "size"),
    "punctuation": lambda: ec.punctuation("flag"),
    "signal": lambda: ec.signal(),
    "any_of": lambda *parts: ec.any_of(*parts),
    "all_of": lambda *parts: ec.all_of(*parts),
    "sequence": lambda *parts: ec.sequence(*parts),
    "repeat": lambda part: ec.repeat(part),
    "until": lambda part, end: ec.until(part, end),
}
THEIRS: dict[str, Any] = {
    "fixed": where.fixed,
    "sliding": where.Sliding,
    "sessions": where.Sessions,
    "global_window": where.Global,
    "every_epoch": when.EveryEpoch,
    "merging": where.Sessions,
    "at_most": where.AtMost,
    "by_size": where.BySize,
    "after_watermark": when.AfterWatermark,
    "at_period": when.Every,
    "after_processing_time": when.AfterProcessingTime,
    "after_count": when.AfterCount,
    "after_bytes": lambda limit: when.AfterBytes(limit, column="size"),
    "punctuation": when.Punctuation,
    "signal": when.Signal,
    "any_of": lambda *parts: when.AnyOf(list(parts)),
    "all_of": lambda *parts: when.AllOf(list(parts)),
    "sequence": lambda *parts: when.Sequence(list(parts)),
    "repeat": when.Repeat,
    "until": when.Until,
}
AGGREGATES: dict[str, tuple[pl.Expr, where.Aggregate]] = {
    "n": (pl.len(), where.length()),
    "sum": (pl.col("v").sum(), where.total("v")),
    "count": (pl.col("v").count(), where.count("v")),
    "min": (pl.col("v").min(), where.least("v")),
    "max": (pl.col("v").max(), where.greatest("v")),
    "distinct": (pl.col("v").n_unique(), where.distinct("v")),
    "first": (pl.col("v").first(), where.first("v")),
    "last": (pl.col("v").last(), where.last("v")),
}
ADDITIVE = ("n", "sum", "count")


def read_as(namespace: dict[str, Any], text: str) -> Any:
    """What a text means in the one or the other language."""
    return eval(text, {"__builtins__": {}}, namespace)


@dataclass(frozen=True)
class Epoch:
    """Rows with diffs, the watermark by hand (None: it stays; inf: no more rows), processing time.

    A signal is for the windows of a ``key``, or for all.
    """

    rows: list[tuple[Cells, int]] = field(default_factory=list)
    watermark: float | None = None
    at: int = 0
    fires: bool = False
    key: str | None = None


@dataclass(frozen=True)
class Setup:
    """What is computed, where, when and how, in words. ``delay``: of a bounded delay; None: by hand only."""

    window: str
    trigger: str | None = None
    mode: sim.Mode = "retracting"
    lateness: int | None = None
    always: Literal[True, False, "on_time"] = False
    aggregates: tuple[str, ...] = ("sum",)
    keys: tuple[str, ...] = ("k",)
    info: bool = False
    appends: bool = False
    delay: int | None = None

    @property
    def is_global(self) -> bool:
        """Whether panes have no bounds."""
        return self.window == "global_window()"

    def pipeline(self) -> sim.Pipeline:
        """For the simulator."""
        return sim.Pipeline(
            read_as(THEIRS, self.window),
            {name: AGGREGATES[name][1] for name in self.aggregates},
            keys=self.keys,
            trigger=read_as(THEIRS, self.trigger or "every_epoch()"),
            mode=self.mode,
            lateness=self.lateness,
            always=self.always,
            pane_info=self.info,
        )

    def source(self, engine: ec.Engine) -> Any:
        """The source that the history is pushed into."""
        return engine.source(
            "a",
            COLUMNS,
            kind="append" if self.appends else "diffs",
            event_time="at",
            watermark=None if self.delay is None else ec.bounded_delay(length(self.delay)),
            bounded=self.is_global,
        )

    def panes(self, source: Any) -> Any:
        """Through the public interface."""
        windowed = source.window(read_as(OURS, self.window))
        if self.trigger is not None or self.always:
            trigger = read_as(OURS, self.trigger or "every_epoch()")
            windowed = windowed.trigger(trigger, always=self.always)
        if self.mode != "retracting":
            windowed = windowed.accumulate(self.mode)
        if self.lateness is not None:
            windowed = windowed.lateness(length(self.lateness))
        if self.info:
            windowed = windowed.with_pane_info()
        return windowed.group_by(*self.keys).agg(**{name: AGGREGATES[name][0] for name in self.aggregates})

    def late_rows(self, source: Any) -> Any:
        """The rows that are refused, as a collection."""
        assert self.lateness is not None
        return source.window(read_as(OURS, self.window)).lateness(length(self.lateness)).late_rows()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the panes in order."""
        bounds = () if self.is_global else BOUNDS
        return (*self.keys, *bounds, *self.aggregates, *(INFO if self.info else ()))


@dataclass(frozen=True)
class Run:
    """A setup and its history; ``origin`` is added to all times, in seconds since 1970."""

    setup: Setup
    epochs: list[Epoch]
    origin: int = 0

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How Hypothesis prints a failure."""
        epochs = "".join(f"\n        {epoch!r}," for epoch in self.epochs)
        printer.text(f"Run(\n    {self.setup!r},\n    [{epochs}\n    ],\n    origin={self.origin},\n)")

    def moment(self, seconds: float) -> datetime:
        """An instant of the history."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=self.origin + seconds)

    def watermark(self, epoch: Epoch) -> datetime | int | None:
        """The watermark of an epoch as the public interface takes it."""
        if epoch.watermark is None:
            return None
        return ec.END_OF_TIME if epoch.watermark == float("inf") else self.moment(epoch.watermark)

    def seconds(self, cell: Any) -> Any:
        """An instant of the engine in seconds of the simulator; any other value as it is."""
        if not isinstance(cell, datetime):
            return cell
        since = cell.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        assert since % timedelta(seconds=1) == timedelta(), f"{cell} is not a whole second"
        return since // timedelta(seconds=1)


class Both:
    """A run on the engine and in the simulator, epoch by epoch."""

    def __init__(self, run: Run, **options: Any) -> None:
        self.run = run
        self.engine = ec.Engine(**options)
        source = run.setup.source(self.engine)
        self.view = self.engine.view("panes", run.setup.panes(source))
        has_ledger = run.setup.lateness is not None and not run.setup.is_global
        self.late = self.engine.view("late", run.setup.late_rows(source)) if has_ledger else None
        self.simulator = sim.Simulator(run.setup.pipeline())
        self._latest = where.START_OF_TIME

    def frame(self, epoch: Epoch) -> pl.DataFrame:
        """The rows of an epoch as they are pushed."""
        rows = [
            (key, self.run.moment(t).replace(tzinfo=None), *rest, diff)
            for (key, t, *rest), diff in epoch.rows
        ]
        schema = {**COLUMNS, "_diff": pl.Int64()}
        frame = pl.DataFrame(rows, schema=schema, orient="row")
        return frame.drop("_diff") if self.run.setup.appends else frame

    def push(self, epoch: Epoch) -> int:
        """The epoch on the engine."""
        at = self.run.moment(epoch.at)
        if epoch.fires:
            return int(self.view.fire(epoch.key, at=at))
        watermark: Any = None
        if epoch.watermark is not None:
            watermark = (
                ec.END_OF_TIME if epoch.watermark == float("inf") else self.run.moment(epoch.watermark)
            )
        return self.engine.push("a", self.frame(epoch), at=at, watermark=watermark)

    def simulated(self, epoch: Epoch) -> sim.Outcome:
        """The epoch in the simulator."""
        origin, setup = self.run.origin, self.run.setup
        rows = [
            (dict(zip(COLUMNS, (key, origin + t, *rest), strict=True)), diff)
            for (key, t, *rest), diff in epoch.rows
        ]
        watermark = None
        if epoch.watermark is not None:
            watermark = (
                where.END_OF_TIME if epoch.watermark == float("inf") else origin + int(epoch.watermark)
            )
        if setup.delay is not None and not epoch.fires:
            added = [row["at"] for row, diff in sim.consolidated(rows).values() if diff > 0]
            if added:
                self._latest = max(self._latest, *added)
            if self._latest > where.START_OF_TIME:
                watermark = max(
                    self._latest - setup.delay, where.START_OF_TIME if watermark is None else watermark
                )
        return self.simulator.step(
            rows,
            watermark,
            origin + epoch.at,
            signals=lambda key, bounds: epoch.fires and epoch.key in (None, *key),
        )

    def counted(self, frame: pl.DataFrame, columns: Sequence[str]) -> Counter[Cells]:
        """The rows of a frame with their diffs, times as in the simulator."""
        diffs = frame["_diff"] if "_diff" in frame.columns else [1] * frame.height
        counts: Counter[Cells] = Counter()
        for row, diff in zip(frame.select(columns).iter_rows(), diffs, strict=True):
            counts[tuple(map(self.run.seconds, row))] += diff
        return Counter({row: diff for row, diff in counts.items() if diff})

    def delta(self, view: Any, epoch: int, columns: Sequence[str]) -> Counter[Cells]:
        """What an epoch changed in a view."""
        frames = list(view.deltas(since=epoch - 1))
        return self.counted(frames[0], columns) if frames else Counter()


# Random setups


WINDOWS = (
    "fixed(10)", "fixed(7, 3)", "sliding(10, 5)", "sliding(7, 3, 1)", "sliding(4, 6)", "sessions(5)", "sessions(3)",
    "sessions(8)", "global_window()",
)  # fmt: skip
"""Windows, sessions more than their share."""

MERGING = ("merging(5)", "at_most(5, 2)", "by_size(3)")
"""Windows that a user's function merges, as sessions and otherwise: with a lateness they are kept as sessions are."""


@st.composite
def once(draw: Draw, depth: int = 2) -> str:
    """A trigger that finishes, or may."""
    leaves = [
        f"after_count({draw(st.integers(1, 4))})", f"at_period({draw(st.sampled_from([5, 10, 30]))})",
        f"after_processing_time({draw(st.sampled_from([3, 10]))})",
        "punctuation()", f"after_bytes({draw(st.integers(1, 6))})", "signal()", "after_watermark()",
    ]  # fmt: skip
    if not depth:
        return draw(st.sampled_from(leaves))
    kind = draw(st.sampled_from(["leaf", "leaf", "any_of", "all_of", "sequence", "until", "after_watermark"]))
    below = once(depth - 1)
    match kind:
        case "any_of" | "all_of" | "sequence":
            return f"{kind}({', '.join(draw(st.lists(below, min_size=1, max_size=3)))})"
        case "until":
            return f"until({draw(lasting(depth - 1))}, {draw(below)})"
        case "after_watermark":
            return f"after_watermark(early={draw(below | lasting(depth - 1))})"
        case _:
            return draw(st.sampled_from(leaves))


@st.composite
def lasting(draw: Draw, depth: int = 2) -> str:
    """A trigger that never finishes."""
    if not depth:
        return draw(st.sampled_from(["every_epoch()", "repeat(after_count(1))", "repeat(at_period(10))"]))
    below = once(depth - 1)
    kinds = ["repeat", "repeat", "sequence", "after_watermark", "after_watermark", "late", "every_epoch"]
    match draw(st.sampled_from(kinds)):
        case "repeat":
            return f"repeat({draw(below)})"
        case "sequence":
            return f"sequence({draw(below)}, {draw(lasting(depth - 1))})"
        case "after_watermark":
            early, late = draw(below | lasting(depth - 1)), draw(below | lasting(depth - 1))
            return f"after_watermark(early={early}, late={late})"
        case "late":
            return f"after_watermark(late={draw(below | lasting(depth - 1))})"
        case _:
            return "every_epoch()"


@st.composite
def setups(draw: Draw, /, **given: Any) -> Setup:
    """Any setup; what is given is as given."""

    def choose(name: str, among: st.SearchStrategy[Any]) -> Any:
        return given[name] if name in given else draw(among)

    may_close = "lateness" not in given or given["lateness"] is not None
    kinds = (*WINDOWS, *MERGING) if may_close else WINDOWS
    # A row that comes may split such a window, which discarding panes cannot express: refused when it does.
    splits = tuple(window for window in MERGING if window.startswith("at_most"))
    kinds = tuple(each for each in kinds if given.get("mode") != "discarding" or each not in splits)
    window = choose("window", st.sampled_from(kinds))
    modes = ["retracting", "retracting", "accumulating"]
    modes += [] if window.startswith("at_most") else ["discarding"]
    mode = choose("mode", st.sampled_from(modes))
    closing = [0, 0, 4, 20]
    lateness = choose("lateness", st.sampled_from(closing if window in MERGING else [None, *closing]))
    triggers: st.SearchStrategy[str | None] = lasting() | st.none()
    if lateness == 0:
        triggers |= st.just("after_watermark()") | once(1).map("after_watermark(early={})".format)
    trigger = choose("trigger", triggers)
    # Discarding panes of sessions forget their rows, which could be taken back: refused at definition.
    forgets = mode == "discarding" and window.startswith(("sessions", "merging", "at_most", "by_size"))
    # One group over all time that is always current has a row before any input, as an unwindowed one has.
    is_plain = window == "global_window()" and trigger in (None, "every_epoch()")
    few = ADDITIVE if mode == "discarding" else list(AGGREGATES)
    return Setup(
        window=window,
        trigger=trigger,
        mode=mode,
        lateness=lateness,
        always=choose("always", st.sampled_from([False, False, True, "on_time"])),
        aggregates=choose(
            "aggregates", st.lists(st.sampled_from(few), min_size=1, max_size=3, unique=True).map(tuple)
        ),
        keys=("k",) if is_plain else choose("keys", st.sampled_from([("k",), ("k",), ()])),
        info=choose("info", st.booleans()),
        appends=forgets or choose("appends", st.booleans()),
        delay=choose("delay", st.sampled_from([None, None, 0, 3])),
    )


# Random histories

KEYS = ["a", "a", "b", None]
TIMES = st.integers(0, 24)


def rows() -> st.SearchStrategy[Cells]:
    """A row out of few values, most of them apart in time only."""
    return st.tuples(
        st.sampled_from(KEYS),
        TIMES,
        st.sampled_from([1, 2, 3, None]),
        st.sampled_from([1, 1, 3]),
        st.sampled_from([False, False, True]),
    )


@st.composite
def histories(
    draw: Draw,
    *,
    appends: bool,
    by_hand: bool = True,
    counting: bool = False,
    signals: bool = False,
    max_epochs: int = 7,
    ends: bool | None = None,
) -> list[Epoch]:
    """Rows in any order, watermarks by hand, steps of processing time, deletions of rows that are there.

    No row comes in the epoch in which it goes; and for triggers that count rows, or always fire, none comes where any goes: rows that
    differ only in columns that a view does not look at may or may not be rows that came and went.
    """
    at, watermark, held, epochs = 0, -5, Counter[Cells](), []
    for _ in range(draw(st.integers(1, max_epochs))):
        at += draw(st.sampled_from([0, 1, 4, 12, 40]))
        if signals and draw(st.integers(0, 4)) == 4:
            epochs.append(Epoch(at=at, fires=True))
            continue
        entries = [(row, 1) for row in draw(st.lists(rows(), max_size=4))]
        there = sorted(held.elements(), key=repr)
        if there and not appends:
            gone = draw(st.lists(st.integers(0, len(there) - 1), max_size=3, unique=True))
            entries += [(there[number], -1) for number in gone]
        going = {row for row, diff in entries if diff < 0}
        entries = [
            (row, diff) for row, diff in entries if diff < 0 or not (row in going or (counting and going))
        ]
        for row, diff in entries:
            held[row] += diff
        step = draw(st.sampled_from([None, None, 2, 5, 9, 30])) if by_hand else None
        watermark += step or 0
        epochs.append(Epoch(entries, None if step is None else watermark, at))
    if draw(st.integers(0, 2)) == 0 if ends is None else ends:
        epochs.append(Epoch([], float("inf"), at + draw(st.sampled_from([0, 50]))))
    return epochs


@st.composite
def runs(draw: Draw, /, *, max_epochs: int = 7, ends: bool | None = None, **fixed: Any) -> Run:
    """A setup with a history."""
    setup = draw(setups(**fixed))
    signals = "signal" in (setup.trigger or "")
    is_counting = any(word in (setup.trigger or "") for word in ("count", "bytes", "punctuation"))
    epochs = draw(
        histories(
            appends=setup.appends,
            by_hand=setup.delay is None,
            counting=is_counting or bool(setup.always),
            signals=signals,
            max_epochs=max_epochs,
            ends=ends,
        )
    )
    return Run(setup, epochs, draw(st.sampled_from([0, -11, 1_700_000_003])))
