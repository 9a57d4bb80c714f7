"""Draws the figures of ``figures.md`` from runs of the engine: ``python docs/make_figures.py`` writes them all anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
from ten_rows import CURVES, EXTRA, FIRST_ORDER, NOTHING_MORE, SECOND_ORDER, Seen, happened, seen

import evercurrent as ec

FOLDER = Path(__file__).resolve().parent / "figures"
FIRST_MINUTE, LAST_MINUTE = seen("12:05:00"), seen("12:10:00")
SCHEMA = {"team": pl.String, "value": pl.Int64, "at": pl.Datetime("us")}
MINUTE = timedelta(minutes=1)

EARLY_AND_LATE = {"early": ec.every("1m"), "late": ec.each_row()}
"""Fire every minute, when the watermark passes, and at every row that comes after that."""

Pipeline = Callable[[ec.Collection], ec.Collection]
"""From the rows of the source to the collection of the view."""


@dataclass(frozen=True)
class Figure:
    """A run and how it is drawn.

    ``curve`` names how the watermark moves; None: it does not, "end": it goes to the end of time when all is read,
    "ingress": event time is the time of arrival. ``is_small``: to stand beside others.
    """

    name: str
    title: str
    subtitle: str
    pipeline: Pipeline
    curve: str | None = "heuristic"
    rows: Sequence[Seen] = FIRST_ORDER
    until: datetime = LAST_MINUTE
    is_small: bool = False

    def svg(self) -> str:
        """The run, drawn."""
        size: dict[str, Any] = {"width": 450, "height": 300, "legend": False} if self.is_small else {}
        timeline = played(self).timeline(
            "total", label="value", title=self.title, subtitle=self.subtitle, **size
        )
        return timeline.svg() + "\n"


def totals(
    windows: Any, *, trigger: Any = None, mode: str = "retracting", lateness: str | None = None, **when: Any
) -> Pipeline:
    """The sum of the values of a team in each window."""

    def pipeline(rows: ec.Collection) -> ec.Collection:
        windowed = rows.window(windows).trigger(trigger, **when) if trigger or when else rows.window(windows)
        panes = windowed.accumulate(mode).lateness(lateness).with_pane_info()
        return panes.group_by("team").agg(total=pl.col("value").sum())

    return pipeline


def played(figure: Figure) -> ec.View:
    """The view after the run of a figure: rows one by one as they are seen, the watermark by its curve, every minute."""
    engine = ec.Engine(record=True)
    watermark = ec.ingress_time() if figure.curve == "ingress" else None
    rows = engine.source("scores", SCHEMA, event_time="at", watermark=watermark, bounded=True)
    view = engine.view("totals", figure.pipeline(rows))
    for at, step in steps(figure):
        if isinstance(step, Seen):
            row = {"team": ["blue"], "value": [step.value], "at": [step.event_time]}
            engine.push("scores", pl.DataFrame(row, schema=SCHEMA), at=at)
        elif step is None:
            engine.tick(at=at)
        else:
            engine.advance("scores", step, at=at)
    return view


Step = Seen | datetime | int | None
"""A row, a watermark, or None where only time passes."""


def steps(figure: Figure) -> Iterator[tuple[datetime, Step]]:
    """What happens in a run, in order; where the watermark moves at a full minute, that is one epoch."""
    happens: list[tuple[datetime, Step]] = [(row.processing_time, row) for row in figure.rows]
    moves: Sequence[tuple[datetime, Step]] = CURVES.get(figure.curve or "", ())
    if figure.curve == "end":
        moves = [(NOTHING_MORE, ec.END_OF_TIME)]
    happens += [move for move in moves if move[0] <= figure.until]
    moved = {at for at, _ in happens}
    minute = FIRST_MINUTE
    while minute <= figure.until:
        happens += [(minute, None)] if minute not in moved else []
        minute += MINUTE
    return iter(sorted(happens, key=lambda step: step[0]))


FIXED = ec.fixed("2m")
WATERMARK = {"trigger": ec.after_watermark()}

FIGURES = (
    Figure(
        "paper-05-inputs",
        "The ten rows and the watermark",
        "one window for all of time, and the watermark never passes it, so no pane fires (paper, figure 5)",
        totals(ec.global_window(), **WATERMARK, lateness="0s"),
    ),
    Figure(
        "paper-06-batch",
        "Classic batch",
        "all of time, one pane when everything has been read (paper, figure 6; Streaming 102, figure 2)",
        totals(ec.global_window(), **WATERMARK, lateness="0s"),
        curve="end",
    ),
    Figure(
        "paper-07-global-every-minute-accumulating",
        "All of time, every minute, accumulating",
        "every pane has the sum so far (paper, figure 7)",
        totals(ec.global_window(), trigger=ec.every("1m"), mode="accumulating"),
    ),
    Figure(
        "paper-08-global-every-minute-discarding",
        "All of time, every minute, discarding",
        "every pane has the sum since the last one: windows of processing time (paper, figure 8)",
        totals(ec.global_window(), trigger=ec.every("1m"), mode="discarding"),
    ),
    Figure(
        "paper-09-global-every-two-rows",
        "All of time, every two rows, discarding",
        "windows of two rows each (paper, figure 9)",
        totals(ec.global_window(), trigger=ec.repeat(ec.after_count(2)), mode="discarding"),
    ),
    Figure(
        "paper-10-fixed-batch",
        "Windows of two minutes, batch",
        "one pane for each window when everything has been read (paper, figure 10; Streaming 102, figure 4)",
        totals(FIXED, **WATERMARK, lateness="0s", mode="accumulating"),
        curve="end",
    ),
    Figure(
        "paper-11-fixed-micro-batch",
        "Windows of two minutes, micro-batches of one minute",
        "every minute a pane for each window that has changed (paper, figure 11)",
        totals(FIXED, trigger=ec.every("1m"), mode="accumulating"),
        curve=None,
    ),
    Figure(
        "paper-12-fixed-streaming",
        "Windows of two minutes, streaming",
        "a pane when the watermark passes, and another for the late 9 (paper, figure 12)",
        totals(FIXED, late=ec.each_row(), mode="accumulating"),
    ),
    Figure(
        "paper-13-fixed-early-and-late",
        "Early and late panes, accumulating",
        "panes every minute, when the watermark passes, and for late rows (paper, figure 13; Streaming 102, 7 right)",
        totals(FIXED, **EARLY_AND_LATE, mode="accumulating"),
    ),
    Figure(
        "paper-14-sessions-retracting",
        "Sessions with a gap of one minute, retracting",
        "a session that grows retracts the sessions it was merged from (paper, figure 14; Streaming 102, figure 17)",
        totals(ec.sessions("1m"), **EARLY_AND_LATE),
    ),
    Figure(
        "s102-06-left-perfect-watermark",
        "Perfect watermark",
        "nothing is late, and everything waits for the 9 (Streaming 102, figure 6 left)",
        totals(FIXED, **WATERMARK, lateness="0s", mode="accumulating"),
        curve="perfect",
        is_small=True,
    ),
    Figure(
        "s102-06-right-heuristic-watermark",
        "Heuristic watermark",
        "one pane for each window, and the late 9 is lost (Streaming 102, figure 6 right)",
        totals(FIXED, **WATERMARK, lateness="0s", mode="accumulating"),
        is_small=True,
    ),
    Figure(
        "s102-07-left-early-and-late",
        "Early and late panes, perfect watermark",
        "as with the heuristic watermark, and no pane is late (Streaming 102, figure 7 left)",
        totals(FIXED, **EARLY_AND_LATE, mode="accumulating"),
        curve="perfect",
    ),
    Figure(
        "s102-08-allowed-lateness",
        "Allowed lateness of one minute",
        "a late 6 is taken in, the 9 comes after its window has closed (Streaming 102, figure 8)",
        totals(FIXED, **EARLY_AND_LATE, mode="accumulating", lateness="1m"),
        rows=(*FIRST_ORDER, EXTRA),
    ),
    Figure(
        "s102-09-discarding",
        "Early and late panes, discarding",
        "every pane has the sum since the last one (Streaming 102, figure 9)",
        totals(FIXED, **EARLY_AND_LATE, mode="discarding"),
    ),
    Figure(
        "s102-10-retracting",
        "Early and late panes, retracting",
        "every pane retracts the one before (Streaming 102, figure 10)",
        totals(FIXED, **EARLY_AND_LATE),
    ),
    Figure(
        "s102-12-second-order",
        "The ten rows in another order of arrival",
        "the same values and event times, seen at other times (Streaming 102, figure 12)",
        totals(ec.global_window(), **WATERMARK, lateness="0s"),
        curve="second",
        rows=SECOND_ORDER,
    ),
    Figure(
        "s102-13-left-event-time",
        "Windows of event time, first order",
        "early and late panes, accumulating (Streaming 102, figure 13 left)",
        totals(FIXED, **EARLY_AND_LATE, mode="accumulating"),
        is_small=True,
    ),
    Figure(
        "s102-13-right-event-time",
        "Windows of event time, second order",
        "other panes on the way, and in the end the same sums: 14, 22, 3, 12 (Streaming 102, figure 13 right)",
        totals(FIXED, **EARLY_AND_LATE, mode="accumulating"),
        curve="second",
        rows=SECOND_ORDER,
        until=seen("12:11:00"),
        is_small=True,
    ),
    Figure(
        "s102-14-left-processing-time",
        "Processing time by a trigger",
        "all of time, every two minutes, discarding (Streaming 102, figure 14 left)",
        totals(ec.global_window(), trigger=ec.every("2m"), mode="discarding"),
        is_small=True,
    ),
    Figure(
        "s102-14-right-processing-time",
        "Processing time by a trigger, second order",
        "other sums than in the first order (Streaming 102, figure 14 right)",
        totals(ec.global_window(), trigger=ec.every("2m"), mode="discarding"),
        curve="second",
        rows=SECOND_ORDER,
        until=seen("12:12:00"),
        is_small=True,
    ),
    Figure(
        "s102-15-left-ingress-time",
        "Processing time by ingress time",
        "event time is the time of arrival, windows of two minutes (Streaming 102, figure 15 left)",
        totals(FIXED, **WATERMARK, lateness="0s", mode="accumulating"),
        curve="ingress",
        is_small=True,
    ),
    Figure(
        "s102-15-right-ingress-time",
        "Processing time by ingress time, second order",
        "the sums of the trigger, and not those of the first order (Streaming 102, figure 15 right)",
        totals(FIXED, **WATERMARK, lateness="0s", mode="accumulating"),
        curve="ingress",
        rows=SECOND_ORDER,
        until=seen("12:12:00"),
        is_small=True,
    ),
    Figure(
        "s102-16-sessions-merging",
        "How sessions merge",
        "a pane at every row: each begins as a session of its own (after Streaming 102, figure 16)",
        totals(ec.sessions("1m"), trigger=ec.each_row()),
    ),
)

NINE = (
    ("batch", "Classic batch", "paper-06-batch"),
    ("fixed-batch", "Fixed windows, batch", "paper-10-fixed-batch"),
    ("fixed-streaming", "Fixed windows, watermark", "s102-06-right-heuristic-watermark"),
    ("discarding", "Early and late, discarding", "s102-09-discarding"),
    ("accumulating", "Early and late, accumulating", "paper-13-fixed-early-and-late"),
    ("retracting", "Early and late, retracting", "s102-10-retracting"),
    ("processing-time", "Processing time, trigger", "s102-14-left-processing-time"),
    ("ingress-time", "Processing time, ingress", "s102-15-left-ingress-time"),
    ("sessions", "Sessions, retracting", "paper-14-sessions-retracting"),
)
"""The nine variations of Streaming 102, figure 18; three of them are its figure 11."""


def small(name: str, title: str, of: str) -> Figure:
    """A figure small enough to stand beside others."""
    (full_size,) = (figure for figure in FIGURES if figure.name == of)
    return replace(full_size, name=f"small-{name}", title=title, subtitle="", is_small=True)


def skewed() -> str:
    """A watermark that runs behind: an hour of rows, of which those of twenty minutes meet a stoppage."""
    engine = ec.Engine(record=True)
    rows = engine.source("scores", SCHEMA, event_time="at", watermark=ec.bounded_delay("2m"), bounded=True)
    view = engine.view("totals", totals(ec.global_window(), **WATERMARK, lateness="0s")(rows))
    late: list[tuple[datetime, datetime]] = []
    for number in range(240):
        at = seen("12:00:00") + timedelta(seconds=15 * number)
        stoppage = max(0, 8 - abs(number - 110) // 6)
        delay = timedelta(minutes=stoppage, seconds=5 + number * 37 % 100)
        late.append((at + delay, at.replace(tzinfo=None)))
    for at, event_time in sorted(late):
        row = {"team": ["blue"], "value": [1], "at": [event_time]}
        engine.push("scores", pl.DataFrame(row, schema=SCHEMA), at=at)
    subtitle = (
        "how far the watermark is from the ideal one is the skew (paper, figure 2; Streaming 102, figure 5)"
    )
    return view.timeline("total", title="Event time and processing time", subtitle=subtitle).svg() + "\n"


def sessions_by_team() -> str:
    """Sessions belong to a key: three teams, three sets of windows."""
    engine = ec.Engine(record=True)
    rows = engine.source("scores", SCHEMA, event_time="at", watermark=ec.bounded_delay("1m"))
    view = engine.view("totals", totals(ec.sessions("2m"), **WATERMARK, lateness="0s")(rows))
    played_at = {"blue": (0, 40, 75, 420, 450), "green": (120, 200, 290, 380, 440), "red": (20, 330, 345)}
    for second, team in sorted((second, team) for team, seconds in played_at.items() for second in seconds):
        event_time = happened("12:00:00") + timedelta(seconds=second)
        row = {"team": [team], "value": [1 + second % 7], "at": [event_time]}
        at = seen("12:00:00") + timedelta(seconds=second + 10 + second % 13)
        engine.push("scores", pl.DataFrame(row, schema=SCHEMA), at=at)
    engine.advance("scores", ec.END_OF_TIME, at=seen("12:11:00"))
    subtitle = (
        "rows of a team less than two minutes apart (after the paper, figure 1; Streaming 102, figure 3)"
    )
    return view.timeline("total", label="value", title="Sessions by team", subtitle=subtitle).svg() + "\n"


def drawings() -> Iterator[tuple[str, str]]:
    """The name of each file, and what is in it."""
    yield "skew.svg", skewed()
    yield "sessions-by-team.svg", sessions_by_team()
    for figure in (*FIGURES, *(small(*each) for each in NINE)):
        yield f"{figure.name}.svg", figure.svg()


def main() -> None:
    """Write all figures."""
    FOLDER.mkdir(exist_ok=True)
    for name, drawing in drawings():
        (FOLDER / name).write_text(drawing, encoding="utf-8", newline="\n")
        print(FOLDER / name)


if __name__ == "__main__":
    main()
