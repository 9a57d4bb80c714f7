"""The summary at the end of a run."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from evercurrent.core.data.schema import counted

from .drivers import Driver
from .screens import Shown, Tally
from .tables import FittingTable, duration, rate, span

SUMMARY_ROWS = 10
"""The most rows of the shown view in the summary."""


def summary(
    tally: Tally,
    driver: Driver,
    shown: Sequence[Shown],
    written: Sequence[Path],
    refused: Sequence[str],
    notes: Sequence[str],
) -> RenderableType:
    """Return the summary: the shown views, counts and times, refused rows, and how many rows the views have."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    if tally.resumed_at is not None:
        facts.add_row(
            "resumed",
            f"after epoch {tally.resumed_at:,}; {counted(tally.skipped)} of the input were taken before",
        )
    each = ", ".join(f"{name} {rows:,}" for name, rows in tally.rows_of.items())
    facts.add_row("rows read", f"{tally.rows:,}" + (f" ({each})" if len(tally.rows_of) > 1 else ""))
    facts.add_row("epochs", f"{tally.epochs:,}")
    facts.add_row("time", f"{duration(tally.seconds)}, {rate(tally.rows, tally.seconds)}")
    if tally.first is not None:
        facts.add_row("event time", span(tally.first, tally.last))
    for number, line in enumerate(refused or ["no row"]):
        facts.add_row("" if number else "refused", Text(line))
    for number, (name, view) in enumerate(driver.views.items()):
        facts.add_row("" if number else "views", Text(f"{name}: {counted(view.read().height)}"))
    for number, path in enumerate(written):
        facts.add_row("" if number else "written", Text(str(path)))
    for number, note in enumerate(notes):
        facts.add_row("" if number else "note", Text(note, "yellow"))
    tables = [part for each in shown for part in ("", _first_rows(each))]
    return Group(*tables, "", facts)


def _first_rows(shown: Shown) -> RenderableType:
    rows = shown.rows()
    title = shown.name
    if not rows.height:
        return Text.assemble((title, "bold"), (": empty", "dim"))
    if rows.height > SUMMARY_ROWS:
        title += f", the first {SUMMARY_ROWS} of {counted(rows.height)}"
    return FittingTable(rows, SUMMARY_ROWS, title, shown.bar)
