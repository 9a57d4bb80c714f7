"""A figure as tables for a terminal: what was measured, then the targets beside it."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.figure import Figure, Spread, Verdict

STYLES = {"aim met": "bold green", "pass": "green", "miss": "bold red", "not judged": "yellow"}


def show_machine(console: Console, facts: dict[str, str | int | float]) -> None:
    console.print(", ".join(f"{name} {value}" for name, value in facts.items()), highlight=False)
    if float(facts["load_1min"]) > 0.3 * float(facts["cores"]):
        console.print(
            "The machine was busy before the first run: do not quote these figures.", style="bold yellow"
        )


def show(console: Console, figure: Figure) -> None:
    sizes = ", ".join(f"{name} {size:,}" for name, size in figure.sizes.items())
    console.print(f"\n[bold]{figure.name}[/bold]: {escape(figure.title)}")
    if sizes:
        console.print(sizes, style="dim", highlight=False)
    console.print(_measured(figure))
    if figure.verdicts:
        console.print(_targets(figure.verdicts))
    for sentence in figure.wrong:
        console.print(f"wrong: {escape(sentence)}", style="bold red")


def _measured(figure: Figure) -> Table:
    titles = list(dict.fromkeys(title for line in figure.lines for title in line.ratios))
    table = Table()
    table.add_column("", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    for heading in ("median", "min", "max", *titles):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("note", overflow="fold")
    for line in figure.lines:
        ratios = [_median(line.ratios.get(title)) for title in titles]
        spread = line.spread
        least, greatest = (_number(spread.least), _number(spread.greatest)) if spread else ("-", "-")
        table.add_row(line.what, line.unit, _median(spread), least, greatest, *ratios, escape(line.note))
    return table


def _targets(verdicts: tuple[Verdict, ...]) -> Table:
    table = Table("target", "unit", "must be", "aim", "measured", "verdict")
    for verdict in verdicts:
        target = verdict.target
        word = f"[{STYLES[verdict.word]}]{verdict.word}[/]" + (
            f": {escape(verdict.why)}" if verdict.why else ""
        )
        table.add_row(
            target.what,
            target.unit,
            f"{target.sense} {target.limit:g}",
            "-" if target.aim is None else f"{target.aim:g}",
            "-" if verdict.value is None else _number(verdict.value),
            word,
        )
    return table


def _median(spread: Spread | None) -> str:
    return _number(spread.median) if spread else "-"


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"
