"""Programs whose checkpoints are kept in ``tests/data``, written with the public names alone, and what can be read of them.

A program declares which views there are, and gives input by the number of the epoch. Where a kept program needs functions
they are of libraries: code of ours would be another one with every version of Python.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

import evercurrent as ec

DATA = Path(__file__).resolve().parents[1] / "data"
NOON = datetime(2026, 1, 31, 12)


@dataclass(frozen=True)
class KeptProgram:
    """What is kept in a folder, or in a zip file of one: the first ``kept_at`` epochs of ``epochs``, in this format."""

    folder: str
    declare: Callable[[ec.Engine], None]
    push: Callable[[ec.Engine, int], None]
    kept_at: int = 3
    epochs: int = 5
    form: int = 1

    @property
    def path(self) -> Path:
        """Where it is kept."""
        return DATA / self.folder

    def copied(self, to: Path) -> Path:
        """What is kept, in a folder where it can go on."""
        if self.path.is_dir():
            return Path(shutil.copytree(self.path, to))
        shutil.unpack_archive(self.path.with_name(f"{self.folder}.zip"), to)
        return to

    def opened(self, folder: Path | None, epochs: range) -> ec.Engine:
        """An engine with the views, on a checkpoint or in memory, after these epochs."""
        engine = ec.Engine() if folder is None else ec.Engine(checkpoint=folder)
        self.declare(engine)
        for epoch in epochs:
            self.push(engine, epoch)
        return engine


def contents(engine: ec.Engine) -> dict[str, list[str]]:
    """The rows of all views, in an order that does not depend on their state."""
    return {name: sorted(map(repr, view.read().rows())) for name, view in engine.views.items()}


def shown(engine: ec.Engine) -> dict[str, object]:
    """All that can be read of an engine; the rows of a delta, which have no order, sorted."""
    parts: dict[str, object] = {name: view.read().rows() for name, view in engine.views.items()}
    parts |= {
        f"deltas of {name}": [sorted(frame.rows(), key=repr) for frame in view.deltas()]
        for name, view in engine.views.items()
    }
    return parts | {"ledger": engine.ledger().rows(), "watermarks": engine.watermarks, "at": engine.positions}


# Views with states of every kind


def declare_states(engine: ec.Engine) -> None:
    """Views with states of every kind."""
    hits = engine.source(
        "hits",
        {"ip": pl.String, "bytes": pl.Int64, "share": pl.Float64, "at": pl.Datetime("us")},
        event_time="at",
        watermark=ec.bounded_delay("10m"),
        bounded=True,
    )
    users = engine.source("users", {"ip": pl.String, "name": pl.String}, kind="upsert", key="ip")
    engine.source("moves", {"n": pl.Int64}, kind="diffs")
    named = engine.view("named", hits.join(users, on="ip", how="left"))
    by_name = named.group_by("name").agg(
        hits=pl.len(), most=pl.col("bytes").max(), ips=pl.col("ip").n_unique(), share=pl.col("share").sum()
    )
    engine.view("names", by_name)
    engine.view("histogram", by_name.group_by("hits").agg(names=pl.len()))
    engine.view("top", hits.group_by("ip").top_k(2, by="bytes"))
    visits = (
        hits.window(ec.sessions("20m"))
        .trigger(ec.after_watermark(early=ec.after_count(2), late=ec.each_row()))
        .accumulate("retracting")
        .lateness("1h")
        .group_by("ip")
        .agg(pages=pl.len(), bytes=pl.col("bytes").sum())
    )
    engine.view("visits", visits)
    engine.view("hours", hits.window(ec.fixed("1h")).group_by("ip").agg(pl.len()))


def push_states(engine: ec.Engine, epoch: int) -> None:
    """One of the epochs of ``declare_states``."""
    rows = range(epoch * 6, epoch * 6 + 6)
    minutes = [(row * 17) % 50 + 30 * epoch - (200 if row % 11 == 0 else 0) for row in rows]
    hits = {
        "ip": [f"10.0.0.{row % 4}" for row in rows],
        "bytes": [row * row % 31 for row in rows],
        "share": [row / 10 for row in rows],
        "at": [NOON + timedelta(minutes=minute) for minute in minutes],
    }
    with engine.epoch(at=(NOON + timedelta(hours=epoch)).replace(tzinfo=UTC)):
        engine.push("hits", hits, position=epoch)
        engine.push("users", {"ip": [f"10.0.0.{epoch % 4}"], "name": [f"user {epoch % 3}"]}, position=epoch)
        engine.push("moves", {"n": [epoch, 99], "_diff": [1, -1]}, position=epoch)


# Every node, window, trigger and watermark that there is

EVENTS = {
    "k": pl.String(), "v": pl.Int64(), "x": pl.Float64(), "flag": pl.Boolean(), "more": pl.List(pl.Int64()),
    "at": pl.Datetime("us"),
}  # fmt: skip
WATERMARKS: dict[str, Any] = {
    "bounded": ec.bounded_delay("10m", future_limit="2h"),
    "ascending": ec.ascending(),
    "perfect": ec.perfect(),
    "behind": ec.behind_processing_time("1h"),
    "ingress": ec.ingress_time(),
    "punctuated": ec.punctuated("flag"),
    "parts": ec.by_partition("k", ec.bounded_delay("5m"), idle_after="30m"),
    "percentile": ec.percentile_watermark(0.5),
    "by hand": None,
}
WINDOWS: dict[str, Any] = {
    "fixed": ec.fixed("30m", offset="5m"),
    "shifted": ec.fixed("30m", shifted_by_key=True),
    "sliding": ec.sliding("40m", every="20m"),
    "sessions": ec.sessions("20m"),
    "calendar": ec.calendar("1d", time_zone="Europe/Berlin"),
    "global": ec.global_window(),
    "count": ec.count_window(2),
    "last": ec.last_rows(3),
    "own": ec.custom_windows(
        partial(pl.DataFrame.select, window_start=pl.col("at"), window_end=pl.col("at").dt.offset_by("10m"))
    ),
    "merged": ec.custom_windows(
        partial(pl.DataFrame.select, window_start=pl.col("at"), window_end=pl.col("at").dt.offset_by("10m")),
        ec.merge_overlapping,
    ),
}
TRIGGERS: dict[str, Any] = {
    "early and late": ec.after_watermark(early=ec.every("7m"), late=ec.each_row()),
    "at period": ec.repeat(ec.at_period("10m", aligned_to=NOON.replace(tzinfo=UTC))),
    "bytes": ec.repeat(ec.after_bytes(10, "v")),
    "punctuation": ec.repeat(ec.punctuation("flag")),
    "pattern": ec.repeat(ec.pattern("flag", "stop")),
    "share": ec.repeat(ec.after_percentile(0.9)),
    "signal": ec.repeat(ec.any_of(ec.signal(), ec.after_count(3))),
    "all": ec.repeat(ec.all_of(ec.after_count(2), ec.punctuation("flag"))),
    "sequence": ec.sequence(ec.after_count(1), ec.repeat(ec.after_count(2))),
    "until": ec.repeat(ec.until(ec.repeat(ec.after_count(1)), ec.after_bytes(20, "v"))),
    "own": ec.repeat(
        ec.custom_trigger(
            state=["seen"],
            on_rows=partial(pl.DataFrame.select, seen=pl.col("seen") + pl.col("rows")),
            should_fire=pl.DataFrame.is_unique,
            on_fire=partial(pl.DataFrame.select, seen=pl.col("seen") * 0),
            on_merge=partial(pl.DataFrame.select, seen=pl.col("seen")),
            name="own",
        )
    ),
}
"""By the names of the views that have them."""


def declare_nodes(engine: ec.Engine) -> None:
    """Views with every node of plans, every window, trigger, watermark and way to accumulate."""
    timed: dict[str, Any] = {
        name: engine.source(f"w {name}", EVENTS, event_time="at", watermark=watermark)
        for name, watermark in WATERMARKS.items()
    }
    _declare_rows(engine)
    _declare_windows(engine, timed)


def _declare_rows(engine: ec.Engine) -> None:
    a = engine.source(
        "a", {"k": pl.Int64, "x": pl.Int64, "p": pl.Struct({"q": pl.Int32})}, kind="diffs", retained=True
    )
    b = engine.source("b", {"k": pl.Int64, "y": pl.Float64}, kind="upsert", key="k")
    c = engine.source("c", {"k": pl.Int64, "x": pl.Int64}, kind="diffs", trusted=True)
    d = engine.source("d", {"k": pl.Int64, "l": pl.List(pl.Int64)}, kind="diffs", strict=True)
    plain = a.select("k", "x")
    engine.view("rows", a.filter(pl.col("x") > 0).unnest("p").with_columns(z=pl.col("x") * 2))
    engine.view("exploded", d.explode("l").unique())
    engine.view("mapped", plain.map_batches(partial(pl.DataFrame.drop_nulls, subset=["k"])))
    engine.view("difference", ec.concat([plain, c]).minus(plain.unique()))
    for how in ("inner", "left", "right", "full", "semi", "anti"):
        engine.view(f"{how} join", plain.join(b, on="k", how=how, nulls_equal=how == "full"))  # type: ignore[arg-type]
    engine.view("pairs", plain.join(plain, on="k"))
    grouped = plain.group_by("k").agg(
        n=pl.len(), filled=pl.col("x").count(), nulls=pl.col("x").null_count(), total=pl.col("x").sum(),
        mean=pl.col("x").mean(), spread=pl.col("x").std(), some=(pl.col("x") > 2).any(), least=pl.col("x").min(),
        different=pl.col("x").n_unique(), middle=pl.col("x").median(), every=pl.col("x").implode(),
        at_least=pl.col("x").filter(pl.col("x") > 1).max(),
    )  # fmt: skip
    engine.view("grouped", grouped)
    engine.view("grouped twice", grouped.group_by("n").agg(pl.col("total").sum(), keys=pl.col("k").max()))
    engine.view("all", c.group_by().agg(pl.col("x").sum()))
    engine.view("first ones", plain.group_by("k").top_k(1, by="x"))
    engine.view("last ones", b.bottom_k(2, by=["y", "k"]))


def _declare_windows(engine: ec.Engine, timed: dict[str, Any]) -> None:
    for name, source in timed.items():
        lateness = None if name == "by hand" else "20m"
        panes = source.window(ec.fixed("30m")).lateness(lateness).group_by("k").agg(n=pl.len())
        engine.view(f"half hours, {name}", panes)
    events = timed["bounded"].with_columns(stop=~pl.col("flag"))
    for name, window in WINDOWS.items():
        of_rows = name in ("count", "last", "merged")
        windowed = events.window(window)
        windowed = windowed if of_rows or name == "global" else windowed.lateness("1h")
        engine.view(f"window {name}", windowed.group_by("k").agg(n=pl.len(), v=pl.col("v").max()))
    for name, trigger in TRIGGERS.items():
        windowed = events.window(ec.fixed("30m")).trigger(trigger).lateness("1h")
        engine.view(f"trigger {name}", windowed.group_by("k").agg(n=pl.len(), v=pl.col("v").sum()))
    for mode in ("discarding", "accumulating", "retracting"):
        for name in ("sliding", "sessions"):
            windowed = events.window(WINDOWS[name]).trigger(
                TRIGGERS["early and late"], always=mode == "discarding"
            )
            panes = windowed.accumulate(mode).lateness("1h").with_pane_info()  # type: ignore[arg-type]
            engine.view(f"{mode} {name}", panes.group_by("k").agg(n=pl.len(), v=pl.col("v").min()))
    for stamp in ("start", "earliest", "latest", "watermark"):
        windowed = (
            events.window(ec.fixed("30m"), timestamp=stamp).trigger(ec.after_watermark()).lateness("0s")
        )  # type: ignore[arg-type]
        panes = windowed.group_by("k").agg(n=pl.len())
        engine.view(f"stamped {stamp}", panes)
    hours = events.window(ec.sessions("20m")).lateness("1h").group_by("k").agg(n=pl.len())
    engine.view("hours of sessions", hours.window(ec.fixed("1h")).group_by("n").agg(sessions=pl.len()))
    engine.view("late", events.window(ec.fixed("30m")).lateness("0s").late_rows())
    engine.view("in order", events.order_by_time().select("k", "at"))
    engine.view(
        "moved",
        timed["perfect"].with_event_time(pl.col("at").dt.offset_by("1d"), strict=True).select("k", "at"),
    )


def push_nodes(engine: ec.Engine, epoch: int) -> None:
    """One of the epochs of ``declare_nodes``."""
    with engine.epoch(at=(NOON + timedelta(minutes=20 * epoch)).replace(tzinfo=UTC)):
        for number, name in enumerate(WATERMARKS):
            in_order = name in ("perfect", "ascending")
            minutes = [
                20 * epoch + (row if in_order else row * 13 % 29 - (70 if row == 4 else 0))
                for row in range(6)
            ]
            rows = {
                "k": [f"key {(row + number) % 3}" for row in range(6)],
                "v": [(row * 7 + epoch) % 11 for row in range(6)],
                "x": [row / (epoch + 2) for row in range(6)],
                "flag": [(row + epoch) % 4 == 0 for row in range(6)],
                "more": [list(range(row % 3)) for row in range(6)],
                "at": [NOON + timedelta(minutes=minute) for minute in minutes],
            }
            engine.push(f"w {name}", rows)
        engine.push(
            "a",
            {
                "k": [epoch, 1, 2, 77], "x": [epoch * 2, 3, None, 1], "p": [{"q": 1}, {"q": 2}, None, {"q": 3}],
                "_diff": [1, 1 if epoch != 3 else -1, 1, -1],
            },
        )  # fmt: skip
        engine.push("b", {"k": [epoch % 3, 1], "y": [epoch / 2, -1.5]})
        engine.push("c", {"k": [epoch, 5], "x": [4, 4], "_diff": [2, 1 - epoch % 2 * 2]})
        engine.push("d", {"k": [epoch], "l": [[1, epoch, 1]], "_diff": [1]})


# Users' functions, which refer to what is ours


def declare_functions(engine: ec.Engine) -> None:
    """Views with functions and objects of users that refer to classes, objects and functions of the library."""
    rows = engine.source(
        "rows", {"k": pl.Int64, "x": pl.Int64, "at": pl.Datetime("us")}, event_time="at", bounded=True
    )
    window, kinds = ec.fixed("1h"), (ec.Engine, ec.InputError, ec.Retain, ec.after_count)

    def checked(frame: pl.DataFrame) -> pl.DataFrame:
        if window == ec.fixed("2h") or not kinds:
            raise ec.InputError("never")
        return frame.filter(pl.col("x") != 3)

    def merged(frame: pl.DataFrame) -> pl.DataFrame:
        return ec.merge_overlapping(frame)

    def opened(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.select(window_start="at", window_end=pl.col("at").dt.offset_by("10m"))

    def held(frame: pl.DataFrame) -> pl.DataFrame:
        return frame if engine is not None and rows is not None else frame.clear()

    functions: dict[str, Any] = {
        "create": int,
        "add": lambda n, values: n + values.sum(),
        "merge": lambda n, m: n + m,
        "extract": lambda n: n,
        "dtype": pl.Int64,
    }
    added = ec.aggregate(**functions)
    moved = ec.aggregate(**functions, remove=lambda n, values: n - values.sum())
    engine.view("checked", rows.map_batches(checked))
    engine.view("held", rows.map_batches(held).unique())
    engine.view("windows", rows.window(ec.custom_windows(opened, merged)).group_by("k").agg(n=pl.len()))
    engine.view("added", rows.group_by("k").agg(added(pl.col("x")).alias("a"), moved(pl.col("x")).alias("b")))


def push_functions(engine: ec.Engine, epoch: int) -> None:
    """One of the epochs of ``declare_functions``."""
    minutes = [epoch * 7 + row * 4 for row in range(6)]
    at = [NOON + timedelta(minutes=minute) for minute in minutes]
    engine.push(
        "rows", {"k": [row % 2 for row in range(6)], "x": [row + epoch for row in range(6)], "at": at}
    )


# First rows by decimals, which were kept as rows


def declare_decimals(engine: ec.Engine) -> None:
    """Views of first rows by decimals, alone and beside those by numbers, of sources that retract and that do not."""
    columns: dict[str, Any] = {
        "k": pl.Int64, "x": pl.Int64, "price": pl.Decimal(18, 2), "wide": pl.Decimal(38, 4), "flag": pl.Boolean,
        "at": pl.Datetime("us"),
    }  # fmt: skip
    x, price, wide = pl.col("x"), pl.col("price"), pl.col("wide")
    for kind in ("append", "diffs"):
        rows = engine.source(
            kind, columns, kind=kind, event_time="at", watermark=ec.bounded_delay("5m"),  # type: ignore[arg-type]
        )  # fmt: skip
        engine.view(f"{kind}: prices", rows.group_by("k").agg(price.max()))
        engine.view(f"{kind}: two", rows.group_by("k").agg(price.min(), x.max(), most=wide.max(), n=pl.len()))
        engine.view(
            f"{kind}: chosen", rows.group_by("flag").agg(price.filter(x > 4).max(), wide.sort_by("x").first())
        )
        engine.view(f"{kind}: sorted", rows.group_by("k").agg(x.sort_by(wide, descending=True).first()))
        engine.view(f"{kind}: all", rows.group_by().agg(price.max(), wide.min()))
        engine.view(f"{kind}: first", rows.group_by("k").top_k(1, by="price"))
        windows = rows.window(ec.fixed("10m")).lateness("10m")
        engine.view(f"{kind}: windows", windows.group_by("k").agg(price.max(), x.min()))


def push_decimals(engine: ec.Engine, epoch: int) -> None:
    """One of the epochs of ``declare_decimals``. The last ones touch some groups only."""
    chosen = range(24) if epoch < 3 else range(0, 24, 5)
    price = {row: (row * 37 + epoch * 11) % 50 - 25 for row in chosen}
    rows = {
        "k": [row % 7 for row in chosen],
        "x": [(row * 5 + epoch) % 9 for row in chosen],
        "price": [None if row == 11 else Decimal(cents).scaleb(-2) for row, cents in price.items()],
        "wide": [Decimal(cents * 10**20 + row).scaleb(-4) for row, cents in price.items()],
        "flag": [row % 3 == 0 for row in chosen],
        "at": [NOON + timedelta(minutes=7 * epoch + row % 5) for row in chosen],
    }
    gone = {name: [values[-1]] for name, values in rows.items()}
    with engine.epoch():
        engine.push("append", rows)
        engine.push("diffs", {**rows, "_diff": [1] * len(chosen)})
        engine.push("diffs", {**gone, "_diff": [-1]})


STATES = KeptProgram("checkpoint-1", declare_states, push_states)
STATES_IN_2 = KeptProgram("checkpoint-2", declare_states, push_states)
"""With records of format 2, in which the deltas of all epochs of a commit are with its states."""
NODES = KeptProgram("checkpoint-1-nodes", declare_nodes, push_nodes, kept_at=2, epochs=4)
NODES_BY_OURS = KeptProgram("checkpoint-2-nodes", declare_nodes, push_nodes, kept_at=2, epochs=4, form=2)
"""In checkpoints of format 2, whose keys are hashed by us and not by polars."""
FUNCTIONS = KeptProgram("functions", declare_functions, push_functions, form=2)
DECIMALS = KeptProgram("checkpoint-2-decimals", declare_decimals, push_decimals, form=2)
"""Written when a state held the first rows by decimals, and not their words."""
PROGRAMS = (STATES, STATES_IN_2, NODES, NODES_BY_OURS)
"""Those of which a checkpoint of an earlier scheme of digests is kept, written with polars 2.1."""
BY_OTHER_POLARS = tuple(
    KeptProgram(
        f"checkpoint-2-nodes-polars-{version}", declare_nodes, push_nodes, kept_at=2, epochs=4, form=2
    )
    for version in ("1.40", "2.0")
)
"""The same program, written with other versions of polars."""

BY_NAME = {program.folder: program for program in (*PROGRAMS, *BY_OTHER_POLARS, DECIMALS, FUNCTIONS)}
"""These, and those whose functions are others with every version of Python."""
