"""Frames as rich tables, and numbers as people read them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import polars as pl
from rich.bar import Bar
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from evercurrent.core.data.columns.json_texts import as_text, is_far
from evercurrent.core.data.schema import DIFF, EPOCH


def ordered(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Sort rows by these columns, ``-name`` in descending order, and then by all others that can be compared.

    Their order is then independent of how they were computed.
    """
    names = [name.removeprefix("-") for name in by]
    falling = [name.startswith("-") for name in by]
    others = [
        name
        for name, dtype in rows.schema.items()
        if name not in names and not dtype.is_nested() and dtype != pl.Object
    ]
    if not names and not others:
        return rows
    return rows.sort(
        [*names, *others],
        descending=[*falling, *(False for _ in others)],
        nulls_last=True,
        maintain_order=True,
    )


NARROWEST = 8
"""The least width to which a column of texts is cut."""

GAP = 2
"""The spaces between two columns."""

BAR = 20
"""The width of the longest bar."""


def table_of(rows: pl.DataFrame, limit: int, *, title: str | None = None, bar: str | None = None) -> Table:
    """Return the first rows of a frame as a table, with bars from zero for the values of the column ``bar``."""
    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim"
    )
    shown = rows.head(limit)
    for name, dtype in shown.schema.items():
        _add_column(table, name, dtype)
    bars: list[list[Bar]] = [[]] * shown.height
    if bar is not None:
        table.add_column()
        lengths = shown[bar].fill_null(0).cast(pl.Float64).clip(lower_bound=0).to_list()
        longest = max(lengths, default=0.0) or 1.0
        bars = [[Bar(longest, 0, length, width=BAR, color="cyan")] for length in lengths]
    for line, drawn in zip(texts(shown).iter_rows(), bars, strict=True):
        table.add_row(*map(_cell, line), *drawn)
    return table


@dataclass(frozen=True)
class FittingTable:
    """``table_of``, without the last columns where a terminal has no room for all: at least the first one is shown."""

    rows: pl.DataFrame
    limit: int
    title: str | None = None
    bar: str | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table for this width."""
        names = fitting(self.rows.head(self.limit), options.max_width)
        left_out = self.rows.width - len(names)
        bar = None if left_out else self.bar
        more = f" ({left_out} column{'s' if left_out > 1 else ''} more)" if left_out else ""
        title = f"{self.title or ''}{more}" or None
        yield table_of(self.rows.select(names) if left_out else self.rows, self.limit, title=title, bar=bar)


@dataclass(frozen=True)
class FittingChanges:
    """Delta rows as a table, the newest epoch first: added rows in green, retracted ones in red.

    The epoch and the diff are shown whole; the last columns are left out where a terminal has no room for all.
    """

    deltas: pl.DataFrame
    limit: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table for this width."""
        shown = self.deltas.head(self.limit)
        epochs = [str(epoch) for epoch in shown[EPOCH]]
        diffs = [f"{diff:+d}" for diff in shown[DIFF]]
        longest_diff = max(map(len, diffs), default=0)
        reserved = max(map(len, ("epoch", *epochs))) + longest_diff + 2 * GAP
        rows = shown.drop(EPOCH, DIFF)
        columns = fitting(rows, options.max_width - reserved)
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("epoch", justify="right", style="dim", no_wrap=True)
        table.add_column("", justify="right", no_wrap=True, min_width=longest_diff)
        for name in columns:
            _add_column(table, name, rows.schema[name])
        lines = texts(rows.select(columns)).iter_rows()
        for epoch, diff, line in zip(epochs, diffs, lines, strict=True):
            style = "green" if diff.startswith("+") else "red"
            table.add_row(epoch, Text(diff, style), *(_cell(value, style) for value in line))
        yield table


def fitting(rows: pl.DataFrame, room: int) -> list[str]:
    """Return the first columns for which there is room, at least one: numbers whole, texts cut to ``NARROWEST``.

    >>> fitting(pl.DataFrame({"name": ["a long one"], "n": [1234567], "more": ["text"]}), 18)
    ['name', 'n']
    """
    names: list[str] = []
    for name, column in zip(rows.columns, texts(rows).get_columns(), strict=True):
        longest = max([cell_len(name), *map(cell_len, column)])
        room -= (longest if rows.schema[name].is_numeric() else min(longest, NARROWEST)) + GAP * bool(names)
        if names and room < 0:
            break
        names.append(name)
    return names


def _add_column(table: Table, name: str, dtype: pl.DataType) -> None:
    """Add a column; texts are cut if there is no room, numbers never."""
    is_number = dtype.is_numeric()
    table.add_column(_cell(name), justify="right" if is_number else "left", no_wrap=is_number)


def _cell(value: str, style: str = "") -> Text:
    return Text(value, style, no_wrap=True, overflow="ellipsis")


def texts(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the values as strings: floats with two decimals and separated thousands, times without empty fractions."""
    return pl.DataFrame([_text(column) for column in rows.get_columns()])


def _text(column: pl.Series) -> pl.Series:
    dtype = column.dtype
    if isinstance(dtype, pl.Duration) or is_far(column):
        return as_text(column).fill_null("null")
    if dtype.is_float():
        return pl.Series(column.name, [amount(value) for value in column], dtype=pl.String)
    if isinstance(dtype, pl.Datetime):
        return column.dt.to_string("%Y-%m-%d %H:%M:%S%.f").str.strip_suffix(".000000").fill_null("null")
    if dtype.is_nested() or dtype in (pl.Binary, pl.Object):
        try:
            return pl.Series(column.name, [str(value) for value in column], dtype=pl.String)
        except (OverflowError, ValueError):  # The time is beyond Python's calendar.
            return as_text(column).fill_null("null")
    return column.cast(pl.String).fill_null("null")


def amount(value: float | None) -> str:
    """Return a number with two decimals, or with more where these would be zero.

    >>> amount(1234.5), amount(0.00012), amount(-0.001), amount(0.0)
    ('1,234.50', '0.00012', '-0.001', '0.00')
    """
    if value is None:
        return "null"
    return f"{value:.3g}" if 0 < abs(value) < 0.01 else f"{value:,.2f}"


def rate(rows: int, seconds: float) -> str:
    """Return rows per second, to three digits.

    >>> rate(1234567, 1.0), rate(50, 10.0)
    ('1,230,000 rows/s', '5 rows/s')
    """
    each = rows / max(seconds, 1e-9)
    return f"{int(float(f'{each:.3g}')):,} rows/s"


def duration(seconds: float) -> str:
    """Return a span of time as text: seconds with one decimal when it is short, else as a clock shows it.

    >>> duration(4.26), duration(75)
    ('4.3 s', '0:01:15')
    """
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))


def span(first: object, last: object) -> str:
    """Return the span of event times as text, to the second."""
    return f"{str(first)[:19]} to {str(last)[:19]}"
