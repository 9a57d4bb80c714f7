"""The door of the benchmarks: `python bench/run.py` or `python -m bench`, from anywhere.

Runs the figures that are named, prints a table of each with its targets, and writes everything as JSON. The exit
code is 1 when a result was wrong or a program of ours failed; a missed target is printed and is no failure.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

if __package__ in (None, ""):
    # Started as a file: let the modules beside it be found as `bench.…`, and not by their bare names.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import typer
from rich.console import Console

from bench import machine, table
from bench.child import ROOT
from bench.figure import Figure, Settings
from bench.figures import FIGURES
from bench.figures.chain import ROWS

RESULTS = ROOT / "bench" / "results"
RETAIL = ROOT.parent / "shared" / "data" / "online_retail.parquet"
BULKY = ("histogram", "steps")
"""Fields of replies that were checked and are not worth keeping."""

app = typer.Typer(add_completion=False)


@app.command()
def bench(
    only: Annotated[
        list[str] | None, typer.Option(help=f"A figure, repeatable: {', '.join(FIGURES)}.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Rows of the chain; judged at 2,000,000 only.")] = None,
    json_path: Annotated[Path | None, typer.Option("--json", help="Where to write the JSON.")] = None,
    peers: Annotated[bool, typer.Option(help="Run engines that need an environment of their own.")] = True,
    quick: Annotated[
        bool, typer.Option(help="Small sizes and one run: to see that everything runs.")
    ] = False,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each contender.")] = 3,
    retail: Annotated[Path, typer.Option(help="The parquet file of the retail figure.")] = RETAIL,
    timeout: Annotated[float, typer.Option(help="Seconds that one run may take.")] = 900,
) -> None:
    """Measure evercurrent, beside others, on this machine."""
    names = only or list(FIGURES)
    if unknown := [name for name in names if name not in FIGURES]:
        raise typer.BadParameter(
            f"no figure {', '.join(unknown)}; there are {', '.join(FIGURES)}", param_hint="--only"
        )
    console, progress = _console(), Console(stderr=True)
    facts = machine.facts()
    began = datetime.now(UTC)
    table.show_machine(console, facts)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="bench-") as workspace, progress.status("") as status:
        settings = Settings(
            runs=1 if quick else runs,
            timeout=timeout,
            quick=quick,
            peers=peers,
            rows=rows or (ROWS // 10 if quick else ROWS),
            retail=retail,
            workspace=Path(workspace),
            report=status.update,
        )
        for name in names:
            figures.append(FIGURES[name](settings))
            table.show(console, figures[-1])
    path = json_path or RESULTS / f"{began:%Y%m%d-%H%M%S}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "began": began.isoformat(),
        "machine": facts,
        "quick": quick,
        "figures": list(map(_plain, figures)),
    }
    path.write_text(json.dumps(report, indent=2) + "\n")
    console.print(f"\nwritten to {path}", highlight=False)
    raise typer.Exit(1 if any(figure.wrong for figure in figures) else 0)


def _console() -> Console:
    """As wide as the terminal; in a file or a pipe wide enough for the tables."""
    console = Console()
    return console if console.is_terminal else Console(width=140)


def _plain(figure: Figure) -> dict[str, Any]:
    plain = asdict(figure)
    for several in plain["outcomes"].values():
        for outcome in several:
            for field in BULKY:
                outcome["reply"].pop(field, None)
    return plain


if __name__ == "__main__":
    app()
