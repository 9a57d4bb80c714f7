"""The screens that show a run: a live one on a terminal, plain lines elsewhere."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from evercurrent.core.data.schema import DIFF, EPOCH, counted

from .tables import FittingChanges, FittingTable, duration, ordered, rate, span, texts

WIDE = 120
"""The least width in columns at which the view and its changes are side by side."""

REMARKS = 6
"""The number of remarks on the live screen; a low screen has half of them."""

LOWEST = 6
"""The least height of a panel in lines."""

LOW = 30
"""A low screen has fewer lines than this."""


Remarks = Callable[[], Sequence[str]]
"""Returns the application's remarks on the newest epoch; called only when they will be shown."""


@dataclass
class Tally:
    """The progress of a run."""

    rows: int = 0
    epochs: int = 0
    epoch: int = 0
    """The number of the newest epoch: larger than ``epochs`` where the application had pushed rows itself."""
    seconds: float = 0.0
    share: float | None = None
    """The share of the input that was read; None where it is not known."""
    first: Any = None
    """The earliest event time."""
    last: Any = None
    """The latest event time."""
    rows_of: dict[str, int] = field(default_factory=dict)
    """Rows by source."""
    resumed_at: int | None = None
    """The last epoch of an earlier run, if this one goes on there."""
    skipped: int = 0
    """Rows of the input that an earlier run had taken."""

    def see(self, times: pl.Series) -> None:
        """Widen the span of event times."""
        for time_seen in (times.min(), times.max()):
            if time_seen is not None:
                self.first = time_seen if self.first is None else min(self.first, time_seen)
                self.last = time_seen if self.last is None else max(self.last, time_seen)

    @property
    def left(self) -> float | None:
        """The seconds left at the rate so far."""
        return self.seconds * (1 - self.share) / self.share if self.share else None


@dataclass(frozen=True)
class Shown:
    """The view on the screen."""

    name: str
    read: Callable[[], pl.DataFrame]
    order: Sequence[str]
    bar: str | None = None

    def rows(self) -> pl.DataFrame:
        """The contents in the order of the screen."""
        return ordered(self.read(), self.order)


class Screen(Protocol):
    """Shows a run as it goes."""

    def epoch(self, tally: Tally, changes: pl.DataFrame | None, remarks: Remarks) -> None:
        """Show an epoch: what changed in the shown view, and the application's remarks."""
        ...

    def idle(self, tally: Tally) -> None:
        """Show that there is nothing to read now."""
        ...

    def note(self, sentence: str) -> None:
        """Show what happened between two epochs, such as new declarations: columns may be others from now on."""
        ...

    def close(self) -> None:
        """Release the terminal."""
        ...


class PlainScreen:
    """Prints lines: at the first epoch, at every tenth of the input, else every two seconds."""

    def __init__(self, console: Console, shown: Shown) -> None:
        self._console = console
        self._shown = shown
        self._tenths = 0
        self._printed_at = float("-inf")
        self._unprinted: tuple[Tally, pl.DataFrame | None, Remarks] | None = None
        self._waiting = False

    def epoch(self, tally: Tally, changes: pl.DataFrame | None, remarks: Remarks) -> None:
        self._waiting = False
        self._unprinted = (tally, changes, remarks)
        tenths = int((tally.share or 0) * 10)
        if tenths > self._tenths or time.monotonic() - self._printed_at >= 2 or tally.epochs == 1:
            self._tenths = tenths
            self._print_progress()

    def idle(self, tally: Tally) -> None:
        self._print_progress()
        if not self._waiting:
            self._print("waiting for new rows; Ctrl-C ends the run")
            self._waiting = True

    def note(self, sentence: str) -> None:
        self._print_progress()
        self._print(sentence)

    def close(self) -> None:
        self._print_progress()

    def _print_progress(self) -> None:
        """Print the progress and the news, unless they were printed already."""
        if self._unprinted is None:
            return
        tally, changes, remarks = self._unprinted
        self._unprinted = None
        self._printed_at = time.monotonic()
        self._print("  ".join(_facts(tally)))
        news = remarks() or ([] if changes is None else _lines(self._shown, changes))
        for line in news[:3]:
            self._print(f"    {line}")
        if len(news) > 3:
            self._print(f"    and {len(news) - 3} more")

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class LiveScreen:
    """A progress bar, the view, its last changes, other views and the application's remarks, in place.

    It is drawn at most ten times a second, and less often if reading the view takes more than a tenth of the time.
    """

    def __init__(self, console: Console, shown: Shown, beside: Sequence[Shown] = ()) -> None:
        self._console = console
        self._shown = shown
        self._beside = beside
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._live.start()
        self._changes: deque[pl.DataFrame] = deque(maxlen=20)
        self._remarks: deque[tuple[int, str]] = deque(
            maxlen=REMARKS if console.height >= LOW else REMARKS // 2
        )
        self._unasked: Remarks | None = None
        self._next_draw = 0.0
        self._waiting = False

    def epoch(self, tally: Tally, changes: pl.DataFrame | None, remarks: Remarks) -> None:
        self._waiting = False
        if changes is not None:
            self._changes.appendleft(changes)
        self._unasked = remarks
        if time.monotonic() >= self._next_draw:
            self._draw(tally)

    def idle(self, tally: Tally) -> None:
        if not self._waiting:
            self._waiting = True
            self._draw(tally)

    def note(self, sentence: str) -> None:
        self._changes.clear()
        self._live.console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self._live.stop()

    def _draw(self, tally: Tally) -> None:
        start = time.monotonic()
        if self._unasked is not None:
            self._remarks.extendleft((tally.epoch, line) for line in reversed(self._unasked()[:REMARKS]))
            self._unasked = None
        self._live.update(self._picture(tally), refresh=True)
        end = time.monotonic()
        self._next_draw = end + max(0.1, 10 * (end - start))

    def _picture(self, tally: Tally) -> RenderableType:
        parts: list[RenderableType] = [_progress(tally, waiting=self._waiting)]
        room = self._console.height - 3
        if self._remarks:
            parts.append(self._remarks_panel())
            room -= len(self._remarks) + 2
        side_by_side = self._console.width >= WIDE
        beside = self._beside if side_by_side and room >= 2 * LOWEST else ()
        height = max(room // 2 if beside or not side_by_side else room, LOWEST)
        panels = [_view_panel(self._shown, height), self._changes_panel(height)]
        if side_by_side:
            panels = [_in_a_row(panels)]
        if beside:
            panels.append(_in_a_row([_view_panel(each, room - height) for each in beside]))
        return Group(parts[0], *panels, *parts[1:])

    def _changes_panel(self, height: int) -> RenderableType:
        if not self._changes:
            return Text.assemble("last changes of ", (self._shown.name, "bold"), (": none yet", "dim"))
        rows = (ordered(delta, self._shown.order).head(height) for delta in self._changes)
        body = FittingChanges(pl.concat(rows), height - 3)
        return Panel(
            body, title=f"last changes of [bold]{self._shown.name}[/]", title_align="left", height=height
        )

    def _remarks_panel(self) -> RenderableType:
        lines = Table.grid(padding=(0, 2))
        for epoch, line in self._remarks:
            lines.add_row(Text(str(epoch), "dim"), Text(line, no_wrap=True, overflow="ellipsis"))
        return Panel(lines, title="remarks", title_align="left")


def _view_panel(shown: Shown, height: int) -> RenderableType:
    rows = shown.rows()
    if not rows.height:
        return Text.assemble((shown.name, "bold"), (": empty so far", "dim"))
    limit = height - 3
    cut = f", first {limit}" if rows.height > limit else ""
    title = f"[bold]{shown.name}[/] ({counted(rows.height)}{cut})"
    body = FittingTable(rows, limit, bar=shown.bar)
    return Panel(body, title=title, title_align="left", height=height)


def _in_a_row(panels: Sequence[RenderableType]) -> RenderableType:
    """Return panels side by side, equally wide."""
    grid = Table.grid(expand=True)
    for _ in panels:
        grid.add_column(ratio=1)
    grid.add_row(*panels)
    return grid


def _progress(tally: Tally, *, waiting: bool) -> RenderableType:
    line = Table.grid(padding=(0, 1), expand=True)
    line.add_column(ratio=1)
    line.add_column(justify="right", no_wrap=True)
    pulse = tally.share is None and not waiting
    bar = ProgressBar(total=1.0, completed=tally.share or 0.0, pulse=pulse, complete_style="cyan")
    percent = "" if tally.share is None else f"{tally.share:.0%}"
    note = Text("waiting for new rows; Ctrl-C ends the run", "yellow") if waiting else Text(percent)
    line.add_row(bar, note)
    return Group(line, Text("  ".join(_facts(tally)), no_wrap=True, overflow="ellipsis"))


def _facts(tally: Tally) -> list[str]:
    """Describe the progress: epoch, rows, rate, time left, event times."""
    facts = [f"epoch {tally.epoch:,}", counted(tally.rows), rate(tally.rows, tally.seconds)]
    if tally.share is not None and tally.left is not None and tally.share < 0.995:
        facts += [f"{tally.share:.0%}", f"{duration(tally.left)} left"]
    if tally.first is not None:
        facts.append(span(tally.first, tally.last))
    return facts


def _lines(shown: Shown, changes: pl.DataFrame) -> list[str]:
    """Return delta rows as lines."""
    rows = ordered(changes, shown.order)
    values = texts(rows.drop(EPOCH, DIFF)).iter_rows()
    return [f"{diff:+d}  {'  '.join(line)}" for diff, line in zip(rows[DIFF], values, strict=True)]
